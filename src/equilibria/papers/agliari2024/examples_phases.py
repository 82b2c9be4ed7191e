"""Learning from examples: where archetypes are retrieved, by load, entropy of the data and temperature, awake and asleep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jax import Array

import equilibria as eq
from equilibria import plots
from equilibria.measure.storage import recall
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.sweep import fast, sweep

SOURCE = "slide 'Replace archetypes by a sample of examples', diagrams"
RULES = {"supervised": True, "unsupervised": False}


@dataclass(frozen=True)
class Config:
    """Data sets of each pair of `qualities` and `examples`; networks of `size` simulated at `shares` of the capacity."""

    qualities: tuple[float, ...] = (0.9, 0.7, 0.5)
    examples: tuple[int, ...] = (10, 20, 80)
    sleeps: tuple[float, ...] = (0.0, 2.0)
    lines: int = 12  # points of a line
    temperature: float = 0.1
    shares: tuple[float, ...] = (0.5, 0.85, 1.25)
    size: int = 400
    chains: int = 20
    sweeps: int = 40
    networks: int = 1
    seed: int = 0


def _about(config: Config, rule: str, data: int) -> dict:
    """What the theory is told of a data set."""
    quality, examples = config.qualities[data], config.examples[data]
    entropy = float(eq.theory.dataset_entropy(quality, examples))
    return {"entropy": entropy, "examples": examples, "supervised": RULES[rule]}


def simulated(
    rule: int, data: int, sleep: float, share: float, network: int, seed: int, key: Array, *, config: Config
) -> dict[str, float]:
    """One cell: a network that has seen examples is started at their archetypes.

    Args:
        rule: the number of one of `RULES`.
        data: the number of the data set.
        sleep: how long the network slept.
        share: the load over the capacity of theory.
        network: number of the network; it only enters the key.
        seed: likewise.
        key: of everything that is drawn.
        config: the figure's configuration.

    Returns:
        The load, the overlap with the archetypes, its standard error, and what theory says: NaN beyond the capacity.
    """
    about = _about(config, list(RULES)[rule], data)
    capacity = float(eq.theory.hopfield_examples_capacity(config.temperature, sleep=sleep, **about))
    count = max(1, round(share * capacity * config.size))
    load = count / config.size
    pattern_key, blur_key, walk_key = jax.random.split(fast(key), 3)
    archetypes = eq.data.random_patterns(count, config.size, key=pattern_key)
    blurred = eq.data.blurred_examples(archetypes, config.examples[data], config.qualities[data], key=blur_key)
    network_of = eq.hopfield_from_examples(blurred, supervised=about["supervised"], sleep=sleep)
    targets = archetypes[np.arange(min(config.chains, count))]
    m = np.asarray(
        recall(network_of, targets, temperature=config.temperature, sweeps=config.sweeps, key=walk_key), float
    )
    theory = float(eq.theory.hopfield_examples(load, config.temperature, sleep=sleep, **about).m)
    error = m.std(ddof=1) / np.sqrt(len(m)) if len(m) > 1 else np.nan
    return {"load": load, "overlap": m.mean(), "error": error, "theory": theory, "capacity": capacity}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Lines of theory against entropy and against temperature, and simulated networks below and above them."""
    heat = np.linspace(0.0, 0.95, config.lines)
    entropy = np.geomspace(0.003, 1.0, config.lines)
    most = config.examples[-1]
    by_heat, by_entropy = [], []
    for rule in RULES:
        for sleep in config.sleeps:
            by_heat.append([
                eq.theory.hopfield_examples_lines(heat, sleep=sleep, **_about(config, rule, data))[:2]
                for data in range(len(config.qualities))
            ])  # fmt: skip
            lines = eq.theory.hopfield_examples_lines(
                config.temperature, entropy=entropy, examples=most, supervised=RULES[rule], sleep=sleep
            )
            by_entropy.append(lines[:2])
    shape = (len(RULES), len(config.sleeps))
    grid = {
        "rule": range(len(RULES)),
        "data": range(len(config.qualities)),
        "sleep": config.sleeps,
        "share": config.shares,
    }
    cells = sweep(simulated, config, checkpoint, **grid, network=range(config.networks), seed=config.seed)
    names = ("load", "overlap", "error", "theory", "capacity")
    points = ("rule", "data", "sleep", "share", "network")
    return xr.Dataset(
        {
            "by_heat": (
                ("rule", "sleep", "data", "line", "heat"), np.reshape(by_heat, (*shape, len(config.qualities), 2, -1))),
            "by_entropy": (("rule", "sleep", "line", "entropy"), np.reshape(by_entropy, (*shape, 2, -1))),
            **{name: (points, cells[name].values) for name in names},
            "quality": ("data", list(config.qualities)), "examples": ("data", list(config.examples)),
        },
        {
            "rule": list(RULES), "sleep": list(config.sleeps), "share": list(config.shares), "heat": heat,
            "entropy": entropy, "line": ["spinodal", "first order"],
        },
        {"temperature": config.temperature, "size": config.size, "most": most},
    )  # fmt: skip


