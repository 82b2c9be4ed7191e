"""Grids: batching inside a process, the cost of the engines, and two workers against one."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np

import equilibria as eq
from benchmarks._timing import race, table

AXES = {
    "size": [32, 64, 128, 256],
    "load": [0.05, 0.1, 0.15],
    "temperature": np.linspace(0.1, 0.8, 8),
    "seed": range(16),
}
CELLS, SECONDS = 8, 1.0


def retrieval(size, load, temperature, seed, key):
    """The overlap with the first pattern after 20 sweeps that began there."""
    pattern_key, sweep_key = jax.random.split(key)
    patterns = eq.data.random_patterns(round(load * size), size, key=pattern_key)
    coupling = eq.Factored(("neurons", "neurons"), patterns)
    network = eq.Network([eq.Layer("neurons", eq.Spin(), np.zeros(size))], [coupling])
    rest = eq.equilibrate(network, eq.Sweeps(20), patterns[0], temperature=temperature, key=sweep_key)
    return eq.overlap(rest, patterns[0])


def pause(seed):
    """A cell of one second that leaves the cores alone: what is left is the engine's own time."""
    time.sleep(SECONDS)
    return seed


def work(seed):
    """A cell of about one second of one core, in plain Python, which cannot be traced or shared between threads."""
    total = int(seed)
    for step in range(12_000_000):
        total = (total * 31 + step) % 1_000_003
    return total


def batched() -> None:
    """A finite-size-scaling sweep, batched, against one compiled call for each cell."""
    compiled = jax.jit(retrieval, static_argnames=("size", "load"))
    cells = list(itertools.product(*AXES.values()))
    keys = [jax.random.key(seed) for seed in AXES["seed"]]

    def calls():
        return (compiled(*cell, key=keys[cell[-1]]) for cell in cells)

    rivals = {
        "eq.grid": lambda: eq.grid(retrieval, **AXES),
        "a compiled call a cell": lambda: [float(overlap) for overlap in calls()],
        "all calls under way": lambda: jax.block_until_ready(list(calls())),
    }
    print(f"Hopfield retrieval, {len(cells)} cells: {' x '.join(AXES)}")
    print(table(race(rivals, rounds=3), "eq.grid"))


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def overhead(engines: dict[str, Callable[[], object]]) -> None:
    """What each engine adds to cells of one second; one worker, which is running already."""
    print(f"\n{CELLS} cells of {SECONDS:g} s that sleep, one worker, stored one by one")
    for name, run in engines.items():
        run()
        seconds = timed(run)
        print(f"{name:24} {seconds:8.2f} s  overhead {100 * (seconds / (CELLS * SECONDS) - 1):5.1f} %")


def nothing(seed):
    """A cell that takes no time: what is left is the client's own, and the disk's."""
    return seed


def chunks(counts: tuple[int, ...] = (1000, 5000, 20_000)) -> None:
    """The client's time for a chunk, which must not grow with their number, and for a chunk that is there already."""
    print("\nThe client's own time, chunks of one cell that takes none, each stored as a file")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            options = {"store": folder, "batch": False, "chunk": 1, "show_progress": False}
            written = timed(lambda: eq.grid(nothing, seed=range(count), **options))  # noqa: B023
            again = timed(lambda: eq.grid(nothing, seed=range(count), **options))  # noqa: B023
        print(
            f"{count:6} chunks {written:8.2f} s  {1e3 * written / count:5.2f} ms a chunk, read {1e3 * again / count:5.2f} ms"
        )


def scaling(engines: dict[str, Callable[[int], object]]) -> None:
    """Two workers against one, each with one core."""
    print(f"\n{CELLS} cells of about a second of one core")
    for name, run in engines.items():
        times = []
        for workers in (1, 2):
            run(workers)
            times.append(min(timed(lambda: run(workers)) for _ in range(2)))  # noqa: B023
        print(f"{name:24} 1 worker {times[0]:6.2f} s   2 workers {times[1]:6.2f} s   ratio {times[0] / times[1]:.2f}")


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a Dask scheduler with so many workers of one thread, in processes of their own."""
    from distributed import Client

    environment = os.environ | {"NPROC": "1", "PYTHONPATH": os.getcwd()}
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"cwd": folder, "env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m", "dask"]
        file = ["--scheduler-file", f"{folder}/scheduler.json"]
        local = ["--host", "127.0.0.1", "--no-dashboard"]
        processes = [subprocess.Popen([*dask, "scheduler", "--port", "0", *local, *file], **quiet)]
        try:
            for _ in range(workers):
                processes.append(subprocess.Popen([*dask, "worker", "--nthreads", "1", *local, *file], **quiet))
            with Client(scheduler_file=file[1], timeout=60) as client:
                client.wait_for_workers(workers, timeout=60)
                yield client.scheduler.address
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


def sweep(fn, **options):
    """A grid of cells that are computed one by one into a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return eq.grid(fn, store=folder, batch=False, chunk=1, seed=range(CELLS), show_progress=False, **options)


def main() -> None:
    batched()
    engines: dict[str, Callable[[], object]] = {"this process": lambda: sweep(pause)}
    scaled: dict[str, Callable[[int], object]] = {"loky": lambda workers: sweep(work, jobs=workers)}
    with contextlib.ExitStack() as stack:
        try:
            one, two = (stack.enter_context(cluster(workers)) for workers in (1, 2))
        except ImportError:
            print('Dask is left out: pip install "equilibria[cluster]"')
        else:
            engines["Dask"] = lambda: sweep(pause, cluster=one)
            scaled["Dask"] = lambda workers: sweep(work, cluster=one if workers == 1 else two)
        overhead(engines)
        chunks()
        scaling(scaled)


if __name__ == "__main__":
    main()
