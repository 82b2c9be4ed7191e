"""The linear machine learns the data's modes one after the other: ascent on its exact likelihood against its flow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close


@dataclass(frozen=True)
class Config:
    """Normal data with a few planted `variances` above the threshold 1 and a `bulk` below it."""

    visible: int = 30
    hidden: int = 16
    samples: int = 1000
    variances: tuple[float, ...] = (6.0, 3.6, 2.4, 1.7)
    bulk: float = 0.5
    scale: float = 2e-4  # of the first weights
    rate: float = 1e-3  # of the coarsest of three ascents
    duration: float = 20.0
    records: int = 100
    seed: int = 0


def moments(config: Config) -> np.ndarray:
    """The second moments <s s^T> of a sample with the planted variances along random directions."""
    random = np.random.default_rng(config.seed)
    axes = np.linalg.qr(random.normal(size=(config.visible, config.visible)))[0]
    spread = np.full(config.visible, config.bulk)
    spread[: len(config.variances)] = config.variances
    data = random.normal(size=(config.samples, config.visible)) * np.sqrt(spread) @ axes.T
    return data.T @ data / config.samples


def likelihood(weights, moments):
    """Mean log-likelihood up to a constant: s has the precision 1 - W W^T."""
    inner = jnp.eye(weights.shape[1]) - weights.T @ weights  # as large a determinant, and smaller
    return 0.5 * (jnp.linalg.slogdet(inner)[1] + jnp.sum(weights * (moments @ weights)))


@partial(jax.jit, static_argnames="records")
def ascend(weights, moments, rate, steps, *, records):
    """Weights after every `steps` steps of plain gradient ascent at this rate."""

    def row(weights, _):
        uphill = jax.grad(likelihood)
        weights = jax.lax.fori_loop(0, steps, lambda _, w: w + rate * uphill(w, moments), weights)
        return weights, weights

    return jax.lax.scan(row, weights, length=records)[1]


def run(config: Config, progress) -> xr.Dataset:
    """Three ascents at rates halved each time, which give their limit at rate zero, and the flow."""
    covariance = moments(config)
    start = config.scale * np.random.default_rng(config.seed + 1).normal(size=(config.visible, config.hidden))
    coarse = round(config.duration / config.rate / config.records)
    interval = coarse * config.rate
    paths = []
    for halving in progress(range(3), "ascents", "rate"):
        with jax.enable_x64(True):
            rate, steps = config.rate / 2**halving, coarse * 2**halving
            paths.append(np.asarray(ascend(start, covariance, rate, steps, records=config.records)))
    # the error of an ascent is a series in its rate: three rates take away the first two terms
    limit = (paths[0] - 6 * paths[1] + 8 * paths[2]) / 3
    times = interval * np.arange(1, config.records + 1)
    flow = eq.theory.linear_flow(covariance, start, times)
    left, strengths, _ = np.linalg.svd(paths[2], full_matrices=False)
    variances, principal = (found[..., ::-1] for found in np.linalg.eigh(covariance))
    count = strengths.shape[1]
    rise = [eq.theory.linear_likelihood(covariance, weights) for weights in paths[2]]
    return xr.Dataset(
        {
            "strength": (("time", "mode"), strengths),
            "overlap": (("time", "mode"), np.abs((left * principal[:, :count]).sum(axis=1))),
            "likelihood": ("time", np.array(rise)),
            "flow_strength": (("time", "mode"), flow.strengths),
            "flow_overlap": (("time", "mode"), flow.overlaps),
            "flow_likelihood": ("time", flow.likelihood),
            "gap": ("time", np.abs(limit - flow.weights).max(axis=(1, 2))),
            "variance": ("mode", variances[:count]),
            "fixed_point": ("mode", eq.theory.linear_fixed_point(variances[:count])),
            "empty_likelihood": ((), eq.theory.linear_likelihood(covariance, 0 * start)),
            "start_likelihood": ((), eq.theory.linear_likelihood(covariance, start)),
        },
        {"time": times, "mode": np.arange(1, count + 1)},
        {"planted": len(config.variances), "rate": config.rate / 4},
    )


def plot(dataset: xr.Dataset):
    """Singular values and likelihood against time, the ascent as points on the flow; alignment in the inset."""
    planted = dataset.attrs["planted"]
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


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Flow and ascent agree; modes above the threshold are learned in order and aligned; each raises the likelihood."""
    planted, last, middle = (
        dataset.attrs["planted"],
        dataset.isel(time=-1),
        dataset.isel(time=dataset.sizes["time"] // 2),
    )
    emerged = (dataset["strength"] > 0.5 * dataset["fixed_point"]).argmax("time").values[:planted]
    variance = dataset["variance"][:planted]
    gain = float((0.5 * (variance - 1 - np.log(variance))).sum())
    rises = np.diff(dataset["likelihood"], prepend=dataset["start_likelihood"])
    decay = np.exp(-(1 - dataset["variance"][planted]) * (last["time"] - middle["time"]))
    left = float(middle["flow_strength"][planted] * decay)
    return [
        at_most(
            "The flow of singular values and vectors is exact: largest distance of a weight from the limit of gradient ascent",
            source="'these equations are exact for a linear RBM'", expected=1e-6, measured=float(dataset["gap"].max()),
        ),
        at_most(
            "Singular values end at w² = 1 - 1/variance above the threshold variance 1 and at 0 below (corrected: the two "
            "cases printed are not fixed points of the paper's equation); largest distance",
            source="fixed points after Fig. 1", expected=0.0, tolerance=1e-6 + left,
            measured=float(np.abs(last["flow_strength"] - last["fixed_point"]).max()),
            reason="what exp(-(1 - variance) t) leaves of the slowest mode of the bulk in the second half of the time",
        ),
        at_least(
            "Modes emerge in the order of their variance: least time between one and the next",
            source="Fig. 1", expected=0.0, measured=float(np.diff(dataset["time"].values[emerged]).min()),
        ),
        at_least(
            "The vectors of W are aligned with those of the data at the end: least overlap of a learned mode",
            source="Fig. 1, inset", expected=1.0, measured=float(last["overlap"][:planted].min()), tolerance=1e-3,
            reason="the slowest turn goes like exp(-t times a difference of variances, 0.7 or more)",
        ),
        close(
            "Each mode learned raises the likelihood above that of W = 0 by (variance - 1 - ln variance)/2; together",
            source="Fig. 1", expected=gain, measured=float(last["likelihood"] - dataset["empty_likelihood"]),
            tolerance=1e-6, reason="squares of what is left of the bulk",
        ),
        at_least(
            "The likelihood never falls on the way: its least rise between records", source="Fig. 1", expected=0.0,
            measured=float(rises.min()), tolerance=1e-9, reason="rounding in double precision",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(visible=100, hidden=60, samples=4000)}
