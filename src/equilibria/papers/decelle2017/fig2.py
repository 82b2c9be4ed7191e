"""The singular values of a machine that learns MNIST leave the law of noise, mode by mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.statements import INFORMATION
from equilibria.papers.decelle2017.training import DIFFERS as DIFFERS
from equilibria.papers.decelle2017.training import (
    MODES,
    PAPER,
    QUICK,
    THRESHOLD,
    Components,
    Config,
    components,
    learned,
    moments,
)
from equilibria.theory import marchenko_pastur, marchenko_pastur_edges

BINS = 40


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Trainings from the empirical visible fields; spectra at the start, after few updates, and at the end."""
    return found(config, learned(config, checkpoint), components(config.images))


def found(config: Config, trainings: xr.Dataset, principal: Components) -> xr.Dataset:
    """The spectra of some trainings at three moments, how much of each component of the data their first modes hold (share
    of its squared length), and the law of the noise."""
    low, edge = marchenko_pastur_edges(784, config.hidden, variance=config.variance)
    here = trainings.sel(step=[0, moments(config)[0], config.last])
    firsts = here["direction"].transpose("seed", "step", "leading", "pixel").values
    shares = [[eq.subspace_overlap(principal.centred.first[:MODES], modes) ** 2 for modes in seed] for seed in firsts]
    return xr.Dataset(
        {
            "value": here["value"].transpose("seed", "step", "mode"),
            "captured": (("seed", "step", "component"), np.array(shares)),
        },
        attrs={
            "low": low, "edge": edge, "hidden": config.hidden, "variance": config.variance,
            "threshold": THRESHOLD[config.units], "epochs": config.epochs,
        },
    )  # fmt: skip


