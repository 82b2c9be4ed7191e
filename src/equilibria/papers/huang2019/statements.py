"""What the figures say: their claims, and how learners are drawn and called."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy import stats

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable
from equilibria.papers.huang2019.common import STARTS

LABELS = {
    "paper": "the paper's algorithm",
    "no momentum": "... without momentum",
    "exact": "exact E-step",
    "response": "linear response",
    "best of starts": f"exact, best of {STARTS} starts",
}
COLOURS = dict(zip(LABELS, (plots.PALETTE[0], plots.PALETTE[5], *plots.PALETTE[1:]), strict=False))
NOT_GIVEN = (
    "learning rate 0.01 and momentum 0.9: the paper gives neither",
    "averages over z by quadrature: the paper draws B1 and B2 samples and does not say how many",
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


def margin(values: Any) -> float:
    """By how much the mean of independent values may miss the true one: 95%, by Student's law.

    >>> round(margin([1.0, 2.0, 3.0]), 3)  # 4.303 standard errors of 0.577
    2.484
    """
    values = np.asarray(values, np.float64)
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def recovery(overlaps: np.ndarray, worst: np.ndarray, case: str, source: str) -> list[Claim]:
    """The planted fields are found: mean overlaps, and that of the field found worst, (instances, ...) and (instances,)."""
    told: dict[str, Any] = {
        "source": source, "expected": 0.85, "over": "realisation",
        "quote": "the variational learning framework is able to recover the ground truth",
        "reason": "the paper's figure shows no number in the text; 0.85 was written down before the first run",
    }  # fmt: skip
    return [
        at_least(f"The planted fields are recovered ({case}): mean overlap", measured=overlaps, **told),
        at_least(f"... and each of them: overlap of the one that is found worst ({case})", measured=worst, **told),
    ]


def driven(matched: xr.DataArray, size: int, case: str) -> Claim:
    """Learning goes towards the planted fields, overlaps (step, instance, unit)."""
    mean = matched.mean("unit")
    return at_least(
        f"The updates drive the parameters towards the ground truth ({case}): mean overlap in the end less that at the start",
        source="text on Fig. 2 (a)", expected=2 / np.sqrt(size), over="realisation", every=True,
        measured=(mean.isel(step=-1) - mean.isel(step=0)).values, reason="two fluctuations of 1/sqrt(N)",
        quote="driving the update of the variational parameter towards the ground truth",
    )  # fmt: skip


def not_convex(bound: np.ndarray, weights: int, case: str) -> Claim:
    """A maximum of the bound (step, instance) and its mirror image -lambda are equally good, what lies between is not."""
    return at_least(
        f"The bound is not convex ({case}, exact E-step): how much lower it is half-way from a maximum to its mirror image "
        "-lambda, which has the same bound; measured at the start, nearly lambda = 0",
        source="Sec. III", expected=weights * 0.1**2, measured=bound[-1] - bound[0], over="realisation", every=True,
        reason="twice the nats by which the width of the start, 0.1, lies below lambda = 0",
        quote="This bound we try to optimize is nevertheless highly non-convex in the variational parameter space",
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
    """What the paper's algorithm costs; both are (instances,)."""
    return at_least(
        "The exact E-step with the natural gradient finds more of the fields than the paper's algorithm, from the same data "
        f"({case}): difference", source="(15c) counts only the edge between a pair", expected=margin(exact - paper),
        measured=exact - paper, reason="more than chance: 95% by Student's law; huang2019/fig_esteps tells the two apart",
        ours=True, over="realisation",
    )  # fmt: skip


def comes_to_rest(unconverged: np.ndarray, case: str) -> Claim:
    """The messages converge: fractions of draws of z for which they do not, (step, instance)."""
    return at_most(
        f"Message passing converges, in every step of learning ({case}): fraction of z for which it does not in 50 iterations",
        source="text after (10)", expected=0.0, measured=unconverged.max(axis=0), every=True, over="realisation",
        quote="this message passing equation is able to converge",
    )  # fmt: skip


