"""Learning from examples: archetypes that were never seen, only blurred copies of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jax import Array

import equilibria as eq
from equilibria import plots
from equilibria.measure.storage import padded, recall
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.sweep import fast, sweep

SOURCE = "slide 'Replace archetypes by a sample of examples'"
RULES = {"supervised": True, "unsupervised": False}


@dataclass(frozen=True)
class Config:
    """`count` archetypes of `size` neurons, seen in more and more `examples` of one `quality`."""

    size: int = 1000
    count: int = 20
    quality: float = 0.5
    examples: tuple[int, ...] = (5, 10, 20, 40, 80)
    temperatures: tuple[float, ...] = (0.0, 0.2)
    repeats: int = 1
    sweeps: int = 20
    seed: int = 0


def learned(examples: int, network: int, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: archetypes seen in so many examples, and recalled by networks of both rules at every temperature.

    Args:
        examples: of each archetype.
        network: number of the network among those that are averaged over; it only enters the key.
        seed: likewise.
        key: of the archetypes, their examples and the walks.
        config: the figure's configuration.

    Returns:
        The overlap with each archetype, (rules, temperatures, archetypes); each archetype is the start of a chain.
    """
    pattern_key, blur_key, walk_key = jax.random.split(fast(key), 3)
    archetypes = eq.data.random_patterns(config.count, config.size, key=pattern_key)
    blurred = eq.data.blurred_examples(archetypes, examples, config.quality, key=blur_key)
    networks = [eq.hopfield_from_examples(blurred, supervised=supervised) for supervised in RULES.values()]
    networks[1] = padded(
        networks[1], config.count * max(config.examples)
    )  # one compiled loop for all numbers of examples
    walk = partial(recall, targets=archetypes, sweeps=config.sweeps, key=walk_key)
    rows = [[walk(each, temperature=temperature) for temperature in config.temperatures] for each in networks]
    return {"overlaps": np.array(rows, float)}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The overlap with archetypes, averaged over them and over networks."""
    grid = {"examples": config.examples, "network": range(config.repeats), "seed": config.seed}
    cells = sweep(learned, config, checkpoint, **grid)
    # (rule, temperature, examples, network, archetype)
    samples = np.moveaxis(cells["overlaps"].values, (2, 3), (0, 1))
    axes, fine = ("rule", "temperature", "examples"), np.unique(np.geomspace(4, 90, 20).round())
    flat = samples.reshape(*samples.shape[:3], -1)
    many = np.array(config.examples, float)
    return xr.Dataset(
        {
            "overlap": ((*axes, "network"), samples.mean(-1)),
            "lowest": ((*axes, "network"), samples.min(-1)),
            "error": (axes, flat.std(-1, ddof=1) / np.sqrt(flat.shape[-1])),
            "theory": (axes, _theory(config, many)),
            "curve": (("rule", "temperature", "fine"), _theory(config, fine)),
        },
        {
            "rule": list(RULES),
            "temperature": list(config.temperatures),
            "examples": list(config.examples),
            "fine": fine,
        },
        {"size": config.size, "count": config.count, "quality": config.quality},
    )


def _theory(config: Config, examples: np.ndarray) -> np.ndarray:
    """Overlaps at each rule, temperature and number of examples; NaN where there is no retrieval."""
    entropy = eq.theory.dataset_entropy(config.quality, examples)
    rows = [
        [
            eq.theory.hopfield_examples(
                config.count / config.size, temperature, entropy=entropy, examples=examples, supervised=supervised
            ).m
            for temperature in config.temperatures
        ]
        for supervised in RULES.values()
    ]
    return np.array(rows)


def plot(dataset: xr.Dataset):
    """A panel for each temperature."""
    temperatures = dataset["temperature"].values
    figure, axes = plots.panels(columns=len(temperatures), sharey=True, squeeze=False)
    for panel, temperature in zip(axes[0], temperatures, strict=True):
        for colour, rule in zip(plots.PALETTE, RULES, strict=False):
            here = dataset.sel(rule=rule, temperature=temperature)
            plots.theory_line(panel, here["fine"], here["curve"], colour=colour, label=f"{rule}, theory")
            plots.simulation_points(
                panel, here["examples"], here["overlap"].mean("network"), here["error"], colour=colour,
                label=f"{rule}, N = {dataset.attrs['size']}",
            )  # fmt: skip
        panel.set_xscale("log")
        panel.set(xlabel="examples $M$ of each archetype", ylim=(0, 1.03))
        panel.set_xticks(dataset["examples"].values, [f"{many:d}" for many in dataset["examples"].values])
        panel.minorticks_off()
        panel.set_title(
            rf"$T = {temperature:g}$, $\alpha = {dataset.attrs['count'] / dataset.attrs['size']:g}$, "
            f"$r = {dataset.attrs['quality']:g}$"
        )
    axes[0, 0].set_ylabel("overlap $m$ with the archetype")
    axes[0, 0].legend(loc="lower right")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Quality times quantity decides, and a teacher helps."""
    stored = dataset["theory"] > 0
    mean = dataset["overlap"].mean("network")
    gap = abs(mean - dataset["theory"]).where(stored)
    allowed = 5 * dataset["error"] + 5 / dataset.attrs["size"]
    most, least = dataset.isel(examples=-1), dataset.isel(examples=0)
    teacher, alone = (dataset["curve"].sel(rule=rule) for rule in RULES)
    inside = gap.sel(rule="supervised").notnull().sum() + gap.sel(rule="unsupervised").notnull().sum()
    helped = (dataset["overlap"].sel(rule="supervised") - dataset["overlap"].sel(rule="unsupervised")).mean("network")
    return [
        at_most(
            f"Simulation follows theory wherever archetypes are retrieved ({int(inside)} points): "
            f"largest |Δm| over its allowance",
            source=SOURCE, expected=1, measured=(gap / allowed).max(), reason="allowance: five standard errors and 5/N",
            ours=True,
        ),
        at_least(
            f"Archetypes emerge from M = {int(most['examples'])} blurred examples: smallest overlap",
            source=SOURCE, expected=0.95, measured=most["overlap"].transpose("network", ...).values, every=True, over="network",
            reason="theory: above 0.97", quote="Replace archetypes by a sample of examples",
        ),
        at_least(
            "and the worst archetype of every network with them", source=SOURCE, expected=0.9,
            measured=most["lowest"].transpose("network", ...).values, every=True, over="network",
            reason="theory's 0.97 less four standard deviations of the neurons",
            quote="Replace archetypes by a sample of examples",
        ),
        at_least(
            "Supervision never hurts: smallest advantage in theory", source=SOURCE, expected=0,
            measured=(teacher - alone).min(), tolerance=1e-9, reason="rounding", ours=True,
        ),
        at_most(
            "also where only one of them retrieves: points at which only the unsupervised rule does", source=SOURCE,
            expected=0.0,
            measured=(alone.notnull() & teacher.isnull()).sum(), ours=True,
        ),
        at_least(
            "Nor does it in simulation: smallest advantage over its standard error", source=SOURCE, expected=-3.0, ours=True,
            measured=(helped / (dataset["error"] ** 2).sum("rule") ** 0.5).min(),
            reason="three standard errors, the lowest of some tens",
        ),
        at_most(
            f"With M = {int(least['examples'])} the archetypes are not known: largest overlap at T = 0", source=SOURCE,
            expected=0.95, measured=least["overlap"].sel(temperature=0.0).transpose("network", ...).values, every=True,
            over="network", reason="theory: no retrieval; what is left is a remnant",
        ),
        at_most(
            f"Nor are they at the highest temperature: largest overlap with M = {int(least['examples'])}", source=SOURCE,
            expected=0.5, measured=least["overlap"].isel(temperature=-1).transpose("network", ...).values, every=True,
            over="network", ours=True, reason="noise leaves no remnant of a state that is none of equilibrium",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(examples=(5, 20, 80)),
    "paper": replace(Config(), size=1000, count=20, examples=(5, 7, 10, 14, 20, 28, 40, 56, 80), sweeps=60, repeats=5),
}
DIFFERS = {name: ("quality, quantities and temperatures are ours: the lecture gives none",) for name in PRESETS}
