"""Arrays of a few sizes in place of every size there is, so that a scan over sizes is not compiled again and again.

A walk through a layer coupled to itself visits its neurons one by one, and each chain has random numbers of its own. Zeros for
neurons, patterns and chains that are not there change none of that: the numbers are those of arrays that just fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Equilibrium
from equilibria.model.network import Layer, Network, State

_CHAINS = (16, 64, 256)
# Visits of a neuron by a chain: some tenths of a second. Longer runs are compiled for their own shape, and run faster.
_MOST_VISITS = 10**7
_TO_REST = 20  # sweeps that a walk with a tolerance may take


class Room(NamedTuple):
    """A layer in arrays of one of a few sizes.

    Attributes:
        system: the network with room for more neurons and patterns.
        state: with more chains, copies of the first.
        shape: what was asked for, (chains, neurons) or (neurons,).
    """

    system: Conditioned
    state: State
    shape: tuple[int, ...]

    def fill(self, values: np.ndarray) -> np.ndarray:
        """An array (..., neurons) in the shape of the state, with zeros for neurons that are not there."""
        ((chains, neurons),) = {layer.shape for layer in self.state.values()}
        rows = np.atleast_2d(np.asarray(values))
        rows = np.pad(rows, ((0, 0), (0, neurons - rows.shape[-1])))
        return np.concatenate([rows, np.repeat(rows[:1], chains - len(rows), axis=0)])

    def cut(self, rest: Equilibrium) -> Equilibrium:
        """The equilibrium without what is not there."""
        chains = self.shape[:-1]

        def first(values: Any) -> Any:
            if values is None or not values.ndim:
                return values
            return array(np.asarray(values)[: chains[0]] if chains else np.asarray(values)[0], values.dtype)

        state = {name: array(np.asarray(first(layer))[..., : self.shape[-1]]) for name, layer in rest.state.items()}
        steps, result, residual = map(first, (rest.steps, rest.result, rest.residual))
        return Equilibrium(state, steps, result, residual, rest.info, rest.carry)


def room(how: Equilibrator, system: Conditioned, state: State) -> Room | None:
    """The same in arrays of one of a few sizes, where that leaves the numbers as they are and costs little; else None."""
    if system.clamps or system.nudges or len(system.network.layers) > 1 or not how.leaves_room(system):
        return None
    (layer,), (given,) = system.network.layers, state.values()
    chains = given.shape[0] if given.ndim == 2 else 1
    steps = int(how.steps) if how.tolerance is None else min(int(how.steps), _TO_REST)
    small = chains <= _CHAINS[-1] and steps * chains * layer.size <= _MOST_VISITS
    plain = given.ndim <= 2 and layer.bias.ndim == 1 and not any(leaf.ndim for leaf in jax.tree.leaves(layer.unit))
    couplings = [coupling.roomy() for coupling in system.network.couplings] if small and plain else [None]
    fitting = [coupling for coupling in couplings if coupling is not None]
    if len(fitting) < len(couplings) or len({coupling.shape for coupling in fitting}) > 1:
        return None
    bias = np.pad(np.asarray(layer.bias), (0, fitting[0].shape[0] - layer.size))
    network = Network([Layer(layer.name, layer.unit, bias)], fitting)
    count = next(size for size in _CHAINS if size >= chains)
    rows = np.empty((count, fitting[0].shape[0]), np.float32)
    temperature = np.broadcast_to(np.asarray(system.temperature), (chains,))
    temperature = np.concatenate([temperature, np.repeat(temperature[:1], count - chains)])
    wide = Conditioned(network, network, {}, {}, {}, array(temperature))
    found = Room(wide, {layer.name: array(rows)}, given.shape)
    return found._replace(state={layer.name: array(found.fill(np.asarray(given)))})
