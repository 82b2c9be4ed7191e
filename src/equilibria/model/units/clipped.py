"""A neuron in [0, 1] with a hard sigmoid."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import log_ndtr, ndtri
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units.unit import Unit

# Gauss-Legendre quadrature on [0, 1].
_POINTS, _WEIGHTS = (column.astype(np.float32) / 2 for column in np.polynomial.legendre.leggauss(32))
_POINTS = _POINTS + np.float32(0.5)


class Clipped(Unit):
    r"""A neuron in [0, 1] whose mode is the hard sigmoid of its field.

    $$ u(s) = \tfrac k2 s^2, \qquad 0 \le s \le 1 $$

    Its law in a field x is the normal law of mean x / k and variance 1 / k cut off at 0 and 1. With k = 1 this is the neuron
    of Scellier and Bengio, equation (34) with their hard sigmoid, kept in bounds as in (54).

    Args:
        stiffness: k, one number or one for each neuron.

    Raises:
        ValueError: if the stiffness is not above zero.

    >>> Clipped().mode(jnp.array([-0.3, 0.4, 1.7]))
    Array([0. , 0.4, 1. ], dtype=float32)
    """

    stiffness: Array
    bounds: ClassVar = (0.0, 1.0)

    def __init__(self, stiffness: ArrayLike = 1.0):
        self.stiffness = jnp.asarray(check.number("stiffness", stiffness, above=0.0), float)

    @property
    def least_curvature(self) -> Array:
        """The stiffness, everywhere in the interval."""
        return self.stiffness

    def _law(self, field: Array) -> tuple[Array, Array]:
        """Points, and the logarithm of the law's weight on each, of a quadrature over where the law lives.

        The closed form of a cut-off normal law loses all its digits once the cut is a few widths away; a sum of
        positive terms loses none. The interval ends where the weight has dropped by e^-30 from its maximum.
        """
        field, stiffness = jnp.asarray(field)[..., None], self.stiffness[..., None]
        mode = jnp.clip(field / stiffness, 0, 1)

        def reach(slope: Array) -> Array:
            return 60 / (slope + jnp.sqrt(slope**2 + 60 * stiffness))

        low = jnp.maximum(mode - reach(jnp.maximum(field - stiffness, 0)), 0)
        high = jnp.minimum(mode + reach(jnp.maximum(-field, 0)), 1)
        points = low + (high - low) * _POINTS
        return points, field * points - stiffness * points**2 / 2 + jnp.log((high - low) * _WEIGHTS)

    def mean(self, field: Array) -> Array:
        """The average of the cut-off normal law, by quadrature."""
        points, log_weights = self._law(field)
        return jnp.sum(jax.nn.softmax(log_weights) * points, axis=-1)

    def variance(self, field: Array) -> Array:
        """The variance of the cut-off normal law, by quadrature."""
        points, log_weights = self._law(field)
        weights = jax.nn.softmax(log_weights)
        mean = jnp.sum(weights * points, axis=-1, keepdims=True)
        return jnp.sum(weights * (points - mean) ** 2, axis=-1)

    def cumulant(self, field: Array) -> Array:
        """The logarithm of the cut-off normal law's integral, by quadrature."""
        return jax.nn.logsumexp(self._law(field)[1], axis=-1)

    def mode(self, field: Array) -> Array:
        """The hard sigmoid, x / k kept between 0 and 1."""
        return jnp.clip(field / self.stiffness, 0, 1)

    def sample(self, key: Array, field: Array) -> Array:
        """A draw from the cut-off normal law for every element of `field`, by its quantile."""
        # The quantile is taken at the edge to which the law leans: there single precision has digits.
        leans_high = field > self.stiffness / 2
        centre = jnp.where(leans_high, 1 - field / self.stiffness, field / self.stiffness)
        width = self.stiffness**-0.5
        uniform = jax.random.uniform(key, jnp.shape(field), minval=jnp.finfo(jnp.float32).tiny)
        below_edge, below_far = log_ndtr(centre / width), log_ndtr((centre - 1) / width)
        log_mass = jnp.logaddexp(jnp.log(uniform) + below_edge, jnp.log1p(-uniform) + below_far)
        distance = jnp.clip(centre - width * _normal_quantile(log_mass), 0, 1)
        return jnp.where(leans_high, 1 - distance, distance)

    def self_energy(self, state: Array) -> Array:
        """The energy k s^2 / 2."""
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature: ArrayLike) -> Clipped:
        """The same unit of stiffness k / T."""
        return Clipped(self.stiffness / temperature)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """A stiffer unit in a shifted field."""
        return Clipped(self.stiffness + strength), field + strength * target


def _normal_quantile(log_mass: Array) -> Array:
    """The standard normal quantile of exp(log_mass), also where that underflows.

    ln Phi is concave and -sqrt(-2 ln p) lies left of the root, so Newton's steps increase to it and never overshoot.
    """
    tail = -jnp.sqrt(-2 * jnp.minimum(log_mass, -1.0))
    for _ in range(3):
        slope = jnp.exp(norm.logpdf(tail) - log_ndtr(tail))
        tail = tail - (log_ndtr(tail) - log_mass) / slope
    return jnp.where(log_mass > -20.0, ndtri(jnp.exp(jnp.minimum(log_mass, 0.0))), tail)
