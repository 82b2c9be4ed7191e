"""The one learning loop, for every rule.

Steps run in compiled chunks (`learn.advance`). Between chunks the loop shows its progress, records what was asked, writes
checkpoints and looks whether to stop (`learn.journey`). Every random number depends on the key and the number of the step
alone, so a run that was killed and resumed is bit for bit the run that was not. Several runs side by side are one compiled
loop over a mapped axis.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from equilibria import check
from equilibria.compiled import array, strong
from equilibria.files import latest, locked
from equilibria.files import run as stored
from equilibria.files.identity import fingerprint
from equilibria.learn.advance import Advance, Carry
from equilibria.learn.devices import Devices
from equilibria.learn.history import History
from equilibria.learn.journey import Journey, Metrics
from equilibria.learn.optimiser import Optimiser
from equilibria.learn.rule import PyTree, Rule
from equilibria.learn.stopping import Callback, StopRun, as_callback
from equilibria.learn.stream import Stream
from equilibria.learn.trajectory import Keeper
from equilibria.progress import CompiledBar
from equilibria.random import split


class Loop:
    """Everything that stays as it is while a run goes on.

    With `mapped`, parameters and keys have a leading axis, one entry for each of several runs side by side; with `apart`,
    each run has its own data, and these have it too.
    """

    def __init__(
        self,
        rule: Rule,
        data: PyTree,
        keys: Array,
        batch_size: int,
        *,
        optimiser: optax.GradientTransformation | None = None,
        learning_rate: float | None = None,
        final_rate: float = 1.0,
        mapped: bool = False,
        apart: bool = False,
        devices: int | Sequence[jax.Device] | None = None,
        stream: Stream | None = None,
        weights: Array | None = None,
        label: str = "training",
    ):
        self.rule, self.data, self.mapped, self.label = rule, data, mapped, label
        examples = {leaf.shape[int(apart)] for leaf in jax.tree.leaves(data)}
        if len(examples) != 1:
            check.refuse("data", f"arrays with {sorted(examples)} examples", "as many examples in each array")
        (self.examples,) = examples
        self.stream = stream
        self.batch_size = min(check.count("batch_size", batch_size), self.examples)
        self.per_epoch: int | None = self.examples // self.batch_size
        if stream is not None:
            self.batch_size, self.per_epoch = stream.batch_size, stream.per_epoch
        self.optimiser = Optimiser(optimiser, learning_rate, final_rate)
        begin, step = split_each(keys) if mapped else split_key(keys)
        self.begin_keys: Array = begin
        self.step_keys: Array = step
        self.setup = {
            "batch_size": str(self.batch_size),
            "data": fingerprint(data if weights is None else (data, weights)) if stream is None else stream.identity,
            "rule": f"{_told(rule)} {fingerprint(rule)}",
            "optimiser": self.optimiser.name,
            "learning_rate": str(self.optimiser.rate),
            "key": fingerprint(keys),
        }
        counts = {} if mapped else {"batch_size": self.batch_size, **rule.counts}
        self.layout = Devices(devices, **counts)
        self.advance = Advance(rule, self.optimiser, self.batch_size, mapped, apart, stream is not None, weights)

    def length(self, epochs: int | None, steps: int | None) -> int:
        """The number of updates that was asked for, by one of the two."""
        if (epochs is None) == (steps is None):
            check.refuse("epochs", f"{epochs} and steps {steps}", "one of the two")
        if epochs is None:
            return check.count("steps", steps)
        if self.per_epoch is None:
            check.refuse("epochs", epochs, "a number of steps where nobody knows how many batches there are")
        return check.count("epochs", epochs) * self.per_epoch

    def default_records(self, total: int) -> list[int]:
        """Powers of two in the first epoch, and the ends of epochs."""
        epoch = self.per_epoch or total
        powers = [2**power for power in range(total.bit_length()) if 2**power <= min(total, epoch)]
        return [*powers, *range(epoch, total + 1, epoch)]

    def run(
        self,
        parameters: PyTree,
        total: int,
        records: Sequence[int],
        *,
        carry: PyTree = None,
        metrics: Metrics | None = None,
        callbacks: Sequence[Any] = (),
        checkpoint: str | Path | None = None,
        every: int | None = None,
        resume: bool = False,
        keep: float | Sequence[int] | None = None,
        validation: PyTree = None,
        show_progress: bool | None = None,
    ) -> tuple[Carry, History, str | None]:
        """The carry at step `total`, or where a callback stopped, the history, and the reason for stopping."""
        if not self.mapped and (reason := self.rule.broken(parameters)) is not None:
            check.refuse("network", reason, "weaker couplings between Gaussian units")
        every = (self.per_epoch or total) if every is None else check.count("checkpoint_every", every)
        with locked(checkpoint if self.layout.writes else None):  # two runs in one folder would mix
            state, history, saved = self.begun(parameters, carry), History(), -1
            if checkpoint is not None:
                self.setup["model"] = self._model(parameters)
                state, columns = stored.take_up(Path(checkpoint), resume, state, self.setup)
                history, saved = History(columns), -1 if latest(checkpoint) is None else int(state.step)
            keeper = None
            if validation is not None and keep is None:
                check.refuse(
                    "validation", "data, and no keep", "None without keep; other numbers of theirs are `metrics`"
                )
            if keep is not None:
                if checkpoint is None or self.mapped:
                    check.refuse("keep", keep, "None without a checkpoint folder, and with several runs side by side")
                keeper = Keeper(self, keep, validation, Path(checkpoint))
                keeper.begin(state)
            calls = [as_callback(each) for each in callbacks]
            journey = Journey(self, state, history, metrics, calls, checkpoint, keeper, saved)
            stopped = None
            bar = CompiledBar(int(state.step), total, self.label, show=show_progress)
            with _called(journey.callbacks), bar:
                try:
                    journey.wait_again(records)
                    for stop, recorded in _stops(records, every, int(state.step), total):
                        journey.advance(stop, bar)
                        if recorded:
                            journey.record(stop)
                        if stop % every == 0 or stop == total:
                            journey.save()
                        if stop < total:
                            journey.pause(stop)
                except StopRun as reason:
                    stopped = str(reason)
                    journey.save()
            journey.finish()
            return self.layout.gathered(journey.carry), history, stopped

    def _model(self, parameters: PyTree) -> str:
        """What a run that goes on must have in common with the one before: the structure, and what is not learned."""
        fixed = eqx.filter(parameters, self.rule.learned(parameters), inverse=True)
        return f"{_told(parameters, short_arrays=True)} {fingerprint(fixed)}"

    def begun(self, parameters: PyTree, carry: PyTree = None) -> Carry:
        """Everything that changes from step to step, before the first one."""
        if carry is None:
            begun = self.advance.begun(parameters, self.data, self.begin_keys)
        else:  # a copy, for steps use up what they carry, and this belongs to the caller
            begun = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, carry)
        none = array(0, int)
        state = self.optimiser.init(self.rule, parameters, self.mapped)
        parameters, state, begun = strong((parameters, state, begun))
        first = array(np.arange(self.batch_size), int)
        blank = (parameters, state, begun, None)
        report = eqx.filter_eval_shape(
            self.advance.single, blank, self.data, first, none, array(True, bool), self.step_keys
        )[-1]
        totals = jax.tree.map(lambda leaf: array(np.zeros(leaf.shape), leaf.dtype), report)
        return Carry(none, parameters, state, begun, totals, none)


def _stops(records: Sequence[int], every: int, begun: int, total: int) -> Iterator[tuple[int, bool]]:
    """Where a run pauses after the step it begins with: at records, at saves and at its end; and which are records."""
    saves = ((step, False) for step in range(every, total, every))
    stops = heapq.merge(((step, True) for step in sorted(records)), saves, [(total, False)], key=lambda stop: stop[0])
    for step, same in itertools.groupby(stops, lambda stop: stop[0]):
        if begun < step <= total:
            yield step, any(recorded for _, recorded in same)


def _told(tree: PyTree, *, short_arrays: bool = False) -> str:
    """A tree in one line, for an error that names what has changed."""
    return " ".join(eqx.tree_pformat(tree, short_arrays=short_arrays).split())


def split_key(key: Array) -> tuple[Array, Array]:
    """A key to begin with and one for the steps."""
    begin, step = split(key)
    return begin, step


@jax.jit
def split_each(keys: Array) -> tuple[Array, Array]:
    """The same for each of several runs."""
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


@contextlib.contextmanager
def _called(callbacks: Sequence[Callback]) -> Iterator[None]:
    for callback in callbacks:
        callback.begin()
    try:
        yield
    finally:
        for callback in callbacks:
            callback.end()
