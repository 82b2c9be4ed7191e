"""The phase diagrams of dreaming, coloured as in the lecture, with what simulated networks do at points of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jax import Array
from matplotlib.colors import ListedColormap

import equilibria as eq
from equilibria import plots
from equilibria.measure.storage import padded, recall
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
from equilibria.papers.sweep import fast, sweep

SOURCE = "slide 'Revise Hebb's rule by iterative protocols', diagrams"
LONG = 1e4  # stands for an infinite sleep in theory; in simulation it is the pseudo-inverse
COLOURS = ("#f6d7c3", "#e9b44c", "#8fc1e3", "#2f6f9f")  # ergodic, spin glass, retrieval that is metastable, retrieval
NAMES = ("ergodic", "spin glass", "retrieval")


@dataclass(frozen=True)
class Config:
    """Diagrams at each of `sleeps`; networks of `size` neurons started at their patterns, of `small` ones equilibrated."""

    sleeps: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0, 100.0, LONG)
    grid: int = 40  # points of each axis at which theory is coloured
    loads: tuple[float, ...] = (0.05, 0.2, 0.5, 0.8)
    temperatures: tuple[float, ...] = (0.1, 0.4, 0.7, 1.1)
    size: int = 300
    small: int = 100
    chains: int = 20
    sweeps: int = 60
    rounds: int = 300
    rungs: int = 8
    networks: int = 1
    seed: int = 0


def simulated(
    sleep: float, load: float, temperature: float, network: int, seed: int, key: Array, *, config: Config
) -> dict[str, np.ndarray]:
    """One cell: a network started at its patterns, and one with replicas equilibrated by tempering.

    Args:
        sleep: how long they slept.
        load: patterns over neurons.
        temperature: of the neurons.
        network: number of the network among those alike; it only enters the key.
        seed: likewise.
        key: of everything that is drawn.
        config: the figure's configuration.

    Returns:
        The overlap with the pattern started from; by kind of start, at random and at patterns, the overlaps of pairs of
        replicas, the largest overlap of each replica with any pattern, and how often chains came back from the hottest rung.
    """
    keys = jax.random.split(fast(key), 6)
    night = np.inf if sleep == LONG else sleep

    def built(size: int, key: Array) -> tuple[eq.Network, Array]:
        patterns = eq.data.random_patterns(max(1, round(load * size)), size, key=key)
        most = max(1, round(max(config.loads) * size))  # one shape for all loads
        return padded(eq.hopfield(patterns, sleep=night), most), patterns

    large, patterns = built(config.size, keys[0])
    targets = patterns[np.arange(config.chains) % len(patterns)]
    m = recall(large, targets, temperature=temperature, sweeps=config.sweeps, key=keys[1])
    small, patterns = built(config.small, keys[2])
    # The hottest copies must move freely: well above where spins freeze and where patterns hold, T = 1 at the most.
    hottest = 2 * max(1.0, float(eq.theory.hopfield_glass(load, sleep)), temperature)
    how = eq.Tempered(config.rounds, rungs=config.rungs, hottest=hottest / temperature)
    noise = jax.random.rademacher(keys[3], (config.chains, config.small), np.float32)
    starts = {"random": noise, "patterns": patterns[np.arange(config.chains) % len(patterns)]}
    rows: dict[str, list] = {"q": [], "best": [], "trips": []}
    for start, here in zip(starts.values(), keys[4:], strict=True):
        found = eq.equilibrate(small, how, start, temperature=temperature, key=here)
        states = np.asarray(found["neurons"])
        rows["q"].append(np.asarray(eq.replica_overlap(states))[np.triu_indices(config.chains, 1)])
        rows["best"].append(np.abs(states @ np.asarray(patterns).T / config.small).max(1))
        rows["trips"].append(float(found.info["round_trips"]))
    return {"m": np.asarray(m, float)} | {name: np.array(values) for name, values in rows.items()}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Theory on a grid of loads and temperatures, its lines, and the simulated points."""
    loads = np.linspace(0.005, 1.1, config.grid)
    heat = np.linspace(0.005, 1.5, config.grid)
    diagrams = [eq.theory.hopfield_phases(loads, heat, sleep) for sleep in config.sleeps]
    axes = {"sleep": config.sleeps, "load": config.loads, "temperature": config.temperatures}
    cells = sweep(simulated, config, checkpoint, **axes, network=range(config.networks), seed=config.seed)
    points = ("sleep", "load", "temperature", "network")
    here = np.array([
        [[_theory(sleep, load, T) for T in config.temperatures] for load in config.loads] for sleep in config.sleeps
    ])  # fmt: skip
    return xr.Dataset(
        {
            "phase": (("sleep", "heat", "fine"), np.stack([d["phase"].values for d in diagrams])),
            "spinodal": (("sleep", "heat"), np.stack([d["spinodal"].values for d in diagrams])),
            "glass": (("sleep", "fine"), np.stack([d["glass"].values for d in diagrams])),
            "m": ((*points, "m_sample"), cells["m"].values),
            **{name: ((*points, "start", f"{name}_sample"), cells[name].values) for name in ("q", "best")},
            "trips": ((*points, "start"), cells["trips"].values),
            "warm": ("sleep", eq.theory.hopfield_capacity(0.1, np.array(config.sleeps))),
            "expected": (points[:3], here[..., 0]),
            "clear": (points[:3], here[..., 1]),
        },
        {name: list(values) for name, values in axes.items()}
        | {"fine": loads, "heat": heat, "start": ["random", "patterns"]},
        {"size": config.size, "small": config.small},
    )


