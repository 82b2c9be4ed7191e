"""How far a long computation has come, and how long it still takes."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from tqdm import tqdm

Progress = Callable[..., "tqdm[Any]"]
_DELAY = 2.0  # seconds of work that nobody needs to be told of
_LOG = logging.getLogger(__name__)
_BETWEEN = 10.0  # seconds between two lines of the log
_WITHOUT_PACE = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


def progress(work: int | Iterable[Any], label: str, unit: str = "step", *, show: bool | None = None) -> tqdm[Any]:
    """A progress bar on stderr, with rate and remaining time, for work that lasts longer than two seconds.

    Whether it is shown or not, Python's logging is told at level INFO every ten seconds how far the work has come.

    Args:
        work: what to go through, or how many steps there are; count them by iterating or, between compiled chunks, with
            `update`.
        label: what is being done.
        unit: what is counted.
        show: whether to show the bar; None: on a terminal only.

    Returns:
        A bar of tqdm.

    >>> [square**2 for square in progress(range(3), "squares")]
    [0, 1, 4]
    >>> with progress(100, "training", "epoch") as bar:
    ...     for _ in range(4):
    ...         _ = bar.update(25)
    """
    items = range(work) if isinstance(work, int) else work
    return _Counted(items, desc=label, unit=unit, **_options(show))


def _options(show: bool | None) -> dict[str, Any]:
    disable = None if show is None else not show
    return {"delay": _DELAY, "file": sys.stderr, "disable": disable, "leave": False}


class _Told:
    """How far work has come, in a line of the log every ten seconds and at the end: what a bar is where nobody looks on."""

    def __init__(self, label: str, unit: str, total: float | None):
        self.label, self.unit, self.total = label, unit, total
        self.began = self.last = time.monotonic()
        self.shown = math.inf  # what the last line said; no line was there yet

    def __call__(self, done: float) -> None:
        now = time.monotonic()
        if now - self.last >= _BETWEEN:
            self.last, self.shown = now, done
            count = f"{done:,}" if self.total is None else f"{done:,} of {self.total:,}"
            _LOG.info("%s: %s %ss after %.0f s", self.label, count, self.unit, now - self.began)

    def end(self, done: float) -> None:
        """The last line, once, if there was one before."""
        if self.shown < done:
            self.last = -math.inf
            self(done)
        self.shown = self.last = math.inf


class _Counted(tqdm):
    """A bar of tqdm that counts, and tells the log, even where it is not shown."""

    def __init__(self, items: Iterable[Any], **options: Any):
        super().__init__(items, **options)
        self.done = 0
        self.told = _Told(options["desc"], options["unit"], self.total)

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self.iterable:
                yield item
                self.update()

    def update(self, n: float | None = 1) -> bool | None:
        self.done += int(n or 0)
        self.told(self.done)
        return super().update(n)

    def close(self) -> None:
        _end(self)
        super().close()


def _end(bar: Any) -> None:
    if hasattr(bar, "told"):  # tqdm also closes what could not be made
        bar.told.end(bar.done)


class CompiledBar(tqdm):
    """The bar of a loop whose steps are compiled: its first chunk takes as long as the compiler does.

    Until that chunk is done the bar says "compiling", and it names no remaining time before a chunk without compilation has
    shown the pace. `reached` counts, `tell` shows numbers beside it.

    Args:
        start: where the work stands.
        stop: where it ends.
        label: what is being done.
        unit: what is counted.
        show: whether to show the bar; None: on a terminal only.

    >>> with CompiledBar(0, 100, "training") as bar:
    ...     bar.reached(1)
    ...     bar.tell({"error": 0.25})
    ...     bar.reached(100)
    """

    def __init__(self, start: int, stop: int, label: str, unit: str = "step", *, show: bool | None = None):
        super().__init__(
            total=stop, initial=start, desc=f"{label}, compiling", unit=unit, bar_format=_WITHOUT_PACE, **_options(show)
        )
        self.label, self.compiling = label, True
        self.done, self.told = start, _Told(label, unit, stop)
        self.timer: threading.Timer | None = None
        if not self.disable:
            self.timer = threading.Timer(_DELAY, self._appear)
            self.timer.daemon = True
            self.timer.start()

    def _appear(self) -> None:
        """Show the bar while the compiler holds the thread that counts."""
        if self.compiling:
            self.last_print_t = self._time()
            self.refresh()

    def reached(self, step: int) -> None:
        """Count up to a step.

        Args:
            step: where the work stands now.
        """
        self.done = step
        self.told(step)
        if self.disable:
            return
        if not self.compiling:
            self.bar_format = None
            self.update(step - self.n)
            return
        self.compiling = False
        self.n: float = step
        self.set_description_str(self.label, refresh=False)
        if self._time() >= self.start_t + _DELAY:
            self.refresh()
        self.last_print_n, self.last_print_t = step, self._time()  # the pace begins here

    def tell(self, numbers: Mapping[str, Any]) -> None:
        """Show numbers beside the bar from its next change on.

        Args:
            numbers: by name; of an array its mean.
        """
        if not self.disable:
            self.set_postfix_str(
                ", ".join(f"{name} {float(np.mean(value)):.4g}" for name, value in numbers.items()), refresh=False
            )

    def close(self) -> None:
        """Take the bar away."""
        self.compiling = False
        _end(self)
        timer: threading.Timer | None = getattr(self, "timer", None)
        if timer is not None:
            timer.cancel()
        super().close()


class Pace:
    """How long a chunk of compiled work should be so that it takes about a second.

    Attributes:
        length: the number of steps of the next chunk.

    >>> pace = Pace()
    >>> with pace.measured(pace.length):
    ...     pass
    >>> pace.length
    8
    """

    def __init__(self) -> None:
        self.length = 1

    @contextlib.contextmanager
    def measured(self, steps: int) -> Iterator[None]:
        """Around the work of so many steps; the next chunk is at most eight times as long as the last.

        Args:
            steps: how many are done inside the block.

        Yields:
            Nothing: time is taken from here to the end of the block.
        """
        began = time.perf_counter()
        yield
        pace = steps / max(time.perf_counter() - began, 1e-9)  # steps a second
        self.length = max(1, min(8 * self.length, int(pace)))


def chunks(start: int, stop: int, label: str, unit: str = "step", *, show: bool | None = None) -> Iterator[int]:
    """Where to pause on the way from `start` to `stop`, so that a chunk of compiled work takes about a second.

    The caller does the work up to each number before it asks for the next; a progress bar is kept meanwhile.

    Args:
        start: where the work stands.
        stop: where it ends.
        label: what is being done.
        unit: what is counted.
        show: whether to show the bar; None: on a terminal only.

    Yields:
        The numbers of steps after which to pause, the last of them `stop`.

    >>> [until for until in chunks(0, 5, "quick work")]
    [1, 5]
    """
    pace = Pace()
    with CompiledBar(start, stop, label, unit, show=show) as bar:
        while start < stop:
            until = min(stop, start + pace.length)
            with pace.measured(until - start):
                yield until
            bar.reached(until)
            start = until
