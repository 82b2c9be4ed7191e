"""The first modes that a machine learns, beside the principal components of its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
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
    one_epoch,
)
from equilibria.theory import marchenko_pastur_edges

FEW = 3  # leading modes that are told apart one by one
ROWS = {
    "raw components": "(c) principal components, mean included",
    "null": "(a) modes after one epoch, visible fields from 0",
    "components": "(d) principal components about the mean",
    "linear": "modes when the strongest has left the noise, visible fields from the data",
    "one epoch": "(b, e) modes after one epoch, visible fields from the data",
    "later": "(f) modes after ten epochs",
}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """From null and from empirical visible fields; modes when the first leaves the noise, after one epoch, after ten."""
    null = learned(one_epoch(config), checkpoint, empirical=False)
    return found(config, learned(config, checkpoint), components(config.images), null)


def left_noise(config: Config, values: np.ndarray) -> np.ndarray:
    """The first record at which the strongest of the values (seed, step, mode) is above the threshold, and above what noise
    has; the last where it never is."""
    edge = marchenko_pastur_edges(784, config.hidden, variance=config.variance)[1]
    above = values[..., 0] > max(THRESHOLD[config.units], edge * (1 + 3 * config.hidden ** (-2 / 3)))
    return np.where(above.any(1), above.argmax(1), values.shape[1] - 1)


def found(config: Config, trainings: xr.Dataset, principal: Components, null: xr.Dataset | None = None) -> xr.Dataset:
    """The modes of some trainings at their moments, and the data's components."""
    _, _, epoch, later, _ = moments(config)
    directions = trainings["direction"]
    passed = left_noise(config, trainings["value"].transpose("seed", "step", "mode").values)
    linear = np.stack([directions.isel(seed=seed, step=int(step)).values for seed, step in enumerate(passed)])
    sets = {
        "linear": linear,
        "one epoch": directions.sel(step=epoch).values,
        "later": directions.sel(step=later).values,
        "components": np.broadcast_to(principal.centred.first[:MODES], linear.shape),
        "raw components": np.broadcast_to(principal.raw.first[:MODES], linear.shape),
    }
    if null is not None:
        sets["null"] = null["direction"].sel(step=epoch).values
    return xr.Dataset(
        {
            "mode": (("set", "seed", "rank", "pixel"), np.stack(list(sets.values())).astype(np.float32)),
            "dream": trainings["dream"].isel(seed=0),
        },
        {"set": list(sets)},
        {"epochs": config.epochs, "bits": int(config.units == "binary")},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Modes and principal components as pictures, ten in a row (first seed), and what the machine dreams in the end."""
    names = [name for name in ROWS if name in dataset["set"]]
    figure, axes = plots.panels(MODES, len(names) + 2, size=(0.78, 1.0))
    for row, name in zip(axes, names, strict=False):
        for rank, panel in enumerate(row):
            image = dataset["mode"].sel(set=name).isel(seed=0, rank=rank).values.reshape(28, 28)
            panel.imshow(image, cmap="RdBu_r", vmin=-np.abs(image).max(), vmax=np.abs(image).max())
        _heading(row[0], ROWS[name])
    for place, panel in enumerate(axes[len(names) :].ravel()):
        panel.imshow(dataset["dream"][place].values.reshape(28, 28), cmap="gray_r")
    _heading(axes[len(names), 0], f"samples after {dataset.attrs['epochs']} epochs, 1,000 sweeps from random starts")
    for panel in axes.ravel():
        panel.set_axis_off()
        for heading in panel.texts:
            heading.set_in_layout(False)  # or its width would be that of the first column
    return figure


def _heading(panel, text: str) -> None:
    # A title would widen its column: an annotation does not.
    panel.annotate(text, (0, 1.06), xycoords="axes fraction", fontsize=7.5, va="bottom", annotation_clip=False)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The first modes learnt are the principal components, and are deformed later."""
    sets = {str(name): dataset["mode"].sel(set=name).values for name in dataset["set"].values}

    def own(name: str, others: str = "components") -> np.ndarray:
        return np.stack([np.diag(eq.alignment(*pair)) for pair in zip(sets[name], sets[others], strict=True)])

    def later_raw() -> np.ndarray:
        pairs = zip(sets["one epoch"], sets["raw components"], strict=True)
        return np.stack([np.diag(eq.alignment(modes[:-1], raw[1:])) for modes, raw in pairs])

    def share(name: str) -> np.ndarray:
        return np.stack([eq.subspace_overlap(*pair) for pair in zip(sets[name], sets["components"], strict=True)])

    null = [] if "null" not in sets else [
        at_least(
            "From null fields the first mode is the first component of the data with their mean (overlap)",
            source="Fig. 3a and 3c", expected=0.95, measured=own("null", "raw components")[:, 0], every=True,
        )
    ]  # fmt: skip
    return [
        *null,
        at_least(
            "From the empirical fields it is the first component about the mean (overlap)",
            source="Fig. 3b and 3d", expected=0.9, measured=own("one epoch")[:, 0], every=True,
        ),
        at_least(
            f"The first {FEW} modes after one epoch lie in the span of the first 10 components (least share)",
            source="Fig. 3d and 3e", expected=0.9, measured=share("one epoch")[:, :FEW], every=True,
        ),
        at_least(
            "All ten modes after one epoch are the data's components, each its own (least overlap)",
            source="Fig. 3d and 3e", expected=0.9, measured=own("one epoch"), every=True,
            quote="the modes at the beginning of the learning correspond exactly to the SVD modes of the data",
        ),
        at_least(
            "... and as they are printed: the first nine are those of the data with their mean, from the second on (least "
            "overlap)",
            source="Fig. 3d and 3e", expected=0.9, measured=later_raw(), every=True, reason="as for those about the mean",
            quote="Principal components extracted from the training set (starting from the second)",
        ),
        at_least(
            "All ten modes after one epoch lie in the span of the first 10 components (least share)",
            source="Fig. 3d and 3e", expected=0.9, measured=share("one epoch"), every=True,
            reason="as for the first three",
            quote="the modes of the W matrix are the same as the ones of the data at the beginning of the learning",
        ),
        at_most(
            "After ten epochs the modes have turned from those after one epoch (mean overlap of a mode with that of its rank)",
            source="Fig. 3f", expected=0.95, measured=own("later", "one epoch"),
            reason="a turn of 18 degrees, which is seen in a picture",
            quote="non-linear effects have deformed the SVD modes of W with respect to the beginning of the learning",
        ),
        at_most(
            "After ten epochs the modes are deformed (mean share of 10 modes in that span, less that after one epoch)",
            source="Fig. 3f", expected=0, measured=(share("later") - share("one epoch")).mean(1), every=True,
            quote="non-linear effects have deformed the SVD modes of W with respect to the beginning of the learning",
        ),
        not_testable(
            "The machine samples digits in a satisfactory way after 20 epochs",
            source="text before Fig. 2",
            reason="the paper gives no measure of it; the samples are shown",
            quote="our machine was able to sample digits in a satisfactory way after 20 epochs",
        ),
        at_least(
            "Where the strongest mode leaves the noise, it is the first component about the mean (overlap)",
            source="linear regime", expected=0.5**0.5, measured=own("linear")[:, 0], every=True, ours=True,
            reason="more of its squared length along one direction than along all others together",
        ),
    ]  # fmt: skip


PRESETS = {"quick": QUICK, "paper": PAPER}
