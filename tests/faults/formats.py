"""Files of every format: how each is written and read, and what of it counts."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import files
from equilibria.files import run as runs
from equilibria.grids.cells import cells_of, checked_axes
from equilibria.grids.results import ResultStore
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.saving import load_synapses, save_synapses

DATASET = xr.Dataset(
    {"m": (("load", "seed"), np.random.default_rng(0).normal(size=(3, 2))), "failure": ("load", ["", "a", "b"])},
    coords={"load": [0.1, 0.2, 0.3], "seed": [0, 1]},
    attrs={"config": "{}", "fingerprint": "0123456789abcdef"},
)
CELLS = cells_of(checked_axes({"x": [1.0, 2.0, 3.0]}))
ROWS = [
    {"value": np.float32(2.0), "more": np.arange(3)},
    "ValueError: no",
    {"value": np.float32(6.0), "more": np.ones(3, int)},
]


def open_store(folder):
    return ResultStore(folder, {"function": "f", "version": None}, {"batched": ["x"], "width": 3})


def read_store(path):
    """What a client takes up; a file that it sets aside, with a warning, is refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = open_store(path.parent).rows
    if not rows:
        (told,) = caught
        raise files.CheckpointError(str(told.message))
    return rows


def write_store(path):
    open_store(path.parent).keep(CELLS, ROWS)


def read_description(path):
    store = open_store(path.parent)
    return store.about, store.rows


CARRY = {"weights": jnp.arange(6.0).reshape(2, 3), "key": jax.random.key(3)}
SETUP = {"rule": "cd", "data": "0123"}


def write_run(path):
    columns = {"step": np.array([1, 2]), "loss": np.array([0.5, 0.25])}
    runs.save(path.parent, 7, CARRY, columns, SETUP, {"model": None})


FORMATS = {  # how it is written into a folder, which file that is, and how it is read
    "checkpoint": (lambda path: files.save(path.parent, 7, {"a": np.arange(8.0), "key": jax.random.key(0)}, {"epoch": 1}),
                   "checkpoint-000000007.safetensors", files.load),
    "network": (lambda path: eq.save_network(path.parent, eq.rbm(4, 3, visible=eq.Gaussian(), key=0)),
                "checkpoint-000000000.safetensors", eq.load_network),
    "run": (write_run, "checkpoint-000000007.safetensors", lambda path: runs.take_up(path.parent, True, CARRY, SETUP)),
    "synapses": (lambda path: save_synapses(path, Synapses(np.linspace(-1, 1, 24).reshape(8, 3), bias=np.ones(8))),
                 "machine.safetensors", load_synapses),
    "result": (lambda path: files.save_dataset(path, DATASET), "result.nc", files.load_dataset),
    "cells": (write_store, "cells-", read_store),
    "description": (write_store, "grid.json", read_description),
}  # fmt: skip


def told(thing):
    """All that was read, as text that says every bit."""
    if isinstance(thing, xr.Dataset):
        return told(
            {
                **{name: (value.dims, value.values, value.attrs) for name, value in thing.variables.items()},
                "": thing.attrs,
            }
        )
    if isinstance(thing, eq.Network):
        return told([str(jax.tree.structure(thing)), *jax.tree.leaves(thing)])
    if isinstance(thing, dict):
        return {str(name): told(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [told(item) for item in thing]
    if isinstance(thing, jax.Array) and jax.dtypes.issubdtype(thing.dtype, jax.dtypes.prng_key):
        return told(jax.random.key_data(thing))
    if hasattr(thing, "dtype"):
        values = np.asarray(thing)
        return str(values.dtype), values.shape, values.tolist() if values.dtype.hasobject else values.tobytes()
    return repr(thing)


def written(name: str, folder: Path):
    """A good file of a format with all that lies beside it, how it is read, and what is then read."""
    write, start, read = FORMATS[name]
    write(folder / start)
    (path,) = [path for path in folder.iterdir() if path.name.startswith(start)]
    others = {path.name: path.read_bytes() for path in folder.iterdir()}
    return path, others, read, told(read(path))


def restored(path: Path, others: dict[str, bytes], content: bytes) -> None:
    """Make the folder what it was, but for the content of one file."""
    for file in path.parent.iterdir():
        file.unlink()
    for name, before in others.items():
        (path.parent / name).write_bytes(before)
    path.write_bytes(content)


def verdict(path: Path, read, before) -> str:
    """How reading a file that was changed ended: refused, or the same; any other words say what passed in silence."""
    try:
        found = read(path)
    except ValueError as error:  # CheckpointError is one
        said = str(error)
        named = path.name in said or str(path.parent) in said
        return "refused" if named and len(said) > len(str(path)) + 10 else f"refused without a reason: {said!r}"
    return "read as before" if told(found) == before else f"read as {told(found)}"
