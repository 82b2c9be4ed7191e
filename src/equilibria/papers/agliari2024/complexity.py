"""Complexity of data and of networks: overlaps between examples of a class, and between replicas that learned it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable

SOURCE = "slide 'Dataset and architecture complexities interplay'"
CLASSES = 10


@dataclass(frozen=True)
class Config:
    """`examples` images of each class; a machine of `hidden` neurons for each; as many replicas as `replicas`."""

    datasets: tuple[str, ...] = ("digits",)
    examples: int = 120
    hidden: int = 20
    epochs: int = 150
    chains: int = 120
    learning_rate: float = 0.3  # over the largest variance along any direction of the examples
    sweeps: int = 300
    replicas: int = 120
    rungs: int = 6
    bins: int = 32
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """For each class: overlaps of pairs of its examples, and of pairs of states sampled from a machine that learned them."""
    pairs = [(name, label) for name in config.datasets for label in range(CLASSES)]
    shape = (len(config.datasets), CLASSES)
    counts = np.zeros((2, *shape, config.bins))
    names = ("distance", "example_mean", "example_spread", "floor", "count", "remembered", "trips")
    numbers = {name: np.zeros(shape) for name in names}
    between = np.stack([across(getattr(eq.data, name)(), config.examples) for name in config.datasets])
    loaded = {name: getattr(eq.data, name)() for name in config.datasets}
    for name, label in progress(pairs, "classes", "class"):
        place = config.datasets.index(name), label
        images = loaded[name]
        own = images.train_images[images.train_labels == label]
        spins = eq.data.binarise(own[: config.examples])
        drawn, started, trips = replicas(spins, config, seed=config.seed + label)
        seen, dreamt = overlap_counts(spins), overlap_counts(drawn)
        counts[0][place], counts[1][place] = (_histogram(each, config.bins) for each in (seen, dreamt))
        numbers["distance"][place] = _distance(seen, dreamt)
        # The scale of its noise: as many examples as there are replicas, against others of the same class.
        some = np.random.default_rng(config.seed + label).permutation(len(spins))
        few = min(config.replicas, len(spins) // 2)
        numbers["floor"][place] = _distance(
            *(overlap_counts(spins[part]) for part in (some[:few], some[few : 2 * few]))
        )
        numbers["count"][place], numbers["trips"][place] = len(own), trips
        numbers["remembered"][place] = float(np.mean(np.abs((drawn * started).mean(1))))
        numbers["example_mean"][place], numbers["example_spread"][place] = _moments(seen)
    return xr.Dataset(
        {
            "density": (("source", "dataset", "class", "q"), counts),
            **{name: (("dataset", "class"), values) for name, values in numbers.items()},
            "between": (("dataset", "class", "other", "moment"), between),
        },
        {
            "source": ["examples", "replicas"],
            "dataset": list(config.datasets),
            "class": range(CLASSES),
            "other": range(CLASSES),
            "moment": ["mean", "spread"],
            "q": (np.arange(config.bins) + 0.5) * 2 / config.bins - 1,
        },
    )


def across(images: eq.data.Images, examples: int) -> np.ndarray:
    r"""Mean and standard deviation of the overlaps between examples of two classes, (class, class, 2).

    Over all pairs of different examples: the mean of $q_{ab}$ is the product of the mean images over N, that of its square the
    product of their second moments over N².

    Args:
        images: with labels.
        examples: how many of each class are taken.

    Returns:
        The two moments; on the diagonal those within a class.
    """
    spins = [
        eq.data.binarise(images.train_images[images.train_labels == label][:examples]).astype(np.float32)
        for label in range(CLASSES)
    ]
    size, many = spins[0].shape[1], np.array([len(own) for own in spins], float)
    sums = np.stack([own.sum(0, dtype=np.float64) for own in spins])
    seconds = np.stack([(own.T @ own).astype(np.float64).ravel() for own in spins])
    # On the diagonal each example is paired with itself too, at an overlap of one.
    own, pairs = np.diag(many), np.outer(many, many) - np.diag(many)
    mean = (sums @ sums.T / size - own) / pairs
    square = (seconds @ seconds.T / size**2 - own) / pairs
    return np.stack([mean, np.sqrt(np.maximum(square - mean**2, 0))], axis=-1)


def overlap_counts(states: np.ndarray) -> np.ndarray:
    r"""How many pairs a < b have each of the N + 1 values that $q_{ab} = \frac1N \sum_i \sigma_i^a \sigma_i^b$ can take.

    Row by row: the pairs of six thousand examples are eighteen million.

    >>> overlap_counts(np.array([[1.0, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]])).tolist()
    [1, 1, 0, 1, 0]
    """
    states = np.asarray(states, np.float32)
    size = states.shape[1]
    found = np.zeros(size + 1, np.int64)
    for row in range(len(states) - 1):
        agree = np.rint((states[row + 1 :] @ states[row] + size) / 2).astype(np.int64)
        found += np.bincount(agree, minlength=size + 1)
    return found


def _values(counts: np.ndarray) -> np.ndarray:
    return 2 * np.arange(len(counts)) / (len(counts) - 1) - 1


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    """The Wasserstein distance of two laws on the same values."""
    return float(np.abs(np.cumsum(first / first.sum()) - np.cumsum(second / second.sum())).sum() * 2 / (len(first) - 1))


def _moments(counts: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation."""
    law, values = counts / counts.sum(), _values(counts)
    mean = float(law @ values)
    return mean, float(np.sqrt(law @ (values - mean) ** 2))