def _theory(sleep: float, load: float, temperature: float) -> tuple[int, float]:
    """The number of the phase among `NAMES`, and 1 where no line is within 15% in load or temperature."""

    def at(load: float, temperature: float) -> int:
        if eq.theory.hopfield(load, temperature, sleep).exists:
            return 2
        return int(temperature < eq.theory.hopfield_glass(load, sleep))

    around = {at(load * x, temperature * y) for x in (0.85, 1, 1.15) for y in (0.85, 1, 1.15)}
    return at(load, temperature), float(len(around) == 1)


def found(dataset: xr.Dataset) -> xr.DataArray:
    """The phase that simulation finds: retrieval if patterns are kept, spin glass if replicas are alike.

    Without order replicas are alike by 1/sqrt(N); near the transition by a few times that, so that 0.35 tells them apart.
    """
    kept = dataset["m"].mean("m_sample") > 0.7
    alike = _alike(dataset).sel(start="random", drop=True) > 0.35
    return xr.where(kept, 2, xr.where(alike, 1, 0))


def _alike(dataset: xr.Dataset) -> xr.DataArray:
    """The root mean square overlap of pairs of replicas."""
    return (dataset["q"] ** 2).mean("q_sample") ** 0.5


def at_equilibrium(dataset: xr.Dataset) -> xr.DataArray:
    """Where tempering has reached equilibrium: every chain has been at the hottest rung and back, as a mean, whatever its
    start, and replicas that began at random and at patterns have the same overlaps, with each other and with patterns.

    Overlaps of pairs of some twenty replicas have a noise of 0.05: they may differ by 0.15.
    """
    returned = (dataset["trips"] >= 1).all("start")
    best = dataset["best"].mean("best_sample")
    apart = xr.apply_ufunc(np.maximum, abs(_alike(dataset).diff("start")), abs(best.diff("start"))).isel(
        start=0, drop=True
    )
    return returned & (apart < 0.15)


