"""Restricted Boltzmann machines with scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from jax import Array
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.sweep import Sweeps
from equilibria.estimators.common import RandomState, Table, counted, seed_of, validated, warn_of, weighed
from equilibria.estimators.conditionals import hidden_means, log_weights, visible_means
from equilibria.estimators.features import HIDDEN, scale_of, unit_of
from equilibria.estimators.passes import LOOKED, usual_passes
from equilibria.learn.contrast import Recipe
from equilibria.learn.names import LikelihoodRecipe
from equilibria.learn.recipes import PERSISTENT, likelihood_recipe
from equilibria.learn.train import train
from equilibria.learn.watch import WatchMixing
from equilibria.measure.estimate import Estimate
from equilibria.measure.partition import Method, log_partition, summable
from equilibria.measure.verdict import Verdict, verdict
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.transforms import independent_site_biases
from equilibria.model.units import Unit
from equilibria.random import fold_in
from equilibria.random import key as random_key

_FEW = 2**16  # over up to this many states ln Z is summed exactly


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A restricted Boltzmann machine that learns features of data and their distribution; sparse matrices are fine.

    Args:
        n_components: the number of hidden neurons.
        visible: the kind of the features: "binary", "spin" or "gaussian". "auto" is binary for data in [0, 1] (values
            between are taken as probabilities), spin for -1 and +1, else gaussian, for which features are brought to mean 0
            and variance 1 inside.
        hidden: the kind of the hidden neurons: "binary", "spin", "gaussian", "relu" or "double_relu".
        recipe: how the free phase is reached: "cd", "pcd", "rdm", "reweighted", "tempered", "mean_field" or "tap".
        steps: sweeps (or rounds) of the free phase in each update.
        n_chains: chains that persist from update to update, for recipes that keep any.
        learning_rate: of plain gradient descent; "auto" follows from the data's largest variance, and history_ says it.
        final_rate: the fraction of itself that the rate falls to in a fit; `partial_fit` keeps it.
        batch_size: samples in an update.
        n_iter: passes through the data; None makes about 2,000 updates, in 5 to 300 passes.
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
        verdict_: the log-likelihood of the data beside that of independent features, and what is wrong.
        n_features_in_: the number of features.

    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> RBM(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    network_: Network
    history_: xr.Dataset
    verdict_: Verdict
    _log_partition: Estimate | None
    _chains: dict[str, Any]  # what each recipe carries from update to update

    def __init__(
        self,
        n_components: int = 64,
        *,
        visible: Literal["auto", "binary", "spin", "gaussian"] = "auto",
        hidden: Literal["binary", "spin", "gaussian", "relu", "double_relu"] = "binary",
        recipe: LikelihoodRecipe = "pcd",
        steps: int = 1,
        n_chains: int = 100,
        learning_rate: float | Literal["auto"] = "auto",
        final_rate: float = 0.1,
        batch_size: int = 100,
        n_iter: int | None = None,
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
        self.n_chains = n_chains
        self.learning_rate = learning_rate
        self.final_rate = final_rate
        self.batch_size = batch_size
        self.n_iter = n_iter
        self.l1 = l1
        self.l2 = l2
        self.centered_gradient = centered_gradient
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> RBM:
        """Learn from data, from the start; warn where it is worse than independent features, or its chains do not mix.

        Args:
            X: (samples, features).
            y: not looked at.
            sample_weight: (samples,), how often each is there; other weights than whole numbers are shares of each pass.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter or a feature is out of its range.
        """
        rows, weights = self._started(X, sample_weight)
        size = check.count("batch_size", self.batch_size)
        passes = usual_passes(len(rows), size) if self.n_iter is None else check.count("n_iter", self.n_iter)
        some = counted(rows, weights, self._seed)
        self._trained(rows, weights, passes, size, self.final_rate, self._key(0), [WatchMixing()])
        self._log_partition = self._annealed(some)
        key = self._key(6) if int(self.history_["step"][-1]) >= LOOKED else None
        self.verdict_ = verdict(self.network_, some, self._log_partition, key=key)
        warn_of(self.verdict_.complaints, self.history_)
        return self

    def partial_fit(self, X: Table, y: Any = None, sample_weight: ArrayLike | None = None) -> RBM:
        """Take one more pass through data, from where learning stands.

        Args:
            X: (samples, features). The first call decides the kind of the features. Batches are of one size: fewer rows than
                there are batches sit out.
            y: not looked at.
            sample_weight: as in `fit`.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter or a feature is out of its range.
        """
        if hasattr(self, "network_"):
            every = self._prepared(self._validated(X))
            chosen, weights = weighed(sample_weight, every)
            rows = every[chosen]
        else:
            rows, weights = self._started(X, sample_weight)
        batches = -(-len(rows) // check.count("batch_size", self.batch_size))
        self._passes += 1
        key = fold_in(self._key(2), self._passes)
        return self._trained(rows, weights, 1, len(rows) // batches, 1.0, key)

    def _trained(
        self, rows: np.ndarray, weights: Any, epochs: int, batch_size: int, rate: float, key: Array, callbacks: Any = ()
    ) -> RBM:
        """Learn for some epochs, going on with the chains there are."""
        run = train(
            self.network_, rows, self._recipe(), epochs=epochs, batch_size=batch_size, learning_rate=self.learning_rate,
            final_rate=rate, probabilities=True, weights=weights, callbacks=callbacks,
            carry=self._chains.get(self.recipe), show_progress=bool(self.verbose), key=key,
        )  # fmt: skip
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
        here = fold_in(self._key(3), self._drawn)
        self._drawn += 1
        draws = sample(self.network_, Sweeps(steps), chains=check.count("n_samples", n_samples), key=here)
        return np.asarray(draws["visible"], np.float64) * self.scale_ + self.offset_

    @property
    def log_partition_(self) -> Estimate:
        """ln Z with its error: summed exactly over up to 2^16 states, else annealed over 1,000 steps."""
        check_is_fitted(self)
        if self._log_partition is None:
            self._log_partition = self._annealed(None)
        return self._log_partition

    def _annealed(self, rows: np.ndarray | None) -> Estimate:
        method: Method = "exact" if summable(self.network_, _FEW) else "ais"
        return log_partition(self.network_, method, data=rows, steps=1000, reverse=False, key=self._key(4))

    @property
    def _n_features_out(self) -> int:
        return self.network_.layers[1].size

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _validated(self, X: Table, reset: bool = False) -> np.ndarray:
        values = validated(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        return values.toarray() if sparse.issparse(values) else values

    def _started(self, X: Table, sample_weight: ArrayLike | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Everything that learning starts from; the data as the network takes them, and their weights."""
        chosen, weights = weighed(sample_weight, every := self._validated(X, reset=True))
        values = every[chosen]
        unit = unit_of(values, self.visible)
        self.offset_, self.scale_ = scale_of(values, unit)
        self._seed, self._drawn, self._passes, self._chains = seed_of(self.random_state), 0, 0, {}
        hidden = HIDDEN[check.choice("hidden", self.hidden, HIDDEN)]()
        size = check.count("n_components", self.n_components)
        network = rbm(values.shape[1], size, visible=unit, hidden=hidden, key=self._key(5))
        rows = self._prepared(values, unit)
        self._keep(independent_site_biases(network, counted(rows, weights, self._seed), probabilities=True))
        return rows, weights

    def _prepared(self, values: np.ndarray, unit: Unit | None = None) -> np.ndarray:
        (self.network_.layers[0].unit if unit is None else unit).check("X", values, probabilities=True)
        return ((values - self.offset_) / self.scale_).astype(np.float32)

    def _recipe(self) -> Recipe:
        options: Any = {"centered_gradient": self.centered_gradient, "l1": self.l1, "l2": self.l2}
        if self.recipe in PERSISTENT:
            options["chains"] = check.count("n_chains", self.n_chains)
        return likelihood_recipe(self.recipe, steps=check.count("steps", self.steps), **options)

    def _key(self, purpose: int) -> Array:
        return fold_in(random_key(self._seed), purpose)

    def _keep(self, network: Network) -> None:
        self.network_, self._log_partition = network, None
        self.components_ = np.asarray(network.couplings[0].matrix(), np.float64).T
        biases = (np.asarray(layer.bias, np.float64) for layer in network.layers)
        self.intercept_visible_, self.intercept_hidden_ = biases
