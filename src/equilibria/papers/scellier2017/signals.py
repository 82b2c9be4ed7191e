"""Section 3.3: what the nudge sends back through a layered network is the back-propagated error, early and late.

Starting at rest, s moves by ds/dt = -H ds + ξ f with H the second derivatives of the energy and f the force on the outputs
(43). In the j-th layer below the outputs the first movement is t^(j+1)/(j+1)! times

    δ_k = ρ'(s_k) W_{k,k+1} ρ'(s_{k+1}) δ_{k+1},    δ_N = f

the error derivatives of a network without feedback. The last one is ξ ds*/dβ, whose product with the force's derivatives is
the gradient (64).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from equilibria import plots
from equilibria.energies.implicit import Implicit
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.scellier2017.energy import draw, energy, layered
from equilibria.papers.sweep import sweep

EARLY = 0.05


@dataclass(frozen=True)
class Config:
    """Networks of layers of these `sizes`, the last of them outputs, nudged by `nudge` for a time `duration`."""

    sizes: tuple[int, ...] = (20, 20, 20, 5)
    nudge: float = 1e-3
    duration: float = 30.0
    step: float = 0.01
    every: int = 5
    seeds: int = 5
    seed: int = 0


def sent(network: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a network at rest is nudged.

    Args:
        network: its number.
        seed: of all of them.
        config: the figure's configuration.

    Returns:
        By layer and time: the size of the change over ξ, and its cosines with the back-propagated error and with ds*/dβ.
    """
    outputs = config.sizes[-1]
    parameters, start, world = draw(
        seed + network, sum(config.sizes), inputs=10, outputs=outputs, strength=0.9 * np.sqrt(len(config.sizes) / 2)
    )
    parameters = layered(parameters, config.sizes)
    with jax.enable_x64(True):
        rest = Implicit(energy, step=0.2, steps=20_000).fixed_point(parameters, 0.0, start, world).state
        flow = Implicit(energy, step=config.step, steps=round(config.duration / config.step))
        path = np.asarray(flow.path(parameters, config.nudge, rest, world))[:: config.every]
        curvature = np.asarray(jax.hessian(lambda s: energy(parameters, 0.0, s, world))(jnp.asarray(rest)))
        force = -np.asarray(jax.grad(lambda s: energy(parameters, 1.0, s, world))(jnp.asarray(rest)))
    change = (path - np.asarray(rest)) / config.nudge
    last = np.linalg.solve(curvature, force)
    edges = np.cumsum((0, *config.sizes))
    layers = [slice(*pair) for pair in pairwise(edges)]
    delta, errors = force, {}
    for layer in reversed(layers):
        errors[layer.start] = delta[layer]
        delta = -curvature @ np.where(_inside(layer, len(delta)), delta, 0.0)
    rows: dict[str, list[np.ndarray]] = {"size": [], "early": [], "late": []}
    for layer in layers:
        rows["size"].append(np.linalg.norm(change[:, layer], axis=1))
        rows["early"].append(_cosine(change[:, layer], errors[layer.start]))
        rows["late"].append(_cosine(change[:, layer], last[layer]))
    return {name: np.stack(values) for name, values in rows.items()}


def _inside(layer: slice, size: int) -> np.ndarray:
    place = np.arange(size)
    return (place >= layer.start) & (place < layer.stop)


