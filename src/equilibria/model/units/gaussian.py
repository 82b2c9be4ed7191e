"""A real-valued neuron."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units.unit import Unit


class Gaussian(Unit):
    """A real-valued neuron with self-energy s^2 / (2 variance).

    `stiffness` is 1 / variance, as in `Clipped`.

    >>> Gaussian(variance=2.0).mean(0.5)
    Array(1., dtype=float32)
    """

    stiffness: Array

    def __init__(self, variance: ArrayLike = 1.0):
        self.stiffness = 1 / jnp.asarray(check.number("variance", variance, above=0.0), float)

    @property
    def normal_stiffness(self) -> Array:
        return self.stiffness

    @property
    def least_curvature(self) -> Array:
        return self.stiffness

    def mean(self, field: Array) -> Array:
        return field / self.stiffness

    def variance(self, field: Array) -> Array:
        return jnp.ones_like(field) / self.stiffness

    def mode(self, field: Array) -> Array:
        return field / self.stiffness

    def sample(self, key: Array, field: Array) -> Array:
        return field / self.stiffness + jax.random.normal(key, jnp.shape(field)) / jnp.sqrt(self.stiffness)

    def cumulant(self, field: Array) -> Array:
        return jnp.square(field) / (2 * self.stiffness) + jnp.log(2 * jnp.pi / self.stiffness) / 2

    def inverse(self, mean: Array) -> Array:
        return self.stiffness * mean

    def self_energy(self, state: Array) -> Array:
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature: ArrayLike) -> Gaussian:
        return Gaussian(temperature / self.stiffness)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        stiffness = check.number(
            "nudge: the output's stiffness plus its strength", self.stiffness + strength, above=0.0
        )
        return Gaussian(1 / stiffness), field + strength * target
