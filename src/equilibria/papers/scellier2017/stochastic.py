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
from equilibria.papers.sweep import sweep

PARAMETERS = {"weight": 1.5, "biases": jnp.array([0.4, -0.3])}
START = {"hidden": 0.0, "output": 0.0}
INFLUENCE, TARGET = 0.2, 1.0


@dataclass(frozen=True)
class Config:
    """Chains of Langevin dynamics at each of `temperatures`."""

    temperatures: tuple[float, ...] = (0.5, 1.0, 2.0)
    chains: int = 400
    steps: int = 3000
    nudge: float = 0.1
    many: tuple[int, ...] = (5, 20)  # neurons of fully connected networks, at temperature 1
    networks: int = 3
    seed: int = 0


def energy(parameters, influence, state, world):
    """The energy (34) of a hidden and an output neuron with ρ = tanh, the output nudged to the world."""
    rates = jnp.tanh(jnp.stack([state["hidden"], state["output"]]))
    internal = (state["hidden"] ** 2 + state["output"] ** 2) / 2 - parameters["weight"] * rates[0] * rates[1]
    return internal - parameters["biases"] @ rates + influence * (state["output"] - world) ** 2 / 2


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
    parameters, start, world = draw(seed + network, neurons)
    system = Stochastic(connected, temperature=1.0, step=0.5, steps=config.steps, chains=config.chains)
    first, second = jax.random.split(key)
    sides = system.check_theorem(parameters, INFLUENCE, start, world, nudge=config.nudge, key=first)
    nudging = system.check_proposition(parameters, INFLUENCE, start, world, nudge=config.nudge, key=second)
    moved = np.ravel(sides.difference.error) > 0  # entries on and below the diagonal of the weights do not count
    left, right, gap, error = (
        np.ravel(x)[moved]
        for x in (sides.left.value, sides.right.value, sides.difference.value, sides.difference.error)
    )
    return {
        "sigmas": np.abs(gap / error).max(), "parameters": float(moved.sum()), "agree": np.corrcoef(left, right)[0, 1],
        "fall": np.ravel([nudging.left.value, nudging.right.value]),
        "fall_error": np.ravel([nudging.left.error, nudging.difference.error]),
    }  # fmt: skip


def run(config: Config, progress, checkpoint: Path | None = None) -> xr.Dataset:
    """Both sides of (73) and of (78) with their standard errors, and both by quadrature; larger networks without it."""
    keys = jax.random.split(jax.random.key(config.seed), (len(config.temperatures), 2))
    columns: dict[str, list] = {name: [] for name in ("left", "right", "difference", "slope", "variance", "decline")}
    spreads: dict[str, list] = {name: [] for name in columns}
    exact = []
    for temperature, (first, second) in zip(
        progress(config.temperatures, "temperatures", "temperature"), keys, strict=True
    ):
        system = Stochastic(energy, temperature=temperature, step=0.5, steps=config.steps, chains=config.chains)
        sides = system.check_theorem(PARAMETERS, INFLUENCE, START, TARGET, nudge=config.nudge, key=first)
        nudging = system.check_proposition(PARAMETERS, INFLUENCE, START, TARGET, nudge=config.nudge, key=second)
        found = {"left": sides.left, "right": sides.right, "difference": sides.difference}
        found |= {"slope": nudging.left, "variance": nudging.right, "decline": nudging.difference}
        for name, estimate in found.items():
            columns[name].append(np.ravel(estimate.value))
            spreads[name].append(np.ravel(estimate.error))
        exact.append(_exact_response(system, config.nudge))
    data: dict[str, Any] = {name: (("temperature", _axis(name)), np.stack(values)) for name, values in columns.items()}
    data |= {f"{name}_error": (("temperature", _axis(name)), np.stack(values)) for name, values in spreads.items()}
    for name in exact[0]:
        axes = ("temperature", "parameter") if name == "exact_response" else ("temperature",)
        data[name] = (axes, np.stack([found[name] for found in exact]))
    cells = sweep(fuller, config, checkpoint, neurons=config.many, network=range(config.networks), seed=config.seed)
    for name in ("sigmas", "parameters", "agree", "fall", "fall_error"):
        data[name] = (("neurons", "network", "side")[: cells[name].ndim], cells[name].values)
    return xr.Dataset(data, {"temperature": list(config.temperatures), "neurons": list(config.many)})


def _axis(name: str) -> str:
    return "parameter" if name in ("left", "right", "difference") else "cost"


def _sigmas(value, error, expected=0.0) -> float:
    """The largest distance in standard errors."""
    return float(np.max(np.abs(np.asarray(value) - np.asarray(expected)) / np.asarray(error)))


def plot(dataset: xr.Dataset):
    """Responses and their exact values; the fall of the cost against the exact variance; the same fall with more neurons."""
    figure, (left, right, more) = plots.panels(3, size=(4.2, 3.4))
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
        plots.simulation_points(
            left, dataset["exact_response"].values.ravel(), dataset[name].values.ravel(),
            dataset[f"{name}_error"].values.ravel(), colour=colour, label=label,
        )  # fmt: skip
    left.set(xlabel="exact response", ylabel="sampled", title="Theorem 3, all temperatures")
    temperatures = dataset["temperature"]
    plots.theory_line(
        right, temperatures, dataset["exact_variance"], colour="black", label=r"$-$Var$[C]/T$, quadrature"
    )
    plots.theory_line(
        right, temperatures, dataset["exact_slope"], linestyle="--", label="quadrature, at the nudge sampled"
    )
    values, errors = dataset["slope"].values[:, 0], dataset["slope_error"].values[:, 0]
    plots.simulation_points(right, temperatures, values, errors, label=r"$dE[C]/d\xi$, sampled")
    right.set(xlabel="temperature $T$", ylabel="change of the expected cost", title="Proposition 4")
    for axes in (left, right):
        axes.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """In standard errors: 4.5 of them are passed by chance once in 10^5."""
    about: dict[str, Any] = {"tolerance": 4.5, "expected": 0.0, "reason": "standard errors of independent chains"}
    slope = dataset["exact_slope"].values[:, None]
    bias = float(np.abs(dataset["exact_slope"] / dataset["exact_variance"] - 1).max())
    sigmas, many = dataset["sigmas"], dataset["parameters"]
    chance = norm.isf(0.5e-3 / many.values)  # by chance passed by the largest of so many once in a thousand times
    return [
        at_most(
            "Both sides of Theorem 3 agree in fully connected networks: largest difference over what chance allows",
            source="Eq. (73)", expected=1.0, measured=(sigmas.values / chance).T, every=True, over="network",
            reason="the largest of as many normal numbers as there are parameters, passed once in a thousand times",
        ),
        at_most(
            "Nudging lowers the expected cost there: largest derivative", source="Proposition 4", expected=0.0,
            measured=dataset["fall"].isel(side=0).values.T, every=True, over="network",
        ),
        at_most(
            "Both sides of Theorem 3 agree: largest difference in standard errors", source="Eq. (73)",
            measured=_sigmas(dataset["difference"], dataset["difference_error"]), **about,
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
        ),
        at_most(
            "The expected cost falls: largest derivative", source="Proposition 4", expected=0.0,
            measured=dataset["slope"].max(),
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(),
    "paper": Config(temperatures=(0.25, 0.5, 1.0, 2.0, 4.0), chains=2000, steps=20_000, nudge=0.03, networks=5),
}
DIFFERS = {name: ("no such figure in the paper; ρ = tanh",) for name in PRESETS}
