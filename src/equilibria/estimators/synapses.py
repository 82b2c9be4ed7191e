"""Restricted Boltzmann machines with binary synapses and scikit-learn's interface."""

from __future__ import annotations

import warnings

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.likelihood import log_partition, unnormalised
from equilibria.synapses.data import as_data
from equilibria.synapses.distribution import compensated
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.saving import save_synapses

_FEW = 16  # up to this many hidden units, ln Z is summed exactly


class BinarySynapseRBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A restricted Boltzmann machine whose weights are -1 or +1, learned as a distribution (Huang 2019).

    Parameters: `n_components` hidden spins. Features must be -1 and +1 (0 and 1 are taken as such, with a note) unless
    a `threshold`, one number or one for each feature, says above which value a feature is +1. `e_step` is "exact",
    "cavity", "response" or "gibbs" (None: by the number of components), `temperature` is 1/beta, `prior` the mean of
    each weight's prior, `n_iter` the number of steps, `batch_size` the examples of each (None: all), `learning_rate`
    multiplies the gradient of the whole bound, and `learn_bias` gives features a bias as well.

    Attributes: `components_` (components, features) of -1 and +1, the most probable weights or, with `learn_bias`, a
    draw; `means_` and `variances_` of the weights, what was
    learned of each; `synapses_`, `network_` (the decoded machine) and `history_`; `n_features_in_`.

    >>> X = np.random.default_rng(0).choice([-1, 1], (30, 12))
    >>> BinarySynapseRBM(n_components=2, n_iter=5, random_state=0).fit_transform(X).shape
    (30, 2)
    """

    def __init__(
        self,
        n_components=4,
        *,
        threshold=None,
        e_step=None,
        temperature=1.0,
        prior=0.0,
        n_iter=200,
        batch_size=None,
        learning_rate=0.03,
        learn_bias=False,
        random_state=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.threshold = threshold
        self.e_step = e_step
        self.temperature = temperature
        self.prior = prior
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learn_bias = learn_bias
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None):
        """Learn the distribution of the weights from data (samples, features)."""
        data = self._spins(validate_data(self, X, dtype="numeric"))
        seeds = check_random_state(self.random_state).randint(2**31, size=2)
        self._draws, self._drawn = int(seeds[1]), 0
        n_iter = check.count("n_iter", self.n_iter)
        run = learn_synapses(
            data,
            check.count("n_components", self.n_components),
            steps=n_iter,
            how=self.e_step,
            temperature=self.temperature,
            prior=self.prior,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            learn_bias=self.learn_bias,
            every=max(n_iter // 100, 1),
            show_progress=bool(self.verbose),
            key=int(seeds[0]),
        )
        self.synapses_, self.history_ = run.synapses, run.history
        weights = run.synapses.decoded
        self.network_ = run.synapses.network()
        if self.learn_bias:  # biases can take back what the signs of weights that are not known would add
            weights = run.synapses.sample(key=self._draws)
            self.network_ = compensated(run.synapses, data, weights)
        self.components_ = np.asarray(weights.T, np.float64)
        self.means_, self.variances_ = np.asarray(run.synapses.mean.T), np.asarray(run.synapses.variance.T)
        self.n_iter_ = n_iter
        unsettled = float(run.history["unconverged"].values[-1])
        if unsettled:
            warnings.warn(
                f"messages of {unsettled:.0%} of the fields did not converge at the last step; "
                "history_ has them all, e_step='gibbs' does without",
                stacklevel=2,
            )
        return self

    def transform(self, X):
        """The means of the hidden spins given the features, (samples, components), with the decoded weights."""
        check_is_fitted(self)
        spins = self._spins(validate_data(self, X, reset=False, dtype="numeric"))
        hidden = self.network_.layers[1]
        weights = np.asarray(self.network_.couplings[0].weights, np.float64)
        return np.tanh(spins @ weights + np.asarray(hidden.bias, np.float64))

    def score_samples(self, X):
        """ln p of each sample in nats, with the decoded weights; ln Z is summed, or annealed beyond 16 components."""
        check_is_fitted(self)
        spins = self._spins(validate_data(self, X, reset=False, dtype="numeric"))
        return unnormalised(self.network_, {"visible": spins.astype(np.float32)}) - self.log_partition_

    def score(self, X, y=None):
        """The mean of ln p over the samples, in nats."""
        return float(np.mean(self.score_samples(X)))

    @property
    def log_partition_(self) -> float:
        """ln Z of the decoded machine."""
        check_is_fitted(self)
        if min(self.components_.shape) <= _FEW:
            return float(log_partition(self.network_).value)
        return float(log_partition(self.network_, "ais", steps=2000, reverse=False, key=self._draws).value)

    def sample(self, n_samples=1, *, steps=1000):
        """Independent draws of the features, -1 and +1, after `steps` sweeps each; another call gives other draws."""
        check_is_fitted(self)
        self._drawn += 1
        key = jax.random.fold_in(jax.random.key(self._draws), self._drawn)
        draws = sample(self.network_, Sweeps(steps), chains=check.count("n_samples", n_samples), key=key)
        return np.asarray(draws["visible"], np.float64)

    def save(self, path) -> int:
        """Write the decoded machine with one bit for each weight; returns the size of the file in bytes.

        `equilibria.load_synapses` reads it back as a network.
        """
        check_is_fitted(self)
        return save_synapses(path, self.network_)

    @property
    def _n_features_out(self):
        return len(self.components_)

    def _spins(self, X) -> np.ndarray:
        if self.threshold is not None:
            threshold = np.asarray(check.number("threshold", self.threshold))
            if threshold.ndim:
                check.shape("threshold", threshold, (X.shape[1],))
            X = np.where(threshold < X, 1, -1)
        return as_data("X", X)
