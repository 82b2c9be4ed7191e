"""The phases of a recipe, and what every rule of a network has in common: its data by layer, what it learns, its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.learn.rule import Rule
from equilibria.model.missing import check_columns, held, parted
from equilibria.model.network import Network, State, by_layer
from equilibria.model.normalisable import unbounded
from equilibria.model.world import Clamp, Cost, Nudge, squared_error

Start = Literal["data", "rest", "random", "chains", "particles", "base"]


class Phase(eqx.Module):
    """One equilibrium of a recipe: what is imposed, how it is reached, and from where.

    Args:
        how: how it is reached.
        hold: clamps no data, the "inputs" (all data but the last layer, which is the target) or "all" data.
        start: where the phase begins: at the "data", at "rest" (the mode at zero field), at "random", where the recipe's
            "chains" or the example's "particles" were left, or at the "base" phase's end.
        nudge: pulls the target layer towards the data.
        temperature: of the phase.
        cost: what the nudge weighs.

    >>> import equilibria as eq
    >>> Phase(eq.Sweeps(1), hold="all").start
    'data'
    """

    how: Equilibrator
    hold: Literal["none", "inputs", "all"] = eqx.field(static=True)
    start: Start = eqx.field(static=True)
    nudge: Array | None
    temperature: Array
    cost: Cost = eqx.field(static=True)

    def __init__(
        self,
        how: Equilibrator,
        hold: Literal["none", "inputs", "all"] = "none",
        start: Start = "data",
        nudge: ArrayLike | None = None,
        temperature: ArrayLike = 1.0,
        cost: Cost = squared_error,
    ):
        self.how, self.hold, self.start, self.cost = how, hold, start, cost
        self.nudge = None if nudge is None else array(nudge)
        self.temperature = array(temperature)

    def world(self, data: Mapping[str, Array], target: str) -> list[Clamp | Nudge]:
        """What is imposed on the network when these data are shown."""
        shown = {"none": [], "inputs": [name for name in data if name != target], "all": list(data)}[self.hold]
        clamps: list[Clamp | Nudge] = [held(name, data[name]) for name in shown]
        return clamps if self.nudge is None else [*clamps, Nudge(target, data[target], self.nudge, self.cost)]


def trainable(network: Network) -> Network:
    """Which leaves learning changes: biases and couplings, not the units' own parameters.

    >>> from equilibria import Gaussian, rbm
    >>> mask = trainable(rbm(3, 2, hidden=Gaussian(), key=0))
    >>> mask.layers[1].unit.stiffness, mask.layers[1].bias
    (False, True)
    """
    everything = jax.tree.map(eqx.is_inexact_array, network)
    units = jax.tree.map(lambda _: False, [layer.unit for layer in network.layers])
    return eqx.tree_at(lambda net: [layer.unit for layer in net.layers], everything, units)


class NetworkRule(Rule):
    """A rule whose parameters are a network: its data are by layer, and its units' own parameters are not learned."""

    def prepared(self, parameters: Network, data: Any, probabilities: bool = False) -> dict[str, Any]:
        """Checked data by layer, as arrays; those with missing entries as `Partial`."""
        given = by_layer(parameters, data, probabilities=probabilities, missing=True)
        for name, values in given.items():
            check_columns(f"data[{name!r}]", values)
        return {name: parted(values) for name, values in given.items()}

    def learned(self, parameters: Network) -> Network:
        """Biases and couplings."""
        return trainable(parameters)

    def broken(self, parameters: Network) -> str | None:
        """Why the network is none, or None: numbers that no file is read with, Gaussian units coupled too strongly."""
        numbers = jax.tree.leaves(eqx.filter(parameters, eqx.is_inexact_array))
        if any(np.abs(np.asarray(leaf)).max(initial=0.0) > check.LARGEST for leaf in numbers):
            return f"weights or biases have grown beyond {check.LARGEST:g}"
        return unbounded(parameters)


def target_layer(network: Network, data: Mapping[str, Any]) -> str:
    """The last layer that data are given for: the one a supervised recipe predicts."""
    return [name for name in network.names if name in data][-1]


@eqx.filter_jit
def drawn(network: Network, batch: tuple[int, ...], key: Array) -> State:
    """Every layer drawn at zero field."""
    keys = jax.random.split(key, len(network.layers))
    return {
        layer.name: jnp.asarray(layer.unit.sample(here, jnp.zeros((*batch, layer.size))), float)
        for layer, here in zip(network.layers, keys, strict=True)
    }


def starting_at_rest(network: Network, batch: tuple[int, ...]) -> State:
    """Every layer at its mode in zero field."""
    return at_rest(network, batch, list(network.names))


def at_rest(network: Network, batch: tuple[int, ...], names: list[str]) -> State:
    """These layers at their modes in zero field."""
    layers = [network.layer(name) for name in names]
    return {layer.name: jnp.asarray(layer.unit.mode(jnp.zeros((*batch, layer.size))), float) for layer in layers}


def errors(cost: Cost, prediction: Array, target: Array) -> dict[str, Array]:
    """The cost of a prediction, and how often its largest component is the wrong one."""
    wrong = jnp.argmax(prediction, axis=-1) != jnp.argmax(target, axis=-1)
    return {"cost": jnp.mean(cost(prediction, target)), "error": jnp.mean(wrong)}