def accelerated(paper: np.ndarray, plain: np.ndarray, case: str, level: float = 0.5) -> Claim:
    """Momentum helps: mean overlaps (step, instance) with it pass `level` earlier than without it; never counts as the end."""
    with_it, without = (np.where((path > level).any(0), (path > level).argmax(0), len(path)) for path in (paper, plain))
    return at_least(
        f"Momentum accelerates learning ({case}): steps later at which the mean overlap passes {level:g} without it",
        source="Sec. III", expected=margin(without - with_it), measured=without - with_it, over="realisation",
        reason="more than chance: 95% by Student's law; the same rate, which with momentum 0.9 moves ten times as far",
        quote="Using the trick of adding momentum helps acceleration of learning towards meaningful regions",
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
            f"... until saturation ({case}): change in the last quarter over the whole growth",
            source=source, expected=0.05, measured=np.abs(late) / growth, over="realisation", every=True,
            quote="we observe that the KL divergence grows until saturation",
        ),
    ]  # fmt: skip


def growing_bound(
    bound: np.ndarray, case: str, source: str,
    quote: str = "the lower-bound on the data log-likelihood, which is observed to grow with learning",
) -> list[Claim]:  # fmt: skip
    """The bound (step, instance) grows with learning."""
    gain = bound.max(axis=0) - bound[0]
    falls = np.maximum(bound[:-1] - bound[1:], 0).max(axis=0)
    return [
        at_least(
            f"The lower bound ends higher than it began ({case}): gain over its largest, of the worst realisation",
            source=source, expected=0.99, measured=(bound[-1] - bound[0]) / gain, over="realisation", every=True,
            reason="a hundredth of the axis is the width of a line", quote=quote,
        ),
        at_most(
            f"... and grows all the way ({case}): largest fall from one step to the next over the whole gain",
            source=source, expected=0.01, measured=falls / gain, over="realisation", every=True,
            reason="a hundredth of the axis is the width of a line",
        ),
    ]  # fmt: skip


def concepts(theirs: xr.Dataset, judged: float, size: int) -> list[Claim]:
    """Above the threshold the symmetry between lambda and -lambda is broken, in the direction of the fields."""
    here = theirs.sel(density=judged)
    name = f"P = {int(theirs['hidden_size'])}, q = {float(theirs['correlation']):g}, density {judged:g}"
    told: dict[str, Any] = {
        "source": "Sec. IV", "every": True, "over": "realisation",
        "quote": "Above the threshold, there appears spontaneous symmetry breaking corresponding to concept-formation",
    }  # fmt: skip
    return [
        at_least(
            f"Above the threshold the symmetry is broken: mean of lambda^2 ({name})", expected=0.05,
            measured=here["certainty"].values, reason="what is allowed of the random guess below it", **told,
        ),
        at_least(
            f"... towards the planted fields: mean overlap ({name})", expected=3 / np.sqrt(size),
            measured=here["overlap"].values, reason="three fluctuations of 1/sqrt(N)", **told,
        ),
    ]  # fmt: skip


def symmetry_broken(overlap: xr.DataArray, permute_at: int, case: str, quote: str) -> Claim:
    """The overlaps (step, instance, unit) with fixed labels fall when the fields are permuted."""
    fall = overlap.isel(step=permute_at) - overlap.isel(step=permute_at + 1)
    return at_least(
        f"Permuting the fields at step {permute_at} changes the overlaps: the symmetry is broken ({case}): mean fall",
        source="Sec. IV", expected=0.2, measured=fall.values, reason="twice 1/sqrt(N)", over="realisation", quote=quote,
    )  # fmt: skip


def _changes(labelled: xr.DataArray, permute_at: int) -> np.ndarray:
    """By how much the permutation changes overlaps (step, instance, unit) of fields and units of the same number: rms."""
    change = labelled.isel(step=permute_at + 1) - labelled.isel(step=permute_at)
    return np.sqrt((change**2).mean("unit").values)


