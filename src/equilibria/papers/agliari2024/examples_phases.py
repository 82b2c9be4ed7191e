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
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
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
    networks: int = 2
    equal: float = 0.05  # the entropy that data sets of several numbers of examples are given
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


def alike(rule: int, data: int, network: int, seed: int, key: Array, *, config: Config) -> dict[str, float]:
    """One cell: a network awake, at half of the capacity, from as many examples as a data set has, of the entropy `equal`.

    Args:
        rule: the number of one of `RULES`.
        data: the number of the data set, whose quantity is taken, and not its quality.
        network: number of the network; it only enters the key.
        seed: likewise.
        key: of everything that is drawn.
        config: the figure's configuration.

    Returns:
        The overlap with the archetypes and its standard error.
    """
    supervised, many = list(RULES.values())[rule], config.examples[data]
    quality = float((1 + many * config.equal) ** -0.5)  # of ρ = (1 - r²) / (M r²)
    least = min(float(_capacity(config, which, config.equal, m)) for which in RULES.values() for m in config.examples)
    count = max(2, round(0.5 * least * config.size))  # the same load for all
    pattern_key, blur_key, walk_key = jax.random.split(fast(key), 3)
    archetypes = eq.data.random_patterns(count, config.size, key=pattern_key)
    blurred = eq.data.blurred_examples(archetypes, many, quality, key=blur_key)
    m = np.asarray(
        recall(
            eq.hopfield_from_examples(blurred, supervised=supervised), archetypes, temperature=config.temperature,
            sweeps=config.sweeps, key=walk_key,
        ), float,
    )  # fmt: skip
    return {"overlap": float(m.mean()), "error": float(m.std(ddof=1) / np.sqrt(len(m)))}


