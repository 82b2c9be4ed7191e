"""Theorem 1, Proposition 2 and the gradient formula (10), measured on random fully connected networks."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from equilibria import plots
from equilibria.energies.implicit import Implicit
from equilibria.papers.claims import Claim, at_most, close
from equilibria.papers.scellier2017.energy import draw, energy

SIDES = {"one": "one-sided (10)", "both": "centered"}
DECAY = 0.1  # λ of the regulariser


@dataclass(frozen=True)
class Config:
    """`networks` random networks of `neurons`; gradients with `nudges`."""

    networks: int = 3
    neurons: int = 8
    nudges: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003)
    seed: int = 0


def _regularised(parameters, influence, state, world):
    """The energy with a term β_θ Ω(θ), Ω half the squared length of the weights (section 2.2)."""
    weights = jnp.triu(parameters["weights"], 1)
    return energy(parameters, influence["output"], state, world) + influence["decay"] * jnp.sum(weights**2) / 2


def _decayed(parameters, start, world) -> float:
    """How far the two-phase gradient of the regularised energy is from that of the cost plus λ dΩ/dθ, relative."""
    off, goal = {"output": 0.0, "decay": 0.0}, {"output": 1.0, "decay": DECAY}
    more = Implicit(_regularised, step=0.2, steps=5000)
    found = more.gradient(parameters, off, start, world, direction=goal, nudge=1e-3, sides="both")
    plain = Implicit(energy, step=0.2, steps=5000).gradient(parameters, 0.0, start, world, method="implicit")
    wanted = plain.value | {"weights": plain.value["weights"] + DECAY * np.triu(parameters["weights"], 1)}
    wanted = np.asarray(ravel_pytree(wanted)[0])
    return float(np.linalg.norm(_flat(found) - wanted) / np.linalg.norm(wanted))


def run(config: Config, progress) -> xr.Dataset:
    """Both sides of (20) and of (33), and the error of the two-phase gradient against implicit differentiation."""
    system = Implicit(energy, step=0.2, steps=5000)
    theorem, left, right, errors, recurrent, decayed = [], [], [], [], [], []
    for seed in progress(range(config.seed, config.seed + config.networks), "networks", "network"):
        parameters, start, world = draw(seed, config.neurons)
        sides = system.check_theorem(parameters, 0.0, start, world)
        theorem.append(np.abs(sides.difference).max() / np.abs(sides.left).max())
        nudging = system.check_proposition(parameters, 0.0, start, world)
        left.append(nudging.left)
        right.append(nudging.right)
        with jax.enable_x64(True):
            exact = _flat(system.gradient(parameters, 0.0, start, world, method="implicit"))

            def error(exact=exact, where=(parameters, 0.0, start, world), **how) -> float:
                missed = _flat(system.gradient(*where, **how)) - exact
                return float(np.linalg.norm(missed) / np.linalg.norm(exact))

            recurrent.append(error(method="recurrent"))
            decayed.append(_decayed(parameters, start, world))
            errors.append([[error(nudge=nudge, sides=sides) for nudge in config.nudges] for sides in SIDES])
    return xr.Dataset(
        {
            "theorem": ("network", theorem),
            "slope": ("network", left),
            "curvature": ("network", right),
            "recurrent": ("network", recurrent),
            "decayed": ("network", decayed),
            "error": (("network", "sides", "nudge"), errors),
        },
        {"sides": list(SIDES), "nudge": list(config.nudges)},
    )


def _flat(gradient) -> np.ndarray:
    return np.asarray(ravel_pytree(gradient.value)[0])


def _orders(dataset: xr.Dataset) -> xr.DataArray:
    """The slope of log error against log nudge between the two smallest nudges, for each network."""
    smallest: xr.DataArray = xr.apply_ufunc(np.log, dataset["error"].isel(nudge=slice(-2, None)))
    width = float(np.diff(np.log(dataset["nudge"][-2:]))[0])
    return smallest.diff("nudge").squeeze("nudge", drop=True) / width


def plot(dataset: xr.Dataset):
    """Errors of the gradient against the nudge, and the two sides of Proposition 2."""
    figure, (left, right) = plots.panels(2)
    for colour, (sides, label) in zip(plots.PALETTE, SIDES.items(), strict=False):
        for network in dataset["network"].values:
            values = dataset["error"].sel(sides=sides, network=network)
            plots.simulation_points(
                left, dataset["nudge"], values, colour=colour, label=label if network == 0 else None
            )
        order = {"one": 1, "both": 2}[sides]
        first = dataset["error"].sel(sides=sides).isel(nudge=-1).median()
        guide = float(first) * (dataset["nudge"] / dataset["nudge"][-1]) ** order
        plots.theory_line(left, dataset["nudge"], guide, colour=colour, linestyle="--", label=f"order {order}")
    left.set(xscale="log", yscale="log", xlabel=r"nudge $\xi$", ylabel="relative error of the gradient")
    left.set_title("two phases against the implicit gradient")
    span = float(np.abs(dataset["slope"]).max()) * 1.1
    plots.theory_line(right, [-span, 0], [-span, 0], colour="black", label="equal")
    plots.simulation_points(right, dataset["curvature"], dataset["slope"], label="networks")
    right.set(xlabel=r"$-\lambda^T \partial_s^2 F\, \lambda$ (33)", ylabel=r"$d C / d\xi$ at $\xi = 0$, measured")
    right.set_title("nudging lowers the cost")
    for axes in (left, right):
        axes.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The theorem and what follows from it."""
    orders = _orders(dataset)
    mismatch = abs(dataset["slope"] / dataset["curvature"] - 1).values
    return [
        at_most(
            "Both sides of Theorem 1 agree: largest relative difference", source="Eq. (20)", expected=0.0,
            measured=dataset["theorem"].values, every=True, over="network", tolerance=1e-6,
            reason="centered differences of width 1e-4: error of order 1e-8",
            quote="(d/dθ ∂F/∂β (θ, β, s_θ^β))^T = d/dβ ∂F/∂θ (θ, β, s_θ^β)",
        ),
        close(
            "One-sided two-phase gradient: order of its error in the nudge", source="Eq. (10)", expected=1,
            measured=orders.sel(sides="one").values, every=True, over="network", tolerance=0.1,
            reason="next order at a nudge of 0.01",
            quote="The gradient of the objective function with respect to θ is given by the formula ... lim ξ → 0",
        ),
        close(
            "Centered nudging cancels the first order", source="follows from Eq. (10)", expected=2, ours=True,
            measured=orders.sel(sides="both").values, every=True, over="network", tolerance=0.1,
            reason="next order at a nudge of 0.01",
        ),
        at_most(
            "Nudging does not raise the cost: largest derivative", source="Proposition 2", expected=0.0,
            measured=dataset["slope"].values, every=True, over="network",
            quote="The derivative of the function ξ ↦ C at ξ = 0 is non-positive",
        ),
        at_most(
            "The derivative is minus the curvature along the costate: largest relative difference", source="Eq. (33)",
            expected=0.0, measured=mismatch, every=True, over="network", tolerance=1e-4,
            reason="centered differences of width 1e-4",
            quote="The left-hand side represents the derivative of Eq. 32 at ξ = 0",
        ),
        at_most(
            "Recurrent back-propagation finds the same gradient: largest relative difference", source="Appendix A",
            expected=0.0, measured=dataset["recurrent"].values, every=True, over="network", tolerance=1e-8,
            reason="costate relaxed to 2e-12", quote="we derive another proof for the learning rule Eq. 10",
        ),
        at_most(
            f"A regulariser is a term β_θ Ω(θ) in the energy with δ_θ = λ = {DECAY:g}: largest relative difference from the "
            "gradient of the cost plus λ dΩ/dθ", source="section 2.2", expected=0.0,
            measured=dataset["decayed"].values, every=True,
            over="network", tolerance=1e-5, reason="second order in a nudge of 1e-3",
            quote="we just need to add a term β_θ Ω(θ) to the energy function F, and to choose the "
            "corresponding values β_θ = 0 "
            "and δ_θ = λ",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(networks=20, neurons=20)}
DIFFERS = {name: ("no such figure in the paper; fully connected networks with ρ = tanh",) for name in PRESETS}
