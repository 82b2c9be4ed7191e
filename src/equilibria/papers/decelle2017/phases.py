"""Machines with modes in noise: their phases, sampled where theory predicts them, and the states by law of components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.frame import Experiment

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
    # Strengths in the sampled machines, begun in the second mode: Gaussian components leave it, the others stay. For those
    # the modes are closer: at 2.1 the uniform state is stable, but so soft (growth 0.85) that a machine of 4,000 left it.
    leaving: tuple[float, ...] = (2.6, 2.1, 0.0, 0.0)
    staying: tuple[float, ...] = (2.6, 2.47, 0.0, 0.0)
    seed: int = 0


class Machine(NamedTuple):
    """One machine of the ensemble (10)."""

    network: eq.Network
    visible: np.ndarray  # u, rescaled to components of order 1 (modes, visible)
    hidden: np.ndarray  # v, likewise

    @property
    def units(self) -> float:
        """L = sqrt(N_v N_h)."""
        return float(np.sqrt(self.visible.shape[1] * self.hidden.shape[1]))


def machine(strengths, *, noise: float, visible: int, aspect: float, law: str, random: np.random.Generator) -> Machine:
    """w_ij = sum_a w_a u_i^a v_j^a / L + r_ij with i.i.d. components of unit variance and r ~ N(0, noise^2 / L)."""
    hidden = round(aspect * visible)
    draws: dict[str, Callable[[tuple[int, int]], np.ndarray]] = {
        "gaussian": random.standard_normal,
        "uniform": lambda size: random.uniform(-(3**0.5), 3**0.5, size),
        "bernoulli": lambda size: random.choice([-1.0, 1.0], size),
    }
    draw = draws[law]
    u, v = draw((len(strengths), visible)), draw((len(strengths), hidden))
    units = np.sqrt(visible * hidden)
    weights = (u.T * strengths) @ v / units + noise / np.sqrt(units) * random.standard_normal((visible, hidden))
    layers = [eq.Layer(name, eq.Spin(), np.zeros(size)) for name, size in (("visible", visible), ("hidden", hidden))]
    return Machine(eq.Network(layers, [eq.Dense(("visible", "hidden"), weights)]), u, v)


def _everything(state):
    return state


class Measured(NamedTuple):
    """Order parameters of a sampled machine."""

    hidden: np.ndarray  # m_a = <sigma_a> / sqrt(L)
    visible: np.ndarray  # mbar_a
    hidden_overlap: float  # q, between the two halves of a chain's time
    visible_overlap: float


def measure(sampled: Machine, *, mode: int = 0, chains: int, sweeps: int, key) -> Measured:
    """Gibbs sampling from the state of a mode; the first third of the sweeps is left out."""
    begin = {"visible": np.sign(sampled.visible[mode]), "hidden": np.sign(sampled.hidden[mode])}
    how = eq.Sweeps(sweeps)
    _, states = eq.trajectory(
        sampled.network, how, begin, observe=_everything, chains=chains, show_progress=False, key=key
    )
    root = np.sqrt(sampled.units)
    found = []
    for name, components in (("hidden", sampled.hidden), ("visible", sampled.visible)):
        kept = np.asarray(states[name])[sweeps // 3 :]
        first, second = (half.mean(axis=0) for half in np.array_split(kept, 2))
        along = components @ kept.mean(axis=(0, 1)) / (np.sqrt(components.shape[1]) * root)
        found.append((along, float(np.mean(first * second))))
    (m, q), (mbar, qbar) = found
    return Measured(m, mbar, q, qbar)


def finite_size_error(states, strength: float, *, aspect: float, visible: int) -> np.ndarray:
    """By how much (m, mbar) of one machine of this size scatters about the first of `states`, to leading order.

    The averages E[v tanh] of (11)-(12) are means over N_h (or N_v) independent draws, and what they miss by goes around
    the equations: dm = (xi + w C xibar) / (1 - w^2 C Cbar), with the curvatures C = E[v^2 sech^2] and
    Var(v tanh) = 1 - C - E[v tanh]^2. This is one standard deviation.
    """
    root = aspect**0.25
    curve, curvebar = float(states.hidden_curvature[0, 0, 0]), float(states.visible_curvature[0, 0, 0])
    m, mbar = float(states.hidden[0, 0]), float(states.visible[0, 0])
    own = root**2 * (1 - curve - (m / root) ** 2) / (aspect * visible)
    ownbar = root**-2 * (1 - curvebar - (mbar * root) ** 2) / visible
    loop = 1 - strength**2 * curve * curvebar
    return np.sqrt([own + (strength * curve) ** 2 * ownbar, ownbar + (strength * curvebar) ** 2 * own]) / loop


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


def _samples(config: Config, random: np.random.Generator, key, progress) -> xr.Dataset:
    rows = []
    for index, (noise, strength) in enumerate(progress(config.sampled, "sampling", "machine")):
        here = machine(
            [strength], noise=noise, visible=config.visible, aspect=config.aspect, law="gaussian", random=random
        )
        seen = measure(here, chains=config.chains, sweeps=config.sweeps, key=jax.random.fold_in(key, index))
        theory = eq.theory.fixed_points([strength], noise=noise, aspect=config.aspect)
        error = finite_size_error(theory, strength, aspect=config.aspect, visible=config.visible)
        phase = 1 if abs(seen.hidden[0]) > ORDERED else 2 if seen.hidden_overlap > ORDERED else 0
        expected = 1 if theory.hidden[0, 0] > 1e-5 else 2 if theory.hidden_overlap[0] > 1e-5 else 0
        rows.append((
            phase, expected, seen.hidden[0], theory.hidden[0, 0], error[0], seen.visible[0], theory.visible[0, 0], error[1],
            seen.hidden_overlap, theory.hidden_overlap[0], theory.replicon[0],
        ))  # fmt: skip
    names = (
        "sampled_phase", "theory_phase", "sampled_m", "theory_m", "error_m", "sampled_mbar", "theory_mbar", "error_mbar",
        "sampled_q", "theory_q", "replicon",
    )  # fmt: skip
    columns = {name: ("point", np.array(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    sampled = np.array(config.sampled)
    return xr.Dataset(columns, {"point_noise": ("point", sampled[:, 0]), "point_strength": ("point", sampled[:, 1])})


def _states(config: Config) -> xr.Dataset:
    """How many stable states there are of one mode, and of several, for each law, at growing strength."""
    scale = np.array(config.scales)
    counts = np.zeros((len(LAWS), scale.size, 2), int)
    for row, law in enumerate(LAWS):
        for column, strength in enumerate(scale):
            found = eq.theory.fixed_points(strength * np.array(config.ratios), components=law, aspect=config.aspect)
            modes = (np.abs(found.hidden[found.stable]) > 1e-4).sum(axis=1)
            counts[row, column] = (modes == 1).sum(), (modes > 1).sum()
    return xr.Dataset(
        {"states": (("law", "scale", "kind"), counts)}, {"law": list(LAWS), "scale": scale, "kind": ["single", "mixed"]}
    )


def _kept(config: Config, random: np.random.Generator, key) -> xr.Dataset:
    """Machines begun in the state of their second mode: along which mode they are at the end."""
    noise, aspect = 0.1, config.aspect
    seen, expected = [], []
    for law in LAWS:
        strengths = config.leaving if law == "gaussian" else config.staying
        here = machine(strengths, noise=noise, visible=config.visible, aspect=aspect, law=law, random=random)
        seen.append(np.abs(measure(here, mode=1, chains=config.chains, sweeps=config.sweeps, key=key).hidden[:2]))
        theory = eq.theory.fixed_points(strengths, noise=noise, aspect=aspect, components=law)
        alone = theory.stable & (np.abs(theory.hidden[:, 0]) < 1e-6) & (theory.hidden[:, 1] > 1e-4)
        expected.append(theory.hidden[alone, 1].max(initial=0.0))
    return xr.Dataset({"kept": (("law", "begun_mode"), np.array(seen)), "kept_theory": ("law", np.array(expected))})


def run(config: Config, progress) -> xr.Dataset:
    """The diagram, machines sampled on it, and states by law, predicted and sampled."""
    random, key = np.random.default_rng(config.seed), jax.random.key(config.seed)
    sample_key, kept_key = jax.random.split(key)
    parts = [_diagram(config), _samples(config, random, sample_key, progress), _states(config)]
    attrs = {"visible": config.visible, "aspect": config.aspect, "ratio": config.leaving[1] / config.leaving[0]}
    return xr.merge([*parts, _kept(config, random, kept_key)]).assign_attrs(attrs)


def plot(dataset: xr.Dataset):
    """Phases with their lines and the sampled points; order parameters; stable states by law."""
    figure, (left, middle, right) = plots.panels(columns=3, size=(4.3, 3.9))
    shades = ["#f4f4f4", "#cfe3f1", "#f8ddc9"]
    left.pcolormesh(
        dataset["noise"], dataset["strength"], dataset["phase"].T, cmap=ListedColormap(shades), vmin=0, vmax=2
    )
    plots.theory_line(left, dataset["noise"], dataset["critical"], colour="black", linewidth=1.2)
    left.plot([1, 1], [0, 1], color="black", linewidth=1.2)
    plots.theory_line(
        left, dataset["at_line"], dataset["ordered_strength"], colour=plots.PALETTE[1], linestyle="--", label="AT line"
    )
    for phase, marker in enumerate("so^"):
        here = dataset["sampled_phase"] == phase
        label = f"sampled: {PHASES[phase]}"
        x, y = dataset["point_noise"][here], dataset["point_strength"][here]
        left.plot(x, y, marker, color=plots.PALETTE[(6, 0, 1)[phase]], label=label)
    left.set(xlim=(0.05, 3), ylim=(0.05, 3), xlabel="noise σ", ylabel="strength $w$ of the mode")
    left.set_title(f"phases (replica symmetric), κ = {dataset.attrs['aspect']:g}, Gaussian components")
    left.grid(visible=False)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    ferro = dataset["theory_phase"] == 1
    for colour, name, label in ((0, "m", "$m$"), (2, "mbar", r"$\bar m$")):
        plots.simulation_points(
            middle, dataset[f"theory_{name}"], dataset[f"sampled_{name}"], dataset[f"error_{name}"].where(ferro),
            colour=plots.PALETTE[colour], label=label,
        )  # fmt: skip
    firm = dataset["replicon"] < 1
    q, measured = dataset["theory_q"], dataset["sampled_q"]
    plots.simulation_points(middle, q[firm], measured[firm], colour=plots.PALETTE[3], label="$q$", marker="s")
    plots.simulation_points(
        middle, q[~firm], measured[~firm], colour=plots.PALETTE[1], label="$q$ beyond the AT line", marker="^"
    )
    middle.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    middle.set(xlabel="saddle point (11)-(12)", ylabel=f"Gibbs sampling, $N_v$ = {dataset.attrs['visible']}")
    middle.set_title("order parameters; bars: finite-size scatter of a machine")
    middle.legend(loc="upper left")
    laws, places = dataset["law"].values, np.arange(dataset.sizes["scale"])
    for index, law in enumerate(laws):
        single, mixed = (dataset["states"].sel(law=law, kind=kind) for kind in ("single", "mixed"))
        bar = {"x": places + 0.28 * (index - 1), "width": 0.25, "color": plots.PALETTE[index]}
        right.bar(height=single, label=f"{law}: one mode", **bar)
        right.bar(height=mixed, bottom=single, alpha=0.45, label=f"{law}: mixtures" if mixed.any() else None, **bar)
    right.set_xticks(places, [f"{scale:g}" for scale in dataset["scale"].values])
    right.set(xlabel="strength of the strongest of four modes", ylabel="stable states (up to signs)")
    right.set_title("stable states by law of the components")
    right.legend(loc="upper left")
    return figure


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


experiment = Experiment(
    id="decelle2017/phases",
    title="Phase diagram of the ensemble with the AT line, sampled machines, and stable states by law",
    presets={
        "quick": Config(),
        "full": Config(
            points=60, visible=4000, chains=16, sweeps=400, scales=tuple(1.5 + 0.5 * step for step in range(10)), seed=1
        ),
    },
    run=run,
    plot=plot,
    claims=claims,
)
