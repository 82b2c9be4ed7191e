"""A matrix of weights.

On a CPU, XLA packs the matrix on the right of a product anew every time. For few states and a large matrix that packing is
most of the work: with 16 states and 1024 x 1024 weights the product `W @ s^T`, matrix on the left, takes half as long as
`s @ W^T`. A prepacked coupling therefore keeps the weights and their transpose, made once, and always puts the matrix on
the left.
"""

from __future__ import annotations

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.couplings.coupling import Coupling

# Measured on 500 and 1024 neurons: below, a product is over before packing matters; with more states, packing is shared.
_SMALLEST_SIDE = 128
_MOST_STATES = 128


class Dense(Coupling):
    r"""A matrix of weights between two layers, or a symmetric one with zero diagonal within a layer.

    $$ E = -s_a^T W s_b, \qquad \text{within a layer} \quad E = -\tfrac12 s^T J s $$

    (Decelle 2017, equation 1; Agliari 2024, "The statistical mechanics setting").

    Args:
        ends: the names of the two layers, the same name twice for a layer and itself.
        weights: (size of the first end, size of the second).

    Raises:
        ValueError: if the weights are no matrix or not finite; within a layer, if they are not symmetric or a neuron pulls
            on itself.

    >>> Dense(("visible", "hidden"), jnp.ones((3, 2))).pull(jnp.array([1.0, 0.0, 1.0]), toward="hidden")
    Array([2., 2.], dtype=float32)
    """

    ends: tuple[str, str] = eqx.field(static=True)
    weights: Array

    def __init__(self, ends: tuple[str, str], weights: ArrayLike):
        self.ends, self.weights = ends, array(weights)

    def __check_init__(self) -> None:
        check.shape("weights", self.weights, (None, None))
        check.finite("weights", self.weights, most=check.LARGEST)
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
    def shape(self) -> tuple[int, int]:
        """The sizes of the two ends."""
        return self.weights.shape[-2], self.weights.shape[-1]

    def pull(self, state: Array, toward: str) -> Array:
        """The field W^T s on the second end, or W s on the first."""
        return state @ (self.weights if toward == self.ends[1] else self.weights.T)

    def energy(self, state: Array, other: Array) -> Array:
        """The energy of the two ends in these states."""
        if not self.lateral:
            return -jnp.sum((state @ self.weights) * other, axis=-1)
        # Written so that its gradient keeps the weights symmetric and the diagonal at zero.
        weights = self.weights - jnp.diag(jnp.diagonal(self.weights))
        return -jnp.sum((state @ (weights + weights.T)) * state, axis=-1) / 4

    def matrix(self) -> Array:
        """The weights."""
        return self.weights

    def scaled(self, factor: ArrayLike) -> Self:
        """The coupling with its weights multiplied by `factor`."""
        return eqx.tree_at(lambda here: here.weights, self, factor * self.weights)

    def prepacked(self) -> Coupling:
        """The same with the transpose of the weights at hand, where that is faster: on a CPU, between large layers."""
        small = min(self.shape[-2:]) < _SMALLEST_SIDE
        if small or self.lateral or jax.default_backend() != "cpu":
            return self
        return _Prepacked(self.ends, self.weights, jax.lax.optimization_barrier(jnp.asarray(self.weights).T))

    def about(self, means: tuple[Array, Array], slopes: tuple[Array, Array]) -> tuple[Self, tuple[Array, Array]]:
        """The gradient about the means of both ends, and what the biases' gradients then change by."""
        about = jnp.outer(means[0], slopes[1]) + jnp.outer(slopes[0], means[1])
        if self.lateral:  # each pair is there twice, and no neuron with itself
            about = (about - jnp.diag(jnp.diagonal(about))) / 2
        weights = self.weights - about
        shifts = -(weights @ means[1]), jnp.zeros(()) if self.lateral else -(means[0] @ weights)
        return eqx.tree_at(lambda here: here.weights, self, weights), shifts


class _Prepacked(Dense):
    """A dense coupling with its transpose at hand.

    >>> prepacked = _Prepacked(("a", "b"), jnp.ones((3, 2)), jnp.ones((2, 3)))
    >>> prepacked.pull(jnp.array([1.0, 0.0, 1.0]), toward="b")
    Array([2., 2.], dtype=float32)
    """

    transposed: Array

    def __init__(self, ends: tuple[str, str], weights: Array, transposed: Array):
        self.ends, self.weights, self.transposed = ends, weights, transposed

    def __check_init__(self) -> None:
        """Nothing: the coupling that this one was made from has been checked."""

    def prepacked(self) -> Coupling:
        return self

    def pull(self, state: Array, toward: str) -> Array:
        matrix = self.transposed if toward == self.ends[1] else self.weights
        states = state.reshape(-1, state.shape[-1])
        if len(states) > _MOST_STATES:
            return state @ matrix.T
        # Without the barriers XLA would turn the product round again.
        columns = jax.lax.optimization_barrier(states.T)
        pulls = jax.lax.optimization_barrier(matrix @ columns)
        return pulls.T.reshape(*state.shape[:-1], len(matrix))
