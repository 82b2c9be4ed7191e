"""Work that is killed: each goes on from what is in its folder, and says how far it is and what it left in the end."""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

import equilibria as eq
import gridcells
import tiny
from equilibria import files
from equilibria.papers import frame

DATA = np.random.default_rng(0).choice([0.0, 1.0], (60, 8))
CELLS, VERSIONS, STEPS = 50, 30, 120


def train(folder: Path) -> None:
    """A machine with its state on disk at every second step."""
    _trained(folder / "run")


def _trained(checkpoint: Path) -> eq.Run:
    machine, options = eq.rbm(8, 6, key=0), {"learning_rate": 0.05, "checkpoint_every": 2, "resume": True, "key": 1}
    return eq.train(machine, DATA, eq.pcd(1), steps=STEPS, batch_size=10, checkpoint=checkpoint, **options)


def grid(folder: Path) -> None:
    """A grid that is kept cell by cell."""
    cell = functools.partial(gridcells.logged, log=str(folder / "log"), pause=0.003)
    found = eq.grid(cell, store=folder / "grid", batch=False, chunk=1, x=range(CELLS), seed=0)
    files.save_dataset(folder / "found.nc", found)


def replace(folder: Path) -> None:
    """Files of three formats that are replaced again and again; a line of the log says that a version was written."""
    for version in range(_acknowledged(folder) + 1, VERSIONS + 1):
        files.save_dataset(folder / "result.nc", xr.Dataset({"value": ("x", np.full(500, version))}))
        files.write(folder / "arrays.safetensors", {"value": np.full(500, version)}, {"version": version})
        files.write_atomic(folder / "note.json", json.dumps({"version": version}).encode())
        with open(folder / "log", "a") as log:
            log.write(f"{version}\n")


def _acknowledged(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().split("\n")) - 1 if log.exists() else 0


@dataclass(frozen=True)
class Config:
    steps: int = STEPS


def _figure_run(config, progress, checkpoint):
    run = _trained(checkpoint)
    return xr.Dataset({"y": ("x", np.asarray(run.network.couplings[0].weights)[0])}, coords={"x": np.arange(6.0)})


FIGURE = frame.Experiment("tiny/killed", "A figure", {"quick": Config()}, _figure_run, tiny.plot, tiny.claims)


def reproduce(folder: Path) -> None:
    """A figure of a paper, whose run keeps its state."""
    frame.reproduce(FIGURE, "quick", folder / "figure")


WORK = {"train": train, "grid": grid, "replace": replace, "reproduce": reproduce}


def reached(name: str, folder: Path) -> int:
    """How far the work is, by what can be read in its folder; every file there is read, and must be whole."""
    if name == "train":
        return _newest(folder / "run")
    if name == "grid":
        cells = list((folder / "grid").glob("cells-*.safetensors"))
        return sum(len(files.load(path).arrays) > 0 for path in cells)
    if name == "replace":
        return _version(folder)
    figure, done = folder / "figure", 0
    if (figure / "result.nc").exists():
        done = 1000 + files.load_dataset(figure / "result.nc").sizes["x"]
    for path in figure.glob("*.json"):
        json.loads(path.read_text())
    return max([done, *(_newest(path) for path in figure.glob("checkpoint-*"))])


def _newest(folder: Path) -> int:
    """The step of the newest checkpoint; each of them is read, with no falling back."""
    steps = [files.load(path).step for path in folder.glob("checkpoint-*.safetensors")]
    return max(steps, default=0)


def _version(folder: Path) -> int:
    """The version that all three files have at least; what was acknowledged is there."""
    acknowledged = _acknowledged(folder)
    if not acknowledged:
        return 0
    with contextlib.closing(files.load_dataset(folder / "result.nc")) as dataset:
        versions = set(dataset["value"].values.tolist())
    found = files.load(folder / "arrays.safetensors")
    versions |= {found.metadata["version"], *found.arrays["value"].tolist()}
    versions |= {json.loads((folder / "note.json").read_text())["version"]}
    if not versions <= {acknowledged, acknowledged + 1}:
        raise AssertionError(f"version {acknowledged} was written, and {sorted(versions)} are there")
    return acknowledged


def outcome(name: str, folder: Path) -> list:
    """What the work left in the end, to be compared with that of work that was not killed."""
    if name == "train":
        found = files.load(folder / "run")
        return [found.step, *((key, np.asarray(value).tobytes()) for key, value in _plain(found.arrays).items())]
    if name == "grid":
        return [files.load_dataset(folder / "found.nc")["value"].values.tolist()]
    if name == "replace":
        return [_version(folder)]
    figure = folder / "figure"
    names = sorted(path.name for path in figure.iterdir() if not path.name.startswith("."))
    return [names, files.load_dataset(figure / "result.nc")["y"].values.tobytes()]


def _plain(arrays):
    import jax

    is_key = {name: jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key) for name, array in arrays.items()}
    return {name: jax.random.key_data(array) if is_key[name] else array for name, array in sorted(arrays.items())}
