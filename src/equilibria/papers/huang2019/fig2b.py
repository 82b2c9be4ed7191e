"""Learning trajectories with three hidden neurons and orthogonal fields, with the KL divergence and the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim
from equilibria.papers.huang2019.common import best_possible, permuted_run, plant
from equilibria.papers.huang2019.statements import (
    COLOURS,
    NOT_GIVEN,
    OUT_OF_REACH,
    band,
    comes_to_rest,
    driven,
    growing_bound,
    learns_less,
    nearly_optimal,
    not_convex,
    recovery,
    saturation,
    switched,
    symmetric_below,
    symmetry_broken,
    trajectories,
)


@dataclass(frozen=True)
class Config:
    """The paper's machines, and how they are learned; `control` is a density of data below the threshold."""

    size: int = 100
    examples: int = 500
    instances: int = 10
    learners: tuple[str, ...] = ("paper", "exact", "response", "best of starts")
    steps: int = 200
    permute_at: int = 50
    control: float = 0.3
    posterior_sweeps: int = 400  # of Monte Carlo
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """Every learner on the same realisations, and the paper's below the threshold."""
    planted = plant(config.instances, 3, config.size, config.examples, 0.0, config.seed)
    learned = [
        permuted_run(planted, learner, config.steps, config.permute_at, config.seed)
        for learner in progress(config.learners, "fig2b", "learner")
    ]
    best = best_possible(planted, 3, config.posterior_sweeps, config.seed)
    dataset = xr.concat(learned, "learner").assign_coords(learner=list(config.learners))
    few = planted._replace(data=planted.data[:, : round(config.control * config.size)])
    control = permuted_run(few, "paper", config.permute_at + 10, config.permute_at, config.seed)["labelled"]
    control = control.rename(step="control_step").drop_vars("control_step")
    return dataset.assign(best=("instance", best), control=control).assign_attrs(
        size=config.size, permute_at=config.permute_at, density=config.control
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Mean overlap of the planted fields with the units closest to them, over realisations, with a band of one standard
    deviation for the paper's algorithm. Grey: the overlap with the unit that had found a field before the units were permuted
    (vertical line), in the first realisation. Right: KL divergence and bound, less its first value, by the paper's algorithm
    and with the exact E-step."""
    figure = plots.panels(2, size=(4.8, 4.2))[0]
    figure.clear()
    axes = figure.subplot_mosaic([["main", "kl"], ["main", "bound"]], width_ratios=(1.5, 1))
    trajectories(axes["main"], dataset, dataset.attrs["permute_at"])
    axes["main"].set(ylabel="overlap with the planted field", title="P = 3, orthogonal fields")
    for learner in ("paper", "exact"):
        here, colour = dataset.sel(learner=learner), COLOURS[learner]
        band(axes["kl"], here["step"], here["divergence"] / (3 * dataset.attrs["size"] * np.log(2)), colour)
        band(axes["bound"], here["step"], here["bound"] - here["bound"].isel(step=0), colour)
    axes["kl"].set(title=r"KL divergence / $NP \ln 2$", ylim=(0, 1))
    axes["bound"].set(xlabel="learning step", title="gain of the bound (nats)")
    figure.legend(*axes["main"].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 2 (b)."""
    case, source = "P = 3, q = 0", "Fig. 2 (b)"
    theirs = dataset.sel(learner="paper")
    end = dataset["matched"].isel(step=-1).mean("unit")
    last, permute_at, size = (
        theirs["matched"].isel(step=-1),
        int(dataset.attrs["permute_at"]),
        int(dataset.attrs["size"]),
    )
    below, low = dataset["control"].rename(control_step="step"), f"{case}, density {dataset.attrs['density']:g}"
    found = [
        *recovery(last.values, last.min("unit").values, case, source),
        *growing_bound(theirs["bound"].values, case, source),
        *saturation(theirs["divergence"].values, 3 * size, case, source),
        symmetry_broken(
            theirs["overlap"], permute_at, case, "we observe the permutation-symmetry-broken phenomenon once again"
        ),
        *switched(theirs["crossed"], permute_at, case),
        *symmetric_below(theirs["labelled"], below, permute_at, size, case, low),
        comes_to_rest(theirs["unconverged"].values, case),
        driven(theirs["matched"], size, case),
        not_convex(dataset["bound"].sel(learner="exact").values, 3 * size, case),
        OUT_OF_REACH,
        learns_less(end.sel(learner="paper").values, end.sel(learner="exact").values, case),
    ]
    if "best of starts" in dataset["learner"].values:
        found.append(nearly_optimal(end.sel(learner="best of starts").values, dataset["best"].values, case))
    return found


DIFFERS = {
    "quick": (*NOT_GIVEN, "2 realisations and 120 steps"),
    "paper": (*NOT_GIVEN, "ten realisations with their standard deviation, where the paper shows one run"),
}
PRESETS = {
    "quick": Config(instances=2, steps=120, learners=("paper", "exact"), posterior_sweeps=100),
    "paper": Config(),
}
