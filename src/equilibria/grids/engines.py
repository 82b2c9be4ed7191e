"""Engines: where chunks are computed. joblib in this process or in others, or a Dask cluster.

Chunks are taken from an iterator only as an engine has room for them, so that what someone else has finished in the meantime
need not be started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from equilibria import check
from equilibria.grids.cells import Cell
from equilibria.grids.task import Row, Task, compute

Finished = tuple[Sequence[Cell], list[Row] | Exception]
SECONDS_TO_ANSWER = 5.0


class WorkersLost(ChildProcessError):
    """Worker processes were killed while they computed."""


def run(task: Task, chunks: Iterable[Sequence[Cell]], jobs: int | None, client: Any) -> Iterator[Finished]:
    """Compute chunks, in this process, in others or on a cluster.

    Args:
        task: what is computed.
        chunks: the cells of each chunk.
        jobs: the number of processes, as joblib counts them.
        client: of a Dask cluster; None for joblib.

    Yields:
        Finished chunks, in any order: their cells, and their rows or the error of the engine that lost them.

    Raises:
        WorkersLost: if processes of joblib were killed.
        ConnectionError: if the cluster went away.

    >>> from equilibria.grids.cells import cell_at
    >>> list(run(Task(lambda x: 2 * x, (), 1, False, False), [[cell_at({"x": 3})]], 1, None))[0][1]
    [{'value': array(6)}]
    """
    return _on_cluster(task, chunks, client) if client is not None else _by_joblib(task, chunks, jobs)


def _by_joblib(task: Task, chunks: Iterable[Sequence[Cell]], jobs: int | None) -> Iterator[Finished]:
    calls = (joblib.delayed(_identified)(task, chunk) for chunk in chunks)
    options: Any = {"return_as": "generator_unordered", "batch_size": 1}
    parallel = joblib.Parallel(n_jobs=jobs, **options)
    if jobs is None and parallel.n_jobs == 1 and task.batched:
        # A block of small cells is a chain of small operations, which keeps one core busy: as many blocks as cores, then.
        yield from joblib.Parallel(joblib.cpu_count(), backend="threading", **options)(calls)
        return
    with _threads_shared(parallel.n_jobs):
        try:
            yield from parallel(calls)
        except TerminatedWorkerError as error:
            raise WorkersLost(
                "a worker process was killed (by hand, or for want of memory: fewer jobs or a smaller `width` need less)"
            ) from error


def _identified(task: Task, chunk: Sequence[Cell]) -> Finished:
    return chunk, compute(task, chunk)


@contextlib.contextmanager
def _threads_shared(jobs: int) -> Iterator[None]:
    """Worker processes started now share the cores: XLA reads NPROC when it makes its threads."""
    if jobs == 1 or "NPROC" in os.environ:
        yield
        return
    cores = joblib.cpu_count()
    os.environ["NPROC"] = str(max(1, cores // (jobs if jobs > 0 else cores)))
    try:
        yield
    finally:
        del os.environ["NPROC"]


@contextlib.contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A Dask client while the block runs.

    Args:
        cluster: the address of a scheduler, a client, or None: then the client that joblib was told to use, if any.

    Yields:
        The client, or None.

    Raises:
        ValueError: if it is none of these.
        ConnectionError: if the scheduler does not answer, within ten seconds.

    >>> with connected(None) as client:
    ...     print(client)
    None
    """
    if cluster is None:
        yield getattr(get_active_backend()[0], "client", None)
    elif not isinstance(cluster, str):
        if not hasattr(cluster, "submit") or getattr(cluster, "asynchronous", False):
            given = f"{cluster!r}{', which is asynchronous' if hasattr(cluster, 'submit') else ''}"
            check.refuse("cluster", given, "an address such as tcp://host:8786, or a dask.distributed Client")
        yield cluster
    else:
        client = _connect(cluster)
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Inside the block every grid, and joblib as a whole, computes on a Dask cluster.

    Args:
        address: of its scheduler; None changes nothing.

    Yields:
        Nothing.

    Raises:
        ConnectionError: if the scheduler does not answer, within ten seconds.

    >>> with on_cluster(None):
    ...     pass
    """
    if address is None:
        yield
        return
    with connected(address) as client, joblib.parallel_config("dask", client=client):
        yield


def _connect(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        check.refuse("cluster", repr(address), 'only with dask.distributed: pip install "equilibria[cluster]"')
    try:
        with ThreadPoolExecutor(1) as elsewhere:  # in a notebook this thread has an event loop already
            elsewhere.submit(asyncio.run, _answered(address)).result()
    except Exception as error:  # what answers in another protocol can fail in any way
        raise ConnectionError(
            f"cluster: got {address!r}, where no Dask scheduler answered within {SECONDS_TO_ANSWER:g} s "
            f"({type(error).__name__}: {error}); allowed: the address that `dask scheduler` prints, such as tcp://host:8786"
        ) from error
    client = distributed.Client(address, set_as_default=False)
    if not client.nthreads():
        warnings.warn(f"the cluster at {address} has no workers yet; waiting for them", stacklevel=2)
    return client


async def _answered(address: str) -> None:
    """Ask the scheduler who it is: a client that never connected would hold up the process for long when it ends."""
    from distributed.comm import connect
    from distributed.security import Security

    async with asyncio.timeout(SECONDS_TO_ANSWER):
        comm = await connect(address, timeout=SECONDS_TO_ANSWER, **Security().get_connection_args("client"))
        await comm.write({"op": "identity", "reply": True})
        await comm.read()
        await comm.close()


def _unpacked(packed: bytes, chunk: Sequence[Cell]) -> list[Row]:
    import cloudpickle

    return compute(cloudpickle.loads(packed), chunk)


def _on_cluster(task: Task, chunks: Iterable[Sequence[Cell]], client: Any) -> Iterator[Finished]:
    """Two chunks for each thread of the cluster are under way at any time, so that workers need not wait for us."""
    import cloudpickle
    import distributed

    # Packed here, so that a module which a worker does not have is an error of the chunk, in the worker's words.
    packed = cloudpickle.dumps(task)
    remaining, running = iter(chunks), distributed.as_completed(loop=client.loop)
    under_way: dict[Any, Sequence[Cell]] = {}

    def fill() -> None:
        room = 2 * max(1, sum(client.nthreads().values()))
        while len(under_way) < room and (chunk := next(remaining, None)) is not None:
            future = client.submit(_unpacked, packed, chunk, pure=False)
            under_way[future] = chunk
            running.add(future)

    try:
        fill()
        for future in running:
            chunk = under_way.pop(future)
            if future.status not in ("finished", "error"):
                raise ConnectionError(f"cluster: the scheduler at {client.scheduler.address} went away")
            yield chunk, future.exception() or future.result()
            fill()
    finally:
        client.cancel(list(under_way))
