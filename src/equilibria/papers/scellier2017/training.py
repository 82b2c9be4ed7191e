"""What the experiments of section 5 share: the data, Table 2's schedules in each reading, and a network trained by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax

import equilibria as eq
from equilibria.data import digits, grey, mnist
from equilibria.learn.rates import scale_by_coupling

CLASSES = 10


class Row(NamedTuple):
    """One row of Table 2."""

    free: int  # iterations of the 0-phase
    nudged: int  # iterations of the ξ-phase
    rates: tuple[float, ...]


TABLE = {
    1: Row(20, 4, (0.1, 0.05)),
    2: Row(100, 6, (0.4, 0.1, 0.01)),
    3: Row(500, 8, (0.128, 0.032, 0.008, 0.002)),
}


class Reading(NamedTuple):
    """One way to read Table 2, in the convention of equation 8: half the squared error, and a contrast over the nudge.

    Without the half, a nudge counts double, and so does what the contrast is multiplied by.
    """

    nudges: tuple[float, float, float]  # with one, two and three hidden layers
    rates: float  # beside those printed
    random_sign: bool = False


READINGS = {
    "equation 9": Reading((1.0, 1.0, 1.0), 1.0),  # the cost with its half, ξ and rates as printed
    "equation 52": Reading((2.0, 2.0, 2.0), 2.0),  # the cost without it
    "code of 2016": Reading((1.0, 2.0, 2.0), 2.0),  # without it, and ξ = 0.5 in the network with one hidden layer
    "code of 2017": Reading((1.0, 2.0, 2.0), 2.0, random_sign=True),
}
STOP = 1e-4  # a phase ends before its last iteration when no neuron moves by more; scellier2017/relaxation checks it


class Schedule(NamedTuple):
    """How one network is trained."""

    recipe: eq.Rule
    predict: eq.Equilibrator
    rates: tuple[float, ...]
    gain: float = 1.0  # of Glorot's initialisation


def table_schedule(depth: int, reading: str, *, rates: tuple[float, ...] | None = None) -> Schedule:
    """Table 2 in one of the readings.

    Args:
        depth: the number of hidden layers.
        reading: a name in `READINGS`.
        rates: others than those of the table.

    Returns:
        The schedule.
    """
    row, how = TABLE[depth], READINGS[reading]
    relax = eq.GradientFlow(row.free, tolerance=STOP)
    recipe = eq.equilibrium_propagation(
        how.nudges[depth - 1], free=relax, nudged=eq.GradientFlow(row.nudged), symmetric=False,
        random_sign=how.random_sign, particles=True, watch_changes=True,
    )  # fmt: skip
    return Schedule(recipe, relax, rates or tuple(how.rates * rate for rate in row.rates))


Parts = dict[str, tuple[np.ndarray, np.ndarray]]


def load(images: str, train: int) -> Parts:
    """Inputs and labels for training, validation and test.

    Args:
        images: "digits" or "mnist".
        train: how many of the training images are learned; the rest validate.

    Returns:
        The three parts.
    """
    given = {"digits": digits, "mnist": mnist}[images]()
    inputs, labels = grey(given.train_images), given.train_labels
    return {
        "train": (inputs[:train], labels[:train]),
        "validation": (inputs[train:], labels[train:]),
        "test": (grey(given.test_images), given.test_labels),
    }


def rested(
    network: eq.Network,
    how: eq.Equilibrator,
    inputs: np.ndarray,
    start: dict[str, np.ndarray] | None = None,
    chunk: int = 200,
) -> dict[str, np.ndarray]:
    """The states of all layers but the inputs, a chunk at a time so that each stops as soon as it has come to rest.

    Args:
        network: which relaxes.
        how: comes to rest.
        inputs: images.
        start: where each begins; at 0 when it is not given.
        chunk: images that relax together.

    Returns:
        By layer, (image, neuron).
    """
    shares = [slice(begin, begin + chunk) for begin in range(0, len(inputs), chunk)]
    ends = [
        eq.equilibrate(
            network, how, start and {name: layer[share] for name, layer in start.items()},
            world=eq.Clamp("input", inputs[share]),
        )
        for share in shares
    ]  # fmt: skip
    return {name: np.concatenate([end[name] for end in ends]) for name in network.names if name != "input"}


def predicted(network: eq.Network, how: eq.Equilibrator, inputs: np.ndarray) -> np.ndarray:
    """The predictions (51)."""
    return rested(network, how, inputs)["output"].argmax(axis=-1)


def error(network: eq.Network, how: eq.Equilibrator, inputs: np.ndarray, labels: np.ndarray) -> float:
    """The fraction of wrong predictions."""
    return float(np.mean(predicted(network, how, inputs) != labels))


def begun(sizes: tuple[int, ...], schedule: Schedule, data: Parts, seed: int) -> eq.Network:
    """The network that `trained` starts with."""
    return eq.layered((data["train"][0].shape[1], *sizes, CLASSES), gain=schedule.gain, key=seed)


def trained(
    sizes: tuple[int, ...],
    schedule: Schedule,
    data: Parts,
    *,
    seed: int,
    steps: int,
    batch_size: int = 20,
    optimiser: optax.GradientTransformation | None = None,
    checkpoint: Path | None = None,
    **options: Any,
) -> eq.Run:
    """A layered network trained by a schedule.

    Args:
        sizes: of the hidden layers.
        schedule: how.
        data: with a part "train".
        seed: of the weights and of the order of the examples.
        steps: the number of updates.
        batch_size: examples in each.
        optimiser: the schedule's rates, constant, by default.
        checkpoint: a folder for the state of this run, from which it goes on.
        **options: what `eq.train` takes besides.

    Returns:
        What `eq.train` returned.
    """
    inputs, labels = data["train"]
    return eq.train(
        begun(sizes, schedule, data, seed), (inputs, np.eye(CLASSES, dtype=np.float32)[labels]), schedule.recipe, steps=steps,
        batch_size=batch_size,
        optimiser=optimiser or optax.chain(optax.sgd(1.0), scale_by_coupling(schedule.rates)),
        checkpoint=checkpoint, resume=checkpoint is not None, show_progress=False, key=seed + 1000, **options,
    )  # fmt: skip
