"""The one learning loop, for every rule.

Steps run in compiled chunks. Between chunks the loop shows its progress, records what was asked, writes checkpoints and
looks whether to stop. Every random number depends on the key and the number of the step alone, so a run that was killed
and resumed is bit for bit the run that was not. Several runs side by side are one compiled loop over a mapped axis.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.files import run as stored
from equilibria.files.identity import fingerprint
from equilibria.learn.devices import Devices, arranged, spread
from equilibria.learn.history import History
from equilibria.learn.optimiser import Optimiser
from equilibria.learn.rule import PyTree, Rule
from equilibria.learn.stopping import Callback, StopRun, as_callback
from equilibria.model.saving import describe
from equilibria.progress import Pace, progress
from equilibria.random import as_key

Metrics = Callable[[Any], Mapping[str, ArrayLike]]


class Diverged(ArithmeticError):
    """Training left the finite numbers, or the parameters no longer make a system; the last checkpoint is from before that.

    >>> import equilibria as eq
    >>> machine = eq.rbm(visible=eq.Gaussian(), hidden=eq.Gaussian(), weights=[[0.5]])
    >>> train(machine, np.full((2, 1), 9.0), eq.cd(1), steps=4, learning_rate=1.0, key=1)
    Traceback (most recent call last):
    equilibria.learn.loop.Diverged: training diverged between steps ...: not normalisable: ...
    """


class Run(NamedTuple):
    """What training leaves.

    Attributes:
        parameters: what was learned; `network` is another name for it.
        history: the records, an `xarray.Dataset`.
        carry: what the rule carried last, chains or particles; `train(carry=...)` goes on from it.
        stopped: why a callback ended the run, None if it went to its end.

    >>> import equilibria as eq
    >>> run = train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), steps=2, key=1)
    >>> run.history["step"].values, sorted(run.carry), run.stopped
    (array([1, 2]), ['carried', 'chains'], None)
    """

    parameters: Any
    history: xr.Dataset
    carry: Any
    stopped: str | None = None

    @property
    def network(self) -> Any:
        """The network that was trained."""
        return self.parameters


class Carry(eqx.Module):
    """Everything that changes from step to step."""

    step: Array
    parameters: PyTree
    optimiser: PyTree
    rule: PyTree
    totals: dict[str, Array]  # of the reports since the last record
    counted: Array


def train(
    model: Any,
    data: Any,
    rule: Rule,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int = 100,
    probabilities: bool = False,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    metrics: Metrics | None = None,
    record: Sequence[int] | None = None,
    callbacks: Sequence[Callback | Callable[[int, Any, Mapping[str, np.ndarray]], None]] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    carry: Any = None,
    runs: int | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    show_progress: bool | None = None,
    key: Array | int,
) -> Run:
    """Learn from data with any rule and any optimiser.

    Args:
        model: what is learned: a network, or any pytree of parameters that the rule knows.
        data: for a network (examples, size) for its first layer, a pair for the first and the last layer, or by layer;
            for other rules what they take, with the examples on the first axis. It is held once, in its own dtype.
        rule: a recipe such as `pcd(steps=10)`, or any other `Rule`.
        epochs: passes through fresh shuffles of the data; examples that do not fill a batch sit out. A batch of all
            examples is not shuffled.
        steps: the number of updates, in place of epochs.
        batch_size: examples in an update.
        probabilities: data may lie between a unit's values and are taken as its means (grey pixels).
        learning_rate: of plain gradient descent (0.01 by default), or of an optimiser made by
            `optax.inject_hyperparams`; other optimisers have their own.
        optimiser: an optax transformation.
        metrics: a function of the parameters that returns numbers by name, called at each record.
        record: the steps at which the history gets a row; by default 1, 2, 4, 8, ... and the end of each epoch. The
            rule's own report, averaged since the last record, goes there too.
        callbacks: called at each record with the step, the parameters and the row; see `StopRun`, `Patience`,
            `TimeLimit`, `OnSignal`.
        checkpoint: a folder that gets the full state.
        checkpoint_every: every so many steps, each epoch by default; also at the end and when the run is stopped.
        resume: go on from what is in the folder, on any number of devices. What decides the run must be as it was:
            data, rule, batch size, optimiser and rate, key. Its length, records, metrics and callbacks may change.
        carry: what an earlier run's rule carried, to go on with its chains.
        runs: as many independent runs side by side, from the same start with keys of their own; everything that comes
            back then has a leading axis.
        devices: shares chains and minibatches out between so many devices (or those given); the result is that of one
            device up to the order of floating-point sums.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The parameters, the history, what the rule carries, and why it was stopped, if it was.

    Raises:
        ValueError: if an argument cannot be served, or what is resumed is another run.
        Diverged: if the parameters are no longer finite.

    >>> import equilibria as eq
    >>> run = train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), epochs=2, batch_size=2, key=1)
    >>> run.history.sizes["step"], run.network.names
    (3, ('visible', 'hidden'))
    """
    if not isinstance(rule, Rule):
        given = f"{rule!r}, which is not called" if callable(rule) else repr(rule)
        check.refuse("rule", given, "a rule such as eq.pcd(steps=10)")
    data = rule.prepared(model, data, probabilities)
    key = as_key(key)
    if runs is not None:
        check.count("runs", runs)
        model, carry = _repeated(model, runs), _repeated(carry, runs)
        key = jax.random.split(key, runs)
    loop = Loop(
        rule, data, key, batch_size, optimiser=optimiser, learning_rate=learning_rate, mapped=runs is not None,
        devices=devices,
    )  # fmt: skip
    total = loop.length(epochs, steps)
    records = loop.default_records(total) if record is None else [check.count("record", step) for step in record]
    found, history, stopped = loop.run(
        model, total, records, carry=carry, metrics=metrics, callbacks=callbacks, checkpoint=checkpoint,
        every=checkpoint_every, resume=resume, show_progress=show_progress,
    )  # fmt: skip
    return Run(found.parameters, history.dataset(() if runs is None else ("run",)), found.rule, stopped)


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
        mapped: bool = False,
        apart: bool = False,
        devices: int | Sequence[jax.Device] | None = None,
        label: str = "training",
    ):
        self.rule, self.data, self.mapped, self.label = rule, data, mapped, label
        examples = {leaf.shape[int(apart)] for leaf in jax.tree.leaves(data)}
        if len(examples) != 1:
            check.refuse("data", f"arrays with {sorted(examples)} examples", "as many examples in each array")
        (self.examples,) = examples
        self.batch_size = min(check.count("batch_size", batch_size), self.examples)
        self.per_epoch = self.examples // self.batch_size
        self.optimiser = Optimiser(optimiser, learning_rate)
        self.begin_keys, self.step_keys = _split(keys, mapped)
        self.setup = {
            "batch_size": str(self.batch_size),
            "data": fingerprint(data),
            "rule": f"{_told(rule)} {fingerprint(rule)}",
            "optimiser": self.optimiser.name,
            "learning_rate": str(self.optimiser.rate),
            "key": fingerprint(keys),
        }
        counts = {} if mapped else {"batch_size": self.batch_size, **rule.counts}
        self.layout = Devices(devices, **counts)
        self.advance = Advance(rule, self.optimiser, self.batch_size, mapped, apart)

    def length(self, epochs: int | None, steps: int | None) -> int:
        """The number of updates that was asked for, by one of the two."""
        if (epochs is None) == (steps is None):
            check.refuse("epochs", f"{epochs} and steps {steps}", "one of the two")
        return check.count("steps", steps) if epochs is None else check.count("epochs", epochs) * self.per_epoch

    def default_records(self, total: int) -> list[int]:
        """Powers of two in the first epoch, and the ends of epochs."""
        powers = [2**power for power in range(total.bit_length()) if 2**power <= min(total, self.per_epoch)]
        return [*powers, *range(self.per_epoch, total + 1, self.per_epoch)]

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
        show_progress: bool | None = None,
    ) -> tuple[Carry, History, str | None]:
        """The carry at step `total`, or where a callback stopped, the history, and the reason for stopping."""
        if not self.mapped and (reason := self.rule.broken(parameters)) is not None:
            check.refuse("network", reason, "weaker couplings between Gaussian units")
        every = self.per_epoch if every is None else check.count("checkpoint_every", every)
        state, history = self._begun(parameters, carry), History()
        if checkpoint is not None:
            self.setup["model"] = self._model(parameters)
            state, columns = stored.take_up(Path(checkpoint), resume, state, self.setup)
            history = History(columns)
        journey = _Journey(self, state, history, metrics, [as_callback(each) for each in callbacks], checkpoint)
        saves = {*range(0, total, every), total}
        stops = sorted(step for step in {*records, *saves, total} if int(state.step) < step <= total)
        stopped = None
        with _begun(journey.callbacks), progress(total, self.label, show=show_progress) as bar:
            bar.update(int(state.step))
            try:
                journey.wait_again(records)
                for stop in stops:
                    journey.advance(stop, bar)
                    if stop in records:
                        journey.record(stop)
                    if stop in saves:
                        journey.save()
            except StopRun as reason:
                stopped = str(reason)
                journey.save()
        journey.finish()
        return self.layout.gathered(journey.carry), history, stopped

    def _model(self, parameters: PyTree) -> str:
        """What a run that goes on must have in common with the one before: the structure, and what is not learned."""
        fixed = eqx.filter(parameters, self.rule.learned(parameters), inverse=True)
        return f"{_told(parameters, short_arrays=True)} {fingerprint(fixed)}"

    def _begun(self, parameters: PyTree, carry: PyTree) -> Carry:
        begun = carry
        if begun is None:
            begun = self.advance.begun(parameters, self.data, self.begin_keys)
        none = jnp.zeros((), int)
        state = self.optimiser.init(self.rule, parameters, self.mapped)
        report = eqx.filter_eval_shape(
            self.advance.single, parameters, state, begun, self.data, jnp.arange(self.batch_size), none, self.step_keys
        )[-1]
        totals = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), report)
        return _strong(Carry(none, parameters, state, begun, totals, none))


class _Journey:
    """A run under way: where it is, and what is done on the way."""

    def __init__(
        self,
        loop: Loop,
        carry: Carry,
        history: History,
        metrics: Metrics | None,
        callbacks: list[Callback],
        checkpoint: str | Path | None,
    ):
        self.loop, self.carry, self.history, self.metrics = loop, carry, history, metrics
        self.callbacks, self.folder = callbacks, None if checkpoint is None else Path(checkpoint)
        self.pace = Pace()
        self.pending: dict[str, Any] | None = None  # a row whose report comes with the next step
        self.placed = loop.layout.place((loop.advance, loop.data, loop.step_keys))
        self.saved = -1

    def advance(self, stop: int, bar: Any) -> None:
        """Go to a step, in chunks of about a second."""
        layout = self.loop.layout
        while (now := int(self.carry.step)) < stop:
            until = min(stop, now + layout.agreed(self.pace.length))
            with self.pace.measured(until - now):
                first = self._chunk(until)
                self._look(now, until)
            self._complete(first)
            bar.update(until - now)
            for callback in self.callbacks:
                callback.chunk(until)

    def _chunk(self, until: int) -> dict[str, Array]:
        """Compiled steps to `until`; what the first of them reported."""
        layout, (advance, data, keys) = self.loop.layout, self.placed
        carry, goal = layout.place(self.carry, self.loop.advance.shared(self.carry)), layout.place(jnp.asarray(until))
        with layout.in_use():
            self.carry, first, self.finite = advance(carry, data, goal, keys)
        return first

    def _look(self, now: int, until: int) -> None:
        """Stop where the parameters are no longer a system."""
        reason: str | None = "the parameters are no longer finite"
        if self.finite:
            reason = None if self.loop.mapped else self.loop.rule.broken(self.carry.parameters)
        if reason is not None:
            where = f" The last good state is in {self.folder}." if self.saved >= 0 else ""
            raise Diverged(
                f"training diverged between steps {now} and {until}: {reason}. Use a smaller learning rate.{where}"
            )

    def wait_again(self, records: Sequence[int]) -> None:
        """Let the row of the step that the run begins or goes on with wait for its report."""
        step = int(self.carry.step)
        if self.loop.rule.peeks and step in records and step not in self.history.columns.get("step", ()):
            self.record(step)

    def record(self, step: int) -> None:
        """Add a row to the history, and show it to the callbacks."""
        row = {"step": step, "epoch": step / self.loop.per_epoch}
        measured = {} if self.metrics is None else dict(self.metrics(self.carry.parameters))
        if self.loop.rule.peeks:
            self.pending = row | measured
            return
        count = np.maximum(np.asarray(self.carry.counted), 1)
        means = {name: np.asarray(total) / count for name, total in self.carry.totals.items()}
        zeroed = jax.tree.map(jnp.zeros_like, (self.carry.totals, self.carry.counted))
        self.carry = eqx.tree_at(lambda c: (c.totals, c.counted), self.carry, zeroed)
        self._add(row | means | measured)

    def _complete(self, report: Mapping[str, Array]) -> None:
        """The report of a step is about the parameters before it: those of the row that waits for it."""
        if self.pending is not None:
            row, self.pending = self.pending | {name: np.asarray(value) for name, value in report.items()}, None
            self._add(row)

    def _add(self, row: Mapping[str, Any]) -> None:
        shown = self.history.add(row)
        for callback in self.callbacks:
            callback.record(int(row["step"]), self.carry.parameters, shown)

    def save(self) -> None:
        """Write the full state; rows that wait for their report are written when they have it."""
        step = int(self.carry.step)
        if self.folder is None or step == self.saved:
            return
        whole = self.loop.layout.gathered(self.carry)  # by every process, although one writes
        if self.loop.layout.writes:
            structure = describe(whole.parameters, f"{stored.PREFIX}.parameters")[1]
            columns = self.history.arrays() if len(self.history) else {}
            stored.save(self.folder, step, whole, columns, self.loop.setup, {"model": structure})
        self.saved = step

    def finish(self) -> None:
        """Complete the last row by a step that is looked at and not taken."""
        if self.pending is not None:
            copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, self.carry.rule)
            before = self.carry
            report = self._chunk(int(self.carry.step) + 1)
            self.carry = eqx.tree_at(lambda c: c.rule, before, copied)
            with contextlib.suppress(StopRun):
                self._complete(report)


class Advance(eqx.Module):
    """The compiled part: from the step in the carry to another, over batches drawn by epoch and step."""

    rule: Rule
    optimiser: Optimiser = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    mapped: bool = eqx.field(static=True)
    apart: bool = eqx.field(static=True)

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
        every = jnp.arange(examples)

        def step(state: tuple) -> tuple:
            moving, first, epoch, order = state
            carry = eqx.combine(moving, still)
            here = carry.step // per_epoch
            if examples > self.batch_size:
                order = jax.lax.cond(here == epoch, lambda: order, lambda: self._shuffled(keys, here, examples))
            index = jax.lax.dynamic_slice_in_dim(
                order, (carry.step % per_epoch) * self.batch_size, self.batch_size, axis=-1
            )
            moved, report = self._moved(carry, data, index, keys)
            first = {name: jnp.where(carry.step == begun, report[name], old) for name, old in first.items()}
            return eqx.filter(arranged(moved, self.shared(moved)), eqx.is_array), first, here, order

        begun = carry.step
        order = jnp.broadcast_to(every, (*keys.shape, examples)) if examples > self.batch_size else every
        first = jax.tree.map(jnp.zeros_like, carry.totals) if self.rule.peeks else {}
        start = (moving, first, jnp.asarray(-1), order)
        moving, first, _, _ = jax.lax.while_loop(lambda state: state[0].step < until, step, start)
        carry = eqx.combine(moving, still)
        numbers = jax.tree.leaves(eqx.filter(carry.parameters, eqx.is_inexact_array))
        return carry, first, jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))

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
        whole = len(jax.tree.leaves(data)[0]) == self.batch_size
        examples = data if whole else jax.tree.map(lambda leaf: leaf[index], data)
        batch = spread(self.rule.batch(examples))
        found = self.rule.step(parameters, batch, carry=rule, index=index, key=jax.random.fold_in(key, step))
        learned = self.rule.learned(parameters)
        moving, gradient = eqx.filter(parameters, learned), eqx.filter(found.gradient, learned)
        updates, optimiser = self.optimiser.transform.update(gradient, optimiser, moving)
        report = found.report | self.rule.watched(moving, updates)
        return eqx.apply_updates(parameters, updates), optimiser, found.carry, report

    def _shuffled(self, keys: Array, epoch: Array, examples: int) -> Array:
        # Epochs count down from the top of the range, so that no epoch shares its number with a step.
        number = jnp.uint32(2**32 - 1) - epoch.astype(jnp.uint32)

        def shuffled(key: Array) -> Array:
            return jax.random.permutation(jax.random.fold_in(key, number), examples)

        return jax.vmap(shuffled)(keys) if self.mapped else shuffled(keys)


# What the rule carries is given away, so that particles, one for each example, are not copied with every chunk.
@eqx.filter_jit(donate="all-except-first")
def _advanced(fixed: tuple, rule: PyTree) -> tuple[Carry, dict[str, Array], Array]:
    advance, carry, data, until, keys = fixed
    carry = eqx.tree_at(lambda c: c.rule, carry, rule, is_leaf=lambda leaf: leaf is None)
    return advance.run(carry, data, until, keys)


def _told(tree: PyTree, *, short_arrays: bool = False) -> str:
    """A tree in one line, for an error that names what has changed."""
    return " ".join(eqx.tree_pformat(tree, short_arrays=short_arrays).split())


def _split(keys: Array, mapped: bool) -> tuple[Array, Array]:
    """A key to begin with and one for the steps, for each run."""
    if not mapped:
        begin, step = jax.random.split(keys)
        return begin, step
    pairs = jax.vmap(jax.random.split)(keys)
    return pairs[:, 0], pairs[:, 1]


def _repeated(tree: PyTree, runs: int) -> PyTree:
    def repeated(leaf: Any) -> Any:
        return jnp.broadcast_to(leaf, (runs, *leaf.shape)) if eqx.is_array(leaf) else leaf

    return jax.tree.map(repeated, tree)


def _strong(tree: PyTree) -> PyTree:
    """The tree as compiled steps return it, without weak types: another type would compile them again."""

    def strong(leaf: Any) -> Any:
        return jnp.asarray(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf

    return jax.tree.map(strong, tree)


@contextlib.contextmanager
def _begun(callbacks: Sequence[Callback]) -> Iterator[None]:
    for callback in callbacks:
        callback.begin()
    try:
        yield
    finally:
        for callback in callbacks:
            callback.end()
