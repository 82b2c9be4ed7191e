"""Learning trajectories with three hidden neurons and orthogonal fields, with the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim
from equilibria.papers.huang2019.common import growing_bound, permuted_run, plant, recovery, saturation, symmetry_broken


@dataclass(frozen=True)
class Config:
    """The paper's setting; ten instances are learned side by side, where the paper shows one."""

    size: int = 100
    examples: int = 500
    instances: int = 10
    steps: int = 200
    permute_at: int = 50
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """Learning with the exact E-step from one start for each instance."""
    planted = plant(config.instances, 3, config.size, config.examples, 0.0, config.seed)
    for _ in progress(range(1), "fig2b", "run"):
        dataset = permuted_run(planted, 3, config.steps, config.permute_at, config.seed)
    return dataset.assign_attrs(size=config.size, permute_at=config.permute_at)


def plot(dataset: xr.Dataset) -> Figure:
    """Overlaps of the first instance, and the bound of all relative to its start."""
    figure, axes = plots.panels(2, size=(4.6, 3.3))
    for unit in range(3):
        axes[0].plot(dataset["step"], dataset["overlap"].isel(unit=unit, instance=0), label=rf"$Q^{unit + 1}$")
    axes[0].plot(
        dataset["step"], dataset["matched"].isel(instance=0).mean("unit"), "k:", linewidth=1.2, label="best matching"
    )
    gain = dataset["bound"] - dataset["bound"].isel(step=0)
    axes[1].plot(dataset["step"], gain, color=plots.PALETTE[0], alpha=0.25, linewidth=0.8)
    axes[1].plot(dataset["step"], gain.mean("instance"), color=plots.PALETTE[0])
    axes[0].axvline(dataset.attrs["permute_at"], color="0.6", linewidth=0.8)
    axes[0].set(
        xlabel="learning step", ylabel="overlap with the planted field", title="Fields permuted at the grey line"
    )
    axes[1].set(
        xlabel="learning step",
        ylabel="lower bound, relative to its start",
        title=f"{dataset.sizes['instance']} instances and their mean",
    )
    axes[0].legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 2 (b)."""
    case, source = "P = 3, q = 0", "Fig. 2 (b)"
    return [
        recovery(dataset["matched"].isel(step=-1).values, case, source),
        *growing_bound(dataset["bound"].values, case, source),
        *saturation(dataset["divergence"].values, 3 * int(dataset.attrs["size"]), case, source),
        symmetry_broken(dataset["overlap"], int(dataset.attrs["permute_at"]), case),
    ]


PRESETS = {"quick": Config(), "paper": Config(instances=50, steps=400)}
