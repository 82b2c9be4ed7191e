r"""What a neuron can be.

A unit with self-energy $u(s)$ in a field $x$ has the law

$$ p(s \mid x) = e^{x s - u(s) - c(x)}, \qquad c(x) = \ln \int e^{x s - u(s)}\, d\mu(s), $$

and everything else follows from the cumulant function $c$: the mean is $c'$, the variance $c''$, and the entropy
relative to the measure $e^{-u} d\mu$ is its Legendre transform $c(x) - x\,c'(x)$. At temperature $T$ the same law holds
for `unit.heated(T)`, whose self-energy is $u/T$, in the field $x/T$; so no method below needs to know about temperature.

A new unit is one class: the seven methods of `Unit`, nothing else changes (see CONTRIBUTING.md).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import log_ndtr, ndtri
from jax.scipy.stats import norm
from jax.typing import ArrayLike

from equilibria import check

# Gauss-Legendre quadrature on [0, 1].
_POINTS, _WEIGHTS = (column.astype(np.float32) / 2 for column in np.polynomial.legendre.leggauss(32))
_POINTS = _POINTS + np.float32(0.5)


class Unit(eqx.Module):
    """What every neuron offers: its response to a field.

    `levels` lists the values of a discrete unit and is None for a continuous one, whose values fill the interval
    `bounds`.
    """

    levels: ClassVar[tuple[float, ...] | None] = None
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    @abstractmethod
    def mean(self, field: ArrayLike) -> Array:
        """The average c'(x)."""

    @abstractmethod
    def variance(self, field: ArrayLike) -> Array:
        """The variance c''(x)."""

    @abstractmethod
    def mode(self, field: ArrayLike) -> Array:
        """The most probable value, argmax of x s - u(s)."""

    @abstractmethod
    def sample(self, key: Array, field: ArrayLike) -> Array:
        """An independent draw for every element of `field`."""

    @abstractmethod
    def cumulant(self, field: ArrayLike) -> Array:
        """The cumulant generating function c(x)."""

    def entropy(self, field: ArrayLike) -> Array:
        """The Legendre transform c(x) - x c'(x): the entropy relative to the unit's own measure."""
        return self.cumulant(field) - field * self.mean(field)

    def self_energy(self, state: ArrayLike) -> Array:
        """The energy u(s) of the unit by itself; zero unless a unit says otherwise."""
        return jnp.zeros_like(state)

    def heated(self, temperature: ArrayLike) -> Unit:
        """The same unit with its self-energy divided by the temperature."""
        return self

    def inverse(self, mean: ArrayLike) -> Array:
        """The field x in which the average c'(x) is `mean`, by bisection; the mean must lie inside the unit's range.

        A unit that knows its inverse says so; this one is for the others, with fields up to 1000.
        """
        mean = jnp.asarray(mean, float)

        def halved(_, ends):
            low, high = ends
            middle = (low + high) / 2
            above = self.mean(middle) > mean
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        ends = jnp.full_like(mean, -1e3), jnp.full_like(mean, 1e3)
        low, high = jax.lax.fori_loop(0, 50, halved, ends)
        return (low + high) / 2

    def count(self, size: int) -> int | None:
        """How many configurations a layer of `size` such neurons has; None if there is no end of them."""
        return None if self.levels is None else len(self.levels) ** size

    def configuration(self, index: Array, size: int) -> Array:
        """The configurations of a layer with these numbers, from 0 to `count` - 1: (..., size)."""
        levels = jnp.asarray(self.levels)
        digits = []
        for _ in range(size):
            digits.append(levels[index % len(levels)])
            index = index // len(levels)
        return jnp.stack(digits, axis=-1)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """The unit and field that are equivalent to an extra energy `strength` (s - `target`)^2 / 2."""
        return self, field + strength * target

    def check(self, argument: str, values: ArrayLike, *, between: bool = False) -> None:
        """Refuse values that this unit cannot take, or with `between` only those outside its lowest and highest."""
        check.finite(argument, values)
        given = check.concrete(values)
        if given is None:
            return
        low, high = self.bounds if self.levels is None else (min(self.levels), max(self.levels))
        if self.levels is None or between:
            outside, allowed = given[(given < low) | (given > high)], f"values in [{low:g}, {high:g}]"
        else:
            outside, allowed = given[~np.isin(given, np.array(self.levels))], f"only {self.levels}"
        if outside.size:
            check.refuse(
                argument, f"{outside.flat[0]:g} among the values", f"{allowed} for {type(self).__name__} units"
            )


