"""Learning trajectories with two hidden neurons, with and without correlation, the receptive fields swapped on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim
from equilibria.papers.huang2019.common import best_possible, permuted_run, plant
from equilibria.papers.huang2019.statements import (
    NOT_GIVEN,
    band,
    learns_less,
    nearly_optimal,
    recovery,
    saturation,
    symmetric_below,
    symmetry_broken,
    trajectories,
)


@dataclass(frozen=True)
class Config:
    """The paper's machines, and how they are learned; `control` is a density of data below the threshold."""

    size: int = 100
    examples: int = 500
    correlations: tuple[float, ...] = (0.0, 0.3)
    instances: int = 10
    learners: tuple[str, ...] = ("paper", "exact", "response", "best of starts")
    steps: int = 200
    permute_at: int = 50
    control: float = 0.3
    posterior_sweeps: int = 400  # of Monte Carlo
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """Every learner on the same realisations, and the paper's below the threshold."""
    runs, controls = [], []
    for correlation in progress(config.correlations, "fig2a", "correlation"):
        planted = plant(config.instances, 2, config.size, config.examples, correlation, config.seed)
        learned = [
            permuted_run(planted, learner, config.steps, config.permute_at, config.seed) for learner in config.learners
        ]
        best = best_possible(planted, 2, config.posterior_sweeps, config.seed)
        runs.append(xr.concat(learned, "learner").assign(best=("instance", best)))
        few = planted._replace(data=planted.data[:, : round(config.control * config.size)])
        controls.append(permuted_run(few, "paper", config.permute_at + 10, config.permute_at, config.seed)["labelled"])
    dataset = xr.concat(runs, "correlation").assign_coords(
        correlation=list(config.correlations), learner=list(config.learners)
    )
    control = xr.concat(controls, "correlation").rename(step="control_step")
    return dataset.assign(control=control.drop_vars("control_step")).assign_attrs(
        size=config.size, permute_at=config.permute_at, density=config.control
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Mean overlap of the planted fields with the units closest to them, over realisations, with a band of one standard
    deviation for the paper's algorithm. Grey: the overlap with the unit that had found a field before the units were swapped
    (vertical line), in the first realisation. Right: the KL divergence by the paper's algorithm."""
    figure = plots.panels(3, size=(4.2, 3.8))[0]
    figure.clear()
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.7))
    for panel, (index, correlation) in zip(axes, enumerate(dataset["correlation"].values), strict=False):
        here = dataset.sel(correlation=correlation)
        trajectories(panel, here, dataset.attrs["permute_at"])
        panel.set_title(f"P = 2, q = {correlation:g}")
        share = here.sel(learner="paper")["divergence"] / (2 * dataset.attrs["size"] * np.log(2))
        band(axes[2], here["step"], share, plots.PALETTE[index], f"q = {correlation:g}")
    axes[0].set_ylabel("overlap with the planted field")
    axes[2].set(xlabel="learning step", ylabel=r"KL divergence / $NP \ln 2$", ylim=(0, 1))
    axes[2].legend(loc="lower right")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 2 (a)."""
    found, mine = [], []
    permute_at, size = int(dataset.attrs["permute_at"]), int(dataset.attrs["size"])
    for correlation in dataset["correlation"].values:
        here, case, source = dataset.sel(correlation=correlation), f"P = 2, q = {correlation:g}", "Fig. 2 (a)"
        theirs = here.sel(learner="paper")
        end = here["matched"].isel(step=-1).mean("unit")
        found.append(recovery(theirs["matched"].isel(step=-1).values, case, source))
        found += saturation(theirs["divergence"].values, 2 * size, case, source)
        found.append(symmetry_broken(theirs["overlap"], permute_at, case))
        below = here["control"].rename(control_step="step")
        found.append(symmetric_below(below, permute_at, size, f"{case}, density {dataset.attrs['density']:g}"))
        mine.append(learns_less(end.sel(learner="paper").values, end.sel(learner="exact").values, case))
        if "best of starts" in dataset["learner"].values:
            mine.append(nearly_optimal(end.sel(learner="best of starts").values, here["best"].values, case))
    return found + mine


DIFFERS = {
    "quick": (*NOT_GIVEN, "3 realisations and 120 steps"),
    "paper": (*NOT_GIVEN, "ten realisations with their standard deviation, where the paper shows one run"),
}
PRESETS = {
    "quick": Config(instances=3, steps=120, learners=("paper", "exact"), posterior_sweeps=200),
    "paper": Config(),
}
