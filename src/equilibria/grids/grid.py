"""A function over a grid of parameters -> a labelled dataset."""

from __future__ import annotations

import datetime
import functools
import json
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

from equilibria import __version__, check, files
from equilibria.grids.cells import Cell, Values, cells_of, checked_axes, written
from equilibria.grids.engines import WorkersLost, connected, run
from equilibria.grids.results import ResultStore, function_name, identity_of
from equilibria.grids.task import Row, Task, batched_axes, in_64_bits, takes_key
from equilibria.progress import progress

_CHUNKS = 256  # about as many files as a large grid is kept in
_ATTEMPTS = 3
_WIDTH = 64
_FAILURE = "failure"


def grid(
    fn: Callable[..., Any],
    *,
    store: str | Path | None = None,
    batch: bool | str | Sequence[str] | None = None,
    width: int | None = None,
    chunk: int | None = None,
    jobs: int | None = None,
    cluster: Any = None,
    retry: bool = False,
    units: Mapping[str, str] | None = None,
    version: str | int | float | None = None,
    show_progress: bool | None = None,
    **axes: Any,
) -> xr.Dataset:
    """Compute a function at every combination of the axes.

    Cells in which it raised are NaN; the variable `failure` holds their errors, and a warning counts them.

    Args:
        fn: takes the axes by keyword and, if it has an argument `key`, a random key made from the cell's coordinates alone.
            It must depend on nothing else. It returns a number, an array, or a dict of them, of the same shapes in every
            cell.
        store: a folder. Each finished chunk is written there at once, and only cells that are not there are computed.
            Several clients may share it. The folder remembers the function: its code, its default arguments, everything
            that it closes over, reads or calls in your own modules, and what it is bound to; another one is refused.
        batch: the axes along which cells are computed together in one compiled call; True for every axis of numbers, False
            for none. By default those along which JAX can trace the function; the attribute `batched` of the result says
            which they were. The other axes are looped over.
        width: how many cells are computed in one compiled call, up to 64 by default.
        chunk: how many cells are computed and stored as one piece of task.
        jobs: how many processes, as joblib counts them (-1 for one on each core). By default this one alone, with a thread
            on each core where cells are batched, or what `joblib.parallel_config` says; 1 is this one alone with one block
            at a time.
        cluster: the address of a Dask scheduler, such as "tcp://host:8786", or a `dask.distributed.Client`.
        retry: whether cells that failed in an earlier run are tried again.
        units: units of axes and results, by name.
        version: a text or number that you change when the function changes. With a store, then only this and the function's
            name are compared: for functions that cannot be seen through, and for changes that do not matter.
        show_progress: a progress bar; by default on a terminal only.
        **axes: numbers or texts, by name; a scalar is an axis of length one.

    Returns:
        A dataset with the axes as coordinates, and how it was computed as attributes.

    Raises:
        ValueError: if an argument cannot be served, or the store holds another grid.
        StorageError: if the store cannot be written.
        ConnectionError: if the cluster does not answer, or goes away.

    >>> import jax
    >>> def noisy(load, seed, key):
    ...     return load + jax.random.normal(key)
    >>> result = grid(noisy, load=[0.1, 0.2], seed=range(8), units={"load": "patterns per neuron"})
    >>> dict(result.sizes), result.attrs["batched"]
    ({'load': 2, 'seed': 8}, 'load, seed; 16 cells in a call')
    """
    checked = checked_axes(axes)
    keyed = takes_key(fn, checked)
    cells = cells_of(checked)
    batching = _batching(fn, checked, batch, width, keyed)
    asked = {name for name, given in (("batched", batch), ("width", width)) if given is not None}
    identity = {} if store is None else _identity(fn, checked, version)
    identity |= {name: batching.pop(name) for name in asked}
    results = ResultStore(store, identity, choices=batching)
    task = Task(fn, tuple(results.about["batched"]), results.about["width"], keyed, in_64_bits())
    if retry:
        results.forget_failures()
    with connected(cluster) as client:
        lost = _computed(task, results, cells, chunk, jobs, client, show_progress)
    rows = [results.rows[cell.digest] if cell.digest in results.rows else lost[cell.digest] for cell in cells]
    _warn_of_failures(cells, rows)
    return _dataset(checked, rows, units or {}, _provenance(task))


def _batching(
    fn: Callable[..., Any],
    axes: Mapping[str, np.ndarray],
    batch: bool | str | Sequence[str] | None,
    width: int | None,
    keyed: bool,
) -> dict[str, Any]:
    """The axes that are batched, and how many cells a block has: by default no more than there are to fill one."""
    names = batched_axes(fn, axes, batch, keyed)
    fits = min(_WIDTH, math.prod(axes[name].size for name in names))
    return {"batched": sorted(names), "width": fits if width is None else check.count("width", width)}


def _computed(
    task: Task,
    results: ResultStore,
    cells: Sequence[Cell],
    chunk: int | None,
    jobs: int | None,
    client: Any,
    show_progress: bool | None,
) -> dict[str, str]:
    """Fill the store. What is returned are the errors of cells that the engine lost: they are not kept."""
    lost: dict[str, str] = {}
    form = _Form()
    form.check([cell for cell in cells if cell.digest in results.rows], results.rows)
    with progress(len(cells), "grid", "cell", show=show_progress) as bar:
        waiting = _Waiting(cells, bar)
        waiting.known(results.rows)
        if waiting.digests and results.folder is not None:
            files.check_writable(results.folder)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                for done, rows in run(task, _chunks(task, cells, chunk, results), jobs, client):
                    if isinstance(rows, Exception):
                        lost |= {cell.digest: f"{type(rows).__name__}: {rows}" for cell in done}
                        waiting.known(cell.digest for cell in done)
                    else:
                        form.check(done, {cell.digest: row for cell, row in zip(done, rows, strict=True)})
                        results.keep(done, rows)
                    waiting.known(results.found())
                return lost
            except WorkersLost as error:
                missing = sum(cell.digest not in results.rows for cell in cells)
                if attempt == _ATTEMPTS:
                    raise WorkersLost(
                        f"{error}, {attempt} times; {missing} of {len(cells)} cells are missing"
                    ) from error
                warnings.warn(f"{error}; the {missing} cells that are missing are started again", stacklevel=3)
    return lost


