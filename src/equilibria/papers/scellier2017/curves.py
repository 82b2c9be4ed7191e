"""Figure 5: training and validation error of a network of Table 2, over seeds. One module for each of its panels."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import files
from equilibria.learn.stopping import Row
from equilibria.papers.scellier2017.resting import block_schedule
from equilibria.papers.scellier2017.training import error, load, rested, table_schedule, trained

DIFFERS = (
    "minibatches are drawn anew in every epoch; the authors' code goes through the same ones in the same order",
    "a phase ends before its last iteration when no neuron moves by more than 1e-4 (see scellier2017/relaxation)",
    "Table 2 in the reading of the authors' code of 2016: cost without the half, positive nudges (see scellier2017/table2)",
)
SMALL = ("1,200 bundled digits of 8 x 8 pixels in place of MNIST", "100 hidden neurons in a layer in place of 500")


@dataclass(frozen=True)
class Config:
    """A network with `depth` hidden layers of `size`, by one reading of Table 2, from as many `seeds`."""

    depth: int
    epochs: int
    seeds: int
    reading: str = "code of 2016"
    free: str = "Euler"  # the 0-phase: the paper's "Euler" steps, or "blocks", to forces as small
    images: str = "mnist"
    train: int = 50_000
    size: int = 500
    batch_size: int = 20
    seed: int = 0


class Validation(eq.Callback):
    """The error on images that are not learned from, each starting where the epoch before left it.

    That is how the authors' code validates: the images it validates with have persistent particles as well, which begin at 0
    and come to rest again after every epoch. The state of each epoch is kept in a file, so that a run that goes on finds the
    one before it.

    Args:
        how: comes to rest.
        inputs: the images.
        labels: their classes.
        folder: where the files are.
        every: the updates of an epoch.
    """

    def __init__(self, how: eq.Equilibrator, inputs: np.ndarray, labels: np.ndarray, folder: Path, every: int):
        self.how, self.inputs, self.labels, self.folder, self.every = how, inputs, labels, folder, every

    def _file(self, step: int) -> Path:
        return self.folder / f"validation{step}.npz"

    def record(self, step: int, parameters: eq.Network, row: Row) -> None:
        """Relax from the last epoch's states, and keep these."""
        kept = dict(np.load(self._file(step - self.every))) if step > self.every else {"errors": np.zeros(0)}
        errors = kept.pop("errors")
        found = rested(parameters, self.how, self.inputs, kept or None)
        wrong = np.mean(found["output"].argmax(axis=-1) != self.labels)
        with files.replacing(self._file(step)) as temporary, temporary.open("wb") as file:
            np.savez(file, **{"errors": np.append(errors, wrong)} | found)  # type: ignore[arg-type]
        self._file(step - 2 * self.every).unlink(missing_ok=True)

    def errors(self, step: int) -> np.ndarray:
        """Those of all epochs until a step."""
        return np.load(self._file(step))["errors"]


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Errors after each epoch; "train" is the running error of the epoch, at the free fixed point before each update.

    "validation" goes on from the states of the epoch before, as the authors' code does; "from_zero" begins at 0 each time.
    """
    data = load(config.images, config.train)
    schedule = {"Euler": table_schedule, "blocks": block_schedule}[config.free](config.depth, config.reading)
    per_epoch = config.train // config.batch_size
    steps = config.epochs * per_epoch
    names = {"train": "error", "from_zero": "from_zero", "unconverged": "unconverged_base", "change": "change"}
    columns: dict[str, list] = {name: [] for name in (*names, "validation", "test")}
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory())) if checkpoint is None else checkpoint
        for seed in range(config.seed, config.seed + config.seeds):
            folder = root / f"validation{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            validation = Validation(schedule.predict, *data["validation"], folder, per_epoch)

            def measure(network):
                return {"from_zero": error(network, schedule.predict, *data["validation"])}

            done = trained(
                (config.size,) * config.depth, schedule, data, seed=seed, steps=steps, batch_size=config.batch_size,
                metrics=measure, callbacks=[validation], record=range(per_epoch, steps + 1, per_epoch),
                checkpoint=None if checkpoint is None else checkpoint / f"seed{seed}",
            )  # fmt: skip
            for name, recorded in names.items():
                columns[name].append(done.history[recorded].values)
            columns["validation"].append(validation.errors(steps))
            columns["test"].append(error(done.network, schedule.predict, *data["test"]))  # once, at the end
    axes = dict.fromkeys(columns, ("seed", "epoch")) | {"change": ("seed", "epoch", "coupling"), "test": ("seed",)}
    return xr.Dataset(
        {name: (axes[name], np.stack(values)) for name, values in columns.items()},
        {"epoch": np.arange(1, config.epochs + 1)},
        {"depth": config.depth, "images": config.images, "reading": config.reading, "free": config.free},
    )


def presets(depth: int, epochs: int, seeds: int, free: str = "Euler") -> dict[str, Config]:
    """The paper's configuration of one panel, and a small version of it."""
    quick = Config(depth, {1: 15, 2: 15, 3: 35}[depth], seeds=1, free=free, images="digits", train=1200, size=100)
    return {"quick": quick, "paper": Config(depth, epochs, seeds, free=free, seed=100)}
