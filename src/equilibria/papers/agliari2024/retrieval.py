"""A pattern recovered from noise by a Hopfield network, neuron by neuron, at the lecture's snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from scipy.ndimage import zoom

import equilibria as eq
from equilibria import plots
from equilibria.data import binarise, corrupt, digits, random_patterns
from equilibria.papers.claims import Claim, at_least, at_most, close

SIDE = 28  # the lecture's pictures are 28 x 28: its snapshots count updates of 784 neurons
SNAPSHOTS = (0, 196, 588, 2940, 10780)
STRIDE = 196  # every snapshot is a multiple of this
SMALL = 10  # neurons whose every state is looked at
HEATS = (0.01, 0.5, 1.0, 100.0)  # from hardly any noise to hardly anything else
DAMAGE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)  # fractions of wrong neurons in cues, T = 0


@dataclass(frozen=True)
class Config:
    """Random patterns at a `load`, and the ten bundled digits, both cued with a fraction of `flips`."""

    load: float = 0.05
    temperature: float = 0.2
    flips: float = 0.25
    sleep: float = 30.0
    digit: int = 3
    repeats: int = 1
    draws: int = 20_000  # states of the small network that are sampled at each temperature
    seed: int = 0


def digit_patterns() -> np.ndarray:
    """The first bundled digit of each class, drawn at 28 x 28, as spins."""
    bundle = digits()
    first = [bundle.train_images[np.flatnonzero(bundle.train_labels == label)[0]] for label in range(10)]
    return binarise(np.stack([zoom(image, SIDE / 8, order=1) for image in first]))


def retrieve(
    network: eq.Network, patterns: np.ndarray, config: Config, temperature: float, key
) -> dict[str, np.ndarray]:
    """Every pattern from its own noisy cue: overlaps and energies every 196 updates, and the states at the snapshots."""
    cue_key, run_key = jax.random.split(key)
    cues = corrupt(patterns, flips=config.flips, key=cue_key)

    def observe(state):
        own = (state["neurons"] * patterns).mean(-1)
        return {
            "overlap": own,
            "energy": network.energy(state) / patterns.shape[1],
            "state": state["neurons"][config.digit],
        }

    how = eq.Sweeps(SNAPSHOTS[-1] // STRIDE, visits=STRIDE)
    _, seen = eq.trajectory(network, how, cues, temperature=temperature, observe=observe, key=run_key)
    return {name: np.asarray(values, float) for name, values in seen.items()}


def law(config: Config) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The law of Boltzmann and Gibbs over all states of a small network, and how often the dynamics is in each of them.

    Args:
        config: the figure's configuration.

    Returns:
        Both (temperatures, states), the states from the lowest energy to the highest, and which of these are local minima.
    """
    patterns = random_patterns(3, SMALL, key=jax.random.key(config.seed + 1))
    network = eq.hopfield(patterns)
    states = np.array(list(product([-1.0, 1.0], repeat=SMALL)))
    energy = np.asarray(network.energy({"neurons": states}), float)  # type: ignore[type-var, dict-item]
    order = np.argsort(energy, kind="stable")
    exact, seen = [], []
    for index, heat in enumerate(HEATS):
        weight = np.exp(-(energy - energy.min()) / heat)
        exact.append((weight / weight.sum())[order])
        drawn = eq.sample(network, eq.Sweeps(60), chains=config.draws, temperature=heat, key=config.seed + index)
        place = (np.asarray(drawn["neurons"]) > 0) @ (2 ** np.arange(SMALL)[::-1])
        seen.append((np.bincount(place, minlength=len(states)) / config.draws)[order])
    neighbours = energy[np.arange(len(states))[:, None] ^ 2 ** np.arange(SMALL)]
    return np.array(exact), np.array(seen), (energy[:, None] < neighbours).all(1)[order]


