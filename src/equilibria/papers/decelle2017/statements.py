"""What the paper says of the ensemble's phases and of the learning curve, and what we say."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from equilibria.papers.claims import Claim, at_least, at_most, not_testable

REASONABLY_WELL = not_testable(
    "Restricted Boltzmann machines perform reasonably well on MNIST", source="Tests on the MNIST dataset",
    reason="the paper gives no measure; how probable the digits become is claimed below, as ours",
    quote="It is known that RBMs perform reasonably well on this dataset",
)  # fmt: skip
INFORMATION = not_testable(
    "The information of a learned matrix is in its modes outside the bulk", source="text before (10)",
    reason="the paper gives no measure of information",
    quote="its information content is better expressed by the presence of SVD modes outside of the bulk",
)  # fmt: skip


def classical(noise: np.ndarray) -> np.ndarray:
    """The strength at which the SK model with ferromagnetic coupling orders, 1/(1 - q) with q = E tanh^2(noise sqrt(q) x), for
    the temperature 1/noise and the coupling strength/noise.

    >>> classical(np.array([0.5, 2.0])).round(2)
    array([1.  , 2.13])
    """
    x = np.linspace(-8, 8, 801)
    weights = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    q = np.ones(len(noise))
    for _ in range(2000):
        q = np.tanh(noise[:, None] * np.sqrt(q)[:, None] * x) ** 2 @ weights
    return 1 / (1 - q)


def phase_claims(dataset: xr.Dataset) -> list[Claim]:
    """Sampled machines are where the saddle point says; only Gaussian components leave one state."""
    ferro = dataset["theory_phase"].isel(machine=0).values == 1
    misses = np.stack([
        (abs(dataset[f"sampled_{name}"] - dataset[f"theory_{name}"]) / dataset[f"error_{name}"])
        .transpose("machine", "point").values[:, ferro]
        for name in ("m", "mbar")
    ], axis=-1)  # fmt: skip
    wrong = (dataset["sampled_phase"] != dataset["theory_phase"]).sum("point").values
    states = dataset["states"]
    strong = states.isel(scale=-1)
    kept = {
        law: dataset["kept"].sel(law=law).transpose("machine", "begun_mode").values for law in dataset["law"].values
    }
    rounds = np.sqrt(np.mean(misses**2, axis=(1, 2)))
    finite = (dataset.attrs["aspect"] * dataset.attrs["visible"]) ** -0.5
    weaker = np.stack(
        [np.abs(kept[law][:, 1] - dataset["kept_theory"].sel(law=law).values) for law in ("uniform", "bernoulli")],
        axis=1,
    )
    glass = ((dataset["sampled_phase"] == 2) != (dataset["theory_phase"] == 2)).sum("point").values
    dial, kurtosis = dataset["dial_states"].sum("kind").values, dataset["kurtosis"].values
    lines = dataset["critical"].values / classical(dataset["noise"].values) - 1
    many = "stable fixed points associated to many different single modes or combinations of modes can exist"
    return [
        at_most(
            "The diagram is that of the SK model with ferromagnetic coupling: largest relative distance of the line of order, "
            f"at kappa = {dataset.attrs['aspect']:g}",
            source="text after (12)", expected=0, measured=np.abs(lines).max(), tolerance=0.1,
            reason="similar is read as a tenth; for kappa = 1 the lines are the same",
            quote="The phase diagram looks in fact similar to the one of the SK model with ferromagnetic coupling",
        ),
        at_most(
            "The mode with the highest singular value dominates: largest number of the leading mode of the best state, 0 for "
            "the strongest, over all laws and strengths",
            source="text after (12)", expected=0, measured=dataset["leading"].values.max(),
            quote="with K finite and a non-degenerate spectrum the mode with highest singular value dominates the "
            "ferromagnetic phase",
        ),
        at_most(
            "Gaussian components: largest number of stable states besides that of the strongest mode",
            source="text after (12)", expected=0, measured=int(states.sel(law="gaussian").sum("kind").max() - 1),
            quote="all other fixed points associated to lower modes can be shown to be unstable",
        ),
        *(
            at_least(
                f"{law.capitalize()} components: stable states of {words}, at the largest strength", source="text after (12)",
                expected=least, measured=int(strong.sel(law=law, kind=kind)), quote=many,
            )
            for law in ("uniform", "bernoulli")
            for kind, words, least in (("single", "single modes, of four", 4), ("mixed", "several modes", 1))
        ),
        not_testable(
            "... and contribute to the thermodynamics", source="text after (12)",
            reason="a state counts by e^(-F), and F is of the order of the number of neurons: which of them count depends on "
            "strengths that the paper does not give",
            quote="stable fixed points ... can exist and contribute to the thermodynamics",
        ),
        at_most(
            "The order parameters average themselves: those of single ferromagnets scatter about the averaged ones as much as "
            "independent components make them, in standard deviations (root mean square)",
            source="Discussion", expected=1.0, measured=rounds, tolerance=2 / np.sqrt(2 * ferro.sum() * len(rounds)),
            over="machine", reason="two standard errors of a root mean square, a machine's m and mbar counted as one number",
            quote="This averaging corresponds actually to a standard self-averaging assumption in a RS phase",
        ),
        at_least(
            "Components of smaller kurtosis than 3: least number of stable states, at the largest strength",
            source="text after (12)", expected=2, measured=dial[kurtosis < 3].min(), quote=many,
        ),
        at_most(
            "Gaussian components: a machine begun in the weaker of two modes leaves it; what is left of its overlap",
            source="text after (12)", expected=0.0, measured=kept["gaussian"][:, 1], every=True, over="machine",
            tolerance=3 * finite / (1 - dataset.attrs["ratio"] ** 2),
            reason="modes overlap by 1/sqrt(N_h), raised by 1/(1 - (w_2/w_1)^2) around the equations; three of that",
            quote="all other fixed points associated to lower modes can be shown to be unstable",
        ),
        at_most(
            "Uniform and Bernoulli components: it stays; distance of its overlap from the saddle point",
            source="text after (12)", expected=0.0, measured=weaker, tolerance=4 * finite, every=True, over="machine",
            reason="finite size, of order 1/sqrt(N_h)", quote=many,
        ),
        at_most(
            "The equations tell where the machine is a spin glass: how many sampled machines are one and should not, or the "
            "other way round",
            source="text after (12)", expected=0, measured=glass, every=True, over="machine",
            quote="whether a spin glass phase is present or not",
        ),
        at_most("Saddle points are solved: largest residual of (11)-(12)", source="eqs. (11)-(12)", expected=1e-8,
                measured=float(dataset["residual"]), ours=True),
        at_most("Machines sampled in the three phases are found in the phase predicted: how many are not",
                source="eq.theory.phase_diagram", expected=0, measured=wrong, every=True, over="machine", ours=True),
        at_most(
            "Ferromagnet: m and mbar of sampled machines, largest distance from the saddle point in standard deviations",
            source="eq.theory.fixed_points", expected=3.5, measured=misses, every=True, over="machine", ours=True,
            reason="the scatter of one machine of this size, from the equations; 3.5 of them once in 270 such figures",
        ),
        at_most(
            "Components of larger kurtosis than 3: largest number of stable states besides that of the strongest mode",
            source="eq.theory.fixed_points", expected=0, measured=dial[kurtosis > 3].max() - 1, ours=True,
        ),
    ]  # fmt: skip


def crossing(times: np.ndarray, strengths: np.ndarray, level: float = 0.5) -> float:
    """When a growing strength first passes `level`, between the records around it; NaN if it does not.

    >>> crossing(np.array([1.0, 2.0]), np.array([0.25, 1.0]))
    1.5
    """
    above = np.flatnonzero(strengths > level)
    if not above.size or above[0] == 0:
        return float("nan")
    around = slice(above[0] - 1, above[0] + 1)
    return float(np.interp(np.log(level), np.log(strengths[around]), times[around]))


def _lateness(dataset: xr.Dataset, count: int) -> np.ndarray:
    """The largest relative difference of the times at which the first modes pass 1/2, measured and predicted, by seed."""
    times, found = dataset["time"].values, []
    for seed in range(dataset.sizes["seed"]):
        one = dataset.isel(seed=seed)
        rows = (
            one["measured"].transpose("time", "mode").values,
            one["predicted"].transpose("law", "time", "mode").values[0],
        )
        seen, expected = (np.array([crossing(times, row[:, mode]) for mode in range(count)]) for row in rows)
        found.append(np.abs(seen / expected - 1).max())
    return np.array(found)


def _pointing(dataset: xr.Dataset, count: int) -> np.ndarray:
    """How well each cluster's direction is that of a mode of its own, (seed, cluster)."""
    found = []
    for seed in range(dataset.sizes["seed"]):
        one = dataset.isel(seed=seed)
        modes, centres = one["direction"].transpose("mode", "unit").values[:count], one["centre"].values
        overlaps = np.abs(centres @ modes.T) / np.linalg.norm(centres, axis=1, keepdims=True)
        rows, order = linear_sum_assignment(-overlaps)
        found.append(overlaps[rows, order])
    return np.array(found)


