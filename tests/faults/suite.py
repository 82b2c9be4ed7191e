"""The whole fault suite, `make test-faults`: prints what it counted, and writes it into docs/reliability.md.

After something has been mended, `python -m faults.suite NAME...` makes these attacks again, and replaces their rows.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax

from equilibria import check
from faults import disk, extremes, inputs, kills, mutations, pairs, parsers
from faults.nursery import Nursery
from faults.tally import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- counted by make test-faults -->", "<!-- end -->"
HEAD = ["| attack | attempts | how they ended | lost or silent |", "|---|---|---|---|"]


def attacks(nursery: Nursery) -> dict[str, Callable[[], Tally]]:
    """Every attack with its full count."""
    return {
        "kills": lambda: kills.kills(200, nursery),
        "pairs": lambda: pairs.pairs(30, nursery),
        "disk": disk.faults,
        "fullness": lambda: disk.fullness(40),
        "mutations": lambda: mutations.mutations(2000),
        "parsers": lambda: parsers.parsers(2000),
        "inputs": inputs.inputs,
        "units": extremes.responses,
        "machines": extremes.machines,
    }


def main(names: list[str]) -> int:
    """Make all attacks, or those of some names; 1 if anything got through."""
    cache = os.environ.get("EQUILIBRIA_TEST_CACHE", str(Path(__file__).parents[1] / ".compiled"))
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    tallies, began = {}, time.monotonic()
    with Nursery(cache) as nursery:
        known = attacks(nursery)
        for name in [check.choice("attack", name, known) for name in names] or known:
            start = time.monotonic()
            tally = tallies[name] = known[name]()
            print(f"{tally.row} {time.monotonic() - start:.0f} s", flush=True)
            for sentence in tally.broken:
                print("   BROKEN:", sentence[:500], flush=True)
    minutes = f"{(time.monotonic() - began) / 60:.0f} minutes"
    PAGE.write_text(written(PAGE.read_text(), tallies, minutes, again=bool(names)))
    return int(any(tally.broken for tally in tallies.values()))


def written(page: str, tallies: Mapping[str, Tally], minutes: str, *, again: bool) -> str:
    """The page with what was counted: in place of all that was there, or of the rows of the same attacks."""
    before, rest = page.split(BEGIN)
    counted, after = rest.split(END)
    cores = f"{len(os.sched_getaffinity(0))} cores" if hasattr(os, "sched_getaffinity") else "a processor"
    on = f"{minutes} on {cores}, with JAX {jax.__version__}, Python {platform.python_version()}, {platform.system()}"
    rows = {tally.attack: tally.row for tally in tallies.values()}
    told = [f"Counted in {on}."]
    if again:
        lines = counted.strip("\n").split("\n")
        rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines[2:] if line.startswith("| ")} | rows
        told = [line for line in lines if line and not line.startswith("|")]
        told.append(f"After something had been mended, again in {on}: {', '.join(tallies)}.")
    return "\n".join([f"{before}{BEGIN}", *HEAD, *rows.values(), "", *told, f"{END}{after}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
