"""A run under way: what is done between compiled chunks of steps."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from equilibria.compiled import array
from equilibria.files import run as stored
from equilibria.learn.advance import Carry
from equilibria.learn.history import History
from equilibria.learn.rule import PyTree
from equilibria.learn.stopping import Callback, StopRun
from equilibria.learn.trajectory import Keeper
from equilibria.model.saving import describe
from equilibria.progress import CompiledBar, Pace

if TYPE_CHECKING:
    from equilibria.learn.loop import Loop

_LOG = logging.getLogger(__name__)  # "equilibria" and what is below it: INFO has the records, DEBUG the checkpoints

Metrics = Callable[[Any], Mapping[str, ArrayLike]]


class Diverged(ArithmeticError):
    """Training left the finite numbers, or the parameters no longer make a system; the last checkpoint is from before that.

    >>> import equilibria as eq
    >>> machine = eq.rbm(visible=eq.Gaussian(), hidden=eq.Gaussian(), weights=[[0.5]])
    >>> eq.train(machine, np.full((2, 1), 9.0), eq.cd(1), steps=4, learning_rate=1.0, key=1)
    Traceback (most recent call last):
    equilibria.learn.journey.Diverged: training diverged between steps ...: not normalisable: ...
    """


class Journey:
    """A run under way: where it is, and what is done on the way."""

    def __init__(
        self,
        loop: Loop,
        carry: Carry,
        history: History,
        metrics: Metrics | None,
        callbacks: list[Callback],
        checkpoint: str | Path | None,
        keeper: Keeper | None = None,
        saved: int = -1,
    ):
        self.keeper = keeper
        self.loop, self.carry, self.history, self.metrics = loop, carry, history, metrics
        self.callbacks, self.folder = callbacks, None if checkpoint is None else Path(checkpoint)
        self.pace = Pace()
        # A row whose report comes with the next step, and the parameters that it is about.
        self.pending: tuple[dict[str, Any], PyTree] | None = None
        self.placed = loop.layout.place((loop.advance, loop.data, loop.step_keys))
        self.shared = loop.advance.shared(carry)
        self.shown_window = 0  # the data that a run begins with are the first
        self.saved = saved  # the step of the newest checkpoint in the folder
        self.named: set[str] = set()  # the numbers of a row that stand beside the bar
        self.shown: dict[str, np.ndarray] = {}

    def advance(self, stop: int, bar: CompiledBar) -> None:
        """Go to a step, in chunks of about a second."""
        layout = self.loop.layout
        bar.tell(self.shown)
        while (now := int(self.carry.step)) < stop:
            until = min(stop, now + layout.agreed(self.pace.length), self._window_end(now))
            if self.keeper is not None and (look := self.keeper.next(now)) is not None:
                until = min(until, look)
            with self.pace.measured(until - now):
                self._chunk(until)
                self._look(now, until)
            self._complete()
            if self.keeper is not None:
                self.keeper.look(self.carry)
            bar.reached(until)
            if until < stop:
                self.pause(until)

    def _window_end(self, step: int) -> int:
        """Where the window of data that holds this step ends; it is taken up if it is not there."""
        stream = self.loop.stream
        if stream is None:
            return step + self.pace.length
        number = step // stream.window
        if number != self.shown_window:
            (advance, _, keys), rows = self.placed, stream.prepared(stream.rows(number * stream.window))
            self.placed, self.shown_window = (advance, self.loop.layout.place(rows), keys), number
        stream.check(step)
        return min((number + 1) * stream.window, stream.ends or step + self.pace.length)

    def pause(self, step: int) -> None:
        """Let the callbacks look; what is due at this step must be done, for a run that goes on begins after it."""
        for callback in self.callbacks:
            callback.chunk(step)

    def _chunk(self, until: int) -> None:
        """Compiled steps to `until`."""
        layout, (advance, data, keys) = self.loop.layout, self.placed
        carry, goal = layout.place(self.carry, self.shared), layout.place(array(until, int))
        with layout.in_use():
            self.carry, self.finite = advance(carry, data, goal, keys)

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
        row: dict[str, Any] = {"step": step}
        if self.loop.per_epoch is not None:
            row["epoch"] = step / self.loop.per_epoch
        measured = {} if self.metrics is None else dict(self.metrics(self.carry.parameters))
        self.named = {*measured, *self.loop.rule.headline}
        if self.keeper is not None:
            measured = self.keeper.row(self.carry) | measured
        if self.loop.rule.peeks:
            self.pending = row | measured, self.carry.parameters
            return
        count = np.maximum(np.asarray(self.carry.counted), 1)
        means = {name: np.asarray(total) / count for name, total in self.carry.totals.items()}
        zeroed = jax.tree.map(
            lambda leaf: array(np.zeros(leaf.shape), leaf.dtype), (self.carry.totals, self.carry.counted)
        )
        self.carry = self.carry._replace(totals=zeroed[0], counted=zeroed[1])
        self._add(row | means | measured, self.carry.parameters)

    def _complete(self) -> None:
        """The report of a step is about the parameters before it: those of the row that waits for it."""
        if self.pending is not None:
            (row, parameters), self.pending = self.pending, None
            self._add(row | self.carry.totals, parameters)

    def _add(self, row: Mapping[str, Any], parameters: PyTree) -> None:
        shown = self.history.add(row)
        if _LOG.isEnabledFor(logging.INFO):
            numbers = (f"{name} {float(value):.6g}" for name, value in shown.items() if value.ndim == 0)
            _LOG.info("%s: %s", self.loop.label, ", ".join(numbers))
        self.shown = {
            name: value for name, value in shown.items() if name in self.named and np.ndim(value) <= self.loop.mapped
        }
        for callback in self.callbacks:
            callback.record(int(row["step"]), parameters, shown)

    def save(self) -> None:
        """Write the full state; rows that wait for their report are written when they have it."""
        step = int(self.carry.step)
        if self.folder is None or step == self.saved:
            return
        if self.keeper is not None:
            self.keeper.save()
        whole = self.loop.layout.gathered(self.carry)  # by every process, although one writes
        if self.loop.layout.writes:
            structure = describe(whole.parameters, f"{stored.PREFIX}.parameters")[1]
            columns = self.history.arrays() if len(self.history) else {}
            stored.save(self.folder, step, whole, columns, self.loop.setup, {"model": structure})
        self.saved = step
        _LOG.debug("%s: checkpoint of step %d in %s", self.loop.label, step, self.folder)

    def finish(self) -> None:
        """Complete the last row by a step that is looked at and not taken."""
        if self.pending is not None:
            copied = _copied(self.carry.rule)
            before = self.carry
            self._chunk(int(self.carry.step) + 1)
            with contextlib.suppress(StopRun):
                self._complete()
            self.carry = before._replace(rule=copied)


@eqx.filter_jit
def _copied(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, tree)
