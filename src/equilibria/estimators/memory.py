"""A Hopfield network behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.measure.retrieval import RETRIEVED, Retrieval, retrieve
from equilibria.model.architectures import hopfield


class HopfieldMemory(BaseEstimator):
    """An associative memory: it stores patterns, and completes damaged ones.

    Parameters: `sleep` is the sleeping time of `equilibria.hopfield`, 0 for Hebb's rule and infinity for the pseudo-inverse;
    `temperature`, `order` and `sweeps` are those of `equilibria.retrieve`. Patterns have two values, -1 and +1 or 0 and 1,
    and what is recalled has the same two. In cues, 0 among -1 and +1 stands for what is not known. With a number as `binarise`,
    features above it are +1 and others -1, and any real data will do. `random_state` decides the order in which neurons are
    visited.

    Learned: `patterns_` (K, N) of -1 and +1, `values_`, the two values of the patterns given, and `network_`.

    >>> from equilibria.estimators import HopfieldMemory
    >>> letters = [[1, 1, 1, -1, -1, -1, 1, 1], [1, -1, 1, -1, 1, -1, 1, -1]]
    >>> memory = HopfieldMemory(random_state=0).fit(letters)
    >>> memory.predict([[1, 1, 1, -1, -1, -1, 1, 0]])
    array([[ 1.,  1.,  1., -1., -1., -1.,  1.,  1.]])
    """

    def __init__(
        self,
        sleep: float = 0.0,
        *,
        temperature: float = 0.0,
        sweeps: int = 100,
        order: Literal["random", "parallel"] = "random",
        binarise: float | None = None,
        random_state: Any = None,
    ):
        self.sleep = sleep
        self.temperature = temperature
        self.sweeps = sweeps
        self.order = order
        self.binarise = binarise
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> HopfieldMemory:
        """Store the rows of X, and forget what was stored before; y is not looked at."""
        given = validate_data(self, X, dtype=np.float64)
        zero_one = self.binarise is None and bool(np.isin(given, (0, 1)).all() and (given == 0).any())
        self.values_ = (0.0, 1.0) if zero_one else (-1.0, 1.0)
        return self._store(self._spins("X", given))

    def partial_fit(self, X: ArrayLike, y: Any = None) -> HopfieldMemory:
        """Store the rows of X as well as what was stored before."""
        if not hasattr(self, "patterns_"):
            return self.fit(X)
        more = self._spins("X", validate_data(self, X, dtype=np.float64, reset=False))
        return self._store(np.concatenate([self.patterns_, more]))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """What is recalled from each row of X, in the two values of the patterns."""
        on = np.asarray(self._recalled(X).state) > 0
        low, high = self.values_
        return np.where(on, high, low)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """The fraction of rows of X from which the right pattern is recalled, with an overlap of at least 0.7.

        `y` has the right pattern for each row; without it, any stored pattern is right.
        """
        found = self._recalled(X)
        if y is None:
            return float(1 - np.mean(found.spurious))
        right = self._spins("y", np.asarray(y, np.float64))
        check.shape("y", right, np.shape(found.state))
        return float(np.mean(np.mean(np.asarray(found.state) * right, axis=-1) >= RETRIEVED))

    def _store(self, patterns: np.ndarray) -> HopfieldMemory:
        self.patterns_ = patterns
        self.network_ = hopfield(patterns, sleep=self.sleep)
        return self

    def _recalled(self, X: ArrayLike) -> Retrieval:
        check_is_fitted(self)
        cues = validate_data(self, X, dtype=np.float64, reset=False)
        return retrieve(
            self.network_,
            self.patterns_,
            self._spins("X", cues, unknown=True),
            temperature=self.temperature,
            sweeps=self.sweeps,
            order=self.order,
            key=int(check_random_state(self.random_state).randint(2**31)),
        )

    def _spins(self, argument: str, given: np.ndarray, *, unknown: bool = False) -> np.ndarray:
        """The values as -1 and +1, and 0 where they are not known."""
        if self.binarise is not None:
            return np.where(given > self.binarise, 1.0, -1.0)
        low, high = self.values_
        allowed = (low, high, 0.0) if unknown else (low, high)
        strange = given[~np.isin(given, allowed)]
        if strange.size:
            hint = "real features need a threshold, binarise=..."
            check.refuse(argument, f"{strange.flat[0]:g} among the values", f"{low:g} and {high:g}; {hint}")
        return (2 * given - low - high) / (high - low)
