"""What the classifier and the regressor of equilibrium propagation share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
import xarray as xr
from jax import Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from equilibria import check
from equilibria.equilibrators.descent import Descent
from equilibria.equilibrators.driver import equilibrate
from equilibria.estimators.common import RandomState, in_blocks, validated, warn_of
from equilibria.estimators.nudged import direction, nudged_rule, restless, scales
from equilibria.learn.optimiser import falling
from equilibria.learn.rule import Rule
from equilibria.learn.stopping import Patience
from equilibria.learn.train import train
from equilibria.model.architectures import layered
from equilibria.model.network import Network
from equilibria.model.units import Clipped, Gaussian, Unit
from equilibria.model.world import Clamp, Cost

_ROWS = 200  # rows whose outputs are found at once


def _as_bytes(*columns: np.ndarray) -> np.ndarray:
    """Each row as one value that can be sorted."""
    rows = np.ascontiguousarray(np.hstack(columns))
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()


class Layered(BaseEstimator, ABC):
    """What the classifier and the regressor share: the network, its training and its outputs."""

    network_: Network
    history_: xr.Dataset
    validation_scores_: list[float]

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (100,),
        *,
        recipe: Literal[
            "equilibrium_propagation", "contrastive_hebbian", "recurrent_backprop"
        ] = "equilibrium_propagation",
        loss: Literal["cross_entropy", "squared_error"] | None = None,
        nudge: float = 0.25,
        sweeps: int = 20,
        nudged_sweeps: int = 5,
        gain: float = 0.5,
        input_dropout: float | Literal["auto"] = "auto",
        learning_rate: float = 0.4,
        final_rate: float = 0.03,
        batch_size: int = 32,
        max_iter: int = 40,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.recipe = recipe
        self.loss = loss
        self.nudge = nudge
        self.sweeps = sweeps
        self.nudged_sweeps = nudged_sweeps
        self.gain = gain
        self.input_dropout = input_dropout
        self.learning_rate = learning_rate
        self.final_rate = final_rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _loss(self) -> tuple[Cost, Unit]:
        """The cost, and the kind of output units that goes with it."""

    def _rule(self) -> Rule:
        return nudged_rule(
            self.recipe,
            self._loss()[0],
            nudge=self.nudge,
            sweeps=self.sweeps,
            nudged_sweeps=self.nudged_sweeps,
            inputs=self.n_features_in_,
            input_dropout=self.input_dropout,
        )

    def _start(self, inputs: int, outputs: int, random: np.random.RandomState) -> Network:
        """The network of the last fit, if learning is to go on with it and it is of the same kind; else a new one."""
        hidden = [check.count("hidden_layer_sizes", size) for size in np.atleast_1d(self.hidden_layer_sizes).tolist()]
        sizes = [inputs, *hidden, outputs]
        before, self._kind = getattr(self, "_kind", None), (sizes, self.loss)
        if self.warm_start and before == self._kind and hasattr(self, "network_"):
            return self.network_
        units = [Gaussian(), *[Clipped()] * len(hidden), self._loss()[1]]
        return layered(sizes, units=units, gain=self.gain, key=int(random.randint(2**31)))

    def _fit(self, X: np.ndarray, targets: np.ndarray, labels: np.ndarray, weights: np.ndarray | None) -> None:
        """Train on standardised inputs; `labels` are what a validation score is measured with."""
        random = check_random_state(self.random_state)
        # Another order of the rows is the same table, and learns the same.
        order = np.argsort(_as_bytes(X, targets), kind="stable")
        X, targets, labels = X[order], targets[order], labels[order]
        weights = None if weights is None else weights[order]
        self.mean_, self.scale_ = X.mean(axis=0), scales(X)
        stop, watched = None, None
        if self.early_stopping:
            fraction = check.number("validation_fraction", self.validation_fraction, above=0.0, most=0.9)
            learned, held = train_test_split(
                np.arange(len(X)), test_size=fraction, random_state=int(random.randint(2**31))
            )
            kept, kept_labels, X, targets = X[held], labels[held], X[learned], targets[learned]
            weights = None if weights is None else weights[learned]
            stop, watched = Patience("validation_score", self.n_iter_no_change), self._scored(kept, kept_labels)
        self.network_ = self._start(X.shape[1], targets.shape[1], random)
        epochs = check.count("max_iter", self.max_iter)
        self._train(X, targets, weights, epochs, self.final_rate, int(random.randint(2**31)), stop, watched)
        self.validation_scores_ = [] if stop is None else self.history_["validation_score"].values.tolist()
        warn_of(self._complaints(targets), self.history_)

    def _partial_fit(self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
        """One more pass, at the full rate; the first one decides how inputs are scaled."""
        if not hasattr(self, "network_"):
            self._random = check_random_state(self.random_state)
            self.mean_, self.scale_, self.n_iter_ = X.mean(axis=0), scales(X), 0
            self.network_ = self._start(X.shape[1], targets.shape[1], self._random)
        elif not hasattr(self, "_random"):
            self._random = check_random_state(self.random_state)
        before = self.n_iter_
        self._train(X, targets, weights, 1, 1.0, int(self._random.randint(2**31)))
        self.n_iter_, self.validation_scores_ = before + 1, []

    def _train(
        self,
        X: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None,
        epochs: int,
        final_rate: float,
        seed: int,
        stop: Patience | None = None,
        watched: Callable[[Network], dict[str, float]] | None = None,
    ) -> None:
        batch_size = min(check.count("batch_size", self.batch_size), len(X))
        rate = check.number("learning_rate", self.learning_rate, above=0.0)
        per_epoch = len(X) // batch_size
        run = train(
            self.network_,
            (self._scaled(X), targets.astype(np.float32)),
            self._rule(),
            epochs=epochs,
            batch_size=batch_size,
            weights=weights,
            optimiser=falling(direction(len(self.network_.couplings))),
            learning_rate=rate,
            final_rate=final_rate,
            record=range(per_epoch, epochs * per_epoch + 1, per_epoch),
            metrics=watched,
            callbacks=[] if stop is None else [stop],
            show_progress=bool(self.verbose),
            key=seed,
        )
        self.history_, self.n_iter_ = run.history, int(run.history.step[-1]) // per_epoch
        self.network_ = run.network if stop is None else stop.best

    def _complaints(self, targets: np.ndarray) -> list[str]:
        """What is wrong with what was learned, a sentence each."""
        return [*self._worse(self.history_.isel(step=-1), targets), *restless(self.history_)]

    @abstractmethod
    def _worse(self, last: xr.Dataset, targets: np.ndarray) -> list[str]:
        """Complaints where the last pass predicted no better than a constant."""

    def _scored(self, X: np.ndarray, labels: np.ndarray) -> Callable[[Network], dict[str, float]]:
        """A function for `train` that looks at data held out."""

        def score(network: Network) -> dict[str, float]:
            self.network_ = network
            return {"validation_score": self.score(X, labels)}

        return score

    @abstractmethod
    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """How good the predictions are."""

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _outputs(self, X: ArrayLike) -> np.ndarray:
        """The output layer at rest under each row of X."""
        check_is_fitted(self)
        rows = self._scaled(validated(self, X, reset=False, dtype=np.float64))

        def at_rest(block: np.ndarray) -> Array:
            return equilibrate(self.network_, Descent(2 * self.sweeps), world=Clamp("input", block))["output"]

        return in_blocks(at_rest, rows, _ROWS).astype(np.float64)