def _capacity(config: Config, supervised: bool, entropy: float, examples: int) -> np.ndarray:
    return eq.theory.hopfield_examples_capacity(
        config.temperature, entropy=entropy, examples=examples, supervised=supervised
    )


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Lines of theory against entropy and against temperature, and simulated networks below and above them."""
    heat = np.linspace(0.0, 0.95, config.lines)
    entropy = np.geomspace(0.003, 1.0, config.lines)
    by_heat, by_entropy = [], []
    for rule in RULES:
        for sleep in config.sleeps:
            by_heat.append([
                eq.theory.hopfield_examples_lines(heat, sleep=sleep, **_about(config, rule, data))[:2]
                for data in range(len(config.qualities))
            ])  # fmt: skip
            by_entropy.append([
                eq.theory.hopfield_examples_lines(
                    config.temperature, entropy=entropy, examples=many, supervised=RULES[rule], sleep=sleep
                )[:2]
                for many in config.examples
            ])  # fmt: skip
    shape = (len(RULES), len(config.sleeps))
    grid = {
        "rule": range(len(RULES)),
        "data": range(len(config.qualities)),
        "sleep": config.sleeps,
        "share": config.shares,
    }
    starts = {"network": range(config.networks), "seed": config.seed}
    cells = sweep(simulated, config, checkpoint, **grid, **starts)
    same = sweep(alike, config, checkpoint, rule=grid["rule"], data=grid["data"], **starts)
    names = ("load", "overlap", "error", "theory", "capacity")
    points = ("rule", "data", "sleep", "share", "network")
    return xr.Dataset(
        {
            "by_heat": (
                ("rule", "sleep", "data", "line", "heat"), np.reshape(by_heat, (*shape, len(config.qualities), 2, -1))),
            "by_entropy": (
                ("rule", "sleep", "data", "line", "entropy"),
                np.reshape(by_entropy, (*shape, len(config.qualities), 2, -1)),
            ),
            **{f"same_{name}": (("rule", "data", "network"), same[name].values) for name in ("overlap", "error")},
            "own_entropy": (
                "data", [_about(config, "supervised", data)["entropy"] for data in range(len(config.qualities))]
            ),
            **{name: (points, cells[name].values) for name in names},
            "quality": ("data", list(config.qualities)), "examples": ("data", list(config.examples)),
        },
        {
            "rule": list(RULES), "sleep": list(config.sleeps), "share": list(config.shares), "heat": heat,
            "entropy": entropy, "line": ["spinodal", "first order"],
        },
        {"temperature": config.temperature, "size": config.size, "equal": config.equal},
    )  # fmt: skip


def plot(dataset: xr.Dataset):
    """Where retrieval of archetypes ends (full) and ceases to be the state of lowest free energy (dashed): above in the
    plane of temperature and load, below in that of entropy and load, a column for each quantity of examples. Dots are simulated
    networks, filled where archetypes are kept (overlap above 0.7). Last row: simulated overlaps against theory below the
    capacity; across the edge; and data sets of one entropy and several quantities."""
    columns = max(3, dataset.sizes["data"])
    figure, axes = plots.panels(columns=columns, rows=3, size=(3.7, 2.9), squeeze=False)
    styles = [(rule, sleep) for rule in RULES for sleep in dataset["sleep"].values]
    for data in range(dataset.sizes["data"]):
        above, below = axes[0, data], axes[1, data]
        for colour, (rule, sleep) in zip(plots.PALETTE, styles, strict=False):
            here = dataset.sel(rule=rule, sleep=sleep).isel(data=data)
            name = f"{rule}, $t = {sleep:g}$"
            above.plot(here["by_heat"].sel(line="spinodal"), dataset["heat"], color=colour, label=name)
            above.plot(here["by_heat"].sel(line="first order"), dataset["heat"], "--", color=colour, linewidth=1)
            below.plot(dataset["entropy"], here["by_entropy"].sel(line="spinodal"), color=colour)
            below.plot(dataset["entropy"], here["by_entropy"].sel(line="first order"), "--", color=colour, linewidth=1)
            kept = (here["overlap"].mean("network") > 0.7).values
            for load, full in zip(here["load"].mean("network").values, kept, strict=True):
                dot = {"color": colour, "markersize": 4, "markerfacecolor": colour if full else "none"}
                above.plot(load, dataset.attrs["temperature"], "o", **dot)
                below.plot(float(here["own_entropy"]), load, "o", **dot)
        quality, many = float(dataset["quality"][data]), int(dataset["examples"][data])
        above.set(xlabel=r"load $\alpha$", ylabel="temperature $T$", ylim=(0, 1), xlim=(0, None))
        above.set_title(rf"$r = {quality:g}$, $M = {many}$")
        below.set(xscale="log", xlabel=r"entropy $\rho$ of the examples", ylabel=r"load $\alpha$", ylim=(0, None))
        below.set_title(rf"$T = {dataset.attrs['temperature']:g}$, $M = {many}$")
    for panel in axes[:2, dataset.sizes["data"] :].ravel():
        panel.set_visible(False)
    axes[0, 0].legend(fontsize=6)
    _simulated(axes[2], dataset, styles)
    axes[2, 2].set_xticks(dataset["examples"].values, [f"{many:d}" for many in dataset["examples"].values])
    axes[2, 2].minorticks_off()
    for panel in axes[2, 3:]:
        panel.set_visible(False)
    return figure


def _simulated(axes, dataset: xr.Dataset, styles: list) -> None:
    left, middle, right = axes[:3]
    for colour, (rule, sleep) in zip(plots.PALETTE, styles, strict=False):
        seen = dataset.sel(rule=rule, sleep=sleep)
        inside = seen["theory"].notnull()
        pairs = (seen[name].where(inside).values.ravel() for name in ("theory", "overlap"))
        left.plot(*pairs, "o", color=colour, markersize=3)
        ratio = (seen["load"] / seen["capacity"]).values.ravel()
        middle.plot(ratio, seen["overlap"].values.ravel(), "o", color=colour, markersize=3)
    left.plot([0, 1], [0, 1], color="0.5", linewidth=0.8)
    left.set(xlabel="overlap in theory", ylabel="overlap simulated", xlim=(0.6, 1.01), ylim=(0.6, 1.01))
    left.set_title(f"below the capacity, N = {dataset.attrs['size']}")
    middle.axvline(1, color="0.5", linewidth=0.8)
    middle.set(
        xlabel="load over the capacity of theory", ylabel="overlap simulated", ylim=(0, 1.02), title="across the edge"
    )
    for colour, rule in zip(plots.PALETTE, RULES, strict=False):
        here = dataset.sel(rule=rule)
        spread = here["same_overlap"].std("network")
        plots.simulation_points(
            right, dataset["examples"], here["same_overlap"].mean("network"), spread, colour=colour, label=rule
        )
    right.set(
        xscale="log",
        xlabel="examples $M$",
        ylabel="overlap simulated",
        title=rf"all of $\rho = {dataset.attrs['equal']:g}$",
    )
    right.legend()


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the slide says: the entropy of the data set falls with quality and quantity, and stands beside T, α and t."""
    # an overlap of a few hundred neurons is known to 1/sqrt(N) for each network, and to corrections of order 1/N
    gap = np.abs(dataset["overlap"] - dataset["theory"]) / (4 * dataset["error"] + 5 / dataset.attrs["size"])
    inside = gap.where(dataset["share"] < 0.7).stack(all=("rule", "data", "sleep", "share"))
    fall = dataset["overlap"].isel(share=0) - dataset["overlap"].isel(share=-1)
    lines = dataset["by_entropy"].sel(line="spinodal")
    awake, asleep = lines.isel(sleep=0), lines.isel(sleep=-1)
    same = dataset["same_overlap"]
    noise = 4 * dataset["same_error"].max("data") * np.sqrt(2) + 5 / dataset.attrs["size"]
    apart = (same.max("data") - same.min("data")) / noise
    return [
        *(
            at_most(
                f"ρ alone counts, {rule}: overlaps from data sets of one ρ, of several quantities and qualities, largest "
                "difference over its allowance", source=SOURCE, expected=1.0, measured=apart.sel(rule=rule).values, every=True,
                over="network", reason="four standard errors of a difference, and 5/N", quote="ρ ∝ 1/“quality” 1/“quantity”",
            )
            for rule in RULES
        ),
        at_least(
            "Loads at which archetypes are retrieved fall with the entropy: smallest fall between points of the line",
            source=SOURCE, expected=0.0, measured=-lines.diff("entropy").max().values,
            quote="ρ ∝ 1/quality 1/quantity",
        ),
        at_least(
            "Examples do in place of archetypes: smallest overlap at the lowest load, all rules, data sets and sleeps",
            source=SOURCE, expected=0.7, measured=dataset["overlap"].isel(share=0).transpose("network", ...).values,
            every=True, over="network", reason="kept, as the figure draws it: an overlap above 0.7",
            quote="Replace archetypes by a sample of examples",
        ),
        at_least(
            "A teacher helps: smallest difference of the loads, supervised minus unsupervised", source=SOURCE, expected=0.0,
            measured=(lines.sel(rule="supervised") - lines.sel(rule="unsupervised")).min().values, tolerance=1e-9,
            reason="rounding", ours=True,
        ),
        at_least(
            "Sleep stores more where the examples are good (entropy below 0.05): smallest gain", source=SOURCE, expected=0.0,
            measured=(asleep - awake).where(dataset["entropy"] < 0.05).min(("entropy", "rule", "data")).values, ours=True,
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
        not_testable(
            "Where the borders of the slide's diagrams lie", source=SOURCE,
            reason="pictures without numbers on their axes: the slide gives neither qualities nor quantities nor temperatures",
            quote="T, α, t",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(
        qualities=(0.9, 0.5), examples=(10, 80), lines=3, shares=(0.5, 1.25), size=150, chains=4, networks=1,
    ),
    "paper": Config(
        sleeps=(0.0, 5.0), lines=16, shares=(0.4, 0.6, 0.8, 1.2, 1.5), size=500, chains=20, sweeps=40, networks=5,
    ),
}  # fmt: skip
DIFFERS = {
    name: ("the lecture's diagrams carry no numbers: qualities, quantities and temperatures are ours",)
    for name in PRESETS
}
