r"""Neurons that are silent below a threshold and linear above it: `ReLU`, and `DoubleReLU` on both sides of zero.

Both are made of one law, a normal law on one side of zero: $\int_0^\infty e^{x s - k s^2/2} ds = k^{-1/2} M(-x k^{-1/2})$ with
Mills' ratio $M(z) = \int_0^\infty e^{-z t - t^2/2} dt$. Far out on the silent side its closed form loses all its digits; there
Laplace's continued fraction $M(z) = 1/(z + 1/(z + 2/(z + 3/(z + \dots))))$ keeps them, for the mean and the variance too.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import log_ndtr, ndtr, ndtri
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units.unit import Unit

_FAR = 2.5  # beyond, the continued fraction; with 14 levels it is exact to eight digits from here on
_LEVELS = 14


class _Half(NamedTuple):
    """The law e^{a t - t^2/2} on t > 0: the logarithm of its integral, its mean, its variance."""

    log_mass: Array
    mean: Array
    variance: Array


def _half(field: Array) -> _Half:
    field = jnp.asarray(field)
    far = jnp.maximum(-field, _FAR)
    # What is left out is taken as the fraction that repeats its last level without end: its own fixed point.
    tail = (jnp.sqrt(jnp.square(far) + 4 * (_LEVELS + 1)) - far) / 2
    for level in range(_LEVELS, 1, -1):
        tail = level / (far + tail)
    near = jnp.maximum(field, -_FAR)
    log_mass = log_ndtr(near) + jnp.square(near) / 2 + np.log(2 * np.pi) / 2
    hazard = jnp.exp(-log_mass)
    mean, silent = near + hazard, 1 / (far + tail)
    # On the silent side M = 1/(z + m) with m = 1/(z + r), r the fraction from its second level on.
    return _Half(
        jnp.where(field < -_FAR, -jnp.log(far + silent), log_mass),
        jnp.where(field < -_FAR, silent, mean),
        jnp.where(field < -_FAR, (tail - silent) / (far + tail), 1 - hazard * mean),
    )


def _draw(uniform: Array, field: Array) -> Array:
    """The quantile of the law e^{a t - t^2/2} on t > 0, at `uniform` of its mass from above."""
    near = jnp.maximum(field, -_FAR)
    active = near - ndtri(uniform * ndtr(near))
    # On the silent side the exponent z t + t^2/2 = e of an exponential draw e is exact but for the slope of ln M.
    far, exponential = jnp.maximum(-field, _FAR), -jnp.log(uniform)
    silent = 2 * exponential / (far + jnp.sqrt(far**2 + 2 * exponential))
    start = _half(-far).log_mass
    for _ in range(3):
        there = _half(-far - silent)
        missing = exponential - (far + silent / 2) * silent - start + there.log_mass
        silent = jnp.maximum(silent + missing * jnp.exp(there.log_mass), 0.0)
    return jnp.maximum(jnp.where(field < -_FAR, silent, active), 0.0)


def _uniform(key: Array, field: Array) -> Array:
    return jax.random.uniform(key, jnp.shape(field), minval=jnp.finfo(jnp.float32).tiny)


class ReLU(Unit):
    r"""A neuron in [0, infinity) whose mode is the rectified field: silent below zero, linear above.

    $$ u(s) = \tfrac k2 s^2, \qquad s \ge 0 $$

    Its law in a field x is the normal law of mean x / k and variance 1 / k cut off at zero.

    Args:
        stiffness: k, one number or one for each neuron.

    Raises:
        ValueError: if the stiffness is not above zero.

    >>> ReLU(2.0).mode(jnp.array([-0.3, 0.4, 1.7]))
    Array([0.  , 0.2 , 0.85], dtype=float32)
    """

    stiffness: Array
    bounds: ClassVar = (0.0, np.inf)

    def __init__(self, stiffness: ArrayLike = 1.0):
        self.stiffness = jnp.asarray(check.number("stiffness", stiffness, above=0.0), float)

    @property
    def least_curvature(self) -> Array:
        """The stiffness, everywhere above zero."""
        return self.stiffness

    @property
    def tail_stiffness(self) -> Array:
        """The stiffness."""
        return self.stiffness

    @property
    def _width(self) -> Array:
        return self.stiffness**-0.5

    def mean(self, field: Array) -> Array:
        """The average of the normal law cut off at zero."""
        return self._width * _half(field * self._width).mean

    def variance(self, field: Array) -> Array:
        """The variance of the normal law cut off at zero."""
        return self._width**2 * _half(field * self._width).variance

    def mode(self, field: Array) -> Array:
        """The rectified field max(x, 0) / k."""
        return jnp.maximum(field, 0.0) / self.stiffness

    def sample(self, key: Array, field: Array) -> Array:
        """A draw from the cut-off normal law for every element of `field`, by its quantile."""
        return self._width * _draw(_uniform(key, field), field * self._width)

    def cumulant(self, field: Array) -> Array:
        """The logarithm of the cut-off normal law's integral."""
        return _half(field * self._width).log_mass + jnp.log(self._width)

    def self_energy(self, state: Array) -> Array:
        """The energy k s^2 / 2."""
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature: ArrayLike) -> ReLU:
        """The same unit of stiffness k / T."""
        return ReLU(self.stiffness / temperature)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """A stiffer unit in a shifted field; refused where no minimum is left."""
        stiffness = check.number(
            "nudge: the output's stiffness plus its strength", self.stiffness + strength, above=0.0
        )
        return ReLU(stiffness), field + strength * target


