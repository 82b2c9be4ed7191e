"""A process that has imported everything and computed nothing: it forks a worker for each line that it reads.

A worker starts in some ten milliseconds and not in seconds, so that it can be killed hundreds of times. JAX's back end, whose
threads would not survive a fork, is first started by the worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

TESTS = Path(__file__).parents[1]


def serve() -> None:
    """Read a line `work folder`, fork, answer with the number of the worker, and at its end with how it ended."""
    import jax

    for name in ("learn.train", "grids.grid", "papers.frame"):
        __import__(f"equilibria.{name}")
    from faults.workloads import WORK

    jax.config.update("jax_compilation_cache_dir", os.environ["EQUILIBRIA_TEST_CACHE"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    for line in sys.stdin:
        name, folder = line.rstrip("\n").split(" ", 1)
        number = os.fork()
        if number == 0:
            os._exit(_worked(WORK[name], Path(folder)))
        print(number, flush=True)
        print(os.waitpid(number, 0)[1], flush=True)


def _worked(work, folder: Path) -> int:
    try:
        work(folder)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


class Nursery:
    """The same from outside: one worker at a time."""

    def __init__(self, cache: str, errors: Path):
        environment = os.environ | {
            "EQUILIBRIA_TEST_CACHE": cache,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        }
        self.errors = errors
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=errors.open("w"), text=True, env=environment, cwd=TESTS,
        )  # fmt: skip

    def start(self, work: str, folder: Path) -> int:
        """The number of a new worker."""
        folder.mkdir(parents=True, exist_ok=True)
        self.process.stdin.write(f"{work} {folder}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> int:
        """Wait for the worker: 0 if it finished, -9 if it was killed, else its exit code."""
        return os.waitstatus_to_exitcode(int(self.process.stdout.readline()))

    def said(self, start: int = 0) -> str:
        """What the workers wrote on stderr, from a character on."""
        return self.errors.read_text()[start:]

    def close(self) -> None:
        """End the process itself."""
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    serve()
