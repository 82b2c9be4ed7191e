"""Classification with one, two and three hidden layers (Table 2 and Figure 5), by the paper's schedule and by ours.

The paper's schedule is that of the authors' code: there the cost is |y - d|^2 without the 1/2, so that its nudge counts double
beside ours, and so do its rates. As printed, with the 1/2, the outputs of the deeper networks die in the first minibatches.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.data import digits, grey, mnist
from equilibria.equilibrators.descent import Descent
from equilibria.learn.rates import scale_by_coupling
from equilibria.papers.claims import Claim, at_most
from equilibria.papers.frame import Experiment


@dataclass(frozen=True)
class Config:
    """Which networks are trained, on what, and for how long.

    `paper_epochs` and `our_epochs` are for one, two and three hidden layers; 0 leaves a network out.
    """

    images: str = "digits"
    train: int = 1200  # of the training images; the rest validate
    paper_size: int = 100  # neurons in each hidden layer
    our_size: int = 100
    paper_epochs: tuple[int, int, int] = (12, 12, 0)
    our_epochs: tuple[int, int, int] = (12, 12, 12)
    batch_size: int = 20
    seed: int = 0


class Schedule(NamedTuple):
    """How one network is trained."""

    recipe: eq.Recipe
    predict: eq.Equilibrator
    rates: tuple[float, ...]
    decay: float  # of the rates, over the whole run
    gain: float


def paper_schedule(depth: int) -> Schedule:
    """Table 2 in the convention of the authors' code. Relaxations stop early where nothing moves by more than 10^-4."""
    free, nudged = {1: (20, 4), 2: (100, 6), 3: (500, 8)}[depth]
    printed = {1: (0.1, 0.05), 2: (0.4, 0.1, 0.01), 3: (0.128, 0.032, 0.008, 0.002)}[depth]
    nudge = {1: 1.0, 2: 2.0, 3: 2.0}[depth]
    relax = eq.GradientFlow(free, tolerance=1e-4)
    recipe = eq.equilibrium_propagation(
        nudge, free=relax, nudged=eq.GradientFlow(nudged), centered=False, random_sign=True, particles=True
    )
    return Schedule(recipe, relax, tuple(2 * rate for rate in printed), 1.0, gain=1.0)


def our_schedule(depth: int) -> Schedule:
    """Centered nudging, overshooting block descent, weights that start where there is one minimum, rates that fall."""
    free, nudged = {1: (20, 6), 2: (30, 10), 3: (40, 14)}[depth]
    relax = Descent(free, tolerance=1e-3)
    rates = {1: (0.4, 0.1), 2: (0.4, 0.1, 0.02), 3: (0.4, 0.2, 0.05, 0.01)}[depth]
    recipe = eq.equilibrium_propagation(0.5, free=relax, nudged=Descent(nudged, 0.0), watch_changes=True)
    return Schedule(recipe, Descent(2 * free, tolerance=1e-3), rates, 0.02, gain=0.5)


SCHEDULES = {"paper": paper_schedule, "ours": our_schedule}


def load(config: Config) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inputs and labels for training, validation and test."""
    images = {"digits": digits, "mnist": mnist}[config.images]()
    inputs, labels = grey(images.train_images), images.train_labels
    return {
        "train": (inputs[: config.train], labels[: config.train]),
        "validation": (inputs[config.train :], labels[config.train :]),
        "test": (grey(images.test_images), images.test_labels),
    }


def error(
    network: eq.Network, how: eq.Equilibrator, inputs: np.ndarray, labels: np.ndarray, chunk: int = 1000
) -> float:
    """The fraction of wrong predictions (51), a chunk at a time so that each stops as soon as it has come to rest."""
    wrong = 0
    for begin in range(0, len(inputs), chunk):
        here = slice(begin, begin + chunk)
        outputs = eq.equilibrate(network, how, world=eq.Clamp("input", inputs[here]))["output"]
        wrong += int(np.sum(np.argmax(outputs, axis=-1) != labels[here]))
    return wrong / len(inputs)


def _train(name: str, depth: int, epochs: int, config: Config, data: dict, checkpoint: Path) -> xr.Dataset:
    schedule = SCHEDULES[name](depth)
    inputs, labels = data["train"]
    size = config.paper_size if name == "paper" else config.our_size
    network = eq.layered((inputs.shape[1], *[size] * depth, 10), gain=schedule.gain, key=config.seed + depth)
    per_epoch = len(inputs) // config.batch_size
    falling = optax.exponential_decay(1.0, epochs * per_epoch, schedule.decay)
    history = eq.train(
        network,
        (inputs, np.eye(10, dtype=np.float32)[labels]),
        schedule.recipe,
        epochs=epochs,
        batch_size=config.batch_size,
        optimiser=optax.chain(optax.sgd(falling), scale_by_coupling(schedule.rates)),
        record=range(per_epoch, epochs * per_epoch + 1, per_epoch),
        metrics=lambda network: {
            part: error(network, schedule.predict, *data[part]) for part in ("validation", "test")
        },
        checkpoint=checkpoint / f"{name}{depth}",
        resume=True,
        key=config.seed + 10 + depth,
    ).history
    unsettled = history["unconverged_base"].values
    columns = {"train": history["error"].values, "validation": history["validation"].values}
    columns |= {"test": history["test"].values, "unconverged": unsettled}
    return xr.Dataset({key: ("epoch", values) for key, values in columns.items()}, {"epoch": np.arange(1, epochs + 1)})


def run(config: Config, progress, checkpoint: Path) -> xr.Dataset:
    """Errors after each epoch; "train" is the running error of the epoch, at the free fixed point before each update."""
    data = load(config)
    found = {}
    for name, epochs in {"paper": config.paper_epochs, "ours": config.our_epochs}.items():
        for depth in (1, 2, 3):
            if epochs[depth - 1]:
                found[name, depth] = _train(name, depth, epochs[depth - 1], config, data, checkpoint)
    curves = [curve.expand_dims(network=[f"{name} {depth}"]) for (name, depth), curve in found.items()]
    return xr.concat(curves, "network", join="outer").assign_attrs(images=config.images)


def final(dataset: xr.Dataset, network: str, column: str) -> float:
    """The last value of a network's curve, whose length is its own."""
    values = dataset[column].sel(network=network).values
    return float(values[np.isfinite(values)][-1])


