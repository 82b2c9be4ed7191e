"""Where learning begins, and where hidden neurons part: overlaps against the density of data for larger and larger machines.

At N = 100 the overlap with the planted fields rises slowly, and where it passes one half is far above the threshold of theory.
What changes at a threshold is how the overlap depends on N: below it is a fluctuation, N^(-1/2), above it does not depend on
N. The exponent is fitted at each density, and the threshold estimated as where it passes half-way, -1/4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.measure.matching import match_fields
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.huang2019.common import overlap_matrix, plant
from equilibria.papers.huang2019.statements import consistent_thresholds, sides_of_threshold
from equilibria.papers.sweep import sweep
from equilibria.synapses.learn import learn_synapses
from equilibria.theory.synapses import synapse_threshold

HALF_WAY = -0.25
_DRAWS = 200  # of the bootstrap


@dataclass(frozen=True)
class Config:
    """Machines of several sizes; each case is a number of fields, their correlation and the densities looked at."""

    sizes: tuple[int, ...] = (100, 200, 400, 800, 1600)
    instances: tuple[int, ...] = (24, 16, 12, 8, 6)  # of each size
    hidden_sizes: tuple[int, ...] = (2, 2, 3, 2, 3)
    correlations: tuple[float, ...] = (0.0, 0.3, 0.0, 0.6, 0.2)
    densities: tuple[float, ...] = (0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.4, 1.8)
    steps: int = 200
    seed: int = 0


def learned(case: int, place: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: all instances of one size at all densities side by side, by the exact E-step from one start each."""
    size, count, hidden_size = config.sizes[place], config.instances[place], config.hidden_sizes[case]
    number = seed + 10_000 * case + 100 * place
    most = round(max(config.densities) * size)
    planted = plant(count, hidden_size, size, most, config.correlations[case], number)
    sets = [one[: round(density * size)] for density in config.densities for one in planted.data]
    found = learn_synapses(sets, hidden_size, steps=config.steps, every=config.steps, key=number, show_progress=False)
    natural, fields = np.asarray(found.synapses.natural), np.tile(planted.fields, (len(config.densities), 1, 1))
    overlaps = np.abs(overlap_matrix(natural, fields))  # (set, planted, unit)
    order = [match_fields(_signs(one).T, truth).order for one, truth in zip(natural, fields, strict=True)]
    own = np.stack([each[np.arange(hidden_size), units].mean() for each, units in zip(overlaps, order, strict=True)])
    others = (overlaps.sum(axis=(1, 2)) - hidden_size * own) / (hidden_size * (hidden_size - 1))
    shape, length = (len(config.densities), count), max(config.instances)
    return {"overlap": _filled(own.reshape(shape), length), "parted": _filled((own - others).reshape(shape), length)}


def _signs(natural: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(natural) >= 0, 1.0, -1.0)


def _filled(values: np.ndarray, length: int) -> np.ndarray:
    return np.pad(values, ((0, 0), (0, length - values.shape[1])), constant_values=np.nan)


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Overlaps of every size and density."""
    cases = list(zip(config.hidden_sizes, config.correlations, strict=True))
    axes = {"case": range(len(cases)), "place": range(len(config.sizes))}
    cells = sweep(learned, config, checkpoint, **axes, seed=config.seed)
    return xr.Dataset(
        {
            **{name: (("case", "size", "density", "instance"), cells[name].values) for name in ("overlap", "parted")},
            "threshold": ("case", [float(synapse_threshold(q, 1.0, hidden_size)) for hidden_size, q in cases]),
        },
        {
            "size": list(config.sizes),
            "density": list(config.densities),
            "hidden_size": ("case", list(config.hidden_sizes)),
            "correlation": ("case", list(config.correlations)),
        },
    )


def exponents(overlap: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The exponent of N in mean overlaps (size, density, instance), at each density; instances that are not there are NaN.

    >>> sizes = np.array([100, 400])
    >>> exponents(np.array([[[0.1, 0.1], [0.8, 0.8]], [[0.05, np.nan], [0.8, 0.8]]]), sizes).round(2)
    array([-0.5,  0. ])
    """
    means = np.maximum(np.nanmean(overlap, axis=-1), 1e-4)
    logs = np.log(sizes) - np.log(sizes).mean()
    return logs @ np.log(means) / (logs @ logs)