def plot(dataset: xr.Dataset):
    """For each sleep: the phases in theory (dark blue: retrieval is the state of lowest free energy; light blue: it is
    metastable), with dots coloured by what simulated networks do, crossed out where their replicas are not at equilibrium; and
    the laws of q and of the largest |m| at a cold point of few patterns, a cold one of many, and a warm one."""
    sleeps = dataset["sleep"].values
    figure, axes = plots.panels(columns=len(sleeps), rows=4, size=(1.8, 1.6), squeeze=False)
    for column, sleep in enumerate(sleeps):
        _diagram(axes[0, column], dataset, sleep)
        _laws(axes[1:, column], dataset.sel(sleep=sleep))
    axes[0, 0].set_ylabel("temperature $T$")
    for row in axes[1:]:
        row[0].set_ylabel("density\n" + row[0].get_title(loc="left").removesuffix(", not at equilibrium"), fontsize=9)
        for panel in row:
            state = "not at equilibrium" * ("not at" in panel.get_title(loc="left"))
            panel.set_title(state, fontsize=8)
            panel.set_xlabel("overlap" * (panel in axes[-1]))
    marks = [axes[0, 0].plot([], [], "s", color=colour)[0] for colour in COLOURS]
    marks += axes[1, 0].get_legend_handles_labels()[0]
    names = ("ergodic", "spin glass", "retrieval, metastable", "retrieval", "$q$ of replicas", "largest $|m|$")
    figure.legend(marks, names, loc="outside upper center", ncols=6)
    return figure


def _diagram(panel, dataset: xr.Dataset, sleep: float) -> None:
    dots = (COLOURS[0], COLOURS[1], COLOURS[3])
    seen, rested = found(dataset).isel(network=0), at_equilibrium(dataset).all("network")
    here = dataset.sel(sleep=sleep)
    panel.pcolormesh(
        dataset["fine"], dataset["heat"], here["phase"], cmap=ListedColormap(COLOURS), vmin=-0.5, vmax=3.5,
        rasterized=True,
    )  # fmt: skip
    panel.plot(dataset["fine"], here["glass"], color="0.3", linewidth=0.8)
    panel.plot(here["spinodal"], dataset["heat"], color="0.3", linewidth=0.8)
    for load in dataset["load"].values:
        for temperature in dataset["temperature"].values:
            point = {"sleep": sleep, "load": load, "temperature": temperature}
            panel.plot(load, temperature, "o", color=dots[int(seen.sel(point))], markeredgecolor="black", markersize=5)
            if not bool(rested.sel(point)):
                panel.plot(load, temperature, "x", color="black", markersize=4)
    name = r"$t \to \infty$" if sleep == LONG else f"$t = {sleep:g}$"
    panel.set(xlim=(0, 1.1), ylim=(0, 1.5), xlabel=r"load $\alpha$", title=name)
    panel.grid(visible=False)


