"""What figures 2 to 4 share: a machine of spins that learns MNIST, with its spectrum recorded.

The paper's "variance of 0.01" cannot be meant of the weights of 784 x 400 spins: their Marchenko-Pastur edge would be
at 4.8, far above the threshold 1 that it is said to stay below. Weights of standard deviation 0.01 have their edge at
0.48, and are used here. Gradients are the plain ones of equation (4), not centered, as in the paper. The noise of a
minibatch of B examples and B chains keeps every mode at a level of about sqrt(learning rate / B): B = 500 puts that
below the initial weights, so that damping shows.

Damping is a matter of the first ten epochs, as in the paper. Later more modes grow, each moves the others down by one rank, and
every value of a given rank rises again: after 20 epochs none is below its start. It is also weaker the better the chains
follow: with ten sweeps for each update hardly anything is damped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria.data import binarise, mnist

SCALE = 0.01  # of the initial weights


@dataclass(frozen=True)
class Config:
    """A machine of `hidden` spins and how it learns the first `images` digits of MNIST."""

    images: int = 10_000
    hidden: int = 400
    epochs: int = 20
    batch_size: int = 500
    learning_rate: float = 0.01
    sweeps: int = 1
    records: int = 40
    seed: int = 0


QUICK = Config()
PAPER = Config(images=60_000, epochs=10, seed=1)


def spins(config: Config) -> np.ndarray:
    """The images as -1 and +1, in 8 bits."""
    return binarise(mnist().train_images[: config.images]).astype(np.int8)


def learn(config: Config, data: np.ndarray, *, empirical: bool = True, keep: tuple[int, ...] = ()) -> xr.Dataset:
    """Singular values and the first modes along the training; the state before it counts as step 0.

    Args:
        config: the machine and its training.
        data: spins, (examples, pixels).
        empirical: whether the visible fields begin at the data's means, else at zero.
        keep: further steps to record.

    Returns:
        Singular values (step, mode), and the first ten modes (step, leading, pixel).
    """
    network = eq.rbm(data.shape[1], config.hidden, visible=eq.Spin(), hidden=eq.Spin(), scale=SCALE, key=config.seed)
    if empirical:
        network = eq.independent_site_biases(network, data)
    last = config.epochs * (len(data) // config.batch_size)
    first = _measured(network)
    run = eq.train(
        network,
        data,
        eq.pcd(config.sweeps, opening="network", centered_gradient=False),
        epochs=config.epochs,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        record=sorted({*eq.log_spaced_steps(last, config.records), *keep}),
        metrics=_measured,
        key=config.seed + 1,
    )
    whole = {name: np.concatenate([first[name][None], run.history[name].values]).astype(np.float32) for name in first}
    steps = np.concatenate([[0], run.history["step"].values])
    return xr.Dataset(
        {"value": (("step", "mode"), whole["value"]), "direction": (("step", "leading", "pixel"), whole["direction"])},
        {"step": steps, "epoch": ("step", steps / (len(data) // config.batch_size))},
    )


def _measured(network: eq.Network) -> dict[str, np.ndarray]:
    found = eq.spectrum(network)
    return {"value": found.values, "direction": found.first[:10]}


def per_epoch(config: Config) -> int:
    """The number of steps in an epoch."""
    return config.images // config.batch_size
