"""Classification with one, two and three hidden layers (Table 2 and Figure 5), by the paper's schedule and by ours.

Three kinds of network are trained: "paper", the paper's networks with its schedule; "fast", the paper's networks with our
relaxation and rates; "ours", with the layers and the schedule that did best.

The paper's schedule is that of the authors' code: there the cost is |y - d|^2 without the 1/2, so that its nudge counts double
beside ours, and so do its rates. As printed, with the 1/2, the outputs of the deeper networks die in the first minibatches.
Even so a class is often lost with two hidden layers: all outputs start near 1, and the first minibatch with a positive nudge
lowers their fields by up to 5. One that falls below -2 is out of the nudge's reach. All of thirteen seeds lost a class or more
there. With seed 0 it stayed lost (14% test error); with the paper preset's seed the hidden layers brought it back in three
epochs.
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
from equilibria.learn.augment import Augmented, InputDropout
from equilibria.learn.rates import scale_by_coupling
from equilibria.papers.claims import Claim, at_most


@dataclass(frozen=True)
class Config:
    """Which networks are trained, on what, and for how long.

    The epochs are for one, two and three hidden layers; 0 leaves a network out.
    """

    images: str = "digits"
    train: int = 1200  # of the training images; the rest validate
    paper_size: int = 100  # neurons in each hidden layer of "paper" and "fast"
    our_sizes: tuple[int, ...] = (100, 100, 100)  # neurons in the first, second and third hidden layer
    paper_epochs: tuple[int, int, int] = (12, 12, 0)
    fast_epochs: tuple[int, int, int] = (0, 0, 12)
    our_epochs: tuple[int, int, int] = (12, 12, 12)
    batch_size: int = 20
    seed: int = 0


class Schedule(NamedTuple):
    """How one network is trained."""

    recipe: eq.Rule
    predict: eq.Equilibrator
    rates: tuple[float, ...]
    decay: float  # of the rates
    falling: int  # over the last 1 / falling of the epochs
    gain: float


def paper_schedule(depth: int) -> Schedule:
    """Table 2 in the convention of the authors' code. Relaxations stop early where nothing moves by more than 10^-4.

    The rates fall tenfold over the last eleventh of the run. Kept constant they leave two hidden layers at 0.11% training error
    after 60 epochs; falling over six more, at 0.03%.
    """
    free, nudged = {1: (20, 4), 2: (100, 6), 3: (500, 8)}[depth]
    printed = {1: (0.1, 0.05), 2: (0.4, 0.1, 0.01), 3: (0.128, 0.032, 0.008, 0.002)}[depth]
    nudge = {1: 1.0, 2: 2.0, 3: 2.0}[depth]
    relax = eq.GradientFlow(free, tolerance=1e-4)
    recipe = eq.equilibrium_propagation(
        nudge, free=relax, nudged=eq.GradientFlow(nudged), symmetric=False, random_sign=True, particles=True
    )
    return Schedule(recipe, relax, tuple(2 * rate for rate in printed), 0.1, falling=11, gain=1.0)


def fast_schedule(depth: int) -> Schedule:
    """Centered nudging, block descent that overshoots in both phases, weights that start where there is one minimum.

    With three hidden layers, after an epoch, four nudged sweeps give 0.7 to 0.85 of the exact gradient's length when they
    overshoot (cosine 0.90 to 0.95), and 0.2 in the first layer when they do not. A wrong output that sits at 1 moves only if
    its field is below 1 + nudge: with three hidden layers the training error was 0.10% from the 30th epoch on and 0.07% after
    40, most of the wrong outputs' fields above 1.2. A nudge of 0.7 reaches them but learns more slowly (3.4% test error
    after 7 epochs, against 2.4%).
    """
    relax = Descent(20, tolerance=1e-3)
    recipe = eq.equilibrium_propagation(0.2, free=relax, nudged=Descent(5), watch_changes=True)
    return Schedule(recipe, relax, _RATES[depth], 0.3, falling=1, gain=0.5)


def our_schedule(depth: int) -> Schedule:
    """The same with a fifth of the pixels missing, free phases that stop sooner, and rates that fall further."""
    relax = Descent(10, tolerance=1e-2)
    recipe = eq.equilibrium_propagation(0.2, free=relax, nudged=Descent(5), watch_changes=True)
    return Schedule(
        Augmented(recipe, InputDropout(0.2)), Descent(20, tolerance=1e-2), _RATES[depth], 0.03, falling=1, gain=0.5
    )


_RATES = {1: (0.4, 0.1), 2: (0.4, 0.15, 0.05), 3: (0.4, 0.15, 0.1, 0.05)}
SCHEDULES = {"paper": paper_schedule, "fast": fast_schedule, "ours": our_schedule}


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
    sizes = config.our_sizes[:depth] if name == "ours" else [config.paper_size] * depth
    network = eq.layered((inputs.shape[1], *sizes, 10), gain=schedule.gain, key=config.seed + depth)
    per_epoch = len(inputs) // config.batch_size
    last = epochs // schedule.falling
    falling = optax.exponential_decay(
        1.0, max(last, 1) * per_epoch, schedule.decay, transition_begin=(epochs - last) * per_epoch
    )
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


def run(config: Config, checkpoint: Path) -> xr.Dataset:
    """Errors after each epoch; "train" is the running error of the epoch, at the free fixed point before each update.

    Where pixels are missing in training, it is the error on the images without them.
    """
    data = load(config)
    found = {}
    wanted = {"paper": config.paper_epochs, "fast": config.fast_epochs, "ours": config.our_epochs}
    for name, epochs in wanted.items():
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
        title = {"paper": "the paper's schedule", "fast": "its layers, our relaxation", "ours": "ours"}[schedule]
        dashed = "training, pixels missing" if schedule == "ours" else "training"
        axes.set(xlabel="epoch", title=f"{title} (dashed: {dashed})")
        axes.set_yscale("symlog", linthresh=0.1)
        axes.set_ylim(bottom=0)
        axes.legend()
    panels[0][0].set_ylabel(f"error on {dataset.attrs['images']}, %")
    return figure


# Largest errors in percent, by kind of network: training (where no pixels are missing), test. For MNIST the paper's 0.00% and
# 2-3%, and the best published for the same kind of network (1.79, 1.65, 1.65). The bundled digits' test set is by other
# writers than the 1200 for training: there the limits are what a short run of each network reaches, with room for another seed.
_LIMITS: dict[str, dict[str, tuple[dict[str, float], ...]]] = {
    "mnist": {
        "paper": ({"train": 0.02, "test": 3.0},) * 3,
        "fast": ({"train": 0.02, "test": 3.0},) * 3,
        "ours": ({"test": 1.8}, {"test": 1.65}, {"test": 1.65}),
    },
    "digits": {
        "paper": ({"train": 4.0, "test": 18.0}, {"train": 8.0, "test": 22.0}, {"train": 8.0, "test": 22.0}),
        "fast": ({"train": 4.0, "test": 16.0},) * 3,
        "ours": ({"test": 16.0},) * 3,
    },
}
_SOURCES = {
    "paper": "Section 5.2, Figure 5",
    "fast": "Section 5.2, Figure 5",
    "ours": "best published: 1.79 / 1.65 / 1.65%",
}


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The errors reached."""
    made = []
    for name in (str(name) for name in dataset["network"].values):
        kind, depth = name.split()
        source = _SOURCES[kind] if dataset.attrs["images"] == "mnist" else f"{_SOURCES[kind]}; here on the small digits"
        for column, limit in _LIMITS[dataset.attrs["images"]][kind][int(depth) - 1].items():
            made.append(
                at_most(
                    f"{name} hidden: {column} error after the last epoch, %", source=source, expected=limit,
                    measured=100 * final(dataset, name, column),
                )
            )  # fmt: skip
    return made


PRESETS = {
    "quick": Config(),
    "paper": Config(
        images="mnist",
        train=50_000,
        paper_size=500,
        our_sizes=(1024, 512, 256),
        paper_epochs=(25, 66, 0),
        fast_epochs=(0, 0, 40),
        our_epochs=(30, 25, 30),
        seed=4,
    ),
}