def crossing(density: np.ndarray, exponent: np.ndarray, level: float = HALF_WAY) -> float:
    """The density at which the exponent passes `level` for the last time; NaN where all densities are on one side of it.

    >>> crossing(np.array([1.0, 2.0]), np.array([-0.5, 0.0]))
    1.5
    """
    below = np.flatnonzero(exponent <= level)
    if not len(below) or below[-1] == len(exponent) - 1:
        return float("nan")
    around = slice(below[-1], below[-1] + 2)
    return float(np.interp(level, exponent[around], density[around]))


def at_density(place: int) -> Callable[[np.ndarray, np.ndarray], float]:
    """The exponent at one of the densities, for `estimated`."""
    return lambda _, exponent: float(exponent[place])


def estimated(dataset: xr.Dataset, name: str, case: int, what: Callable[..., float] = crossing) -> tuple[float, float]:
    """The threshold of `overlap` or `parted`, and its standard error by the bootstrap over instances.

    Draws that do not pass the level have no threshold and are left out of the error. Where they are more than half, neither is
    known: NaN, with an error of 0."""
    values = dataset[name].isel(case=case).values
    sizes, density = dataset["size"].values, dataset["density"].values
    random = np.random.default_rng(0)
    counts = np.isfinite(values[:, 0]).sum(axis=-1)
    draws = []
    for _ in range(_DRAWS):
        drawn = [one[:, random.integers(count, size=count)] for one, count in zip(values, counts, strict=True)]
        filled = np.stack(
            [np.pad(one, ((0, 0), (0, counts.max() - one.shape[1])), constant_values=np.nan) for one in drawn]
        )
        draws.append(what(density, exponents(filled, sizes)))
    passed = np.array(draws)[np.isfinite(draws)]
    value = what(density, exponents(values, sizes))
    known = np.isfinite(value) and 2 * len(passed) >= _DRAWS
    return (value, float(np.std(passed))) if known else (float("nan"), 0.0)


