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
from equilibria.compiled import array
from equilibria.model.units.unit import Unit

# Gauss-Legendre quadrature on [0, 1].
_POINTS, _WEIGHTS = (column.astype(np.float32) / 2 for column in np.polynomial.legendre.leggauss(32))
_POINTS = _POINTS + np.float32(0.5)
# Where a law is as good as exponential: flatter than this, or falling by so many of its widths.
_FLAT, _STEEP = 1e-2, 30.0


class Clipped(Unit):
    r"""A neuron in [0, 1] whose mode is the hard sigmoid of its field.

    $$ u(s) = \tfrac k2 s^2, \qquad 0 \le s \le 1 $$

    Its law in a field x is the normal law of mean x / k and variance 1 / k cut off at 0 and 1. With k = 1 this is the neuron
    of Scellier and Bengio, equation (34) with their hard sigmoid, kept in bounds as in (54).

    Args:
        stiffness: k, one number or one for each neuron.

    Raises:
        ValueError: if the stiffness is not above zero, or not from 1e-30 to 1e30.

    >>> Clipped().mode(jnp.array([-0.3, 0.4, 1.7]))
    Array([0. , 0.4, 1. ], dtype=float32)
    """

    stiffness: Array
    bounds: ClassVar = (0.0, 1.0)

    def __init__(self, stiffness: ArrayLike = 1.0):
        self.stiffness = array(check.number("stiffness", stiffness, **check.STIFF))

    @property
    def least_curvature(self) -> Array:
        """The stiffness, everywhere in the interval."""
        return self.stiffness

    def _law(self, field: Array) -> tuple[Array, Array, Array]:
        """The mode, points by their distance from it, and the logarithm of the law's weight on each over that of the mode.

        The closed form of a cut-off normal law loses all its digits once the cut is a few widths away; a sum of positive
        terms loses none. The interval ends where the weight has dropped by e^-30 from its maximum, and distances
        from the mode keep their digits where the interval is shorter than the spacing of single precision at 1.
        """
        field, stiffness = jnp.asarray(field, float)[..., None], self.stiffness[..., None]
        mode = jnp.clip(field / stiffness, 0, 1)

        def reach(slope: Array) -> Array:
            return 60 / jnp.minimum(slope + jnp.hypot(slope, jnp.sqrt(60 * stiffness)), 1e36)

        low = jnp.minimum(reach(jnp.maximum(field - stiffness, 0)), mode)
        high = jnp.minimum(reach(jnp.maximum(-field, 0)), 1 - mode)
        away = (low + high) * _POINTS - low
        slope = jnp.maximum(field - stiffness, 0) + jnp.minimum(field, 0)  # at the mode: zero unless that is an edge
        return mode[..., 0], away, slope * away - stiffness * away**2 / 2 + jnp.log(low + high) + np.log(_WEIGHTS)

    def mean(self, field: Array) -> Array:
        """The average of the cut-off normal law, by quadrature."""
        mode, away, log_weights = self._law(field)
        return mode + jnp.sum(jax.nn.softmax(log_weights) * away, axis=-1)

    def variance(self, field: Array) -> Array:
        """The variance of the cut-off normal law, by quadrature."""
        _, away, log_weights = self._law(field)
        weights = jax.nn.softmax(log_weights)
        mean = jnp.sum(weights * away, axis=-1, keepdims=True)
        return jnp.sum(weights * (away - mean) ** 2, axis=-1)

    def cumulant(self, field: Array) -> Array:
        """The logarithm of the cut-off normal law's integral, by quadrature."""
        mode, _, log_weights = self._law(field)
        return field * mode - self.self_energy(mode) + jax.nn.logsumexp(log_weights, axis=-1)

    def mode(self, field: Array) -> Array:
        """The hard sigmoid, x / k kept between 0 and 1."""
        return jnp.clip(field / self.stiffness, 0, 1)

    def sample(self, key: Array, field: Array) -> Array:
        """A draw from the cut-off normal law for every element of `field`: by its quantile, or as a cut-off exponential law.

        The quantile loses its digits where the law is much flatter than the interval is wide, or falls from an edge so fast
        that its curvature hardly counts. There an exponential law is drawn, and kept with probability e^(-k d^2 / 2).
        """
        # Distances are from the edge to which the law leans: there single precision has digits.
        leans_high = field > self.stiffness / 2
        centre = jnp.where(leans_high, 1 - field / self.stiffness, field / self.stiffness)
        width = self.stiffness**-0.5
        uniform = jax.random.uniform(key, jnp.shape(field), minval=jnp.finfo(jnp.float32).tiny)
        below_edge, below_far = log_ndtr(centre / width), log_ndtr((centre - 1) / width)
        log_mass = jnp.logaddexp(jnp.log(uniform) + below_edge, jnp.log1p(-uniform) + below_far)
        distance = jnp.clip(centre - width * _normal_quantile(log_mass), 0, 1)
        slope = jnp.where(leans_high, field - self.stiffness, -field)  # how fast the law falls from that edge
        straight = (self.stiffness < _FLAT) | (slope > _STEEP / width)
        distance = jax.lax.cond(
            jnp.any(straight),
            lambda: jnp.where(straight, _exponential(jax.random.fold_in(key, 1), slope, self.stiffness), distance),
            lambda: distance,
        )
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


def _exponential(key: Array, slope: Array, stiffness: Array) -> Array:
    """Draws d in [0, 1] of a density proportional to e^(-slope d - stiffness d^2 / 2), where the second term is small.

    The first of six draws that is kept: none is with a probability below 1e-13 for the stiffnesses and slopes it is used with.
    """
    places, chances = jax.random.uniform(key, (2, 6, *slope.shape), minval=jnp.finfo(jnp.float32).tiny)
    safe = jnp.where(jnp.abs(slope) < 1e-4, 1.0, slope)
    drawn = jnp.where(jnp.abs(slope) < 1e-4, places, -jnp.log1p(places * jnp.expm1(-safe)) / safe)
    kept = jnp.log(chances) < -stiffness * drawn**2 / 2
    return jnp.take_along_axis(drawn, jnp.argmax(kept, axis=0)[None], axis=0)[0]


def _normal_quantile(log_mass: Array) -> Array:
    """The standard normal quantile of exp(log_mass), also where that underflows.

    ln Phi is concave and -sqrt(-2 ln p) lies left of the root, so Newton's steps increase to it and never overshoot.
    """
    tail = -jnp.sqrt(-2 * jnp.minimum(log_mass, -1.0))
    for _ in range(3):
        slope = jnp.exp(norm.logpdf(tail) - log_ndtr(tail))
        tail = tail - (log_ndtr(tail) - log_mass) / slope
    return jnp.where(log_mass > -20.0, ndtri(jnp.exp(jnp.minimum(log_mass, 0.0))), tail)