def _cosine(rows: np.ndarray, direction: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(direction)
    return np.where(norms > 0, rows @ direction / np.where(norms > 0, norms, 1.0), np.nan)


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """All networks."""
    cells = sweep(sent, config, checkpoint, network=range(config.seeds), seed=config.seed)
    axes = ("network", "layer", "time")
    time = np.arange(cells["size"].shape[-1]) * config.step * config.every
    return xr.Dataset({name: (axes, cells[name].values) for name in ("size", "early", "late")}, {"time": time})


def _arrivals(dataset: xr.Dataset) -> np.ndarray:
    """When each layer's change has first reached a tenth of its last size, (network, layer)."""
    reached = dataset["size"] >= 0.1 * dataset["size"].isel(time=-1)
    return dataset["time"].values[reached.argmax("time").values]


def plot(dataset: xr.Dataset):
    """Left: the change of each layer in the ξ-phase, over ξ. Middle: its cosine with the error back-propagated without
    feedback.
    Right: its cosine with the derivative of the fixed point. Lines are means over networks, bands their range."""
    figure, axes = plots.panels(columns=3, size=(4.0, 3.3))
    depth, time = dataset.sizes["layer"], dataset["time"]
    for colour, layer in zip(plots.PALETTE, range(depth), strict=False):
        name = "outputs" if layer == depth - 1 else f"hidden layer {layer + 1}"
        for panel, what in zip(axes, ("size", "early", "late"), strict=True):
            here = dataset[what].isel(layer=layer)
            panel.plot(time, here.mean("network"), color=colour, label=name)
            panel.fill_between(time, here.min("network"), here.max("network"), color=colour, alpha=0.15, linewidth=0)
    for panel in axes:
        panel.set(xscale="log", xlabel=r"time in the $\xi$-phase", xlim=(float(time[1]), float(time[-1])))
    axes[0].set(yscale="log", ylabel=r"$\|s(t) - s^0\| / \xi$", ylim=(1e-6, None), title="the perturbation arrives")
    axes[1].set(ylabel="cosine", title="with the back-propagated error")
    axes[2].set(ylabel="cosine", title=r"with $ds^\beta/d\beta$")
    axes[0].legend(loc="lower right")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What section 3.3 and the duration of the ξ-phase in section 5.1 say."""
    depth = dataset.sizes["layer"]
    early = dataset["early"].sel(time=EARLY, method="nearest", tolerance=1e-6).isel(layer=slice(depth - 1))
    first = dataset["size"].sel(time=EARLY, method="nearest", tolerance=1e-6)
    begun = (first.isel(layer=slice(depth - 1)) / first.isel(layer=-1)).transpose("network", "layer")
    share = (dataset["size"].sel(time=depth, method="nearest") / dataset["size"].isel(time=-1)).isel(layer=0)
    waits = -np.diff(_arrivals(dataset), axis=1)  # of each layer after the one above it
    tick = float(dataset["time"][1])
    return [
        at_least(
            f"Changes of the hidden layers at t = {EARLY:g} point along the back-propagated error: cosine",
            source="section 3.3",
            expected=0.99, measured=early.values, every=True, over="network", reason="'approximate': the next order is t/τ",
            quote="starting from the 0-fixed point, the early changes of neural activities during the ξ-phase ... approximate "
            "some kind of error derivatives",
        ),
        at_most(
            f"When the ξ-phase begins the hidden units are at equilibrium: movement of a hidden layer over that of the outputs "
            f"at t = {EARLY:g}, largest", source="section 3.3; Eq. (43)", expected=0.0, measured=begun.values, tolerance=EARLY,
            every=True, over="network", reason="of order t/τ: what the outputs have sent on by then",
            quote="Since this force only acts on the output units, the hidden units are initially at equilibrium at the "
            "beginning of the ξ-phase",
        ),
        at_least(
            "The perturbation reaches each layer after the one above it: time to a tenth of the last change, difference",
            source="section 3.3", expected=tick, measured=waits, every=True, over="network", tolerance=1e-9,
            reason="later means by at least one time that is looked at",
            quote="the perturbation at the output layer propagates backwards across the hidden layers of the network",
        ),
        at_least(
            f"After a time N = {depth} the first layer has made a significant part of its change", source="section 5.1",
            expected=0.5, measured=share.values, every=True, over="network",
            reason="'significant amplitude', read as one half",
            quote="the time needed for the error signals to back-propagate in the network is Nτ = N, where N is the number of "
            "hidden and output layers of the network",
        ),
        at_most(
            "At the end of the phase the change is along the derivative of the fixed point: largest 1 - cosine",
            source="Eq. (63)", expected=0.0, measured=1 - dataset["late"].isel(time=-1).values, tolerance=1e-3, every=True,
            over="network", ours=True, reason="of order ξ and exp(-t)",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(sizes=(100, 100, 100, 10), seeds=10)}
DIFFERS = {
    "quick": ("ρ = tanh, where the paper's networks have clipped units: the statements are about derivatives",),
    "paper": ("ρ = tanh, where the paper's networks have clipped units: the statements are about derivatives",),
}