class _Waiting:
    """The cells of a grid that are not known yet; a bar counts the others. Each cell costs the same, however many there are."""

    def __init__(self, cells: Sequence[Cell], bar: tqdm[Any]):
        self.digests = {cell.digest for cell in cells}
        self.bar = bar

    def known(self, digests: Iterable[str]) -> None:
        """These are known now; some may have been before, or belong to a larger grid."""
        new = self.digests.intersection(digests)
        self.digests -= new
        self.bar.update(len(new))


def _chunks(task: Task, cells: Sequence[Cell], chunk: int | None, results: ResultStore) -> Iterator[list[Cell]]:
    """What is missing, in chunks that one compiled function serves, looked up again before each chunk is given out.

    With a folder the order is by lot: clients that share it start at different ends, and meet.
    """
    missing: dict[Any, list[Cell]] = {}
    for cell in cells:
        if cell.digest not in results.rows:
            missing.setdefault(task.fixed(cell) if task.batched else (), []).append(cell)
    blocks = -(-sum(map(len, missing.values())) // task.width)
    size = task.width * max(1, blocks // _CHUNKS) if chunk is None else check.count("chunk", chunk)
    groups = [[group[start : start + size] for start in range(0, len(group), size)] for group in missing.values()]
    if results.folder is not None:
        random.shuffle(groups)
        for group in groups:
            random.shuffle(group)
    for piece in (piece for group in groups for piece in group):
        if left := results.look_for(piece):
            yield left


class _Form:
    """The names and shapes that every row must have: those of the first."""

    first: tuple[Values, dict[str, tuple[int, ...]]] | None = None

    def check(self, cells: Sequence[Cell], rows: Mapping[str, Row]) -> None:
        """Refuse rows of another form."""
        for cell in cells:
            row = rows[cell.digest]
            if isinstance(row, str):
                continue
            if taken := {*cell.values, _FAILURE} & row.keys():
                check.refuse("fn", f"a function that returned {sorted(taken)}", "names that no axis has, nor `failure`")
            shapes = {name: values.shape for name, values in row.items()}
            first, wanted = self.first = self.first or (cell.values, shapes)
            if shapes != wanted:
                given = f"{wanted} at {written(first)} but {shapes} at {written(cell.values)}"
                check.refuse(
                    "fn", f"a function that returned shapes {given}", "the same names and shapes in every cell"
                )


def _identity(
    fn: Callable[..., Any], axes: Mapping[str, np.ndarray], version: str | int | float | None
) -> dict[str, Any]:
    """What the runs that share a store have in common. Their coordinates may differ: a grid can grow."""
    shared = {"axes": sorted(axes), "x64": in_64_bits(), "equilibria_version": __version__}
    return identity_of(fn, version) | shared


def _provenance(task: Task) -> dict[str, Any]:
    config: dict[str, Any] = {}
    fn = task.fn
    while isinstance(fn, functools.partial):
        config, fn = {**fn.keywords, **config}, fn.func
    batched = f"{', '.join(task.batched)}; {task.width} cells in a call" if task.batched else "no axis; cell by cell"
    return {
        "function": function_name(task.fn),
        "config": json.dumps(config, default=repr, sort_keys=True),
        "batched": batched,
        "keys": "SHA-256 of each cell's coordinates" if task.keyed else "none",
        "precision": "64 bits" if task.x64 else "32 bits",
        "equilibria_version": __version__,
        "jax_version": jax.__version__,
        "created": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
    }


def _warn_of_failures(cells: Sequence[Cell], rows: Sequence[Row]) -> None:
    failed = [(cell, row) for cell, row in zip(cells, rows, strict=True) if isinstance(row, str)]
    if failed:
        cell, error = failed[0]
        first = f"the first at {written(cell.values)}: {error}"
        warnings.warn(f"{len(failed)} of {len(cells)} cells failed, {first}", stacklevel=3)


def _dataset(
    axes: Mapping[str, np.ndarray], rows: Sequence[Row], units: Mapping[str, str], attributes: Mapping[str, Any]
) -> xr.Dataset:
    shape = tuple(values.size for values in axes.values())
    failed = np.array([isinstance(row, str) for row in rows])
    good = [row for row in rows if not isinstance(row, str)]
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, sample in (good[0] if good else {}).items():
        found = np.stack([row[name] for row in good])
        if failed.any():
            stacked = np.full((len(rows), *sample.shape), np.nan, np.result_type(found, np.float32))
            stacked[~failed] = found
            found = stacked
        inner = tuple(f"{name}_{axis}" for axis in range(sample.ndim))
        variables[name] = ((*axes, *inner), found.reshape(*shape, *sample.shape))
    if failed.any():
        errors = np.array([row if isinstance(row, str) else "" for row in rows])
        variables[_FAILURE] = (tuple(axes), errors.reshape(shape))
    dataset = xr.Dataset(variables, {name: (name, values) for name, values in axes.items()}, dict(attributes))
    for name, unit in units.items():
        if name in dataset.variables:
            dataset[name].attrs["units"] = unit
        else:  # too late to refuse: the work is done
            warnings.warn(f"units: got {name!r}; allowed: {', '.join(map(str, dataset.variables))}", stacklevel=3)
    return dataset
