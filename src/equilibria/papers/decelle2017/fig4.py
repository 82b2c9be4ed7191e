"""Strong modes are amplified, weak ones damped, and the cut between them moves."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.decelle2017.training import DIFFERS as DIFFERS
from equilibria.papers.decelle2017.training import PAPER, QUICK, Config, learned, spins

INSET = (1, 2, 10, 100, 350, 400)


def run(config: Config) -> xr.Dataset:
    """The spectrum along the trainings, and the data's own."""
    data = spins(config)
    return found(learned(config, data), data)


def found(trainings: xr.Dataset, data: np.ndarray) -> xr.Dataset:
    """The spectra of some trainings beside that of the data."""
    spread = eq.principal_components(data.astype(np.float32)).values
    return trainings[["value"]].transpose("seed", "step", "mode").assign(data=("component", spread))


def amplified(values: np.ndarray) -> np.ndarray:
    """How many modes are stronger than the mode of the same rank was before learning: (..., step, mode) -> (..., step)."""
    return (values > values[..., :1, :]).sum(-1)


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
    left.set(xlabel="mode", ylabel="singular value", ylim=(max(float(values.min()) / 2, 1e-3), None))
    left.legend(fontsize=6.5, loc="lower left")
    for rank in [rank for rank in INSET if rank <= dataset.sizes["mode"]]:
        right.plot(dataset.epoch[1:], values[1:, rank - 1], label=f"mode {rank}")
    right.set(xlabel="epoch", xscale="log", ylabel="singular value", yscale="log")
    right.legend(fontsize=7)
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
        at_most(
            "All beyond a cut are damped (modes that grew, as a fraction of all)",
            source="Fig. 4, second cut-off", expected=0.9, measured=counts[:, -1] / modes, every=True,
            quote="beyond some alpha the modes are dumped while before they are amplified",
        ),
        close(
            "The linear cut-off is around mode 50 (components with more variance than a free spin)",
            source="Fig. 4", expected=50, measured=linear_cut(dataset), tolerance=12,
            reason="read off a logarithmic axis: a quarter", quote="the linear cutoff (around alpha = 50)",
        ),
        *deep,
        at_least(
            "In the linear regime no fewer modes grow than components exceed the variance of a free spin by far (10)",
            source="Fig. 4, first cut-off", expected=0, measured=counts[:, half] - (spread**2 > 10).sum(), every=True,
        ),
        at_least(
            "Deep in the non-linear regime the cut is further out than the linear one (by how many modes)",
            source="Fig. 4, the two cut-offs", expected=1, measured=counts[:, -1] - linear_cut(dataset), every=True,
        ),
        at_most(
            "The top of the spectrum is flatter than that of the data (first over tenth value, relative to the data's)",
            source="text on Fig. 4", expected=1, every=True,
            measured=values[:, -1, 0] / values[:, -1, 9] / (spread[0] / spread[9]),
            quote="the top part of the spectrum of W appear flattened as compared to empirical SVD spectrum",
        ),
    ]  # fmt: skip


PRESETS = {"quick": QUICK, "paper": PAPER}
