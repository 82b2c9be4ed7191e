"""Machines with modes in noise: their phases, sampled where theory predicts them, and the states by law of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jax import Array
from matplotlib.colors import ListedColormap

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.ensemble import Machine, finite_size_error, machine, measure
from equilibria.papers.sweep import sweep

LAWS = ("gaussian", "uniform", "bernoulli")
PHASES = ("paramagnet", "ferromagnet", "spin glass")
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


def sampled(point: int, seed: int, key: Array, *, config: Config) -> dict[str, float]:
    """One cell: a machine of one mode at a point of the diagram, sampled, beside theory; `seed` only enters the key."""
    noise, strength = config.sampled[point]
    here = _machine(config, [strength], noise, "gaussian", key)
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


def _machine(config: Config, strengths: Sequence[float], noise: float, law: str, key: Array) -> Machine:
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    return machine(strengths, noise=noise, visible=config.visible, aspect=config.aspect, law=law, random=random)


def counted(law: str, scale: float, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: how many stable states of one mode, and of several, components of a law have at a strength."""
    found = eq.theory.fixed_points(scale * np.array(config.ratios), components=law, aspect=config.aspect)
    modes = (np.abs(found.hidden[found.stable]) > 1e-4).sum(axis=1)
    return {"states": np.array([(modes == 1).sum(), (modes > 1).sum()])}


def kept(law: str, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a machine begun in the state of its second mode, and along which modes it is at the end."""
    noise, aspect = 0.1, config.aspect
    strengths = config.begun
    here = _machine(config, strengths, noise, law, key)
    seen = measure(here, mode=1, chains=config.chains, sweeps=config.sweeps, key=key)
    theory = eq.theory.fixed_points(strengths, noise=noise, aspect=aspect, components=law)
    alone = theory.stable & (np.abs(theory.hidden[:, 0]) < 1e-6) & (theory.hidden[:, 1] > 1e-4)
    return {"kept": np.abs(seen.hidden[:2]), "kept_theory": theory.hidden[alone, 1].max(initial=0.0)}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The diagram, machines sampled on it, and states by law, predicted and sampled."""
    noise, strength = np.array(config.sampled).T
    points = sweep(sampled, config, checkpoint, point=range(len(noise)), seed=config.seed).drop_vars("point")
    states = sweep(counted, config, checkpoint, law=LAWS, scale=config.scales)
    begun = sweep(kept, config, checkpoint, law=LAWS, seed=config.seed)
    parts = [
        _diagram(config),
        points.assign_coords(point_noise=("point", noise), point_strength=("point", strength)),
        states.rename(states_0="kind").assign_coords(kind=["single", "mixed"]),
        begun.rename(kept_0="begun_mode"),
    ]
    attrs = {"visible": config.visible, "aspect": config.aspect, "ratio": config.begun[1] / config.begun[0]}
    return xr.merge(parts).assign_attrs(attrs)


def plot(dataset: xr.Dataset):
    """Phases with their lines and the sampled points; order parameters; stable states by law."""
    figure, (left, middle, right) = plots.panels(columns=3, size=(4.3, 3.9))
    _phases(left, dataset)
    _order_parameters(middle, dataset)
    _stable_states(right, dataset)
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


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Sampled machines are where the saddle point says; only Gaussian components leave one state."""
    ferro = dataset["theory_phase"] == 1
    misses = [
        float((np.abs(dataset[f"sampled_{name}"] - dataset[f"theory_{name}"]) / dataset[f"error_{name}"])[ferro].max())
        for name in ("m", "mbar")
    ]
    states = dataset["states"]
    strong = states.isel(scale=-1)
    kept = dict(zip(dataset["law"].values, dataset["kept"].values, strict=True))
    finite = (dataset.attrs["aspect"] * dataset.attrs["visible"]) ** -0.5
    weaker = [float(abs(kept[law][1] - dataset["kept_theory"].sel(law=law))) for law in ("uniform", "bernoulli")]
    return [
        at_most("Saddle points are solved: largest residual of (11)-(12)", source="eqs. (11)-(12)", expected=1e-8,
                measured=float(dataset["residual"])),
        at_most("Machines sampled in the three phases are found in the phase predicted: how many are not",
                source="phase diagram", expected=0, measured=int((dataset["sampled_phase"] != dataset["theory_phase"]).sum())),
        at_most(
            "Ferromagnet: m and mbar of sampled machines, largest distance from the saddle point in standard deviations",
            source="eqs. (11)-(12)", expected=3.5, measured=max(misses),
            reason="the scatter of one machine of this size, from the equations; 3.5 of them once in 270 such figures",
        ),
        at_most(
            "Gaussian components: largest number of stable states besides that of the strongest mode",
            source="'all other fixed points associated to lower modes can be shown to be unstable'", expected=0,
            measured=int(states.sel(law="gaussian").sum("kind").max() - 1),
        ),
        *(
            at_least(
                f"{law.capitalize()} components: stable states of single modes, of four, at the largest strength",
                source="'stable fixed points associated to many different single modes'", expected=4,
                measured=int(strong.sel(law=law, kind="single")),
            )
            for law in ("uniform", "bernoulli")
        ),
        at_least(
            "Bernoulli components: stable mixtures of modes at the largest strength (uniform ones: "
            f"{int(strong.sel(law='uniform', kind='mixed'))})",
            source="'or combinations of modes'", expected=1, measured=int(strong.sel(law="bernoulli", kind="mixed")),
        ),
        at_most(
            "Gaussian components: a machine begun in the weaker of two modes leaves it; what is left of its overlap",
            source="the same", expected=0.0, measured=float(kept["gaussian"][1]),
            tolerance=3 * finite / (1 - dataset.attrs["ratio"] ** 2),
            reason="modes overlap by 1/sqrt(N_h), raised by 1/(1 - (w_2/w_1)^2) around the equations; three of that",
        ),
        at_most(
            "Uniform and Bernoulli components: it stays; distance of its overlap from the saddle point",
            source="the same", expected=0.0, measured=max(weaker), tolerance=4 * finite,
            reason="finite size, of order 1/sqrt(N_h)",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(),
    "paper": Config(
        points=60, visible=4000, chains=16, sweeps=400, scales=tuple(1.5 + 0.5 * step for step in range(10)), seed=1
    ),
}