def plot(dataset: xr.Dataset):
    """Above: where retrieval of archetypes ends (full) and where it ceases to be the state of lowest free energy
    (dashed), in the
    plane of temperature and load, for data sets of falling quality. Below: the same in the plane of entropy and load,
    and simulated
    overlaps against theory: filled dots below the capacity, crosses above it."""
    figure, axes = plots.panels(columns=3, rows=2, size=(3.7, 3.0))
    styles = [(rule, sleep) for rule in RULES for sleep in dataset["sleep"].values]
    for data, panel in zip(range(dataset.sizes["data"]), axes[0], strict=False):
        for colour, (rule, sleep) in zip(plots.PALETTE, styles, strict=False):
            here = dataset["by_heat"].sel(rule=rule, sleep=sleep).isel(data=data)
            panel.plot(here.sel(line="spinodal"), dataset["heat"], color=colour, label=f"{rule}, $t = {sleep:g}$")
            panel.plot(here.sel(line="first order"), dataset["heat"], "--", color=colour, linewidth=1)
        quality, many = float(dataset["quality"][data]), int(dataset["examples"][data])
        panel.set(xlabel=r"load $\alpha$", ylabel="temperature $T$", ylim=(0, 1), xlim=(0, None))
        panel.set_title(rf"$r = {quality:g}$, $M = {many}$")
    for panel in axes[0, dataset.sizes["data"] :]:
        panel.set_visible(False)
    axes[0, 0].legend(fontsize=7)
    left, right, last = axes[1]
    for colour, (rule, sleep) in zip(plots.PALETTE, styles, strict=False):
        here = dataset["by_entropy"].sel(rule=rule, sleep=sleep)
        left.plot(dataset["entropy"], here.sel(line="spinodal"), color=colour)
        left.plot(dataset["entropy"], here.sel(line="first order"), "--", color=colour, linewidth=1)
        seen = dataset.sel(rule=rule, sleep=sleep)
        inside = seen["theory"].notnull()
        right.plot(
            seen["theory"].where(inside).values.ravel(),
            seen["overlap"].where(inside).values.ravel(),
            "o",
            color=colour,
            markersize=4,
        )
        ratio = (seen["load"] / seen["capacity"]).values.ravel()
        last.plot(ratio, seen["overlap"].values.ravel(), "o", color=colour, markersize=4)
    left.set(xscale="log", xlabel=r"entropy $\rho$ of the examples", ylabel=r"load $\alpha$", ylim=(0, None))
    left.set_title(rf"$T = {dataset.attrs['temperature']:g}$, $M = {dataset.attrs['most']}$")
    right.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
    right.set(xlabel="overlap in theory", ylabel="overlap simulated", xlim=(0.6, 1.01), ylim=(0.6, 1.01))
    right.set_title(f"below the capacity, N = {dataset.attrs['size']}")
    last.axvline(1, color="0.5", linewidth=0.8)
    last.set(
        xlabel="load over the capacity of theory", ylabel="overlap simulated", ylim=(0, 1.02), title="across the edge"
    )
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the slide says: the entropy of the data set falls with quality and quantity, and stands beside T, α and t."""
    # an overlap of a few hundred neurons is known to 1/sqrt(N) for each network, and to corrections of order 1/N
    gap = np.abs(dataset["overlap"] - dataset["theory"]) / (4 * dataset["error"] + 5 / dataset.attrs["size"])
    inside = gap.where(dataset["share"] < 0.7).stack(all=("rule", "data", "sleep", "share"))
    fall = dataset["overlap"].isel(share=0) - dataset["overlap"].isel(share=-1)
    lines = dataset["by_entropy"].sel(line="spinodal")
    awake, asleep = lines.isel(sleep=0), lines.isel(sleep=-1)
    return [
        at_least(
            "Loads at which archetypes are retrieved fall with the entropy: smallest fall between points of the line",
            source=SOURCE, expected=0.0, measured=-lines.diff("entropy").max().values,
            quote="ρ ∝ 1/quality 1/quantity",
        ),
        at_least(
            "A teacher helps: smallest difference of the loads, supervised minus unsupervised", source=SOURCE, expected=0.0,
            measured=(lines.sel(rule="supervised") - lines.sel(rule="unsupervised")).min().values, tolerance=1e-9,
            reason="rounding",
        ),
        at_least(
            "Sleep stores more where the examples are good (entropy below 0.05): smallest gain", source=SOURCE, expected=0.0,
            measured=(asleep - awake).where(dataset["entropy"] < 0.05).min(("entropy", "rule")).values, ours=True,
        ),
        at_most(
            "Simulation follows theory at loads below 0.7 of the capacity: largest |Δm| over its allowance", source="theory",
            expected=1.0, measured=inside.max("all").values, every=True, over="network", ours=True,
            reason="four standard errors and 5/N",
        ),
        at_least(
            "Beyond the capacity archetypes are lost: smallest fall of the overlap from the first to the last share",
            source="theory", expected=0.1, measured=fall.transpose("network", ...).values, ours=True, every=True,
            over="network",
            reason="the overlap of theory jumps at the edge by more",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(),
    "paper": Config(
        sleeps=(0.0, 1.0, 10.0), lines=24, shares=(0.4, 0.6, 0.8, 1.2, 1.5), size=800, chains=30, sweeps=50, networks=2,
    ),
}  # fmt: skip
DIFFERS = {
    name: ("the lecture's diagrams carry no numbers: qualities, quantities and temperatures are ours",)
    for name in PRESETS
}
