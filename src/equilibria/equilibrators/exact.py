r"""Exact equilibrium by enumeration.

One group of layers that are not coupled to one another is summed out in closed form, and the states of the others are
enumerated: $\ln Z = \ln \sum_{s} e^{-F(s)/T}$ with $F$ the free energy of `Network.free_energy`. For a bipartite network
this sums over the smaller side only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, whole
from equilibria.model.network import State

MOST_STATES = 2**22
_CHUNK = 2**12


class Plan(NamedTuple):
    """Which layers are summed out in closed form, which are enumerated, and over how many states."""

    integrated: tuple[str, ...]
    enumerated: tuple[str, ...]
    states: int


def plan(system: Conditioned, most: int = MOST_STATES) -> Plan:
    """The cheapest way to enumerate the free layers; refused where there is none within `most` states."""
    network, free = system.inner, system.free
    busy = {*network.lateral, *system.nudges}  # no closed form for these
    plans = []
    for colour in ((), *system.network.colours):
        integrated = tuple(name for name in free if name in colour and name not in busy)
        enumerated = tuple(name for name in free if name not in integrated)
        counts = [layer.unit.count(layer.size) for layer in map(network.layer, enumerated)]
        finite = [count for count in counts if count is not None]
        if len(finite) == len(counts):
            plans.append(Plan(integrated, enumerated, math.prod(finite)))
    if not plans:
        kinds = {name: type(network.layer(name).unit).__name__ for name in free}
        check.refuse(
            "network", f"continuous units that cannot all be summed out: {kinds}", "discrete units on one side"
        )
    best = min(plans, key=lambda option: option.states)
    if best.states > most:
        check.refuse(
            "network",
            f"{best.states:.2g} states of {best.enumerated}",
            f"at most 2^{math.log2(most):.0f} = {most} states",
        )
    return best


def _configurations(system: Conditioned, chosen: Plan, indices: Array, batch_axes: int) -> State:
    """The enumerated layers in the states of these numbers: (states, 1, ..., 1, size)."""
    state = {}
    for name in chosen.enumerated:
        layer = system.inner.layer(name)
        state[name] = layer.unit.configuration(indices, layer.size).reshape(-1, *[1] * batch_axes, layer.size)
        count: Any = layer.unit.count(layer.size)  # the plan only enumerates layers that have one
        indices = indices // count
    return state


def _held(system: Conditioned) -> State:
    return {name: clamp.values for name, clamp in system.clamps.items() if clamp.mask is None}


def _energies(system: Conditioned, chosen: Plan) -> tuple[Callable[[Array], Array], tuple[int, ...]]:
    """A function of the numbers of states that gives their -F/T: (states, ...), and the axes of the world."""
    held = _held(system)
    imposed = [clamp.values for clamp in system.clamps.values()] + [nudge.target for nudge in system.nudges.values()]
    biases = [layer.bias for layer in system.network.layers]  # (..., size): as many networks side by side
    batch = np.broadcast_shapes(*(values.shape[:-1] for values in [*imposed, *biases]), system.temperature.shape)

    @jax.checkpoint
    def chunk(indices: Array) -> Array:
        state = {**held, **_configurations(system, chosen, indices, len(batch))}
        energy = system.free_energy(state, chosen.integrated)
        energy += sum(nudge.energy(state[name]) for name, nudge in system.nudges.items())
        for name, clamp in system.clamps.items():
            if clamp.mask is not None and name not in chosen.integrated:
                violated = jnp.any(clamp.mask & (state[name] != clamp.values), axis=-1)
                energy = jnp.where(violated, jnp.inf, energy)
        return jnp.broadcast_to(-energy / system.temperature, (len(indices), *batch))

    return chunk, batch


def _chunks(states: int) -> Array:
    """The numbers of all states in rows, the last one filled up."""
    return jnp.arange(-(-states // _CHUNK) * _CHUNK).reshape(-1, _CHUNK)


def log_weights(system: Conditioned, chosen: Plan) -> Array:
    """-F/T of every enumerated state: (states, ...), with one further axis for each axis of the world."""
    chunk, batch = _energies(system, chosen)
    if chosen.states <= _CHUNK:
        return chunk(jnp.arange(chosen.states))
    return jax.lax.map(chunk, _chunks(chosen.states)).reshape(-1, *batch)[: chosen.states]


def log_partition_function(system: Conditioned, most: int = MOST_STATES) -> Array:
    """The logarithm ln Z of the free layers, for each element of the world; states are summed in chunks and never all kept."""
    chosen = plan(system, most)
    if chosen.states <= _CHUNK:
        return jax.nn.logsumexp(log_weights(system, chosen), axis=0)
    chunk, batch = _energies(system, chosen)

    def summed(indices: Array) -> Array:
        inside = (indices < chosen.states).reshape(-1, *[1] * len(batch))
        return jax.nn.logsumexp(jnp.where(inside, chunk(indices), -jnp.inf), axis=0)

    return jax.nn.logsumexp(jax.lax.map(summed, _chunks(chosen.states)), axis=0)


class Exact(Equilibrator):
    r"""Independent draws from the exact Boltzmann law, by enumeration of up to 2^22 states.

    $$ p(s) = e^{-E(s)/T} / Z, \qquad Z = \sum_s e^{-E(s)/T} $$

    (Decelle 2017, equation 2; Agliari 2024, "The statistical mechanics setting"). Layers that are not coupled to one another
    are summed in closed form, so that only the smaller side of a machine is enumerated. Its contrast is exact as well: the
    gradient of -T ln Z. Refused where there are too many states, or the temperature is zero.

    >>> import equilibria as eq
    >>> draws = eq.sample(eq.rbm(4, 3, scale=1.0, key=0), Exact(), chains=5, key=1)
    >>> draws["hidden"].shape
    (5, 3)
    """

    steps: Array
    tolerance: None

    def __init__(self) -> None:
        self.steps, self.tolerance = whole("steps", 1), None

    @property
    def kind(self) -> Kind:
        """It draws."""
        return "draws"

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero, and more states than can be enumerated."""
        check.number("temperature", system.temperature, above=0.0)
        plan(system)

    def needs_state(self, system: Conditioned) -> bool:
        """Never: its averages are sums over all states."""
        return False

    def step(self, system: Conditioned, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """Fresh draws, whatever the state was."""
        chosen = plan(system)
        batch = next(iter(state.values())).shape[:-1]
        state_key, *layer_keys = jax.random.split(key, 1 + len(chosen.integrated))
        weights = log_weights(system, chosen)
        cumulative = jnp.cumsum(jax.nn.softmax(weights, axis=0), axis=0)
        uniform = jax.random.uniform(state_key, batch) * cumulative[-1]
        if weights.ndim == 1:
            indices = jnp.searchsorted(cumulative, uniform.reshape(-1), side="right")
        else:
            columns = cumulative.reshape(len(cumulative), -1).T
            indices = jax.vmap(lambda column, draw: jnp.searchsorted(column, draw, side="right"))(
                columns, jnp.broadcast_to(uniform, batch).reshape(-1)
            )
        # Rounding may leave the last entry a hair below the draw.
        drawn = _configurations(system, chosen, jnp.minimum(indices, chosen.states - 1), 0)
        known = jnp.isfinite(cumulative[-1])[..., None]  # else energies overflowed, and any state would be a guess
        state = {**state, **{name: jnp.where(known, drawn[name].reshape(*batch, -1), jnp.nan) for name in drawn}}
        for name, layer_key in zip(chosen.integrated, layer_keys, strict=True):
            unit, column = system.inner.layer(name).unit, system.column
            state[name] = unit.heated(column).sample(layer_key, system.field(state, name) / column)
        return state, carry

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """The free energy -T ln Z itself."""
        return -system.temperature * log_partition_function(system)

    def log_partition(self, system: Conditioned, state: State) -> Array:
        """The logarithm ln Z, exact."""
        return log_partition_function(system)
