"""The deterministic learning curve with its fields: spins that learn clusters whose mean is not zero, biases included.

The paper's trajectory is {w_a, eta_a, theta_a, Omega}; it leaves the fields to a later work. Here clusters have no random sign,
so that the visible fields learn a mean; both fields are followed along the modes, eta_a = u_a . eta, theta_a = v_a . theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_most
from equilibria.papers.sweep import sweep

SEEN = ("strength", "visible_field", "hidden_field")


@dataclass(frozen=True)
class Config:
    """Two clusters of these `shares` about random centres, each learned by a machine with biases."""

    visible: int = 100
    hidden: int = 60
    samples: int = 400
    shares: tuple[float, ...] = (0.7, 0.3)
    agreement: float = 0.8  # of a sample with the centre of its cluster
    modes: int = 2
    scale: float = 0.01  # of the first weights
    rate: float = 1e-3
    duration: float = 0.2
    chains: int = 400
    sweeps: int = 2
    records: int = 10
    seeds: int = 1
    seed: int = 0


def clustered(config: Config, random: np.random.Generator) -> np.ndarray:
    """Noisy copies of random centres."""
    centres = random.choice([-1.0, 1.0], (len(config.shares), config.visible))
    agree = np.where(random.random((config.samples, config.visible)) < (1 + config.agreement) / 2, 1.0, -1.0)
    return centres[random.choice(len(config.shares), config.samples, p=config.shares)] * agree


def along_modes(network: eq.Network, modes: int) -> dict[str, np.ndarray]:
    """Strengths, and the sizes of both layers' fields along the first modes, whose signs are free."""
    found = eq.spectrum(network)
    visible, hidden = (np.asarray(layer.bias) for layer in network.layers)
    fields = np.abs(found.first[:modes] @ visible), np.abs(found.second[:modes] @ hidden)
    return dict(zip(SEEN, (found.values[:modes], *fields), strict=True))


def learned(machine: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a training, and the curve predicted for it, (time, mode) each."""
    random = np.random.default_rng(config.seed + machine)
    data = clustered(config, random)
    weights = config.scale * random.normal(size=(config.visible, config.hidden))
    times, steps = recorded(config)
    run = eq.train(
        eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin()), data,
        eq.pcd(config.sweeps, config.chains, opening="network", centered_gradient=False), epochs=steps[-1],
        batch_size=len(data), optimiser=optax.sgd(config.rate), record=steps, show_progress=False,
        key=jax.random.key(config.seed + machine), metrics=lambda network: along_modes(network, config.modes),
    )  # fmt: skip
    principal = eq.principal_components(data, centred=False).first[: config.modes]
    along = np.linalg.qr((principal @ weights).T)[0]  # the rest of the first weights only decays
    curve = eq.theory.learning_curve(
        data, weights @ along @ along.T, times, modes=config.modes, learn_fields=True,
        components=("bernoulli", "gaussian"), tolerance=3e-3,
    )  # fmt: skip
    said = np.full((3, len(times), config.modes), np.nan)  # it may end early
    for row, part in zip(said, (curve.strengths, curve.visible_field, curve.hidden_field), strict=True):
        row[: len(curve.times)] = np.abs(part)
    found = {name: np.asarray(run.history[name].values) for name in SEEN}
    return found | {f"predicted_{name}": row for name, row in zip(SEEN, said, strict=True)}


def recorded(config: Config) -> tuple[np.ndarray, list[int]]:
    """The times of the records, and the updates."""
    stride = max(1, round(config.duration / config.rate / config.records))
    steps = [stride * (index + 1) for index in range(config.records)]
    return config.rate * np.array(steps), steps


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Every seed with its own clusters, start and chains."""
    cells = sweep(learned, config, checkpoint, machine=range(config.seeds))
    return xr.Dataset(
        {name: (("seed", "time", "mode"), cells[name].values) for name in cells},
        {"time": recorded(config)[0]},
        {"hidden": config.hidden},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Strengths and the sizes of both fields along the modes: the predicted curve as lines, the training as points, in the
    first seed."""
    figure, axes = plots.panels(3, size=(3.3, 3.0))
    titles = ("singular value $w_α$", r"visible field $|\eta_α|$", r"hidden field $|\theta_α|$")
    one = dataset.isel(seed=0)
    for panel, name, title in zip(axes, SEEN, titles, strict=True):
        for mode in range(dataset.sizes["mode"]):
            colour = plots.PALETTE[mode]
            curve = one[f"predicted_{name}"].isel(mode=mode)
            plots.theory_line(panel, one["time"], curve, colour=colour, label=f"mode {mode + 1}, predicted")
            label = f"mode {mode + 1}, trained"
            plots.simulation_points(panel, one["time"], one[name].isel(mode=mode), colour=colour, label=label)
        panel.set(xlabel="time (rate × updates)", title=title, ylim=(0, None))
    axes[0].legend(loc="lower right", fontsize=7)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The trajectory of strengths and fields is that of the equations."""
    finite = dataset.attrs["hidden"] ** -0.5
    words = {"strength": "strengths", "visible_field": "visible fields", "hidden_field": "hidden fields"}
    return [
        at_most(
            f"The {words[name]} along the modes follow the curve: largest distance over the largest value",
            source="Discussion", expected=0.0, measured=_distance(dataset, name), tolerance=finite, every=True,
            reason="of order 1/sqrt(N_h): components of N_h units stand for their law",
            quote="a trajectory of {w, eta, theta, Omega} which is uniquely determined by our equations",
        )
        for name in SEEN
    ]  # fmt: skip


def _distance(dataset: xr.Dataset, name: str) -> np.ndarray:
    gap = abs(dataset[name] - dataset[f"predicted_{name}"]).max(("time", "mode"), skipna=False)
    return (gap / dataset[f"predicted_{name}"].max(("time", "mode"), skipna=False)).values


DIFFERS = {
    "quick": ("beyond the paper, which leaves the fields to a later work; 100 x 60 spins, one seed",),
    "paper": ("beyond the paper, which leaves the fields to a later work; the data, sizes and rates are ours",),
}
PRESETS = {
    "quick": Config(rate=2e-3),
    "paper": Config(visible=400, hidden=200, samples=1000, rate=2e-4, duration=0.08, chains=1000, sweeps=4, seeds=5),
}
