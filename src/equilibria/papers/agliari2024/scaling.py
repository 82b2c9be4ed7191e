"""How the edge of retrieval sharpens with the number of neurons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from jax import Array

import equilibria as eq
from equilibria import plots
from equilibria.measure.retrieval import RETRIEVED
from equilibria.measure.storage import padded, recall
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.sweep import fast, sweep

SOURCE = "slide 'AGS theory'; Amit, Gutfreund, Sompolinsky 1987"


@dataclass(frozen=True)
class Config:
    """Networks of `sizes` neurons at loads that are these multiples of the capacity, at one `temperature`."""

    sizes: tuple[int, ...] = (250, 500, 1000)
    ratios: tuple[float, ...] = (0.6, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.35)
    temperature: float = 0.2
    chains: int = 30
    sweeps: int = 60
    networks: int = 3
    seed: int = 0


def kept(size: int, ratio: float, network: int, seed: int, key: Array, *, config: Config) -> dict[str, float]:
    """One cell: patterns recalled from themselves.

    Args:
        size: the number of neurons.
        ratio: the load over the capacity.
        network: number of the network; it only enters the key.
        seed: likewise.
        key: of the patterns and the walk.
        config: the figure's configuration.

    Returns:
        The share of patterns that are kept, and the mean overlap.
    """
    pattern_key, walk_key = jax.random.split(fast(key))
    capacity = float(eq.theory.hopfield_capacity(config.temperature))
    most = round(max(config.ratios) * capacity * size)
    patterns = eq.data.random_patterns(max(1, round(ratio * capacity * size)), size, key=pattern_key)
    targets = patterns[np.arange(config.chains) % len(patterns)]
    network_of = padded(eq.hopfield(patterns), most)  # one compiled loop for all loads of a size
    m = recall(network_of, targets, temperature=config.temperature, sweeps=config.sweeps, key=walk_key)
    return {"kept": float(np.mean(m > RETRIEVED)), "overlap": float(np.mean(m))}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """All sizes and loads, and for each size where half of the patterns are lost, and between which loads most are.

    The loads at which a quarter, half and three quarters are lost are taken of the share over all networks but one, for each
    of them: what one network of some tens of patterns keeps is too coarse. Their scatter gives the error (jackknife).
    """
    grid = {"size": config.sizes, "ratio": config.ratios, "network": range(config.networks), "seed": config.seed}
    cells = sweep(kept, config, checkpoint, **grid)
    axes, share = ("size", "ratio", "network"), cells["kept"].values
    rest = (share.sum(2, keepdims=True) - share) / (config.networks - 1)  # all networks but one
    places = np.array([[_crossings(config.ratios, row[:, k]) for k in range(config.networks)] for row in rest])
    fine = np.linspace(config.ratios[0], 1.0, 100)
    capacity = float(eq.theory.hopfield_capacity(config.temperature))
    return xr.Dataset(
        {
            "kept": (axes, share),
            "overlap": (axes, cells["overlap"].values),
            "crossing": (("size", "network", "level"), places),
            "theory": ("fine", eq.theory.hopfield(fine * capacity * (1 - 1e-9), config.temperature).m),
        },
        {"size": list(config.sizes), "ratio": list(config.ratios), "level": [0.75, 0.5, 0.25], "fine": fine},
        {"temperature": config.temperature, "capacity": capacity},
    )


def _crossings(ratios: tuple[float, ...], share: np.ndarray) -> list[float]:
    """The loads at which three quarters, half and a quarter of the patterns are left; NaN where they are not passed."""
    falling = np.minimum.accumulate(share)  # noise apart, the share falls with the load
    return [
        float(np.interp(-level, -falling, ratios)) if falling[-1] < level < falling[0] else np.nan
        for level in (0.75, 0.5, 0.25)
    ]


def _estimate(values: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """The mean of what leaving out each network gives, and its standard error by the jackknife."""
    count = values.sizes["network"]
    return values.mean("network", skipna=False), ((count - 1) * values.var("network", skipna=False)) ** 0.5


def _width(dataset: xr.Dataset) -> xr.DataArray:
    """From a quarter lost to three quarters lost."""
    return dataset["crossing"].sel(level=0.25) - dataset["crossing"].sel(level=0.75)


def exponents(dataset: xr.Dataset) -> np.ndarray:
    """The exponent of the width in N, without each of the networks in turn; NaN if a width is not known."""
    width = _width(dataset).transpose("network", "size").values
    if not (width > 0).all():
        return np.full(len(width), np.nan)
    return np.array([np.polyfit(np.log(dataset["size"].values), np.log(row), 1)[0] for row in width])


def plot(dataset: xr.Dataset):
    """Left: the share of patterns kept against the load, over the capacity of theory. Right: where half are lost, and
    how wide the
    fall is, against the number of neurons."""
    figure, (left, right) = plots.panels(2)
    for colour, size in zip(plots.PALETTE, dataset["size"].values, strict=False):
        share = dataset["kept"].sel(size=size)
        error = share.std("network") / np.sqrt(share.sizes["network"])
        plots.simulation_points(
            left, dataset["ratio"], share.mean("network"), error, colour=colour, label=f"N = {size}"
        )
        left.plot(dataset["ratio"], share.mean("network"), color=colour, linewidth=0.8)
    left.axvline(1, color="black", linewidth=0.8)
    left.set(xlabel=r"load over the capacity, $\alpha / \alpha_c$", ylabel="share of patterns kept")
    left.set_title(f"$T = {dataset.attrs['temperature']:g}$; line: theory's edge")
    left.legend()
    half, width = dataset["crossing"].sel(level=0.5), _width(dataset)
    for colour, values, label in (
        (plots.PALETTE[0], abs(half - 1), r"$|\alpha_{1/2} / \alpha_c - 1|$"), (plots.PALETTE[1], width,
        "width of the fall"),
    ):  # fmt: skip
        plots.simulation_points(right, dataset["size"], *_estimate(values), colour=colour, label=label)
    guide = float(width.isel(size=0).mean()) * (dataset["size"] / dataset["size"][0]) ** -0.5
    plots.theory_line(right, dataset["size"], guide, colour="0.5", linestyle="--", label="order $N^{-1/2}$")
    right.set(xscale="log", xlabel="neurons $N$", title="where half are lost, and how sharply")
    right.set_xticks(dataset["size"].values, [f"{size:g}" for size in dataset["size"].values], minor=False)
    right.minorticks_off()
    if np.nanmax(width, initial=0) > 0:
        right.set_yscale("log")
    right.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The edge of theory is that of large networks."""
    half, width = dataset["crossing"].sel(level=0.5), _width(dataset)
    mean, _ = _estimate(half)
    slopes, spacing = exponents(dataset), float(np.diff(dataset["ratio"].values).min())
    error = float(np.sqrt((len(slopes) - 1) * slopes.var()))
    return [
        close(
            f"Half of the patterns are lost at the capacity of theory: ratio of the loads, N = {int(dataset['size'][-1])}",
            source=SOURCE, expected=1.0, measured=mean.isel(size=-1), tolerance=0.05, ours=True,
            reason="half of the spacing of the loads far from the edge",
        ),
        at_most(
            "The edge comes closer with size: distance at the largest over that at the smallest", source=SOURCE,
            expected=1.0, measured=abs(mean.isel(size=-1) - 1) / abs(mean.isel(size=0) - 1), ours=True,
            reason="closer at all",
        ),
        close(
            "The fall sharpens as a power of N: exponent of its width", source="finite-size scaling", expected=-0.5,
            measured=slopes.mean(), tolerance=max(0.1, 2 * error), ours=True,
            reason="patterns of one network fail one by one if the noise on each has fluctuations of order N^-1/2; a tenth, or "
            "two standard errors",
        ),
        at_least(
            "and is wider than the loads are apart at every size: smallest width over the smallest spacing",
            source="the grid", expected=1.0, ours=True, measured=_estimate(width)[0].min(skipna=False) / spacing,
            reason="an exponent of widths below the spacing would be that of the grid",
        ),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(sizes=(125, 250, 500), ratios=(0.6, 0.8, 0.9, 1.0, 1.1, 1.25), chains=20, sweeps=30, networks=2),
    "paper": Config(
        sizes=(500, 1000, 2000, 4000, 8000),
        ratios=(0.6, 0.7, 0.8, 0.85, 0.875, 0.9, 0.925, 0.95, 0.975, 1.0, 1.025, 1.05, 1.1, 1.2, 1.35),
        chains=30,
        sweeps=50,
        networks=5,
    ),
}
DIFFERS = {name: ("the lecture gives theory's diagram only",) for name in PRESETS}
