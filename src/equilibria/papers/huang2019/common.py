"""What the figures share: planted machines, learning on several of them at once, overlaps along the way."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr
from jax import Array

from equilibria.data import planted_data, planted_receptive_fields
from equilibria.measure.matching import match_fields
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.posterior import sample_synapses

STARTS = 4  # of which the one with the highest bound counts


class Planted(NamedTuple):
    """Receptive fields (instances, P, N) and the data (instances, M, N) that they make."""

    fields: np.ndarray
    data: np.ndarray


def plant(
    instances: int, hidden_size: int, size: int, examples: int, correlation: float, seed: int, temperature: float = 1.0
) -> Planted:
    """Independent machines, each with its own fields and data.

    Args:
        instances: how many machines.
        hidden_size: P, fields of each.
        size: N, visible neurons.
        examples: M, of each.
        correlation: q, of each pair of fields.
        seed: of everything that is drawn.
        temperature: at which the data are drawn.

    Returns:
        The fields and the data.
    """
    keys = jax.random.split(jax.random.key(seed), (instances, 2))
    fields = [planted_receptive_fields(hidden_size, size, correlation, key=pair[0]) for pair in keys]
    data = [
        planted_data(here, examples, temperature=temperature, key=pair[1])
        for here, pair in zip(fields, keys, strict=True)
    ]
    return Planted(np.stack(fields), np.stack(data))


def overlap_matrix(natural: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Overlaps of the decoded weights (..., N, P) with the planted fields (..., P, N): (..., planted, unit)."""
    return fields @ np.where(natural >= 0, 1.0, -1.0) / fields.shape[-1]


def matched(natural: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """The overlap of each planted field with the unit that found it.

    Args:
        natural: parameters of the learned weights, (instances, N, P); their signs count.
        fields: the planted ones, (instances, P, N).

    Returns:
        Overlaps (instances, P).
    """
    signs = np.where(natural >= 0, 1.0, -1.0)
    return np.stack([match_fields(one.T, truth).overlaps for one, truth in zip(signs, fields, strict=True)])


def permuted_run(planted: Planted, hidden_size: int, steps: int, permute_at: int, seed: int) -> xr.Dataset:
    """Learning with the receptive fields put in another order at step `permute_at`, for all instances at once.

    Of four starts the one with the highest bound in the end is shown: correlated fields have local maxima.

    Args:
        planted: the machines.
        hidden_size: P.
        steps: in all.
        permute_at: after how many of them the fields change places.
        seed: of the starts.

    Returns:
        Along the steps, for each instance: `overlap` between each planted field and the unit that had found it just before
        the permutation, `matched` between each and the unit that is closest now, the KL divergence and the bound.
    """
    options: dict[str, Any] = {"metrics": lambda synapses: {"observed": synapses.natural}, "show_progress": False}
    sets = [one for one in planted.data for _ in range(STARTS)]
    before = learn_synapses(sets, hidden_size, steps=permute_at, key=seed, **options)
    rolled = Synapses(np.roll(before.synapses.natural, 1, axis=-1), before.synapses.bias, before.synapses.temperature)
    after = learn_synapses(sets, hidden_size, steps=steps - permute_at, start=rolled, key=seed + 1, **options)
    history = xr.concat(
        [before.history.isel(step=slice(0, -1)), after.history.assign_coords(step=after.history.step + permute_at)],
        "step",
    )
    bounds = history["bound"].values[-1].reshape(-1, STARTS)
    history = history.isel(set=np.argmax(bounds, axis=1) + STARTS * np.arange(len(bounds)))
    natural = history["observed"].values  # (step, instance, N, P)
    overlaps = overlap_matrix(natural, planted.fields)
    order = []
    for index, truth in enumerate(planted.fields):
        match = match_fields(np.where(natural[permute_at - 1, index] >= 0, 1.0, -1.0).T, truth)
        order.append(overlaps[:, index, np.arange(hidden_size), match.order] * match.signs)
    tracked = np.stack(order, axis=1)  # (step, instance, P)
    best = np.stack([matched(here, planted.fields) for here in natural])
    return xr.Dataset(
        {
            "overlap": (("step", "instance", "unit"), tracked),
            "matched": (("step", "instance", "unit"), best),
            "divergence": (("step", "instance"), history["divergence"].values),
            "bound": (("step", "instance"), history["bound"].values),
        },
        {"step": history["step"].values},
    )


def best_possible(planted: Planted, hidden_size: int, sweeps: int, key: Array | int) -> np.ndarray:
    """The overlap that the signs of the posterior's means have: on average no estimate has a larger one.

    Args:
        planted: the machines.
        hidden_size: P.
        sweeps: of Monte Carlo.
        key: a random key or a seed.

    Returns:
        Mean overlaps, (instances,).
    """
    sampled = sample_synapses(planted.data, hidden_size, sweeps=sweeps, key=key)
    return matched(np.asarray(sampled.mean), planted.fields).mean(axis=1)


def recovery(overlaps: np.ndarray, case: str, source: str) -> Claim:
    """The planted fields are found: `overlaps` is (instances, ...)."""
    return at_least(
        f"The planted fields are recovered ({case}): mean overlap over {len(overlaps)} instances",
        source=source,
        expected=0.85,
        measured=overlaps.mean(),
    )


def nearly_optimal(overlaps: np.ndarray, best: np.ndarray, case: str, source: str) -> Claim:
    """Hardly less is found than the posterior itself knows; both are (instances,)."""
    return at_most(
        f"What the posterior itself knows more of the planted fields ({case}, {best.mean():.3f}): difference in mean overlap",
        source=source,
        expected=0.0,
        measured=best.mean() - overlaps.mean(),
        tolerance=0.03,
        reason="independent weights are an approximation; 1.5 weights of a field of 100 wrong in its place",
    )


def saturation(divergence: np.ndarray, weights: int, case: str, source: str) -> list[Claim]:
    """The KL divergence (step, instance) grows and saturates below its largest value."""
    mean = divergence.mean(axis=1)
    late = mean[-1] - mean[3 * len(mean) // 4]
    return [
        at_least(
            f"The KL divergence grows with learning ({case}), in units of its largest value N P ln 2",
            source=source, expected=0.3, measured=(mean[-1] - mean[0]) / (weights * np.log(2)),
        ),
        at_most(
            f"... until saturation ({case}): growth in the last quarter over the whole growth",
            source=source, expected=0.05, measured=late / (mean[-1] - mean[0]),
        ),
    ]  # fmt: skip


def growing_bound(bound: np.ndarray, case: str, source: str) -> list[Claim]:
    """The bound (step, instance) grows with learning."""
    return [
        at_least(
            f"The lower bound grows with learning ({case}): smallest gain of any instance, in nats",
            source=source, expected=1.0, measured=(bound[-1] - bound[0]).min(),
        )
    ]  # fmt: skip


def symmetry_broken(overlap: xr.DataArray, permute_at: int, case: str) -> Claim:
    """The overlaps (step, instance, unit) with fixed labels fall when the fields are permuted."""
    fall = overlap.isel(step=permute_at - 1) - overlap.isel(step=permute_at)
    return at_least(
        f"Permuting the fields changes the overlaps: the symmetry is broken ({case})",
        source="Sec. IV", expected=0.2, measured=float(fall.mean()), reason="twice 1/sqrt(N)",
    )  # fmt: skip
