r"""Who pulls on whom.

A coupling joins two layers, or a layer to itself. Between layers $a$ and $b$ its energy is $-s_a^T W s_b$; within one layer
it is $-\tfrac12 s^T J s$ with $J$ symmetric. The pull on a layer is minus the gradient of that energy.

A layer coupled to itself is updated one neuron at a time; `walk` returns what such a walk keeps up to date, so that a visit
costs O(N) for `Dense` and O(K) for `Factored`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check


class Walk(Protocol):
    """The fields inside one layer, kept up to date while its neurons are visited; arrays are (neurons, chains)."""

    def field(self, state: Array, site: Array) -> Array:
        """The pull of the layer on one of its own neurons, for every chain."""

    def moved(self, site: Array, change: Array) -> Walk:
        """The same after one neuron changed by `change`."""


class Coupling(eqx.Module):
    """What every coupling offers; `ends` names the two layers it joins, the same name twice for a layer and itself."""

    ends: eqx.AbstractVar[tuple[str, str]]

    @property
    def lateral(self) -> bool:
        """Whether both ends are the same layer."""
        return self.ends[0] == self.ends[1]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The sizes of the two ends."""

    @abstractmethod
    def pull(self, state: Array, toward: str) -> Array:
        """The field that the other end, in `state`, exerts on the layer `toward`."""

    @abstractmethod
    def energy(self, state: Array, other: Array) -> Array:
        """The energy of the two ends in these states (the same state twice when lateral)."""

    @abstractmethod
    def walk(self, state: Array) -> Walk:
        """What a walk through a lateral layer keeps up to date, from `state` (neurons, chains)."""


class Dense(Coupling):
    """A matrix of weights between two layers, or a symmetric one with zero diagonal within a layer.

    >>> Dense(("visible", "hidden"), jnp.ones((3, 2))).pull(jnp.array([1.0, 0.0, 1.0]), toward="hidden")
    Array([2., 2.], dtype=float32)
    """

    ends: tuple[str, str] = eqx.field(static=True)
    weights: Array = eqx.field(converter=lambda value: jnp.asarray(value, float))

    def __check_init__(self):
        check.shape("weights", self.weights, (None, None))
        check.finite("weights", self.weights)
        weights = check.concrete(self.weights)
        if not self.lateral or weights is None:
            return
        check.shape("weights", weights, (weights.shape[-1], weights.shape[-1]))
        if not np.allclose(weights, weights.T, rtol=1e-5, atol=1e-6 * np.abs(weights).max(initial=0.0)):
            worst = float(np.abs(weights - weights.T).max())
            check.refuse("weights", f"a matrix that differs from its transpose by {worst:g}", "a symmetric coupling")
        if np.diagonal(weights).any():
            check.refuse("weights", "a non-zero diagonal", "zeros on the diagonal: a neuron does not pull on itself")

    @property
    def shape(self):
        return self.weights.shape

    def pull(self, state, toward):
        return state @ (self.weights if toward == self.ends[1] else self.weights.T)

    def energy(self, state, other):
        if not self.lateral:
            return -jnp.sum((state @ self.weights) * other, axis=-1)
        # Written so that its gradient keeps the weights symmetric and the diagonal at zero.
        weights = self.weights - jnp.diag(jnp.diagonal(self.weights))
        return -jnp.sum((state @ (weights + weights.T)) * state, axis=-1) / 4

    def walk(self, state):
        return _DenseWalk(self.weights)


class _DenseWalk(eqx.Module):
    weights: Array

    def field(self, state, site):
        return self.weights[site] @ state

    def moved(self, site, change):
        return self


class Factored(Coupling):
    r"""The coupling $J = \frac1N F^T F$ of K factors within a layer; the N x N matrix is never formed.

    `factors` is (K, N): the patterns themselves for Hebb's rule, or patterns with a kernel absorbed (`absorb`). A field
    costs O(N K). The diagonal $J_{ii} = \frac1N \sum_k F_{ki}^2$ is taken out exactly.

    >>> J = Factored(("neurons", "neurons"), jnp.array([[1.0, -1.0, 1.0, 1.0]]))
    >>> J.pull(jnp.array([1.0, -1.0, 1.0, 1.0]), toward="neurons")
    Array([ 0.75, -0.75,  0.75,  0.75], dtype=float32)
    """

    ends: tuple[str, str] = eqx.field(static=True)
    factors: Array = eqx.field(converter=lambda value: jnp.asarray(value, float))

    def __check_init__(self):
        check.shape("factors", self.factors, (None, None))
        check.finite("factors", self.factors)
        if not self.lateral:
            check.refuse("ends", self.ends, "the same layer twice: a factored coupling is within one layer")

    @property
    def shape(self):
        return self.factors.shape[-1], self.factors.shape[-1]

    @property
    def self_pull(self) -> Array:
        """The diagonal of F^T F / N, a neuron's pull on itself, which is taken out."""
        return jnp.sum(jnp.square(self.factors), axis=0) / self.factors.shape[1]

    def pull(self, state, toward):
        overlaps = state @ self.factors.T / self.factors.shape[-1]
        return overlaps @ self.factors - self.self_pull * state

    def energy(self, state, other):
        overlaps = state @ self.factors.T
        whole = jnp.sum(jnp.square(overlaps), axis=-1) / self.factors.shape[-1]
        return -(whole - jnp.sum(self.self_pull * jnp.square(state), axis=-1)) / 2

    def walk(self, state):
        overlaps = self.factors @ state / self.factors.shape[-1]
        return _FactoredWalk(self.factors.T, self.self_pull, overlaps)


class _FactoredWalk(eqx.Module):
    factors: Array  # (N, K): a visit reads one contiguous row
    self_pull: Array
    overlaps: Array  # (K, chains)

    def field(self, state, site):
        return self.factors[site] @ self.overlaps - self.self_pull[site] * state[site]

    def moved(self, site, change):
        moved = self.factors[site][:, None] * (change / self.factors.shape[0])
        return _FactoredWalk(self.factors, self.self_pull, self.overlaps + moved)


def absorb(patterns: ArrayLike, kernel: ArrayLike) -> np.ndarray:
    r"""Factors $F = K^{1/2} \xi$ with K the `kernel`, so that $F^T F = \xi^T K \xi$.

    Parameters: `patterns` (K, N), `kernel` (K, K) symmetric and without negative eigenvalues. Done in float64.

    >>> absorb(np.eye(2), np.diag([4.0, 9.0]))
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh(np.asarray(kernel, np.float64))
    if values.min() < -1e-8 * max(values.max(), 1.0):
        check.refuse("kernel", f"an eigenvalue of {values.min():g}", "no negative eigenvalues")
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    return root @ np.asarray(patterns, np.float64)


def dreaming_kernel(patterns: ArrayLike, sleep: float) -> np.ndarray:
    r"""The kernel $(1+t)(1 + tC)^{-1}$, with $C = \frac1N \xi \xi^T$ the correlations of the patterns, after sleep time t.

    Agliari 2024, "Patterns' revision"; t = 0 is Hebb's rule and t to infinity the pseudo-inverse.

    >>> dreaming_kernel([[1, 1, 1, 1], [1, -1, 1, -1]], sleep=3.0)
    array([[1., 0.],
           [0., 1.]])
    """
    check.number("sleep", sleep, least=0.0)
    patterns = np.asarray(patterns, np.float64)
    correlations = patterns @ patterns.T / patterns.shape[-1]
    return (1 + sleep) * np.linalg.inv(np.eye(len(patterns)) + sleep * correlations)