def plot(dataset: xr.Dataset) -> Figure:
    """Singular values before learning, after few updates and at the end (first seed), beside the law of noise."""
    figure, axes = plots.panels(3, size=(3.4, 3.0))
    steps = dataset["step"].values
    titles = ("(a) before learning", f"(b) after {steps[1]} updates", f"(c) after {dataset.attrs['epochs']} epochs")
    law = np.linspace(dataset.attrs["low"], dataset.attrs["edge"], 200)
    density = marchenko_pastur(law, 784, int(dataset.attrs["hidden"]), variance=dataset.attrs["variance"])
    top = float(dataset["value"].max())
    for panel, step, title in zip(axes, steps, titles, strict=True):
        values = dataset["value"].isel(seed=0).sel(step=step).values
        panel.hist(values, bins=np.linspace(0, top, 60), density=True, color=plots.PALETTE[4], label="machine")
        plots.theory_line(panel, law, density, colour=plots.PALETTE[1], label="Marchenko-Pastur")
        panel.set(title=title, xlabel="singular value", xlim=(0, top), ylim=(0, 1.6 * density.max()))
    axes[0].set_ylabel("density")
    axes[0].legend(loc="upper right")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Noise before learning, modes out of it soon, outliers above and a spike near zero in the end."""
    edge, low = dataset.attrs["edge"], dataset.attrs["low"]
    start, early, end = (dataset["value"].isel(step=place).values for place in range(3))  # (seed, mode)
    modes = start.shape[1]
    rigid = 3 * np.log(modes) / modes
    scatter = 3 * modes ** (-2 / 3)
    top = edge * (1 + scatter)
    beyond = {name: (values > top).sum(1) for name, values in (("early", early), ("end", end))}
    noise = {place: [row[row <= top] for row in values] for place, values in (("start", start), ("end", end))}
    size = {place: np.array([np.sqrt(np.mean(row**2)) for row in rows]) for place, rows in noise.items()}

    def away(values: np.ndarray, variance: float) -> float:
        """The largest gap between the distribution of some values and that of noise."""
        law = np.linspace(0, 2 * edge, 8000)
        density = marchenko_pastur(law, 784, int(dataset.attrs["hidden"]), variance=variance)
        gap = np.searchsorted(np.sort(values), law) / len(values) - np.cumsum(density) * (law[1] - law[0])
        return float(np.abs(gap).max())

    return [
        at_most(
            "Before learning the singular values have the Marchenko-Pastur law (largest gap of the distributions)",
            source="Fig. 2a", expected=0, measured=[away(row, dataset.attrs["variance"]) for row in start], every=True,
            tolerance=rigid,
            reason="singular values of noise repel: their distribution is within about ln(n)/n of the law",
        ),
        at_most(
            "Before learning none lies above the edge (largest value over the edge)",
            source="Fig. 2a", expected=1, measured=start.max(1) / edge, every=True, tolerance=scatter,
            reason="the largest value of n scatters by about n^(-2/3)",
        ),
        at_most(
            "The bulk of the noise does not pass the threshold (edge over the threshold without fields)",
            source="text before Fig. 2", expected=1, measured=edge / dataset.attrs["threshold"],
            quote="with a variance of 0.01 such that the MP bulk do not pass the threshold",
        ),
        at_least(
            "After few updates some modes have overcome the edge (how many)",
            source="Fig. 2b", expected=3, measured=beyond["early"], every=True,
            quote="some singular values strengthening and overcoming the threshold set by the Marchenko-Pastur law",
        ),
        at_least(
            f"and it has learned many modes of the data: of the first {MODES} components, how many lie mostly among the first "
            f"{MODES} modes of W",
            source="text on Fig. 2", expected=MODES / 2, measured=(dataset["captured"].values[:, 1] > 0.5).sum(1), every=True,
            reason="half of those that are kept; a random direction has 1% there",
            quote="after seeing only few updates the system has already learned many SVD modes from the data",
        ),
        at_least(
            "After long training there are many outliers above it (at least twice as many as in b)",
            source="Fig. 2c", expected=0, measured=beyond["end"] - 2 * beyond["early"], every=True,
            quote="many outliers spread above threshold",
        ),
        at_least(
            "and values pile up below the bulk, near zero (fraction below the bulk's lower edge)",
            source="Fig. 2c", expected=0.1, measured=(end < low).mean(1), every=True,
            quote="a spike of below-threshold singular values near zero",
        ),
        at_most(
            "and this pile is a spike: the tallest of 40 bins lies below the bulk (its middle over the bulk's lower edge)",
            source="Fig. 2c", expected=1, measured=[_tallest(values) / low for values in end], every=True,
            quote="a spike of below-threshold singular values near zero",
        ),
        at_least(
            "and values have condensed towards zero (how many lie below the smallest one before learning)",
            source="Fig. 2c", expected=3, measured=(end < start.min(1, keepdims=True)).sum(1), every=True,
            quote="other condense down to zero",
        ),
        at_most(
            "The noise vanishes by condensing into zero modes (root mean square of the values within the bulk's upper edge, "
            "over that before learning)",
            source="text after (12)", expected=0.1, measured=size["end"] / size["start"], every=True,
            reason="vanishes is read as a tenth",
            quote="the noise term in (10) vanishes by condensing into a delta function of zero modes",
        ),
        at_most(
            "The Marchenko-Pastur law is that of the noise in the learned matrix (largest gap of the distributions, of the "
            "values within the bulk's upper edge and the law of their own variance)",
            source="text before (10)", expected=0, every=True,
            measured=[away(row, own**2 / 784) for row, own in zip(noise["end"], size["end"], strict=True)],
            tolerance=rigid, reason="as before learning",
            quote="such distribution corresponds to the noise of the weight matrix",
        ),
        at_least(
            "... and not that of the learned matrix (largest gap of the distributions, of all values and the law of their "
            "variance)",
            source="text before (10)", expected=rigid, every=True,
            measured=[away(row, np.mean(row**2) / 784) for row in end], reason="what is allowed of noise",
            quote="generally leads to a Marchenko-Pastur distribution of the singular values of W, which as we shall see in "
            "the next section is unrealistic",
        ),
        INFORMATION,
    ]  # fmt: skip


def _tallest(values: np.ndarray) -> float:
    counts, ends = np.histogram(values, BINS, (0, values.max()))
    place = int(np.argmax(counts))
    return float(ends[place] + ends[place + 1]) / 2


PRESETS = {"quick": QUICK, "paper": PAPER}
