"""What Figure 5 shows and what section 5 says of its networks, for each of its panels and readings."""

from __future__ import annotations

import xarray as xr

from equilibria import plots
from equilibria.papers.claims import Claim, at_most, close, not_testable
from equilibria.papers.scellier2017.training import TABLE


def plot(dataset: xr.Dataset):
    """Errors after each epoch, a colour for each seed: in training (dashed), on validation images that go on from where the
    epoch before left them, as in the authors' code (full lines), and on the same images from 0 (dotted).
    """
    figure, axes = plots.panels(size=(6.0, 3.8))
    for seed, colour in zip(range(dataset.sizes["seed"]), plots.PALETTE, strict=False):
        here = dataset.isel(seed=seed)
        axes.plot(dataset["epoch"], 100 * here["validation"], color=colour, label=f"seed {seed}")
        axes.plot(dataset["epoch"], 100 * here["train"], color=colour, linestyle="--", linewidth=1)
        axes.plot(dataset["epoch"], 100 * here["from_zero"], color=colour, linestyle=":", linewidth=1)
    axes.axhspan(2, 3, color="0.92", zorder=0)
    axes.text(0.99, 1.9, "2% to 3%", color="0.4", ha="right", va="top", transform=axes.get_yaxis_transform())
    for line, name in (("-", "validation, going on"), (":", "validation, from 0"), ("--", "training")):
        axes.plot([], [], line, color="0.4", label=name)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(xlabel="epoch", ylabel=f"error on {dataset.attrs['images']}, %", ylim=(0, 100))
    axes.xaxis.get_major_locator().set_params(integer=True)
    depth = int(dataset.attrs["depth"])
    axes.set_title(f"{depth} hidden layer{'s' * (depth > 1)} of Table 2, {dataset.attrs['reading']}")
    axes.legend(loc="upper right", ncols=3, fontsize=7.5)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What section 5 says of this network."""
    depth, last = int(dataset.attrs["depth"]), 100 * dataset.isel(epoch=-1)
    steps = f"{TABLE[depth].free} iterations" if dataset.attrs["free"] == "Euler" else "200 sweeps of block descent"
    if dataset.attrs["images"] != "mnist":
        why = "the paper's numbers are for MNIST; this small version learns the bundled digits"
        return [
            not_testable(f"{depth} hidden: training error of 0.00%", source="Figure 5; section 5", reason=why),
            not_testable(f"{depth} hidden: validation error between 2% and 3%", source="section 5; Figure 5", reason=why),
            at_most(
                f"{depth} hidden: the bundled digits are learned: training error in the last epoch, %", source="small version",
                expected=10.0, measured=last["train"].values, reason="one class of ten that is lost makes 10%", ours=True,
            ),
        ]  # fmt: skip
    return [
        at_most(
            f"{depth} hidden: training error in the last epoch, %", source="Figure 5; section 5", expected=0.0,
            measured=last["train"].values, tolerance=0.005, reason="0.00% has two decimals", every=True,
            quote="The training error eventually decreases to 0.00% in all three cases.",
        ),
        close(
            f"{depth} hidden: validation error after the last epoch, %", source="section 5; Figure 5", expected=2.5,
            measured=last["validation"].values, tolerance=0.5, reason="the interval that the paper gives",
            quote="The generalization error lies between 2% and 3% depending on the architecture.",
        ),
        at_most(
            f"{depth} hidden: ... in the epoch in which it is smallest, %", source="Figure 5; section 5", expected=0.0,
            measured=100 * dataset["train"].min("epoch").values, tolerance=0.005, reason="0.00% has two decimals", every=True,
            quote="The training error eventually decreases to 0.00% in all three cases.",
        ),
        at_most(
            f"{depth} hidden: layers change by shares that differ by at most a factor of (mean over all updates)",
            source="section 5.2", expected=2.0,
            measured=(_shares(dataset).max("coupling") / _shares(dataset).min("coupling")).values,
            reason="approximately the same: within a factor of two, as in scellier2017/table2", every=True,
            quote="the quantities ‖ΔW_k‖/‖W_k‖ for k = 1, ..., N are approximately the same in average",
        ),
        not_testable(
            f"{depth} hidden: the curves between the first and the last epoch", source="Figure 5",
            reason="a picture whose axes are not in the text",
            quote="Training and validation error for neural networks with 1 hidden layer of 500 units (top left), 2 hidden "
            "layers of 500 units (top right), and 3 hidden layers of 500 units (bottom).",
        ),
        close(
            f"{depth} hidden: ... and when validation images begin at 0 in place of where the epoch before left them, %",
            source="section 5, here without persistent particles", expected=2.5,
            measured=last["from_zero"].values, tolerance=0.5, reason="the same interval", ours=True,
        ),
        close(
            f"{depth} hidden: test error after the last epoch, %", source="section 5, here on the test images", expected=2.5,
            measured=last["test"].values, tolerance=0.5, reason="the same interval", ours=True,
        ),
        at_most(
            f"{depth} hidden: batches whose 0-phase is not at rest within {steps}, in the last epoch",
            source="Table 2", expected=0.0, measured=dataset["unconverged"].isel(epoch=-1).values, tolerance=0.05, ours=True,
            reason="at most one in twenty: then these are enough to come to rest",
        ),
    ]  # fmt: skip


def _shares(dataset: xr.Dataset) -> xr.DataArray:
    """The mean relative change of each coupling over the whole training."""
    return dataset["change"].mean("epoch")
