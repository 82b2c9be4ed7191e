"""Restricted Boltzmann machines on one's own data: train, sample, evaluate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import check, files, plots
from equilibria.learn.recipes import likelihood_recipe
from equilibria.learn.stopping import REQUEUE
from equilibria.measure.partition import Method, summable

_UNITS = {"binary": eq.Binary, "spin": eq.Spin, "gaussian": eq.Gaussian}
_RESULTS = ("run.json", "history.nc", "samples.png", "filters.png", "learning.png")


def read(path: Path, name: str | None = None) -> np.ndarray:
    """The table in a file.

    Args:
        path: a .npy, .npz, .csv or .h5 file.
        name: which of several arrays in it.

    Returns:
        (examples, features).

    Raises:
        ValueError: if there is no such file, or no such table in it.
    """
    path = Path(path)
    if not path.is_file():
        check.refuse("data", str(path), "an existing .npy, .npz, .csv or .h5 file")
    values = _readers(name)[check.choice("data", path.suffix.lower(), _readers(name))](path)
    if values.dtype.kind not in "fiub" or values.dtype == np.longdouble:
        check.refuse("data", f"{path} with values of type {values.dtype}", "numbers of up to 64 bits")
    values = values.astype(values.dtype.newbyteorder("="), copy=False)  # JAX takes no other machine's order
    values = values.reshape(len(values), -1) if values.ndim > 2 else values
    if values.ndim != 2 or 0 in values.shape:
        check.refuse("data", f"{path} with shape {values.shape}", "a table (examples, features), not empty")
    check.finite("data", values)
    return values.astype(np.uint8) if values.dtype.kind == "b" else values


def _readers(name: str | None) -> dict[str, Callable[[Path], np.ndarray]]:
    def npy(path: Path) -> np.ndarray:
        return np.load(path, allow_pickle=False)

    def npz(path: Path) -> np.ndarray:
        with np.load(path, allow_pickle=False) as file:
            return _chosen(file, list(file.files), name)

    def h5(path: Path) -> np.ndarray:
        import h5py

        with h5py.File(path) as file:
            return _chosen(file, [key for key in file if isinstance(file[key], h5py.Dataset)], name)

    def csv(path: Path) -> np.ndarray:
        first = path.read_text().split("\n", 1)[0].replace(",", " ").split()
        try:
            header = 0 * len([float(word) for word in first])
        except ValueError:  # a line of names
            header = 1
        return np.loadtxt(path, delimiter=",", skiprows=header, ndmin=2)

    return {".npy": npy, ".npz": npz, ".csv": csv, ".h5": h5, ".hdf5": h5}


def _chosen(file: Mapping[str, Any], names: list[str], name: str | None) -> np.ndarray:
    if name is None and len(names) != 1:
        check.refuse("array", None, f"one of the arrays in the file: {', '.join(names)}")
    return np.asarray(file[names[0] if name is None else check.choice("array", name, names)])


class Training(NamedTuple):
    """How a machine is trained, as the options of `equilibria train` say it."""

    recipe: str
    steps: int
    epochs: int
    batch_size: int
    chains: int | None
    learning_rate: float
    final_rate: float
    l1: float
    l2: float
    seed: int
    resume: bool
    time_limit: float | None

    def rate(self, examples: int) -> optax.ScalarOrSchedule:
        """The learning rate: a number, or a line down to the final rate."""
        if self.final_rate == 1:
            return self.learning_rate
        updates = self.epochs * (examples // min(self.batch_size, examples))
        return optax.linear_schedule(self.learning_rate, self.learning_rate * self.final_rate, updates)

    def stops(self) -> list[eq.Callback]:
        """What may end the run before its time."""
        limit = [] if self.time_limit is None else [eq.TimeLimit(self.time_limit)]
        return [eq.OnSignal(), *limit]


def train(data: Path, out: Path, array: str | None, hidden: int, units: tuple[str, str], options: Training) -> int:
    """Train and leave a checkpoint, history.nc and pictures in `out`; with `resume` go on from what is there."""
    rows = read(data, array)
    visible, other = (
        _UNITS[check.choice(end, unit, _UNITS)]() for end, unit in zip(("visible", "hidden"), units, strict=True)
    )
    network = eq.rbm(rows.shape[1], hidden, visible=visible, hidden=other, key=options.seed)
    network = eq.independent_site_biases(network, rows, probabilities=True)
    recipe = likelihood_recipe(options.recipe, steps=options.steps, chains=options.chains, l1=options.l1, l2=options.l2)
    _begun(out, {"data": str(data), "hidden": hidden, **options._asdict()})
    try:
        run = eq.train(
            network,
            rows,
            recipe,
            epochs=options.epochs,
            batch_size=options.batch_size,
            optimiser=optax.sgd(options.rate(len(rows))),
            metrics=eq.watch_spectrum(),
            callbacks=options.stops(),
            probabilities=True,
            checkpoint=out,
            resume=options.resume,
            key=options.seed,
        )
    except eq.Diverged as error:
        raise ValueError(str(error)) from error
    files.save_dataset(out / "history.nc", run.history)
    if run.stopped is not None:
        print(f"{out}: stopped, {run.stopped}; checkpoint and history.nc are there, --resume goes on", flush=True)
        return REQUEUE
    write_pictures(out, run.network, run.history, options.seed)
    print(f"{out}: {int(run.history.step[-1])} steps; checkpoint, history.nc, samples.png, filters.png, learning.png")
    return 0


def _begun(out: Path, asked: dict[str, Any]) -> None:
    """Keep what was asked in run.json. A run whose rate falls to its end cannot be given another end."""
    path = out / "run.json"
    if files.latest(out) is not None:
        if not asked["resume"]:
            check.refuse("--out", f"{out}, which holds a run", "another folder, or --resume to go on with that run")
        before = json.loads(path.read_text()) if path.is_file() else asked
        if asked["epochs"] != before["epochs"] and asked["final_rate"] != 1:
            allowed = f"{before['epochs']}, over which the learning rate falls; with --final-rate 1 from the start, any"
            check.refuse("--epochs", asked["epochs"], allowed)
    elif theirs := [name for name in _RESULTS if os.path.lexists(out / name) and not _is_ours(out / name)]:
        check.refuse("--out", f"{out}, with {', '.join(theirs)} and no run", "another folder: they would be replaced")
    files.write_atomic(path, json.dumps(asked).encode())


def _is_ours(path: Path) -> bool:
    """Whether a file is what `train` leaves before its first checkpoint."""
    if path.name != "run.json":
        return False
    try:
        return {"data", "hidden", "recipe"} <= json.loads(path.read_bytes()).keys()
    except (OSError, ValueError, AttributeError):
        return False


def sample(folder: Path, count: int, sweeps: int, temperature: float, seed: int, out: Path | None) -> int:
    """Draw from a trained machine and write the visible states as a .npy file, with a picture beside it."""
    path = Path(out or folder / "samples.npy")
    if out is not None and os.path.lexists(path.with_suffix(".png")) and not os.path.lexists(path):
        check.refuse("--out", f"{path}, beside whose place a picture is", "another name: the picture would be replaced")
    network = eq.load_network(folder, fallback=True)
    draws = eq.sample(network, eq.Sweeps(sweeps), chains=count, temperature=temperature, key=seed)
    with files.replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, np.asarray(draws[network.names[0]]))
    _save(path.with_suffix(".png"), _tiles(np.asarray(draws[network.names[0]])[:64]))
    print(f"{path}: {count} draws after {sweeps} sweeps at temperature {temperature:g}")
    return 0


def evaluate(
    folder: Path,
    data: Path,
    array: str | None,
    method: Method | Literal["auto"],
    steps: int,
    chains: int,
    seed: int,
) -> int:
    """Print the log-likelihood of data with its error and bracket, and write it as evaluation.json into the folder."""
    network = eq.load_network(folder, fallback=True)
    rows = read(data, array)
    if method == "auto":
        method = "exact" if summable(network, 2**20) else "ais"
    found = eq.log_likelihood(network, rows, method, chains=chains, steps=steps, key=seed)
    report = {"examples": len(rows), "method": method, **found._asdict()}
    files.write_atomic(folder / "evaluation.json", json.dumps(report).encode())
    bracket = "" if found.bracket is None else f", bracket {found.bracket[0]:.3f} to {found.bracket[1]:.3f}"
    print(
        f"log-likelihood {found.value:.3f} ± {found.error:.3f} nats per example ({method}{bracket}) {found.note}".rstrip()
    )
    return 0


def write_pictures(out: Path, network: eq.Network, history: xr.Dataset, seed: int = 0) -> None:
    """Draw samples, filters, and how spectrum and contrast moved."""
    draws = eq.sample(network, eq.Sweeps(1000), chains=64, key=seed)
    weights = np.asarray(network.couplings[0].matrix())
    strongest = np.argsort(-np.linalg.norm(weights, axis=0))[:64]
    with plots.style():
        _save(out / "samples.png", _tiles(np.asarray(draws[network.names[0]])))
        _save(out / "filters.png", _tiles(weights[:, strongest].T, symmetric=True))
        figure, (left, right) = plots.panels(2)
        left.plot(history.step, history["contrast"])
        left.set(xlabel="step", ylabel="contrast of free energies", xscale="log")
        right.plot(history.step, history["singular_values"], color=plots.PALETTE[0], lw=0.4)
        right.set(xlabel="step", ylabel="singular values", xscale="log", yscale="log")
        _save(out / "learning.png", figure)


def _tiles(rows: np.ndarray, *, symmetric: bool = False) -> Figure:
    """Up to 64 rows as small pictures: square ones where the number of features is a square, else strips."""
    side = round(rows.shape[1] ** 0.5)
    shape = (side, side) if side**2 == rows.shape[1] else (1, rows.shape[1])
    columns = min(8, len(rows))
    figure, axes = plots.panels(columns, -(-len(rows) // columns), size=(0.8, 0.8), squeeze=False)
    limit = np.abs(rows).max()
    for panel, row in zip(axes.ravel(), rows, strict=False):
        if symmetric:
            panel.imshow(row.reshape(shape), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        else:
            panel.imshow(row.reshape(shape), cmap="gray_r", vmin=rows.min(), vmax=rows.max(), aspect="auto")
    for panel in axes.ravel():
        panel.set_axis_off()
    return figure


def _save(path: Path, figure: Figure) -> None:
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format="png")