def plot(dataset: xr.Dataset):
    """Figure 5: training and test error after each epoch, one panel for each schedule."""
    names = [str(name) for name in dataset["network"].values]
    shown = [schedule for schedule in SCHEDULES if any(name.startswith(schedule) for name in names)]
    figure, panels = plots.panels(len(shown), sharey=True, squeeze=False)
    for axes, schedule in zip(panels[0], shown, strict=True):
        for name in (name for name in names if name.startswith(schedule)):
            depth = int(name[-1])
            curve, colour = dataset.sel(network=name), plots.PALETTE[depth - 1]
            label = f"{depth} hidden: test {100 * final(dataset, name, 'test'):.2f}%"
            axes.plot(curve["epoch"], 100 * curve["test"], color=colour, label=label)
            axes.plot(curve["epoch"], 100 * curve["train"], color=colour, linestyle="--", linewidth=1)
        title = {"paper": "the paper's schedule", "ours": "ours"}[schedule]
        axes.set(xlabel="epoch", title=f"{title} (dashed: training error)")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0)
        axes.legend()
    panels[0][0].set_ylabel(f"error on {dataset.attrs['images']}, %")
    return figure


# Largest errors in percent, by network: training, test. For MNIST the paper's 0.00% and 2-3%, and the best published
# for the same kind of network (1.79, 1.65, 1.65). The bundled digits' test set is by other writers than the 1200 for training:
# there the limits are what a short run of each network reaches, with room for another seed.
_LIMITS = {
    "mnist": {"paper": ((0.02, 3.0),) * 3, "ours": ((0.02, 1.8), (0.02, 1.65), (0.02, 1.65))},
    "digits": {"paper": ((4.0, 18.0), (8.0, 22.0), (8.0, 22.0)), "ours": ((4.0, 16.0), (4.0, 16.0), (8.0, 18.0))},
}


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The errors reached, and that relaxations come to rest."""
    made = []
    for name in (str(name) for name in dataset["network"].values):
        schedule, depth = name.split()
        training, test = _LIMITS[dataset.attrs["images"]][schedule][int(depth) - 1]
        source = {"paper": "Section 5.2, Figure 5", "ours": "best published: 1.79 / 1.65 / 1.65%"}[schedule]
        source = source if dataset.attrs["images"] == "mnist" else f"{source}; here on the small digits"
        for column, limit in (("train", training), ("test", test)):
            made.append(
                at_most(
                    f"{name} hidden: {column} error after the last epoch, %", source=source, expected=limit,
                    measured=100 * final(dataset, name, column),
                )
            )  # fmt: skip
    return made


experiment = Experiment(
    id="scellier2017/table2",
    title="MNIST by equilibrium propagation with one, two and three hidden layers",
    presets={
        "quick": Config(),
        "full": Config(
            images="mnist",
            train=50_000,
            paper_size=500,
            our_size=1024,
            paper_epochs=(25, 60, 60),
            our_epochs=(60, 60, 60),
        ),
    },
    run=run,
    plot=plot,
    claims=claims,
)
