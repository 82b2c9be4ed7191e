"""Data that are not held in memory: arrays on a disk, and batches that come one after another.

The compiled loop sees a window of batches at a time, all of one shape; between chunks the next window takes its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.files.identity import fingerprint
from equilibria.learn.rule import PyTree

_BYTES = 2**26  # of a window


class Stream(ABC):
    """Where windows of batches come from.

    Attributes:
        batch_size: examples in a batch.
        per_epoch: batches in a pass through the data, None if there is no telling.
        window: batches in a window.
        identity: what a run that goes on must find again.
        ends: the number of batches there are, once it is known to be too few for the window.
        prepared: what the rule makes of a window.
    """

    batch_size: int
    per_epoch: int | None
    window: int
    identity: str
    ends: int | None = None
    prepared: Callable[[PyTree], PyTree]

    @abstractmethod
    def rows(self, step: int) -> PyTree:
        """The examples of the window that begins with this step, as NumPy arrays with the examples on the first axis."""

    def check(self, step: int) -> None:
        """Refuse a step for which there is no batch."""
        if self.ends is not None and step >= self.ends:
            check.refuse("data", f"{self.ends} batches", "as many batches as steps, or an iterable that begins again")


class OnDisk(Stream):
    """Arrays on a disk, read in the order in which the same arrays in memory would be shown."""

    def __init__(self, data: PyTree, batch_size: int, key: Array):
        self.data, self.key = data, key
        leaves = jax.tree.leaves(data)
        self.examples = len(leaves[0])
        if {len(leaf) for leaf in leaves} != {self.examples}:
            check.refuse("data", f"arrays with {[len(leaf) for leaf in leaves]} examples", "as many in each array")
        self.batch_size = min(check.count("batch_size", batch_size), self.examples)
        self.per_epoch = self.examples // self.batch_size
        self.window = _batches(leaves, self.batch_size, self.per_epoch)
        # One row in a hundred tells two tables apart as well, and a table on a disk is long.
        few = [np.asarray(leaf[:: max(self.examples // 100, 1)]) for leaf in leaves]
        self.identity = fingerprint((self.examples, few))
        self._epoch, self._order = -1, np.arange(self.examples)

    def rows(self, step: int) -> PyTree:
        """The rows of each step, in the order of its epoch."""
        parts = [self._index(number) for number in range(step, step + self.window)]
        index = np.concatenate(parts)
        return jax.tree.map(lambda leaf: np.asarray(leaf[index]), self.data)

    def _index(self, step: int) -> np.ndarray:
        assert self.per_epoch is not None
        epoch, batch = divmod(step, self.per_epoch)
        if epoch != self._epoch and self.examples > self.batch_size:
            self._epoch, self._order = epoch, np.asarray(shuffled(self.key, jnp.asarray(epoch), self.examples))
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size]


class InTurn(Stream):
    """Batches from an iterable, each an array, a pair or a dict by layer; it is begun again when it ends, if it can be."""

    def __init__(self, batches: Iterable[Any]):
        self.batches = batches
        self._iterator: Iterator[Any] = iter(batches)
        self._again = self._iterator is not batches
        self._next = 0
        try:
            self._first = self._taken(0)
        except StopIteration:
            check.refuse("data", "no batches", "at least one")
        leaves = jax.tree.leaves(self._first)
        self.batch_size = len(leaves[0])
        self.per_epoch = len(batches) if hasattr(batches, "__len__") else None  # type: ignore[arg-type]
        self.window = _batches(leaves, self.batch_size, self.per_epoch or 64)
        self.identity = f"batches of {self.batch_size} from {type(batches).__name__}"

    def rows(self, step: int) -> PyTree:
        """The batches of a window; those before it are passed over. One that ends too early is filled with its last."""
        parts: list[PyTree] = []
        for number in range(step, step + self.window):
            try:
                parts.append(self._taken(number))
            except StopIteration:
                self.ends = number
                self.check(step)
                parts += [parts[-1]] * (self.window - len(parts))
                break
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _taken(self, step: int) -> PyTree:
        """The batch of this step; steps only go up, but for the first batch, which was looked at before the run."""
        if step == 0 and self._next > 0:
            return self._first
        while self._next <= step:
            found, self._next = self._pulled(), self._next + 1
        sizes = {len(leaf) for leaf in jax.tree.leaves(found)}
        if step > 0 and sizes != {self.batch_size}:
            if not self._again or len(sizes) > 1 or max(sizes) > self.batch_size:
                check.refuse("data", f"a batch with {sorted(sizes)} examples", f"batches of {self.batch_size}")
            self._next = step  # the rest of an epoch that does not fill a batch sits out
            return self._taken(step)
        return found

    def _pulled(self) -> PyTree:
        try:
            return _arrays(next(self._iterator))
        except StopIteration:
            if not self._again:
                raise
            self._iterator = iter(self.batches)
        return _arrays(next(self._iterator))


def shuffled(key: Array, epoch: Array, examples: int, weights: Array | None = None) -> Array:
    """The order of the examples in an epoch. Epochs count down from the top, so that none shares its number with a step.

    With weights each example is there as often as its share of them says, rounded up or down at random (systematic
    resampling).
    """
    here = jax.random.fold_in(key, jnp.uint32(2**32 - 1) - epoch.astype(jnp.uint32))
    order = jax.random.permutation(here, examples)
    if weights is None:
        return order
    reached = jnp.cumsum(weights) / jnp.sum(weights) * examples
    places = jnp.arange(examples) + jax.random.uniform(jax.random.fold_in(here, 1))
    return jnp.minimum(jnp.searchsorted(reached, places, side="right"), examples - 1)[order]


def streamed(data: Any, batch_size: int, key: Array) -> Stream | None:
    """The stream that data are, or None for data that are in memory.

    Args:
        data: what was given to `train`.
        batch_size: examples in a batch, for arrays on a disk.
        key: of the run's steps, which decides their order.

    Returns:
        A stream for memory-mapped arrays (alone, in a pair, or by layer) and for iterables of batches.

    >>> streamed(np.zeros((4, 2)), 2, jax.random.key(0)) is None
    True
    """
    leaves = list(data.values()) if isinstance(data, Mapping) else data if isinstance(data, tuple) else [data]
    if any(isinstance(leaf, np.memmap) for leaf in leaves):
        return OnDisk(data, batch_size, key)
    array_like = hasattr(data, "__array__") or hasattr(data, "shape") or isinstance(data, (Mapping, tuple, list, str))
    return InTurn(data) if isinstance(data, Iterable) and not array_like else None


def _arrays(batch: Any) -> PyTree:
    """A batch of NumPy arrays: alone, a pair, or by layer; a list of one or two, as loaders give it, is taken so."""
    if isinstance(batch, list) and batch and hasattr(batch[0], "shape"):
        batch = batch[0] if len(batch) == 1 else tuple(batch)
    if isinstance(batch, Mapping):
        return {name: np.asarray(values) for name, values in batch.items()}
    return tuple(np.asarray(values) for values in batch) if isinstance(batch, tuple) else np.asarray(batch)


def _batches(leaves: list[Any], batch_size: int, most: int) -> int:
    """How many batches fit a window."""
    row = sum(leaf.dtype.itemsize * int(np.prod(leaf.shape[1:])) for leaf in leaves)
    return max(1, min(most, _BYTES // max(row * batch_size, 1)))
