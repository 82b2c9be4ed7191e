"""Restricted Boltzmann machines with scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Literal

import jax
import numpy as np
import xarray as xr
from jax import Array
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.sweep import Sweeps
from equilibria.estimators.common import RandomState, Table, seed_of
from equilibria.estimators.conditionals import hidden_means, log_weights, visible_means
from equilibria.learn.contrast import Recipe
from equilibria.learn.names import LikelihoodRecipe
from equilibria.learn.recipes import likelihood_recipe
from equilibria.learn.train import train
from equilibria.measure.estimate import Estimate
from equilibria.measure.partition import Method, log_partition, summable
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.transforms import independent_site_biases
from equilibria.model.units import Binary, Gaussian, Spin, Unit
from equilibria.random import key as random_key

_UNITS = {"binary": Binary, "spin": Spin, "gaussian": Gaussian}
_FEW = 2**16  # over up to this many states ln Z is summed exactly


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A restricted Boltzmann machine that learns features of data and their distribution.

    Constant features and sparse matrices are fine.

    Args:
        n_components: the number of hidden neurons.
        visible: the kind of the features: "binary", "spin" or "gaussian". "auto" is binary for data in [0, 1] (values
            between are taken as probabilities), spin for -1 and +1, else gaussian, for which features are brought to mean 0
            and variance 1 inside.
        hidden: the kind of the hidden neurons.
        recipe: how the free phase is reached: "cd", "pcd", "rdm", "tempered", "mean_field" or "tap".
        steps: sweeps (or rounds) of the free phase in each update.
        learning_rate: of plain gradient descent.
        batch_size: samples in an update.
        n_iter: passes through the data.
        l1: penalty on the size of the couplings.
        l2: penalty on their squares.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        random_state: a seed, a generator of NumPy, or None for another machine every time.
        verbose: whether to show a progress bar.

    Attributes:
        network_: the machine, an `equilibria.Network`.
        components_: (components, features), the couplings.
        intercept_visible_: (features,), the biases of the features.
        intercept_hidden_: (components,), those of the hidden neurons.
        offset_: (features,), what is taken off the features.
        scale_: (features,), what they are divided by.
        history_: the records of the last `fit` or `partial_fit`, an `xarray.Dataset`.
        log_partition_: ln Z with its error.
        n_features_in_: the number of features.

    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> RBM(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    network_: Network
    history_: xr.Dataset
    _log_partition: Estimate | None
    _chains: dict[str, Any]  # what each recipe carries from update to update

    def __init__(
        self,
        n_components: int = 256,
        *,
        visible: Literal["auto", "binary", "spin", "gaussian"] = "auto",
        hidden: Literal["binary", "spin", "gaussian"] = "binary",
        recipe: LikelihoodRecipe = "pcd",
        steps: int = 1,
        learning_rate: float = 0.1,
        batch_size: int = 10,
        n_iter: int = 10,
        l1: float = 0.0,
        l2: float = 0.0,
        centered_gradient: bool = True,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.visible = visible
        self.hidden = hidden
        self.recipe = recipe
        self.steps = steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.l1 = l1
        self.l2 = l2
        self.centered_gradient = centered_gradient
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None) -> RBM:
        """Learn from data, from the start.

        Args:
            X: (samples, features).
            y: not looked at.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter or a feature is out of its range.
        """
        rows = self._started(X)
        return self._trained(rows, check.count("n_iter", self.n_iter), self.batch_size, self._key(0))

    def partial_fit(self, X: Table, y: Any = None) -> RBM:
        """Take one more pass through data, from where learning stands.

        Args:
            X: (samples, features). The first call decides the kind of the features. Batches are of one size: fewer rows than
                there are batches sit out.
            y: not looked at.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter or a feature is out of its range.
        """
        rows = self._started(X) if not hasattr(self, "network_") else self._prepared(self._validated(X))
        batches = -(-len(rows) // check.count("batch_size", self.batch_size))
        self._passes += 1
        return self._trained(rows, 1, len(rows) // batches, jax.random.fold_in(self._key(2), self._passes))

    def _trained(self, rows: np.ndarray, epochs: int, batch_size: int, key: Array) -> RBM:
        """Learn for some epochs, going on with the chains there are."""
        run = train(
            self.network_,
            rows,
            self._recipe(),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            probabilities=True,
            carry=self._chains.get(self.recipe),
            show_progress=bool(self.verbose),
            key=key,
        )
        self._keep(run.network)
        self._chains[self.recipe], self.history_ = run.carry, run.history
        return self

    def transform(self, X: Table) -> np.ndarray:
        """The means of the hidden neurons given the features.

        Args:
            X: (samples, features).

        Returns:
            (samples, components).
        """
        check_is_fitted(self)
        return hidden_means(self.network_, self._prepared(self._validated(X)))

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """The means of the features given hidden values.

        Args:
            X: (samples, components).

        Returns:
            (samples, features).
        """
        check_is_fitted(self)
        hidden = check.shape("X", check_array(X, dtype=np.float64), (self.network_.layers[1].size,))
        return visible_means(self.network_, hidden) * self.scale_ + self.offset_

    def score_samples(self, X: Table) -> np.ndarray:
        """The logarithm of the probability (a density for Gaussian features) of each sample.

        Args:
            X: (samples, features).

        Returns:
            (samples,), in nats: minus the free energy, minus ln Z, which `log_partition_` estimates once.
        """
        check_is_fitted(self)
        logs = log_weights(self.network_, self._prepared(self._validated(X)))
        return logs - self.log_partition_.value - np.log(self.scale_).sum()

    def score(self, X: Table, y: Any = None) -> float:
        """The mean of `score_samples`, in nats; y is not looked at."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, *, steps: int = 1000) -> np.ndarray:
        """Independent draws of the features; another call gives other draws.

        Args:
            n_samples: how many.
            steps: sweeps before each draw.

        Returns:
            (n_samples, features).
        """
        check_is_fitted(self)
        here = jax.random.fold_in(self._key(3), self._drawn)
        self._drawn += 1
        draws = sample(self.network_, Sweeps(steps), chains=check.count("n_samples", n_samples), key=here)
        return np.asarray(draws["visible"], np.float64) * self.scale_ + self.offset_

    @property
    def log_partition_(self) -> Estimate:
        """ln Z with its error: summed exactly over up to 2^16 states, else annealed over 2,000 steps."""
        check_is_fitted(self)
        if self._log_partition is None:
            method: Method = "exact" if summable(self.network_, _FEW) else "ais"
            self._log_partition = log_partition(self.network_, method, steps=2000, reverse=False, key=self._key(4))
        return self._log_partition

    @property
    def _n_features_out(self) -> int:
        return self.network_.layers[1].size

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _validated(self, X: Table, reset: bool = False) -> np.ndarray:
        values = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        return values.toarray() if sparse.issparse(values) else values

    def _started(self, X: Table) -> np.ndarray:
        """Everything that learning starts from; the data as the network takes them."""
        values = self._validated(X, reset=True)
        unit = self._visible_unit(values)
        self._set_scale(values, unit)
        self._seed = seed_of(self.random_state)
        self._drawn, self._passes, self._chains = 0, 0, {}
        size = check.count("n_components", self.n_components)
        hidden = _UNITS[check.choice("hidden", self.hidden, _UNITS)]()
        network = rbm(values.shape[1], size, visible=unit, hidden=hidden, key=self._key(5))
        rows = self._prepared(values, unit)
        self._keep(independent_site_biases(network, rows, probabilities=True))
        return rows

    def _set_scale(self, values: np.ndarray, unit: Unit) -> None:
        self.offset_, self.scale_ = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if unit.normal_stiffness is not None:
            spread = values.std(0)
            self.offset_ = values.mean(0)
            # A feature without spread, up to rounding, keeps its scale: there is nothing to learn about it.
            self.scale_ = np.where(spread > 1e-7 * np.maximum(np.abs(self.offset_), 1e-300), spread, 1.0)

    def _visible_unit(self, values: np.ndarray) -> Unit:
        kind = check.choice("visible", self.visible, ("auto", *_UNITS))
        if kind == "auto":
            spins = np.isin(values, (-1.0, 1.0)).all() and (values < 0).any()
            kind = "spin" if spins else "binary" if values.min() >= 0 and values.max() <= 1 else "gaussian"
        unit = _UNITS[kind]()
        unit.check("X", values, probabilities=True)
        return unit

    def _prepared(self, values: np.ndarray, unit: Unit | None = None) -> np.ndarray:
        (self.network_.layers[0].unit if unit is None else unit).check("X", values, probabilities=True)
        return ((values - self.offset_) / self.scale_).astype(np.float32)

    def _recipe(self) -> Recipe:
        options: Any = {"centered_gradient": self.centered_gradient, "l1": self.l1, "l2": self.l2}
        return likelihood_recipe(self.recipe, steps=check.count("steps", self.steps), **options)

    def _key(self, purpose: int) -> Array:
        return jax.random.fold_in(random_key(self._seed), purpose)

    def _keep(self, network: Network) -> None:
        self.network_, self._log_partition = network, None
        self.components_ = np.asarray(network.couplings[0].matrix(), np.float64).T
        biases = (np.asarray(layer.bias, np.float64) for layer in network.layers)
        self.intercept_visible_, self.intercept_hidden_ = biases
