"""The compiled part of learning: from one step to another, over batches drawn by epoch and step."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria.compiled import strong
from equilibria.learn.devices import arranged, spread
from equilibria.learn.optimiser import Optimiser
from equilibria.learn.rule import PyTree, Rule
from equilibria.learn.stream import shuffled


class Carry(eqx.Module):
    """Everything that changes from step to step."""

    step: Array
    parameters: PyTree
    optimiser: PyTree
    rule: PyTree
    totals: dict[str, Array]  # of the reports since the last record
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

    def __call__(self, carry: Carry, data: PyTree, until: Array, keys: Array) -> tuple[Carry, dict[str, Array], Array]:
        """The carry at step `until`, the first step's report, and whether all is finite; the rule's carry is used up."""
        return _advanced((self, eqx.tree_at(lambda c: c.rule, carry, None), data, until, keys), carry.rule)

    def shared(self, carry: Carry) -> Any:
        """For each leaf of the carry, whether it is shared out between devices."""
        marks = jax.tree.map(lambda leaf: False, eqx.filter(carry, eqx.is_array))
        return eqx.tree_at(
            lambda c: c.rule,
            marks,
            self.rule.shared(eqx.filter(carry.rule, eqx.is_array)),
            is_leaf=lambda leaf: leaf is None,
        )

    def run(self, carry: Carry, data: PyTree, until: Array, keys: Array) -> tuple[Carry, dict[str, Array], Array]:
        """The same inside compiled code."""
        examples = jax.tree.leaves(data)[0].shape[int(self.apart)]
        per_epoch = examples // self.batch_size
        moving, still = eqx.partition(carry, eqx.is_array)
        every, mixed = jnp.arange(examples), self._mixed(examples)

        def step(state: tuple) -> tuple:
            moving, first, epoch, order = state
            carry = eqx.combine(moving, still)
            here = carry.step // per_epoch
            if mixed:
                order = jax.lax.cond(here == epoch, lambda: order, lambda: self._shuffled(keys, here, examples))
            index = jax.lax.dynamic_slice_in_dim(
                order, (carry.step % per_epoch) * self.batch_size, self.batch_size, axis=-1
            )
            moved, report = self._moved(carry, data, index, keys)
            first = {name: jnp.where(carry.step == begun, report[name], old) for name, old in first.items()}
            return eqx.filter(arranged(moved, self.shared(moved)), eqx.is_array), first, here, order

        begun = carry.step
        order = jnp.broadcast_to(every, (*keys.shape, examples)) if mixed else every
        first = jax.tree.map(jnp.zeros_like, carry.totals) if self.rule.peeks else {}
        start = (moving, first, jnp.asarray(-1), order)
        moving, first, _, _ = jax.lax.while_loop(lambda state: state[0].step < until, step, start)
        carry = strong(eqx.combine(moving, still))  # a weakly typed carry would compile the next chunk again
        numbers = jax.tree.leaves(eqx.filter(carry.parameters, eqx.is_inexact_array))
        return carry, first, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))

    def _mixed(self, examples: int) -> bool:
        """Whether each epoch has an order of its own; a batch that holds every example needs none."""
        return not self.in_turn and (examples > self.batch_size or self.weights is not None)

    def _moved(self, carry: Carry, data: PyTree, index: Array, keys: Array) -> tuple[Carry, dict[str, Array]]:
        parameters, optimiser, rule, report = self.single(
            carry.parameters, carry.optimiser, carry.rule, data, index, carry.step, keys
        )
        totals = jax.tree.map(jnp.add, carry.totals, report)
        return Carry(carry.step + 1, parameters, optimiser, rule, totals, carry.counted + 1), report

    def single(
        self, parameters: PyTree, optimiser: PyTree, rule: PyTree, data: PyTree, index: Array, step: Array, keys: Array
    ) -> tuple[PyTree, PyTree, PyTree, dict[str, Array]]:
        """One update, of one run or of all side by side."""
        if not self.mapped:
            return self._single(parameters, optimiser, rule, data, index, step, keys)
        each = eqx.if_array(0)
        axes = (each, each, each, self._data_axis, 0 if index.ndim > 1 else None, None, 0)
        return eqx.filter_vmap(self._single, in_axes=axes)(parameters, optimiser, rule, data, index, step, keys)

    def _single(
        self, parameters: PyTree, optimiser: PyTree, rule: PyTree, data: PyTree, index: Array, step: Array, key: Array
    ) -> tuple[PyTree, PyTree, PyTree, dict[str, Array]]:
        whole = len(jax.tree.leaves(data)[0]) == self.batch_size and self.weights is None
        examples = data if whole else jax.tree.map(lambda leaf: leaf[index], data)
        batch = spread(self.rule.batch(examples))
        found = self.rule.step(parameters, batch, carry=rule, index=index, key=jax.random.fold_in(key, step))
        learned = self.rule.learned(parameters)
        moving, gradient = eqx.filter(parameters, learned), eqx.filter(found.gradient, learned)
        updates, optimiser = self.optimiser.transform.update(gradient, optimiser, moving)
        report = found.report | self.rule.watched(moving, updates)
        return eqx.apply_updates(parameters, updates), optimiser, found.carry, report

    def _shuffled(self, keys: Array, epoch: Array, examples: int) -> Array:
        def order(key: Array) -> Array:
            return shuffled(key, epoch, examples, self.weights)

        return jax.vmap(order)(keys) if self.mapped else order(keys)


# What the rule carries is given away, so that particles, one for each example, are not copied with every chunk.
@eqx.filter_jit(donate="all-except-first")
def _advanced(fixed: tuple, rule: PyTree) -> tuple[Carry, dict[str, Array], Array]:
    advance, carry, data, until, keys = fixed
    carry = eqx.tree_at(lambda c: c.rule, carry, rule, is_leaf=lambda leaf: leaf is None)
    return advance.run(carry, data, until, keys)
