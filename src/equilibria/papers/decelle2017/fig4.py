"""Strong modes are amplified, weak ones damped, and the cut between them moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable
from equilibria.papers.decelle2017.training import DIFFERS as DIFFERS
from equilibria.papers.decelle2017.training import PAPER, QUICK, Components, Config, components, learned
from equilibria.theory import marchenko_pastur_edges

INSET = (1, 2, 10, 100, 350, 400)


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The spectrum along the trainings, and the data's own."""
    return found(config, learned(config, checkpoint), components(config.images))


def found(config: Config, trainings: xr.Dataset, principal: Components) -> xr.Dataset:
    """The spectra of some trainings beside that of the data, and the edge of the noise."""
    edge = marchenko_pastur_edges(784, config.hidden, variance=config.variance)[1]
    values = trainings[["value"]].transpose("seed", "step", "mode")
    return values.assign(data=("component", np.asarray(principal.centred.values))).assign_attrs(edge=edge)


def amplified(values: np.ndarray) -> np.ndarray:
    """How many modes are stronger than the mode of the same rank was before learning: (..., step, mode) -> (..., step)."""
    return (values > values[..., :1, :]).sum(-1)


def misplaced(values: np.ndarray) -> np.ndarray:
    """The share of modes on the wrong side of the best cut between those that grew and those that did not.

    Args:
        values: (seed, step, mode), of which the first and the last step count.

    Returns:
        One for each seed; the cut has a mode on either side.
    """
    grew = (values[:, -1] > values[:, 0]).astype(int)
    before = np.cumsum(1 - grew, axis=1)[:, :-1]  # damped, though before the cut
    beyond = grew.sum(1, keepdims=True) - np.cumsum(grew, axis=1)[:, :-1]
    return (before + beyond).min(1) / values.shape[-1]


def flatness(values: np.ndarray, data: np.ndarray, edge: float) -> np.ndarray:
    """First over tenth value, relative to the data's, of values (seed, mode); NaN while the tenth is one of noise."""
    learned = values[:, 9] > edge * (1 + 3 * values.shape[1] ** (-2 / 3))
    return np.where(learned, values[:, 0] / values[:, 9] / (data[0] / data[9]), np.nan)


def linear_cut(dataset: xr.Dataset) -> int:
    """How many modes the linear regime amplifies: principal components whose variance exceeds that of a free spin, 1."""
    return int((dataset["data"] ** 2 > 1).sum())


