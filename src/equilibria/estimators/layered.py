"""What the classifier and the regressor of equilibrium propagation share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
import optax
import xarray as xr
from jax import Array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.equilibrators.descent import Descent
from equilibria.equilibrators.driver import equilibrate
from equilibria.estimators.common import RandomState, in_blocks
from equilibria.learn.backprop import recurrent_backprop
from equilibria.learn.recipes import contrastive_hebbian, equilibrium_propagation
from equilibria.learn.rule import Rule
from equilibria.learn.stopping import Patience
from equilibria.learn.train import train
from equilibria.model.architectures import layered
from equilibria.model.network import Network
from equilibria.model.units import Clipped, Gaussian, Unit
from equilibria.model.world import Clamp, Cost

TINY = 1e-12  # a feature with a smaller spread is not scaled
_ROWS = 200  # rows whose outputs are found at once


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
        random_state: RandomState = None,
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
    def _loss(self) -> tuple[Cost, Unit]:
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
        """The network of the last fit, if learning is to go on with it and it is of the same kind; else a new one."""
        hidden = [check.count("hidden_layer_sizes", size) for size in np.atleast_1d(self.hidden_layer_sizes).tolist()]
        sizes = [inputs, *hidden, outputs]
        before, self._kind = getattr(self, "_kind", None), (sizes, self.loss)
        if self.warm_start and before == self._kind and hasattr(self, "network_"):
            return self.network_
        units = [Gaussian(), *[Clipped()] * len(hidden), self._loss()[1]]
        return layered(sizes, units=units, gain=self.gain, key=int(random.randint(2**31)))

    def _fit(self, X: np.ndarray, targets: np.ndarray, labels: np.ndarray) -> None:
        """Train on standardised inputs; `labels` are what a validation score is measured with."""
        random = check_random_state(self.random_state)
        spread = X.std(axis=0)
        self.mean_, self.scale_ = X.mean(axis=0), np.where(spread > TINY, spread, 1.0)
        stop, watched = None, None
        if self.early_stopping:
            fraction = check.number("validation_fraction", self.validation_fraction, above=0.0, most=0.9)
            X, kept, targets, _, labels, kept_labels = train_test_split(
                X, targets, labels, test_size=fraction, random_state=int(random.randint(2**31))
            )
            stop, watched = Patience("validation_score", self.n_iter_no_change), self._scored(kept, kept_labels)
        network = self._start(X.shape[1], targets.shape[1], random)
        batch_size = min(check.count("batch_size", self.batch_size), len(X))
        per_epoch = len(X) // batch_size
        epochs = check.count("max_iter", self.max_iter)
        run = train(
            network,
            (self._scaled(X), targets.astype(np.float32)),
            self._rule(),
            epochs=epochs,
            batch_size=batch_size,
            optimiser=optax.adam(check.number("learning_rate", self.learning_rate, above=0.0)),
            record=range(per_epoch, epochs * per_epoch + 1, per_epoch),
            metrics=watched,
            callbacks=[] if stop is None else [stop],
            show_progress=False,
            key=int(random.randint(2**31)),
        )
        self.history_, self.n_iter_ = run.history, int(run.history.step[-1]) // per_epoch
        self.network_ = run.network if stop is None else stop.best
        self.validation_scores_ = [] if stop is None else run.history["validation_score"].values.tolist()

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
        rows = self._scaled(validate_data(self, X, reset=False, dtype=np.float64))

        def at_rest(block: np.ndarray) -> Array:
            return equilibrate(self.network_, Descent(2 * self.sweeps), world=Clamp("input", block))["output"]

        return in_blocks(at_rest, rows, _ROWS).astype(np.float64)