class DoubleReLU(Unit):
    r"""A real-valued neuron with another stiffness on each side of zero and a threshold between them.

    $$ u(s) = \tfrac{k_+}{2} s^2 + \theta s \ (s \ge 0), \qquad u(s) = \tfrac{k_-}{2} s^2 - \theta s \ (s < 0) $$

    (Tubiana, Cocco and Monasson 2019; their two thresholds are $\theta$ and the bias.) With equal stiffness and no threshold it
    is `Gaussian`; $\theta > 0$ keeps it near zero in weak fields, $\theta < 0$ gives it two preferred values, one on each side.

    Args:
        stiffness: k_+, one number or one for each neuron.
        below: k_-, that below zero; the same by default.
        threshold: theta.

    Raises:
        ValueError: if a stiffness is not above zero.

    >>> DoubleReLU(1.0, below=2.0, threshold=0.5).mode(jnp.array([-2.5, 0.4, 1.5])).round(4)
    Array([-1.,  0.,  1.], dtype=float32)
    """

    stiffness: Array
    below: Array
    threshold: Array

    def __init__(self, stiffness: ArrayLike = 1.0, below: ArrayLike | None = None, threshold: ArrayLike = 0.0):
        below = stiffness if below is None else below
        self.stiffness = jnp.asarray(check.number("stiffness", stiffness, above=0.0), float)
        self.below = jnp.asarray(check.number("below", below, above=0.0), float)
        self.threshold = jnp.asarray(check.number("threshold", threshold), float)

    def __check_init__(self) -> None:
        check.number("below", self.below, above=0.0)

    @property
    def tail_stiffness(self) -> Array:
        """The smaller stiffness of the two."""
        return jnp.minimum(self.stiffness, self.below)

    @property
    def least_curvature(self) -> Array:
        """The smaller stiffness of the two; a threshold below zero makes a peak in between, where no nudge helps."""
        return self.tail_stiffness

    def _sides(self, field: Array) -> tuple[Array, Array, Array, Array]:
        """The fields towards both sides in units of their widths, and the widths."""
        above, below = self.stiffness**-0.5, self.below**-0.5
        return (field - self.threshold) * above, (-field - self.threshold) * below, above, below

    def _parts(self, field: Array) -> tuple[_Half, _Half, Array, Array]:
        """The laws of both sides, their logarithmic masses with the widths in."""
        up, down, above, below = self._sides(field)
        high, low = _half(up), _half(down)
        return (
            high._replace(log_mass=high.log_mass + jnp.log(above)),
            low._replace(log_mass=low.log_mass + jnp.log(below)),
            above,
            below,
        )

    def mean(self, field: Array) -> Array:
        """The average over both sides."""
        high, low, above, below = self._parts(field)
        share = jax.nn.sigmoid(high.log_mass - low.log_mass)
        return share * above * high.mean - (1 - share) * below * low.mean

    def variance(self, field: Array) -> Array:
        """The variance within the sides and between them."""
        high, low, above, below = self._parts(field)
        odds = high.log_mass - low.log_mass
        share, rest = jax.nn.sigmoid(odds), jax.nn.sigmoid(-odds)
        within = share * above**2 * high.variance + rest * below**2 * low.variance
        return within + share * rest * jnp.square(above * high.mean + below * low.mean)

    def mode(self, field: Array) -> Array:
        """The better of the two sides' best values."""
        up, down, above, below = (jnp.asarray(part) for part in self._sides(field))
        up, down = jnp.maximum(up, 0.0), jnp.maximum(down, 0.0)
        return jnp.where(up >= down, up * above, -down * below)

    def sample(self, key: Array, field: Array) -> Array:
        """A side for every element of `field`, and a draw from the normal law cut off at zero there."""
        side_key, draw_key = jax.random.split(key)
        up, down, above, below = self._sides(field)
        high, low, _, _ = self._parts(field)
        chosen = jax.random.uniform(side_key, jnp.shape(field)) < jax.nn.sigmoid(high.log_mass - low.log_mass)
        distance = _draw(_uniform(draw_key, field), jnp.where(chosen, up, down))
        return jnp.where(chosen, above * distance, -below * distance)

    def cumulant(self, field: Array) -> Array:
        """The logarithm of the sum of both sides' integrals."""
        high, low, _, _ = self._parts(field)
        return jnp.logaddexp(high.log_mass, low.log_mass)

    def self_energy(self, state: Array) -> Array:
        """The energy u(s) of the class's equation."""
        stiffness = jnp.where(jnp.asarray(state) >= 0, self.stiffness, self.below)
        return stiffness * jnp.square(state) / 2 + self.threshold * jnp.abs(state)

    def heated(self, temperature: ArrayLike) -> DoubleReLU:
        """The same unit with its stiffness and threshold divided by the temperature."""
        return DoubleReLU(self.stiffness / temperature, self.below / temperature, self.threshold / temperature)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """A stiffer unit in a shifted field; refused where no minimum is left."""
        check.number("nudge: the output's least curvature with it", self.least_curvature + strength, above=0.0)
        return DoubleReLU(self.stiffness + strength, self.below + strength, self.threshold), field + strength * target