def _heads(key, field):
    """True with probability 1 / (1 + e^-field). A draw u is below it where u (1 + e^-field) < 1, which needs no division."""
    return jax.random.uniform(key, jnp.shape(field)) * (1 + jnp.exp(-jnp.asarray(field))) < 1


class Spin(Unit):
    """A neuron with two states, -1 and +1.

    >>> Spin().mean(0.5)
    Array(0.46211717, dtype=float32, weak_type=True)
    """

    levels: ClassVar = (-1.0, 1.0)

    def mean(self, field):
        return jnp.tanh(field)

    def variance(self, field):
        return 1 - jnp.tanh(field) ** 2

    def mode(self, field):
        return jnp.where(jnp.asarray(field) >= 0, 1.0, -1.0)

    def sample(self, key, field):
        return jnp.where(_heads(key, 2 * field), 1.0, -1.0)

    def cumulant(self, field):
        return jnp.logaddexp(field, -field)

    def inverse(self, mean):
        return jnp.arctanh(mean)


class Binary(Unit):
    """A neuron with two states, 0 and 1.

    >>> Binary().mean(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """

    levels: ClassVar = (0.0, 1.0)

    def mean(self, field):
        return jax.nn.sigmoid(field)

    def variance(self, field):
        return jax.nn.sigmoid(field) * jax.nn.sigmoid(-field)

    def mode(self, field):
        return jnp.where(jnp.asarray(field) >= 0, 1.0, 0.0)

    def sample(self, key, field):
        return jnp.where(_heads(key, field), 1.0, 0.0)

    def cumulant(self, field):
        return jax.nn.softplus(field)

    def inverse(self, mean):
        return jnp.log(mean) - jnp.log1p(-jnp.asarray(mean))

    def nudged(self, field, strength, target):
        return self, field + strength * (target - 0.5)  # s^2 = s: the square is a field as well


