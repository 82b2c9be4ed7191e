"""A neuron with two states, 0 and 1."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria.model.units.unit import Unit


def heads(key: Array, field: Array) -> Array:
    """True with probability 1 / (1 + e^-field). A draw u is below it where u (1 + e^-field) < 1, which needs no division."""
    return jax.random.uniform(key, jnp.shape(field)) * (1 + jnp.exp(-jnp.asarray(field))) < 1


class Binary(Unit):
    """A neuron with two states, 0 and 1.

    In a field x it is 1 with probability $1/(1 + e^{-x})$.

    >>> Binary().mean(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    levels: ClassVar = (0.0, 1.0)

    def mean(self, field: Array) -> Array:
        """The probability of a 1, 1 / (1 + e^-x)."""
        return jax.nn.sigmoid(field)

    def variance(self, field: Array) -> Array:
        """The variance m (1 - m) at the mean m."""
        return jax.nn.sigmoid(field) * jax.nn.sigmoid(-field)

    def mode(self, field: Array) -> Array:
        """A 1 where the field is not negative, else 0."""
        return jnp.where(jnp.asarray(field) >= 0, 1.0, 0.0)

    def sample(self, key: Array, field: Array) -> Array:
        """A draw of 0 or 1 for every element of `field`."""
        return jnp.where(heads(key, field), 1.0, 0.0)

    def cumulant(self, field: Array) -> Array:
        """The cumulant function ln(1 + e^x)."""
        return jax.nn.softplus(field)

    def inverse(self, mean: Array) -> Array:
        """The field ln(m / (1 - m)) in which the mean is m."""
        return jnp.log(mean) - jnp.log1p(-jnp.asarray(mean))

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """The unit itself in a shifted field: s^2 = s, so that the square is a field as well."""
        return self, field + strength * (target - 0.5)  # s^2 = s: the square is a field as well
