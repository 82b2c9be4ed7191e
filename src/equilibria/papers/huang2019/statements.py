"""What the figures say: their claims, and how learners are drawn and called."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.huang2019.common import STARTS

LABELS = {
    "paper": "the paper's algorithm",
    "exact": "exact E-step",
    "response": "linear response",
    "best of starts": f"exact, best of {STARTS} starts",
}
COLOURS = dict(zip(LABELS, plots.PALETTE, strict=False))
NOT_GIVEN = (
    "learning rate 0.01 and momentum 0.9: the paper gives neither",
    "averages over z by quadrature: the paper draws B1 and B2 samples and does not say how many",
    "the factor z/Xi in (14) is integrated by parts, since it diverges as a weight becomes certain",
    "|lambda| is held below 1 - 1e-5: the paper does not say how",
    "weights begin at random, normal with width 0.1 in atanh(lambda): the paper does not say where",
)


def band(axes: Axes, x: Any, values: xr.DataArray, colour: str, label: str | None = None, dash: str = "-") -> None:
    """A mean over instances with the standard deviation around it, as error bars in the paper."""
    mean, spread = values.mean("instance"), values.std("instance", ddof=1)
    axes.plot(x, mean, dash, color=colour, label=label)
    axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def trajectories(axes: Axes, dataset: xr.Dataset, permute_at: int) -> None:
    """Overlaps along learning (learner, step, instance, unit) by all learners, and what the posterior knows."""
    theirs, steps = dataset.sel(learner="paper"), dataset["step"]
    for unit, dash in zip(range(dataset.sizes["unit"]), ("-", "--", "-."), strict=False):
        one = theirs["overlap"].isel(unit=unit, instance=0)
        axes.plot(steps, one, dash, color="0.55", linewidth=0.9, label=rf"$Q^{unit + 1}$, first realisation")
    band(axes, steps, theirs["matched"].mean("unit"), COLOURS["paper"], LABELS["paper"])
    for learner in map(str, dataset["learner"].values[1:]):
        ours = dataset.sel(learner=learner)["matched"].mean(("unit", "instance"))
        axes.plot(steps, ours, color=COLOURS[learner], linewidth=1.1, label=LABELS[learner])
    axes.axhline(float(dataset["best"].mean()), color="0.3", linestyle=":", linewidth=1.2, label="posterior")
    axes.axvline(permute_at, color="0.8", linewidth=0.8, zorder=0)
    axes.set(xlabel="learning step", ylim=(-1.05, 1.05))


def recovery(overlaps: np.ndarray, case: str, source: str) -> Claim:
    """The planted fields are found: `overlaps` is (instances, ...)."""
    return at_least(
        f"The planted fields are recovered ({case}): mean overlap",
        source=source, expected=0.85, measured=overlaps, over="realisation",
        quote="the variational learning framework is able to recover the ground truth",
        reason="the paper's figure shows no number in the text; 0.85 was written down before the first run",
    )  # fmt: skip


def nearly_optimal(overlaps: np.ndarray, best: np.ndarray, case: str) -> Claim:
    """Hardly less is found than the posterior itself knows; both are (instances,)."""
    return at_most(
        f"With the exact E-step and the best of {STARTS} starts hardly less is found than the posterior itself knows "
        f"({case}): difference in mean overlap",
        source="our sampler of the posterior", expected=0.0, measured=best - overlaps, tolerance=0.03,
        reason="independent weights are an approximation; 1.5 weights of a field of 100 wrong in its place",
        ours=True, over="realisation",
    )  # fmt: skip


def learns_less(paper: np.ndarray, exact: np.ndarray, case: str) -> Claim:
    """What the moments (15) cost; both are (instances,)."""
    return at_least(
        f"The exact E-step finds more of the fields than the paper's, from the same data ({case}): difference",
        source="(15c) counts only the edge between a pair", expected=0.0, measured=exact - paper,
        ours=True, over="realisation",
    )  # fmt: skip


def saturation(divergence: np.ndarray, weights: int, case: str, source: str) -> list[Claim]:
    """The KL divergence (step, instance) grows and saturates below its largest value."""
    growth = divergence[-1] - divergence[0]
    late = divergence[-1] - divergence[3 * len(divergence) // 4]
    return [
        at_least(
            f"The KL divergence grows with learning ({case}), in units of its largest value N P ln 2",
            source=source, expected=0.3, measured=growth / (weights * np.log(2)), over="realisation", every=True,
            quote="the KL divergence grows with learning",
        ),
        at_most(
            f"... until saturation ({case}): growth in the last quarter over the whole growth",
            source=source, expected=0.05, measured=late / growth, over="realisation", every=True,
            quote="we observe that the KL divergence grows until saturation",
        ),
    ]  # fmt: skip


def growing_bound(bound: np.ndarray, case: str, source: str) -> list[Claim]:
    """The bound (step, instance) grows with learning."""
    gain = bound.max(axis=0) - bound[0]
    falls = np.maximum(bound[:-1] - bound[1:], 0).max(axis=0)
    return [
        at_least(
            f"The lower bound ends higher than it began ({case}): gain over its largest, of the worst realisation",
            source=source, expected=0.99, measured=(bound[-1] - bound[0]) / gain, over="realisation", every=True,
            reason="a hundredth of the axis is the width of a line",
            quote="the lower-bound on the data log-likelihood, which is observed to grow with learning",
        ),
        at_most(
            f"... and grows all the way ({case}): largest fall from one step to the next over the whole gain",
            source=source, expected=0.01, measured=falls / gain, over="realisation", every=True,
            reason="a hundredth of the axis is the width of a line",
        ),
    ]  # fmt: skip


def symmetry_broken(overlap: xr.DataArray, permute_at: int, case: str, **told: Any) -> Claim:
    """The overlaps (step, instance, unit) with fixed labels fall when the fields are permuted."""
    fall = overlap.isel(step=permute_at - 1) - overlap.isel(step=permute_at)
    return at_least(
        f"Permuting the fields at step {permute_at} changes the overlaps: the symmetry is broken ({case}): mean fall",
        source="Sec. IV", expected=0.2, measured=fall.values, reason="twice 1/sqrt(N)", over="realisation",
        quote="the overlap with the ground truth can have a significant quantitative change", **told,
    )  # fmt: skip


def symmetric_below(labelled: xr.DataArray, permute_at: int, size: int, case: str) -> Claim:
    """The control: below the threshold a permutation does to overlaps (step, instance, unit) what chance does."""
    change = labelled.isel(step=permute_at) - labelled.isel(step=permute_at - 1)
    rms = np.sqrt((change**2).mean("unit").values)
    error = rms.std(ddof=1) / np.sqrt(len(rms))
    return at_most(
        f"Below the threshold the same permutation changes nothing but fluctuations of 1/sqrt(N) ({case}): rms change",
        source="Sec. IV", expected=np.sqrt(2 / size), measured=rms, tolerance=2 * error, over="realisation",
        reason="two overlaps of random signs differ by sqrt(2/N); two standard errors",
        quote="This symmetry can only be spontaneously broken when the amount of data reaches a certain threshold",
    )  # fmt: skip
