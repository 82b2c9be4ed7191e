"""The singular values of a machine that learns MNIST leave the law of noise, mode by mode."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.training import PAPER, QUICK, SCALE, Config, learn, per_epoch, spins
from equilibria.theory import marchenko_pastur, marchenko_pastur_edges


def run(config: Config) -> xr.Dataset:
    """One training from the empirical visible fields; spectra at the start, after part of an epoch, and at the end."""
    early = max(1, per_epoch(config) // 2)
    found = learn(config, spins(config), keep=(early,)).drop_vars("direction")
    low, high = marchenko_pastur_edges(784, config.hidden, variance=SCALE**2)
    return found.assign_attrs(early=early, low=low, edge=high, hidden=config.hidden)


def plot(dataset: xr.Dataset) -> Figure:
    """The spectrum before learning, after half an epoch and at the end, each beside the law of noise."""
    figure, axes = plots.panels(3, size=(3.6, 3.0))
    last = int(dataset.step[-1])
    titles = {0: "(a) before learning", dataset.attrs["early"]: "(b) after half an epoch", last: "(c) at the end"}
    law = np.linspace(dataset.attrs["low"], dataset.attrs["edge"], 200)
    density = marchenko_pastur(law, 784, int(dataset.attrs["hidden"]), variance=SCALE**2)
    for panel, (step, title) in zip(axes, titles.items(), strict=True):
        values = dataset.value.sel(step=step).values
        panel.hist(values, bins=40, density=True, color=plots.PALETTE[4], label="machine")
        plots.theory_line(panel, law, density, colour=plots.PALETTE[1], label="Marchenko-Pastur")
        panel.set(title=title, xlabel="singular value")
        panel.set_ylim(0, 1.6 * max(density.max(), 1e-3))
    axes[0].set_ylabel("density")
    axes[0].legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Noise before learning, a few modes out of it soon, a spectrum of the data in the end."""
    edge, low = dataset.attrs["edge"], dataset.attrs["low"]
    start, early, end = (
        dataset.value.sel(step=step).values for step in (0, dataset.attrs["early"], int(dataset.step[-1]))
    )
    modes = len(start)
    scatter = 3 * modes ** (-2 / 3)
    law = np.linspace(low, edge, 2000)
    density = marchenko_pastur(law, 784, int(dataset.attrs["hidden"]), variance=SCALE**2)
    cumulative = np.cumsum(density) * (law[1] - law[0])
    observed = np.searchsorted(np.sort(start), law) / modes
    return [
        at_most(
            "Before learning the singular values have the Marchenko-Pastur law (largest gap of the distributions)",
            source="Fig. 2a",
            expected=0,
            measured=np.abs(observed - cumulative).max(),
            tolerance=3 * np.log(modes) / modes,
            reason="singular values of noise repel: their distribution is within about ln(n)/n of the law",
        ),
        at_most(
            "Before learning none lies above the edge (largest value over the edge)",
            source="Fig. 2a",
            expected=1,
            measured=start.max() / edge,
            tolerance=scatter,
            reason="the largest value of n scatters by about n^(-2/3)",
        ),
        at_most(
            "The edge of the noise is below the threshold of the spins, 1",
            source="text before Fig. 2",
            expected=1,
            measured=edge,
        ),
        at_least(
            "After few updates some modes have overcome the edge",
            source="Fig. 2b",
            expected=3,
            measured=(early > edge * (1 + scatter)).sum(),
        ),
        at_least(
            "After long training many more lie above it",
            source="Fig. 2c",
            expected=2 * (early > edge * (1 + scatter)).sum(),
            measured=(end > edge * (1 + scatter)).sum(),
        ),
        at_least(
            "and values pile up below the bulk, near zero (fraction below the bulk's lower edge)",
            source="Fig. 2c",
            expected=0.1,
            measured=(end < low).mean(),
        ),
        at_least(
            "and values have condensed towards zero (how many lie below the smallest one before learning)",
            source="Fig. 2c",
            expected=3,
            measured=(end < start.min()).sum(),
        ),
        at_most(
            "Weak values have moved towards zero (mean of the lowest tenth over that before learning)",
            source="Fig. 2c",
            ours=True,
            expected=1,
            measured=np.sort(end)[: modes // 10].mean() / np.sort(start)[: modes // 10].mean(),
        ),
    ]


PRESETS = {"quick": QUICK, "paper": PAPER}
