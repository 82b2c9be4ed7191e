"""How long a newcomer waits: import, help and first calls, each in fresh processes, the last five beside their goals."""

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
_MACHINE = "import equilibria as eq; eq.rbm"
_TRAIN = """
import time
import numpy as np
import equilibria as eq
data = (np.random.default_rng(0).random((1000, 64)) < 0.3).astype(np.uint8)
machine = eq.rbm(64, 32, key=0)
begun = time.perf_counter()
eq.train(machine, data, eq.pcd(1), epochs=2, key=1, show_progress=False)
print(time.perf_counter() - begun)
"""
_SCAN = """
import time
import equilibria as eq
{cache}
begun = time.perf_counter()
for size in range(100, 1501, 100):
    patterns = eq.data.random_patterns(size // 20, size, key=size)
    cues = eq.data.corrupt(patterns, flips=0.1, key=1)
    rest = eq.equilibrate(eq.hopfield(patterns), eq.Sweeps(30), cues, temperature=0.2, key=2)
    eq.overlap(rest, patterns)
print(time.perf_counter() - begun)
"""


def _process(arguments: list[str]) -> tuple[float, float, str]:
    """Seconds of a whole process by the clock and of processors, and what it printed."""
    begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], env=os.environ, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    return time.perf_counter() - begun, processors, done.stdout


def _row(name: str, arguments: list[str], *, tells: bool = False, goal: float | None = None) -> None:
    """Medians over fresh processes; by the clock of the process, or of what it says of itself, with the least and the most."""
    found = [_process(arguments) for _ in range(ROUNDS)]
    seconds = [float(told) if tells else whole for whole, _, told in found]
    clock = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} - {max(seconds):.2f})"
    wanted = "" if goal is None else f"{goal:g} s"
    print(f"| {name} | {wanted} | {clock} | {statistics.median(used for _, used, _ in found):.2f} s |", flush=True)


def main() -> None:
    """Print the table; one process that is not counted comes before, so that files are in memory."""
    print("| fresh process | goal | by the clock | processor time of the process |\n|---|---|---|---|")
    _process(["-c", "import equilibria as eq; eq.equilibrate, eq.hopfield, eq.theory.hopfield"])
    _row("Python alone", ["-c", "pass"])
    _row("`import equilibria`", ["-c", "import equilibria"])
    _row("`equilibria --help`", ["-m", "equilibria.app.cli", "--help"])
    _row("a script with one `eq.equilibrate`, whole", ["-c", _FIRST.format(cache="")])
    with tempfile.TemporaryDirectory() as folder:
        again = ["-c", _FIRST.format(cache=f"eq.cache({folder!r})")]
        _process(again)
        _row("its call in later processes, with `eq.cache()`", again, tells=True)
    _row("`import equilibria; eq.rbm`", ["-c", _MACHINE], goal=1)
    _row("first `eq.equilibrate`, 1,000 neurons", ["-c", _FIRST.format(cache="")], tells=True, goal=1)
    _row("first `eq.train` of an RBM, 64 x 32", ["-c", _TRAIN], tells=True, goal=2)
    _row("15 sizes, 100 to 1,500 neurons", ["-c", _SCAN.format(cache="")], tells=True, goal=15)
    with tempfile.TemporaryDirectory() as folder:
        again = ["-c", _SCAN.format(cache=f"eq.cache({folder!r})")]
        _process(again)
        _row("the same in later processes, with `eq.cache()`", again, tells=True, goal=3)