def run(config: Config, progress) -> xr.Dataset:
    """Planted random patterns at a temperature, with theory; the digits at T = 0 by Hebb's rule and after sleep."""
    neurons = SIDE**2
    count = round(config.load * neurons)
    keys = jax.random.split(jax.random.key(config.seed), 2 * config.repeats + 1)
    planted, basins = [], []
    for repeat in progress(range(config.repeats), "retrieval", "network"):
        patterns = np.asarray(random_patterns(count, neurons, key=keys[2 * repeat]))
        found = retrieve(eq.hopfield(patterns), patterns, config, config.temperature, keys[2 * repeat + 1])
        planted.append(found["overlap"])
        cues = 1 - 2 * np.array(DAMAGE)
        basins.append(eq.basin_of_attraction(eq.hopfield(patterns), patterns, cues, key=repeat)["retrieved"].values)  # type: ignore[arg-type]
    pictures = digit_patterns()
    rules = {"Hebb": 0.0, "sleep": config.sleep}
    recalled = [
        retrieve(eq.hopfield(pictures, sleep=sleep), pictures, config, 0.0, keys[-1]) for sleep in rules.values()
    ]
    chosen = [snapshot // STRIDE for snapshot in SNAPSHOTS]
    theory = eq.theory.hopfield(load=count / neurons, temperature=config.temperature)
    exact, seen, minimum = law(config)
    return xr.Dataset(
        {
            "planted_overlap": (("network", "update", "pattern"), np.stack(planted)),
            "basin": (("network", "damage"), basins),
            "law": (("heat", "state"), exact),
            "visits": (("heat", "state"), seen),
            "minimum": ("state", minimum),
            "digit_overlap": (("rule", "update", "digit"), np.stack([found["overlap"] for found in recalled])),
            "digit_energy": (("rule", "update", "digit"), np.stack([found["energy"] for found in recalled])),
            "snapshots": (
                ("rule", "snapshot", "row", "column"),
                np.stack([found["state"][chosen].reshape(-1, SIDE, SIDE) for found in recalled]),
            ),
            "theory": ((), float(theory.m)),
        },
        {
            "update": np.arange(SNAPSHOTS[-1] // STRIDE + 1) * STRIDE, "rule": list(rules), "snapshot": list(SNAPSHOTS),
            "damage": list(DAMAGE), "heat": list(HEATS),
        },
        {"patterns": count, "neurons": neurons, "draws": config.draws},
    )  # fmt: skip


def plot(dataset: xr.Dataset):
    """Above: snapshots of one digit under each rule. Below: the overlaps of all patterns on the way; the share of patterns
    recovered from cues with some of their neurons wrong; visits of every state of a small network, against its law."""
    figure = Figure(figsize=(10, 8.2), layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1, 1.35]))
    grid = top.subplots(len(dataset["rule"]), len(dataset["snapshot"]))
    for line, rule in zip(grid, dataset["rule"].values, strict=True):
        for axes, snapshot in zip(line, dataset["snapshot"].values, strict=True):
            axes.imshow(dataset["snapshots"].sel(rule=rule, snapshot=snapshot), cmap="gray_r", vmin=-1, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            axes.spines[:].set_visible(True)
            if rule == dataset["rule"].values[0]:
                axes.set_title(f"n = {snapshot}", loc="center")
        line[0].set_ylabel(rule)
    (left, right), (basin, visits) = bottom.subplots(2, 2)
    updates = dataset["update"]
    planted = dataset["planted_overlap"].stack(all=("network", "pattern"))
    left.plot(updates, planted.isel(all=slice(None, 200)), color=plots.PALETTE[4], linewidth=0.5, alpha=0.6)
    left.plot(updates, planted.mean("all"), color=plots.PALETTE[0], label="mean of all patterns")
    left.axhline(float(dataset["theory"]), color="black", linestyle="--", linewidth=1, label="theory, N → ∞")
    left.set(title=f"{dataset.attrs['patterns']} random patterns, N = {dataset.attrs['neurons']}", ylabel="overlap $m$")
    for colour, rule in zip(plots.PALETTE, dataset["rule"].values, strict=False):
        lines = right.plot(updates, dataset["digit_overlap"].sel(rule=rule), color=colour, linewidth=1)
        lines[0].set_label(f"ten digits, {rule}")
    right.set(title="digits, T = 0", ylim=(None, 1.03))
    left.legend(loc="lower right")
    right.legend(loc="center right", bbox_to_anchor=(1, 0.82))
    for axes in (left, right):
        axes.set(xlabel="single-neuron updates $n$")
    basin.plot(
        dataset["damage"], dataset["basin"].T, "o-", color=plots.PALETTE[0], linewidth=0.8, markersize=3, alpha=0.6
    )
    basin.set(
        xlabel=r"wrong neurons at the start, over $N$", ylabel="patterns recovered", title="random patterns, T = 0"
    )
    for colour, heat in zip(plots.PALETTE, dataset["heat"].values, strict=False):
        here = dataset.sel(heat=heat)
        visits.plot(here["law"], here["visits"], ".", color=colour, markersize=4, label=f"$T = {heat:g}$")
    visits.plot([1e-4, 1], [1e-4, 1], color="0.5", linewidth=0.8)
    visits.set(
        xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(1e-5, 1), xlabel=r"$e^{-\beta H}/Z$", ylabel="share of visits"
    )
    visits.set_title(f"every state, N = {SMALL}")
    visits.legend(loc="upper left")
    return figure


def _distance(dataset: xr.Dataset) -> xr.DataArray:
    """The total variation between visits and the law, over what chance makes of it for independent draws."""
    gap = abs(dataset["visits"] - dataset["law"]).sum("state") / 2
    chance = np.sqrt(2 * dataset["law"] * (1 - dataset["law"]) / (np.pi * dataset.attrs["draws"])).sum("state") / 2
    return gap / chance


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Cues near a pattern end at it; the energy only falls; sleep tells correlated patterns apart."""
    final = dataset["planted_overlap"].isel(update=-1)
    whole = (dataset["basin"] == 1).values.cumprod(1).sum(1)  # so many of the damages, from the smallest on
    damage = np.concatenate([[0.0], dataset["damage"].values])
    lowest = dataset["law"].isel(heat=0)
    lowest_states = int((lowest > 0.9 * lowest.max()).sum())
    cold = dataset["visits"].sel(heat=0.01)
    ground = float(lowest.isel(state=slice(0, lowest_states)).sum())
    middle = dataset["visits"].sel(heat=[0.5, 1.0])
    peak = middle.isel(state=slice(0, lowest_states)).mean("state") / middle.isel(state=slice(lowest_states, None)).max(
        "state"
    )
    states = dataset.sizes["state"]
    digits_final = dataset["digit_overlap"].isel(update=-1)
    climbs = dataset["digit_energy"].diff("update").max()
    return [
        close(
            "Random patterns: the network ends at the overlap that theory gives, from cues with a quarter of the neurons wrong",
            source="slide 'The model works...', and AGS theory", expected=float(dataset["theory"]),
            measured=final.mean("pattern").values, over="network", tolerance=3 / np.sqrt(784 * final.size),
            reason="three times 1/sqrt(784 * patterns)",
            quote="The model works (as a pattern reconstructor) if starting “near” a pattern ... the dynamics eventually "
            "converges to that pattern",
        ),
        at_least(
            "and every one of them converges to its pattern: smallest overlap in the end", source="slide 'The model works...'",
            expected=0.9, measured=final.values, every=True, over="network",
            reason="theory's overlap at T = 0.2, less a few standard deviations of 784 neurons",
            quote="the dynamics eventually converges to that pattern",
        ),
        at_least(
            f"There is an ε > 0: largest of the damages tried up to which every pattern is recovered, T = 0, α = "
            f"{dataset.attrs['patterns'] / dataset.attrs['neurons']:.2g}",
            source="slide 'The model works...'", expected=DAMAGE[0], measured=damage[whole], every=True, over="network",
            reason="the smallest that was tried",
            quote="the Hamming distance between the initial point and the pattern is smaller than ϵN , for some ϵ > 0",
        ),
        at_most(
            f"Every state of {SMALL} neurons is visited as often as its law says: total variation, over that of chance",
            source="slide 'If T > 0, as long as J symmetric'", expected=1.3, every=True, over="temperature",
            measured=_distance(dataset).sel(heat=[0.5, 1.0, 100.0]).values,
            reason="1 on average over a thousand states, with a scatter of a few hundredths; few states count at low T",
            quote="P(σ) ∝ e^{−βH(σ)}, β := 1/T",
        ),
        at_most(
            "T → ∞: the law is uniform: largest probability of a state times their number, T = 100",
            source="slide 'Noisy limit'", expected=1.0, tolerance=0.1, reason="H/T is a few hundredths",
            measured=states * dataset["law"].sel(heat=100.0).max(), quote="Fully random dynamics σ_i(n+1) = ±1",
        ),
        at_most(
            "and so are the visits: total variation from a uniform law over that of chance, T = 100",
            source="slide 'Noisy limit'", expected=1.3, quote="Fully random dynamics σ_i(n+1) = ±1", reason="as above",
            measured=_distance(dataset.assign(law=0 * dataset["law"] + 1 / states)).sel(heat=100.0),
        ),
        at_least(
            "T → 0: the law is peaked at the states of lowest energy: their share, T = 0.01", source="slide 'Noiseless limit'",
            expected=0.99, measured=ground, quote="P(σ) delta-peaked at σ*",
            reason="all but one in a hundred: energies of ten neurons differ by at least 0.2, twenty times T",
        ),
        at_least(
            "and the dynamics ends at fixed points: share of visits at local minima, T = 0.01",
            source="slide 'Noiseless limit'",
            expected=0.99, measured=dataset["visits"].sel(heat=0.01).where(dataset["minimum"]).sum("state"),
            reason="as above", quote="Deterministic dynamics σ_i(n+1) = sgn(φ_i(n)); Fixed points dynamics σ* = argmin H",
        ),
        at_least(
            "and these are the lowest states: share of visits at the states of lowest energy, T = 0.01",
            source="slide 'Noiseless limit'", expected=0.99, measured=cold.isel(state=slice(0, lowest_states)).sum("state"),
            reason="as the law has it; listed after the run", quote="P(σ) delta-peaked at σ*; σ* = argmin H(σ)",
        ),
        at_least(
            "In between the law is peaked at the lowest states: visits of one of them over those of the most visited other "
            "state, T = 0.5 and 1", source="slide 'Intermediate regime'", expected=1.0, measured=peak.values, every=True,
            over="temperature", reason="more often than any other", quote="P(σ) peaked at σ*",
        ),
        at_least(
            "and a start ends in the neighbourhood of its fixed point: share of cues that end within a twentieth of the "
            f"neurons of their pattern, T = 0.2, {dataset.attrs['neurons']} neurons", source="slide 'Intermediate regime'",
            expected=0.5, measured=(final >= 0.9).mean("pattern").values, every=True, over="network",
            reason="'likely': more often than not; at T = 0 such cues end at their patterns",
            quote="Starting at σ_0, likely to end up in neighbourhood of σ*(σ_0, J)",
        ),
        at_least(
            "Digits after sleep: the worst of the ten is recovered",
            source="snapshots n = 0 ... 10780", expected=0.98, measured=float(digits_final.sel(rule="sleep").min()),
            ours=True, reason="one neuron in a hundred may be wrong",
        ),
        at_most(
            "Digits by Hebb's rule alone: their correlations interfere, the worst is not recovered",
            source="slide 'Revise Hebb's rule'", expected=0.9, measured=float(digits_final.sel(rule="Hebb").min()),
            ours=True, reason="one neuron in twenty is wrong",
        ),
        at_most(
            "At T = 0 the energy is a Lyapunov function: its largest rise between snapshots, per neuron",
            source="slide 'If T = 0 ... is a Lyapunov function'", expected=0.0, measured=float(climbs), tolerance=1e-6,
            reason="rounding in single precision",
            quote="If T = 0, as long as J symmetric, H(σ) is a Lyapunov function",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(repeats=10)}
DIFFERS = {name: ("the bundled digits enlarged to 28 x 28 in place of the lecture's picture",) for name in PRESETS}
