r"""Who pulls on whom.

A coupling joins two layers, or a layer to itself. Between layers $a$ and $b$ its energy is $-s_a^T W s_b$; within one layer
it is $-\tfrac12 s^T J s$ with $J$ symmetric. The pull on a layer is minus the gradient of that energy.

A layer coupled to itself is updated one neuron at a time; `walk` returns what such a walk keeps up to date. Visits come in
blocks: the fields at the beginning of a block are one matrix product, and within the block a neuron that moves pulls on those
still to come through `among`. A visit costs O(N) for `Dense` and O(K) for `Factored`, at the speed of matrix products.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check


class Walk(Protocol):
    """The fields inside one layer, kept up to date while its neurons are visited; arrays are (neurons, chains)."""

    def fields(self, neurons: Array, sites: Array) -> Array:
        """The pull of the layer on some of its own neurons, (sites, chains)."""

    def among(self, sites: Array) -> Array:
        """The pull of one of these neurons on another, (sites, sites); none of a neuron on itself."""

    def moved(self, sites: Array, changes: Array) -> Walk:
        """The same after these neurons changed by `changes` (sites, chains)."""


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
    weights: Any = eqx.field(converter=lambda value: jnp.asarray(value, float))

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

    def fields(self, neurons, sites):
        return self.weights[sites] @ neurons

    def among(self, sites):
        return self.weights[sites[:, None], sites]

    def moved(self, sites, changes):
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
    factors: Any = eqx.field(converter=lambda value: jnp.asarray(value, float))

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

    def fields(self, neurons, sites):
        return self.factors[sites] @ self.overlaps - self.self_pull[sites][:, None] * neurons[sites]

    def among(self, sites):
        here = self.factors[sites]
        return jnp.where(sites[:, None] == sites, 0, here @ here.T / self.factors.shape[0])

    def moved(self, sites, changes):
        overlaps = self.overlaps + self.factors[sites].T @ (changes / self.factors.shape[0])
        return _FactoredWalk(self.factors, self.self_pull, overlaps)


def filtered(factors: ArrayLike, gain: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    r"""Factors whose coupling $J = \frac1N F^T F$ has each eigenvalue $\lambda$ multiplied by `gain`$(\lambda) \ge 0$.

    The eigenvalues are those of the correlations $C = \frac1N F F^T$, so the N x N matrix is not needed. Done in float64.

    >>> filtered([[2.0, 0.0], [0.0, 4.0]], lambda values: values)
    array([[ 2.82842712,  0.        ],
           [ 0.        , 11.3137085 ]])
    """
    factors = np.asarray(factors, np.float64)
    values, vectors = np.linalg.eigh(factors @ factors.T / factors.shape[-1])
    return (vectors * np.sqrt(gain(values.clip(min=0)))) @ vectors.T @ factors


def slept(factors: ArrayLike, sleep: float) -> np.ndarray:
    r"""Factors of the coupling after a sleep of time t, $J(t) = (1+t) J (1 + t J)^{-1}$, from those of $J = J(0)$.

    With $J = \frac1N \xi^T \xi$ this is $\frac1N \xi^T (1+t)(1+tC)^{-1} \xi$ (Agliari 2024, "Patterns' revision"), the exact
    solution of $\dot J = (J - J^2)/(1+t)$. Infinite `sleep` is the pseudo-inverse rule, the projector onto the patterns;
    there, directions in which the patterns are linearly dependent are left out, with a warning.

    >>> slept([[1, 1, 1, 1], [1, -1, 1, -1]], sleep=3.0)
    array([[ 1.,  1.,  1.,  1.],
           [ 1., -1.,  1., -1.]])
    """
    if sleep != np.inf:
        check.number("sleep", sleep, least=0.0)
        return filtered(factors, lambda values: (1 + sleep) / (1 + sleep * values))
    return filtered(factors, _inverse)


def _inverse(values: np.ndarray) -> np.ndarray:
    """1 / values, and 0 for those that are zero up to rounding."""
    independent = values > values.max() * len(values) * np.finfo(np.float64).eps
    if not independent.all():
        warnings.warn(
            f"{len(values)} patterns are linearly dependent (rank {independent.sum()}): "
            "the pseudo-inverse leaves out the directions they do not span",
            stacklevel=5,
        )
    return np.where(independent, 1 / np.where(independent, values, 1), 0)
