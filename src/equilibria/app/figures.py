"""What `equilibria reproduce` and `equilibria report` do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from equilibria import check, files
from equilibria.app import report as page
from equilibria.grids.engines import on_cluster
from equilibria.papers import INDEX, frame
from equilibria.papers.claims import Claim, counted
from equilibria.progress import progress

# Seconds of each quick run on one core, with what it compiles: said before a report begins, which starts with the longest.
_SECONDS: dict[str, float] = {}
_USUAL = 15.0


class Made(NamedTuple):
    """One figure of a report: what is printed about it, and its claims; or why it could not be made."""

    id: str
    told: str
    claims: list[Claim]
    missing: str = ""
    failed: str = ""


def reproduce(id: str, preset: str, out: Path | None, force: bool, cluster: str | None) -> int:
    """Make one figure and print its claims; 1 if one does not hold, 2 if the result could not be kept."""
    with on_cluster(cluster):
        result = frame.reproduce(id, preset, out, force=force)
    print(_told(id, preset, result), flush=True)
    return 2 if not result.stored else 0 if result.held else 1


def report(out: Path, preset: str, jobs: int | None, kept: bool) -> int:
    """Make every figure that is not there yet, and one page about all of them, which is there after the first.

    Returns 1 if a figure could not be made although nothing is missing.
    """
    page.check_place(out)
    files.check_writable(out)
    jobs = len(_cores()) if jobs is None else check.count("--jobs", jobs)
    waiting = [] if kept else sorted(INDEX, key=lambda id: -_SECONDS.get(id, _USUAL))
    if waiting:
        print(_announced(waiting, preset, out, jobs), flush=True)
    lacking: dict[str, str] = {}
    claims: list[Claim] = []
    broken = False
    for made in _made(list(waiting), preset, out, jobs):
        waiting.remove(made.id)
        print(made.told, end="\n" * bool(made.told), flush=True)
        claims += made.claims
        broken = broken or bool(made.failed)
        if made.missing or made.failed:
            lacking[made.id] = made.missing or made.failed
        page.write(out, waiting=sorted(waiting), lacking=lacking)
    if lacking:
        print(f"Left out: {', '.join(lacking)}.", *sorted(set(lacking.values())), sep="\n", file=sys.stderr)
    path = page.write(out, lacking=lacking)
    counts = counted(claim for entry in page.entries(out) for claim in entry.claims)
    print(f"{counts} Open {path}")
    return int(broken)


def _cores() -> Sequence[int]:
    """The processor's cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _announced(ids: Sequence[str], preset: str, out: Path, jobs: int) -> str:
    """What is going to be done, and how long it takes."""
    todo = [id for id in ids if not (frame.folder_of(id, preset, out) / "claims.json").exists()]
    times = [_SECONDS.get(id, _USUAL) for id in todo]
    said = f"{len(todo)} of {len(ids)} figures to make on {jobs} {'core' if jobs == 1 else 'cores'}"
    if preset == "quick":
        said += f", about {max(sum(times) / jobs, max(times, default=0)) / 60:.0f} min in all. Each is a small version"
    else:
        said += ", some of which take hours"
    return f"{said}. {out / 'report.html'} is there after the first and grows."


def _made(ids: Sequence[str], preset: str, out: Path, jobs: int) -> Iterator[Made]:
    """Figures as they are finished, one in each process at a time."""
    if jobs == 1 or len(ids) < 2:
        for id in ids:
            yield _make(id, preset, out, quiet=False)
        return
    context = multiprocessing.get_context("spawn")  # a process that has threads, as JAX has, must not be forked
    shares: Any = context.Queue()
    cores = _cores()
    for job in range(jobs):
        shares.put([core for place, core in enumerate(cores) if place % jobs == job % len(cores)])
    with ProcessPoolExecutor(jobs, context, _begin, (shares,)) as pool:
        try:
            running: list[Future[Made]] = [pool.submit(_make, id, preset, out, quiet=True) for id in ids]
            yield from (future.result() for future in as_completed(running))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin(shares: Any) -> None:
    """A worker keeps to its own cores, dies at once when the user says stop, and keeps what it compiles."""
    from equilibria.compiled import cache

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, shares.get())
    cache()


def _make(id: str, preset: str, out: Path, *, quiet: bool) -> Made:
    """One figure; a data set that is missing, or an error, does not end the others."""
    try:
        bars = partial(progress, show=False) if quiet else progress
        result = frame.reproduce(id, preset, frame.folder_of(id, preset, out), progress=bars)
    except FileNotFoundError as missing:  # a data set that is neither here nor to be downloaded
        return Made(id, "", [], missing=str(missing))
    except Exception as error:
        if os.environ.get("EQUILIBRIA_DEBUG"):
            raise
        return Made(id, "", [], failed=f"{id} could not be made: {type(error).__name__}: {error}")
    return Made(id, _told(id, preset, result), result.claims)


def _told(id: str, preset: str, result: frame.Reproduction) -> str:
    seconds = result.dataset.attrs["seconds"]
    how = f"kept from {result.dataset.attrs['created']}; --force runs it again" if result.cached else f"{seconds:.1f} s"
    small = ", quick: a small version" * (preset == "quick")
    lines = [f"{id} ({how}{small})"]
    if result.stale:
        lines.append("  STALE     made by earlier code than this")
    for claim in result.claims:
        verdict = {"held": "held    ", "not held": "NOT HELD", "not testable": "untested"}[claim.verdict]
        found = f"{claim.expectation}, measured {claim.finding}" if claim.tested else claim.reason
        lines.append(f"  {verdict}  {'ours: ' * claim.ours}{claim.says}: {found}  [{claim.source}]")
    lines.append(f"  {result.tally}")
    lines.append(f"  in {result.folder}" if result.stored else "  not kept")
    return "\n".join(lines)
