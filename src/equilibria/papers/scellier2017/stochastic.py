"""Appendix B: Theorem 3 and Proposition 4 by Langevin sampling, against quadrature with two neurons, and with more of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from scipy.stats import norm

from equilibria import plots
from equilibria.energies.stochastic import Stochastic
from equilibria.papers.claims import Claim, at_most
from equilibria.papers.scellier2017.energy import draw
from equilibria.papers.scellier2017.energy import energy as connected
from equilibria.papers.scellier2017.pair import (
    INFLUENCE,
    NOISES,
    PARAMETERS,
    START,
    TARGET,
    apart_from_boltzmann,
    energy,
)
from equilibria.papers.sweep import sweep

MORE = 1.0  # the temperature of larger networks


@dataclass(frozen=True)
class Config:
    """Chains of Langevin dynamics at each of `temperatures`, in as many `seeds`; larger networks have their own numbers."""

    temperatures: tuple[float, ...] = (0.5, 1.0, 2.0)
    chains: int = 400
    steps: int = 3000
    nudge: float = 0.1
    seeds: int = 1
    draws: int = 2000  # chains whose law is compared with that of Boltzmann
    many: tuple[int, ...] = (5, 10)  # neurons of fully connected networks
    many_chains: int = 100
    many_steps: int = 1000
    networks: int = 3
    seed: int = 0


def _cost(state):
    price = (state["output"] - TARGET) ** 2 / 2
    return {"mean": price, "square": price**2}


def _products(state):
    """dF/dθ."""
    slopes = jax.grad(energy)(PARAMETERS, INFLUENCE, state, TARGET)
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(slopes)])


def _exact_response(system: Stochastic, nudge: float) -> dict[str, np.ndarray]:
    """By quadrature: the differences of E[dF/dθ] and of E[C] that are sampled, at the same width, and -Var[C]/T (78)."""

    def everything(state):
        return {**_cost(state), "products": _products(state)}

    high, here, low = (
        system.exact(everything, PARAMETERS, INFLUENCE + move, START, TARGET, reach=15.0)
        for move in (nudge, 0.0, -nudge)
    )
    return {
        "exact_response": (high["products"] - low["products"]) / (2 * nudge),
        "exact_slope": (high["mean"] - low["mean"]) / (2 * nudge),
        "exact_variance": -(here["square"] - here["mean"] ** 2) / system.temperature,
    }


def _paired(parameters, influence, state, world):
    """The energy of a fully connected network whose weights are told pair by pair."""
    count = len(state)
    weights = jnp.zeros((count, count)).at[jnp.triu_indices(count, 1)].set(parameters["pairs"])
    whole = {"weights": weights, "biases": parameters["biases"], "input": parameters["input"]}
    return connected(whole, influence, state, world)


def fuller(neurons: int, network: int, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: both sides of the theorem and of the proposition in a fully connected network, where no quadrature reaches.

    Args:
        neurons: how many.
        network: its number.
        seed: of all of them.
        key: of the chains.
        config: the figure's configuration.

    Returns:
        The largest distance of the two sides in standard errors over all parameters, how many these are, their correlation,
        and the change of the expected cost and minus its variance, with errors.
    """
    drawn, start, world = draw(seed + network, neurons)
    pairs = np.triu_indices(neurons, 1)
    parameters = {"pairs": drawn["weights"][pairs], "biases": drawn["biases"], "input": drawn["input"]}
    system = Stochastic(_paired, temperature=MORE, step=0.5, steps=config.many_steps, chains=config.many_chains)
    first, second = jax.random.split(key)
    sides = system.check_theorem(parameters, INFLUENCE, start, world, nudge=config.nudge, key=first)
    nudging = system.check_proposition(parameters, INFLUENCE, start, world, nudge=config.nudge, key=second)
    left, right, gap, error = (
        np.ravel(x) for x in (sides.left.value, sides.right.value, sides.difference.value, sides.difference.error)
    )
    return {
        "sigmas": np.abs(gap / error).max(), "parameters": float(gap.size), "agree": np.corrcoef(left, right)[0, 1],
        "fall": np.ravel([nudging.left.value, nudging.right.value]),
        "fall_error": np.ravel([nudging.left.error, nudging.difference.error]),
    }  # fmt: skip


