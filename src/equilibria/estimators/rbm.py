"""Restricted Boltzmann machines with scikit-learn's interface."""

from __future__ import annotations

import numbers

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.sweep import Sweeps
from equilibria.learn import recipes
from equilibria.learn.contrast import Recipe
from equilibria.learn.loop import train
from equilibria.measure.likelihood import Estimate, log_partition
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.transforms import independent_site_biases
from equilibria.model.units import Binary, Gaussian, Spin, Unit
from equilibria.random import key as random_key

_UNITS = {"binary": Binary, "spin": Spin, "gaussian": Gaussian}
_RECIPES = ("cd", "pcd", "rdm", "tempered", "mean_field", "tap")
_ROWS = 256  # rows that are transformed at once, filled up: one compiled function for every number of rows
_FEW = 16  # up to this many neurons on the smaller side, ln Z is summed exactly


class RBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A restricted Boltzmann machine that learns features of data and their distribution.

    Parameters: `n_components` hidden neurons of the kind `hidden` ("binary", "spin" or "gaussian"). `visible` is the
    kind of the features: "auto" is "binary" for data in [0, 1] (values between are taken as probabilities), "spin" for
    -1 and +1, else "gaussian", for which features are brought to mean 0 and variance 1 inside. `recipe` ("cd", "pcd",
    "rdm", "tempered", "mean_field" or "tap") and `steps` say how the free phase is reached; `learning_rate`,
    `batch_size`, `n_iter` (passes through the data), `l1`, `l2` and `centered_gradient` how the weights move. Constant features
    and sparse matrices are fine.

    Attributes: `network_`, `components_` (hidden, visible), `intercept_visible_`, `intercept_hidden_`, `offset_` and
    `scale_` (what is taken off the features and what they are divided by), `n_features_in_`.

    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    >>> RBM(n_components=2, random_state=0).fit_transform(X).shape
    (4, 2)
    """

    _log_partition: Estimate | None

    def __init__(
        self,
        n_components=256,
        *,
        visible="auto",
        hidden="binary",
        recipe="pcd",
        steps=1,
        learning_rate=0.1,
        batch_size=10,
        n_iter=10,
        l1=0.0,
        l2=0.0,
        centered_gradient=True,
        random_state=None,
        verbose=0,
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

    def fit(self, X, y=None):
        """Learn from data (samples, features), from the start."""
        rows = self._started(X)
        return self._trained(rows, check.count("n_iter", self.n_iter), self.batch_size, self._key(0))

    def partial_fit(self, X, y=None):
        """One more pass through these data, from where learning stands; the first call decides the kind of features."""
        rows = self._started(X) if not hasattr(self, "network_") else self._prepared(self._validated(X))
        # As many batches as are needed for all rows, of equal size, so that hardly any sits out.
        batches = -(-len(rows) // check.count("batch_size", self.batch_size))
        self._passes += 1
        return self._trained(rows, 1, len(rows) // batches, jax.random.fold_in(self._key(2), self._passes))

    def _trained(self, rows, epochs, batch_size, key):
        """Learn for some epochs, going on with the chains there are."""
        run = train(
            self.network_,
            rows,
            self._recipe(),
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            probabilities=True,
            carry=self._carry,
            show_progress=bool(self.verbose),
            key=key,
        )
        self._keep(run.network)
        self._carry, self.history_ = run.carry, run.history
        return self

    def transform(self, X):
        """The means of the hidden neurons given the features, (samples, components)."""
        check_is_fitted(self)
        return _by_rows(_hidden_means, self.network_, self._prepared(self._validated(X)))

    def inverse_transform(self, X):
        """The means of the features given hidden values, (samples, features)."""
        check_is_fitted(self)
        hidden = np.asarray(X, np.float64)
        check.shape("X", hidden, (self.network_.layers[1].size,))
        return _by_rows(_visible_means, self.network_, hidden) * self.scale_ + self.offset_

    def score_samples(self, X):
        """ln p of each sample in nats: minus its free energy, minus ln Z, which `log_partition_` estimates once."""
        check_is_fitted(self)
        logs = _by_rows(_log_weights, self.network_, self._prepared(self._validated(X)))[:, 0]
        return logs - self.log_partition_.value - np.log(self.scale_).sum()

    def score(self, X, y=None):
        """The mean of ln p over the samples, in nats."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples=1, *, steps=1000):
        """Independent draws of the features, after `steps` sweeps each; another call gives other draws."""
        check_is_fitted(self)
        here = jax.random.fold_in(self._key(3), self._drawn)
        self._drawn += 1
        draws = sample(self.network_, Sweeps(steps), chains=check.count("n_samples", n_samples), key=here)
        return np.asarray(draws["visible"], np.float64) * self.scale_ + self.offset_

    @property
    def log_partition_(self) -> Estimate:
        """ln Z with its error: summed exactly for up to 16 neurons on the smaller side, else annealed over 2,000 steps."""
        check_is_fitted(self)
        if self._log_partition is None:
            few = min(layer.size for layer in self.network_.layers) <= _FEW
            self._log_partition = log_partition(
                self.network_, "exact" if few else "ais", steps=2000, reverse=False, key=self._key(4)
            )
        return self._log_partition

    @property
    def _n_features_out(self):
        return self.network_.layers[1].size

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _validated(self, X, reset=False):
        values = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        return values.toarray() if sparse.issparse(values) else values

    def _started(self, X) -> np.ndarray:
        """Everything that learning starts from; the data as the network takes them."""
        values = self._validated(X, reset=True)
        unit = self._visible_unit(values)
        self.offset_, self.scale_ = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if unit.normal_stiffness is not None:
            spread = values.std(0)
            self.offset_ = values.mean(0)
            # A feature without spread, up to rounding, keeps its scale: there is nothing to learn about it.
            self.scale_ = np.where(spread > 1e-7 * np.maximum(np.abs(self.offset_), 1e-300), spread, 1.0)
        state = self.random_state
        whole = isinstance(state, numbers.Integral)
        self._seed = int(state) if whole else int(check_random_state(state).randint(2**31 - 1))
        self._drawn, self._passes, self._carry = 0, 0, None
        hidden = _UNITS[check.choice("hidden", self.hidden, _UNITS)]()
        network = rbm(
            values.shape[1],
            check.count("n_components", self.n_components),
            visible=unit,
            hidden=hidden,
            key=self._key(5),
        )
        rows = self._prepared(values, unit)
        self._keep(independent_site_biases(network, rows, probabilities=True))
        return rows

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
        make = getattr(recipes, check.choice("recipe", self.recipe, _RECIPES))
        options = {"centered_gradient": self.centered_gradient, "l1": self.l1, "l2": self.l2}
        return make(steps=check.count("steps", self.steps), **options)

    def _key(self, purpose: int):
        return jax.random.fold_in(random_key(self._seed), purpose)

    def _keep(self, network: Network) -> None:
        self.network_, self._log_partition = network, None
        self.components_ = np.asarray(network.couplings[0].weights, np.float64).T
        self.intercept_visible_, self.intercept_hidden_ = (
            np.asarray(layer.bias, np.float64) for layer in network.layers
        )


def _by_rows(function, network: Network, rows: np.ndarray) -> np.ndarray:
    """`function` of blocks of rows, filled up to one size, in float64: a row's result does not depend on its company."""
    found = []
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), network)
        for start in range(0, len(rows), _ROWS):
            block = rows[start : start + _ROWS]
            filled = np.zeros((_ROWS, rows.shape[1]))
            filled[: len(block)] = block
            found.append(np.asarray(function(double, jnp.asarray(filled)))[: len(block)])
    return np.concatenate(found)


@eqx.filter_jit
def _hidden_means(network, rows):
    return network.layers[1].unit.mean(network.field({"visible": rows}, "hidden"))


@eqx.filter_jit
def _visible_means(network, rows):
    return network.layers[0].unit.mean(network.field({"hidden": rows}, "visible"))


@eqx.filter_jit
def _log_weights(network, rows):
    return -network.free_energy({"visible": rows}, ("hidden",))[:, None]