def plot(dataset: xr.Dataset) -> Figure:
    """Above, mean overlaps with one standard error, larger machines darker, and theory's threshold (dotted). Below, the
    exponent of N: of the overlap (circles) and of what a unit has more of its own field than of the others (squares); a
    threshold is where it passes the grey line."""
    cases = dataset.sizes["case"]
    figure, axes = plots.panels(cases, 2, size=(2.7, 2.6), sharex=True, sharey="row", squeeze=False)
    shades = np.linspace(0.35, 1.0, dataset.sizes["size"])
    for case in range(cases):
        here, top, low = dataset.isel(case=case), axes[0, case], axes[1, case]
        for size, shade in zip(dataset["size"].values, shades, strict=True):
            one = here["overlap"].sel(size=size)
            error = one.std("instance", ddof=1) / np.sqrt(one.count("instance"))
            top.errorbar(here["density"], one.mean("instance"), error, color=plots.PALETTE[0], alpha=shade,
                         label=f"N = {int(size)}", linewidth=1.0)  # fmt: skip
        for name, marker, label in (("overlap", "o", "overlap"), ("parted", "s", "own field less others")):
            slopes = exponents(here[name].values, dataset["size"].values)
            low.plot(here["density"], slopes, marker=marker, linewidth=1.0, label=label)
        low.axhline(HALF_WAY, color="0.6", linewidth=0.8)
        for panel in (top, low):
            panel.axvline(float(here["threshold"]), color="0.3", linestyle=":", linewidth=1.2)
        top.set_title(f"P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}")
        low.set(xlabel=r"data density $\alpha = M/N$", ylim=(-0.75, 0.25))
    axes[0, 0].set_ylabel("mean overlap")
    axes[1, 0].set_ylabel("exponent of N")
    axes[0, 0].legend(loc="upper left")
    axes[1, 0].legend(loc="lower right")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Thresholds of large machines against theory's, and what is below and above them."""
    found = {case: estimated(dataset, "overlap", case) for case in range(dataset.sizes["case"])}
    said = []
    for case, (value, error) in found.items():
        here = dataset.isel(case=case)
        said.append(
            close(
                f"Learning begins where theory says (P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}): "
                "density at which the overlap's exponent of N passes -1/4",
                source="eq.theory.synapse_threshold", expected=float(here["threshold"]), measured=value,
                tolerance=2 * error + 0.1, reason="two standard errors by the bootstrap; half the spacing of densities",
                ours=True,
            )
        )  # fmt: skip
    (two, wide), (pair, narrow), (three, broad) = found[0], found[1], found[2]
    parted = estimated(dataset, "parted", 1)
    return [
        close(
            "Without correlation the learning threshold does not depend on P: threshold with P = 3 less that with P = 2",
            source="Sec. IV, Fig. 3 (a)", expected=0.0, measured=three - two, tolerance=2 * float(np.hypot(wide, broad)),
            reason="two standard errors by the bootstrap",
            quote="in the correlation-free case, the learning threshold does not depend on the number of hidden neurons",
        ),
        at_most(
            "Correlation decreases the threshold: q = 0.3 less q = 0", source="Sec. IV, Fig. 3 (a)", expected=0.0,
            measured=pair - two, reason=f"standard error {np.hypot(wide, narrow):.2f}",
            quote="the correlation level decreases the threshold",
        ),
        *(
            at_most(
                f"... and more correlation decreases it more: q = {float(dataset['correlation'][case]):g} less q = 0.3",
                source="Sec. IV, Fig. 3 (a)", expected=0.0, measured=found[case][0] - pair,
                reason=f"standard error {np.hypot(found[case][1], narrow):.2f}",
                quote="the correlation level decreases the threshold",
            )
            for case in found
            if float(dataset["correlation"][case]) > 0.3 and int(dataset["hidden_size"][case]) == 2
        ),
        *(
            at_most(
                f"... also of P = {int(dataset['hidden_size'][case])} fields: q = {float(dataset['correlation'][case]):g} less "
                "q = 0", source="Sec. IV, Fig. 3 (a)", expected=0.0, measured=found[case][0] - three,
                reason=f"standard error {np.hypot(found[case][1], broad):.2f}",
                quote="the correlation level decreases the threshold",
            )
            for case in found
            if float(dataset["correlation"][case]) > 0 and int(dataset["hidden_size"][case]) == 3
        ),
        consistent_thresholds(
            {
                f"P = {int(dataset['hidden_size'][case])}, q = {float(dataset['correlation'][case]):g}": (
                    value, error, float(dataset["threshold"][case]),
                )
                for case, (value, error) in found.items()
                if int(dataset["hidden_size"][case]) == 2
            }
        ),
        *(
            claim
            for case in range(3)  # the paper's; the others are beyond it
            for name in ("overlap", "parted")
            for claim in sides_of_threshold(
                name, f"P = {int(dataset['hidden_size'][case])}, q = {float(dataset['correlation'][case]):g}",
                [(float(dataset["density"][place]), *estimated(dataset, name, case, at_density(place))) for place in (0, -1)],
            )
        ),
        *said,
        at_least(
            "With correlation the symmetry of permutations breaks later than learning begins: density at which the exponent "
            "of a unit's own overlap less the others' passes -1/4, less that of the overlap (q = 0.3)",
            source="Hou, Wong and Huang 2019", expected=0.0, measured=parted[0] - pair, ours=True,
            reason=f"standard error {np.hypot(parted[1], narrow):.2f}; it breaks at {parted[0]:.2f}",
        ),
    ]  # fmt: skip


DIFFERS = {
    "quick": ("sizes of 40 and 160, few machines of each, four densities, 50 steps",),
    "paper": (
        "beyond the paper, which has N = 100 alone: sizes from 100 to 1,600, by the exact E-step from one start",
    ),
}
PRESETS = {
    "quick": Config(
        sizes=(40, 160),
        instances=(6, 4),
        hidden_sizes=(2, 2, 3),
        correlations=(0.0, 0.3, 0.0),
        densities=(0.3, 0.7, 1.1, 2.0),
        steps=50,
    ),
    "paper": Config(),
}
