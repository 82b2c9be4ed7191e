"""Machines with modes in noise: their phases, sampled where theory predicts them, and the states by law of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax import Array
from matplotlib.colors import ListedColormap

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim
from equilibria.papers.decelle2017 import ensemble
from equilibria.papers.decelle2017.ensemble import Machine, finite_size_error, measure
from equilibria.papers.decelle2017.statements import phase_claims
from equilibria.papers.sweep import sweep
from equilibria.theory.rbm.components import ListedLaw

LAWS = ("gaussian", "uniform", "bernoulli")
PHASES = ("paramagnet", "ferromagnet", "spin glass")
KURTOSIS = (
    1.0,
    1.2,
    1.5,
    2.0,
    2.4,
    3.0,
    4.0,
    6.0,
)  # of components that are 0 but for 12 / kurtosis of 12, which are +-1
ORDERED = 0.1  # an order parameter of a sampled machine below this counts as zero


@dataclass(frozen=True)
class Config:
    """A diagram of `points` x `points`, machines sampled at (noise, strength) in `sampled`, and modes for the states."""

    points: int = 25
    visible: int = 2000
    aspect: float = 0.5
    chains: int = 8
    sweeps: int = 120
    sampled: tuple[tuple[float, float], ...] = (
        (0.3, 0.6), (0.6, 0.4), (0.3, 1.5), (0.6, 2.0), (1.0, 2.0), (0.3, 2.6), (2.0, 0.5), (2.4, 1.2),
    )  # fmt: skip
    ratios: tuple[float, ...] = (1.0, 0.97, 0.94, 0.91)  # of the strengths of modes whose states are counted
    scales: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0, 6.0)  # the strongest of them
    # Strengths in the sampled machines, begun in the second mode, the same for all laws: Gaussian components should leave it,
    # the others stay.
    begun: tuple[float, ...] = (2.6, 2.1, 0.0, 0.0)
    seeds: int = 1  # machines of each kind that is sampled
    seed: int = 0


def _diagram(config: Config) -> xr.Dataset:
    noise, strength = np.linspace(0.05, 3.0, config.points), np.linspace(0.05, 3.0, config.points)
    grid = eq.theory.phase_diagram(noise, strength, aspect=config.aspect)
    beyond = strength[strength > 1.0]
    return xr.Dataset(
        {
            "phase": grid["phase"],
            "residual": grid["residual"].max(),
            "at_line": ("ordered_strength", eq.theory.breaking_line(beyond, aspect=config.aspect)),
            "critical": ("noise", eq.theory.critical_strength(noise, aspect=config.aspect)),
        },
        {"ordered_strength": beyond},
    )


def sampled(point: int, machine: int, seed: int, key: Array, *, config: Config) -> dict[str, float]:
    """One cell: a machine of one mode at a point of the diagram, sampled, beside theory; `machine` and `seed` only
    enter the key."""
    noise, strength = config.sampled[point]
    here = _drawn(config, [strength], noise, "gaussian", key)
    seen = measure(here, chains=config.chains, sweeps=config.sweeps, key=key)
    theory = eq.theory.fixed_points([strength], noise=noise, aspect=config.aspect)
    error = finite_size_error(theory, strength, aspect=config.aspect, visible=config.visible)
    m, q, replicon = theory.hidden[0, 0], theory.hidden_overlap[0], theory.replicon[0]
    return {
        "sampled_phase": 1 if abs(seen.hidden[0]) > ORDERED else 2 if seen.hidden_overlap > ORDERED else 0,
        "theory_phase": 1 if m > 1e-5 else 2 if q > 1e-5 else 0,
        "sampled_m": seen.hidden[0], "theory_m": m, "error_m": error[0],
        "sampled_mbar": seen.visible[0], "theory_mbar": theory.visible[0, 0], "error_mbar": error[1],
        "sampled_q": seen.hidden_overlap, "theory_q": q, "replicon": replicon,
    }  # fmt: skip


def _drawn(config: Config, strengths: Sequence[float], noise: float, law: str, key: Array) -> Machine:
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    return ensemble.machine(
        strengths, noise=noise, visible=config.visible, aspect=config.aspect, law=law, random=random
    )


def counted(law: str, scale: float, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: how many stable states of one mode, and of several, components of a law have at a strength."""
    return _counts(scale * np.array(config.ratios), law, config.aspect)


