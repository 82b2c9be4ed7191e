"""What figures 2 to 4 share: a machine that learns MNIST, with its spectrum recorded.

The paper writes of spins, weights of variance 0.01, visible fields at the data's means, a rate of about 0.01 and 20 epochs. It
does not say whether the machine that learned MNIST had units of +-1 or of 0 and 1, nor the size of its batches, nor how its
chains were run. `Config` as it stands is what a reader would take from the text; `decelle2017/settings` runs the others. For
spins a variance of 0.01 puts the edge of the noise at 4.8, above the threshold 1 that the paper says it stays below.

Gradients are the plain ones of equation (4), not centered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria.data import binarise
from equilibria.papers.digits import handwritten
from equilibria.papers.sweep import sweep

MODES = 10  # whose directions are kept
UNITS = {"spin": eq.Spin, "binary": eq.Binary}
THRESHOLD = {"spin": 1.0, "binary": 4.0}  # of the strongest mode without fields; W of bits is four times that of spins


@dataclass(frozen=True)
class Config:
    """A machine of `hidden` units and how it learns the first `images` digits of MNIST, once for each of `seeds`."""

    images: int = 60_000
    hidden: int = 400
    units: str = "spin"
    variance: float = 0.01
    recipe: str = "cd"
    sweeps: int = 1
    batch_size: int = 100
    learning_rate: float = 0.01
    epochs: int = 20
    records: int = 40
    seeds: int = 5
    seed: int = 0

    @property
    def per_epoch(self) -> int:
        """The number of updates in an epoch."""
        return self.images // self.batch_size

    @property
    def last(self) -> int:
        """The last update."""
        return self.epochs * self.per_epoch


PAPER = Config()
QUICK = Config(images=2000, hidden=100, epochs=10, batch_size=20, records=8, seeds=1)
DIFFERS = {
    "paper": [
        "read from the text: units of +-1, CD-1, batches of 100; the paper does not say (see decelle2017/settings)",
    ],
    "quick": ["2,000 digits, 100 hidden units, 10 epochs of batches of 20, one seed"],
}


class Components(NamedTuple):
    """The data's principal components, as `eq.principal_components` gives them."""

    centred: Any  # about the mean
    raw: Any  # the mean included


@lru_cache(maxsize=1)
def spins(images: int) -> np.ndarray:
    """The first images as -1 and +1, in 8 bits."""
    return binarise(handwritten(images).train_images).astype(np.int8)


@lru_cache(maxsize=1)
def components(images: int) -> Components:
    """The components of the first images."""
    rows = spins(images).astype(np.float32)
    return Components(eq.principal_components(rows), eq.principal_components(rows, centred=False))


def recorded(config: Config) -> list[int]:
    """The updates after which a spectrum is taken; 0 is before the first."""
    return [0, *sorted({*eq.log_spaced_steps(config.last, config.records), *moments(config)})]


def trained(machine: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a training from visible fields at the data's means; `_training` says what it gives."""
    return _training(config, machine, "data")


def trained_from_zero(machine: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a training from visible fields of zero."""
    return _training(config, machine, "network")


def _training(config: Config, machine: int, opening: str) -> dict[str, np.ndarray]:
    """Singular values (step, mode) and first directions (step, leading, pixel) along one training, and 20 samples of the
    machine at the end, begun at random."""
    unit, data = UNITS[config.units](), spins(config.images)
    rows = data if config.units == "spin" else ((data + 1) // 2).astype(np.int8)
    network = eq.rbm(
        data.shape[1], config.hidden, visible=unit, hidden=unit, scale=config.variance**0.5, key=config.seed + machine
    )
    make: Any = {"cd": eq.cd, "pcd": eq.pcd}[config.recipe]
    first = _measured(network)
    run = eq.train(
        network,
        rows,
        make(config.sweeps, centered_gradient=False, opening=opening),
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        record=recorded(config)[1:],
        metrics=_measured,
        show_progress=False,
        key=1000 + config.seed + machine,
    )
    whole = {name: np.concatenate([first[name][None], run.history[name].values]).astype(np.float32) for name in first}
    dreams = eq.sample(run.network, eq.Sweeps(1000), chains=20, key=machine)["visible"]
    return {**whole, "dream": np.asarray(dreams, np.int8)}


_MADE: dict[tuple[str, Config], xr.Dataset] = {}  # figures 2 to 4, made in one process, are of the same trainings


def learned(config: Config, checkpoint: Path | None = None, *, empirical: bool = True) -> xr.Dataset:
    """The spectrum and the first modes along the trainings; the state before them counts as step 0.

    Args:
        config: the machine and its training.
        checkpoint: a folder that keeps finished trainings.
        empirical: whether the visible fields begin at the data's means, else at zero.

    Returns:
        Singular values (seed, step, mode), directions of the first modes (seed, step, leading, pixel), and samples
        (seed, draw, pixel) of the machine at the end.
    """
    cell = trained if empirical else trained_from_zero
    if (cell.__name__, config) not in _MADE:
        _MADE[cell.__name__, config] = assembled(config, sweep(cell, config, checkpoint, machine=range(config.seeds)))  # type: ignore[arg-type]
    return _MADE[cell.__name__, config]


def assembled(config: Config, found: Mapping[str, Any]) -> xr.Dataset:
    """What trainings gave, along seeds first, as `learned` returns it."""
    shapes = {"value": ("step", "mode"), "direction": ("step", "leading", "pixel"), "dream": ("draw", "pixel")}
    steps = recorded(config)
    return xr.Dataset(
        {name: (("seed", *dims), np.asarray(found[name])) for name, dims in shapes.items()},
        {"step": steps, "epoch": ("step", np.array(steps) / config.per_epoch)},
    )


def moments(config: Config) -> tuple[int, ...]:
    """Updates at which figures look: a few, half an epoch, one epoch, ten (or as many as there are), the last."""
    few = max(1, config.per_epoch // 50)
    return few, max(1, config.per_epoch // 2), config.per_epoch, min(10, config.epochs) * config.per_epoch, config.last


def one_epoch(config: Config) -> Config:
    """The same training, ended after an epoch."""
    return replace(config, epochs=1)


def _measured(network: eq.Network) -> dict[str, np.ndarray]:
    found = eq.spectrum(network)
    return {"value": found.values, "direction": found.first[:MODES]}
