"""The first modes that a machine learns are the principal components of its data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.training import FULL, QUICK, Config, learn, per_epoch, spins
from equilibria.papers.frame import Experiment

FEW = 3  # leading modes that are told apart one by one


def run(config: Config, progress) -> xr.Dataset:
    """From null visible fields for one epoch, and from the empirical ones for all; modes after one epoch and at the end."""
    data, epoch = spins(config), per_epoch(config)
    null = learn(replace(config, epochs=1), data, empirical=False)
    fitted = learn(config, data, keep=(epoch,))
    rows = data.astype(np.float32)
    modes = {
        "null": null.direction[-1],
        "one epoch": fitted.direction.sel(step=epoch),
        "end": fitted.direction[-1],
        "components": eq.principal_components(rows).first[:10],
        "raw components": eq.principal_components(rows, centred=False).first[:10],
    }
    return xr.Dataset(
        {"mode": (("set", "rank", "pixel"), np.stack([np.asarray(values, np.float32) for values in modes.values()]))},
        {"set": list(modes)},
    )


def plot(dataset: xr.Dataset) -> Figure:
    titles = {
        "raw components": "principal components, mean included",
        "null": "modes after 1 epoch, visible fields from 0",
        "components": "principal components about the mean",
        "one epoch": "modes after 1 epoch, visible fields from the data",
        "end": "modes at the end",
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
    sets = {str(name): dataset.mode.sel(set=name).values for name in dataset["set"].values}
    early = eq.alignment(sets["one epoch"], sets["components"])
    late = eq.captured(sets["end"], sets["components"])
    share = eq.captured(sets["one epoch"][:FEW], sets["components"])
    return [
        at_least(
            "From null fields the first mode is the first component of the data with their mean (overlap)",
            source="Fig. 3a and 3c",
            expected=0.95,
            measured=eq.alignment(sets["null"][:1], sets["raw components"][:1])[0, 0],
        ),
        at_least(
            "From the empirical fields it is the first component about the mean (overlap)",
            source="Fig. 3b and 3d",
            expected=0.9,
            measured=early[0, 0],
        ),
        at_least(
            f"The first {FEW} modes after one epoch lie in the span of the first 10 components (least share)",
            source="Fig. 3d and 3e",
            expected=0.9,
            measured=share.min(),
        ),
        at_most(
            "After long training the modes are deformed (mean share of 10 modes in that span, below that after one epoch)",
            source="Fig. 3f",
            expected=eq.captured(sets["one epoch"], sets["components"]).mean(),
            measured=late.mean(),
        ),
    ]


experiment = Experiment(
    id="decelle2017/fig3",
    title="First modes learnt against the principal components of the data",
    presets={"quick": QUICK, "full": FULL},
    run=run,
    plot=plot,
    claims=claims,
)