def curve_claims(dataset: xr.Dataset) -> list[Claim]:
    """Modes point at clusters and emerge when predicted; each one ends between the curves of normal and of ±1 components."""
    count, finite = dataset.attrs["clusters"], dataset.attrs["hidden"] ** -0.5
    ends = dataset["predicted"].isel(time=-1).transpose("law", "seed", "mode").values[..., :count]
    measured = dataset["measured"].isel(time=-1).transpose("seed", "mode").values
    end = measured[:, :count]
    # theory has an error of 1 / (L (1 - w^2)^2), which is 1/10 at this strength
    predicted = dataset["image_predicted"].isel(image_law=0).transpose("seed", "image_time", "mode").values
    limit = np.sqrt(1 - np.sqrt(10 / float(dataset["image_units"].max())))
    seen = dataset["image_measured"].transpose("seed", "image_time", "mode").values
    early = predicted.max(axis=-1) < limit
    gap = [np.abs(one - said)[now].max() for one, said, now in zip(seen, predicted, early, strict=True)]
    term = dataset["empirical"].transpose("seed", "mode", "other").values[:, :count, :count]
    diagonal = np.sqrt((np.diagonal(term, axis1=1, axis2=2) ** 2).sum(1))
    off = np.sqrt(np.maximum((term**2).sum((1, 2)) - diagonal**2, 0)) / diagonal
    scatter = "of order 1/sqrt(N_h): components of N_h units stand for their law"
    linear = np.sqrt(np.maximum(1 - 1 / dataset["variance"].transpose("seed", "mode").values[:, :count], 0))
    whole = dataset["measured"].transpose("seed", "time", "mode").values[..., :count]
    curve = dataset["predicted"].transpose("law", "seed", "time", "mode").values[0, ..., :count]
    return [
        at_least(
            "Later the Gaussian estimate of the machine's response is no longer valid: least relative distance of a cluster's "
            "mode, in the end, from where the linear machine ends",
            source="Non-linear regime", expected=finite, measured=np.abs(end / linear - 1), every=True,
            reason="more than the scatter " + scatter,
            quote="the Gaussian estimation with sigma_v^2 = sigma_h^2 = 1 of the RBM response term is no longer valid",
        ),
        at_most(
            "The learning curve is deterministic: largest distance of a cluster's strength from the curve of normal "
            "components, over the largest strength",
            source="Abstract", expected=0, measured=np.abs(whole - curve).max((1, 2)) / curve.max((1, 2)), every=True,
            tolerance=finite, reason=scatter, quote="defining a deterministic learning curve for the RBM",
        ),
        at_least(
            "The modes point in the directions of the clusters, one for each: least overlap",
            source="text after (12)", expected=0.9, measured=_pointing(dataset, count), every=True,
            reason="random centres overlap by about 1/sqrt(N_v)",
            quote="the SVD modes of W which will develop are the one pointing in the direction of the magnetizations defined "
            "by these clusters",
        ),
        at_most(
            "The empirical term becomes diagonal in the frame of these modes (size of the rest over that of the diagonal)",
            source="text after (12)", expected=0, measured=off, tolerance=0.1, every=True, reason="a tenth",
            quote="the RBM will evolve as in the linear case to a state such that the empirical term becomes diagonal",
        ),
        at_least(
            "The machine reaches a ferromagnetic phase with many states: least strength of a cluster's mode, in the end",
            source="text after (12)", expected=1, measured=measured[:, :count], every=True,
            reason="1 is where a mode without noise orders",
            quote="the RBM needs to reach a ferromagnetic phase with many states to be able to match the empirical term",
        ),
        at_most(
            "The singular values match the magnetization of each fixed point: that of the state at a cluster, less that of the "
            "cluster's samples",
            source="text after (12)", expected=0, every=True, tolerance=finite, reason=scatter,
            measured=np.abs(dataset["magnetization"].values - dataset.attrs["agreement"]),
            quote="the singular values adjust themselves until matching the proper magnetization in each fixed point",
        ),
        at_most("Clusters: one mode for each cluster passes the threshold 1, and no other; the next one's strength",
                source="linear instabilities", expected=1.0, measured=measured[:, count], every=True,
                quote="The linear instabilities correspond to directions for which the variance of the data is above the "
                "threshold"),
        at_most(
            "Clusters: the modes emerge when the deterministic curve says; largest relative difference in time",
            source="eq.theory.learning_curve", expected=0.0, measured=_lateness(dataset, count), every=True, ours=True,
            tolerance=finite, reason=scatter,
        ),
        at_least(
            "Clusters: in the end each strength is above that for hidden components of ±1 (kurtosis 1): least difference",
            source="eq.theory.learning_curve", expected=0, measured=end - ends[1], every=True, ours=True,
        ),
        at_most(
            "Clusters: and below that for normal ones (kurtosis 3), with which the machine began: largest difference",
            source="eq.theory.learning_curve", expected=0, measured=end - ends[0], every=True, ours=True,
        ),
        at_most(
            f"Leading modes of {dataset.attrs['images']}: largest distance of a strength from the curve while all are below "
            f"{limit:.2f}, where theory is that of large machines to 10%",
            source="eq.theory.learning_curve", expected=0.0, measured=gap, tolerance=0.1 * limit, every=True, ours=True,
            reason="relative error 1 / (L (1 - w^2)^2) = 0.1 of the response",
        ),
    ]  # fmt: skip