def two(temperature: float, start: int, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: both sides of (73) and of (78) with two neurons, sampled.

    Args:
        temperature: T.
        start: number of the set of chains; it only enters the key.
        seed: likewise.
        key: of the chains.
        config: the figure's configuration.

    Returns:
        Values with their standard errors.
    """
    first, second = jax.random.split(key)
    system = Stochastic(energy, temperature=temperature, step=0.5, steps=config.steps, chains=config.chains)
    sides = system.check_theorem(PARAMETERS, INFLUENCE, START, TARGET, nudge=config.nudge, key=first)
    nudging = system.check_proposition(PARAMETERS, INFLUENCE, START, TARGET, nudge=config.nudge, key=second)
    found = {"left": sides.left, "right": sides.right, "difference": sides.difference}
    found |= {"slope": nudging.left, "variance": nudging.right, "decline": nudging.difference}
    values = {name: np.ravel(estimate.value) for name, estimate in found.items()}
    return values | {f"{name}_error": np.ravel(estimate.error) for name, estimate in found.items()}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Both sides of (73) and of (78) with their standard errors, and both by quadrature; larger networks without it."""
    starts = {"start": range(config.seeds), "seed": config.seed}
    sampled = sweep(two, config, checkpoint, temperature=config.temperatures, **starts)
    names = ("left", "right", "difference", "slope", "variance", "decline")
    data: dict[str, Any] = {
        name + more: (("temperature", "start", _axis(name)), sampled[name + more].values)
        for name in names
        for more in ("", "_error")
    }
    exact = [_exact_response(Stochastic(energy, temperature=T, step=0.5), config.nudge) for T in config.temperatures]
    for name in exact[0]:
        axes = ("temperature", "parameter") if name == "exact_response" else ("temperature",)
        data[name] = (axes, np.stack([found[name] for found in exact]))
    cells = sweep(fuller, config, checkpoint, neurons=config.many, network=range(config.networks), seed=config.seed)
    for name in ("sigmas", "parameters", "agree", "fall", "fall_error"):
        data[name] = (("neurons", "network", "side")[: cells[name].ndim], cells[name].values)
    data |= {name: ("noise", values) for name, values in apart_from_boltzmann(config.draws, config.seed).items()}
    named = {"temperature": list(config.temperatures), "neurons": list(config.many), "noise": list(NOISES)}
    return xr.Dataset(data, named, {"draws": config.draws})


def _axis(name: str) -> str:
    return "parameter" if name in ("left", "right", "difference") else "cost"


def _sigmas(value: xr.DataArray, error: xr.DataArray, expected: Any = 0.0) -> np.ndarray:
    """Distances in standard errors, the sets of chains on the first axis."""
    return (np.abs(value - expected) / error).transpose("start", ...).values


def plot(dataset: xr.Dataset):
    """Above: responses and their exact values; the fall of the cost against the exact variance. Below: the same fall with more
    neurons; how far the law of Langevin dynamics is from e^(-F), and from e^(-2F/σ²), by its noise σ."""
    figure, ((left, right), (more, law)) = plots.panels(columns=2, rows=2, size=(4.6, 3.3))
    for colour, (name, label) in zip(
        plots.PALETTE, {"papers": "from $e^{-F}$ (67)", "scaled": r"from $e^{-2F/\sigma^2}$"}.items(), strict=False
    ):
        law.plot(dataset["noise"], dataset[name], "o-", color=colour, label=label)
    law.axhline(1.63 / np.sqrt(dataset.attrs["draws"]), color="0.5", linestyle="--", label="passed by chance in 1%")
    law.set(xlabel=r"noise $\sigma$ of (66)", ylabel="distance of the laws", yscale="log", title="Langevin dynamics")
    law.legend()
    for colour, neurons in zip(plots.PALETTE, dataset["neurons"].values, strict=False):
        here = dataset.sel(neurons=neurons)
        plots.simulation_points(
            more, here["fall"].isel(side=1), here["fall"].isel(side=0), here["fall_error"].isel(side=0), colour=colour,
            label=f"{neurons} neurons",
        )  # fmt: skip
    span = [float(dataset["fall"].min()), 0.0]
    plots.theory_line(more, span, span, colour="black", label="equal")
    more.set(xlabel=r"$-$Var$[C]/T$, sampled", ylabel=r"$dE[C]/d\xi$, sampled", title="fully connected networks")
    more.legend()
    ends = [float(dataset["exact_response"].min()), float(dataset["exact_response"].max())]
    plots.theory_line(left, ends, ends, colour="black", label="quadrature")
    for colour, (name, label) in zip(
        plots.PALETTE, {"left": "parameters moved", "right": "influence moved"}.items(), strict=False
    ):
        at, seen, error = xr.broadcast(dataset["exact_response"], dataset[name], dataset[f"{name}_error"])
        seen, error = seen.transpose(*at.dims), error.transpose(*at.dims)
        plots.simulation_points(
            left, at.values.ravel(), seen.values.ravel(), error.values.ravel(), colour=colour, label=label
        )
    left.set(xlabel="exact response", ylabel="sampled", title="Theorem 3, all temperatures")
    temperatures = dataset["temperature"]
    plots.theory_line(
        right, temperatures, dataset["exact_variance"], colour="black", label=r"$-$Var$[C]/T$, quadrature"
    )
    plots.theory_line(
        right, temperatures, dataset["exact_slope"], linestyle="--", label="quadrature, at the nudge sampled"
    )
    for start in range(dataset.sizes["start"]):
        values, errors = (dataset[name].isel(start=start, cost=0) for name in ("slope", "slope_error"))
        once = r"$dE[C]/d\xi$, sampled" if start == 0 else None
        plots.simulation_points(right, temperatures, values, errors, label=once)
    right.set(xlabel="temperature $T$", ylabel="change of the expected cost", title="Proposition 4")
    for axes in (left, right):
        axes.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """In standard errors: 4.5 of them are passed by chance once in 10^5."""
    about: dict[str, Any] = {
        "tolerance": 4.5, "expected": 0.0, "reason": "standard errors of independent chains", "every": True,
    }  # fmt: skip
    slope = dataset["exact_slope"]
    bias = float(np.abs(dataset["exact_slope"] / dataset["exact_variance"] - 1).max())
    sigmas, many = dataset["sigmas"], dataset["parameters"]
    chance = norm.isf(0.5e-3 / many.values)  # by chance passed by the largest of so many once in a thousand times
    return [
        at_most(
            "Both sides of Theorem 3 agree in fully connected networks: largest difference over what chance allows",
            source="Eq. (73)", expected=1.0, measured=(sigmas.values / chance).T, every=True, over="network",
            reason="the largest of as many normal numbers as there are parameters, passed once in a thousand times",
            quote="(d/dθ E[∂F/∂β])^T = d/dβ E[∂F/∂θ]",
        ),
        at_most(
            "Nudging lowers the expected cost there: largest derivative", source="Proposition 4", expected=0.0,
            measured=dataset["fall"].isel(side=0).values.T, every=True, over="network",
            quote="The derivative of the function ... at ξ = 0 is non-positive",
        ),
        at_most(
            "Both sides of Theorem 3 agree: largest difference in standard errors", source="Eq. (73)",
            measured=_sigmas(dataset["difference"], dataset["difference_error"]), quote="(d/dθ E[∂F/∂β])^T = d/dβ E[∂F/∂θ]",
            **about,
        ),
        at_most(
            "and with quadrature", source="Eq. (74)-(76)",
            measured=_sigmas(dataset["right"], dataset["right_error"], dataset["exact_response"]), **about,
        ),
        at_most(
            "Nudging changes the expected cost as quadrature says: largest difference in standard errors", source="Eq. (77)",
            measured=_sigmas(dataset["slope"], dataset["slope_error"], slope), **about,
        ),
        at_most(
            "which is minus its variance: largest relative difference, by quadrature", source="Eq. (78)", expected=0.0,
            measured=bias, tolerance=0.03, reason="second order in the nudge of the centered difference",
            quote="The derivative of Eq. 77 at ξ = 0 is ... −Var[δ · ∂F/∂β] ≤ 0",
        ),
        at_most(
            "The expected cost falls: largest derivative", source="Proposition 4", expected=0.0,
            measured=dataset["slope"].transpose("start", ...).values, every=True,
            quote="The derivative of the function ... at ξ = 0 is non-positive",
        ),
        at_most(
            "Langevin dynamics converges to the Boltzmann law e^(-F), for every σ tried: largest distance of the laws",
            source="Eq. (66)-(67)", expected=0.0, measured=dataset["papers"].values, every=True, over="noise",
            tolerance=1.63 / np.sqrt(dataset.attrs["draws"]) + 0.01,
            reason="passed by chance once in a hundred times (Kolmogorov), and 0.01 for steps of 0.02",
            quote="the Langevin dynamics Eq. 66 is known to converge to the Boltzmann distribution",
        ),
        at_most(
            "It converges to e^(-2F/σ²), which is e^(-F) for σ = √2 alone: largest distance", source="Fokker and Planck",
            expected=0.0, measured=dataset["scaled"].values, every=True, over="noise", ours=True,
            tolerance=1.63 / np.sqrt(dataset.attrs["draws"]) + 0.01, reason="as above",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(chains=200, steps=1000, draws=1000, many=(5,), networks=2),
    "paper": Config(
        temperatures=(0.25, 0.5, 1.0, 2.0, 4.0), chains=500, steps=10_000, nudge=0.03, seeds=5, draws=5000, networks=5,
        many=(5, 12), many_steps=2000,
    ),
}  # fmt: skip
DIFFERS = {
    "quick": ("no such figure in the paper; ρ = tanh", "short chains, one seed, fully connected networks of 5 neurons"),
    "paper": ("no such figure in the paper; ρ = tanh", "12 neurons at most, whose 114 parameters are moved one by one"),
}
