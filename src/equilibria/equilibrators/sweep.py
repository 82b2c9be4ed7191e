"""Sweeps: every layer in turn responds to its field.

One sweep updates each colour of the layer graph given the others, the colour of the first layer last. What a unit does with
its field is the mood: `sample` is block Gibbs sampling, `mean` naive mean field, `mode` exact block descent. A layer coupled
to itself is visited neuron by neuron in random order, or all at once when asked.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.equilibrators.driver import Equilibrator
from equilibria.equilibrators.setting import Setting
from equilibria.network import State
from equilibria.units import Unit

Mood = Literal["sample", "mean", "mode"]

# Visits between two matrix products: more cost more within the block, fewer make the products thin.
_BLOCK = 32


def whole(argument: str):
    """A converter of counts to arrays, so that another count does not compile again."""
    return lambda value: value if isinstance(value, jax.Array) else jnp.asarray(check.count(argument, value))


def optional_tolerance(value):
    """A converter of tolerances to arrays; None stays None."""
    return value if value is None else jnp.asarray(check.number("tolerance", value, least=0.0), float)


class Sweeps(Equilibrator):
    """`steps` sweeps through the network.

    Parameters: `mood` is what a unit does with its field: "sample" (at temperature 0 the same as "mode"), "mean" or "mode".
    `order` is how a layer coupled to itself is updated: "random" visits its neurons one by one and samples the Boltzmann
    law; "parallel" updates all of them at once, which is faster but has another stationary law (Peretto's). `visits` makes a
    step that many visits of random neurons instead of one of each. `tolerance` stops when no neuron moves by more.

    >>> Sweeps(100).mood
    'sample'
    """

    steps: Any = eqx.field(converter=whole("steps"))
    mood: Mood = eqx.field(static=True, default="sample")
    order: Literal["random", "parallel"] = eqx.field(static=True, default="random")
    visits: int | None = eqx.field(static=True, default=None)
    tolerance: Any = eqx.field(default=None, converter=optional_tolerance)

    def __check_init__(self):
        check.choice("mood", self.mood, ("sample", "mean", "mode"))
        check.choice("order", self.order, ("random", "parallel"))
        if self.visits is not None:
            check.count("visits", self.visits)

    def at_zero(self):
        return dataclasses.replace(self, mood="mode") if self.mood == "sample" else self

    def allowed(self, setting: Setting) -> None:
        if self.mood == "sample" and self.tolerance is not None:
            check.refuse("tolerance", self.tolerance, "None at a temperature above zero: draws never come to rest")

    def draws(self, setting: Setting) -> bool:
        return self.mood == "sample" or (self.order == "random" and bool(setting.inner.lateral))

    @property
    def averages(self):
        return self.mood == "sample"

    def free_energy(self, setting, state):
        """For draws, with one colour averaged in closed form: the same mean as the energy, and less noise."""
        if not self.averages:
            return setting.network.energy(state)
        return setting.network.free_energy(state, setting.integrable, setting.temperature)

    def step(self, setting, state, memory, key):
        for colour in reversed(setting.network.colours):
            for name in colour:
                if name in setting.free:
                    here = None if key is None else jax.random.fold_in(key, setting.network.names.index(name))
                    state = {**state, name: self.updated(setting, state, name, here)}
        return state, memory

    def updated(self, setting: Setting, state: State, name: str, key: Any) -> Array:
        if name in setting.inner.lateral and self.order == "random":
            return self._walked(setting, state, name, key)
        unit, field = setting.felt(state, name, setting.field(state, name))
        moved = self.respond(unit, field, setting.column, key)
        return setting.clamps[name].imposed(moved) if name in setting.clamps else moved

    def respond(self, unit: Unit, field: Array, temperature: Array, key: Any) -> Array:
        """What a unit does with its field in this mood."""
        if self.mood == "mode":
            return unit.mode(field)
        # One compiled function serves every temperature: at zero the heated unit is not looked at.
        safe = jnp.where(temperature > 0, temperature, 1.0)
        heated, scaled = unit.heated(safe), field / safe
        warm = heated.mean(scaled) if self.mood == "mean" else heated.sample(key, scaled)
        return jnp.where(temperature > 0, warm, unit.mode(field))

    def _walked(self, setting: Setting, state: State, name: str, key: Array) -> Array:
        """A layer coupled to itself, visited neuron by neuron; the order is the same in every chain."""
        batch, size = state[name].shape[:-1], state[name].shape[-1]
        couplings = [coupling for coupling in setting.inner.couplings if coupling.lateral and name in coupling.ends]
        order_key, draw_key = jax.random.split(key)
        if self.visits is None:
            sites = jax.random.permutation(order_key, size)
        else:
            sites = jax.random.randint(order_key, (self.visits,), 0, size)

        def columns(values):  # (..., neurons) -> (neurons, chains): a visit then touches one contiguous row
            return jnp.broadcast_to(values, (*batch, size)).reshape(-1, size).T

        # A nudge by squared error only shifts the field and stiffens the unit, so it is applied once, before the walk.
        unit, outside = setting.felt(state, name, setting.field(state, name, lateral=False))
        outside, start = columns(outside), columns(state[name])
        held = columns(setting.clamps[name].mask) if name in setting.clamps else None
        temperature = jnp.broadcast_to(setting.temperature, batch).reshape(-1)

        blocks = _blocks(sites, size)

        def block(carry, here):
            neurons, walks = carry
            sites, numbers = here
            before = outside[sites] + sum(walk.fields(neurons, sites) for walk in walks)
            among = sum(walk.among(sites) for walk in walks)

            # The loop only carries the block's own neurons: XLA would copy all of them at every visit.
            def visit(place, carry):
                values, changes = carry
                site = sites[place]
                field = before[place] + among[place] @ changes
                alone = jax.tree.map(lambda leaf: leaf[site] if leaf.ndim else leaf, unit)
                moved = self.respond(alone, field, temperature, jax.random.fold_in(draw_key, numbers[place]))
                if held is not None:
                    moved = jnp.where(held[site], values[place], moved)
                moved = jnp.where(site < size, moved, values[place])
                changes = changes.at[place].set(moved - values[place])
                if self.visits is None:
                    return values.at[place].set(moved), changes
                return jnp.where((sites == site)[:, None], moved, values), changes  # a neuron may come again

            values, changes = jax.lax.fori_loop(0, len(sites), visit, (neurons[sites], jnp.zeros_like(before)))
            return (neurons.at[sites].set(values), [walk.moved(sites, changes) for walk in walks]), None

        walks = [coupling.walk(start) for coupling in couplings]
        numbers = jnp.arange(blocks.size).reshape(blocks.shape)
        (neurons, _), _ = jax.lax.scan(block, (start, walks), (blocks, numbers))
        return neurons.T.reshape(*batch, size)


def _blocks(sites: Array, size: int) -> Array:
    """The sites in rows of at most `_BLOCK`; the last row is filled with `size`, which is no neuron's number."""
    length = min(_BLOCK, len(sites))
    rows = -(-len(sites) // length)
    return jnp.full(rows * length, size, sites.dtype).at[: len(sites)].set(sites).reshape(rows, length)