class OneHot(Unit):
    r"""A layer in which exactly one neuron is on: a class label, or one Potts spin with as many states as neurons.

    The neurons of the layer answer together: $p(s_i = 1 | x) = e^{x_i} / \sum_j e^{x_j}$ over the last axis of the
    field, with the cumulant function $\ln \sum_j e^{x_j}$ for the whole layer, of which each neuron carries an equal
    part. It cannot be coupled to itself.

    >>> OneHot().mean(jnp.zeros(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    levels: ClassVar = (0.0, 1.0)

    def mean(self, field):
        return jax.nn.softmax(field, axis=-1)

    def variance(self, field):
        mean = self.mean(field)
        return mean * (1 - mean)

    def mode(self, field):
        return jax.nn.one_hot(jnp.argmax(field, axis=-1), jnp.shape(field)[-1])

    def sample(self, key, field):
        return jax.nn.one_hot(jax.random.categorical(key, field, axis=-1), jnp.shape(field)[-1])

    def cumulant(self, field):
        return jnp.broadcast_to(jax.nn.logsumexp(field, axis=-1, keepdims=True), field.shape) / field.shape[-1]

    def inverse(self, mean):
        return jnp.log(mean)

    def count(self, size):
        return size

    def configuration(self, index, size):
        return jax.nn.one_hot(index % size, size)

    def nudged(self, field, strength, target):
        return self, field + strength * (target - 0.5)

    def check(self, argument, values, *, between=False):
        super().check(argument, values, between=between)
        given = check.concrete(values)
        if given is not None and not between and (given.sum(-1) != 1).any():
            check.refuse(argument, "a row without exactly one 1", "rows with one 1 and else 0 for OneHot units")


class Gaussian(Unit):
    """A real-valued neuron with self-energy s^2 / (2 variance).

    `stiffness` is 1 / variance, as in `Clipped`.

    >>> Gaussian(variance=2.0).mean(0.5)
    Array(1., dtype=float32)
    """

    stiffness: Array

    def __init__(self, variance: ArrayLike = 1.0):
        self.stiffness = 1 / jnp.asarray(check.number("variance", variance, above=0.0), float)

    def mean(self, field):
        return field / self.stiffness

    def variance(self, field):
        return jnp.ones_like(field) / self.stiffness

    def mode(self, field):
        return field / self.stiffness

    def sample(self, key, field):
        return field / self.stiffness + jax.random.normal(key, jnp.shape(field)) / jnp.sqrt(self.stiffness)

    def cumulant(self, field):
        return jnp.square(field) / (2 * self.stiffness) + jnp.log(2 * jnp.pi / self.stiffness) / 2

    def inverse(self, mean):
        return self.stiffness * mean

    def self_energy(self, state):
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature):
        return Gaussian(temperature / self.stiffness)

    def nudged(self, field, strength, target):
        stiffness = check.number(
            "nudge: the output's stiffness plus its strength", self.stiffness + strength, above=0.0
        )
        return Gaussian(1 / stiffness), field + strength * target


class Clipped(Unit):
    r"""A neuron in [0, 1] with self-energy stiffness s^2 / 2; its mode is the hard sigmoid.

    Its law is a normal law of mean x / k and variance 1 / k (k the stiffness) cut off at 0 and 1.

    >>> Clipped().mode(jnp.array([-0.3, 0.4, 1.7]))
    Array([0. , 0.4, 1. ], dtype=float32)
    """

    stiffness: Any = eqx.field(converter=lambda value: jnp.asarray(value, float), default=1.0)
    bounds: ClassVar = (0.0, 1.0)

    def __check_init__(self):
        check.number("stiffness", self.stiffness, above=0.0)

    def _law(self, field):
        """Points, and the logarithm of the law's weight on each, of a quadrature over where the law lives.

        The closed form of a cut-off normal law loses all its digits once the cut is a few widths away; a sum of
        positive terms loses none. The interval ends where the weight has dropped by e^-30 from its maximum.
        """
        field, stiffness = jnp.asarray(field)[..., None], self.stiffness[..., None]
        mode = jnp.clip(field / stiffness, 0, 1)

        def reach(slope):
            return 60 / (slope + jnp.sqrt(slope**2 + 60 * stiffness))

        low = jnp.maximum(mode - reach(jnp.maximum(field - stiffness, 0)), 0)
        high = jnp.minimum(mode + reach(jnp.maximum(-field, 0)), 1)
        points = low + (high - low) * _POINTS
        return points, field * points - stiffness * points**2 / 2 + jnp.log((high - low) * _WEIGHTS)

    def mean(self, field):
        points, log_weights = self._law(field)
        return jnp.sum(jax.nn.softmax(log_weights) * points, axis=-1)

    def variance(self, field):
        points, log_weights = self._law(field)
        weights = jax.nn.softmax(log_weights)
        mean = jnp.sum(weights * points, axis=-1, keepdims=True)
        return jnp.sum(weights * (points - mean) ** 2, axis=-1)

    def cumulant(self, field):
        return jax.nn.logsumexp(self._law(field)[1], axis=-1)

    def mode(self, field):
        return jnp.clip(field / self.stiffness, 0, 1)

    def sample(self, key, field):
        # The quantile is taken at the edge to which the law leans: there single precision has digits.
        leans_high = field > self.stiffness / 2
        centre = jnp.where(leans_high, 1 - field / self.stiffness, field / self.stiffness)
        width = self.stiffness**-0.5
        uniform = jax.random.uniform(key, jnp.shape(field), minval=jnp.finfo(jnp.float32).tiny)
        below_edge, below_far = log_ndtr(centre / width), log_ndtr((centre - 1) / width)
        log_mass = jnp.logaddexp(jnp.log(uniform) + below_edge, jnp.log1p(-uniform) + below_far)
        distance = jnp.clip(centre - width * _normal_quantile(log_mass), 0, 1)
        return jnp.where(leans_high, 1 - distance, distance)

    def self_energy(self, state):
        return self.stiffness * jnp.square(state) / 2

    def heated(self, temperature):
        return Clipped(self.stiffness / temperature)

    def nudged(self, field, strength, target):
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
