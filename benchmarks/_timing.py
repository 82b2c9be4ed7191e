"""Timing of rivals on the same work, interleaved, because these machines are noisy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

_PAUSE = 0.1  # seconds


def race(rivals: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, np.ndarray]:
    """Seconds of each rival in each round; every round runs all of them, after one unmeasured warm-up each.

    A rival must have finished its work when it returns (block on JAX arrays). Who goes first changes from round to round,
    after a pause: the threads of NumPy's matrix products keep the cores busy for a while after the last one.
    """
    for rival in rivals.values():
        rival()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds):
        names = list(rivals)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            rival = rivals[name]
            time.sleep(_PAUSE)
            began = time.perf_counter()
            rival()
            seconds[name].append(time.perf_counter() - began)
    return {name: np.array(values) for name, values in seconds.items()}


def table(seconds: Mapping[str, np.ndarray], ours: str) -> str:
    """Median times and, for each rival, the median ratio to ours with its quartiles over the rounds."""
    lines = [f"{'':24} {'median ms':>10} {'ratio to ours':>14} {'quartiles':>14}"]
    for name, values in seconds.items():
        low, middle, high = np.percentile(values / seconds[ours], [25, 50, 75])
        lines.append(f"{name:24} {1e3 * np.median(values):10.2f} {middle:14.2f} {low:6.2f} - {high:5.2f}")
    return "\n".join(lines)
