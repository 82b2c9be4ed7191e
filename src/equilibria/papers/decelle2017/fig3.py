"""The first modes that a machine learns are the principal components of its data.

The paper shows them after one epoch, of batches whose size it does not give. In the linear regime modes grow without turning;
it ends when the strongest passes the threshold of the spins, 1. With batches of 500 that is after a dozen updates, and a few
later the first modes are mixed already. So "the beginning" is the first update after which the strongest mode is above 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.training import PAPER, QUICK, SCALE, Config, learn, per_epoch, spins

FEW = 3  # leading modes that are told apart one by one
SOON = 60  # updates within which the strongest mode passes the threshold


def beginning(learned: xr.Dataset) -> xr.Dataset:
    """The first record after which the strongest mode is above 1."""
    return learned.isel(step=int(np.argmax(learned.value[:, 0].values > 1)))


def spiked_share(value: float, rows: int, columns: int) -> float:
    """How much of its direction (squared, of `rows` components) noise of width SCALE leaves a mode of strength `value`.

    Benaych-Georges and Nadakuditi (2012): with c = rows/columns, the strength theta in units of SCALE sqrt(columns) solves
    value^2 = (1 + theta^2)(c + theta^2)/theta^2, and the share is 1 - c (1 + theta^2) / (theta^2 (theta^2 + c)).
    """
    c, observed = rows / columns, (value / SCALE) ** 2 / columns
    middle = (observed - 1 - c) / 2
    square = middle + np.sqrt(middle**2 - c)
    return float(1 - c * (1 + square) / (square * (square + c)))


def run(config: Config) -> xr.Dataset:
    """From null and from empirical visible fields; modes at the beginning, after one epoch, and at the end."""
    data, early = spins(config), tuple(range(1, SOON + 1))
    epoch = per_epoch(config)
    short = replace(config, epochs=-(-SOON // epoch))
    null = learn(short, data, empirical=False, keep=(*early, epoch))
    fitted = learn(config, data, keep=(*early, epoch))
    first = beginning(fitted)
    rows = data.astype(np.float32)
    modes = {
        "null": beginning(null).direction,
        "null, one epoch": null.direction.sel(step=epoch),
        "beginning": first.direction,
        "one epoch": fitted.direction.sel(step=epoch),
        "end": fitted.direction[-1],
        "components": eq.principal_components(rows).first[:10],
        "raw components": eq.principal_components(rows, centred=False).first[:10],
    }
    return xr.Dataset(
        {
            "mode": (("set", "rank", "pixel"), np.stack([np.asarray(values, np.float32) for values in modes.values()])),
            "strength": ("rank", first.value.values[:10]),
        },
        {"set": list(modes)},
        {
            "null": int(beginning(null).step),
            "beginning": int(first.step),
            "epochs": config.epochs,
            "hidden": config.hidden,
        },
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Modes and principal components as pictures, ten in a row."""
    titles = {
        "raw components": "principal components, mean included",
        "null": f"modes after updates: {dataset.attrs['null']}, visible fields from 0",
        "null, one epoch": "the same after one epoch",
        "components": "principal components about the mean",
        "beginning": f"modes after updates: {dataset.attrs['beginning']}, visible fields from the data",
        "one epoch": "the same after one epoch",
        "end": f"modes after {dataset.attrs['epochs']} epochs",
    }
    figure, axes = plots.panels(10, len(titles), size=(0.95, 1.0))
    for row, (name, title) in zip(axes, titles.items(), strict=True):
        for rank, panel in enumerate(row):
            image = dataset.mode.sel(set=name)[rank].values.reshape(28, 28)
            panel.imshow(image, cmap="RdBu_r", vmin=-np.abs(image).max(), vmax=np.abs(image).max())
            panel.set_axis_off()
        row[0].set_title(title, loc="left")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The first modes learnt are the principal components, and are deformed later."""
    sets = {str(name): dataset.mode.sel(set=name).values for name in dataset["set"].values}
    own = {name: np.diag(eq.alignment(sets[name], sets["components"]))[:FEW] for name in ("beginning", "end")}
    half = 0.5**0.5  # of the squared length, along one direction: more than along all others together
    after = eq.alignment(sets["one epoch"], sets["components"])
    share = {name: eq.subspace_overlap(sets[name], sets["components"]) for name in ("one epoch", "end")}
    return [
        at_least(
            "From null fields the first mode is the first component of the data with their mean (overlap)",
            source="Fig. 3a and 3c",
            expected=0.95,
            measured=eq.alignment(sets["null, one epoch"][:1], sets["raw components"][:1])[0, 0],
        ),
        at_least(
            "From the empirical fields it is the first component about the mean (overlap)",
            source="Fig. 3b and 3d",
            expected=0.9,
            measured=after[0, 0],
        ),
        at_least(
            f"The first {FEW} modes after one epoch lie in the span of the first 10 components (least share)",
            source="Fig. 3d and 3e",
            expected=0.9,
            measured=share["one epoch"][:FEW].min(),
        ),
        at_most(
            "After long training the modes are deformed (mean share of 10 modes in that span, below that after one epoch)",
            source="Fig. 3f",
            expected=share["one epoch"].mean(),
            measured=share["end"].mean(),
        ),
        at_least(
            "Where the strongest mode passes the threshold, it is the first component about the mean (overlap)",
            source="linear regime",
            expected=half,
            measured=own["beginning"][0],
            ours=True,
        ),
        at_least(
            f"The first {FEW} modes then lie in the span of 10 components (least share), as far as the initial noise lets",
            source="Benaych-Georges and Nadakuditi 2012",
            expected=spiked_share(float(dataset.strength[FEW - 1]), 784, int(dataset.attrs["hidden"])),
            measured=eq.subspace_overlap(sets["beginning"][:FEW], sets["components"]).min(),
            ours=True,
        ),
        at_most(
            f"Later the modes turn (mean overlap of {FEW} with their own component, below that before)",
            source="linear regime",
            expected=own["beginning"].mean(),
            measured=own["end"].mean(),
            ours=True,
        ),
    ]


PRESETS = {"quick": QUICK, "paper": PAPER}
