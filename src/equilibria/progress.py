"""How far a long computation has come, and how long it still takes."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tqdm import tqdm

Progress = Callable[..., "tqdm[Any]"]


def progress(work: int | Iterable[Any], label: str, unit: str = "step", *, show: bool | None = None) -> tqdm[Any]:
    """A progress bar on stderr, with rate and remaining time, for work that lasts longer than two seconds.

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
    disable = None if show is None else not show
    return tqdm(items, desc=label, unit=unit, delay=2, file=sys.stderr, disable=disable, leave=False)


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
    with progress(stop, label, unit, show=show) as bar:
        bar.update(start)
        while start < stop:
            until = min(stop, start + pace.length)
            with pace.measured(until - start):
                yield until
            bar.update(until - start)
            start = until
