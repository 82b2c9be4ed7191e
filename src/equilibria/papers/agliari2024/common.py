"""What the figures about storage share: simulated networks, theory lines, and the load at which memory is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jax import Array

import equilibria as eq
from equilibria import plots
from equilibria.measure.storage import padded
from equilibria.papers.sweep import fast, sweep


def recalled(
    load: float, temperature: float, sleep: float, network: int, seed: int, key: Array, *, config: Any
) -> dict[str, float]:
    """One cell: a network at a load, whose patterns are recalled from themselves.

    Args:
        load: patterns over neurons.
        temperature: of the neurons.
        sleep: how long the network slept.
        network: tells networks apart that are otherwise alike; it only enters the key.
        seed: likewise.
        key: of the patterns and of the walk.
        config: has `size`, `loads`, `chains` and `sweeps`.

    Returns:
        The overlap, its error, and the fraction of patterns that are retrieved.
    """

    def build(patterns: Array, _: Array) -> eq.Network:
        # Factors of one shape let one compiled loop serve all loads.
        return padded(eq.hopfield(patterns, sleep=sleep), max(_counts(config)))

    found = eq.recall_at_load(
        config.size, [load], temperature=temperature, chains=config.chains, sweeps=config.sweeps, build=build, key=fast(key)
    )  # fmt: skip
    return {name: float(found[name][0]) for name in ("overlap", "error", "retrieved")}


def _counts(config: Any) -> list[int]:
    """How many patterns there are at each load."""
    return [max(1, round(config.size * load)) for load in config.loads]


def recalled_along(along: str, config: Any, checkpoint: Path | None, **axes: Any) -> xr.Dataset:
    """The networks of a figure at all of its loads, along one other axis.

    Args:
        along: the axis, "temperature" or "sleep".
        config: the figure's configuration, with a number of `networks`.
        checkpoint: a folder that keeps finished networks.
        axes: the values of that axis, and the one value of the other.

    Returns:
        What `recalled` found, and `edge`, the load at which half of the patterns are lost, for each of the networks.
    """
    grid = {"load": config.loads, "network": range(config.networks), "seed": config.seed}
    found = sweep(recalled, config, checkpoint, **axes, **grid)
    (other,) = axes.keys() - {along}
    load = np.array(_counts(config)) / config.size  # what whole patterns make of it
    found = found.isel({other: 0}, drop=True).assign_coords(load=load).assign_attrs(size=config.size)
    found = found.transpose(along, "load", "network").drop_vars("network")
    places = range(found.sizes[along]), range(config.networks)
    edges = [[edge(found.isel({along: place, "network": one})) for one in places[1]] for place in places[0]]
    return found.assign(edge=((along, "network"), edges))


def edge(dataset: xr.Dataset) -> float:
    """The load at which half of the patterns are lost, between the two simulated loads around it; NaN if none is.

    >>> edge(xr.Dataset({"retrieved": ("load", [1.0, 0.75, 0.25])}, {"load": [0.1, 0.2, 0.3]}))
    0.25
    """
    load, kept = dataset["load"].values, dataset["retrieved"].values
    lost = np.flatnonzero(kept < 0.5)
    if not lost.size or lost[0] == 0:
        return float("nan")
    last = lost[0] - 1
    return float(np.interp(0.5, kept[[last + 1, last]], load[[last + 1, last]]))


def deviation(dataset: xr.Dataset, within: float = 0.8) -> np.ndarray:
    """The largest difference of simulated and theoretical overlaps at loads below `within` times the capacity, by network.

    Closer to its end the branch is steep, and a network of finite size falls off it early. An overlap that is missing makes
    the difference infinite, which no claim holds with.
    """
    gap = abs(dataset["overlap"] - dataset["theory"])
    inside = (dataset["load"] <= within * dataset["capacity"]).broadcast_like(gap)
    gap = gap.fillna(np.inf).where(inside, 0.0)  # what is missing is no agreement
    rest = [axis for axis in gap.dims if axis != "network"]
    return np.atleast_1d(gap.max(rest).values)


def overlap_against_load(axes, dataset: xr.Dataset, along: str, names: dict[float, str], **legend) -> None:
    """Theory as lines and simulation as points, means over networks, one colour for each value of the coordinate `along`."""
    count = dataset.sizes["network"]
    for colour, (value, name) in zip(plots.PALETTE, names.items(), strict=False):
        here = dataset.sel({along: value})
        plots.theory_line(axes, here["fine"], here["curve"], colour=colour, label=name)
        spread = here["overlap"].std("network", ddof=1) / np.sqrt(count) if count > 1 else here["error"][:, 0]
        plots.simulation_points(axes, here["load"], here["overlap"].mean("network"), spread, colour=colour)
    axes.set(xlabel=r"load $\alpha = K/N$", ylabel="overlap $m$ with the stored pattern", ylim=(0, 1.03))
    axes.set_title(f"lines: theory; points: {count} networks of N = {dataset.attrs['size']}")
    axes.legend(fontsize=7, **legend)
