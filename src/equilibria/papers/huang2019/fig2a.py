"""Learning trajectories with two hidden neurons, with and without correlation, the receptive fields swapped on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim
from equilibria.papers.huang2019.common import (
    best_possible,
    nearly_optimal,
    permuted_run,
    plant,
    saturation,
    symmetry_broken,
)


@dataclass(frozen=True)
class Config:
    """The paper's setting; ten instances are learned side by side, where the paper shows one."""

    size: int = 100
    examples: int = 500
    correlations: tuple[float, ...] = (0.0, 0.3)
    instances: int = 10
    steps: int = 200
    permute_at: int = 50
    posterior_sweeps: int = 400  # of Monte Carlo
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """For each correlation, learning with the exact E-step from one start for each instance."""
    runs = []
    for correlation in progress(config.correlations, "fig2a", "correlation"):
        planted = plant(config.instances, 2, config.size, config.examples, correlation, config.seed)
        run = permuted_run(planted, 2, config.steps, config.permute_at, config.seed)
        runs.append(run.assign(best=("instance", best_possible(planted, 2, config.posterior_sweeps, config.seed))))
    dataset = xr.concat(runs, "correlation").assign_coords(correlation=list(config.correlations))
    return dataset.assign_attrs(size=config.size, permute_at=config.permute_at)


def plot(dataset: xr.Dataset) -> Figure:
    """Overlaps of the first instance; the divergence of all instances, and its mean, beside them."""
    figure, axes = plots.panels(2, size=(4.6, 3.3))
    for index, correlation in enumerate(dataset["correlation"].values):
        here = dataset.sel(correlation=correlation)
        for unit, dash in enumerate(("-", "--")):
            colour = plots.PALETTE[index]
            axes[0].plot(here["step"], here["overlap"].isel(unit=unit, instance=0), dash, color=colour,
                         label=rf"$Q^{unit + 1}$, $q = {correlation:g}$")  # fmt: skip
        best = here["matched"].isel(instance=0).mean("unit")
        axes[0].plot(here["step"], best, ":", color=plots.PALETTE[index], linewidth=1.2)
        divergence = here["divergence"] / (2 * dataset.attrs["size"] * np.log(2))
        axes[1].plot(here["step"], divergence, color=plots.PALETTE[index], alpha=0.25, linewidth=0.8)
        axes[1].plot(
            here["step"], divergence.mean("instance"), color=plots.PALETTE[index], label=f"$q = {correlation:g}$"
        )
    axes[0].axvline(dataset.attrs["permute_at"], color="0.6", linewidth=0.8)
    axes[0].set(
        xlabel="learning step",
        ylabel="overlap with the planted field",
        title="Swapped at the grey line; dotted: best matching",
    )
    axes[1].set(
        xlabel="learning step",
        ylabel=r"KL divergence / $NP \ln 2$",
        title=f"{dataset.sizes['instance']} instances and their mean",
    )
    axes[0].legend(loc="center right", ncols=2)
    axes[1].legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 2 (a)."""
    found = []
    for correlation in dataset["correlation"].values:
        here, case, source = dataset.sel(correlation=correlation), f"P = 2, q = {correlation:g}", "Fig. 2 (a)"
        reached = here["matched"].isel(step=-1).mean("unit").values
        found.append(nearly_optimal(reached, here["best"].values, case, source))
        found += saturation(here["divergence"].values, 2 * int(dataset.attrs["size"]), case, source)
        found.append(symmetry_broken(here["overlap"], int(dataset.attrs["permute_at"]), case))
    return found


PRESETS = {"quick": Config(), "paper": Config(instances=50, steps=400)}