def _histogram(counts: np.ndarray, bins: int) -> np.ndarray:
    """The density in bins of equal width; edges half a step aside keep as many values in every bin."""
    edges = np.linspace(-1, 1, bins + 1) + 1 / (len(counts) - 1)
    return np.histogram(_values(counts), edges, weights=counts, density=True)[0]


def replicas(spins: np.ndarray, config: Config, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """States sampled from a machine that learned these examples, each chain on its own, from random states that it forgets;
    where they started; and how often chains came back from the hottest rung, on average.

    They are tempered: started at the examples, chains that do not move would be as alike as these. The ladder must have rungs
    enough to be climbed: six exchange one draw in two hundred on Fashion-MNIST, 24 every second one.

    The rate falls to zero: while weights move they carry the chains along, and a machine that is caught in that motion has
    other states once its weights stand still. A mode of variance v grows by the rate times v in an update: rates that do not
    take account of the largest one throw machines of the more correlated classes off, some for good.
    """
    mean = np.clip(spins.mean(0), -0.98, 0.98)
    # Biases that give each pixel its mean: learning then starts with what the examples have in common.
    machine = eq.rbm(
        spins.shape[1], config.hidden, visible=eq.Spin(), hidden=eq.Spin(), visible_bias=np.arctanh(mean), key=seed
    )
    batch_size = min(60, len(spins))
    updates = config.epochs * (len(spins) // batch_size)
    largest = float(eq.principal_components(spins.astype(np.float32)).values[0]) ** 2
    run = eq.train(
        machine, spins, eq.pcd(steps=5, chains=config.chains, opening="network"), epochs=config.epochs, batch_size=batch_size,
        optimiser=optax.sgd(optax.linear_schedule(config.learning_rate / largest, 0.0, updates)),
        record=[], show_progress=False, key=seed,
    )  # fmt: skip
    start = np.random.default_rng(seed).choice([-1.0, 1.0], (config.replicas, spins.shape[1])).astype(np.float32)
    found = eq.equilibrate(
        run.network, eq.Tempered(config.sweeps, rungs=config.rungs, hottest=5.0), {"visible": start},
        key=jax.random.key(seed + 1),
    )  # fmt: skip
    return np.asarray(found["visible"]), start, float(found.info["round_trips"])


def plot(dataset: xr.Dataset):
    """Both distributions for each class of each dataset; in the titles their Wasserstein distance, and in brackets its
    noise: the distance of examples of the class from others."""
    rows = dataset.sizes["dataset"]
    figure, axes = plots.panels(columns=5, rows=2 * rows, size=(2.3, 1.8), sharex=True, squeeze=False)
    for panel, (name, label) in zip(
        axes.ravel(), ((name, label) for name in dataset["dataset"].values for label in range(CLASSES)), strict=True
    ):
        here = dataset.sel({"dataset": name, "class": label})
        for colour, source in zip(plots.PALETTE, dataset["source"].values, strict=False):
            density = here["density"].sel(source=source)
            panel.fill_between(density["q"], density, step="mid", alpha=0.25, color=colour, linewidth=0)
            panel.plot(density["q"], density, drawstyle="steps-mid", color=colour, linewidth=1, label=source)
        panel.set_title(f"{name} {label}: {float(here['distance']):.3f} ({float(here['floor']):.3f})", fontsize=8)
        panel.set_yticks([])
        panel.set_xlim(-0.4, 1)
    for panel in axes[-1]:
        panel.set_xlabel("overlap $q$")
    axes[0, 0].legend(fontsize=7, loc="upper left")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The network's replicas have the overlaps of its data."""
    ratio = dataset["distance"] / dataset["example_spread"]
    floor = dataset["floor"] / dataset["example_spread"]
    found = []
    for name in dataset["dataset"].values:
        far = [str(c) for c in dataset["class"].values if float(ratio.sel({"dataset": name, "class": c})) > 0.5]
        found.append(
            at_most(
                f"{name}: replicas are as alike as examples in every class: Wasserstein distance over the spread of examples",
                source=SOURCE, expected=0.5, measured=ratio.sel(dataset=name).values, every=True, over="label",
                reason="the slide puts the two side by side, without words; half a spread: the distributions lie on top of "
                "each other; examples of a class differ from others by "
                f"{float(floor.sel(dataset=name).max()):.2f} at most; beyond: " + (", ".join(far) or "none"),
            )
        )  # fmt: skip
    for name in dataset[
        "dataset"
    ].values:  # a tight one, added when the first results showed that the other says little
        noise = (dataset["distance"] / dataset["floor"]).sel(dataset=name)
        apart = [str(c) for c, far in zip(dataset["class"].values, noise.values, strict=True) if far > 5]
        found.append(
            at_most(
                f"{name}: the two distributions are one, in every class: distance over its noise", source=SOURCE, expected=5.0,
                measured=noise.values, every=True, over="label", ours=True,
                reason="five times the distance of examples of the class from others; beyond: " + (", ".join(apart) or "none"),
            )
        )  # fmt: skip
    means = dataset["example_mean"]
    found += [
        close(
            f"{name}: 6,000 examples in every class", source=SOURCE, expected=6000,
            measured=dataset["count"].sel(dataset=name).values,
            tolerance=0, every=True, over="label", reason="a whole number", quote="K = 10 classes, M = 6000 examples each",
        )
        for name in dataset["dataset"].values
        if name != "digits"
    ]  # fmt: skip
    found.append(
        at_most(
            "Replicas have forgotten where they started: mean |overlap| with it", source="the simulation",
            expected=0.1, ours=True,
            measured=dataset["remembered"].values.ravel(), every=True, over="label",
            reason="random states have 0.03 with any of 784 neurons, 0.1 with any of 64",
        )
    )  # fmt: skip
    found.append(
        at_least(
            "Tempering reaches the replicas, in every class: how often a chain came back from the hottest rung, on average",
            source="the simulation", expected=1.0, measured=dataset["trips"].values.ravel(), every=True, over="label",
            ours=True, reason="a state drawn before that has been reached by sweeps alone",
        )
    )  # fmt: skip
    found.append(
        at_least(
            "Classes differ in complexity: range of the mean example overlap over its classes",
            source=SOURCE,
            expected=0.1,
            measured=(means.max("class") - means.min("class")).min(),
            reason="many times the standard error of a mean over pairs",
            ours=True,
        )
    )
    mean = dataset["between"].sel(moment="mean")
    same = mean["class"] == mean["other"]
    alike = (mean.where(same).max("other") - mean.where(~same).max("other")).values
    found += [
        *(
            at_least(
                f"{name}: examples of a class are more alike than those of two: its mean overlap less the largest with another",
                source=SOURCE, expected=0.0, measured=row, every=True, over="label", ours=True,
                reason="the last slides sum over examples without a class, and say nothing of the difference",
            )
            for name, row in zip(dataset["dataset"].values, alike, strict=True)
        ),
        not_testable(
            "Complexities of data and architecture interplay", source=SOURCE,
            reason="a title; no slide says what the complexity of an architecture is, and each class has one machine here",
            quote="Dataset and architecture complexities interplay",
        ),
        not_testable(
            "The histograms of the slides", source=SOURCE, reason="pictures whose axes and shapes are not in the text; and the "
            "slides do not say which network the replicas are of, nor its temperature",
            quote="example overlaps, replica overlaps",
        ),
    ]  # fmt: skip
    return found


PRESETS = {
    "quick": Config(epochs=60, sweeps=200),
    "paper": replace(
        Config(),
        datasets=("mnist", "fashion_mnist"),
        examples=6000,
        hidden=200,
        epochs=20,
        chains=500,
        sweeps=500,
        replicas=500,
        rungs=24,
    ),
}
DIFFERS = {
    "quick": ("the bundled digits",),
    "paper": (
        "at most 6,000 examples of a class: MNIST has from 5,421 to 6,742",
        "the machine, 200 hidden neurons trained by PCD, is ours: the slide does not say which network it is",
        "one machine for each class, not five",
    ),
}
