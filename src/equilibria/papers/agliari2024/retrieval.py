"""A pattern recovered from noise by a Hopfield network, neuron by neuron, at the lecture's snapshots."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Config:
    """Random patterns at a `load`, and the ten bundled digits, both cued with a fraction of `flips`."""

    load: float = 0.05
    temperature: float = 0.2
    flips: float = 0.25
    sleep: float = 30.0
    digit: int = 3
    repeats: int = 1
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


def run(config: Config, progress) -> xr.Dataset:
    """Planted random patterns at a temperature, with theory; the digits at T = 0 by Hebb's rule and after sleep."""
    neurons = SIDE**2
    count = round(config.load * neurons)
    keys = jax.random.split(jax.random.key(config.seed), 2 * config.repeats + 1)
    planted = []
    for repeat in progress(range(config.repeats), "retrieval", "network"):
        patterns = np.asarray(random_patterns(count, neurons, key=keys[2 * repeat]))
        found = retrieve(eq.hopfield(patterns), patterns, config, config.temperature, keys[2 * repeat + 1])
        planted.append(found["overlap"])
    pictures = digit_patterns()
    rules = {"Hebb": 0.0, "sleep": config.sleep}
    recalled = [
        retrieve(eq.hopfield(pictures, sleep=sleep), pictures, config, 0.0, keys[-1]) for sleep in rules.values()
    ]
    chosen = [snapshot // STRIDE for snapshot in SNAPSHOTS]
    theory = eq.theory.hopfield(load=count / neurons, temperature=config.temperature)
    return xr.Dataset(
        {
            "planted_overlap": (("update", "pattern"), np.concatenate(planted, axis=1)),
            "digit_overlap": (("rule", "update", "digit"), np.stack([found["overlap"] for found in recalled])),
            "digit_energy": (("rule", "update", "digit"), np.stack([found["energy"] for found in recalled])),
            "snapshots": (
                ("rule", "snapshot", "row", "column"),
                np.stack([found["state"][chosen].reshape(-1, SIDE, SIDE) for found in recalled]),
            ),
            "theory": ((), float(theory.m)),
        },
        {"update": np.arange(SNAPSHOTS[-1] // STRIDE + 1) * STRIDE, "rule": list(rules), "snapshot": list(SNAPSHOTS)},
        {"patterns": count, "neurons": neurons},
    )


def plot(dataset: xr.Dataset):
    """Snapshots of one digit under each rule, and the overlaps of all patterns on the way."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1.1, 1]))
    grid = top.subplots(len(dataset["rule"]), len(dataset["snapshot"]))
    for line, rule in zip(grid, dataset["rule"].values, strict=True):
        for axes, snapshot in zip(line, dataset["snapshot"].values, strict=True):
            axes.imshow(dataset["snapshots"].sel(rule=rule, snapshot=snapshot), cmap="gray_r", vmin=-1, vmax=1)
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            if rule == dataset["rule"].values[0]:
                axes.set_title(f"n = {snapshot}", loc="center")
        line[0].set_ylabel(rule)
    left, right = bottom.subplots(1, 2, sharey=True)
    updates = dataset["update"]
    left.plot(updates, dataset["planted_overlap"], color=plots.PALETTE[4], linewidth=0.5, alpha=0.6)
    left.plot(updates, dataset["planted_overlap"].mean("pattern"), color=plots.PALETTE[0], label="mean of all patterns")
    left.axhline(float(dataset["theory"]), color="black", linestyle="--", linewidth=1, label="theory, N → ∞")
    left.set(title=f"{dataset.attrs['patterns']} random patterns, N = {dataset.attrs['neurons']}", ylabel="overlap $m$")
    for colour, rule in zip(plots.PALETTE, dataset["rule"].values, strict=False):
        lines = right.plot(updates, dataset["digit_overlap"].sel(rule=rule), color=colour, linewidth=1)
        lines[0].set_label(f"ten digits, {rule}")
    right.set(title="digits, T = 0")
    for axes in (left, right):
        axes.set(xlabel="single-neuron updates $n$")
        axes.legend(loc="upper right", bbox_to_anchor=(1, 0.95))
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Cues near a pattern end at it; the energy only falls; sleep tells correlated patterns apart."""
    final = dataset["planted_overlap"].isel(update=-1)
    digits_final = dataset["digit_overlap"].isel(update=-1)
    climbs = dataset["digit_energy"].diff("update").max()
    return [
        close(
            "Random patterns: the network ends at the overlap that theory gives, from cues with a quarter of the neurons wrong",
            source="slide 'The model works...', and AGS theory", expected=float(dataset["theory"]),
            measured=float(final.mean()), tolerance=0.02, reason="finite size: corrections of order 1/sqrt(784 * patterns)",
            quote="The model works (as a pattern reconstructor) if starting “near” a pattern ... the dynamics eventually "
            "converges to that pattern",
        ),
        at_least(
            "Digits after sleep: the worst of the ten is recovered",
            source="snapshots n = 0 ... 10780", expected=0.98, measured=float(digits_final.sel(rule="sleep").min()),
            ours=True,
        ),
        at_most(
            "Digits by Hebb's rule alone: their correlations interfere, the worst is not recovered",
            source="slide 'Revise Hebb's rule'", expected=0.9, measured=float(digits_final.sel(rule="Hebb").min()),
            ours=True,
        ),
        at_most(
            "At T = 0 the energy is a Lyapunov function: its largest rise between snapshots, per neuron",
            source="slide 'If T = 0 ... is a Lyapunov function'", expected=0.0, measured=float(climbs), tolerance=1e-6,
            reason="rounding in single precision",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(repeats=20)}
DIFFERS = {name: ("the bundled digits enlarged to 28 x 28 in place of the lecture's picture",) for name in PRESETS}