def _laws(axes, here: xr.Dataset) -> None:
    """The laws of the overlap with the nearest pattern and between replicas, both starts and all networks together."""
    cold, warm = float(here["temperature"].min()), float(here["temperature"].max())
    few, many = float(here["load"].min()), float(here["load"].max())
    edges = np.linspace(-1, 1, 41)
    rested = at_equilibrium(here).all("network")
    for panel, (load, temperature) in zip(axes, ((few, cold), (many, cold), (few, warm)), strict=True):
        point = {"load": load, "temperature": temperature}
        for colour, name, label in (
            (plots.PALETTE[0], "q", "$q$ of replicas"),
            (plots.PALETTE[1], "best", "largest $|m|$"),
        ):
            values = here[name].sel(point).values.ravel()
            panel.hist(values, edges, density=True, color=colour, alpha=0.6, label=label)
        state = "" if bool(rested.sel(point)) else ", not at equilibrium"
        panel.set(xlabel="overlap", xlim=(-1.05, 1.05), yticks=[])
        panel.set_title(rf"$\alpha = {load:g}$, $T = {temperature:g}${state}", fontsize=7)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the lecture's diagrams say."""
    seen, clear = found(dataset), dataset["clear"] > 0
    right = (seen == dataset["expected"]).where(clear)
    cold = float(dataset["heat"][0])
    edge = dataset["spinodal"].sel(heat=cold)
    rested = at_equilibrium(dataset)
    alike, points = _alike(dataset).sel(start="random", drop=True), ("sleep", "load", "temperature")
    glassy, free = (alike.where((dataset["expected"] == phase) & clear) for phase in (1, 0))
    made = [
        at_least(
            f"Simulation finds the phase of the diagram where no line is within 15%: share of points, sleep t = {sleep:g}",
            source=SOURCE, expected=0.9, measured=right.sel(sleep=sleep).mean(("load", "temperature")).values, over="network",
            reason="one point in ten may fall off: networks of some hundred neurons",
            quote="Retrieval, Spin-glass, Ergodic",
        )
        for sleep in dataset["sleep"].values
    ]  # fmt: skip
    made += [
        at_least(
            f"Longer sleep stores more at a low temperature, T = {cold:g}: smallest gain in capacity between the sleeps shown",
            source=SOURCE, expected=0.0, measured=edge.diff("sleep").min().values,
            quote="Allocate more information with the same resources",
        ),
        at_least(
            "The same at T = 0.1: smallest gain in capacity between the sleeps shown", source=SOURCE, expected=0.0,
            measured=dataset["warm"].diff("sleep").min().values, quote="Allocate more information with the same resources",
        ),
        at_least(
            "Replicas tell the spin glass from the ergodic phase: root mean square of their overlap, the smallest at a "
            "point of the one minus the largest at a point of the other, no line within 15%",
            source="slide 'AGS theory', overlap q_ab", expected=0.0, every=True, over="network",
            measured=(glassy.min(points) - free.max(points)).values,
            quote="intrinsic disorder and frustration yield glassy behaviours, captured by the correlation between "
            "configurations of two replicas",
        ),
        not_testable(
            "What the brain does in its sleep", source=SOURCE, reason="no brain at hand; only the formula is simulated",
            quote="consolidation (SW), remotion (REM)",
        ),
        not_testable(
            "The values of T and α at the borders of the coloured regions", source=SOURCE,
            reason="the slides give no numbers on these axes that could be read",
        ),
        at_least(
            "Replicas are at equilibrium: share of points, by round trips and by two kinds of start", source="the simulation",
            expected=0.9, ours=True, over="network", measured=rested.mean(("sleep", "load", "temperature")).values,
            reason="a round trip on average, and overlaps within 0.15; where it is not so, tempering has "
            "not reached equilibrium",
        ),
    ]  # fmt: skip
    for sleep in dataset["sleep"].values:
        there = rested.sel(sleep=sleep).all("network")
        away = [f"({x:g}, {y:g})" for x in there["load"].values for y in there["temperature"].values
                if not bool(there.sel(load=x, temperature=y))]  # fmt: skip
        made.append(
            at_most(
                f"Points (α, T) at which the replicas of some network are not at equilibrium, sleep t = {sleep:g}",
                source="the simulation", expected=0.0, measured=len(away), ours=True, reason=", ".join(away) or "none",
            )
        )  # fmt: skip
    return made


PRESETS = {
    "quick": Config(
        sleeps=(0.0, 1.0, 10.0),
        grid=10,
        loads=(0.05, 0.5),
        temperatures=(0.1, 1.1),
        size=200,
        small=64,
        rounds=150,
    ),
    "paper": Config(
        grid=30, loads=(0.05, 0.2, 0.6), temperatures=(0.1, 0.4, 1.1), size=400, small=64, rounds=300, networks=5
    ),
}
COMMON = ("t → ∞ is t = 10^4 in theory and the pseudo-inverse in simulation", "the lecture shows no simulation")
DIFFERS = {
    "quick": ("the lecture shows no simulation", "sleeps up to t = 10", "one network at each of 12 points"),
    "paper": (*COMMON, "replicas are of 64 neurons, so that they come to equilibrium"),
}
