"""The Hopfield network with many patterns: overlaps and the phase diagram of Amit, Gutfreund and Sompolinsky."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.agliari2024.common import deviation, overlap_against_load, recalled_along
from equilibria.papers.claims import Claim, at_most, close, not_testable

SOURCE = "slide 'AGS theory'"


@dataclass(frozen=True)
class Config:
    """So many `networks` of `size` neurons at each temperature and load; up to `chains` patterns are tried in each."""

    size: int = 800
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4)
    loads: tuple[float, ...] = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18)
    chains: int = 40
    sweeps: int = 40
    networks: int = 2
    seed: int = 0


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Patterns recalled from themselves, and the theory at the same loads and on a fine grid."""
    points = recalled_along("temperature", config, checkpoint, temperature=config.temperatures, sleep=0.0)
    temperatures = np.array(config.temperatures)
    load, column, fine = points["load"].values, temperatures[:, None], np.linspace(0.001, 0.2, 200)
    heat = np.linspace(0.0, 1.0, 101)
    lines = eq.theory.hopfield_lines(heat)
    named = {name: ("heat", getattr(lines, name)) for name in ("spinodal", "first_order", "almeida_thouless")}
    return (
        points.assign(named)
        .assign(
            theory=(("temperature", "load"), eq.theory.hopfield(load, column).m),
            curve=(("temperature", "fine"), eq.theory.hopfield(fine, column).m),
            capacity=("temperature", eq.theory.hopfield_capacity(temperatures)),
            glass=("fine", eq.theory.hopfield_glass(fine)),
        )
        .assign_coords(fine=fine, heat=heat)
    )


def plot(dataset: xr.Dataset):
    """Overlaps on the left; on the right the phases, with the simulated loads at which half of the patterns are lost."""
    figure, (left, right) = plots.panels(columns=2)
    names = {temperature: f"$T = {temperature:g}$" for temperature in dataset["temperature"].values}
    overlap_against_load(left, dataset, "temperature", names, loc="lower left")
    _phases(right, dataset)
    return figure


