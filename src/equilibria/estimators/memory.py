"""A Hopfield network behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.estimators.common import RandomState
from equilibria.measure.retrieval import RETRIEVED, Retrieval, retrieve
from equilibria.model.architectures import hopfield


class HopfieldMemory(BaseEstimator):
    """An associative memory: it stores patterns, and completes damaged ones.

    Patterns have two values, -1 and +1 or 0 and 1, and what is recalled has the same two. In cues, 0 among -1 and +1 stands
    for what is not known.

    Args:
        sleep: the sleeping time, 0 for Hebb's rule and infinity for the pseudo-inverse.
        temperature: of the neurons.
        sweeps: how many at most; at temperatures above 0 exactly so many.
        order: "random", one neuron after another, or "parallel", all at once.
        binarise: features above this number are +1 and others -1, and any real data will do.
        random_state: decides the order in which neurons are visited.

    Attributes:
        patterns_: (K, N) of -1 and +1.
        values_: the two values of the patterns given.
        network_: an `equilibria.Network`.
        n_features_in_: the number of features, N.

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
        random_state: RandomState = None,
    ):
        self.sleep = sleep
        self.temperature = temperature
        self.sweeps = sweeps
        self.order = order
        self.binarise = binarise
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> HopfieldMemory:
        """Store patterns, and forget what was stored before.

        Args:
            X: (K, N), the patterns.
            y: not looked at.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if the patterns have other values than two, and there is no threshold.
        """
        given = validate_data(self, X, dtype=np.float64)
        zero_one = self.binarise is None and bool(np.isin(given, (0, 1)).all() and (given == 0).any())
        self.values_ = (0.0, 1.0) if zero_one else (-1.0, 1.0)
        return self._store(self._spins("X", given))

    def partial_fit(self, X: ArrayLike, y: Any = None) -> HopfieldMemory:
        """Store patterns as well as what was stored before.

        Args:
            X: (K, N), the patterns, in the same two values as before.
            y: not looked at.

        Returns:
            The estimator itself.
        """
        if not hasattr(self, "patterns_"):
            return self.fit(X)
        more = self._spins("X", validate_data(self, X, dtype=np.float64, reset=False))
        return self._store(np.concatenate([self.patterns_, more]))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """What is recalled from each cue.

        Args:
            X: (cues, N).

        Returns:
            (cues, N), in the two values of the patterns.
        """
        on = np.asarray(self._recalled(X).state) > 0
        low, high = self.values_
        return np.where(on, high, low)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """The fraction of cues from which the right pattern is recalled, with an overlap of at least 0.7.

        Args:
            X: (cues, N).
            y: (cues, N), the right pattern for each; without it, any stored pattern is right.

        Returns:
            A number between 0 and 1.
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
