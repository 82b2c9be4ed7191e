"""A Hopfield network behind scikit-learn's interface."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from equilibria import check
from equilibria.estimators.common import RandomState, validated
from equilibria.learn.history import History
from equilibria.measure.retrieval import RETRIEVED, Retrieval, retrieve
from equilibria.model.architectures import hopfield

_STABLE = 0.95  # at the critical load 0.138 of Hebb's rule about 1.5% of the values flip


class HopfieldMemory(BaseEstimator):
    """An associative memory: it stores patterns, and completes damaged ones.

    Patterns of two values, -1 and +1 or 0 and 1, are stored as they are, and what is recalled has the same two; in cues, 0
    among -1 and +1 stands for what is not known. Other patterns are cut at a threshold.

    Args:
        sleep: the sleeping time, 0 for Hebb's rule and infinity for the pseudo-inverse.
        temperature: of the neurons.
        sweeps: how many at most; at temperatures above 0 exactly so many.
        order: "random", one neuron after another, or "parallel", all at once.
        binarize: the threshold: in patterns of other values than two, features above it are +1 and others -1. None refuses
            such patterns.
        random_state: decides the order in which neurons are visited.

    Attributes:
        patterns_: (K, N) of -1 and +1.
        values_: the two values of the patterns given.
        network_: an `equilibria.Network`.
        history_: a row for each time something was stored, an `xarray.Dataset`: how many patterns there are, and the fraction
            of their neurons that keep their value in the field of the others.
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
        binarize: float | None = 0.0,
        random_state: RandomState = None,
    ):
        self.sleep = sleep
        self.temperature = temperature
        self.sweeps = sweeps
        self.order = order
        self.binarize = binarize
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
        given = validated(self, X, dtype=np.float64)
        zero_one = bool(np.isin(given, (0, 1)).all() and (given == 0).any())
        self.values_ = (0.0, 1.0) if zero_one else (-1.0, 1.0)
        self._cut = self.binarize is not None and not zero_one and not np.isin(given, (-1, 1)).all()
        self._records = History()
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
        more = self._spins("X", validated(self, X, dtype=np.float64, reset=False))
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
            y: (cues, N), the right pattern for each, or (cues,), its number among those stored; without it, any stored
                pattern is right.

        Returns:
            A number between 0 and 1.
        """
        found = self._recalled(X)
        if y is None:
            return float(1 - np.mean(found.spurious))
        right = self._right(np.asarray(y))
        check.shape("y", right, np.shape(found.state))
        return float(np.mean(np.mean(np.asarray(found.state) * right, axis=-1) >= RETRIEVED))

    def _right(self, y: np.ndarray) -> np.ndarray:
        """The patterns that should be recalled."""
        if y.ndim != 1:
            return self._spins("y", y.astype(np.float64))
        if not (np.isin(y, np.arange(len(self.patterns_)))).all():
            check.refuse(
                "y", f"{y.min()} to {y.max()}", f"patterns, or their numbers from 0 to {len(self.patterns_) - 1}"
            )
        return self.patterns_[y.astype(int)]

    def _store(self, patterns: np.ndarray) -> HopfieldMemory:
        self.patterns_ = patterns
        self.network_ = hopfield(patterns, sleep=self.sleep)
        fields = np.asarray(self.network_.field({"neurons": jnp.asarray(patterns, float)}, "neurons"))
        stable = float(np.mean(fields * patterns > 0))
        self._records.add({"step": len(self._records) + 1, "patterns": len(patterns), "stable": stable})
        self.history_ = self._records.dataset()
        if stable < _STABLE:
            warnings.warn(
                f"{len(patterns)} patterns of {patterns.shape[1]} features are too many or too alike: {1 - stable:.0%} of "
                "their values flip in the field of the others; sleep=1.0 or more stores them better",
                stacklevel=3,
            )
        return self

    def _recalled(self, X: ArrayLike) -> Retrieval:
        check_is_fitted(self)
        cues = validated(self, X, dtype=np.float64, reset=False)
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
        if self._cut:
            return np.where(given > check.number("binarize", self.binarize), 1.0, -1.0)
        low, high = self.values_
        allowed = (low, high, 0.0) if unknown else (low, high)
        strange = given[~np.isin(given, allowed)]
        if strange.size:
            hint = "real features need a threshold, binarize=..."
            check.refuse(argument, f"{strange.flat[0]:g} among the values", f"{low:g} and {high:g}; {hint}")
        return (2 * given - low - high) / (high - low)
