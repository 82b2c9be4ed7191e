"""Restricted Boltzmann machines with binary synapses and scikit-learn's interface."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.sweep import Sweeps
from equilibria.estimators.common import RandomState, validated, warn_of
from equilibria.measure.estimate import Estimate
from equilibria.measure.likelihood import unnormalised
from equilibria.measure.partition import Method, log_partition, summable
from equilibria.measure.verdict import Verdict, verdict
from equilibria.synapses.data import as_data
from equilibria.synapses.distribution import compensated
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.saving import save_synapses

_FEW = 2**16  # over up to this many states ln Z is summed exactly


class BinarySynapseRBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A restricted Boltzmann machine whose weights are -1 or +1, learned as a distribution (Huang 2019).

    Args:
        n_components: the number of hidden spins.
        binarize: one number or one for each feature: features above it are +1 and others -1. None refuses features that are not
            -1 and +1 (0 and 1 are taken as such, with a note).
        e_step: "exact", "cavity", "response", "gibbs" or "paper"; None: by the number of components.
        temperature: of the machine, 1/beta.
        prior: the mean of each weight's prior.
        n_iter: the number of steps.
        batch_size: samples of each step; None: all.
        learning_rate: multiplies the gradient of the whole bound.
        learn_bias: gives features a bias as well.
        random_state: a seed, a generator of NumPy, or None for another machine every time.
        verbose: whether to show a progress bar.

    Attributes:
        components_: (components, features) of -1 and +1, the most probable weights or, with `learn_bias`, a draw.
        means_: (components, features), the means of the weights.
        variances_: (components, features), their variances.
        synapses_: the distribution, an `equilibria.Synapses`.
        network_: the decoded machine, an `equilibria.Network`.
        history_: the records, an `xarray.Dataset`.
        log_partition_: ln Z of the decoded machine.
        verdict_: the log-likelihood of the data beside that of independent features, and what is wrong.
        n_iter_: the number of steps that were made.
        n_features_in_: the number of features.

    >>> X = np.random.default_rng(0).choice([-1, 1], (30, 12))
    >>> BinarySynapseRBM(n_components=2, n_iter=5, random_state=0).fit_transform(X).shape
    (30, 2)
    """

    verdict_: Verdict
    _log_partition: Estimate | None

    def __init__(
        self,
        n_components: int = 4,
        *,
        binarize: ArrayLike | None = 0.0,
        e_step: Literal["exact", "cavity", "response", "gibbs", "paper"] | None = None,
        temperature: float = 1.0,
        prior: float = 0.0,
        n_iter: int = 200,
        batch_size: int | None = None,
        learning_rate: float = 0.03,
        learn_bias: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.binarize = binarize
        self.e_step = e_step
        self.temperature = temperature
        self.prior = prior
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learn_bias = learn_bias
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: Any = None) -> BinarySynapseRBM:
        """Learn the distribution of the weights from data.

        Args:
            X: (samples, features).
            y: not looked at.

        Returns:
            The estimator itself.

        Raises:
            ValueError: if a parameter is out of its range, or features have other values than two without a threshold.
        """
        data = self._spins(validated(self, X, dtype="numeric"))
        seeds = check_random_state(self.random_state).randint(2**31, size=2)
        self._draws, self._drawn = int(seeds[1]), 0
        n_iter = check.count("n_iter", self.n_iter)
        check.choice("e_step", self.e_step, (None, "exact", "cavity", "response", "gibbs", "paper"))
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
        self._log_partition = None
        self.verdict_ = verdict(self.network_, data, self._estimate())
        complaints = self.verdict_.complaints
        if complaints and not self.learn_bias:
            complaints = (*complaints, "features have no bias of their own: learn_bias=True gives them one")
        warn_of(complaints, run.history)
        unsettled = float(run.history["unconverged"].values[-1])
        if unsettled:
            warnings.warn(
                f"messages of {unsettled:.0%} of the fields did not converge at the last step; "
                "history_ has them all, e_step='gibbs' does without",
                stacklevel=2,
            )
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The means of the hidden spins given the features, with the decoded weights.

        Args:
            X: (samples, features).

        Returns:
            (samples, components).
        """
        check_is_fitted(self)
        spins = self._spins(validated(self, X, reset=False, dtype="numeric"))
        hidden = self.network_.layers[1]
        weights = np.asarray(self.network_.couplings[0].matrix(), np.float64)
        return np.tanh(spins @ weights + np.asarray(hidden.bias, np.float64))

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """The logarithm of the probability of each sample, with the decoded weights.

        Args:
            X: (samples, features).

        Returns:
            (samples,), in nats; ln Z is summed, or annealed beyond 16 components.
        """
        check_is_fitted(self)
        spins = self._spins(validated(self, X, reset=False, dtype="numeric"))
        return unnormalised(self.network_, {"visible": spins.astype(np.float32)}) - self.log_partition_

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """The mean of `score_samples`, in nats; y is not looked at."""
        return float(np.mean(self.score_samples(X)))

    @property
    def log_partition_(self) -> float:
        """ln Z of the decoded machine."""
        check_is_fitted(self)
        return self._estimate().value

    def _estimate(self) -> Estimate:
        """ln Z with its error, found once."""
        if self._log_partition is None:
            method: Method = "exact" if summable(self.network_, _FEW) else "ais"
            self._log_partition = log_partition(self.network_, method, steps=2000, reverse=False, key=self._draws)
        return self._log_partition

    def sample(self, n_samples: int = 1, *, steps: int = 1000) -> np.ndarray:
        """Independent draws of the features; another call gives other draws.

        Args:
            n_samples: how many.
            steps: sweeps before each draw.

        Returns:
            (n_samples, features) of -1 and +1.
        """
        check_is_fitted(self)
        self._drawn += 1
        key = jax.random.fold_in(jax.random.key(self._draws), self._drawn)
        draws = sample(self.network_, Sweeps(steps), chains=check.count("n_samples", n_samples), key=key)
        return np.asarray(draws["visible"], np.float64)

    def save(self, path: str | Path) -> int:
        """Write the decoded machine with one bit for each weight; `equilibria.load_synapses` reads it as a network.

        Args:
            path: of the file.

        Returns:
            The size of the file in bytes.
        """
        check_is_fitted(self)
        return save_synapses(path, self.network_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _spins(self, X: np.ndarray) -> np.ndarray:
        if self.binarize is not None:
            threshold = np.asarray(check.number("binarize", self.binarize))
            if threshold.ndim:
                check.shape("binarize", threshold, (X.shape[1],))
            X = np.where(threshold < X, 1, -1)
        return as_data("X", X)
