"""How long a newcomer waits: import, help and the first equilibrium, each in fresh processes."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
_FIRST = """
import time
import equilibria as eq
{cache}
patterns = eq.data.random_patterns(50, 1000, key=0)
cues = eq.data.corrupt(patterns, flips=0.2, key=1)
memory = eq.hopfield(patterns)
begun = time.perf_counter()
rest = eq.equilibrate(memory, eq.Sweeps(30), cues, temperature=0.2, key=2)
rest["neurons"].block_until_ready()
print(time.perf_counter() - begun)
"""


def _process(arguments: list[str]) -> tuple[float, float, str]:
    """Seconds of a whole process by the clock and of processors, and what it printed."""
    begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=os.environ, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    return time.perf_counter() - begun, processors, done.stdout


def _row(name: str, arguments: list[str], *, tells: bool = False) -> None:
    """Medians over fresh processes; by the clock of the process, or of what it says of itself, with the least and the most."""
    found = [_process(arguments) for _ in range(ROUNDS)]
    seconds = [float(told) if tells else whole for whole, _, told in found]
    clock = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} - {max(seconds):.2f})"
    print(f"| {name} | {clock} | {statistics.median(used for _, used, _ in found):.2f} s |", flush=True)


def main() -> None:
    """Print the table; one process that is not counted comes before, so that files are in memory."""
    print("| fresh process | by the clock | processor time of the process |\n|---|---|---|")
    _process(["-c", "import equilibria as eq; eq.equilibrate, eq.hopfield, eq.theory.hopfield"])
    _row("Python alone", ["-c", "pass"])
    _row("`import equilibria`", ["-c", "import equilibria"])
    _row("`equilibria --help`", ["-m", "equilibria.app.cli", "--help"])
    _row("a script with one `eq.equilibrate`, whole", ["-c", _FIRST.format(cache="")])
    _row("of that the call itself, compiling", ["-c", _FIRST.format(cache="")], tells=True)
    with tempfile.TemporaryDirectory() as folder:
        again = ["-c", _FIRST.format(cache=f"eq.cache({folder!r})")]
        _process(again)
        _row("the call in later processes, with `eq.cache()`", again, tells=True)
