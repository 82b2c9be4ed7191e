"""What the estimators share: the types of their arguments, and rows in blocks of one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import check_random_state

Table: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray  # (samples, features)
RandomState: TypeAlias = int | np.random.RandomState | None


def seed_of(random_state: RandomState) -> int:
    """A seed from what scikit-learn takes as one.

    Args:
        random_state: a whole number, which is the seed itself; a generator of NumPy, or None for NumPy's own, which give one.

    Returns:
        A whole number >= 0.

    >>> seed_of(7)
    7
    """
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def in_blocks(function: Callable[[np.ndarray], ArrayLike], rows: np.ndarray, size: int) -> np.ndarray:
    """A function of rows, applied to blocks of one size, the last filled up with zeros.

    One compiled function then serves any number of rows, and what is found for a row does not depend on its company.

    Args:
        function: of a block (size, features), to one row for each.
        rows: (samples, features).
        size: of a block.

    Returns:
        What was found for every row, (samples, ...).

    >>> in_blocks(lambda block: block.sum(1), np.ones((5, 3)), 2)
    array([3., 3., 3., 3., 3.])
    """
    found = []
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        filled = np.zeros((size, *rows.shape[1:]), rows.dtype)
        filled[: len(block)] = block
        found.append(np.asarray(function(filled))[: len(block)])
    return np.concatenate(found)
