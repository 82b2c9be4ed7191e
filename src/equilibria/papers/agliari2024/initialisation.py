"""Hopfield initialisation: a Boltzmann machine that classifies, started from patterns instead of from noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least

SOURCE = "slide 'Hopfield network / Restricted Boltzmann machines equivalence', panels (a)-(d)"
STARTS = ("normal", "Hopfield")
CLASSES = 10


@dataclass(frozen=True)
class Config:
    """Machines with each number of `hidden` neurons, a multiple of 10, trained for `epochs` from both starts."""

    dataset: str = "digits"
    hidden: tuple[int, ...] = (10, 50)
    epochs: int = 15
    batch_size: int = 20
    learning_rate: float = 0.01
    steps: int = 1
    seeds: int = 2
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """Accuracy on the test set after every epoch, and the weights at the end as pictures."""
    images = getattr(eq.data, config.dataset)()
    spins, labels = eq.data.binarise(images.train_images), images.train_labels
    data = {"visible": spins, "label": np.eye(CLASSES, dtype=np.float32)[labels]}
    test, answers = eq.data.binarise(images.test_images), images.test_labels
    shape = (len(config.hidden), len(STARTS), config.seeds, config.epochs + 1)
    accuracy, side = np.zeros(shape), images.train_images.shape[1]
    pictures = np.zeros((len(config.hidden), len(STARTS), CLASSES, side, side))
    per_epoch = len(spins) // config.batch_size
    jobs = [
        (size, start, seed)
        for size in range(len(config.hidden))
        for start in range(len(STARTS))
        for seed in range(config.seeds)
    ]
    for size, start, seed in progress(jobs, "training", "machine"):
        key = eq.key(config.seed + seed)
        weights = (noise, averages)[start](config.hidden[size], spins, labels, key)
        machine = classifier(spins, *weights)
        run = eq.train(
            machine,
            data,
            eq.cd(steps=config.steps),
            epochs=config.epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            metrics=lambda network: {"accuracy": accuracy_of(network, test, answers)},
            record=[per_epoch * epoch for epoch in range(1, config.epochs + 1)],
            show_progress=False,
            key=key,
        )
        first = accuracy_of(machine, test, answers)
        accuracy[size, start, seed] = [first, *run.history["accuracy"].values]
        chosen = run.network.couplings[0].weights.T[:: config.hidden[size] // CLASSES]
        pictures[size, start] = chosen.reshape(CLASSES, side, side)
    axes = ("hidden", "start", "seed", "epoch")
    return xr.Dataset(
        {"accuracy": (axes, accuracy), "weights": (("hidden", "start", "unit", "row", "column"), pictures)},
        {"hidden": list(config.hidden), "start": list(STARTS), "epoch": range(config.epochs + 1)},
        {"dataset": config.dataset},
    )


def noise(hidden: int, spins: np.ndarray, labels: np.ndarray, key) -> tuple[jax.Array, jax.Array]:
    """Weights to images and labels as usual, normal and small."""
    drawn = 0.01 * jax.random.normal(key, (spins.shape[1] + CLASSES, hidden))
    return drawn[: spins.shape[1]], drawn[spins.shape[1] :]


def averages(hidden: int, spins: np.ndarray, labels: np.ndarray, key) -> tuple[np.ndarray, np.ndarray]:
    r"""Weights $\xi / \sqrt N$ of a Hopfield network whose patterns are class averages, or centres of clusters in classes.

    Each pattern is an image, less the average of all images, which the biases have, together with the label of its class.
    """
    from sklearn.cluster import KMeans  # slow to import

    parts = hidden // CLASSES
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    centres = np.concatenate(
        [KMeans(parts, n_init=1, random_state=seed).fit(spins[labels == c]).cluster_centers_ for c in range(CLASSES)]
    )
    root = np.sqrt(spins.shape[1])
    return (centres - spins.mean(0)).T / root, np.repeat(np.eye(CLASSES), parts, axis=1) / root


def classifier(spins: np.ndarray, to_images, to_labels) -> eq.Network:
    """Images and labels on one side, Gaussian hidden neurons on the other."""
    mean = np.clip(spins.mean(0), -0.98, 0.98)
    hidden = np.shape(to_images)[1]
    layers = [
        eq.Layer("visible", eq.Spin(), np.arctanh(mean)),
        eq.Layer("label", eq.OneHot(), np.zeros(CLASSES)),
        eq.Layer("hidden", eq.Gaussian(), np.zeros(hidden)),
    ]
    return eq.Network(layers, [eq.Dense(("visible", "hidden"), to_images), eq.Dense(("label", "hidden"), to_labels)])


def accuracy_of(network: eq.Network, images: np.ndarray, answers: np.ndarray) -> float:
    """How often the most probable label given the image is the right one; exact, for there are only ten."""
    return float(np.mean(eq.label_probabilities(network, {"visible": images}, "label").argmax(1) == answers))


def plot(dataset: xr.Dataset):
    """Accuracy over epochs for each size, and below it what some hidden neurons look for."""
    figure, _ = plots.panels(size=(10, 6.5))
    figure.clear()
    grid = figure.add_gridspec(2, dataset.sizes["hidden"], height_ratios=(2, 1.3))
    for column, hidden in enumerate(dataset["hidden"].values):
        axes = figure.add_subplot(grid[0, column])
        for colour, start in zip(plots.PALETTE, STARTS, strict=False):
            here = dataset["accuracy"].sel(hidden=hidden, start=start)
            plots.simulation_points(
                axes,
                dataset["epoch"],
                here.mean("seed"),
                here.std("seed"),
                colour=colour,
                label=f"{start} initialisation",
            )
            axes.plot(dataset["epoch"], here.mean("seed"), color=colour, linewidth=0.8)
        axes.set(xlabel="epoch", ylabel="accuracy on the test set", title=f"{hidden} hidden units", ylim=(0, 1))
        axes.legend(loc="lower right")
        for row, pictures in enumerate(_strips(dataset["weights"].sel(hidden=hidden))):
            panel = figure.add_subplot(grid[1, column].subgridspec(2, 1)[row])
            limit = np.abs(pictures).max()
            panel.imshow(pictures, cmap="RdBu_r", vmin=-limit, vmax=limit)
            panel.set_title(
                f"weights after {dataset['epoch'].values[-1]} epochs, {STARTS[row]} initialisation", fontsize=8
            )
            panel.set_axis_off()
    return figure


def _strips(weights: xr.DataArray) -> np.ndarray:
    """The pictures of each start side by side."""
    return np.concatenate(list(weights.transpose("unit", "start", "row", "column").values), axis=-1)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """A good start is kept."""
    mean = dataset["accuracy"].mean("seed")
    found = []
    for hidden in dataset["hidden"].values:
        normal, patterns = (mean.sel(hidden=hidden, start=start) for start in STARTS)
        found += [
            at_least(
                f"{hidden} hidden units: Hopfield initialisation is ahead after the first epoch, in accuracy",
                source=SOURCE,
                expected=0,
                measured=patterns.isel(epoch=1) - normal.isel(epoch=1),
            ),
            at_least(
                f"{hidden} hidden units: and not behind after the last",
                source=SOURCE,
                expected=0,
                measured=patterns.isel(epoch=-1) - normal.isel(epoch=-1),
                tolerance=0.02,
                reason="noise of training between seeds",
            ),
        ]
    last = mean.isel(epoch=-1).sel(start="Hopfield", hidden=dataset["hidden"].max())
    found.append(at_least("The larger machine classifies the test set", source=SOURCE, expected=0.8, measured=last))
    return found


PRESETS = {
    "quick": Config(),
    "paper": replace(Config(), dataset="mnist", batch_size=100, learning_rate=0.001, seeds=3),
}
