"""Sleep: how revising Hebb's couplings makes room for more patterns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.agliari2024.common import deviation, overlap_against_load, recalled_along
from equilibria.papers.claims import Claim, at_least, at_most, close

SOURCE = "slide 'Revise Hebb's rule by iterative protocols'"


@dataclass(frozen=True)
class Config:
    """Networks of `size` neurons that slept for each of `sleeps`, at one `temperature`."""

    size: int = 400
    sleeps: tuple[float, ...] = (0.0, 1.0, 10.0)
    loads: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    temperature: float = 0.1
    chains: int = 40
    sweeps: int = 40
    seed: int = 0


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Patterns recalled from themselves after each sleep, theory beside it, and the largest eigenvalue at load 0.536."""
    sleeps, temperature = np.array(config.sleeps), config.temperature
    points = recalled_along("sleep", config, checkpoint, temperature=temperature, sleep=config.sleeps)
    load, column, fine = points["load"].values, sleeps[:, None], np.linspace(0.005, 1.1, 300)
    night = np.concatenate([[0.0], np.geomspace(0.05, 100, 40)])
    theory = points.assign(
        theory=(("sleep", "load"), eq.theory.hopfield(load, temperature, column).m),
        curve=(("sleep", "fine"), eq.theory.hopfield(fine, temperature, column).m),
        capacity=("sleep", eq.theory.hopfield_capacity(temperature, sleeps)),
        cold=("night", eq.theory.hopfield_capacity(0.0, night)),
        warm=("night", eq.theory.hopfield_capacity(temperature, night)),
        long=((), eq.theory.hopfield_capacity(0.005, 1e4)),
        largest=((), _largest_eigenvalue(config)),
    )
    return theory.assign_coords(fine=fine, night=night).assign_attrs(temperature=temperature)


def _largest_eigenvalue(config: Config) -> float:
    patterns = np.asarray(eq.data.random_patterns(round(0.536 * config.size), config.size, key=eq.key(config.seed)))
    return float(np.linalg.norm(patterns, 2) ** 2 / config.size)


def plot(dataset: xr.Dataset):
    """Overlaps on the left; on the right the capacity against the time slept."""
    figure, (left, right) = plots.panels(columns=2)
    heat, size = dataset.attrs["temperature"], dataset.attrs["size"]
    left.set_title(f"$T = {heat:g}$; lines: theory; points: N = {dataset.attrs['size']}")
    names = {sleep: f"sleep $t = {sleep:g}$" for sleep in dataset["sleep"].values}
    overlap_against_load(left, dataset, "sleep", names, loc="upper right", bbox_to_anchor=(1, 0.93))
    plots.theory_line(right, dataset["night"], dataset["cold"], label="theory, $T = 0$")
    plots.theory_line(
        right, dataset["night"], dataset["warm"], colour=plots.PALETTE[1], label=f"theory, $T = {heat:g}$"
    )
    plots.simulation_points(
        right,
        dataset["sleep"],
        dataset["edge"],
        colour=plots.PALETTE[1],
        label=f"half lost at $T = {heat:g}$, N = {size}",
    )
    right.axhline(1, color="0.6", linewidth=0.8)
    right.set_xscale("symlog", linthresh=0.1)
    right.set(xlabel="sleep $t$", ylabel=r"capacity $\alpha_c$", xlim=(-0.01, 100), ylim=(0, 1.3))
    right.legend(loc="upper left")
    return figure


def _edge_of_noise(size: int, count: int) -> tuple[float, float]:
    """Mean and standard deviation of the largest eigenvalue of `count` random patterns' correlations, at finite size."""
    rows, columns = np.sqrt(size - 1), np.sqrt(count)
    centre, width = (rows + columns) ** 2 / size, (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3) / size
    return centre - 1.2065 * width, 1.268 * width  # moments of the Tracy-Widom law for real matrices


def claims(dataset: xr.Dataset) -> list[Claim]:
    """More patterns in the same synapses."""
    size, slept = int(dataset.attrs["size"]), dataset.isel(sleep=-1)
    mean, spread = _edge_of_noise(size, round(0.536 * size))
    found = [
        at_most(
            f"Simulation follows theory below 0.8 α_c(t): largest |Δm|, N = {size}", source=SOURCE,
            expected=0.02, measured=deviation(dataset), reason="finite size; errors of the mean are a few thousandths",
            ours=True,
        ),
        at_least(
            f"'Allocate more information': simulated capacity at t = {float(slept['sleep']):g} over t = 0",
            source=SOURCE, expected=4, measured=slept["edge"] / dataset["edge"].sel(sleep=0.0),
            reason="theory says 5.5 at t = 10 and T = 0.1; the edges are rounded at finite size",
            quote="Allocate more information with the same resources",
        ),
        close(
            "Long sleep brings the capacity to 1 at a low temperature (t = 10^4, T = 0.005)", source=SOURCE,
            expected=1, measured=dataset["long"], tolerance=0.03,
            reason="the limit is t → ∞ before T → 0; at exactly T = 0 the theory passes 1",
            ours=True,
        ),
        close(
            "The unit-step iteration J ← J + (J − J²)/(1+n) is stable up to a load of 0.536: largest eigenvalue there",
            source=f"{SOURCE}; (1 + √α)² = 3", expected=mean, measured=dataset["largest"], tolerance=4 * spread,
            reason="four standard deviations of the law of the largest eigenvalue (Tracy and Widom; Johnstone 2001)",
            ours=True,
        ),
    ]  # fmt: skip
    for sleep in dataset["sleep"].values:
        here = dataset.sel(sleep=sleep)
        found.append(
            close(
                f"Half of the patterns are lost in simulation at t = {sleep:g}, N = {size}",
                source=SOURCE,
                expected=here["capacity"],
                measured=here["edge"],
                tolerance=0.03 + 0.1 * here["capacity"],
                reason="a rounded edge at finite size, and the spacing of the loads",
                ours=True,
            )
        )
    return found


PRESETS = {
    "quick": Config(),
    "paper": replace(Config(), size=2000, sleeps=(0.0, 0.1, 1.0, 10.0), chains=200, sweeps=100),
}
DIFFERS = {name: ("the lecture shows theory's diagrams only; simulation beside them is ours",) for name in PRESETS}
