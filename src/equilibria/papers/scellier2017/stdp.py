"""Spike-timing dependent plasticity along the nudged phase against the contrast of its two ends."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import xarray as xr
from matplotlib.ticker import NullFormatter

from equilibria import plots
from equilibria.energies.implicit import Implicit
from equilibria.learn.stdp import stdp
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.scellier2017.energy import draw, energy, rates


@dataclass(frozen=True)
class Config:
    """One network of `neurons` nudged by `nudge` for a time `duration`, in Euler steps of each of `steps`."""

    neurons: int = 12
    nudge: float = 1.0
    duration: float = 10.0
    steps: tuple[float, ...] = (0.5, 0.25, 0.125, 0.0625, 0.03125)
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """The change of every pair of neurons by the rule (45), at each step, against ρρ at the end minus at the start (47)."""
    parameters, start, world = draw(config.seed, config.neurons)
    pairs = np.triu_indices(config.neurons, 1)
    changes, contrasts, untied = [], [], []
    with jax.enable_x64(True):
        free = Implicit(energy, step=0.2, steps=5000).fixed_point(parameters, 0.0, start, world)
        for step in progress(config.steps, "steps", "step"):
            flow = Implicit(energy, step=step, steps=round(config.duration / step))
            path = rates(flow.path(parameters, config.nudge, free.state, world))
            changes.append([np.asarray(stdp(path, rule=rule))[pairs] for rule in ("left", "trapezoid")])
            alone = np.asarray(stdp(path, tied=False))
            untied.append(np.abs(alone - alone.T).max())
            ends = np.asarray(path)[[0, -1]]
            contrasts.append((np.outer(ends[1], ends[1]) - np.outer(ends[0], ends[0]))[pairs])
        speeds = np.asarray(stdp(path, rule="left"))[pairs]
    return xr.Dataset(
        {
            "change": (("step", "rule", "pair"), changes),
            "contrast": (("step", "pair"), contrasts),
            "asymmetry": ("step", untied),
            "finest": ("pair", speeds),
            "path": (("time", "neuron"), np.asarray(path)),
        },
        {"step": list(config.steps), "rule": ["left", "trapezoid"], "time": np.arange(len(path)) * config.steps[-1]},
    )


def _errors(dataset: xr.Dataset) -> xr.DataArray:
    missed = dataset["change"] - dataset["contrast"]
    return ((missed**2).sum("pair") / (dataset["contrast"] ** 2).sum("pair")) ** 0.5


def plot(dataset: xr.Dataset):
    """Rates along the nudged phase, changes against the contrast, and how the error falls with the step."""
    figure, (first, second, third) = plots.panels(3, size=(4, 3.4))
    first.plot(dataset["time"], dataset["path"] - dataset["path"].isel(time=0), linewidth=1)
    first.set(xlabel="time", ylabel=r"$\rho(s) - \rho(s^0)$", title="the nudged phase")
    ends = [float(dataset["contrast"].min()), float(dataset["contrast"].max())]
    plots.theory_line(second, ends, ends, colour="black", label="equal")
    plots.simulation_points(second, dataset["contrast"].isel(step=-1), dataset["finest"], label="STDP, finest step")
    coarse = dataset["change"].isel(step=0).sel(rule="left")
    plots.simulation_points(
        second, dataset["contrast"].isel(step=0), coarse, colour=plots.PALETTE[1], marker="s", label="step 0.5"
    )
    second.set(xlabel=r"$\rho_i^\xi \rho_j^\xi - \rho_i^0 \rho_j^0$ (47)", ylabel=r"$\int dW_{ij}$ by (45)")
    second.legend()
    errors = _errors(dataset).sel(rule="left")
    plots.simulation_points(third, dataset["step"], errors, label="presynaptic rate before the step")
    guide = errors[-1] * dataset["step"] / dataset["step"][-1]
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
    left = errors.sel(rule="left").values
    return [
        close(
            "The rule with the rate before each step converges to the contrast: order in the step", source="Eq. (45)-(47)",
            expected=1, measured=np.log2(left[-2] / left[-1]), tolerance=0.1, reason="next order at a step of 0.06",
        ),
        at_most(
            "In symmetrised form the sum telescopes at any step: largest relative error", source="Eq. (46)", expected=0.0,
            measured=errors.sel(rule="trapezoid").max(), tolerance=1e-12, reason="float64",
        ),
        at_least(
            "Untied, a synapse and its mirror image would change differently: largest difference", source="Section 3.4",
            expected=1e-3, measured=dataset["asymmetry"].isel(step=-1),
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(neurons=100, steps=tuple(0.5 / 2**power for power in range(8)))}
