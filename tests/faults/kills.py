"""Processes that are killed at random moments: what was written stays, every file is whole, and the end is the same."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from faults import workloads
from faults.nursery import Nursery
from faults.tally import Tally


def kills(count: int, nursery: Nursery, work=tuple(workloads.WORK), seed: int = 0) -> Tally:
    """Kill workers `count` times, in turn of all kinds of work, and let each piece of work come to its end."""
    outcomes, broken = Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(work):
            share = count // len(work) + (place < count % len(work))
            one = _Killed(nursery, name, Path(folder) / name, np.random.default_rng((seed, place)))
            one.kill(share)
            outcomes.update(one.outcomes)
            broken += one.broken
    return Tally("kills at random moments, resumed", count, outcomes, broken)


class _Killed:
    """One kind of work that is killed again and again."""

    def __init__(self, nursery: Nursery, name: str, folder: Path, draw: np.random.Generator):
        self.nursery, self.name, self.folder, self.draw = nursery, name, folder, draw
        self.outcomes, self.broken, self.number = Counter(), [], 0
        self.seconds = self._through(folder / "whole")  # it compiles
        self.seconds = self._through(folder / "again")
        self.whole = workloads.outcome(name, folder / "whole")
        if self.whole != workloads.outcome(name, folder / "again"):
            self.broken.append(f"{name}: two runs that were not killed differ")

    def _through(self, folder: Path) -> float:
        began = time.monotonic()
        worker = self.nursery.start(self.name, folder)
        if self.nursery.end(worker):
            self.broken.append(f"{self.name}: {self.nursery.said(worker)}")
        return time.monotonic() - began

    def kill(self, count: int) -> None:
        """Until as many workers were killed; work that comes to its end is begun again."""
        done, before = 0, 0
        while done < count and not self.broken:
            folder = self.folder / str(self.number)
            worker = self.nursery.start(self.name, folder)
            ended = self._killed(worker, folder, wait=done % 2 == 1)
            if ended == -signal.SIGKILL:
                done += 1
                before = self._looked_after(folder, before)
            elif ended == 0:
                self._finished(folder)
                before = 0
            else:
                self.broken.append(f"{self.name} ended with {ended}: {self.nursery.said(worker)}")
        if not self.broken and (self.folder / str(self.number)).exists():
            self._through(self.folder / str(self.number))
            self._finished(self.folder / str(self.number))

    def _killed(self, worker: int, folder: Path, *, wait: bool) -> int:
        if wait:  # until a file is being written, and then some milliseconds more
            _until_something_changes(folder, self.seconds)
            time.sleep(self.draw.uniform(0, 0.01))
        else:
            time.sleep(self.draw.uniform(0, self.seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        return self.nursery.end(worker)

    def _looked_after(self, folder: Path, before: int) -> int:
        """How far the work is now: not behind where it was."""
        try:
            now = workloads.reached(self.name, folder)
        except Exception as error:  # whatever a reader says of a file that is not whole
            self.broken.append(f"{self.name} after a kill: {error!r}")
            return before
        if now < before:
            self.broken.append(f"{self.name}: {before} was reached, and after a kill {now} is there")
        self.outcomes[f"of `{self.name}`"] += 1
        return now

    def _finished(self, folder: Path) -> None:
        if workloads.outcome(self.name, folder) != self.whole:
            self.broken.append(f"{self.name}: the end differs from that of work that was not killed")
        self.outcomes["finished bit for bit the same"] += 1
        self.number += 1


def _until_something_changes(folder: Path, seconds: float) -> None:
    end, before = time.monotonic() + seconds, _contents(folder)
    while time.monotonic() < end and _contents(folder) == before:
        time.sleep(0.0005)


def _contents(folder: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return {str(path) for path in folder.rglob("*")}
    return set()
