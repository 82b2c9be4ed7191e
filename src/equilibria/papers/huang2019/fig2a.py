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
    COLOURS,
    LABELS,
    NOT_GIVEN,
    PROVED_ELSEWHERE,
    accelerated,
    band,
    comes_to_rest,
    driven,
    growing_bound,
    learns_less,
    nearly_optimal,
    not_convex,
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
    learners: tuple[str, ...] = ("paper", "no momentum", "exact", "response", "best of starts")
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
    (vertical line), in the first realisation. Below: the KL divergence (bands of one standard deviation) and what the bound
    has gained, by the paper's algorithm and with the exact E-step (dashed: q = 0.3)."""
    figure = plots.panels(2, 2, size=(4.2, 3.1))[0]
    figure.clear()
    correlations = dataset["correlation"].values
    axes = figure.subplot_mosaic([["0", "1"], ["kl", "bound"]], height_ratios=(1.5, 1))
    for place, (correlation, dash) in enumerate(zip(correlations, ("-", "--"), strict=False)):
        here = dataset.sel(correlation=correlation)
        trajectories(axes[str(place)], here, dataset.attrs["permute_at"])
        axes[str(place)].set_title(f"P = 2, q = {correlation:g}")
        for learner in ("paper", "exact"):
            one = here.sel(learner=learner)
            share = one["divergence"] / (2 * dataset.attrs["size"] * np.log(2))
            band(axes["kl"], here["step"], share, COLOURS[learner], f"{LABELS[learner]}, q = {correlation:g}", dash)
            gain = (one["bound"] - one["bound"].isel(step=0)).mean("instance")
            axes["bound"].plot(here["step"], gain, dash, color=COLOURS[learner])
    axes["0"].set_ylabel("overlap with the planted field")
    dashed = f"; dashed: q = {correlations[1]:g}" * (len(correlations) > 1)
    axes["kl"].set(xlabel="learning step", title=rf"KL divergence / $NP \ln 2${dashed}", ylim=(0, 1.02))
    axes["bound"].set(xlabel="learning step", title=f"gain of the bound (nats){dashed}")
    figure.legend(*axes["0"].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 2 (a), and Section III of the algorithm."""
    found, mine = [], []
    permute_at, size = int(dataset.attrs["permute_at"]), int(dataset.attrs["size"])
    for correlation in dataset["correlation"].values:
        here, case, source = dataset.sel(correlation=correlation), f"P = 2, q = {correlation:g}", "Fig. 2 (a)"
        theirs = here.sel(learner="paper")
        end = here["matched"].isel(step=-1).mean("unit")
        last = theirs["matched"].isel(step=-1)
        found += recovery(last.values, last.min("unit").values, case, source)
        found += saturation(theirs["divergence"].values, 2 * size, case, source)
        quote = "the overlap with the ground truth can have a significant quantitative change"
        found.append(symmetry_broken(theirs["overlap"], permute_at, case, quote))
        below = here["control"].rename(control_step="step")
        low = f"{case}, density {dataset.attrs['density']:g}"
        found += symmetric_below(theirs["labelled"], below, permute_at, size, case, low)
        found.append(comes_to_rest(theirs["unconverged"].values, case))
        found.append(driven(theirs["matched"], size, case))
        found += growing_bound(theirs["bound"].values, case, "Sec. III", "iteratively improve the lower-bound")
        found.append(not_convex(here["bound"].sel(learner="exact").values, 2 * size, case))
        if "no momentum" in dataset["learner"].values:
            path = here["matched"].mean("unit")
            with_it, without = (path.sel(learner=name).values for name in ("paper", "no momentum"))
            found.append(accelerated(with_it, without, case))
        mine.append(learns_less(end.sel(learner="paper").values, end.sel(learner="exact").values, case))
        if "best of starts" in dataset["learner"].values:
            mine.append(nearly_optimal(end.sel(learner="best of starts").values, here["best"].values, case))
    return [*found, PROVED_ELSEWHERE, *mine]


DIFFERS = {
    "quick": (*NOT_GIVEN, "2 realisations and 120 steps"),
    "paper": (*NOT_GIVEN, "ten realisations with their standard deviation, where the paper shows one run"),
}
PRESETS = {
    "quick": Config(instances=2, steps=120, learners=("paper", "exact"), posterior_sweeps=100),
    "paper": Config(),
}
