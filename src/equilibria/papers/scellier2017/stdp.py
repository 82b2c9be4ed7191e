"""Spike-timing dependent plasticity: for a pair of spikes, and along the nudged phase against the contrast of its two ends.

For a pair of spikes: two neurons' states wander independently, s(t) with correlation exp(-|t|/τ) and unit variance, and fire at
the rate ρ(s). Given that i fired at 0 and j at Δ, rule (44) changes W_ij on average by

    ∫ E[ρ(s_i(t)) | spike at 0] d/dt E[s_j(t) | spike at Δ] dt,      E[x(t) | spike at 0] = E[x(t) ρ(s(0))] / E[ρ]

which is the rule's reading of an experiment in which pairs of spikes are what is known (Bengio et al. 2015a).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.ticker import NullFormatter

from equilibria import plots
from equilibria.energies.implicit import Implicit
from equilibria.learn.stdp import stdp
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable
from equilibria.papers.scellier2017.energy import draw, energy, rates


@dataclass(frozen=True)
class Config:
    """Networks of `neurons` nudged by `nudge` for a time `duration`, in Euler steps of each of `steps`."""

    neurons: int = 12
    nudge: float = 1.0
    duration: float = 10.0
    steps: tuple[float, ...] = (0.5, 0.25, 0.125, 0.0625, 0.03125)
    spikes: int = 200_000  # of each neuron, whose surroundings are averaged
    seeds: int = 5  # networks, and sets of spikes
    seed: int = 0


LAGS = np.linspace(-4, 4, 81)  # in units of the correlation time
STEP, REACH = 0.05, 6.0


def firing(state: np.ndarray) -> np.ndarray:
    """A firing rate between 0 and 1."""
    return 1 / (1 + np.exp(-2 * state))


def around_spikes(count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The mean rate and the mean state at times -6 to 6 around a spike, from `count` stretches of a wandering state.

    Each stretch is drawn outwards from its middle, where a spike is as likely as the rate there; stretches are weighted by it,
    and each comes with its mirror image -s, which is as likely.
    """
    half, keep = round(REACH / STEP), np.exp(-STEP)
    middle = random.normal(size=count)
    weight = firing(middle)

    def averages(here: np.ndarray) -> tuple[float, float]:
        rate = np.mean(weight * firing(here) + (1 - weight) * firing(-here))
        return rate, np.mean((2 * weight - 1) * here)

    found = np.zeros((2 * half + 1, 2))
    found[half] = averages(middle)
    for side in (-1, 1):
        here = middle
        for index in range(1, half + 1):
            here = keep * here + np.sqrt(1 - keep**2) * random.normal(size=count)
            found[half + side * index] = averages(here)
    return found[:, 0], found[:, 1]


