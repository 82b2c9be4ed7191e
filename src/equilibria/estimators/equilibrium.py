"""Layered networks trained by equilibrium propagation, behind scikit-learn's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import jax
import numpy as np
import optax
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from equilibria import check
from equilibria.equilibrators.descent import Descent
from equilibria.equilibrators.driver import equilibrate
from equilibria.learn.backprop import recurrent_backprop
from equilibria.learn.loop import train
from equilibria.learn.recipes import contrastive_hebbian, equilibrium_propagation
from equilibria.learn.rule import Rule
from equilibria.learn.stopping import Patience
from equilibria.model.architectures import layered
from equilibria.model.network import Network
from equilibria.model.units import Clipped, Gaussian, Unit
from equilibria.model.world import Clamp, cross_entropy, squared_error

# Predictions are made in chunks of one size, the last filled up: one compiled function, and the same bits in any company.
_CHUNK = 200
# Outputs times this are the logits: with couplings small enough for one rest state, outputs are of order one.
_SHARPNESS = 4.0
_TINY = 1e-12


def _softmax_cost(state: Any, target: Any) -> Any:
    """The cross-entropy of a softmax read-out of the outputs, with a slope of order one."""
    return cross_entropy(_SHARPNESS * state, target) / _SHARPNESS


_LOSSES = {"cross_entropy": (_softmax_cost, Gaussian()), "squared_error": (squared_error, Clipped())}


class _Layered(BaseEstimator, ABC):
    """What the classifier and the regressor share: the network, its training and its outputs."""

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (100,),
        *,
        recipe: Literal[
            "equilibrium_propagation", "contrastive_hebbian", "recurrent_backprop"
        ] = "equilibrium_propagation",
        loss: Literal["cross_entropy", "squared_error"] | None = None,
        nudge: float = 0.25,
        sweeps: int = 30,
        nudged_sweeps: int = 10,
        gain: float = 0.5,
        learning_rate: float = 3e-3,
        batch_size: int = 32,
        max_iter: int = 100,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: Any = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.recipe = recipe
        self.loss = loss
        self.nudge = nudge
        self.sweeps = sweeps
        self.nudged_sweeps = nudged_sweeps
        self.gain = gain
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state

    @abstractmethod
    def _loss(self) -> tuple[Any, Unit]:
        """The cost, and the kind of output units that goes with it."""

    def _rule(self) -> Rule:
        cost, _ = self._loss()
        free = Descent(self.sweeps, tolerance=1e-3)
        check.choice("recipe", self.recipe, ("equilibrium_propagation", "contrastive_hebbian", "recurrent_backprop"))
        if self.recipe == "contrastive_hebbian":
            return contrastive_hebbian(free=free, clamped=Descent(self.nudged_sweeps))
        if self.recipe == "recurrent_backprop":
            return recurrent_backprop(free=free, steps=self.nudged_sweeps, cost=cost)
        return equilibrium_propagation(self.nudge, free=free, nudged=Descent(self.nudged_sweeps, 0.0), cost=cost)

    def _start(self, inputs: int, outputs: int, random: np.random.RandomState) -> Network:
        hidden = [check.count("hidden_layer_sizes", size) for size in np.atleast_1d(self.hidden_layer_sizes).tolist()]
        sizes = (inputs, *hidden, outputs)
        before = getattr(self, "network_", None) if self.warm_start else None
        if before is not None and tuple(layer.size for layer in before.layers) == sizes:
            return before
        units = [Gaussian(), *[Clipped()] * len(hidden), self._loss()[1]]
        return layered(sizes, units=units, gain=self.gain, key=int(random.randint(2**31)))

    def _fit(self, X: np.ndarray, targets: np.ndarray, labels: np.ndarray) -> None:
        """Train on standardised inputs; `labels` are what a validation score is measured with."""
        random = check_random_state(self.random_state)
        self.mean_, self.scale_ = X.mean(axis=0), np.maximum(X.std(axis=0), _TINY)
        self.scale_ = np.where(self.scale_ > _TINY, self.scale_, 1.0)
        held_out = None
        if self.early_stopping:
            fraction = check.number("validation_fraction", self.validation_fraction, above=0.0, most=0.9)
            X, kept, targets, _, labels, kept_labels = train_test_split(
                X, targets, labels, test_size=fraction, random_state=int(random.randint(2**31))
            )
            held_out = kept, kept_labels
        network = self._start(X.shape[1], targets.shape[1], random)
        batch_size = min(check.count("batch_size", self.batch_size), len(X))
        per_epoch = len(X) // batch_size
        epochs = check.count("max_iter", self.max_iter)
        stops = [] if held_out is None else [Patience("validation_score", self.n_iter_no_change)]

        def score(network: Network) -> dict[str, float]:
            self.network_ = network
            return {} if held_out is None else {"validation_score": self.score(*held_out)}

        run = train(
            network,
            (self._scaled(X), targets.astype(np.float32)),
            self._rule(),
            epochs=epochs,
            batch_size=batch_size,
            optimiser=optax.adam(check.number("learning_rate", self.learning_rate, above=0.0)),
            record=range(per_epoch, epochs * per_epoch + 1, per_epoch),
            metrics=score,
            callbacks=stops,
            show_progress=False,
            key=int(random.randint(2**31)),
        )
        self.history_, self.n_iter_ = run.history, int(run.history.step[-1]) // per_epoch
        self.network_ = stops[0].best if stops else run.network
        self.validation_scores_ = run.history["validation_score"].values.tolist() if stops else []

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _outputs(self, X: ArrayLike) -> np.ndarray:
        """The output layer at rest under each row of X."""
        check_is_fitted(self)
        rows = self._scaled(validate_data(self, X, reset=False, dtype=np.float64))
        filled = np.zeros((-(-len(rows) // _CHUNK) * _CHUNK, rows.shape[1]), np.float32)
        filled[: len(rows)] = rows
        ends = [
            np.asarray(equilibrate(self.network_, Descent(2 * self.sweeps), world=Clamp("input", chunk))["output"])
            for chunk in np.split(filled, len(filled) // _CHUNK)
        ]
        return np.concatenate(ends)[: len(rows)].astype(np.float64)


class EquilibriumClassifier(ClassifierMixin, _Layered):
    """A classifier that predicts where an energy comes to rest and learns by nudging it (Scellier and Bengio 2017).

    Parameters: `hidden_layer_sizes`, `nudge` and `gain` are those of `equilibria.layered` and
    `equilibria.equilibrium_propagation`; `recipe` names the learning rule; `sweeps` and `nudged_sweeps` are how long the
    phases may last (the free one stops when nothing moves by more than 10^-3). `loss` is "cross_entropy" (or None), with
    linear outputs under a softmax read-out, or the paper's "squared_error" with outputs in [0, 1]. Inputs are
    standardised. Training is Adam at `learning_rate` for `max_iter` epochs, or until the accuracy on a
    `validation_fraction` has not improved for `n_iter_no_change` epochs with `early_stopping`; `warm_start` goes on
    with the network of the last fit.

    Learned: `classes_`, `network_`, `n_iter_`, `history_` (with the fraction of examples whose free phase did not come to
    rest), `validation_scores_`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> EquilibriumClassifier((16,), max_iter=40, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def _loss(self):
        return _LOSSES[check.choice("loss", self.loss or "cross_entropy", _LOSSES)]

    def fit(self, X: Any, y: Any) -> EquilibriumClassifier:
        """Learn to tell the classes of y apart."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        self._fit(X, np.eye(len(self.classes_))[numbers], y)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The class whose output is largest (equation 51)."""
        outputs = self._outputs(X)
        return self.classes_[np.argmax(outputs, axis=1)]

    @available_if(lambda self: self.loss != "squared_error")
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probability of each class: the softmax of the outputs. Only with the cross-entropy."""
        return np.asarray(jax.nn.softmax(_SHARPNESS * self._outputs(X), axis=1), np.float64)


class EquilibriumRegressor(RegressorMixin, _Layered):
    """A regressor that predicts where an energy comes to rest and learns by nudging it (Scellier and Bengio 2017).

    Parameters are those of `EquilibriumClassifier`; the outputs are linear, the cost is the squared error, inputs and targets
    are standardised, and y may have several columns.

    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> EquilibriumRegressor((30,), max_iter=200, random_state=0).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.8
    True
    """

    def _loss(self):
        check.choice("loss", self.loss, (None, "squared_error"))
        return squared_error, Gaussian()

    def fit(self, X: Any, y: Any) -> EquilibriumRegressor:
        """Learn to predict y."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        self.one_column_ = y.ndim == 1
        columns = y.reshape(len(y), -1)
        self.target_mean_, spread = columns.mean(axis=0), columns.std(axis=0)
        self.target_scale_ = np.where(spread > _TINY, spread, 1.0)
        self._fit(X, (columns - self.target_mean_) / self.target_scale_, y)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The outputs at rest, in the units of y."""
        found = self._outputs(X) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self.one_column_ else found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
