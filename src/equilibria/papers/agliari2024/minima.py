"""The energy landscape: how many local minima there are against the number of neurons, at loads of three kinds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jax import Array

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable
from equilibria.papers.sweep import sweep

SOURCE = "slide 'Load α := lim K/N': trivial, simple, complex"
KINDS = {"K = 1": 1, "K = 3": 3, "K = 0.15 N": 0.15, "K = 0.3 N": 0.3, "K = 0.5 N": 0.5}


@dataclass(frozen=True)
class Config:
    """Networks of `sizes` neurons by enumeration, and of `large` ones by annealing; all even, see `patterns`."""

    sizes: tuple[int, ...] = (8, 12, 16, 20)
    large: tuple[int, ...] = (20, 32, 48, 64)
    networks: int = 3
    chains: int = 300
    steps: int = 200
    seed: int = 0


def patterns(kind: float, size: int) -> int:
    """The number of patterns, made odd: the field on a neuron is then a sum of an odd number of ±1/N, and no flip is a tie.

    >>> patterns(0.3, 20), patterns(3, 20)
    (7, 3)
    """
    wanted = kind if kind >= 1 else kind * size
    return max(1, 2 * int(wanted // 2) + 1)


def enumerated(size: int, kind: float, network: int, seed: int, key: Array, *, config: Config) -> float:
    """One cell: the logarithm of the number of minima of one network, exactly.

    Args:
        size: the number of neurons.
        kind: the number of patterns, or below 1 its ratio to the size.
        network: number of the network.
        seed: of all of them; it only enters the key.
        key: of the patterns.
        config: the figure's configuration.

    Returns:
        The logarithm.
    """
    return eq.log_minima(_network(size, kind, key)).value


def annealed(size: int, kind: float, network: int, seed: int, key: Array, *, config: Config) -> dict[str, float]:
    """One cell: the same by annealing, with its standard error. The arguments are those of `enumerated`."""
    found = eq.log_minima(
        _network(size, kind, key), "annealed", chains=config.chains, steps=config.steps, key=eq.key(network)
    )
    return {"value": found.value, "error": found.error}


def _network(size: int, kind: float, key: Array) -> eq.Network:
    return eq.hopfield(eq.data.random_patterns(patterns(kind, size), size, key=key))


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The logarithms of numbers of minima."""
    grid = {"kind": list(KINDS.values()), "network": range(config.networks), "seed": config.seed}
    exact = sweep(enumerated, config, checkpoint, size=config.sizes, **grid)
    more = sweep(annealed, config, checkpoint, size=config.large, **grid)
    axes = ("kind", "network")
    return xr.Dataset(
        {
            "exact": (("size", *axes), exact["value"].values),
            "annealed": (("large", *axes), more["value"].values),
            "error": (("large", *axes), more["error"].values),
        },
        {"size": list(config.sizes), "large": list(config.large), "kind": list(KINDS)},
    )


def slopes(dataset: xr.Dataset) -> xr.DataArray:
    """The rate of growth of the logarithm with N, from the annealed sizes of at least 32, for each kind and network.

    In smaller networks a number of patterns in proportion to N cannot be had: 0.15 N is 1 or 3 up to N = 24.
    """
    return _large(dataset).polyfit("large", 1)["polyfit_coefficients"].sel(degree=1, drop=True)


def _large(dataset: xr.Dataset) -> xr.DataArray:
    return dataset["annealed"].where(dataset["large"] >= 32, drop=True)


def steadiness(dataset: xr.Dataset) -> tuple[xr.DataArray, float]:
    """The rate in the upper half of the sizes over that in the lower half, by kind, and what it is for a power of N.

    1 is exponential growth; any power of N has the second number, whatever its exponent. Means over networks, whose scatter
    would drown the ratio of two.
    """
    rows = _large(dataset)
    size = rows["large"].values.astype(float)
    middle = len(size) // 2
    mean = rows.mean("network")
    low = (mean.isel(large=middle) - mean.isel(large=0)) / (size[middle] - size[0])
    high = (mean.isel(large=-1) - mean.isel(large=middle)) / (size[-1] - size[middle])
    power = np.log(size[-1] / size[middle]) / (size[-1] - size[middle])
    return high / low, float(power / (np.log(size[middle] / size[0]) / (size[middle] - size[0])))