def symmetric_below(
    labelled: xr.DataArray, below: xr.DataArray, permute_at: int, size: int, case: str, low: str
) -> list[Claim]:
    """The permutation does more than chance to overlaps (step, instance, unit); the control, below the threshold, does not.

    Both are measured in the same way, by units and fields of the same number, with no choice of the best ones.
    """
    above, under, chance = _changes(labelled, permute_at), _changes(below, permute_at), np.sqrt(2 / size)
    told: dict[str, Any] = {"source": "Sec. IV", "expected": chance, "over": "realisation"}
    return [
        at_least(
            f"Above the threshold the permutation changes overlaps by more than fluctuations ({case}): rms change",
            measured=above, reason="two overlaps of random signs differ by sqrt(2/N)",
            quote="there appears a permutation-symmetry-broken phenomenon in inferred synaptic weights", **told,
        ),
        at_most(
            f"Below the threshold the same permutation changes nothing but fluctuations of 1/sqrt(N) ({low}): rms change",
            measured=under, tolerance=2 * under.std(ddof=1) / np.sqrt(len(under)),
            reason="two overlaps of random signs differ by sqrt(2/N); two standard errors",
            quote="This symmetry can only be spontaneously broken when the amount of data reaches a certain threshold", **told,
        ),
    ]  # fmt: skip


def switched(crossed: xr.DataArray, permute_at: int, case: str, later: int = 10) -> list[Claim]:
    """All overlaps (step, instance, planted, unit) switch in one step, and stay with the neighbour's value."""
    change = abs(crossed.diff("step")).mean(("planted", "unit")).transpose("step", "instance").values
    usual = np.delete(change, permute_at, axis=0)
    before, after = (crossed.isel(step=place) for place in (permute_at, permute_at + 1 + later))
    expected = np.roll(before.transpose("instance", "planted", "unit").values, 1, axis=-1)
    away = np.abs(np.abs(after.transpose("instance", "planted", "unit").values) - np.abs(expected))
    told: dict[str, Any] = {
        "source": "Fig. 2 (b)", "over": "realisation",
        "quote": "which is illustrated by the sudden switch of the overlap",
    }  # fmt: skip
    return [
        at_least(
            f"The overlaps switch suddenly ({case}): mean change in the step of the permutation over the largest in another",
            expected=1.0, measured=change[permute_at] / np.maximum(usual.max(axis=0), 1e-9), **told,
        ),
        at_most(
            f"... and each unit goes on with its neighbour's overlaps ({case}): mean distance from them {later} steps later",
            expected=0.1, measured=away.mean(axis=(1, 2)), reason="1/sqrt(N)", **told,
        ),
    ]  # fmt: skip


def sides_of_threshold(name: str, case: str, ends: list[tuple[float, float, float]]) -> list[Claim]:
    """What is below and above a threshold: (density, exponent of N, its error) at the lowest and the highest density.

    Of the "overlap", or of what a unit has more of its own field than of the others ("parted"), which is what permuting the
    hidden neurons changes.
    """
    (least, floor, low), (most, top, high) = ends
    told = {"source": "Sec. IV", "reason": "two standard errors by the bootstrap"}
    permuted = "This symmetry can only be spontaneously broken when the amount of data reaches a certain threshold"
    below, above, quotes = {
        "overlap": (
            "Below the threshold fluctuations of the order 1/sqrt(N) remain: exponent of N",
            "Above the threshold the symmetry is broken, whatever the size: exponent of N",
            (
                "a random-guess phase dominates the learning such that the fluctuation (of the order O(1/sqrt(N))) dominates",
                "Above the threshold, there appears spontaneous symmetry breaking",
            ),
        ),
        "parted": (
            "With few data hidden neurons differ by fluctuations of the order 1/sqrt(N) alone: exponent of N of a unit's own "
            "overlap less the others'",
            "With enough data the symmetry of their permutations is broken, whatever the size: exponent of N of the same",
            (permuted, permuted),
        ),
    }[name]
    return [
        close(
            f"{below} at density {least:g} ({case})", expected=-0.5, measured=floor, tolerance=2 * low, quote=quotes[0],
            **told,
        ),
        at_least(
            f"{above} at density {most:g} ({case})", expected=0.0, measured=top, tolerance=2 * high, quote=quotes[1], **told
        ),
    ]  # fmt: skip


