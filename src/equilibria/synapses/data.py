"""What binary synapses learn from, and what is known of them before: checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.architectures import as_spins

_ROWS = 64


def stacked(
    data: ArrayLike | Sequence[ArrayLike], fill: bool, weights: ArrayLike | None = None
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Data sets side by side, filled up to one size.

    They are filled up to the size of the largest and, with `fill`, to a multiple of 64: sizes that are alike share one
    compiled step.

    Args:
        data: one (M, N), or several of them.
        fill: whether to fill up to a multiple of 64.
        weights: (M,), how much each example of one data set counts; those that do not count are left out.

    Returns:
        Whether there are several data sets; the data sets (sets, M, N); and how much their examples count: one each, or by
        weights one on average, and those filled in nothing.

    Raises:
        ValueError: if the data have other values than -1 and +1, the sets have different numbers of neurons, or there is no
            weight for each example of one set.
    """
    given: Any = data
    several = np.ndim(given[0]) == 2 if isinstance(given, (list, tuple)) and given else np.ndim(given) == 3
    sets = [as_data("data", one) for one in given] if several else [as_data("data", given)]
    if weights is not None and several:
        check.refuse("weights", "weights for several data sets", "None for these")
    counts = None if weights is None else check.weights(weights, len(sets[0]))
    if counts is not None:
        sets, counts = [sets[0][counts > 0]], counts[counts > 0]
    sizes = {one.shape[1] for one in sets}
    if len(sizes) > 1:
        check.refuse("data", f"data sets of {sorted(sizes)} neurons", "one number of neurons")
    longest = max(map(len, sets))
    if fill:
        longest = -(-longest // _ROWS) * _ROWS
    filled = np.stack([np.pad(one, ((0, longest - len(one)), (0, 0))) for one in sets])
    present = np.stack([np.arange(longest) < len(one) for one in sets]).astype(jnp.result_type(float))
    if counts is not None:
        present[0, : len(counts)] *= counts / counts.mean()
    return several, filled, present


def as_data(argument: str, values: ArrayLike) -> np.ndarray:
    """(M, N) values of -1 and +1 as int8; 0 and 1 are taken as -1 and +1, with a warning; grey levels are refused.

    >>> as_data("data", [[1, -1]])
    array([[ 1, -1]], dtype=int8)
    """
    given = np.asarray(values)
    levels = given.dtype.kind in "fiub" and given.size and not np.isin(given, (-1, 0, 1)).all()
    if levels and np.isfinite(given).all():
        strange = given[~np.isin(given, (-1, 0, 1))].flat[0]
        check.refuse(
            argument, f"{strange:g} among the values", "-1 and +1 (or 0 and 1); cut grey levels at a threshold first"
        )
    return as_spins(argument, given, ("examples", "neurons")).astype(np.int8)


def natural_prior(prior: ArrayLike, shape: tuple[int, int]) -> Array:
    """The natural parameters of a prior given by its mean, one or one for each weight.

    >>> natural_prior(0.5, (2, 1)).ravel()
    Array([0.54930615, 0.54930615], dtype=float32)
    """
    mean = np.asarray(check.number("prior", prior, above=-1.0), np.float64)
    if (mean >= 1).any():
        check.refuse("prior", f"{mean.max():g} among the means", "means above -1 and below 1")
    try:
        return array(np.broadcast_to(np.arctanh(mean), shape))
    except ValueError:
        check.refuse("prior", f"shape {mean.shape}", f"one mean, or shape {shape}")
