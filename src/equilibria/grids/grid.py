"""A function over a grid of parameters -> a labelled dataset."""

from __future__ import annotations

import datetime
import functools
import json
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from equilibria import __version__, check
from equilibria.grids.cells import Cell, Values, cells_of, checked_axes, written
from equilibria.grids.engines import WorkersLost, connected, run
from equilibria.grids.results import ResultStore, identity_of
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
    show_progress: bool | None = None,
    **axes: Any,
) -> xr.Dataset:
    """Compute `fn` at every combination of the axes, which are given by keyword; a scalar is an axis of length one.

    `fn` takes the axes by keyword and, if it has an argument `key`, a random key made from the cell's coordinates alone. It
    must depend on nothing else. It returns a number, an array, or a dict of them, of the same shapes in every cell.

    Parameters
    ----------
    store
        A folder. Each finished chunk is written there at once, and only cells that are not there are computed. Several
        clients may share it.
    batch
        The axes along which cells are computed together in one compiled call, `width` of them (up to 64); True for every
        axis of numbers, False for none. By default those along which JAX can trace the function; the attribute `batched`
        of the result says which they were. The other axes are looped over.
    chunk
        How many cells are computed and stored as one piece of work.
    jobs
        How many processes, as joblib counts them (-1 for one on each core). By default this one alone, with a thread on
        each core where cells are batched, or what `joblib.parallel_config` says; 1 is this one alone with one block at a time.
    cluster
        The address of a Dask scheduler, such as "tcp://host:8786", or a `dask.distributed.Client`.
    retry
        Whether cells that failed in an earlier run are tried again.
    units
        Units of axes and results, by name.

    Cells in which `fn` raised are NaN; the variable `failure` holds their errors, and a warning counts them.

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
    x64 = in_64_bits()
    batching = _batching(fn, checked, batch, width, keyed)
    asked = {name for name, given in (("batched", batch), ("width", width)) if given is not None}
    identity = _identity(fn, checked, x64) | {name: batching.pop(name) for name in asked}
    shelf = ResultStore(store, identity, choices=batching)
    work = Task(fn, tuple(shelf.about["batched"]), shelf.about["width"], keyed, x64)
    if retry:
        shelf.forget_failures()
    with connected(cluster) as client:
        lost = _computed(work, shelf, cells, chunk, jobs, client, show_progress)
    rows = [shelf.rows[cell.digest] if cell.digest in shelf.rows else lost[cell.digest] for cell in cells]
    _warn_of_failures(cells, rows)
    return _dataset(checked, rows, units or {}, _provenance(work))


def _batching(fn, axes, batch, width, keyed) -> dict[str, Any]:
    """The axes that are batched, and how many cells a block has: by default no more than there are to fill one."""
    names = batched_axes(fn, axes, batch, keyed)
    fits = min(_WIDTH, math.prod(axes[name].size for name in names))
    return {"batched": sorted(names), "width": fits if width is None else check.count("width", width)}


def _computed(work: Task, shelf: ResultStore, cells, chunk, jobs, client, show_progress) -> dict[str, str]:
    """Fill the shelf. What is returned are the errors of cells that the engine lost: they are not kept."""
    lost: dict[str, str] = {}
    form = _Form()
    form.check([cell for cell in cells if cell.digest in shelf.rows], shelf.rows)
    with progress(len(cells), "grid", "cell", show=show_progress) as bar:

        def show() -> None:
            bar.update(sum(cell.digest in shelf.rows or cell.digest in lost for cell in cells) - bar.n)

        for attempt in range(1, _ATTEMPTS + 1):
            show()
            chunks = _chunks(work, cells, chunk, shelf)
            try:
                for done, rows in run(work, chunks, jobs, client):
                    if isinstance(rows, Exception):
                        lost |= {cell.digest: f"{type(rows).__name__}: {rows}" for cell in done}
                    else:
                        form.check(done, {cell.digest: row for cell, row in zip(done, rows, strict=True)})
                        shelf.keep(done, rows)
                    show()
                return lost
            except WorkersLost as error:
                missing = sum(cell.digest not in shelf.rows for cell in cells)
                if attempt == _ATTEMPTS:
                    raise WorkersLost(
                        f"{error}, {attempt} times; {missing} of {len(cells)} cells are missing"
                    ) from error
                warnings.warn(f"{error}; the {missing} cells that are missing are started again", stacklevel=3)
    return lost


def _chunks(work: Task, cells: Sequence[Cell], chunk: int | None, shelf: ResultStore) -> Iterator[list[Cell]]:
    """What is missing, in pieces that one compiled function serves, looked up again before each piece is given out.

    With a store the order is by lot: clients that share it start at different ends, and meet.
    """
    missing: dict[Any, list[Cell]] = {}
    for cell in cells:
        if cell.digest not in shelf.rows:
            missing.setdefault(work.fixed(cell) if work.batched else (), []).append(cell)
    blocks = -(-sum(map(len, missing.values())) // work.width)
    size = work.width * max(1, blocks // _CHUNKS) if chunk is None else check.count("chunk", chunk)
    groups = [[group[start : start + size] for start in range(0, len(group), size)] for group in missing.values()]
    if shelf.folder is not None:
        random.shuffle(groups)
        for group in groups:
            random.shuffle(group)
    for piece in (piece for group in groups for piece in group):
        shelf.refresh(strict=False)
        if left := [cell for cell in piece if cell.digest not in shelf.rows]:
            yield left


class _Form:
    """The names and shapes that every row must have: those of the first."""

    first: tuple[Values, dict[str, tuple[int, ...]]] | None = None

    def check(self, cells: Sequence[Cell], rows: Mapping[str, Row]) -> None:
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


def _identity(fn: Callable[..., Any], axes: Mapping[str, np.ndarray], x64: bool) -> dict[str, Any]:
    """What the runs that share a store have in common. Their coordinates may differ: a grid can grow."""
    return {**identity_of(fn), "axes": sorted(axes), "x64": x64, "equilibria_version": __version__}


def _provenance(work: Task) -> dict[str, Any]:
    config: dict[str, Any] = {}
    fn = work.fn
    while isinstance(fn, functools.partial):
        config, fn = {**fn.keywords, **config}, fn.func
    batched = f"{', '.join(work.batched)}; {work.width} cells in a call" if work.batched else "no axis; cell by cell"
    return {
        "function": identity_of(work.fn)["function"],
        "config": json.dumps(config, default=repr, sort_keys=True),
        "batched": batched,
        "keys": "SHA-256 of each cell's coordinates" if work.keyed else "none",
        "precision": "64 bits" if work.x64 else "32 bits",
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
