"""A real-valued neuron."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.units.unit import Unit


class Gaussian(Unit):
    r"""A real-valued neuron with a normal law.

    $$ u(s) = \frac{s^2}{2 v} $$

    Its law in a field x has mean v x and variance v. With v = 1 this is the hidden neuron z of Agliari 2024, "Restricted
    Boltzmann machines", and of the linear machine of Decelle 2017, whose variances are $\sigma_v^2$ and $\sigma_h^2$.

    Args:
        variance: v, one number or one for each neuron; the attribute `stiffness` is 1 / v, as in `Clipped`.

    Raises:
        ValueError: if the variance is not above zero, or not from 1e-30 to 1e30.

    >>> Gaussian(variance=2.0).mean(0.5)
    Array(1., dtype=float32)
    """

    stiffness: Array

    def __init__(self, variance: ArrayLike = 1.0):
        check.number("variance", variance, **check.STIFF)
        known = check.concrete(variance)
        self.stiffness = 1 / jnp.asarray(variance, float) if known is None else array(1 / known.astype(np.float64))

    @property
    def normal_stiffness(self) -> Array:
        """The stiffness 1 / v: the unit is normal on the whole line."""
        return self.stiffness

    @property
    def least_curvature(self) -> Array:
        """The stiffness, everywhere."""
        return self.stiffness

    def mean(self, field: Array) -> Array:
        """The average v x."""
        return field / self.stiffness

    def variance(self, field: Array) -> Array:
        """The variance v, in every field."""
        return jnp.ones_like(field) / self.stiffness

    def mode(self, field: Array) -> Array:
        """The mean, v x."""
        return field / self.stiffness

    def sample(self, key: Array, field: Array) -> Array:
        """A normal draw for every element of `field`."""
        return field / self.stiffness + jax.random.normal(key, jnp.shape(field)) / jnp.sqrt(self.stiffness)

    def cumulant(self, field: Array) -> Array:
        """The cumulant function v x^2 / 2 + ln(2 pi v) / 2."""
        return jnp.square(field) / (2 * self.stiffness) + jnp.log(2 * jnp.pi / self.stiffness) / 2

    def inverse(self, mean: Array) -> Array:
        """The field m / v in which the mean is m."""
        return self.stiffness * mean

    def self_energy(self, state: Array) -> Array:
        """The energy s^2 / (2 v)."""
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature: ArrayLike) -> Gaussian:
        """The same unit of variance T v."""
        return Gaussian(temperature / self.stiffness)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """A stiffer unit in a shifted field; refused where no minimum is left."""
        stiffness = check.number(
            "nudge: the output's stiffness plus its strength", self.stiffness + strength, above=0.0
        )
        return Gaussian(1 / stiffness), field + strength * target
