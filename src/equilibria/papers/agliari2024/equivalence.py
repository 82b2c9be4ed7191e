"""A Hopfield network and a Boltzmann machine with Gaussian hidden neurons are the same: equal sums, equal samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.exact import log_partition_function
from equilibria.papers.claims import Claim, at_most

SOURCE = "slide 'Hopfield network / Restricted Boltzmann machines equivalence'"
KINDS = ("Hopfield network", "Boltzmann machine")


@dataclass(frozen=True)
class Config:
    """Exact sums over `small` neurons; sampling of `size` neurons that store `count` patterns."""

    small: int = 12
    size: int = 500
    count: int = 10
    temperatures: tuple[float, ...] = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8)
    sweeps: int = 60
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """The free energies of both by enumeration, and the overlap with each pattern from sampling both, at each temperature."""
    temperatures = np.array(config.temperatures)
    patterns = eq.data.random_patterns(config.count, config.size, key=eq.key(config.seed))
    networks = eq.hopfield(patterns), eq.hubbard_stratonovich(eq.hopfield(patterns))
    heat = np.repeat(temperatures, config.count)
    targets = jnp.tile(patterns, (len(temperatures), 1))
    found = []
    for network in progress(networks, "sampling both", "network"):
        _, overlaps = eq.trajectory(
            network, eq.Sweeps(config.sweeps), targets, temperature=heat, key=config.seed + 1,
            observe=eqx.Partial(_own, targets),
        )  # fmt: skip
        late = np.asarray(overlaps, float)[1 + config.sweeps // 3 :].mean(0)
        found.append(late.reshape(len(temperatures), config.count))
    samples, fine = np.array(found), np.linspace(0.05, 1.0, 150)
    axes = ("kind", "temperature")
    return xr.Dataset(
        {
            "overlap": (axes, samples.mean(-1)),
            "error": (axes, samples.std(-1, ddof=1) / np.sqrt(config.count)),
            "curve": ("fine", eq.theory.hopfield(config.count / config.size, fine).m),
            "theory": ("temperature", eq.theory.hopfield(config.count / config.size, temperatures).m),
            "log_z": (axes, _log_partitions(config, temperatures)),
        },
        {"kind": list(KINDS), "temperature": temperatures, "fine": fine},
        {"size": config.size, "small": config.small, "count": config.count},
    )


def _own(targets, state):
    return jnp.mean(state["neurons"] * targets, axis=-1)


def _log_partitions(config: Config, temperatures: np.ndarray) -> np.ndarray:
    """The ln Z of a small network and of its machine, the Gaussian integrals' constant taken off the second."""
    patterns = eq.data.random_patterns(3, config.small, key=eq.key(config.seed + 2))
    network = eq.hopfield(patterns)
    machine = eq.hubbard_stratonovich(network)
    own = [float(log_partition_function(conditioned(network, (), temperature))) for temperature in temperatures]
    whole = [float(log_partition_function(conditioned(machine, (), temperature))) for temperature in temperatures]
    # K integrals over hidden neurons, and the diagonal of J, whose trace is K.
    return np.array([own, whole - 3 / 2 * np.log(2 * np.pi * temperatures) - 3 / (2 * temperatures)])


def plot(dataset: xr.Dataset):
    """Free energies on the left, overlaps on the right."""
    figure, (left, right) = plots.panels(columns=2)
    plots.theory_line(right, dataset["fine"], dataset["curve"], colour="black", label=r"theory, $N \to \infty$")
    scale = -dataset["temperature"] / dataset.attrs["small"]
    for colour, marker, kind in zip(plots.PALETTE, "os", KINDS, strict=False):
        here = dataset.sel(kind=kind)
        left.plot(
            dataset["temperature"], scale * here["log_z"], marker, color=colour, label=kind,
            markersize=8 if marker == "s" else 4, markerfacecolor="none" if marker == "s" else colour,
        )  # fmt: skip
        plots.simulation_points(
            right, dataset["temperature"], here["overlap"], here["error"], colour=colour, marker=marker, label=kind
        )
    left.set(
        xlabel="temperature $T$", ylabel="free energy per neuron", title=f"exact sums, N = {dataset.attrs['small']}"
    )
    right.set(
        xlabel="temperature $T$", ylabel="overlap $m$ with the stored pattern", ylim=(0, 1.03),
        title=f"sampling, N = {dataset.attrs['size']}, K = {dataset.attrs['count']}",
    )  # fmt: skip
    left.legend()
    right.legend(loc="lower left")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Z is equal, and so is what is sampled."""
    logs = dataset["log_z"]
    gap = float(np.abs(logs.diff("kind") / logs.isel(kind=0)).max())
    hopfield, machine = (dataset.sel(kind=kind) for kind in KINDS)
    error = np.hypot(hopfield["error"], machine["error"]) + 1 / dataset.attrs["size"]
    cool = dataset.sel(temperature=slice(None, 0.6))
    away = np.abs(cool["overlap"] - cool["theory"]) / (cool["error"] + 1 / dataset.attrs["size"])
    return [
        at_most(
            "Z of the Hopfield network is Z of the machine: largest relative difference of ln Z", source=SOURCE,
            expected=1e-5, measured=gap, reason="single precision",
        ),
        at_most(
            "Sampling one samples the other: largest difference of overlaps, in its errors", source=SOURCE,
            expected=4, measured=(np.abs(hopfield["overlap"] - machine["overlap"]) / error).max(),
            reason="largest of several differences; the error over patterns, and 1/N",
            ours=True,
        ),
        at_most(
            "Both follow the theory of the Hopfield network up to T = 0.6: largest difference, in its errors", source=SOURCE,
            expected=5, measured=away.max(), reason="one set of patterns, whose errors are correlated; the error, and 1/N",
            ours=True,
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": replace(Config(), small=16, size=4000, count=80, sweeps=600)}
DIFFERS = {name: ("the lecture shows the identity; sizes and temperatures are ours",) for name in PRESETS}
