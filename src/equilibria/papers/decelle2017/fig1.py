"""The linear machine learns the data's modes one after the other: ascent on its exact likelihood against its flow.

The flow is that of singular values and vectors, the paper's equations, and not the gradient again. As they are printed, the
rotations have another sign and a factor of two; those that solve (6) are `eq.theory.projected_dynamics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.decelle2017.linear import ascend, flow, misprint
from equilibria.papers.sweep import sweep


@dataclass(frozen=True)
class Config:
    """Normal data with a few planted `variances` above the threshold 1 and a `bulk` below it."""

    visible: int = 30
    hidden: int = 16
    samples: int = 1000
    variances: tuple[float, ...] = (6.0, 3.6, 2.4, 1.7)
    bulk: float = 0.5
    scale: float = 2e-4  # of the first weights
    rate: float = 5e-4  # of the coarsest of three ascents
    duration: float = 20.0
    records: int = 100
    seeds: int = 2
    seed: int = 0


def moments(config: Config, seed: int) -> np.ndarray:
    """The second moments <s s^T> of a sample with the planted variances along random directions."""
    random = np.random.default_rng(seed)
    axes = np.linalg.qr(random.normal(size=(config.visible, config.visible)))[0]
    spread = np.full(config.visible, config.bulk)
    spread[: len(config.variances)] = config.variances
    data = random.normal(size=(config.samples, config.visible)) * np.sqrt(spread) @ axes.T
    return data.T @ data / config.samples


def learned(machine: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: three ascents at rates halved each time, which give their limit at rate zero, and the flow."""
    covariance = moments(config, config.seed + 2 * machine)
    random = np.random.default_rng(config.seed + 2 * machine + 1)
    start = config.scale * random.normal(size=(config.visible, config.hidden))
    times, coarse = recorded(config)
    paths = []
    for halving in range(3):
        with jax.enable_x64(True):
            rate, steps = config.rate / 2**halving, coarse * 2**halving
            paths.append(np.asarray(ascend(start, covariance, rate, steps, records=config.records)))
    # the error of an ascent is a series in its rate: three rates take away the first two terms
    limit = (paths[0] - 6 * paths[1] + 8 * paths[2]) / 3
    flowed = flow(covariance, start, times)
    left, strengths, _ = np.linalg.svd(paths[2], full_matrices=False)
    flow_left, flow_strengths, _ = np.linalg.svd(flowed, full_matrices=False)
    variances, principal = (found[..., ::-1] for found in np.linalg.eigh(covariance))
    count = strengths.shape[1]
    rises = {
        name: np.array([eq.theory.linear_likelihood(covariance, weights) for weights in path])
        for name, path in (("likelihood", paths[2]), ("flow_likelihood", flowed))
    }
    return rises | {
        "strength": strengths,
        "overlap": np.abs((left * principal[:, :count]).sum(axis=1)),
        "flow_strength": flow_strengths,
        "flow_overlap": np.abs((flow_left * principal[:, :count]).sum(axis=1)),
        "gap": np.abs(limit - flowed).max(axis=(1, 2)),
        "misprint": np.array(misprint(covariance, flowed[len(times) // 20], len(config.variances))),
        "variance": variances[:count],
        "fixed_point": eq.theory.linear_fixed_point(variances[:count]),
        "empty_likelihood": np.array(eq.theory.linear_likelihood(covariance, 0 * start)),
        "start_likelihood": np.array(eq.theory.linear_likelihood(covariance, start)),
    }


def recorded(config: Config) -> tuple[np.ndarray, int]:
    """The times of the records, and how many steps of the coarsest ascent lie between two."""
    coarse = round(config.duration / config.rate / config.records)
    return coarse * config.rate * np.arange(1, config.records + 1), coarse


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Every seed, each kept when it is finished."""
    cells = sweep(learned, config, checkpoint, machine=range(config.seeds))
    along, modes = ("time",), ("variance", "fixed_point")
    shapes = {
        name: (*along * (name not in modes), "mode")
        for name in ("strength", "overlap", "flow_strength", "flow_overlap", *modes)
    } | dict.fromkeys(("likelihood", "flow_likelihood", "gap"), along)
    return xr.Dataset(
        {name: (("seed", *shapes.get(str(name), ())), cells[name].values) for name in cells},
        {"time": recorded(config)[0], "mode": np.arange(1, config.hidden + 1)},
        {"planted": len(config.variances), "rate": config.rate / 4},
    )


def plot(dataset: xr.Dataset):
    """Singular values and likelihood against time in the first seed, the ascent as points on the flow of modes; alignment in
    the inset."""
    planted, dataset = dataset.attrs["planted"], dataset.isel(seed=0)
    figure, (left, right) = plots.panels(columns=2, size=(5.0, 3.8))
    sparse = dataset.isel(time=slice(0, None, 4))
    inset = right.inset_axes((0.46, 0.13, 0.52, 0.27))
    left.plot(dataset["time"], dataset["flow_strength"][:, planted:], color="#bbbbbb", linewidth=0.7)
    for mode in range(planted):
        colour = plots.PALETTE[mode]
        label = f"{float(dataset['variance'][mode]):.2f}"
        plots.theory_line(left, dataset["time"], dataset["flow_strength"][:, mode], colour=colour, label=label)
        plots.simulation_points(left, sparse["time"], sparse["strength"][:, mode], colour=colour)
        left.axhline(float(dataset["fixed_point"][mode]), color=colour, linestyle=":", linewidth=0.8)
        plots.theory_line(inset, dataset["time"], dataset["flow_overlap"][:, mode], colour=colour, linewidth=1)
    left.set(xlabel="time (rate × steps)", ylabel="singular value $w_α$", ylim=(0, 1))
    left.set_title("lines: flow; points: gradient ascent; dotted: fixed points")
    left.legend(title=r"variance $\langle s_α^2\rangle$ in the data", loc="lower right")
    plots.theory_line(right, dataset["time"], dataset["flow_likelihood"], label="flow")
    plots.simulation_points(right, sparse["time"], sparse["likelihood"], label="gradient ascent")
    right.set(xlabel="time (rate × steps)", ylabel="exact mean log-likelihood (nats)")
    right.set_title("a rise for each mode; inset: alignment with the data")
    right.legend(loc="center right")
    inset.set(ylim=(0, 1.03), ylabel="$|u_α \\cdot e_α|$")
    inset.tick_params(labelsize=7)
    return figure


def gained(dataset: xr.Dataset) -> np.ndarray:
    """How much the likelihood (seed, time) rises while a planted mode goes from a tenth of its strength to nine tenths, over
    what that mode gains alone: (seed, mode)."""
    planted = dataset.attrs["planted"]
    share = (dataset["strength"] / dataset["fixed_point"]).transpose("seed", "mode", "time").values[:, :planted]
    first, last = (share > 0.1).argmax(-1), (share > 0.9).argmax(-1)
    variance, ends = dataset["variance"].values[:, :planted], dataset["fixed_point"].values[:, :planted]
    rows = np.arange(len(first))[:, None]

    def alone(place):  # at the strength that the mode has then
        w = share[rows, np.arange(planted), place] * ends
        return 0.5 * (np.log(1 - w**2) + variance * w**2)

    rise = dataset["likelihood"].transpose("seed", "time").values
    return (rise[rows, last] - rise[rows, first]) / (alone(last) - alone(first))


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the paper says of the linear machine, as it is printed; and what holds of it."""
    planted, last = dataset.attrs["planted"], dataset.isel(time=-1)
    middle = dataset.isel(time=dataset.sizes["time"] // 2)
    emerged = (dataset["strength"] > 0.5 * dataset["fixed_point"]).transpose("seed", "mode", "time").values.argmax(-1)
    variance = dataset["variance"].values
    above, below, squares = variance[:, :planted], variance[:, planted:], last["flow_strength"].values ** 2
    gain = (0.5 * (above - 1 - np.log(above))).sum(1)
    rise = dataset["likelihood"].transpose("seed", "time").values
    rises = np.diff(rise, prepend=dataset["start_likelihood"].values[:, None])
    decay = np.exp(-(1 - below[:, 0]) * float(last["time"] - middle["time"]))
    left = float((middle["flow_strength"].values[:, planted] * decay).max())
    return [
        at_most(
            "The printed rotations of the modes are those of the machine (distance over their size, early)",
            source="equation for Omega before Fig. 1", expected=0, measured=dataset["misprint"].values, tolerance=0.01,
            reason="differences of a decomposition over a time of 1e-6", every=True,
            quote="these equations are exact for a linear RBM",
        ),
        at_most(
            "The printed growth of the modes is that of the machine: with rotations that solve (6), largest distance of a "
            "weight from the limit of ascent",
            source="equation for dw/dt before Fig. 1", expected=0, measured=dataset["gap"].values.max(1), tolerance=1e-6,
            reason="what is left of the error of the ascent at three rates", every=True,
            quote="these equations are exact for a linear RBM",
        ),
        at_most(
            "Modes above the threshold end at the printed w^2 = variance - 1 (largest distance of w^2)",
            source="equilibria after Fig. 1", expected=0, measured=np.abs(squares[:, :planted] - above + 1), tolerance=0.01,
            reason="a hundredth of the threshold", every=True, quote="the system reach the following equilibrium values",
        ),
        at_most(
            "Modes below it end at the printed w^2 = variance (largest distance of w^2)",
            source="equilibria after Fig. 1", expected=0, measured=np.abs(squares[:, planted:] - below), tolerance=0.01,
            reason="a hundredth of the threshold", every=True, quote="the system reach the following equilibrium values",
        ),
        at_most(
            "Other deformations are damped to zero (largest singular value below the threshold, at the end)",
            source="text after Fig. 1", expected=0, measured=last["strength"].values[:, planted:], every=True,
            tolerance=1e-6 + left,
            reason="what exp(-(1 - variance) t) leaves of the slowest mode in the second half of the time",
            quote="Other possible deformations are damped to zero",
        ),
        close(
            "All components above the threshold are learned, and no others: how many modes have left zero, less how many "
            "components have a variance above 1",
            source="text after Fig. 1", expected=0, tolerance=0, every=True,
            measured=(last["strength"].transpose("seed", "mode").values > 0.01).sum(1) - (variance > 1).sum(1),
            reason="a hundredth of the threshold counts as zero",
            quote="The linear RBM will therefore learn all (up to N_h) principal components that passed the threshold",
        ),
        at_least(
            "Modes emerge one by one, in the order of their variance: least time between one and the next",
            source="Fig. 1", expected=0.0, every=True,
            measured=np.diff(dataset["time"].values[emerged[:, :planted]], axis=1),
            quote="we can see the eigenvalues being learned one by one",
        ),
        at_least(
            "The vectors of W are aligned with those of the data at the end: least overlap of a learned mode",
            source="Fig. 1, inset", expected=1.0, measured=last["overlap"].values[:, :planted], every=True, tolerance=1e-3,
            reason="the slowest turn goes like exp(-t times a difference of variances, 0.7 or more)",
            quote="The us of w are aligned with the SVD of the data at the end of the learning",
        ),
        at_least(
            "The likelihood increases at each eigenvalue learned: its rise while a mode comes up, over what that mode gains",
            source="Fig. 1", expected=1.0, measured=gained(dataset), every=True, tolerance=0.1,
            reason="other modes can only add to it; a tenth for the spacing of records",
            quote="how the likelihood increases at each eigenvalue learned",
        ),
        at_least(
            "The likelihood never falls on the way: its least rise between records", source="Fig. 1", expected=0.0,
            measured=rises, every=True, tolerance=1e-9, reason="rounding in double precision",
        ),
        at_most(
            "The distribution learned is unimodal: normal, its precision 1 - W W^T is positive (largest singular value)",
            source="text after Fig. 1", expected=1, measured=last["strength"].values.max(1), every=True,
            quote="it is important to remember that the resulting distribution will still be unimodal",
        ),
        at_most(
            "With rotations that solve (6) the flow of modes is exact: largest distance of a weight from the limit of ascent",
            source="eq.theory.projected_dynamics", expected=1e-6, measured=dataset["gap"].values.max(1), every=True, ours=True,
        ),
        at_most(
            "Singular values end at w² = 1 - 1/variance above the threshold variance 1 and at 0 below: largest distance",
            source="eq.theory.linear_fixed_point", expected=0.0, tolerance=1e-6 + left, every=True, ours=True,
            measured=abs(last["flow_strength"] - last["fixed_point"]).values,
            reason="what exp(-(1 - variance) t) leaves of the slowest mode of the bulk in the second half of the time",
        ),
        close(
            "Each mode learned raises the likelihood above that of W = 0 by (variance - 1 - ln variance)/2: all, less that",
            source="linear machine", expected=0, measured=rise[:, -1] - dataset["empty_likelihood"].values - gain,
            tolerance=1e-6, reason="squares of what is left of the bulk", every=True, ours=True,
        ),
    ]  # fmt: skip


DIFFERS = {
    "quick": ("30 visible and 16 hidden units, 1,000 samples, 2 seeds; the paper does not say what data Fig. 1 is of",),
    "paper": (
        "100 visible and 60 hidden units, 4,000 samples of a normal law with four planted variances: the paper does not say "
        "what data, sizes or rate Fig. 1 is of",
    ),
}
PRESETS = {"quick": Config(), "paper": Config(visible=100, hidden=60, samples=4000, seeds=5)}
