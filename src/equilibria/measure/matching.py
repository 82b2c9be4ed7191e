"""Which learned receptive field is which planted one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from equilibria import check


class Match(NamedTuple):
    """Which found field is which planted one.

    Attributes:
        overlaps: (P,), of each planted field with the one that found it, >= 0.
        order: (P,), planted field a was found by field `order[a]`.
        signs: (P,), up to this sign.

    >>> match_fields([[1, 1, -1]], [[-1, -1, 1]])
    Match(overlaps=array([1.]), order=array([0]), signs=array([-1]))
    """

    overlaps: np.ndarray
    order: np.ndarray
    signs: np.ndarray


def match_fields(found: ArrayLike, planted: ArrayLike) -> Match:
    r"""Overlaps $Q^\mu = \frac1N |\sum_i \hat\xi_i^\mu \xi_i^\mu|$ after the best matching of found to planted fields.

    Neither the order nor the sign of receptive fields can be learned from data (Huang 2019): the matching is the one that
    makes the sum of the overlaps largest.

    Args:
        found: (P, N), the fields that were learned.
        planted: (P, N), those that made the data.

    Returns:
        The overlaps, and the order and the signs that give them.

    Raises:
        ValueError: if the two have different shapes, or what was found is not finite.

    >>> match = match_fields([[1, 1, 1, 1], [-1, -1, 1, -1]], [[1, 1, -1, -1], [1, 1, 1, 1]])
    >>> match.order.tolist(), match.signs.tolist(), match.overlaps.tolist()
    ([1, 0], [-1, 1], [0.5, 1.0])
    """
    found, planted = np.asarray(found, np.float64), np.asarray(planted, np.float64)
    check.finite("found", found)
    if planted.ndim != 2 or found.shape != planted.shape:
        check.refuse("found", f"shape {found.shape}", f"the planted fields' shape, {planted.shape}")
    overlaps = planted @ found.T / planted.shape[1]
    rows, order = linear_sum_assignment(-np.abs(overlaps))
    matched = overlaps[rows, order]
    return Match(np.abs(matched), order, np.where(matched < 0, -1, 1))
