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
from equilibria.papers.claims import Claim, at_least, not_testable
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
        The overlap with the pattern started from; the overlaps of pairs of replicas that started at random; the largest
        overlap of each replica with any pattern; and the overlap of replicas in the first half of the rounds, which is the
        same at equilibrium.
    """
    keys = jax.random.split(fast(key), 5)
    night = np.inf if sleep == LONG else sleep

    def built(size: int, key: Array) -> tuple[eq.Network, Array]:
        patterns = eq.data.random_patterns(max(1, round(load * size)), size, key=key)
        most = max(1, round(max(config.loads) * size))  # one shape for all loads
        return padded(eq.hopfield(patterns, sleep=night), most), patterns

    large, patterns = built(config.size, keys[0])
    targets = patterns[np.arange(config.chains) % len(patterns)]
    m = recall(large, targets, temperature=temperature, sweeps=config.sweeps, key=keys[1])
    small, patterns = built(config.small, keys[2])
    # The hottest copies must move freely: well above the freezing temperature.
    hottest = max(2.0, 2.0 * float(eq.theory.hopfield_glass(load, sleep)) / temperature)
    how = eq.Tempered(config.rounds // 2, rungs=config.rungs, hottest=hottest)
    states, q = None, []
    for part in keys[3:]:
        states = np.asarray(
            eq.sample(small, how, chains=config.chains, start=states, temperature=temperature, key=part)["neurons"]
        )
        q.append(np.asarray(eq.replica_overlap(states))[np.triu_indices(config.chains, 1)])
    return {
        "m": np.asarray(m, float),
        "q": q[1],
        "q_before": q[0],
        "best": np.abs(states @ np.asarray(patterns).T / config.small).max(1),
    }


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
            **{name: ((*points, name + "_sample"), cells[name].values) for name in ("m", "q", "q_before", "best")},
            "expected": (points[:3], here[..., 0]),
            "clear": (points[:3], here[..., 1]),
        },
        {name: list(values) for name, values in axes.items()} | {"fine": loads, "heat": heat},
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
    alike = np.sqrt((dataset["q"] ** 2).mean("q_sample")) > 0.35
    return xr.where(kept, 2, xr.where(alike, 1, 0))


def plot(dataset: xr.Dataset):
    """Above: the phases in theory (dark blue: retrieval is the state of lowest free energy; light blue: it is metastable), with
    dots coloured by what simulated networks do. Below: the laws of m and q at three points."""
    sleeps = dataset["sleep"].values
    figure, axes = plots.panels(columns=3, rows=3, size=(3.6, 2.6))
    colours, dots = ListedColormap(COLOURS), (COLOURS[0], COLOURS[1], COLOURS[3])
    seen = found(dataset).isel(network=0)
    for panel, sleep in zip(axes[:2].ravel(), sleeps, strict=False):
        here = dataset.sel(sleep=sleep)
        panel.pcolormesh(
            dataset["fine"], dataset["heat"], here["phase"], cmap=colours, vmin=-0.5, vmax=3.5, rasterized=True
        )
        panel.plot(dataset["fine"], here["glass"], color="0.3", linewidth=0.8)
        panel.plot(here["spinodal"], dataset["heat"], color="0.3", linewidth=0.8)
        for load in dataset["load"].values:
            for temperature in dataset["temperature"].values:
                phase = int(seen.sel(sleep=sleep, load=load, temperature=temperature))
                panel.plot(load, temperature, "o", color=dots[phase], markeredgecolor="black", markersize=5)
        name = r"$t \to \infty$" if sleep == LONG else f"$t = {sleep:g}$"
        panel.set(xlim=(0, 1.1), ylim=(0, 1.5), xlabel=r"load $\alpha$", ylabel="temperature $T$", title=name)
        panel.grid(visible=False)
    for panel in axes[:2].ravel()[len(sleeps) :]:
        panel.set_visible(False)
    _laws(axes[2], dataset)
    marks = [axes[0, 0].plot([], [], "s", color=colour)[0] for colour in COLOURS]
    names = ("ergodic", "spin glass", "retrieval, metastable", "retrieval")
    figure.legend(marks, names, loc="outside upper center", ncols=4)
    return figure


def _laws(axes, dataset: xr.Dataset) -> None:
    """The laws of the overlap with the nearest pattern and between replicas, at a point of each phase without sleep."""
    cold, warm = float(dataset["temperature"].min()), float(dataset["temperature"].max())
    few, many = float(dataset["load"].min()), float(dataset["load"].max())
    edges = np.linspace(-1, 1, 41)
    for panel, (load, temperature) in zip(axes, ((few, cold), (many, cold), (few, warm)), strict=True):
        here = dataset.isel(sleep=0).sel(load=load, temperature=temperature)
        for colour, name, label in (
            (plots.PALETTE[0], "q", "$q$ of replicas"),
            (plots.PALETTE[1], "best", "largest $|m|$"),
        ):
            panel.hist(here[name].values.ravel(), edges, density=True, color=colour, alpha=0.6, label=label)
        panel.set(xlabel="overlap", xlim=(-1.05, 1.05), title=rf"$t = 0$, $\alpha = {load:g}$, $T = {temperature:g}$")
    axes[0].set_ylabel("density")
    axes[0].legend(loc="upper left", fontsize=7)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the lecture's diagrams say."""
    seen, clear = found(dataset), dataset["clear"] > 0
    right = (seen == dataset["expected"]).where(clear)
    cold = float(dataset["heat"][0])
    edge = dataset["spinodal"].sel(heat=cold)
    aged = np.sqrt((dataset["q_before"] ** 2).mean("q_before_sample")) - np.sqrt((dataset["q"] ** 2).mean("q_sample"))
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
        not_testable(
            "The values of T and α at the borders of the coloured regions", source=SOURCE,
            reason="the slides give no numbers on these axes that could be read",
        ),
        at_least(
            "Replicas are at equilibrium: share of points at which their overlap is within 0.1 of that halfway",
            source="the simulation", expected=0.9, ours=True, over="network",
            measured=(np.abs(aged) < 0.1).mean(("sleep", "load", "temperature")).values,
            reason="noise of pairs of twenty replicas is 0.05; where it is not, tempering has not reached equilibrium",
        ),
    ]  # fmt: skip
    return made


PRESETS = {
    "quick": Config(sleeps=(0.0, 1.0, LONG), grid=20, loads=(0.05, 0.5), temperatures=(0.1, 0.7, 1.1)),
    "paper": Config(grid=50, size=400, small=150, chains=24, rounds=400, networks=2),
}
DIFFERS = {
    name: ("t → ∞ is t = 10^4 in theory and the pseudo-inverse in simulation", "the lecture shows no simulation")
    for name in PRESETS
}
