"""Handwritten digits with four hidden neurons: the KL divergence and the lower bound along learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.data import binarise
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
from equilibria.papers.digits import handwritten
from equilibria.papers.huang2019.common import exact_bound, options
from equilibria.papers.huang2019.statements import (
    COLOURS,
    ILL_DEFINED,
    LABELS,
    NOT_GIVEN,
    PROMISING,
    band,
    comes_to_rest,
    growing_bound,
    margin,
    saturation,
)
from equilibria.synapses.learn import learn_synapses


@dataclass(frozen=True)
class Config:
    """The paper's setting: the first 2,000 training images of MNIST, cut at half of the grey scale, from several starts."""

    hidden_size: int = 4
    examples: int = 2000
    steps: int = 200
    fields: int = 100
    starts: int = 5
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """The paper's algorithm and the exact E-step from the same starts."""
    data = binarise(handwritten(config.examples).train_images)
    runs = []
    for learner in progress(("paper", "exact"), "fig3b", "learner"):
        told: dict[str, Any] = options(learner)
        if learner == "exact":  # 2,000 examples want a smaller rate than 500
            told["optimiser"] = optax.sgd(0.01, momentum=0.9)
        learned = learn_synapses(
            [data] * config.starts, config.hidden_size, steps=config.steps, fields=config.fields, key=config.seed,
            show_progress=False, **told,
        )  # fmt: skip
        history = learned.history.rename(set="instance")
        judged = [float(exact_bound(natural, jnp.asarray(data))) for natural in learned.synapses.natural]
        runs.append(
            history[["divergence", "bound", "unconverged"]].assign(
                mean=(("instance", "pixel", "unit"), np.asarray(learned.synapses.mean)),
                exact_bound=("instance", judged),
            )
        )
    return xr.concat(runs, "learner").assign_coords(learner=["paper", "exact"])


def plot(dataset: xr.Dataset) -> Figure:
    """KL divergence and gain of the bound, means over starts with bands of one standard deviation; below, the mean weights
    that the paper's algorithm learned from the first start."""
    units = dataset.sizes["unit"]
    figure = plots.panels(2, 2, size=(4.2, 2.4))[0]
    figure.clear()
    layout: Any = [["kl"] * (units // 2) + ["bound"] * (units - units // 2), [str(unit) for unit in range(units)]]
    axes = figure.subplot_mosaic(layout, height_ratios=(1.3, 1))
    largest = dataset["mean"].isel(learner=0, instance=0).size * np.log(2)
    for learner in dataset["learner"].values:
        here, colour = dataset.sel(learner=learner), COLOURS[str(learner)]
        band(axes["kl"], here["step"], here["divergence"] / largest, colour, LABELS[str(learner)])
        band(axes["bound"], here["step"], (here["bound"] - here["bound"].isel(step=0)) / 1e3, colour)
    axes["kl"].set(xlabel="learning step", ylabel=r"KL divergence / $NP \ln 2$")
    axes["bound"].set(xlabel="learning step", ylabel="gain of the bound / 1000")
    axes["kl"].legend(loc="lower right")
    side = int(np.sqrt(dataset.sizes["pixel"]))
    weights = dataset["mean"].sel(learner="paper").isel(instance=0).values
    for unit in range(units):
        panel = axes[str(unit)]
        panel.imshow(weights[:, unit].reshape(side, side), cmap="RdBu", vmin=-1, vmax=1)
        panel.set_axis_off()
        panel.set_title(rf"$\lambda^{unit + 1}$" + ", red $-1$, blue $+1$" * (not unit), loc="center")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 3 (b)."""
    case, source = "MNIST, P = 4", "Fig. 3 (b)"
    theirs, ours = dataset.sel(learner="paper"), dataset.sel(learner="exact")
    bound = theirs["bound"].transpose("step", "instance").values
    gain = bound.max(axis=0) - bound[0]
    late = np.abs(bound[-1] - bound[3 * len(bound) // 4]) / gain
    weights = theirs["mean"].isel(instance=0).size
    better = (ours["exact_bound"] - theirs["exact_bound"]).values
    return [
        *saturation(theirs["divergence"].transpose("step", "instance").values, weights, case, source),
        *growing_bound(bound, case, source),
        at_most(
            f"... until saturation ({case}): change in the last quarter over the whole gain", source=source, expected=0.05,
            measured=late, every=True, over="start",
            quote="the lower-bound on the data log-likelihood increases until saturation",
        ),
        not_testable(
            "There are no efficient or valid methods of training machines with low-precision weights", source="Sec. IV",
            reason="a statement about other people's methods",
            quote="Due to the weight discreteness, there does not exist efficient or valid methods",
        ),
        ILL_DEFINED,
        PROMISING,
        at_least(
            f"The probability of weights becomes highly biased ({case}): KL divergence over its largest value N P ln 2",
            source=source, expected=0.5, measured=theirs["divergence"].isel(step=-1).values / (weights * np.log(2)),
            every=True, over="start", reason="more than half of what there is",
            quote="the original uniform prior is not preferred, thus the KL divergence increases until a highly biased "
            "(non-uniform) probability of weight configurations is reached",
        ),
        at_least(
            f"... and so do the weights ({case}): mean of lambda^2", source=source, expected=0.5, every=True, over="start",
            measured=(theirs["mean"] ** 2).mean(("pixel", "unit")).values,
            reason="0 for the uniform prior, 1 for certain weights",
            quote="a highly biased (non-uniform) probability of weight configurations is reached",
        ),
        comes_to_rest(theirs["unconverged"].transpose("step", "instance").values, case),
        at_least(
            "The exact E-step reaches a higher bound than the paper's algorithm, both judged with ln Z summed exactly: "
            "difference in nats", source="Fig. 3 (b)", expected=margin(better), measured=better, ours=True, over="start",
            reason="more than chance: 95% by Student's law",
        ),
    ]  # fmt: skip


DIFFERS = {
    "quick": (
        *NOT_GIVEN[:1],
        "100 draws of z in each step: the paper does not say how many",
        *NOT_GIVEN[2:],
        "100 steps from 2 starts",
    ),
    "paper": (
        *NOT_GIVEN[:1],
        "100 draws of z in each step: the paper does not say how many",
        *NOT_GIVEN[2:],
        "pixels are on above half of the grey scale, and the first 2,000 images are taken: the paper says neither",
        "200 steps from 5 starts: the paper shows one run",
    ),
}
PRESETS = {"quick": Config(examples=1000, steps=60, fields=32, starts=2), "paper": Config()}
