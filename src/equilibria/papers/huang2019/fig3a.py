"""Overlap with the planted fields against the density of data, and where theory says that learning begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import xarray as xr
from jax import Array
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.huang2019.common import STARTS, Planted, best_possible, factorised, matched, options, plant
from equilibria.papers.huang2019.statements import (
    COLOURS,
    LABELS,
    NOT_GIVEN,
    TOY_MODELS,
    concepts,
    learns_less,
    nearly_optimal,
    random_guess,
    recovery,
)
from equilibria.papers.sweep import fast, sweep
from equilibria.synapses.learn import learn_synapses
from equilibria.theory.synapses import synapse_threshold


@dataclass(frozen=True)
class Config:
    """The paper's setting."""

    size: int = 100
    densities: tuple[float, ...] = (0.2, 0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
    hidden_sizes: tuple[int, ...] = (2, 2, 3)
    correlations: tuple[float, ...] = (0.0, 0.3, 0.0)
    learners: tuple[str, ...] = ("paper", "exact", "response", "best of starts")
    instances: int = 10
    steps: int = 200
    draws: int = 100  # of z in each step of the paper's algorithm
    judged: float = 5.0  # the density of Fig. 2, at which recovery is judged
    posterior_sweeps: int = 400  # of Monte Carlo, at that density
    seed: int = 0


@lru_cache(maxsize=8)  # learners and the posterior use the same
def _planted(config: Config, case: int, seed: int) -> Planted:
    """The realisations with the data of the largest density: a smaller one uses the first of the same examples."""
    most = round(max(config.densities) * config.size)
    return plant(config.instances, config.hidden_sizes[case], config.size, most, config.correlations[case], seed + case)


def learned(learner: str, case: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: the realisations of a case at all densities side by side, by one learner; (density, instance)."""
    planted = _planted(config, case, seed)
    sets = [one[: round(density * config.size)] for density in config.densities for one in planted.data]
    told = options(learner) | ({"fields": config.draws} if learner == "paper" else {})
    found = learn_synapses(
        sets, config.hidden_sizes[case], steps=config.steps, every=config.steps,
        starts=STARTS if learner == "best of starts" else 1, key=seed, show_progress=False, **told,
    )  # fmt: skip
    natural = np.asarray(found.synapses.natural)
    shape = len(config.densities), config.instances
    fields = np.tile(planted.fields, (shape[0], 1, 1))
    overlaps = matched(natural, fields)
    return {
        "overlap": overlaps.mean(axis=1).reshape(shape),
        "worst": overlaps.min(axis=1).reshape(shape),
        "certainty": (np.tanh(natural) ** 2).mean(axis=(1, 2)).reshape(shape),
    }


def known(case: int, seed: int, key: Array, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: what the posterior of the same instances knows at the density that is judged."""
    planted = _planted(config, case, seed)
    planted = planted._replace(data=planted.data[:, : round(config.judged * config.size)])
    return {"best": best_possible(planted, config.hidden_sizes[case], config.posterior_sweeps, fast(key))}


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """The overlaps at every density, what the posterior knows, and the thresholds of theory."""
    cases = list(zip(config.hidden_sizes, config.correlations, strict=True))
    axes = {"case": range(len(cases)), "seed": config.seed}
    cells = sweep(learned, config, checkpoint, learner=config.learners, **axes)
    best = sweep(known, config, checkpoint, **axes)["best"]
    return xr.Dataset(
        {
            **{
                name: (("learner", "case", "density", "instance"), cells[name].values)
                for name in ("overlap", "worst", "certainty")
            },
            "together": (
                ("case", "instance"),
                [factorised(_planted(config, case, config.seed).fields) for case in range(len(cases))],
            ),
            "best": (("case", "instance"), best.values),
            "threshold": ("case", [float(synapse_threshold(q, 1.0, hidden_size)) for hidden_size, q in cases]),
        },
        {
            "learner": list(config.learners),
            "density": list(config.densities),
            "hidden_size": ("case", list(config.hidden_sizes)),
            "correlation": ("case", list(config.correlations)),
        },
        {"size": config.size, "judged": config.judged},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Mean overlap over realisations at step 200. Above left, the paper's algorithm with bars of one standard deviation as in
    the paper; dotted: where theory says that learning begins in large machines. The others: all learners on one case, and
    what the posterior itself knows at density 5 (star)."""
    figure, axes = plots.panels(2, 2, size=(4.6, 3.4), sharey=True, sharex=True, squeeze=False)
    density, panels = dataset["density"], axes.ravel()
    for index in range(dataset.sizes["case"]):
        here, colour = dataset.isel(case=index), plots.PALETTE[index]
        label = f"P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}"
        theirs = here["overlap"].sel(learner="paper")
        mean, spread = theirs.mean("instance"), theirs.std("instance", ddof=1)
        plots.simulation_points(panels[0], density, mean, spread, colour=colour, label=label, marker="osD"[index])
        panels[0].plot(density, mean, color=colour, linewidth=0.8)
        panels[0].axvline(float(here["threshold"]), color=colour, linestyle=(1.5 * index, (1, 2)), linewidth=1.6)
        panels[index + 1].axvline(
            float(here["threshold"]), color="0.3", linestyle=":", linewidth=1.2, label="learning begins, by theory"
        )
        for learner in map(str, dataset["learner"].values):
            ours = here["overlap"].sel(learner=learner).mean("instance")
            panels[index + 1].plot(density, ours, "o-", ms=3, color=COLOURS[learner], label=LABELS[learner])
        best = float(here["best"].mean())
        panels[index + 1].plot(
            float(dataset.attrs["judged"]), best, "*", color="0.2", ms=9, zorder=0, label="posterior"
        )
        panels[index + 1].set_title(label)
    panels[0].set(title=LABELS["paper"], ylim=(0, 1))
    for panel in axes[:, 0]:
        panel.set_ylabel("mean overlap")
    for panel in axes[-1]:
        panel.set_xlabel(r"data density $\alpha = M/N$")
    panels[0].legend(loc="lower right")
    panels[1].legend(loc="lower right")
    return figure


def onset(overlap: xr.DataArray, level: float = 0.5) -> float:
    """The density at which the mean of overlaps (density, instance) passes `level` for the last time; NaN where it is above
    or below it at all densities."""
    means, density = overlap.mean("instance").values, overlap["density"].values
    below = np.flatnonzero(means <= level)
    if not len(below) or below[-1] == len(means) - 1:
        return float("nan")
    around = slice(below[-1], below[-1] + 2)
    return float(np.interp(level, means[around], density[around]))


def _each_without(overlap: xr.DataArray) -> np.ndarray:
    """Onsets with one realisation left out at a time."""
    count = overlap.sizes["instance"]
    return np.array([onset(overlap.isel(instance=np.arange(count) != left)) for left in range(count)])


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What Section IV says of Fig. 3 (a)."""
    judged, size = float(dataset.attrs["judged"]), int(dataset.attrs["size"])
    theirs = dataset.sel(learner="paper")
    overlap, ours = (
        theirs["overlap"].transpose("case", "density", "instance"),
        dataset.sel(learner=dataset["learner"][-1]),
    )
    found, mine, onsets = [], [], [onset(overlap.isel(case=case)) for case in range(3)]
    for case in range(3):  # three correlated fields are beyond the paper
        here = dataset.isel(case=case)
        name = f"P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}, density {judged:g}"
        reached = theirs["overlap"].isel(case=case).sel(density=judged).values
        better = ours["overlap"].isel(case=case).sel(density=judged).values
        found += recovery(reached, theirs["worst"].isel(case=case).sel(density=judged).values, name, "Fig. 3 (a)")
        mine.append(learns_less(reached, better, name))
        mine.append(nearly_optimal(better, here["best"].values, name))
    two, three = overlap.isel(case=0), overlap.isel(case=2)
    error = np.sqrt(((two.var("instance", ddof=1) + three.var("instance", ddof=1)) / two.sizes["instance"]).values)
    apart = np.abs((two.mean("instance") - three.mean("instance")).values) / error
    scatter = [_each_without(overlap.isel(case=case)).std() * np.sqrt(two.sizes["instance"] - 1) for case in range(3)]
    return [
        *found,
        close(
            "Without correlation the threshold does not depend on P: the density at which the overlap passes 1/2, P = 3 less "
            "P = 2",
            source="Fig. 3 (a)", expected=0.0, measured=onsets[2] - onsets[0],
            tolerance=float(np.nan_to_num(2 * np.hypot(scatter[0], scatter[2]))),
            reason="two standard errors, by leaving out one realisation",
            quote="in the correlation-free case, the learning threshold does not depend on the number of hidden neurons",
        ),
        at_most(
            "... nor does the curve: largest distance of P = 2 and P = 3 at any density, in standard errors",
            source="Fig. 3 (a)", expected=3.0, measured=apart.max(), reason="one in 30 of twelve normal differences",
        ),
        at_most(
            "Correlation lowers the threshold: the density at which the overlap passes 1/2, q = 0.3 less q = 0",
            source="Fig. 3 (a)", expected=0.0, measured=onsets[1] - onsets[0],
            quote="the correlation level decreases the threshold",
        ),
        TOY_MODELS,
        *(claim for case in range(3) for claim in random_guess(theirs.isel(case=case), size)),
        *(claim for case in range(3) for claim in concepts(theirs.isel(case=case), judged, size)),
        *(
            close(
                f"Without correlation the partition function factorises (P = {int(dataset['hidden_size'][case])}): ln Z less "
                "that of the fields one by one", source="Sec. IV", expected=0.0,
                measured=dataset["together"].isel(case=case).values,
                tolerance=count * (count - 1) / (2 * size), every=True, over="realisation",
                reason="1/N for each pair of fields: the next order of couplings 1/sqrt(N)",
                quote="the underlying physics is the partition function factorization",
            )
            for case, count in ((0, 2), (2, 3))
        ),
        at_least(
            "With correlation it does not: ln Z of two fields with q = 0.3 less that of the fields one by one, over 1/N",
            source="partition function factorization", expected=3.0, measured=dataset["together"].isel(case=1).values * size,
            ours=True, over="realisation", reason="three times what orthogonal fields are allowed",
        ),
        *mine,
    ]  # fmt: skip


_DRAWN = (
    NOT_GIVEN[0],
    "B2 = 100 draws of z in each step, and quadrature for B1: the paper gives neither",
    *NOT_GIVEN[2:],
)
DIFFERS = {
    "quick": (*_DRAWN, "2 realisations, four densities and 100 steps"),
    "paper": (*_DRAWN, "the densities are ours: the paper does not list its own"),
}
PRESETS = {
    "quick": Config(
        densities=(0.3, 1.0, 2.0, 5.0), instances=2, steps=100, draws=32, learners=("paper", "exact"), posterior_sweeps=200,
    ),
    "paper": Config(),
}  # fmt: skip