def dialled(kurtosis: float, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: the same at the largest strength, for components of -1, 0 and +1 with this kurtosis."""
    found = _counts(max(config.scales) * np.array(config.ratios), three_valued(kurtosis), config.aspect)
    return {f"dial_{name}": value for name, value in found.items()}


def three_valued(kurtosis: float) -> ListedLaw:
    """The law of components -a, 0 and a of unit variance with this kurtosis, 12 over a whole number."""
    ones = round(12 / kurtosis)
    return ListedLaw(np.r_[np.ones(ones), np.zeros(12 - ones)])


def _counts(strengths: np.ndarray, law: Any, aspect: float) -> dict[str, np.ndarray]:
    """How many stable states have one mode and how many several, and which mode is largest in the best of them."""
    # Where kurtosis is large all modes may be mixed in the only stable state: mixtures of all of them are looked for.
    found = eq.theory.fixed_points(strengths, components=law, aspect=aspect, mixtures=len(strengths))
    modes = (np.abs(found.hidden[found.stable]) > 1e-4).sum(axis=1)
    return {
        "states": np.array([(modes == 1).sum(), (modes > 1).sum()]),
        "leading": np.array(np.abs(found.hidden[0]).argmax()),
    }


def kept(law: str, machine: int, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a machine begun in the state of its second mode, and along which modes it is at the end."""
    noise, aspect = 0.1, config.aspect
    strengths = config.begun
    here = _drawn(config, strengths, noise, law, key)
    seen = measure(here, mode=1, chains=config.chains, sweeps=config.sweeps, key=key)
    theory = eq.theory.fixed_points(strengths, noise=noise, aspect=aspect, components=law)
    alone = theory.stable & (np.abs(theory.hidden[:, 0]) < 1e-6) & (theory.hidden[:, 1] > 1e-4)
    return {"kept": np.abs(seen.hidden[:2]), "kept_theory": theory.hidden[alone, 1].max(initial=0.0)}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The diagram, machines sampled on it, and states by law, predicted and sampled."""
    noise, strength = np.array(config.sampled).T
    machines = {"machine": range(config.seeds), "seed": config.seed}
    points = sweep(sampled, config, checkpoint, point=range(len(noise)), **machines).drop_vars("point")
    states = sweep(counted, config, checkpoint, law=LAWS, scale=config.scales)
    dial = sweep(dialled, config, checkpoint, kurtosis=KURTOSIS)
    begun = sweep(kept, config, checkpoint, law=LAWS, **machines)
    parts = [
        _diagram(config),
        points.assign_coords(point_noise=("point", noise), point_strength=("point", strength)),
        states.rename(states_0="kind").assign_coords(kind=["single", "mixed"]),
        dial.rename(dial_states_0="kind").assign_coords(kind=["single", "mixed"]),
        begun.rename(kept_0="begun_mode"),
    ]
    attrs = {"visible": config.visible, "aspect": config.aspect, "ratio": config.begun[1] / config.begun[0]}
    return xr.merge(parts).assign_attrs(attrs)


def plot(dataset: xr.Dataset):
    """Phases with their lines and the sampled points (of the first machine); order parameters of all machines; stable states
    by law, and by the kurtosis of three-valued components at the largest strength."""
    figure, axes = plots.panels(columns=2, rows=2, size=(5.0, 3.9))
    _phases(axes[0, 0], dataset.isel(machine=0))
    told = [name for name in dataset if set(dataset[name].dims) == {"point", "machine"}]
    _order_parameters(axes[0, 1], dataset[told].stack(sample=("point", "machine")))
    _stable_states(axes[1, 0], dataset)
    _dial(axes[1, 1], dataset)
    return figure


def _phases(axes, dataset: xr.Dataset) -> None:
    shades = ["#f4f4f4", "#cfe3f1", "#f8ddc9"]
    axes.pcolormesh(
        dataset["noise"], dataset["strength"], dataset["phase"].T, cmap=ListedColormap(shades), vmin=0, vmax=2
    )
    plots.theory_line(axes, dataset["noise"], dataset["critical"], colour="black", linewidth=1.2)
    axes.plot([1, 1], [0, 1], color="black", linewidth=1.2)
    plots.theory_line(
        axes, dataset["at_line"], dataset["ordered_strength"], colour=plots.PALETTE[1], linestyle="--", label="AT line"
    )
    for phase, marker in enumerate("so^"):
        here = dataset["sampled_phase"] == phase
        label = f"sampled: {PHASES[phase]}"
        x, y = dataset["point_noise"][here], dataset["point_strength"][here]
        axes.plot(x, y, marker, color=plots.PALETTE[(6, 0, 1)[phase]], label=label)
    axes.set(xlim=(0.05, 3), ylim=(0.05, 3), xlabel="noise σ", ylabel="strength $w$ of the mode")
    axes.set_title(f"phases (replica symmetric), κ = {dataset.attrs['aspect']:g}, Gaussian components")
    axes.grid(visible=False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _order_parameters(axes, dataset: xr.Dataset) -> None:
    ferro = dataset["theory_phase"] == 1
    for colour, name, label in ((0, "m", "$m$"), (2, "mbar", r"$\bar m$")):
        plots.simulation_points(
            axes, dataset[f"theory_{name}"], dataset[f"sampled_{name}"], dataset[f"error_{name}"].where(ferro),
            colour=plots.PALETTE[colour], label=label,
        )  # fmt: skip
    firm = dataset["replicon"] < 1
    q, measured = dataset["theory_q"], dataset["sampled_q"]
    plots.simulation_points(axes, q[firm], measured[firm], colour=plots.PALETTE[3], label="$q$", marker="s")
    plots.simulation_points(
        axes, q[~firm], measured[~firm], colour=plots.PALETTE[1], label="$q$ beyond the AT line", marker="^"
    )
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axes.set(xlabel="saddle point (11)-(12)", ylabel=f"Gibbs sampling, $N_v$ = {dataset.attrs['visible']}")
    axes.set_title("order parameters; bars: finite-size scatter of a machine")
    axes.legend(loc="upper left")


def _stable_states(axes, dataset: xr.Dataset) -> None:
    laws, places = dataset["law"].values, np.arange(dataset.sizes["scale"])
    for index, law in enumerate(laws):
        single, mixed = (dataset["states"].sel(law=law, kind=kind) for kind in ("single", "mixed"))
        bar = {"x": places + 0.28 * (index - 1), "width": 0.25, "color": plots.PALETTE[index]}
        axes.bar(height=single, label=f"{law}: one mode", **bar)
        axes.bar(height=mixed, bottom=single, alpha=0.45, label=f"{law}: mixtures" if mixed.any() else None, **bar)
    axes.set_xticks(places, [f"{scale:g}" for scale in dataset["scale"].values])
    axes.set(xlabel="strength of the strongest of four modes", ylabel="stable states (up to signs)")
    axes.set_title("stable states by law of the components")
    axes.legend(loc="upper left")


def _dial(axes, dataset: xr.Dataset) -> None:
    single, mixed = (dataset["dial_states"].sel(kind=kind) for kind in ("single", "mixed"))
    places = np.arange(dataset.sizes["kurtosis"])
    axes.bar(places, single, color=plots.PALETTE[0], label="one mode")
    axes.bar(places, mixed, bottom=single, color=plots.PALETTE[0], alpha=0.45, label="mixtures")
    axes.set_xticks(places, [f"{value:g}" for value in dataset["kurtosis"].values])
    axes.set(xlabel="kurtosis of components -1, 0, +1", ylabel="stable states (up to signs)")
    axes.set_title(f"the same by kurtosis, strength {float(dataset['scale'].max()):g}")
    axes.legend(loc="upper right")


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Sampled machines are where the saddle point says; only Gaussian components leave one state."""
    return phase_claims(dataset)


DIFFERS = {
    "quick": ("machines of 2,000 x 1,000 units, one of each kind, a diagram of 25 x 25",),
    "paper": (
        "the paper gives no diagram, sizes or strengths: kappa = 1/2, machines of 4,000 x 2,000 units, five of each kind",
        "K extensive with orthogonally invariant modes is a figure of its own, decelle2017/extensive",
    ),
}
PRESETS = {
    "quick": Config(scales=(1.5, 3.0, 6.0)),
    "paper": Config(
        points=60,
        visible=4000,
        chains=16,
        sweeps=400,
        scales=tuple(1.5 + 0.5 * step for step in range(10)),
        seeds=5,
        seed=1,
    ),
}
