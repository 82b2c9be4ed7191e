r"""Hopfield initialisation: a Boltzmann machine whose weights start as those of a Hopfield network, against small random ones.

The lecture's panels are those of Smart and Zilman (ICLR 2021). Patterns are drawn from each class, one or five a class; the
projection rule $J = \xi (\xi^T \xi)^{-1} \xi^T$ that stores them is, by the QR decomposition $\xi = Q R$, $J = Q Q^T$, and so a
machine with Gaussian hidden neurons and weights Q, at inverse temperature $\beta$ with weights $\sqrt\beta\, Q$.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, not_testable
from equilibria.papers.sweep import sweep

SOURCE = "slide 'Hopfield network / Restricted Boltzmann machines equivalence', panels (a)-(d)"
STARTS = ("normal", "Hopfield", "k-means")
CLASSES = 10


@dataclass(frozen=True)
class Config:
    """Machines with each number of `hidden` neurons, a multiple of 10, trained by CD for `epochs` from every start."""

    dataset: str = "digits"
    train: int = 1200
    hidden: tuple[int, ...] = (10, 50)
    epochs: int = 15
    looks: tuple[int, ...] = (0, 1, 3, 15)  # epochs after which likelihood and accuracy are measured
    batch_size: int = 20
    learning_rate: float = 0.003
    steps: int = 5
    beta: float = 2.0
    chains: int = 100
    annealing: int = 500
    seeds: int = 1
    seed: int = 0


def class_patterns(hidden: int, spins: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Centres of `hidden` / 10 clusters in each class, (hidden, N); with one a class they are the class averages."""
    from sklearn.cluster import KMeans  # slow to import

    parts = hidden // CLASSES
    found = [
        KMeans(parts, n_init=1, random_state=seed).fit(spins[labels == c]).cluster_centers_ for c in range(CLASSES)
    ]
    return np.concatenate(found)