def _phases(axes, dataset: xr.Dataset) -> None:
    heat = dataset["heat"]
    axes.fill_betweenx(heat, dataset["first_order"], color=plots.PALETTE[0], alpha=0.2, linewidth=0)
    axes.fill_betweenx(
        heat, dataset["first_order"], dataset["spinodal"], color=plots.PALETTE[0], alpha=0.08, linewidth=0
    )
    plots.theory_line(axes, dataset["spinodal"], heat, label="retrieval ends")
    plots.theory_line(axes, dataset["first_order"], heat, label="retrieval is the ground state", linestyle="--")
    # Where retrieval ends before replica symmetry breaks, there is no such line: at T above 0.025.
    cold = np.concatenate([[0.0], np.geomspace(1e-4, 0.03, 40)])
    lines = eq.theory.hopfield_lines(cold)
    breaks = np.where(lines.almeida_thouless < (1 - 1e-6) * lines.spinodal, lines.almeida_thouless, np.nan)
    plots.theory_line(axes, breaks, cold, colour=plots.PALETTE[3], label="replica symmetry breaks", linewidth=2.5)
    plots.theory_line(axes, dataset["fine"], dataset["glass"], colour=plots.PALETTE[1], label="spins freeze")
    warm = dataset.where(dataset["temperature"] > 0, drop=True)
    for network in range(dataset.sizes["network"]):
        label = f"half lost, N = {dataset.attrs['size']}" if network == 0 else None
        plots.simulation_points(axes, warm["edge"].isel(network=network), warm["temperature"], label=label)
    for x, y, text in ((0.015, 0.15, "retrieval"), (0.09, 0.6, "spin glass"), (0.06, 1.4, "paramagnet")):
        axes.text(x, y, text, color="0.35")
    axes.set(xlabel=r"load $\alpha = K/N$", ylabel="temperature $T$", xlim=(0, 0.2), ylim=(0, 1.6))
    axes.legend(loc="center right", fontsize=7)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The theory's landmarks, and simulation on top of theory; the slide itself has a diagram without numbers."""
    size = int(dataset.attrs["size"])
    cold, warm = dataset.sel(temperature=0.0), dataset.where(dataset["temperature"] > 0, drop=True)
    return [
        not_testable(
            "The diagram of AGS theory: values of T and α at its lines", source=SOURCE, quote="Load α, Noise T",
            reason="the slide's axes carry no numbers that could be read; those of the theory it cites are ours below",
        ),
        not_testable(
            "What the first slides promise", source="slides 'Hard sciences for machine learning'",
            reason="a programme, not a statement about a network",
            quote="Information-processing capability as emerging collective behavior; design optimal architecture, estimate "
            "hyperparameters, check dataset size",
        ),
        not_testable(
            "The network reads a CAPTCHA", source="slide 'Neural networks for retrieval'",
            reason="a picture without words; cues with wrong neurons are what is measured here",
            quote="Pattern recognition, Pattern reconstruction, Denoising, Content addressable memory",
        ),
        not_testable(
            "Hebb's rule is inspired by biology and of low complexity", source="slide 'The Hopfield model'",
            reason="no brain at hand, and complexity is not said to be of what",
            quote="“Neurons out of sync fail to link”; Biological inspiration; Low complexity",
        ),
        not_testable(
            "Synapses are excitatory or inhibitory", source="slides 'Neural networks: a biology-inspired introduction', 'The "
            "Hopfield model'", reason="no network of a result is asked for its signs; that Hebb's couplings have both in equal "
            "shares is tested (tests/papers/test_agliari_equations.py)",
            quote="Excitatory/Inhibitory synapses; Excitatory vs Inhibitory",
        ),
        not_testable(
            "Neurons are fast, synapses slow", source="slide 'Neural networks: a biology-inspired introduction'",
            reason="a modelling choice: couplings are fixed while neurons move, here too",
            quote="{σ_i} fast degrees of freedom; {J_ij} slow degrees of freedom",
        ),
        close(
            "Patterns are retrieved at T = 0 up to the load α_c", source=f"{SOURCE}; Amit, Gutfreund, Sompolinsky 1987",
            expected=0.138, measured=cold["capacity"], tolerance=0.0005, reason="three digits in the paper", ours=True,
        ),
        close(
            "Retrieval is the ground state at T = 0 below", source="Amit, Gutfreund, Sompolinsky 1987",
            expected=0.051, measured=dataset["first_order"].isel(heat=0), tolerance=0.001, reason="two digits in the paper",
            ours=True,
        ),
        at_most(
            f"Simulation follows theory below 0.8 α_c(T): largest |Δm|, N = {size}", source=SOURCE,
            expected=0.02, measured=deviation(dataset), every=True, over="network",
            reason="a few of the chains escape at finite size; errors of the mean are a few thousandths",
            ours=True,
        ),
        at_most(
            f"Half of the patterns are lost at α_c(T) in simulation, T > 0, N = {size}: largest difference of loads",
            source=SOURCE, expected=0.02, measured=abs(warm["edge"] - warm["capacity"]).transpose("network", ...).values,
            every=True, over="network",
            reason="the edge is rounded at finite size, and the spacing of the loads is 0.02; at T = 0 the state freezes on "
            "its way out and keeps a large overlap beyond α_c, so nothing is claimed there",
            ours=True,
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(size=600, loads=(0.02, 0.05, 0.08, 0.11, 0.14, 0.17)),
    "paper": replace(Config(), size=2000, chains=50, sweeps=50, temperatures=(0.0, 0.2, 0.4, 0.6), networks=5),
}
DIFFERS = {
    name: (
        "the lecture shows theory's diagram only; simulation on it is ours",
        "α_c and T_c are of the theory it cites",
    )
    for name in PRESETS
}
