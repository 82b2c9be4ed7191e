"""How far a long computation has come, and how long it still takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from tqdm import tqdm

Progress = Callable[..., "tqdm[Any]"]


def progress(work: int | Iterable[Any], label: str, unit: str = "step", *, show: bool | None = None) -> tqdm[Any]:
    """A progress bar on stderr, with rate and remaining time, for work that lasts longer than two seconds.

    `work` is what to go through, or how many steps there are; count them by iterating or, between compiled chunks,
    with `update`. `show=None` shows the bar on a terminal only.

    >>> [square**2 for square in progress(range(3), "squares")]
    [0, 1, 4]
    >>> with progress(100, "training", "epoch") as bar:
    ...     for _ in range(4):
    ...         _ = bar.update(25)
    """
    items = range(work) if isinstance(work, int) else work
    disable = None if show is None else not show
    return tqdm(items, desc=label, unit=unit, delay=2, file=sys.stderr, disable=disable, leave=False)
