"""Layered networks trained by equilibrium propagation, behind scikit-learn's interface."""

from __future__ import annotations

import jax
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from equilibria import check
from equilibria.estimators.common import validated, weighed
from equilibria.estimators.layered import Layered
from equilibria.estimators.nudged import SHARPNESS, TINY, softmax_cost
from equilibria.model.units import Clipped, Gaussian, Unit
from equilibria.model.world import Cost, squared_error

_LOSSES: dict[str, tuple[Cost, type[Unit]]] = {
    "cross_entropy": (softmax_cost, Gaussian),
    "squared_error": (squared_error, Clipped),
}


class EquilibriumClassifier(ClassifierMixin, Layered):
    """A classifier that predicts where an energy comes to rest and learns by nudging it (Scellier and Bengio 2017).

    Inputs are standardised, and learned with some of them missing where there are many.

    Args:
        hidden_layer_sizes: the numbers of hidden neurons, layer by layer.
        recipe: the learning rule: "equilibrium_propagation", "contrastive_hebbian" or "recurrent_backprop".
        loss: "cross_entropy" (or None), with linear outputs under a softmax read-out, or the paper's "squared_error" with
            outputs in [0, 1].
        nudge: the strength of the nudge, as in `equilibria.equilibrium_propagation`.
        sweeps: of the free phase at most, over-relaxed; it stops when nothing moves by more than 10^-2.
        nudged_sweeps: of the other phases.
        gain: the size of the couplings at the start, as in `equilibria.layered`.
        input_dropout: the probability that an input is missing while learning; "auto" is 0.2 from 50 features on, else 0.
        learning_rate: of gradient descent in the first coupling; later ones learn more slowly.
        final_rate: the fraction of itself that the rate falls to in a fit; `partial_fit` keeps it.
        batch_size: samples in an update.
        max_iter: passes through the data.
        early_stopping: stop when the accuracy on data held out no longer improves, and keep the best network.
        validation_fraction: how much is held out for that.
        n_iter_no_change: after so many passes without improvement.
        warm_start: go on with the network of the last fit.
        random_state: a seed, a generator of NumPy, or None for another network every time.
        verbose: whether to show a progress bar.

    Attributes:
        classes_: the labels.
        network_: an `equilibria.Network`.
        mean_: (features,), what is taken off the inputs.
        scale_: (features,), what they are divided by.
        n_iter_: passes through the data that were made.
        history_: the records, an `xarray.Dataset`, with the fraction of examples whose free phase did not come to rest.
        validation_scores_: the accuracy on the data held out after each pass.
        n_features_in_: the number of features.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> EquilibriumClassifier((16,), max_iter=40, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def _loss(self) -> tuple[Cost, Unit]:
        cost, unit = _LOSSES[check.choice("loss", self.loss or "cross_entropy", _LOSSES)]
        return cost, unit()

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> EquilibriumClassifier:
        """Learn to tell classes apart, and warn where what was learned is no better than the commonest class.

        Args:
            X: (samples, features).
            y: (samples,), the labels.
            sample_weight: (samples,), how often each is there; other weights than whole numbers are shares of each pass.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter is out of its range.
        """
        rows, labels = validated(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        chosen, weights = weighed(sample_weight, rows)
        rows, labels = rows[chosen], column_or_1d(labels, warn=True)[chosen]
        self.classes_ = np.unique(labels)
        self._fit(rows, self._one_hot(labels), labels, weights)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> EquilibriumClassifier:
        """Take one more pass through data, from where learning stands.

        Args:
            X: (samples, features). The first call decides how features are scaled.
            y: (samples,), the labels.
            classes: all labels there are, for the first call; those in y by default.
            sample_weight: as in `fit`.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter is out of its range, or a label is not among the classes.
        """
        first = not hasattr(self, "classes_")
        rows, labels = validated(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(labels)
        chosen, weights = weighed(sample_weight, rows)
        rows, labels = rows[chosen], column_or_1d(labels, warn=True)[chosen]
        if first:
            self.classes_ = np.unique(labels if classes is None else np.asarray(classes))
        if (strange := np.setdiff1d(labels, self.classes_)).size:
            check.refuse("y", repr(strange.tolist()[0]), f"the classes {', '.join(map(repr, self.classes_.tolist()))}")
        self._partial_fit(rows, self._one_hot(labels), weights)
        return self

    def _one_hot(self, labels: np.ndarray) -> np.ndarray:
        return (labels[:, None] == self.classes_).astype(np.float64)

    def _worse(self, last: xr.Dataset, targets: np.ndarray) -> list[str]:
        constant, wrong = float(1 - targets.mean(axis=0).max()), float(last["error"])
        if wrong <= constant + 2 * np.sqrt(constant * (1 - constant) / len(targets)):
            return []
        always = f"always naming the commonest class {constant:.0%}"
        return [f"learned nothing: {wrong:.0%} of the training data are wrong, {always}; lower the learning rate"]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class whose output is largest (equation 51).

        Args:
            X: (samples, features).

        Returns:
            (samples,), labels.
        """
        outputs = self._outputs(X)
        return self.classes_[np.argmax(outputs, axis=1)]

    @available_if(lambda self: self.loss != "squared_error")
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each class: the softmax of the outputs. Only with the cross-entropy.

        Args:
            X: (samples, features).

        Returns:
            (samples, classes).
        """
        return np.asarray(jax.nn.softmax(SHARPNESS * self._outputs(X), axis=1), np.float64)


class EquilibriumRegressor(RegressorMixin, Layered):
    """A regressor that predicts where an energy comes to rest and learns by nudging it (Scellier and Bengio 2017).

    The outputs are linear, inputs and targets are standardised, and there may be several targets.

    Args:
        hidden_layer_sizes: the numbers of hidden neurons, layer by layer.
        recipe: the learning rule: "equilibrium_propagation", "contrastive_hebbian" or "recurrent_backprop".
        loss: "squared_error", or None for the same.
        nudge: the strength of the nudge, as in `equilibria.equilibrium_propagation`.
        sweeps: of the free phase at most, over-relaxed; it stops when nothing moves by more than 10^-2.
        nudged_sweeps: of the other phases.
        gain: the size of the couplings at the start, as in `equilibria.layered`.
        input_dropout: the probability that an input is missing while learning; "auto" is 0.2 from 50 features on, else 0.
        learning_rate: of gradient descent in the first coupling; later ones learn more slowly.
        final_rate: the fraction of itself that the rate falls to in a fit; `partial_fit` keeps it.
        batch_size: samples in an update.
        max_iter: passes through the data.
        early_stopping: stop when R^2 on data held out no longer improves, and keep the best network.
        validation_fraction: how much is held out for that.
        n_iter_no_change: after so many passes without improvement.
        warm_start: go on with the network of the last fit.
        random_state: a seed, a generator of NumPy, or None for another network every time.
        verbose: whether to show a progress bar.

    Attributes:
        network_: an `equilibria.Network`.
        mean_: (features,), what is taken off the inputs.
        scale_: (features,), what they are divided by.
        target_mean_: what is taken off the targets.
        target_scale_: what they are divided by.
        n_iter_: passes through the data that were made.
        history_: the records, an `xarray.Dataset`.
        validation_scores_: R^2 on the data held out after each pass.
        n_features_in_: the number of features.

    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> EquilibriumRegressor((30,), max_iter=200, random_state=0).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.8
    True
    """

    def _loss(self) -> tuple[Cost, Unit]:
        check.choice("loss", self.loss, (None, "squared_error"))
        return squared_error, Gaussian()

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> EquilibriumRegressor:
        """Learn to predict targets, and warn where what was learned is no better than their means.

        Args:
            X: (samples, features).
            y: (samples,) or (samples, targets).
            sample_weight: (samples,), how often each is there; other weights than whole numbers are shares of each pass.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter is out of its range.
        """
        rows, given = validated(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        chosen, weights = weighed(sample_weight, rows)
        rows, targets = rows[chosen], np.asarray(given, np.float64)[chosen]
        columns = self._columns(targets)
        self._fit(rows, (columns - self.target_mean_) / self.target_scale_, targets, weights)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> EquilibriumRegressor:
        """Take one more pass through data, from where learning stands.

        Args:
            X: (samples, features). The first call decides how features and targets are scaled.
            y: (samples,) or (samples, targets).
            sample_weight: as in `fit`.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter is out of its range.
        """
        first = not hasattr(self, "network_")
        rows, given = validated(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=first)
        chosen, weights = weighed(sample_weight, rows)
        rows, targets = rows[chosen], np.asarray(given, np.float64)[chosen]
        columns = self._columns(targets) if first else targets.reshape(len(targets), -1)
        self._partial_fit(rows, (columns - self.target_mean_) / self.target_scale_, weights)
        return self

    def _columns(self, targets: np.ndarray) -> np.ndarray:
        """The targets as columns, once their scale is known."""
        self.one_column_ = targets.ndim == 1
        columns = targets.reshape(len(targets), -1)
        self.target_mean_, spread = columns.mean(axis=0), columns.std(axis=0)
        self.target_scale_ = np.where(spread > TINY, spread, 1.0)
        return columns

    def _worse(self, last: xr.Dataset, targets: np.ndarray) -> list[str]:
        constant, cost = 0.5 * float(np.square(targets).sum(axis=1).mean()), float(last["cost"])
        if cost <= 1.1 * constant + TINY:
            return []
        means = f"always their means {constant:.3g}"
        return [
            f"learned nothing: half the squared error of scaled targets is {cost:.3g}, {means}; lower the learning rate"
        ]

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The outputs at rest, in the units of the targets.

        Args:
            X: (samples, features).

        Returns:
            (samples,) or (samples, targets), as they were learned.
        """
        found = self._outputs(X) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self.one_column_ else found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
