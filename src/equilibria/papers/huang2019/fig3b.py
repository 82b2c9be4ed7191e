"""Handwritten digits with four hidden neurons: the KL divergence and the lower bound along learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.data import binarise
from equilibria.papers.claims import Claim
from equilibria.papers.digits import handwritten
from equilibria.papers.huang2019.common import growing_bound, saturation
from equilibria.synapses.learn import learn_synapses


@dataclass(frozen=True)
class Config:
    """The paper's setting: the first 2,000 training images of MNIST, cut at half of the grey scale."""

    hidden_size: int = 4
    examples: int = 2000
    steps: int = 200
    fields: int = 200
    learning_rate: float = 0.01
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """One run with the exact E-step."""
    data = binarise(handwritten(config.examples).train_images)
    for _ in progress(range(1), "fig3b", "run"):
        learned = learn_synapses(
            data, config.hidden_size, steps=config.steps, fields=config.fields, learning_rate=config.learning_rate,
            key=config.seed, show_progress=False,
        )  # fmt: skip
    history = learned.history
    return xr.Dataset(
        {
            "divergence": ("step", history["divergence"].values),
            "bound": ("step", history["bound"].values),
            "mean": (("pixel", "unit"), np.asarray(learned.synapses.mean)),
        },
        {"step": history["step"].values},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """The two curves of the paper, and the fields that were learned."""
    units = dataset.sizes["unit"]
    figure, axes = plots.panels(2 + units, size=(2.9, 2.8))
    largest = dataset["mean"].size * np.log(2)
    axes[0].plot(dataset["step"], dataset["divergence"] / largest)
    axes[0].set(xlabel="learning step", ylabel=r"KL divergence / $NP \ln 2$")
    axes[1].plot(dataset["step"], (dataset["bound"] - dataset["bound"][0]) / 1e3)
    axes[1].set(xlabel="learning step", ylabel="gain of the bound / 1000")
    side = int(np.sqrt(dataset.sizes["pixel"]))
    for unit, panel in enumerate(axes[2:]):
        panel.imshow(dataset["mean"].values[:, unit].reshape(side, side), cmap="RdBu", vmin=-1, vmax=1)
        panel.set_axis_off()
        panel.set_title(rf"$\lambda^{unit + 1}$", loc="center")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 3 (b)."""
    case, source = "MNIST, P = 4", "Fig. 3 (b)"
    return [
        *saturation(dataset["divergence"].values[:, None], dataset["mean"].size, case, source),
        *growing_bound(dataset["bound"].values[:, None], case, source),
    ]


PRESETS = {"quick": Config(), "paper": Config(steps=1000, fields=1000)}
