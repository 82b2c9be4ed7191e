"""Two processes at the same work in the same folder, at the same time."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from faults import workloads
from faults.nursery import Nursery
from faults.tally import Tally

WORK = ("train", "grid", "reproduce")


def pairs(count: int, nursery: Nursery, work=WORK, seed: int = 0) -> Tally:
    """Start two workers a little apart: each finishes or says that another is at work, and what is left is right."""
    draw, outcomes, broken = np.random.default_rng(seed), Counter(), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        whole = {name: _through(nursery, name, folder / name / "whole") for name in work}
        for number in range(count):
            name = work[number % len(work)]
            here = folder / name / str(number)
            first = nursery.start(name, here)
            time.sleep(draw.uniform(0, 0.3))
            both = (first, nursery.start(name, here))
            ends = [nursery.end(worker) for worker in both]
            broken += _verdict(name, here, whole[name], ends, [nursery.said(worker) for worker in both])
            outcomes["both finished" if ends == [0, 0] else "one finished, one was refused"] += 1
    return Tally("two processes at the same work in one folder", count, outcomes, broken)


def _through(nursery: Nursery, name: str, folder: Path):
    worker = nursery.start(name, folder)
    assert nursery.end(worker) == 0, nursery.said(worker)
    return workloads.outcome(name, folder)


def _verdict(name: str, folder: Path, whole, ends: list[int], said: list[str]) -> list[str]:
    wrong = [
        f"{name}: {told}"
        for end, told in zip(ends, said, strict=True)
        if end and not ("is at work; allowed: another folder" in told and "process" in told)
    ]
    if 0 not in ends:
        wrong.append(f"{name}: neither of the two finished")
    elif workloads.outcome(name, folder) != whole:
        wrong.append(f"{name}: two at once left something else than one")
    return wrong
