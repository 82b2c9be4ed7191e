"""A coupling made of factors, whose matrix is never formed, and how sleep changes them.

A factored coupling takes its diagonal out of every field; summing its squares anew at each step would cost more than the
two products themselves for few states, so that a prepacked one keeps it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.couplings.coupling import Coupling, Walk

# The sizes of arrays that share compiled code. A walk visits only the neurons that are present, whatever room there is for
# them; up to the largest a random order takes one sort.
_NEURONS = (128, 512, 1536)
_PATTERNS = (16, 64, 256)


class Factored(Coupling):
    r"""The coupling $J = \frac1N F^T F$ of K factors within a layer; the N x N matrix is never formed.

    The factors are the patterns themselves for Hebb's rule (Agliari 2024, "The Hopfield model"), or patterns after a sleep
    (`slept`). A field costs O(N K). The diagonal $J_{ii} = \frac1N \sum_k F_{ki}^2$ is taken out exactly.

    Args:
        ends: the name of the layer, twice.
        factors: (K, N).

    Raises:
        ValueError: if the factors are no matrix or not finite, or the ends are two different layers.

    >>> J = Factored(("neurons", "neurons"), jnp.array([[1.0, -1.0, 1.0, 1.0]]))
    >>> J.pull(jnp.array([1.0, -1.0, 1.0, 1.0]), toward="neurons")
    Array([ 0.75, -0.75,  0.75,  0.75], dtype=float32)
    """

    ends: tuple[str, str] = eqx.field(static=True)
    factors: Array

    def __init__(self, ends: tuple[str, str], factors: ArrayLike):
        self.ends, self.factors = ends, array(factors)

    def __check_init__(self) -> None:
        check.shape("factors", self.factors, (None, None))
        check.finite("factors", self.factors, most=check.LARGEST)
        if not self.lateral:
            check.refuse("ends", self.ends, "the same layer twice: a factored coupling is within one layer")

    @property
    def shape(self) -> tuple[int, int]:
        """The size of the layer, twice."""
        return self.factors.shape[-1], self.factors.shape[-1]

    @property
    def self_pull(self) -> Array:
        """The diagonal of F^T F / N, a neuron's pull on itself, which is taken out."""
        return jnp.sum(jnp.square(self.factors), axis=0) / self.present

    def pull(self, state: Array, toward: str) -> Array:
        """The field J s without a neuron's pull on itself, by two thin products."""
        overlaps = state @ self.factors.T / self.present
        return overlaps @ self.factors - self.self_pull * state

    def energy(self, state: Array, other: Array) -> Array:
        """The energy -s^T J s / 2 without the diagonal; `other` is the same state."""
        overlaps = state @ self.factors.T
        whole = jnp.sum(jnp.square(overlaps), axis=-1) / self.present
        return -(whole - jnp.sum(self.self_pull * jnp.square(state), axis=-1)) / 2

    def scaled(self, factor: ArrayLike) -> Self:
        """The coupling with its factors multiplied by the root of `factor`, which must not be negative."""
        return eqx.tree_at(lambda here: here.factors, self, jnp.sqrt(factor) * self.factors)

    def factor(self) -> Array:
        """The matrix A = F^T / sqrt(N) of J = A A^T, up to the diagonal."""
        return self.factors.T / jnp.sqrt(self.present)

    def filtered(self, gain: Callable[[np.ndarray], np.ndarray]) -> Coupling:
        """The coupling with each eigenvalue of J multiplied by `gain` of it."""
        return Factored(self.ends, filtered(self.factors, gain))

    def padded(self, factors: int) -> Coupling:
        """The same coupling made of at least so many factors, those added zero."""
        missing = max(0, factors - len(self.factors))
        return Factored(self.ends, _filled(self.factors, missing, 0))

    def roomy(self) -> Coupling | None:
        """The same coupling in arrays of one of a few sizes, where these are small: rows and columns of zeros are added."""
        (patterns, neurons), values = self.factors.shape, check.concrete(self.factors)
        if values is None or patterns > _PATTERNS[-1] or neurons > _NEURONS[-1]:
            return None
        rows, columns = (
            next(size for size in sizes if size >= here) - here
            for sizes, here in ((_PATTERNS, patterns), (_NEURONS, neurons))
        )
        return _Roomy(self.ends, _filled(values, rows, columns), array(neurons, int))

    def prepacked(self) -> Coupling:
        """The same coupling with its diagonal at hand."""
        return _Prepacked(self.ends, self.factors, self.present, jax.lax.optimization_barrier(self.self_pull))

    def walk(self, state: Array) -> Walk:
        """What a walk keeps up to date: the overlaps with the factors, so that a visit costs O(K)."""
        overlaps = self.factors @ state / self.present
        return _FactoredWalk(self.factors.T, self.self_pull, overlaps, self.present)


class _Roomy(Factored):
    """A factored coupling with room for more neurons than are present; the factors are zero there.

    >>> roomy = _Roomy(("a", "a"), jnp.array([[1.0, -1.0, 0.0]]), jnp.array(2))
    >>> roomy.pull(jnp.array([1.0, -1.0, 1.0]), toward="a")
    Array([ 0.5, -0.5,  0. ], dtype=float32)
    """

    count: Array | int

    def __init__(self, ends: tuple[str, str], factors: ArrayLike, count: Array | int):
        self.ends, self.factors, self.count = ends, array(factors), count

    @property
    def present(self) -> Array | int:
        return self.count