def consistent_thresholds(found: dict[str, tuple[float, float, float]]) -> Claim:
    """Thresholds of two fields beside those of theory: by case the value, its error, and what theory has."""
    return at_most(
        f"The result is consistent with theory ({'; '.join(found)}): largest distance of a density at which the overlap's "
        "exponent of N passes -1/4 from the threshold of large machines",
        source="Sec. V", expected=0.0, measured=[abs(value - theory) for value, _, theory in found.values()], every=True,
        tolerance=0.1 + 2 * max(error for _, error, _ in found.values()), over="case",
        reason="half the spacing of densities; two standard errors by the bootstrap, of the least certain",
        quote="The result is also consistent with theoretical predictions of simple toy models",
    )  # fmt: skip


def random_guess(theirs: xr.Dataset, size: int) -> list[Claim]:
    """Below the threshold, at the lowest density: overlaps and mean squares of the weights (density, instance)."""
    least = float(theirs["density"].min())
    here = theirs.sel(density=least)
    name = f"P = {int(theirs['hidden_size'])}, q = {float(theirs['correlation']):g}"
    return [
        at_most(
            f"Below the threshold fluctuations of the order 1/sqrt(N) remain: overlap at density {least:g}, {name}",
            source="Sec. IV", expected=2 / np.sqrt(size), measured=here["overlap"].values, tolerance=0.05, over="realisation",
            reason="the best of two matchings of random signs has 0.1, and this density is not far below the threshold",
            quote="the fluctuation (of the order O(1/sqrt(N))) dominates the inference accuracy",
        ),
        at_most(
            f"Below the threshold the weights are not known, lambda = 0: mean of lambda^2 at density {least:g}, {name}",
            source="Sec. IV", expected=0.05, measured=here["certainty"].values, over="realisation",
            reason="the paper says zero; a twentieth of what certain weights have",
            quote="Below the threshold, a random-guess phase (lambda = 0) dominates the learning",
        ),
    ]  # fmt: skip


PROVED_ELSEWHERE = not_testable(
    "The phase in which the symmetry of permutations is broken exists, as another paper proved", source="Sec. IV",
    reason="a statement about a proof that is not in this paper; where the symmetry breaks is measured in huang2019/onset",
    quote="The permutation-symmetry-broken phase indeed exists as proved in a recent work",
)  # fmt: skip
OUT_OF_REACH = not_testable(
    "The posterior of three fields was thought to be out of reach", source="text on Fig. 2 (b)",
    reason="a statement about what was thought; the dotted line is that posterior, sampled (docs/papers.md, errata)",
    quote="the posterior in Eq. (3) is previously thought to be very difficult to handle, and even out of reach",
)  # fmt: skip
TOY_MODELS = not_testable(
    "The result is consistent with the thresholds of simple toy models", source="Sec. V",
    reason="at N = 100 overlaps rise slowly and show no threshold to compare with; huang2019/onset compares larger machines",
    quote="The result is also consistent with theoretical predictions of simple toy models",
)  # fmt: skip
ILL_DEFINED = not_testable(
    "The gradient of the data's log-likelihood is ill-defined for discrete weights", source="text on Fig. 3 (b)",
    reason="so it is by definition: there is nothing to measure",
    quote="One main reason is that the gradient of the data log-likelihood is mathematically ill-defined",
)  # fmt: skip
PROMISING = not_testable(
    "The framework is promising for structured data", source="text on Fig. 3 (b)",
    reason="an opinion; what it learns of digits is in the other claims and in huang2019/mnist_wide",
    quote="our framework is promising in studying structured real dataset",
)  # fmt: skip
OUTLOOK = (
    not_testable(
        "A more expressive Ansatz than independent weights can improve the framework", source="Sec. V",
        reason="an outlook: the paper names no Ansatz",
        quote="a more expressive variational Ansatz can be used to improve the computational power of the framework",
    ),
    not_testable(
        "The framework can be used with arbitrarily many hidden layers", source="Sec. V",
        reason="an outlook: the paper has equations for one hidden layer alone",
        quote="neural network architectures with arbitrarily many hidden neurons, and hidden layers",
    ),
)  # fmt: skip