def pair_curve(rate: np.ndarray, state: np.ndarray) -> np.ndarray:
    """The change of a synapse by (44) for a pair of spikes at each of `LAGS`, the postsynaptic one later where positive."""
    times = (np.arange(len(rate)) - len(rate) // 2) * STEP
    slope = np.gradient(state, STEP)
    return np.array([np.trapezoid(rate * np.interp(times - lag, times, slope, 0.0, 0.0), times) for lag in LAGS])


def exact_curve() -> np.ndarray:
    """The same without noise: E[s(t) | spike] = exp(-|t|) E[sρ]/E[ρ], and the rate by quadrature over two normals."""
    half = round(REACH / STEP)
    times = np.arange(-half, half + 1) * STEP
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    mean = weights @ firing(nodes)
    keep = np.exp(-np.abs(times))
    spread = np.sqrt(1 - keep**2)
    later = firing(keep[:, None, None] * nodes[:, None] + spread[:, None, None] * nodes) @ weights
    rate = later @ (weights * firing(nodes)) / mean
    return pair_curve(rate, keep * (weights @ (nodes * firing(nodes))) / mean)


def nudged(seed: int, config: Config) -> dict[str, np.ndarray]:
    """The change of every pair of neurons of one network by the rule (45), and ρρ at the end minus at the start (47).

    Args:
        seed: of the network.
        config: the figure's configuration.

    Returns:
        By step: the change by either sum, the contrast, the largest difference of a synapse and its mirror image that are
        not tied, and the largest difference of (45) from ρ'(s_j) times (44), step by step, relative; and the finest path.
    """
    parameters, start, world = draw(seed, config.neurons)
    pairs = np.triu_indices(config.neurons, 1)
    rows: dict[str, list] = {name: [] for name in ("change", "contrast", "asymmetry", "factor")}
    with jax.enable_x64(True):
        free = Implicit(energy, step=0.2, steps=5000).fixed_point(parameters, 0.0, start, world)
        for step in config.steps:
            flow = Implicit(energy, step=step, steps=round(config.duration / step))
            states = np.asarray(flow.path(parameters, config.nudge, free.state, world))
            path = rates(jnp.asarray(states))
            rows["change"].append([np.asarray(stdp(path, rule=rule))[pairs] for rule in ("left", "trapezoid")])
            alone = np.asarray(stdp(path, tied=False))
            rows["asymmetry"].append(np.abs(alone - alone.T).max())
            ends = np.asarray(path)[[0, -1]]
            rows["contrast"].append((np.outer(ends[1], ends[1]) - np.outer(ends[0], ends[0]))[pairs])
            rows["factor"].append(_factor(states))
    return {name: np.array(values) for name, values in rows.items()} | {"path": np.asarray(path)}


def _factor(states: np.ndarray) -> float:
    """How far integrals of ρ(s_i) dρ(s_j) are from those of ρ(s_i) ρ'(s_j) ds_j, with ρ' before each step, relative."""
    before, after = np.tanh(states[:-1]), np.tanh(states[1:])
    by_rate = before.T @ (after - before)  # (45)
    by_state = before.T @ ((1 - before**2) * np.diff(states, axis=0))  # (44), with the factor
    return float(np.linalg.norm(by_rate - by_state) / np.linalg.norm(by_rate))


def run(config: Config, progress) -> xr.Dataset:
    """Pairs of spikes, and networks in the nudged phase."""
    networks = [nudged(config.seed + index, config) for index in progress(range(config.seeds), "networks", "network")]
    drawn = [np.random.default_rng(config.seed + index) for index in range(config.seeds)]
    axes = {
        "change": ("step", "rule", "pair"),
        "contrast": ("step", "pair"),
        "asymmetry": ("step",),
        "factor": ("step",),
    }
    return xr.Dataset(
        {
            "curve": (("start", "lag"), [pair_curve(*around_spikes(config.spikes, random)) for random in drawn]),
            "exact": ("lag", exact_curve()),
            **{name: (("network", *rest), np.stack([each[name] for each in networks])) for name, rest in axes.items()},
            "path": (("time", "neuron"), networks[0]["path"]),
        },
        {
            "step": list(config.steps),
            "rule": ["left", "trapezoid"],
            "time": np.arange(len(networks[0]["path"])) * config.steps[-1],
            "lag": LAGS,
        },
    )


def _errors(dataset: xr.Dataset) -> xr.DataArray:
    missed = dataset["change"] - dataset["contrast"]
    return ((missed**2).sum("pair") / (dataset["contrast"] ** 2).sum("pair")) ** 0.5


def plot(dataset: xr.Dataset):
    """The change for a pair of spikes; rates in the nudged phase; changes against the contrast; the error against the step."""
    figure, ((pair, first), (second, third)) = plots.panels(2, 2, size=(4.6, 3.3))
    plots.theory_line(pair, dataset["lag"], dataset["exact"], label="exact")
    some = dataset.isel(lag=slice(None, None, 5))
    plots.simulation_points(
        pair, some["lag"], some["curve"].mean("start"), some["curve"].std("start"), label="spikes drawn"
    )
    pair.axhline(0, color="0.4", linewidth=0.8)
    pair.axvline(0, color="0.4", linewidth=0.8)
    pair.set(xlabel=r"$t_{post} - t_{pre}$, in $\tau$", ylabel=r"change of $W_{ij}$ by (44)", title="a pair of spikes")
    pair.legend(loc="upper left")
    first.plot(dataset["time"], dataset["path"] - dataset["path"].isel(time=0), linewidth=1)
    first.set(xlabel="time", ylabel=r"$\rho(s) - \rho(s^0)$", title="the nudged phase")
    one = dataset.isel(network=0)
    ends = [float(one["contrast"].min()), float(one["contrast"].max())]
    plots.theory_line(second, ends, ends, colour="black", label="equal")
    fine, coarse = (one["change"].isel(step=step).sel(rule="left") for step in (-1, 0))
    plots.simulation_points(
        second, one["contrast"].isel(step=0), coarse, colour=plots.PALETTE[1], marker="s", label="step 0.5"
    )
    second.plot(one["contrast"].isel(step=-1), fine, ".", color=plots.PALETTE[0], zorder=4, label="finest step")
    second.set(xlabel=r"$\rho_i^\xi \rho_j^\xi - \rho_i^0 \rho_j^0$ (47)", ylabel=r"$\int dW_{ij}$ by (45)")
    second.legend()
    errors, factor = _errors(dataset).sel(rule="left"), dataset["factor"]
    plots.simulation_points(
        third, dataset["step"], errors.mean("network"), errors.std("network"), label="(45) from (47)"
    )
    plots.simulation_points(
        third, dataset["step"], factor.mean("network"), factor.std("network"), colour=plots.PALETTE[1], marker="s",
        label=r"$\rho'(s_j)$ times (44) from (45)",
    )  # fmt: skip
    guide = errors.mean("network")[-1] * dataset["step"] / dataset["step"][-1]
    plots.theory_line(third, dataset["step"], guide, colour="black", linestyle="--", label="order 1")
    third.set(xscale="log", yscale="log", xlabel=r"step $\epsilon$", ylabel="relative error")
    third.xaxis.set_minor_formatter(NullFormatter())
    third.set_title("convergence")
    second.set_title("every pair of neurons")
    third.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The integral of the local rule is the contrast."""
    errors = _errors(dataset)
    left, factor = errors.sel(rule="left").transpose("network", "step").values, dataset["factor"].values
    curve, after, before = dataset["curve"], dataset["lag"] > 0.05, dataset["lag"] < -0.05
    near, far = abs(curve).sel(lag=[-1, 1], method="nearest"), abs(curve).sel(lag=[-4, 4], method="nearest")
    return [
        at_least(
            "A presynaptic spike before a postsynaptic one strengthens the synapse: smallest change, up to 4τ apart",
            source="Eq. (44)", expected=0.0, measured=curve.where(after, drop=True).values, every=True,
            quote="then one recovers the experimental observations by Bi and Poo (2001) in biological neurons",
        ),
        at_most(
            "One after it weakens it: largest change", source="Eq. (44)", expected=0.0,
            measured=curve.where(before, drop=True).values, every=True,
            quote="then one recovers the experimental observations by Bi and Poo (2001) in biological neurons",
        ),
        at_most(
            "Spikes far apart change little: change at 4τ over that at τ", source="Eq. (44); Bi and Poo 2001", expected=0.25,
            measured=far.values / near.values, reason="exponential windows of one time constant: about 4 exp(-3) = 0.2",
        ),
        at_most(
            "Drawn spikes follow the exact average: largest difference over the largest change", source="above", expected=0.0,
            measured=abs(curve - dataset["exact"]).max("lag").values / float(abs(dataset["exact"]).max()),
            tolerance=0.05, ours=True, reason="averages over some hundred thousand stretches, differentiated",
        ),
        close(
            "The rule with the rate before each step converges to the contrast: order in the step", source="Eq. (45)-(47)",
            expected=1, measured=np.log2(left[:, -2] / left[:, -1]), every=True, over="network", tolerance=0.1,
            reason="next order at a step of 0.06",
            quote="the update rule Eq. 36 can be interpreted as a continuous-time integration of the learning rule Eq. 45",
        ),
        at_most(
            "(44) and (45) differ by the factor ρ'(s_j): largest relative difference of their integrals with it, finest step",
            source="Eq. (44)-(45)", expected=0.0, measured=factor[:, -1], every=True, over="network",
            tolerance=float(dataset["step"][-1]), reason="of first order in the step, and less than it",
            quote="The two rules Eq. 44 and Eq. 45 are the same up to a factor ρ'(s_j)",
        ),
        close(
            "which vanishes with the step: its order", source="Eq. (44)-(45)", expected=1, every=True, over="network",
            measured=np.log2(factor[:, -2] / factor[:, -1]), tolerance=0.1, reason="next order at a step of 0.06", ours=True,
        ),
        not_testable(
            "(45) is the rule that Xie and Seung studied", source="section 3.4", reason="a statement about another paper",
            quote="which is also the one studied by Xie and Seung (2000)",
        ),
        at_most(
            "In symmetrised form the sum telescopes at any step: largest relative error", source="Eq. (46)", expected=0.0,
            measured=errors.sel(rule="trapezoid").transpose("network", "step").values, every=True, over="network",
            tolerance=1e-12, reason="float64",
            quote="dW_ij/dt ∝ ρ(s_i) dρ(s_j)/dt + ρ(s_j) dρ(s_i)/dt = d/dt ρ(s_i) ρ(s_j)",
        ),
        at_least(
            "Untied, a synapse and its mirror image would change differently: largest difference", source="Section 3.4",
            expected=1e-3, measured=dataset["asymmetry"].isel(step=-1).values, every=True, over="network", ours=True,
            reason="far above rounding: that the two must be added is no matter of form",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(spikes=50_000, seeds=2),
    "paper": Config(neurons=100, steps=tuple(0.5 / 2**power for power in range(8)), spikes=400_000),
}
DIFFERS = {name: ("ρ = tanh along the nudged phase; pairs of spikes are our reading of (44)",) for name in PRESETS}
