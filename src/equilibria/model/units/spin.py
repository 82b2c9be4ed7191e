"""A neuron with two states, -1 and +1."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from equilibria.model.units.binary import heads
from equilibria.model.units.unit import Unit


class Spin(Unit):
    r"""A neuron with two states, -1 and +1.

    In a field x it is +1 with probability $(1 + \tanh x)/2$, as in Agliari 2024, "Neural dynamics".

    >>> Spin().mean(0.5)
    Array(0.46211717, dtype=float32, weak_type=True)
    """

    levels: ClassVar = (-1.0, 1.0)

    def mean(self, field: Array) -> Array:
        """The average tanh x."""
        return jnp.tanh(field)

    def variance(self, field: Array) -> Array:
        """The variance 1 - tanh(x)^2."""
        return 1 - jnp.tanh(field) ** 2

    def mode(self, field: Array) -> Array:
        """A +1 where the field is not negative, else -1."""
        return jnp.where(jnp.asarray(field) >= 0, 1.0, -1.0)

    def sample(self, key: Array, field: Array) -> Array:
        """A draw of -1 or +1 for every element of `field`."""
        return jnp.where(heads(key, 2 * field), 1.0, -1.0)

    def cumulant(self, field: Array) -> Array:
        """The cumulant function ln 2cosh x."""
        return jnp.logaddexp(field, -field)

    def inverse(self, mean: Array) -> Array:
        """The field atanh m in which the mean is m."""
        return jnp.arctanh(mean)
