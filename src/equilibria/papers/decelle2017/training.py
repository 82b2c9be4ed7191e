"""What figures 2 to 4 share: a machine that learns MNIST, with its spectrum recorded.

The paper writes of spins, weights of variance 0.01, visible fields at the data's means, a rate of about 0.01 and 20 epochs. It
does not say whether the machine that learned MNIST had units of +-1 or of 0 and 1, nor the size of its batches, nor how its
chains were run. `Config` as it stands is what a reader would take from the text; `decelle2017/settings` runs the others. For
spins a variance of 0.01 puts the edge of the noise at 4.8, above the threshold 1 that the paper says it stays below.

Gradients are the plain ones of equation (4), not centered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria.data import binarise
from equilibria.papers.digits import handwritten

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
QUICK = Config(images=2000, hidden=200, epochs=10, batch_size=20, records=20, seeds=2)
DIFFERS = {
    "paper": [
        "read from the text: units of +-1, CD-1, batches of 100; the paper does not say (see decelle2017/settings)",
    ],
    "quick": ["2,000 digits, 200 hidden units, 10 epochs of batches of 20, 2 seeds"],
}


def spins(config: Config) -> np.ndarray:
    """The images as -1 and +1, in 8 bits."""
    return binarise(handwritten(config.images).train_images).astype(np.int8)


def learn(config: Config, data: np.ndarray, seed: int, *, empirical: bool = True) -> xr.Dataset:
    """The spectrum and the first modes along one training; the state before it counts as step 0.

    Args:
        config: the machine and its training.
        data: the digits as spins, (examples, pixels).
        seed: of this training.
        empirical: whether the visible fields begin at the data's means, else at zero.

    Returns:
        Singular values (step, mode), directions of the first modes (step, leading, pixel), and 20 samples of the machine at
        the end, begun at random.
    """
    unit = UNITS[config.units]()
    rows = data if config.units == "spin" else ((data + 1) // 2).astype(np.int8)
    network = eq.rbm(
        data.shape[1], config.hidden, visible=unit, hidden=unit, scale=config.variance**0.5, key=config.seed + seed
    )
    opening = "data" if empirical else "network"
    make: Any = {"cd": eq.cd, "pcd": eq.pcd}[config.recipe]
    first = _measured(network)
    run = eq.train(
        network,
        rows,
        make(config.sweeps, centered_gradient=False, opening=opening),
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        record=sorted({*eq.log_spaced_steps(config.last, config.records), *moments(config)}),
        metrics=_measured,
        key=1000 + config.seed + seed,
    )
    whole = {name: np.concatenate([first[name][None], run.history[name].values]).astype(np.float32) for name in first}
    steps = np.concatenate([[0], run.history["step"].values])
    dreams = eq.sample(run.network, eq.Sweeps(1000), chains=20, key=seed)["visible"]
    return xr.Dataset(
        {
            "value": (("step", "mode"), whole["value"]),
            "direction": (("step", "leading", "pixel"), whole["direction"]),
            "dream": (("draw", "pixel"), np.asarray(dreams, np.int8)),
        },
        {"step": steps, "epoch": ("step", steps / config.per_epoch)},
    )


def moments(config: Config) -> tuple[int, ...]:
    """Updates at which figures look: a few, half an epoch, one epoch, ten (or as many as there are), the last."""
    few = max(1, config.per_epoch // 50)
    return few, max(1, config.per_epoch // 2), config.per_epoch, min(10, config.epochs) * config.per_epoch, config.last


def learned(config: Config, data: np.ndarray, **options: Any) -> xr.Dataset:
    """As `learn`, for each of the seeds."""
    return xr.concat([learn(config, data, seed, **options) for seed in range(config.seeds)], "seed")


def one_epoch(config: Config) -> Config:
    """The same training, ended after an epoch."""
    return replace(config, epochs=1)


def _measured(network: eq.Network) -> dict[str, np.ndarray]:
    found = eq.spectrum(network)
    return {"value": found.values, "direction": found.first[:MODES]}
