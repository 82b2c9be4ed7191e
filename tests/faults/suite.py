"""The whole fault suite, `make test-faults`: prints what it counted, and writes it into docs/reliability.md."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import jax

from faults import disk, extremes, inputs, kills, mutations, pairs
from faults.tally import Tally

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- counted by make test-faults -->", "<!-- end -->"


def attacks(cache: str):
    """Every attack with its full count."""
    yield lambda: kills.kills(200, cache)
    yield lambda: pairs.pairs(30, cache)
    yield disk.faults
    yield lambda: disk.fullness(40)
    yield lambda: mutations.mutations(2000)
    yield inputs.inputs
    yield extremes.responses
    yield extremes.machines


def main() -> int:
    """Run all of it; 1 if anything got through."""
    cache = os.environ.get("EQUILIBRIA_TEST_CACHE", str(Path(__file__).parents[1] / ".compiled"))
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    tallies, began = [], time.monotonic()
    for attack in attacks(cache):
        start = time.monotonic()
        tallies.append(attack())
        print(f"{tallies[-1].row} {time.monotonic() - start:.0f} s", flush=True)
        for sentence in tallies[-1].broken:
            print("   BROKEN:", sentence[:500], flush=True)
    _written(tallies, time.monotonic() - began)
    return int(any(tally.broken for tally in tallies))


def _written(tallies: list[Tally], seconds: float) -> None:
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    on = f"JAX {jax.__version__}, Python {platform.python_version()}, {platform.system()}"
    rows = ["| attack | attempts | how they ended | lost or silent |", "|---|---|---|---|", *(t.row for t in tallies)]
    body = "\n".join([BEGIN, *rows, "", f"Counted in {seconds / 60:.0f} minutes on two cores, with {on}.", END])
    PAGE.write_text(f"{head}{body}{tail}")


if __name__ == "__main__":
    sys.exit(main())
