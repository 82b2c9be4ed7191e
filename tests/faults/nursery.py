"""A process that has imported everything and computed nothing: it forks a worker for each line that it reads.

A worker starts in some ten milliseconds and not in seconds, so that it can be killed hundreds of times. JAX's back end, whose
threads would not survive a fork, is first started by the worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

TESTS = Path(__file__).parents[1]


def serve() -> None:
    """Read lines: `start work folder errors` is answered with the number of a new worker, `end number` with how it ended."""
    import jax

    for name in ("learn.train", "grids.grid", "papers.frame"):
        __import__(f"equilibria.{name}")
    from faults.workloads import WORK

    jax.config.update("jax_compilation_cache_dir", os.environ["EQUILIBRIA_TEST_CACHE"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    for line in sys.stdin:
        asked, *rest = line.rstrip("\n").split("\t")
        if asked == "end":
            print(os.waitpid(int(rest[0]), 0)[1], flush=True)
            continue
        name, folder, errors = rest
        number = os.fork()
        if number == 0:
            os._exit(_worked(WORK[name], Path(folder), errors))
        print(number, flush=True)


def _worked(work, folder: Path, errors: str) -> int:
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), sys.stderr.fileno())
    try:
        work(folder)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


class Nursery:
    """The same from outside; it ends with the block.

    Args:
        cache: where compiled code is kept.
    """

    def __init__(self, cache: str):
        environment = os.environ | {
            "EQUILIBRIA_TEST_CACHE": cache,
            "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        }
        self.place = tempfile.TemporaryDirectory()
        self.errors: dict[int, Path] = {}  # what each worker writes on stderr
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faults.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, cwd=TESTS,
        )  # fmt: skip

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.place.cleanup()

    def _asked(self, *words: object) -> int:
        print(*words, sep="\t", file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def start(self, work: str, folder: Path) -> int:
        """The number of a new worker."""
        folder.mkdir(parents=True, exist_ok=True)
        errors = Path(self.place.name) / str(len(self.errors))
        worker = self._asked("start", work, folder, errors)
        self.errors[worker] = errors
        return worker

    def end(self, worker: int) -> int:
        """Wait for a worker: 0 if it finished, -9 if it was killed, else its exit code."""
        return os.waitstatus_to_exitcode(self._asked("end", worker))

    def said(self, worker: int) -> str:
        """What a worker wrote on stderr."""
        return self.errors[worker].read_text() if self.errors[worker].exists() else ""


if __name__ == "__main__":
    serve()
