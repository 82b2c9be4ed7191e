"""Strong modes are amplified, weak ones damped, and the cut between them moves."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.training import PAPER, QUICK, Config, learn, spins


def run(config: Config) -> xr.Dataset:
    """The spectrum along one training, and the data's own."""
    data = spins(config)
    found = learn(config, data).drop_vars("direction")
    spread = eq.principal_components(data.astype(np.float32)).values
    return found.assign(data=("component", spread))


def amplified(dataset: xr.Dataset) -> np.ndarray:
    """How many modes are stronger than the mode of the same rank was before learning, at each record."""
    return (dataset.value > dataset.value[0]).sum("mode").values


def linear_cut(dataset: xr.Dataset) -> int:
    """How many modes the linear regime amplifies: principal components whose variance exceeds that of a free spin, 1."""
    return int((dataset["data"] ** 2 > 1).sum())


def plot(dataset: xr.Dataset) -> Figure:
    """Spectra along the training on the left, single modes against time on the right."""
    figure, (left, right) = plots.panels(2, size=(4.6, 3.6))
    ranks = np.arange(1, dataset.sizes["mode"] + 1)
    chosen = np.unique(np.linspace(0, dataset.sizes["step"] - 1, 7).round().astype(int))
    for place, index in enumerate(chosen):
        colour = str(0.8 - 0.7 * place / max(1, len(chosen) - 1))
        left.loglog(ranks, dataset.value[index], color=colour, label=f"epoch {float(dataset.epoch[index]):.2g}")
    left.loglog(np.arange(1, dataset.sizes["component"] + 1), dataset["data"], color=plots.PALETTE[1], label="data")
    left.axvline(linear_cut(dataset), color=plots.PALETTE[0], lw=0.8, ls="--")
    left.set(xlabel="mode", ylabel="singular value", ylim=(float(dataset.value.min()) / 2, None))
    left.legend(fontsize=7)
    modes = dataset.sizes["mode"]
    for rank in [rank for rank in (1, 2, 10, 100, 350, 400) if rank <= modes]:
        right.plot(dataset.epoch[1:], dataset.value[1:, rank - 1], label=f"mode {rank}")
    right.set(xlabel="epoch", xscale="log", ylabel="singular value", yscale="log")
    right.legend(fontsize=7)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Which modes are amplified, which are damped, and how many."""
    growth = (dataset.value[-1] / dataset.value[0]).values
    counts = amplified(dataset)
    half = int(np.searchsorted(dataset.epoch.values, 0.5))
    top = dataset.value[-1].values
    spread = dataset["data"].values
    return [
        at_least("The strongest mode is amplified (factor)", source="Fig. 4", expected=2, measured=growth[0]),
        at_most("The weakest mode is damped (factor)", source="Fig. 4, inset", expected=0.9, measured=growth[-1]),
        at_most(
            "The weak modes of the inset, 350 and 400 of 400, are damped at all (largest factor)",
            source="Fig. 4, inset",
            ours=True,
            expected=1.0,
            measured=growth[[7 * len(growth) // 8 - 1, -1]].max(),
        ),
        at_most(
            "and so are all beyond a cut (modes that grew, as a fraction of all)",
            source="Fig. 4, second cut-off",
            expected=0.9,
            measured=counts[-1] / dataset.sizes["mode"],
        ),
        at_least(
            "In the linear regime no fewer modes grow than components exceed the variance of a free spin by far (10)",
            source="Fig. 4, first cut-off",
            expected=(spread**2 > 10).sum(),
            measured=counts[half],
        ),
        at_least(
            "Deep in the non-linear regime the cut is further out than the linear one",
            source="Fig. 4, the two cut-offs",
            expected=linear_cut(dataset) + 1,
            measured=counts[-1],
        ),
        at_most(
            "The top of the spectrum is flatter than that of the data (first over tenth value)",
            source="text on Fig. 4",
            expected=spread[0] / spread[9],
            measured=top[0] / top[9],
        ),
    ]


PRESETS = {"quick": QUICK, "paper": PAPER}
