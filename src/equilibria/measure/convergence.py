"""Numbers about chains: R-hat, effective samples, autocorrelation time; and the neighbours of data and draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equilibria import check

_TAILS = (0.05, 0.95)


class Convergence(NamedTuple):
    """How far chains can be trusted to tell of one law.

    Attributes:
        r_hat: rank-normalised split R-hat; infinite where no chain moves and they differ.
        ess: bulk effective sample size of all draws together.
        ess_tail: that of the quantiles at 5% and 95%.
        autocorrelation_time: draws of one chain that are worth one independent one.
    """

    r_hat: float
    ess: float
    ess_tail: float
    autocorrelation_time: float


def convergence(draws: ArrayLike) -> Convergence:
    """R-hat, effective sample sizes and the autocorrelation time of one number along chains (Vehtari et al. 2021).

    Args:
        draws: (chains, draws), at least four draws of each.

    Returns:
        The numbers, as `arviz-stats` has them. A number that never changes is known exactly.

    Raises:
        ValueError: if there are fewer draws, or they are not finite.

    >>> found = convergence(np.random.default_rng(0).normal(size=(4, 500)))
    >>> found.r_hat < 1.01, 1500 < found.ess < 2500
    (True, True)
    """
    from arviz_stats.base import array_stats  # not needed to import the library

    values = np.asarray(check.finite("draws", np.asarray(draws, np.float64)))
    if values.ndim != 2 or values.shape[1] < 4:
        check.refuse("draws", f"shape {values.shape}", "shape (chains, draws) with at least 4 draws")
    total = float(values.size)
    if (values == values.flat[0]).all():
        return Convergence(1.0, total, total, 1.0)
    if (values == values[:, :1]).all():  # each chain sits still, and not all of them at one place
        return Convergence(np.inf, 1.0, 1.0, np.inf)
    ess = float(array_stats.ess(values, method="bulk"))
    tail = float(array_stats.ess(values, method="tail", prob=_TAILS))
    r_hat = float(array_stats.rhat(values, method="rank"))
    # Ranks of a number with few values can leave a quantile without a change: then the bulk has to do.
    tail = ess if np.isnan(tail) else tail
    return Convergence(r_hat, ess, tail, max(1.0, total / ess))


def nearest_neighbour_accuracy(data: ArrayLike, draws: ArrayLike) -> tuple[float, float]:
    """How often the nearest neighbour of data is data, and of a draw a draw (Yale et al. 2020, "adversarial accuracy").

    Both are 0.5 where draws cannot be told from data. Both near 1: the two are apart; the first low and the second high:
    the draws are copies of some data, or few of a kind.

    Args:
        data: (examples, size).
        draws: (draws, size); as many of both are compared as there are of the fewer.

    Returns:
        The share of data whose nearest neighbour is data, and of draws whose nearest is a draw; a tie counts half.

    Raises:
        ValueError: if there are fewer than two of either, or they differ in size.

    >>> rng = np.random.default_rng(0)
    >>> nearest_neighbour_accuracy(rng.normal(size=(200, 3)), 9 + rng.normal(size=(200, 3)))
    (1.0, 1.0)
    """
    rows, others = np.asarray(data, np.float64), np.asarray(draws, np.float64)
    check.shape("draws", others, (None, rows.shape[-1]))
    count = min(len(rows), len(others))
    if count < 2:
        check.refuse("data", f"{len(rows)} examples and {len(others)} draws", "at least two of each")
    rows, others = rows[:count], others[:count]

    def distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.square(first).sum(1)[:, None] - 2 * first @ second.T + np.square(second).sum(1)

    def share(own: np.ndarray, other: np.ndarray) -> float:
        return float(np.mean((own < other - 1e-9) + 0.5 * (np.abs(own - other) <= 1e-9)))

    across = distances(rows, others)
    within = [distances(part, part) for part in (rows, others)]
    for part in within:
        np.fill_diagonal(part, np.inf)
    return share(within[0].min(1), across.min(1)), share(within[1].min(1), across.min(0))