def projector(patterns: np.ndarray, beta: float) -> np.ndarray:
    r"""The weights $\sqrt\beta\, Q$, (N, K), of the machine that is the projection rule on the signs of `patterns`.

    >>> weights = projector(np.array([[1.0, 1, 1, -1], [1, 1, -1, -1]]), 1.0)
    >>> (weights.T @ weights).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    signs = np.where(patterns >= 0, 1.0, -1.0)
    return np.sqrt(beta) * np.linalg.qr(signs.T)[0]


def weights_of(start: str, hidden: int, spins: np.ndarray, labels: np.ndarray, config: Config, seed: int) -> np.ndarray:
    """The weights (N, hidden) that a machine starts with.

    Args:
        start: one of `STARTS`. "k-means" is our variant: the centres themselves, less the mean image, over the root of N.
        hidden: the number of hidden neurons.
        spins: the images.
        labels: their classes.
        config: the figure's configuration.
        seed: of what is drawn.

    Returns:
        The weights.
    """
    if start == "normal":
        return 0.01 * np.asarray(jax.random.normal(eq.key(seed), (spins.shape[1], hidden)))
    patterns = class_patterns(hidden, spins, labels, seed)
    if start == "Hopfield":
        return projector(patterns, config.beta)
    return (patterns - spins.mean(0)).T / np.sqrt(spins.shape[1])


def accuracy(network: eq.Network, images: eq.data.Images, train: int) -> float:
    """How often a linear read-out of the hidden neurons, fitted to training images, is right about test images."""
    from sklearn.linear_model import LogisticRegression

    weights = np.asarray(network.couplings[0].matrix())
    known, unknown = (eq.data.binarise(part) @ weights for part in (images.train_images[:train], images.test_images))
    scale = known.std(0) + 1e-9
    fitted = LogisticRegression(max_iter=200).fit(known / scale, images.train_labels[:train])
    return float(fitted.score(unknown / scale, images.test_labels))


def direct_accuracies(network: eq.Network, images: eq.data.Images, train: int) -> tuple[float, float]:
    """How often the hidden neuron with the largest field names the class of a test image, with one neuron for each class.

    Args:
        network: has `CLASSES` hidden neurons; for any other number there is no such reading.
        images: with both parts.
        train: how many training images say which neuron stands for which class.

    Returns:
        With neuron c for class c, as both starts by class make them; and with neurons, of either sign and in units of their
        spread, given to classes one to one as training images have it. NaN twice for other numbers of neurons.
    """
    from scipy.optimize import linear_sum_assignment

    weights = np.asarray(network.couplings[0].matrix())
    if weights.shape[1] != CLASSES:
        return np.nan, np.nan
    known, unknown = (eq.data.binarise(part) @ weights for part in (images.train_images[:train], images.test_images))
    own = float(np.mean(np.argmax(unknown, axis=1) == images.test_labels))
    labels, centre, scale = images.train_labels[:train], known.mean(0), known.std(0) + 1e-9
    means = np.stack([(known[labels == c].mean(0) - centre) / scale for c in range(CLASSES)])  # (class, neuron)
    _, neuron = linear_sum_assignment(-np.abs(means))
    fields = (unknown - centre)[:, neuron] / scale[neuron] * np.sign(means[np.arange(CLASSES), neuron])
    return own, float(np.mean(np.argmax(fields, axis=1) == images.test_labels))


def trained(hidden: int, start: int, repeat: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a machine learns the images.

    Args:
        hidden: the number of hidden neurons.
        start: the number of one of `STARTS`.
        repeat: number of the machine among those alike.
        seed: of all of them.
        config: the figure's configuration.

    Returns:
        At each look: the log-likelihood of test images by annealing, with its bracket, the accuracy of a linear read-out,
        and those of `direct_accuracies`; and the weights of ten hidden neurons at the end.
    """
    images = getattr(eq.data, config.dataset)()
    spins, labels = eq.data.binarise(images.train_images[: config.train]), images.train_labels[: config.train]
    test = eq.data.binarise(images.test_images)[:1000]
    weights = weights_of(STARTS[start], hidden, spins, labels, config, seed + repeat)
    network = eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Gaussian())
    rows, per_epoch, done = [], len(spins) // config.batch_size, 0
    for look in config.looks:
        if look > done:
            network = eq.train(
                network, spins, eq.cd(steps=config.steps, opening="network"), steps=(look - done) * per_epoch,
                batch_size=config.batch_size, learning_rate=config.learning_rate, record=[], show_progress=False,
                key=eq.key(1000 * (seed + repeat) + look),
            ).network  # fmt: skip
            done = look
        found = eq.log_likelihood(network, test, method="ais", chains=config.chains, steps=config.annealing, key=look)
        bracket, many = found.bracket or (np.nan, np.nan), min(config.train, 5000)
        shares = accuracy(network, images, many), *direct_accuracies(network, images, many)
        rows.append([found.value, *bracket, *shares])
    side = images.train_images.shape[1]
    pictures = np.asarray(network.couplings[0].matrix()).T[:: hidden // CLASSES].reshape(CLASSES, side, side)
    return {"looks": np.array(rows, float), "weights": pictures}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """All machines."""
    grid = {"hidden": config.hidden, "start": range(len(STARTS)), "repeat": range(config.seeds), "seed": config.seed}
    cells = sweep(trained, config, checkpoint, **grid)
    looks, axes = cells["looks"].values, ("hidden", "start", "repeat")
    names = ("likelihood", "low", "high", "accuracy", "own", "matched")
    return xr.Dataset(
        {
            **{name: ((*axes, "epoch"), looks[..., index]) for index, name in enumerate(names)},
            "weights": ((*axes, "unit", "row", "column"), cells["weights"].values),
        },
        {"hidden": list(config.hidden), "start": list(STARTS), "epoch": list(config.looks)},
        {"dataset": config.dataset},
    )


def plot(dataset: xr.Dataset):
    """For each number of hidden neurons: log-likelihood of test images (bars: annealing up and down) and accuracy of a
    linear read-out
    over epochs, and the weights of ten neurons after the last epoch,
    from normal (above) and Hopfield initialisation (below)."""
    many = dataset.sizes["hidden"]
    figure, axes = plots.panels(
        columns=many, rows=3, size=(5.0, 2.3), squeeze=False, gridspec_kw={"height_ratios": [1, 1, 0.5]}
    )
    for column, hidden in enumerate(dataset["hidden"].values):
        for colour, start in zip(plots.PALETTE, STARTS, strict=False):
            here = dataset.sel(hidden=hidden, start=start)
            bars = np.abs(
                np.stack([here[side].mean("repeat") - here["likelihood"].mean("repeat") for side in ("low", "high")])
            )
            axes[0, column].errorbar(
                dataset["epoch"],
                here["likelihood"].mean("repeat"),
                bars,
                color=colour,
                marker="o",
                markersize=4,
                label=start,
            )
            share = here["accuracy"]
            axes[1, column].errorbar(
                dataset["epoch"], share.mean("repeat"), share.std("repeat"), color=colour, marker="o", markersize=4
            )
        axes[0, column].set(ylabel="log-likelihood, nats per image", title=f"{hidden} hidden units")
        axes[1, column].set(xlabel="epoch", ylabel="accuracy of a linear read-out")
        chosen = dataset["weights"].sel(hidden=hidden, start=list(STARTS[:2])).isel(repeat=0)
        strips = [np.concatenate(list(rows.values), axis=-1) for rows in chosen]
        strips = [strip / np.abs(strip).max() for strip in strips]
        axes[2, column].imshow(np.concatenate(strips), cmap="RdBu_r", vmin=-1, vmax=1)
        axes[2, column].set_title(f"weights after {dataset['epoch'].values[-1]} epochs: normal above, Hopfield below")
        axes[2, column].set_axis_off()
    axes[0, 0].legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the panels show, which have no words about it, and that hidden neurons encode classes."""
    made = [
        not_testable(
            "The curves of panels (a) and (b), and the weights of (c) and (d)", source=SOURCE,
            reason="pictures without axes that could be read; ours have the same captions",
            quote="(a) 10 hidden units (b) 50 hidden units (c) Normal initialization, 15 epochs (d) Hopfield initialization, "
            "15 epochs",
        )
    ]  # fmt: skip
    for hidden in (int(hidden) for hidden in dataset["hidden"].values):
        for name, unit in (("likelihood", "nats per image"), ("accuracy", "share of test images")):
            gain = dataset[name].sel(start="Hopfield", hidden=hidden) - dataset[name].sel(start="normal", hidden=hidden)
            for epoch in (0, 1, int(dataset["epoch"][-1])):
                made.append(
                    at_least(
                        f"{hidden} hidden: Hopfield initialisation is ahead in {name} after epoch {epoch}, {unit}",
                        source=SOURCE if epoch else f"{SOURCE}; Smart and Zilman 2021", expected=0.0,
                        measured=gain.sel(epoch=epoch).values, ours=True, every=True,
                        reason="the panels have no numbers that could be read; '(d) ahead of (c)' is our reading",
                        quote="(c) Normal initialization, 15 epochs (d) Hopfield initialization, 15 epochs",
                    )
                )  # fmt: skip
    rise = (dataset["likelihood"].isel(epoch=-1) - dataset["likelihood"].sel(epoch=0)).transpose("repeat", ...)
    made += [
        at_least(
            f"{hidden} hidden, {start} initialisation: learning brings the machine closer to the law of the images: gain in "
            "the log-likelihood of test images, nats per image, from the first to the last epoch",
            source="slide 'Task: classification'", expected=0.0, measured=rise.sel(hidden=hidden, start=start).values,
            every=True,
            reason="D_KL(Q‖P) is a constant minus the mean log-likelihood; test images stand for Q, which is unknown",
            quote="In practice: Look for a configuration Ŵ of the matrix W s.t. P_Ŵ(σ, z) ≈ Q̃(σ, z) by applying a gradient "
            "descent",
        )
        for hidden in map(int, dataset["hidden"].values)
        for start in STARTS[:2]
    ]  # fmt: skip
    made.append(
        not_testable(
            "Examples are drawn independently from one unknown law", source="slide 'Task: classification'",
            reason="an assumption about where the images come from",
            quote="(x^(i), y^(i)) ∼_iid Q(x, y) unknown, target distr.",
        )
    )  # fmt: skip
    if CLASSES in dataset["hidden"].values:
        ten = dataset.sel(hidden=CLASSES).isel(epoch=-1)
        encodes = partial(
            at_least, source="slide 'Task: classification'", expected=0.5, every=True,
            reason="'encodes': right more often than wrong, where chance is one in ten",
            quote="z ∈ R^K, K = #classes encodes for y",
        )  # fmt: skip
        made += [
            encodes(
                "10 hidden, Hopfield initialisation: neuron c has the largest field at images of class c, share of test images "
                "after the last epoch", measured=ten["own"].sel(start="Hopfield").values,
            ),
            *(
                encodes(
                    f"10 hidden, {start} initialisation: the largest field names the class, neurons given to classes one to "
                    "one by training images, share of test images after the last epoch",
                    measured=ten["matched"].sel(start=start).values,
                )
                for start in STARTS[:2]
            ),
            not_testable(
                "Classes are drawn from the target law given the image", source="slide 'Task: classification'",
                reason="the target law is unknown, as the slide says; a share of right answers is what can be measured",
                quote="ŷ ∼ Q(y|x)",
            ),
        ]  # fmt: skip
    return made


PRESETS = {
    "quick": Config(train=600, annealing=200),
    "paper": replace(
        Config(),
        dataset="mnist",
        train=20_000,
        batch_size=100,
        learning_rate=0.001,
        seeds=5,
        annealing=1000,
        looks=tuple(range(16)),
    ),
}
DIFFERS = {
    "quick": ("the bundled digits",),
    "paper": (
        "20,000 of the training images, CD-5, β = 2 at the start: the lecture gives none of these",
        "images are classified by a linear read-out of the hidden neurons, and with ten by the largest field: the slide does "
        "not say how, and labels take no part in learning",
    ),
}
