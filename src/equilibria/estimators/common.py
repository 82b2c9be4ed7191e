"""What the estimators share: the types of their arguments, and rows in blocks of one size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from equilibria import check
from equilibria.data.tables.reading import read_table

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


def validated(estimator: BaseEstimator, X: Any, *y: Any, **options: Any) -> Any:
    """What scikit-learn's validation makes of features (and targets); a cell of a frame that it refuses is named.

    Args:
        estimator: whose they are.
        X: (samples, features).
        y: targets, if there are any.
        options: of `validate_data`.

    Returns:
        The arrays.

    Raises:
        ValueError: if they are not what the options ask for.
    """
    if isinstance(X, (str, Path)):
        check.refuse("X", repr(str(X)), "numbers; those in a file are eq.data.read_table(file).values")
    try:
        found = validate_data(estimator, X, *y, **options)
        rows = found[0] if isinstance(found, tuple) else found
        if rows.dtype.kind not in "fiub":  # words of a frame go through where no type is asked for
            raise ValueError(f"X: got values of type {rows.dtype}; allowed: numbers")
        return found
    except ValueError as error:
        if hasattr(X, "columns"):
            _name_cell(X, error)
        if str(error).startswith("Input X contains NaN"):  # scikit-learn goes on with estimators of its own
            raise ValueError("Input X contains NaN; eq.train sums out what is missing") from error
        raise


def _name_cell(frame: Any, error: ValueError) -> None:
    """Raise again with row and column, if a cell of the frame is what was refused."""
    try:
        read_table(frame, id_column=None)
    except ValueError as found:
        where = str(found).removeprefix("data: got ").partition("; allowed: ")[0]
        ways = "pandas.get_dummies makes features of words, eq.train sums out what is missing"
        raise ValueError(f"X: got {where}; allowed: numbers in every cell; {ways}") from error


def warn_of(complaints: Sequence[str], history: xr.Dataset) -> None:
    """Say loudly what is wrong with what was learned, with the rate it was learned at.

    Args:
        complaints: sentences, none where all is well.
        history: of the run.
    """
    rate = f" (the learning rate was {history.attrs['learning_rate']:.3g})" if "learning_rate" in history.attrs else ""
    for complaint in complaints:
        warnings.warn(f"{complaint}{rate}", stacklevel=3)


def weighed(sample_weight: ArrayLike | None, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Which rows to learn from, and their weights.

    Whole numbers say how often a row is there; other weights are left to the loop (`train(weights=...)`).

    Args:
        sample_weight: (samples,), none below zero; None is one for each.
        rows: (samples, features).

    Returns:
        The numbers of the rows, and weights for them, None where all count the same.

    Raises:
        ValueError: if a weight is below zero, or all are zero.

    >>> weighed([0, 2, 1], np.zeros((3, 1))), weighed([0.0, 0.5, 2.0], np.zeros((3, 1)))
    ((array([1, 1, 2]), None), (array([1, 2]), array([0.5, 2. ])))
    """
    every = np.arange(len(rows))
    if sample_weight is None:
        return every, None
    weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        check.refuse("sample_weight", "no weight above zero", "at least one")
    if (weights % 1 == 0).all():
        return np.repeat(every, weights.astype(int)), None
    return every[weights > 0], weights[weights > 0]


def counted(rows: np.ndarray, weights: np.ndarray | None, seed: int) -> np.ndarray:
    """The rows, each as often as it counts: with weights so many draws. What is measured is measured on these.

    Args:
        rows: (samples, features).
        weights: (samples,), or None where all count the same.
        seed: of the draws.

    Returns:
        As many rows.

    >>> counted(np.array([[1.0], [2.0]]), np.array([0.0, 0.5]), 0).ravel()
    array([2., 2.])
    """
    if weights is None:
        return rows
    draws = np.random.default_rng([seed % 2**32, 3])
    return rows[np.sort(draws.choice(len(rows), len(rows), p=weights / weights.sum()))]


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
