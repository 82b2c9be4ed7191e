"""A layer in which exactly one neuron is on."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units.unit import Unit


class OneHot(Unit):
    r"""A layer in which exactly one neuron is on: a class label, or one Potts spin with as many states as neurons.

    The neurons of the layer answer together: $p(s_i = 1 | x) = e^{x_i} / \sum_j e^{x_j}$ over the last axis of the
    field, with the cumulant function $\ln \sum_j e^{x_j}$ for the whole layer, of which each neuron carries an equal
    part. It cannot be coupled to itself.

    >>> OneHot().mean(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    levels: ClassVar = (0.0, 1.0)
    joint: ClassVar = True

    def mean(self, field: Array) -> Array:
        """The probability of each neuron to be the one that is on: the softmax of the field."""
        return jax.nn.softmax(_below(jnp.asarray(field, float))[1], axis=-1)

    def variance(self, field: Array) -> Array:
        """The variance m (1 - m) of each neuron at its mean m."""
        mean = self.mean(field)
        return mean * (1 - mean)

    def mode(self, field: Array) -> Array:
        """The neuron with the largest field on, all others off."""
        return jax.nn.one_hot(jnp.argmax(field, axis=-1), jnp.shape(field)[-1])

    def sample(self, key: Array, field: Array) -> Array:
        """One neuron on in each layer, drawn from the softmax of the field."""
        return jax.nn.one_hot(jax.random.categorical(key, field, axis=-1), jnp.shape(field)[-1])

    def cumulant(self, field: Array) -> Array:
        """An equal part for each neuron of ln sum_j e^(x_j)."""
        top, below = _below(jnp.asarray(field, float))
        return jnp.broadcast_to(top + jax.nn.logsumexp(below, axis=-1, keepdims=True), below.shape) / below.shape[-1]

    def inverse(self, mean: Array) -> Array:
        """The field ln m in which the means are m."""
        return jnp.log(mean)

    def choices(self, size: int) -> np.ndarray:
        """The layer is one site: each neuron on in turn."""
        return np.eye(size, dtype=np.float32)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """The unit itself in a shifted field: s^2 = s, so that the square is a field as well."""
        return self, field + strength * (target - 0.5)

    def check(self, argument: str, values: ArrayLike, *, probabilities: bool = False) -> None:
        """Refuse values other than 0 and 1, and rows without exactly one 1; probabilities only out of [0, 1]."""
        super().check(argument, values, probabilities=probabilities)
        given = check.concrete(values)
        if given is not None and not probabilities and (given.sum(-1) != 1).any():
            check.refuse(argument, "a row without exactly one 1", "rows with one 1 and else 0 for OneHot units")


def _below(field: Array) -> tuple[Array, Array]:
    """The largest field of each layer, and how far every field is below it.

    Compiled code may round a field one way where the maximum is taken and another way where it is taken away, which for fields
    of 1e10 is a difference of a thousand: the largest is exactly zero below itself here, and nothing is above it.
    """
    top = jax.lax.stop_gradient(jnp.max(field, axis=-1, keepdims=True))
    largest = jnp.arange(field.shape[-1]) == jnp.argmax(field, axis=-1, keepdims=True)
    below = field - top
    return top, jnp.where(largest | (below > 0), field - jax.lax.stop_gradient(field), below)