def plot(dataset: xr.Dataset) -> Figure:
    """Spectra along the first training on the left, the modes of the paper's inset against time on the right."""
    figure, (left, right) = plots.panels(2, size=(4.6, 3.6))
    values = dataset["value"].isel(seed=0)
    ranks = np.arange(1, dataset.sizes["mode"] + 1)
    chosen = np.unique(np.linspace(0, dataset.sizes["step"] - 1, 7).round().astype(int))
    for place, index in enumerate(chosen):
        shade = str(0.8 - 0.7 * place / max(1, len(chosen) - 1))
        left.loglog(ranks, values[index], color=shade, label=f"epoch {float(dataset.epoch[index]):.2g}")
    left.loglog(np.arange(1, dataset.sizes["component"] + 1), dataset["data"], color=plots.PALETTE[1], label="data")
    cut = linear_cut(dataset)
    left.axvline(cut, color=plots.PALETTE[0], lw=0.8, ls="--", label=f"linear cut, {cut}")
    last = int(amplified(values.values)[-1])
    left.axvline(last, color=plots.PALETTE[2], lw=0.8, ls="--", label=f"cut at the end, {last}")
    left.set(
        xlabel="mode",
        ylabel="singular value",
        ylim=(max(float(values.min()) / 2, 1e-3), 2 * max(float(values.max()), float(dataset["data"].max()))),
    )
    left.legend(fontsize=6.5, loc="lower left")
    for rank in [rank for rank in INSET if rank <= dataset.sizes["mode"]]:
        right.plot(dataset.epoch[1:], values[1:, rank - 1], label=f"mode {rank}")
    right.set(xlabel="epoch", xscale="log", ylabel="singular value", yscale="log")
    for axis in (left.yaxis, right.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    right.set_yticks(
        [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if values.min() / 2 < tick < 2 * values.max()]
    )
    right.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Which modes are amplified, which are damped, and how many."""
    values = dataset["value"].values  # (seed, step, mode)
    growth, counts = values[:, -1] / values[:, 0], amplified(values)
    half = int(np.searchsorted(dataset.epoch.values, 0.5))
    modes, spread = values.shape[-1], dataset["data"].values
    deep = [] if modes != 400 else [
        close(
            "Deep in the non-linear regime it is around mode 250 of 400 (modes that grew)",
            source="Fig. 4", expected=250, measured=counts[:, -1], tolerance=50,
            reason="read off a logarithmic axis: a fifth", quote="going deep into the non-linear regime (alpha = 250)",
        ),
    ]  # fmt: skip
    return [
        at_least(
            "The strongest mode is amplified (factor)", source="Fig. 4", expected=2, measured=growth[:, 0], every=True,
            quote="the strongest mode get out of the bulk and increase",
        ),
        at_least(
            "The strongest mode gets out of the bulk (its last value over the edge of the noise)",
            source="text on Fig. 4", expected=1 + 3 * modes ** (-2 / 3), measured=values[:, -1, 0] / dataset.attrs["edge"],
            every=True, reason="the largest value of n of noise scatters by about n^(-2/3)",
            quote="the strongest mode get out of the bulk and increase",
        ),
        at_most(
            "The weakest mode is damped (factor)",
            source="Fig. 4, inset", expected=0.9, measured=growth[:, -1], every=True,
            quote="the lowest ones are dumped after many epochs",
        ),
        at_most(
            "The weak modes of the inset, 350 and 400 of 400, decrease (factor)",
            source="Fig. 4, inset", expected=1, measured=growth[:, [7 * modes // 8 - 1, -1]], every=True,
            quote="for large value of alpha, the modes are decreasing",
        ),
        at_least(
            "The modes of the inset before the cut, 1, 2, 10 and 100 of 400, are amplified (least factor)",
            source="Fig. 4, inset", expected=1, measured=growth[:, [0, 1, 9, modes // 4 - 1]], every=True,
            quote="beyond some alpha the modes are dumped while before they are amplified",
        ),
        at_most(
            "All beyond a cut are damped (modes that grew, as a fraction of all)",
            source="Fig. 4, second cut-off", expected=0.9, measured=counts[:, -1] / modes, every=True,
            quote="beyond some alpha the modes are dumped while before they are amplified",
        ),
        at_most(
            "Before a cut modes grow and beyond it they are damped (share of modes on the wrong side of the best cut)",
            source="Fig. 4, second cut-off", expected=0.05, measured=misplaced(values), every=True,
            reason="one mode in twenty", quote="beyond some alpha the modes are dumped while before they are amplified",
        ),
        close(
            "The linear cut-off is around mode 50 (components with more variance than a free spin)",
            source="Fig. 4, linear theory", expected=50, measured=linear_cut(dataset), tolerance=12,
            reason="read off a logarithmic axis: a quarter", quote="the linear cutoff (around alpha = 50)",
        ),
        close(
            "... and so it is in the machine (modes that have grown after half an epoch)",
            source="Fig. 4", expected=50, measured=counts[:, half], tolerance=12,
            reason="read off a logarithmic axis: a quarter", quote="the linear cutoff (around alpha = 50)",
        ),
        *deep,
        at_least(
            "Deep in the non-linear regime the cut is further out than the linear one (by how many modes)",
            source="Fig. 4, the two cut-offs", expected=1, every=True,
            measured=counts[:, -1] - np.maximum(linear_cut(dataset), counts[:, half]),
            reason="further than that of linear theory and than that of the machine after half an epoch",
            quote="seems different from the one observed when going deep into the non-linear regime",
        ),
        at_most(
            "The top of the spectrum is flatter than that of the data (first over tenth value, relative to the data's)",
            source="text on Fig. 4", expected=1, every=True, measured=flatness(values[:, -1], spread, dataset.attrs["edge"]),
            reason="ten modes that have left the noise: one of noise alone is flatter than any data",
            quote="the top part of the spectrum of W appear flattened as compared to empirical SVD spectrum",
        ),
        not_testable(
            "The cut-off is where the spectrum begins to be linear", source="Fig. 4",
            reason="the paper does not say which curve becomes straight, in which axes, nor how far it may depart from a line",
            quote="A cutoff is highlighted by the onset of the linear behaviour",
        ),
        not_testable(
            "The flat top favours many states of similar free energy", source="text on Fig. 4",
            reason="the paper presumes it, and names no machine with which this one could be compared",
            quote="This presumably favors the expression of many states of similar free energy",
        ),
        at_least(
            "In the linear regime no fewer modes grow than components exceed the variance of a free spin by far (10)",
            source="linear instabilities", expected=0, measured=counts[:, half] - (spread**2 > 10).sum(), every=True, ours=True,
        ),
    ]  # fmt: skip


PRESETS = {"quick": QUICK, "paper": PAPER}
