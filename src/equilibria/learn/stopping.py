"""Ways to end a run with its history whole: patience, a limit of time, a signal of the system.

A callback is called at every record with the step, the parameters and the row of the history. It ends the run by raising
`StopRun`; the loop then writes the checkpoint, if there is one, and returns what there is, with the reason as
`Run.stopped`. A `Callback` may also look in between chunks of compiled steps, about once a second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeAlias

import numpy as np

from equilibria import check

Row: TypeAlias = Mapping[str, np.ndarray]
REQUEUE = 75  # the exit code of a command that was told to stop and can go on: EX_TEMPFAIL of sysexits.h


class StopRun(Exception):
    """Raised by a callback to end a run; the message is the reason, which `Run.stopped` then holds.

    >>> import equilibria as eq
    >>> def enough(step, parameters, row):
    ...     if step >= 2:
    ...         raise StopRun("two steps are enough")
    >>> eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), steps=9, callbacks=[enough], key=1).stopped
    'two steps are enough'
    """


class Callback:
    """What a run calls. A plain function of (step, parameters, row) is one that is called at every record.

    A subclass gives the methods it needs; each does nothing by default, and may raise `StopRun`.

    >>> class Heard(Callback):
    ...     def begin(self):
    ...         self.steps = []
    ...     def record(self, step, parameters, row):
    ...         self.steps.append(step)
    >>> import equilibria as eq
    >>> heard = Heard()
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), steps=4, callbacks=[heard], record=[1, 4], key=1)
    >>> heard.steps
    [1, 4]
    """

    def begin(self) -> None:
        """Called when the run begins."""

    def record(self, step: int, parameters: Any, row: Row) -> None:
        """Called at every record, with the row that goes into the history."""

    def chunk(self, step: int) -> None:
        """Called between chunks of compiled steps, about once a second."""

    def end(self) -> None:
        """Called when the run ends, for whatever reason."""


class _Function(Callback):
    def __init__(self, function: Callable[[int, Any, Row], None]):
        self.function = function

    def record(self, step: int, parameters: Any, row: Row) -> None:
        self.function(step, parameters, row)


def as_callback(given: Callback | Callable[[int, Any, Row], None]) -> Callback:
    """A callback object for a function, or the object itself.

    Args:
        given: a `Callback`, or a function of (step, parameters, row).

    Returns:
        The callback.

    Raises:
        ValueError: if it is neither.
    """
    if isinstance(given, Callback):
        return given
    if not callable(given):
        check.refuse("callbacks", repr(given), "functions of (step, parameters, row), or objects such as Patience")
    return _Function(given)


class Patience(Callback):
    """Ends a run when a number in the history has not improved for some records, and keeps the best parameters.

    Args:
        metric: the name of a column of the history, such as one that `metrics` returns.
        records: how many records without improvement it takes.
        largest: whether more is better (a score) or less (an error).
        least: what counts as an improvement.

    Attributes:
        best: the parameters with the best value so far.
        best_value: that value.
        best_step: the step at which they were.

    Raises:
        ValueError: if a number is out of its range; at the first record, if the history has no such column.

    >>> import equilibria as eq
    >>> stop = Patience("score", 2)
    >>> data, score = np.eye(4), lambda network: {"score": 0.0}
    >>> run = eq.train(eq.rbm(4, 2, key=0), data, eq.cd(1), epochs=9, metrics=score, callbacks=[stop], key=1)
    >>> run.stopped, run.history.sizes["step"]
    ('score has not improved for 2 records', 3)
    """

    def __init__(self, metric: str, records: int = 10, *, largest: bool = True, least: float = 0.0):
        self.metric, self.records = metric, check.count("records", records)
        self.largest, self.least = largest, check.number("least", least, least=0.0)
        self.begin()

    def begin(self) -> None:
        """Forget the best of an earlier run."""
        self.best: Any = None
        self.best_value, self.best_step, self._since = -np.inf if self.largest else np.inf, 0, 0

    def record(self, step: int, parameters: Any, row: Row) -> None:
        """Compare with the best so far, and stop when patience is over."""
        value = float(np.mean(row[check.choice("metric", self.metric, row)]))
        gain = value - self.best_value if self.largest else self.best_value - value
        if self.best is None or gain > self.least:
            self.best, self.best_value, self.best_step, self._since = parameters, value, step, 0
            return
        self._since += 1
        if self._since >= self.records:
            raise StopRun(f"{self.metric} has not improved for {self.records} records")


class TimeLimit(Callback):
    """Ends a run after so many seconds, at the end of the chunk under way.

    Args:
        seconds: how many, from the beginning of the run.

    Raises:
        ValueError: if the number is not above zero.

    >>> import equilibria as eq
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), steps=9, callbacks=[TimeLimit(1e-9)], key=1)
    >>> run.stopped
    'the time limit of 1e-09 s is reached'
    """

    def __init__(self, seconds: float):
        self.seconds = check.number("seconds", seconds, above=0.0)
        self._until = np.inf

    def begin(self) -> None:
        """Start the clock: the finest there is, since Windows' usual one stands still for 15.6 ms."""
        self._until = time.perf_counter() + self.seconds

    def chunk(self, step: int) -> None:
        """Stop once the time is over."""
        if time.perf_counter() >= self._until:
            raise StopRun(f"the time limit of {self.seconds:g} s is reached")


class OnSignal(Callback):
    """Ends a run when the system asks for it: SIGTERM or SIGUSR1, as batch queues send before their time limit.

    The chunk under way ends, the checkpoint is written, and the run returns with `stopped` set. The command line then exits
    with code 75, on which a queue can start the same command again with `--resume`. Handlers are those of the main thread,
    and what they were before comes back when the run ends.

    Args:
        *signals: which signals, SIGTERM and SIGUSR1 by default.

    Attributes:
        received: the signal that came, None if none did.

    >>> import os, equilibria as eq
    >>> stop = OnSignal(signal.SIGTERM)
    >>> ask = lambda step, parameters, row: os.kill(os.getpid(), signal.SIGTERM)
    >>> eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), steps=9, callbacks=[ask, stop], record=[1], key=1).stopped
    'the system asked for it (SIGTERM)'
    """

    def __init__(self, *signals: signal.Signals):
        known = (getattr(signal, name, None) for name in ("SIGTERM", "SIGUSR1"))  # Windows has no SIGUSR1
        self.signals = signals or tuple(number for number in known if number is not None)
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)

    def begin(self) -> None:
        """Take the signals over."""
        self.received = None
        self._before = {number: signal.signal(number, self._note) for number in self.signals}

    def chunk(self, step: int) -> None:
        """Stop once a signal has come."""
        if self.received is not None:
            raise StopRun(f"the system asked for it ({self.received.name})")

    def end(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
