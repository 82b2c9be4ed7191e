"""The compiled part of learning: from one step to another, over batches drawn by epoch and step."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria.compiled import strong
from equilibria.learn.devices import arranged, spread
from equilibria.learn.optimiser import Optimiser
from equilibria.learn.rule import PyTree, Rule
from equilibria.learn.stream import shuffled


class Carry(NamedTuple):
    """Everything that changes from step to step."""

    step: Array
    parameters: PyTree
    optimiser: PyTree
    rule: PyTree
    totals: dict[str, Array]  # of the reports since the last record, or the newest report of a rule that peeks
    counted: Array


class Advance(eqx.Module):
    """The compiled part: from the step in the carry to another, over batches drawn by epoch and step."""

    rule: Rule
    optimiser: Optimiser = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    mapped: bool = eqx.field(static=True)
    apart: bool = eqx.field(static=True)
    in_turn: bool = eqx.field(static=True, default=False)  # examples are shown as they stand
    weights: Array | None = None  # of the examples, in the proportion of which they are shown

    def begun(self, parameters: PyTree, data: PyTree, keys: Array) -> PyTree:
        """What the rule carries at the start of each run."""

        def begin(parameters: PyTree, data: PyTree, key: Array) -> PyTree:
            return self.rule.begin(parameters, data, self.batch_size, key)

        if not self.mapped:
            return begin(parameters, data, keys)
        return eqx.filter_vmap(begin, in_axes=(eqx.if_array(0), self._data_axis, 0))(parameters, data, keys)

    @property
    def _data_axis(self) -> int | None:
        return 0 if self.apart else None

    def __call__(self, carry: Carry, data: PyTree, until: Array, keys: Array) -> tuple[Carry, Array]:
        """The carry at step `until`, and whether all is finite; the rule's carry is used up."""
        return _advanced((self, carry._replace(rule=None), data, until, keys), carry.rule)

    def shared(self, carry: Carry) -> Any:
        """For each leaf of the carry, whether it is shared out between devices."""
        marks = jax.tree.map(lambda leaf: False, eqx.filter(carry, eqx.is_array))
        return marks._replace(rule=self.rule.shared(eqx.filter(carry.rule, eqx.is_array)))

    def run(self, carry: Carry, data: PyTree, until: Array, keys: Array) -> tuple[Carry, Array]:
        """The same inside compiled code."""
        examples = jax.tree.leaves(data)[0].shape[int(self.apart)]
        per_epoch = examples // self.batch_size
        moving, still = eqx.partition(carry, eqx.is_array)
        every, mixed = jnp.arange(examples), self._mixed(examples)

        def step(state: tuple) -> tuple:
            moving, epoch, order = state
            carry = eqx.combine(moving, still)
            here = carry.step // per_epoch
            if mixed:
                order = jax.lax.cond(here == epoch, lambda: order, lambda: self._shuffled(keys, here, examples))
            index = jax.lax.dynamic_slice_in_dim(
                order, (carry.step % per_epoch) * self.batch_size, self.batch_size, axis=-1
            )
            moved = self._moved(carry, data, index, carry.step == begun, keys)
            return eqx.filter(arranged(moved, self.shared(moved)), eqx.is_array), here, order

        begun = carry.step
        order = jnp.broadcast_to(every, (*keys.shape, examples)) if mixed else every
        start = (moving, jnp.asarray(-1), order)
        moving, _, _ = jax.lax.while_loop(lambda state: state[0].step < until, step, start)
        carry = strong(eqx.combine(moving, still))  # a weakly typed carry would compile the next chunk again
        numbers = jax.tree.leaves(eqx.filter(carry.parameters, eqx.is_inexact_array))
        return carry, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))

    def _mixed(self, examples: int) -> bool:
        """Whether each epoch has an order of its own; a batch that holds every example needs none."""
        return not self.in_turn and (examples > self.batch_size or self.weights is not None)

    def _moved(self, carry: Carry, data: PyTree, index: Array, due: Array, keys: Array) -> Carry:
        state = (carry.parameters, carry.optimiser, carry.rule, carry.totals)
        return Carry(carry.step + 1, *self.single(state, data, index, carry.step, due, keys), carry.counted + 1)

    def single(
        self, state: tuple, data: PyTree, index: Array, step: Array, due: Array, keys: Array
    ) -> tuple[PyTree, PyTree, PyTree, dict[str, Array]]:
        """One update, of one run or of all side by side; `due` says whether a rule that peeks is to report."""
        if not self.mapped:
            return self._single(state, data, index, step, due, keys)
        axes = (eqx.if_array(0), self._data_axis, 0 if index.ndim > 1 else None, None, None, 0)
        return eqx.filter_vmap(self._single, in_axes=axes)(state, data, index, step, due, keys)

    def _single(
        self, state: tuple, data: PyTree, index: Array, step: Array, due: Array, key: Array
    ) -> tuple[PyTree, PyTree, PyTree, dict[str, Array]]:
        parameters, optimiser, rule, totals = state
        whole = len(jax.tree.leaves(data)[0]) == self.batch_size and self.weights is None
        examples = data if whole else jax.tree.map(lambda leaf: leaf[index], data)
        batch = spread(self.rule.batch(examples))
        found = self.rule.step(parameters, batch, carry=rule, index=index, key=jax.random.fold_in(key, step))
        learned = self.rule.learned(parameters)
        moving, gradient = eqx.filter(parameters, learned), eqx.filter(found.gradient, learned)
        updates, optimiser = self.optimiser.transform.update(gradient, optimiser, moving)
        totals = self._told(found.report, self.rule.watched(moving, updates), totals, due)
        return eqx.apply_updates(parameters, updates), optimiser, found.carry, totals

    def _told(self, report: Any, watched: dict[str, Array], totals: Any, due: Array) -> dict[str, Array]:
        """The totals with a report added, or in their place that of a rule that peeks; None before the first."""
        if not self.rule.peeks:
            report = report | watched
            return report if totals is None else jax.tree.map(jnp.add, totals, report)
        return report() | watched if totals is None else jax.lax.cond(due, lambda: report() | watched, lambda: totals)

    def _shuffled(self, keys: Array, epoch: Array, examples: int) -> Array:
        def order(key: Array) -> Array:
            return shuffled(key, epoch, examples, self.weights)

        return jax.vmap(order)(keys) if self.mapped else order(keys)


# What the rule carries is given away, so that particles, one for each example, are not copied with every chunk.
@eqx.filter_jit(donate="all-except-first")
def _advanced(fixed: tuple, rule: PyTree) -> tuple[Carry, Array]:
    advance, carry, data, until, keys = fixed
    return advance.run(carry._replace(rule=rule), data, until, keys)
