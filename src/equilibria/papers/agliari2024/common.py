"""What the figures about storage share: theory lines, simulated points, and the load at which memory is lost."""

from __future__ import annotations

import numpy as np
import xarray as xr

from equilibria import plots


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


def deviation(dataset: xr.Dataset, within: float = 0.8) -> float:
    """The largest difference of simulated and theoretical overlaps at loads below `within` times the capacity.

    Closer to its end the branch is steep, and a network of finite size falls off it early.
    """
    inside = dataset["load"] <= within * dataset["capacity"]
    gap = abs(dataset["overlap"] - dataset["theory"]).where(inside)
    return float(gap.max())


def overlap_against_load(axes, dataset: xr.Dataset, along: str, names: dict[float, str], **legend) -> None:
    """Theory as lines and simulation as points, one colour for each value of the coordinate `along`."""
    for colour, (value, name) in zip(plots.PALETTE, names.items(), strict=False):
        here = dataset.sel({along: value})
        plots.theory_line(axes, here["fine"], here["curve"], colour=colour, label=name)
        plots.simulation_points(axes, here["load"], here["overlap"], here["error"], colour=colour)
    axes.set(xlabel=r"load $\alpha = K/N$", ylabel="overlap $m$ with the stored pattern", ylim=(0, 1.03))
    axes.set_title(f"lines: theory; points: N = {dataset.attrs['size']}")
    axes.legend(fontsize=7, **legend)
