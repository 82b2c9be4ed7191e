"""Sweeps: every layer in turn responds to its field.

One sweep updates each colour of the layer graph given the others, the colour of the first layer last. What a unit does with
its field is the update rule: `sample` is block Gibbs sampling, `mean` naive mean field, `mode` exact block descent. A layer
coupled to itself is visited neuron by neuron in random order, or all at once when asked.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, optional_tolerance, whole
from equilibria.model.network import State
from equilibria.model.units import Unit

Update = Literal["sample", "mean", "mode"]

# Visits between two matrix products: more cost more within the block, fewer make the products thin.
_BLOCK = 32


class Sweeps(Equilibrator):
    """Sweeps through the network: one colour of layers after another responds to its field, the first layer's last.

    What a unit does with its field is the update rule: sampling it is block Gibbs sampling (Agliari 2024, "Neural dynamics",
    layer by layer), its mean naive mean field, its mode exact block descent.

    Args:
        steps: how many sweeps.
        update: what a unit does with its field: "sample" (at temperature 0 the same as "mode"), "mean" or "mode".
        order: how a layer coupled to itself is updated: "random" visits its neurons one by one and samples the
            Boltzmann law; "parallel" updates all of them at once, which is faster but has another stationary law
            (Peretto's).
        visits: makes a step that many visits of random neurons instead of one of each.
        tolerance: stops when no neuron moves by more.

    Raises:
        ValueError: if a number is out of its range, or there is no such update rule or order.

    >>> Sweeps(100).update
    'sample'
    """

    steps: Array
    update: Update = eqx.field(static=True)
    order: Literal["random", "parallel"] = eqx.field(static=True)
    visits: int | None = eqx.field(static=True)
    tolerance: Array | None

    def __init__(
        self,
        steps: int | Array,
        update: Update = "sample",
        order: Literal["random", "parallel"] = "random",
        visits: int | None = None,
        tolerance: ArrayLike | None = None,
    ):
        self.steps, self.tolerance = whole("steps", steps), optional_tolerance(tolerance)
        self.update = check.choice("update", update, ("sample", "mean", "mode"))
        self.order = check.choice("order", order, ("random", "parallel"))
        self.visits = None if visits is None else check.count("visits", visits)

    @property
    def kind(self) -> Kind:
        """It draws, averages or rests, as the update rule says."""
        return {"sample": "draws", "mean": "averages", "mode": "rests"}[self.update]  # type: ignore[return-value]

    def at_zero(self) -> Sweeps:
        """The same with the mode in place of a sample."""
        return dataclasses.replace(self, update="mode") if self.update == "sample" else self

    def allowed(self, system: Conditioned) -> None:
        """Refuse a tolerance for draws, which never come to rest."""
        if self.update == "sample" and self.tolerance is not None:
            check.refuse("tolerance", self.tolerance, "None at a temperature above zero: draws never come to rest")

    def needs_key(self, system: Conditioned) -> bool:
        """For draws, and for the random order of a layer coupled to itself."""
        return self.update == "sample" or (self.order == "random" and bool(system.inner.lateral))

    def leaves_room(self, system: Conditioned) -> bool:
        """Where all that it does is to visit the neurons that are present one by one."""
        alone = self.order == "random" and self.visits is None
        return alone and len(system.free) == 1 and system.inner.lateral == {*system.free}

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent and drawn, whose averages are known."""
        return self.update != "sample" or not system.independent

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """For draws, with one colour averaged in closed form: the same mean as the energy, and less noise."""
        return system.summed_out(state) if self.update == "sample" else system.network.energy(state)

    def step(self, system: Conditioned, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """One sweep: each colour given the others, the first layer's last."""
        for colour in reversed(system.network.colours):
            for name in colour:
                if name in system.free:
                    here = None if key is None else jax.random.fold_in(key, system.network.names.index(name))
                    state = {**state, name: self.updated(system, state, name, here)}
        return state, carry

    def updated(self, system: Conditioned, state: State, name: str, key: Any) -> Array:
        """One layer after its turn."""
        if name in system.inner.lateral and self.order == "random":
            return self._walked(system, state, name, key)
        unit, field = system.effective(state, name, system.field(state, name))
        moved = self.respond(unit, field, system.column, key)
        return system.clamps[name].imposed(moved) if name in system.clamps else moved

    def respond(self, unit: Unit, field: Array, temperature: Array, key: Any) -> Array:
        """What a unit does with its field."""
        if self.update == "mode":
            return unit.mode(field)
        # One compiled function serves every temperature: at zero the heated unit is not looked at.
        safe = jnp.where(temperature > 0, temperature, 1.0)
        heated, scaled = unit.heated(safe), field / safe
        warm = heated.mean(scaled) if self.update == "mean" else heated.sample(key, scaled)
        return jnp.where(temperature > 0, warm, unit.mode(field))

    def _walked(self, system: Conditioned, state: State, name: str, key: Array) -> Array:
        """A layer coupled to itself, visited neuron by neuron; the order is the same in every chain."""
        batch, size = state[name].shape[:-1], state[name].shape[-1]
        couplings = [coupling for coupling in system.inner.couplings if coupling.lateral and name in coupling.ends]
        order_key, draw_key = jax.random.split(key)
        present = couplings[0].present
        if self.visits is None:
            sites = _order(order_key, size, present)
        else:
            sites = jax.random.randint(order_key, (self.visits,), 0, size)

        def columns(
            values: Array,
        ) -> Array:  # (..., neurons) -> (neurons, chains): a visit then touches one contiguous row
            return jnp.broadcast_to(values, (*batch, size)).reshape(-1, size).T

        # A nudge by squared error only shifts the field and stiffens the unit, so it is applied once, before the walk.
        unit, outside = system.effective(state, name, system.field(state, name, lateral=False))
        outside, start = columns(outside), columns(state[name])
        held = columns(jnp.asarray(system.held(name))) if name in system.clamps else None
        temperature = jnp.broadcast_to(system.temperature, batch).reshape(-1)

        blocks = _blocks(sites, size)
        length = blocks.shape[1]
        # Neurons that are not there come last, and are not visited.
        rows = blocks.shape[0] if isinstance(present, int) else -(-present // length)

        def block(row: Array, carry: Any) -> Any:
            neurons, walks = carry
            sites, numbers = blocks[row], row * length + jnp.arange(length)
            before = outside[sites] + sum(walk.fields(neurons, sites) for walk in walks)
            among = sum(walk.among(sites) for walk in walks)

            # The loop only carries the block's own neurons: XLA would copy all of them at every visit.
            def visit(place: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
                values, changes = carry
                site = sites[place]
                field = before[place] + among[place] @ changes
                alone = jax.tree.map(lambda leaf: leaf[site] if leaf.ndim else leaf, unit)
                moved = self.respond(alone, field, temperature, jax.random.fold_in(draw_key, numbers[place]))
                if held is not None:
                    moved = jnp.where(held[site], values[place], moved)
                moved = jnp.where(site < present, moved, values[place])
                changes = changes.at[place].set(moved - values[place])
                if self.visits is None:
                    return values.at[place].set(moved), changes
                return jnp.where((sites == site)[:, None], moved, values), changes  # a neuron may come again

            values, changes = jax.lax.fori_loop(0, len(sites), visit, (neurons[sites], jnp.zeros_like(before)))
            return neurons.at[sites].set(values), [walk.moved(sites, changes) for walk in walks]

        walks = [coupling.walk(start) for coupling in couplings]
        neurons, _ = jax.lax.fori_loop(0, rows, block, (start, walks))
        return neurons.T.reshape(*batch, size)


def _order(key: Array, size: int, present: Array | int) -> Array:
    """The neurons that are present in random order, the same as if there were room for no others; room comes last."""
    if isinstance(present, int):
        return jax.random.permutation(key, size)
    # One round of `jax.random.permutation`, which is all of it up to 1,625 neurons.
    words = jax.random.bits(jax.random.split(key)[1], (size,), jnp.uint32)
    sites = jnp.arange(size)
    return jax.lax.sort_key_val(jnp.where(sites < present, words, jnp.uint32(2**32 - 1)), sites)[1]


def _blocks(sites: Array, size: int) -> Array:
    """The sites in rows of at most `_BLOCK`; the last row is filled with `size`, which is no neuron's number."""
    length = min(_BLOCK, len(sites))
    rows = -(-len(sites) // length)
    return jnp.full(rows * length, size, sites.dtype).at[: len(sites)].set(sites).reshape(rows, length)