class _Prepacked(_Roomy):
    """A factored coupling with its diagonal at hand.

    >>> _Prepacked(("a", "a"), jnp.ones((1, 2)), 2, jnp.array([0.5, 0.5])).pull(jnp.array([1.0, -1.0]), toward="a")
    Array([-0.5,  0.5], dtype=float32)
    """

    diagonal: Array

    def __init__(self, ends: tuple[str, str], factors: Array, count: Array | int, diagonal: Array):
        self.ends, self.factors, self.count, self.diagonal = ends, factors, count, diagonal

    @property
    def self_pull(self) -> Array:
        return self.diagonal

    def prepacked(self) -> Coupling:
        return self


class _FactoredWalk(eqx.Module):
    factors: Array  # (N, K): a visit reads one contiguous row
    self_pull: Array
    overlaps: Array  # (K, chains)
    present: Array | int

    def fields(self, neurons: Array, sites: Array) -> Array:
        return self.factors[sites] @ self.overlaps - self.self_pull[sites][:, None] * neurons[sites]

    def among(self, sites: Array) -> Array:
        here = self.factors[sites]
        return jnp.where(sites[:, None] == sites, 0, here @ here.T / self.present)

    def moved(self, sites: Array, changes: Array) -> _FactoredWalk:
        overlaps = self.overlaps + self.factors[sites].T @ (changes / self.present)
        return _FactoredWalk(self.factors, self.self_pull, overlaps, self.present)


def _filled(factors: ArrayLike, rows: int, columns: int) -> ArrayLike:
    """Factors with rows and columns of zeros added."""
    library: Any = jnp if check.concrete(factors) is None else np
    return library.pad(factors, ((0, rows), (0, columns)))


def filtered(factors: ArrayLike, gain: Callable[[Any], Any]) -> Any:
    r"""Factors whose coupling $J = \frac1N F^T F$ has each eigenvalue $\lambda$ multiplied by `gain`$(\lambda) \ge 0$.

    The eigenvalues are those of the correlations $C = \frac1N F F^T$, or of J itself where there are more factors than
    neurons: the smaller of the two matrices is taken apart. Done in float64; inside compiled code in JAX's present precision.

    >>> filtered([[2.0, 0.0], [0.0, 4.0]], lambda values: values)
    array([[ 2.82842712,  0.        ],
           [ 0.        , 11.3137085 ]])
    """
    known = check.concrete(factors) is not None
    library: Any = np if known else jnp
    rows: Any = library.asarray(factors, np.float64 if known else float)
    count, size = rows.shape
    if count <= size:
        values, vectors = library.linalg.eigh(rows @ rows.T / size)
        return (vectors * library.sqrt(gain(values.clip(min=0)))) @ vectors.T @ rows
    values, vectors = library.linalg.eigh(rows.T @ rows / size)
    # C has the same eigenvalues and zeros besides: a gain that looks at all of them sees those too
    every = library.concatenate([library.zeros(count - size, values.dtype), values.clip(min=0)])
    return rows @ (vectors * library.sqrt(gain(every)[count - size :])) @ vectors.T


def slept(factors: ArrayLike, sleep: ArrayLike) -> Any:
    r"""Factors of the coupling after a sleep of time t, $J(t) = (1+t) J (1 + t J)^{-1}$, from those of $J = J(0)$.

    With $J = \frac1N \xi^T \xi$ this is $\frac1N \xi^T (1+t)(1+tC)^{-1} \xi$ (Agliari 2024, "Revise Hebb's rule by iterative
    protocols"), the exact solution of $\dot J = (J - J^2)/(1+t)$. Infinite `sleep` is the pseudo-inverse rule, the projector
    onto the patterns; there, directions in which the patterns are linearly dependent are left out, with a warning.

    >>> slept([[1, 1, 1, 1], [1, -1, 1, -1]], sleep=3.0)
    array([[ 1.,  1.,  1.,  1.],
           [ 1., -1.,  1., -1.]])
    """
    if check.concrete(sleep) is None:
        return filtered(jnp.asarray(factors), lambda values: _gain(values, sleep))
    if sleep != np.inf:
        check.number("sleep", sleep, least=0.0)
        return filtered(factors, lambda values: (1 + sleep) / (1 + sleep * values))
    return filtered(factors, _inverse)


def _gain(values: Array, sleep: ArrayLike) -> Array:
    """The gain of a sleep that is only known once compiled code runs; it may be infinite."""
    independent = values > jnp.max(values) * len(values) * jnp.finfo(values.dtype).eps
    inverse = jnp.where(independent, 1 / jnp.where(independent, values, 1), 0)
    awake = jnp.where(jnp.isinf(sleep), 0, sleep)
    return jnp.where(jnp.isinf(sleep), inverse, (1 + awake) / (1 + awake * values))


def _inverse(values: Any) -> Any:
    """1 / values, and 0 for those that are zero up to rounding."""
    if check.concrete(values) is None:
        return _gain(values, jnp.asarray(jnp.inf))
    independent = values > values.max() * len(values) * np.finfo(np.float64).eps
    if not independent.all():
        warnings.warn(
            f"{len(values)} patterns are linearly dependent (rank {independent.sum()}): "
            "the pseudo-inverse leaves out the directions they do not span",
            stacklevel=5,
        )
    return np.where(independent, 1 / np.where(independent, values, 1), 0)
