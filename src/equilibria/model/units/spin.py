"""A neuron with two states, -1 and +1."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from equilibria.model.units.binary import heads
from equilibria.model.units.unit import Unit


class Spin(Unit):
    """A neuron with two states, -1 and +1.

    >>> Spin().mean(0.5)
    Array(0.46211717, dtype=float32, weak_type=True)
    """

    levels: ClassVar = (-1.0, 1.0)

    def mean(self, field: Array) -> Array:
        return jnp.tanh(field)

    def variance(self, field: Array) -> Array:
        return 1 - jnp.tanh(field) ** 2

    def mode(self, field: Array) -> Array:
        return jnp.where(jnp.asarray(field) >= 0, 1.0, -1.0)

    def sample(self, key: Array, field: Array) -> Array:
        return jnp.where(heads(key, 2 * field), 1.0, -1.0)

    def cumulant(self, field: Array) -> Array:
        return jnp.logaddexp(field, -field)

    def inverse(self, mean: Array) -> Array:
        return jnp.arctanh(mean)