def plot(dataset: xr.Dataset):
    """The mean logarithm of the number of local minima against N: enumerated (filled) and annealed (open), bars their standard
    deviation over networks, lines fits to the annealed ones from N = 32 on."""
    figure, axes = plots.panels(size=(6.2, 4.0))
    rate = slopes(dataset).mean("network")
    for colour, kind in zip(plots.PALETTE, dataset["kind"].values, strict=False):
        exact, more = dataset["exact"].sel(kind=kind), dataset["annealed"].sel(kind=kind)
        label = f"{kind}: grows as exp({abs(float(rate.sel(kind=kind))):.2f} N)"
        axes.errorbar(
            dataset["size"],
            exact.mean("network"),
            exact.std("network"),
            fmt="o",
            color=colour,
            label=label,
            markersize=4,
        )
        plots.simulation_points(axes, dataset["large"], more.mean("network"), more.std("network"), colour=colour)
        reach = np.array([32.0, float(dataset["large"].max())])
        fit = _large(dataset).sel(kind=kind).mean("network").polyfit("large", 1)["polyfit_coefficients"].values
        plots.theory_line(axes, reach, np.polyval(fit, reach), colour=colour, linewidth=0.8)
    axes.set(xlabel="neurons $N$", ylabel="ln (number of local minima)")
    axes.set_title("filled: enumerated; open: annealed")
    axes.legend(loc="upper left")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the slide says of the landscape."""
    rate = slopes(dataset)
    words = "Frustration makes the energy landscape rough with #local-minima exponentially increasing with N"
    simple = np.exp(dataset["exact"].sel(kind="K = 3").isel(size=-1).values)
    shared = sorted(set(dataset["size"].values) & set(dataset["large"].values))
    gap = (dataset["annealed"].sel(large=shared).values - dataset["exact"].sel(size=shared).values) / np.maximum(
        dataset["error"].sel(large=shared).values, 1e-9
    )
    made = [
        not_testable(
            "K = 0 is trivial", source=SOURCE, reason="without couplings the energy is flat: every state is as low as any",
            quote="trivial: K = 0",
        ),
        close(
            "One pattern: the minima are it and its negative", source=SOURCE, expected=2.0, tolerance=1e-3, every=True,
            measured=np.exp(dataset["exact"].sel(kind="K = 1").values).T, over="network", reason="a whole number",
        ),
        at_most(
            f"K of order 1 is simple: minima of three patterns at N = {int(dataset['size'][-1])}", source=SOURCE, expected=14.0,
            measured=simple, every=True, over="network", quote="simple: K ∼ O(1)",
            reason="three patterns and four mixtures of all three, with their negatives",
        ),
    ]  # fmt: skip
    made += [
        at_least(
            f"{kind}: the number of minima grows exponentially: rate of its logarithm in N", source=SOURCE, expected=0.05,
            measured=rate.sel(kind=kind).values, over="network", quote=words,
            reason="d ln N / dN = 0.05 at N = 20, and falling",
        )
        for kind in dataset["kind"].values
        if "N" in str(kind)
    ]  # fmt: skip
    steady, power = steadiness(dataset)
    made += [
        at_least(
            f"{kind}: exponentially, not as a power of N: rate in the upper half of the sizes over that in the lower half",
            source=SOURCE, expected=(1 + power) / 2, measured=steady.sel(kind=kind), quote=words,
            reason=f"halfway from 1, which is exponential, to {power:.2f}, which any power of N has",
        )
        for kind in dataset["kind"].values
        if "N" in str(kind)
    ]  # fmt: skip
    made.append(
        not_testable(
            "Finding the lowest state is hard",
            source=SOURCE,
            quote="NP-complete combinatorial optimization problem",
            reason="a statement about the worst case of all instances as their size grows",
        )
    )
    made.append(
        at_most(
            "The annealed estimate agrees with enumeration: largest difference in standard errors", source="the estimator",
            expected=0.0, measured=np.moveaxis(np.abs(gap), -1, 0), tolerance=4.0, every=True, over="network", ours=True,
            reason="4 standard errors; weights are skewed",
        )
    )  # fmt: skip
    return made


PRESETS = {
    "quick": Config(networks=2, chains=200, steps=150),
    "paper": Config(sizes=(8, 12, 16, 20), large=(20, 32, 56, 80), networks=5, chains=400, steps=300),
}
DIFFERS = {name: ("the lecture shows sketches of landscapes; numbers are counted here",) for name in PRESETS}
