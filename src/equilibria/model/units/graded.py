r"""Neurons with a smooth response, as Hopfield (1984) has them: `Graded` in [0, 1] and `GradedSpin` in [-1, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import entr
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.units.unit import Unit

# Gauss-Legendre quadrature in the angle t of s = sin(t/2)^2, t from 0 to pi: points that crowd at both ends of [0, 1].
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(64)
_ANGLES = (np.sin(np.pi * (_NODES + 1) / 4) ** 2).astype(np.float32)
_ANGLE_WEIGHTS = (np.pi / 4 * _NODE_WEIGHTS * np.sin(np.pi * (_NODES + 1) / 2)).astype(np.float32)


class Graded(Unit):
    r"""A neuron in [0, 1] with the logistic response of Hopfield (1984): its mode is the sigmoid of field / stiffness.

    $$ u(s) = k\,[s \ln s + (1-s) \ln(1-s)] + \tfrac{q}{2} s^2 $$

    An activation $\rho$ in the energy (34) of Scellier and Bengio, whose state is $\rho^{-1}(s)$, has the self-energy
    $\rho^{-1}(s)^2/2$ instead; Hopfield's $\int \rho^{-1}$ makes the response $\rho$ itself.

    Args:
        stiffness: k, one number or one for each neuron; 1 / k is the gain.
        curvature: q, which a nudge by squared error adds; none by default.

    Raises:
        ValueError: if the stiffness is not above zero, or not from 1e-30 to 1e30.

    >>> Graded().mode(jnp.array([-2.0, 0.0, 2.0])).round(3)
    Array([0.119..., 0.5..., 0.881...], dtype=float32)
    """

    stiffness: Array
    curvature: Array | None
    bounds: ClassVar = (0.0, 1.0)

    def __init__(self, stiffness: ArrayLike = 1.0, curvature: ArrayLike | None = None):
        self.stiffness = array(check.number("stiffness", stiffness, **check.STIFF))
        self.curvature = None if curvature is None else array(curvature)

    @property
    def _width(self) -> float:
        return self.bounds[1] - self.bounds[0]

    def _added(self) -> Array | float:
        return 0.0 if self.curvature is None else self.curvature

    @property
    def least_curvature(self) -> Array:
        """Half way, where the logarithms of the self-energy bend least."""
        return 4 * self.stiffness / self._width**2 + self._added()

    def self_energy(self, state: Array) -> Array:
        """The energy u(s) of the class's equation."""
        part = (jnp.asarray(state) - self.bounds[0]) / self._width
        return -self.stiffness * (entr(part) + entr(1 - part)) + self._added() * jnp.square(state) / 2

    def mode(self, field: Array) -> Array:
        """The sigmoid of x / k, or with a curvature the one root of x = u'(s)."""
        scaled = field * self._width / self.stiffness
        if self.curvature is None:
            return self.bounds[0] + self._width * jax.nn.sigmoid(scaled)
        # z = (x - q s) w / k with s = low + w sigmoid(z) has one root in z, found by bisection in s, then Newton's steps.
        pull = self.curvature * self._width / self.stiffness

        def excess(part: Array) -> Array:
            return jax.nn.sigmoid(scaled - pull * (self.bounds[0] + self._width * part)) - part

        low, high = jnp.zeros_like(scaled), jnp.ones_like(scaled)
        for _ in range(8):
            middle = (low + high) / 2
            above = excess(middle) > 0
            low, high = jnp.where(above, middle, low), jnp.where(above, high, middle)
        part = (low + high) / 2
        for _ in range(3):
            response = excess(part) + part
            slope = -pull * self._width * response * (1 - response) - 1
            part = jnp.clip(part - (response - part) / slope, 0, 1)
        return self.bounds[0] + self._width * part

    def _law(self, field: Array) -> tuple[Array, Array, Array]:
        """The mode, points by their distance from it, and the logarithm of the law's weight on each over that of the mode.

        An angle replaces the value, so that points crowd where the logarithms of the self-energy bend most. The interval ends
        where the weight has dropped by e^-30 from its maximum: by the least curvature, or by the field, against which the
        self-energy cannot bring up more than its range.
        """
        field = jnp.asarray(field, float)
        mode = self.mode(field)
        scaled = self._scaled(field, mode)
        reach = jnp.sqrt(60 / self.least_curvature)
        most = 30 + self.stiffness * np.log(2) + jnp.abs(self._added()) * self._width**2
        edge = most / jnp.maximum(jnp.abs(field), 1e-30)  # how far from the end to which the field pulls
        down, up = self._width * jax.nn.sigmoid(scaled), self._width * jax.nn.sigmoid(-scaled)  # to the two ends
        low = jnp.minimum(jnp.where(field > 0, jnp.minimum(edge, down), down), reach)[..., None]
        high = jnp.minimum(jnp.where(field < 0, jnp.minimum(edge, up), up), reach)[..., None]
        away = (low + high) * _ANGLES - low
        unit = jax.tree.map(lambda leaf: leaf[..., None], self)
        log_weights = unit._fallen(field[..., None], mode[..., None], away)
        return mode, away, log_weights + jnp.log(low + high) + np.log(_ANGLE_WEIGHTS)

    def _scaled(self, field: Array, mode: Array) -> Array:
        """The logit of the fraction of the way at which the mode is, which has digits where the mode is at an end."""
        return (field - self._added() * mode) * self._width / self.stiffness

    def _fallen(self, field: Array, mode: Array, away: Array) -> Array:
        """The logarithm of the law at a distance from the mode over that at the mode.

        It is -k KL(p || r) - q d^2 / 2 with r the fraction of the way at which the mode is and p that of mode + d: no large
        terms cancel in it, in whatever field.
        """
        scaled, part = self._scaled(field, mode), away / self._width
        up = _relative_entropy(jax.nn.sigmoid(scaled), -jax.nn.softplus(-scaled), part)
        down = _relative_entropy(jax.nn.sigmoid(-scaled), -jax.nn.softplus(scaled), -part)
        return -self.stiffness * (up + down) - self._added() * away**2 / 2

    def mean(self, field: Array) -> Array:
        """The average, by quadrature."""
        mode, away, log_weights = self._law(field)
        return mode + jnp.sum(jax.nn.softmax(log_weights) * away, axis=-1)

    def variance(self, field: Array) -> Array:
        """The variance, by quadrature."""
        return _spread(*self._law(field)[1:])

    def cumulant(self, field: Array) -> Array:
        """The cumulant function, by quadrature."""
        mode, _, log_weights = self._law(field)
        # The maximum of x s - u(s), in a form without the logarithm of what is left to an end.
        pull, curved = self._added() * mode, self._added() * jnp.square(mode) / 2
        top = self.stiffness * jax.nn.softplus(self._scaled(field, mode)) + self.bounds[0] * (field - pull) + curved
        return top + jax.nn.logsumexp(log_weights, axis=-1)

    def sample(self, key: Array, field: Array) -> Array:
        """A draw for every element of `field`, exact, by rejection."""
        field = jnp.asarray(field, float)
        mode, _, log_weights = self._law(field)
        low, high = self.bounds[0] - mode, self.bounds[1] - mode

        def log_law(away: Array) -> Array:
            return jnp.where((away >= low) & (away <= high), self._fallen(field, mode, away), -jnp.inf)

        drawn = mode + _log_concave(key, log_law, jnp.exp(-jax.nn.logsumexp(log_weights, axis=-1)))
        return jnp.clip(drawn, *self.bounds)

    def heated(self, temperature: ArrayLike) -> Graded:
        """The same unit with stiffness and curvature divided by the temperature."""
        added = None if self.curvature is None else self.curvature / temperature
        return type(self)(self.stiffness / temperature, added)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """A unit of more curvature in a shifted field; refused where no minimum is left."""
        check.number("nudge: the output's least curvature with it", self.least_curvature + strength, above=0.0)
        return type(self)(self.stiffness, self._added() + strength), field + strength * target


class GradedSpin(Graded):
    r"""A neuron in [-1, 1] whose mode is tanh(field / stiffness): `Graded`, as `Spin` is to `Binary`.

    $$ u(s) = k\,[p \ln p + (1-p) \ln(1-p)] + \tfrac{q}{2} s^2, \qquad p = \tfrac12 (1 + s) $$

    Args:
        stiffness: k, one number or one for each neuron; 1 / k is the gain.
        curvature: q, which a nudge by squared error adds; none by default.

    Raises:
        ValueError: if the stiffness is not above zero, or not from 1e-30 to 1e30.

    >>> GradedSpin().mode(jnp.array([-1.0, 0.0, 1.0])).round(3)
    Array([-0.762,  0.   ,  0.762], dtype=float32)
    """

    bounds: ClassVar = (-1.0, 1.0)

    def __init__(self, stiffness: ArrayLike = 1.0, curvature: ArrayLike | None = None):
        super().__init__(stiffness, curvature)


def _spread(points: Array, log_weights: Array) -> Array:
    """The variance of a law given on points."""
    weights = jax.nn.softmax(log_weights)
    mean = jnp.sum(weights * points, axis=-1, keepdims=True)
    return jnp.sum(weights * (points - mean) ** 2, axis=-1)


def _relative_entropy(part: Array, log_part: Array, more: Array) -> Array:
    """The term p ln(p / r) - (p - r) of a relative entropy, for p = r + `more`; `log_part` is ln r, also where r underflows."""
    ratio = jnp.where(jnp.abs(more) < 0.1 * part, more / jnp.maximum(part, 1e-38), 0.0)
    series = 1 / 2 - ratio * (1 / 6 - ratio * (1 / 12 - ratio * (1 / 20 - ratio * (1 / 30 - ratio / 42))))
    total = jnp.maximum(part + more, 0.0)
    direct = -entr(total) - total * log_part - more
    return jnp.where(jnp.abs(more) < 0.1 * part, part * ratio**2 * series, direct)


def _log_concave(key: Array, log_law: Callable[[Array], Array], height: Array) -> Array:
    """Exact draws from log-concave laws by rejection (Devroye 1986, section VII.2), as distances from their modes.

    `log_law` is the logarithm of the density over its value at the mode, and `height` that value: every such density is below
    h min(1, e^{1 - h |d|}), of which half is the flat part. One proposal in four is kept, and after a thousand the law is
    not one: the draw is then NaN.
    """

    def propose(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        key, drawn, left, tried = carry
        key, *keys = jax.random.split(key, 5)
        shape = height.shape
        flat = jax.random.bernoulli(keys[0], 0.5, shape)
        beyond = jax.random.exponential(keys[1], shape)
        distance = jnp.where(flat, jax.random.uniform(keys[2], shape), 1 + beyond)
        uniform_key, sign_key = jax.random.split(keys[3])
        away = jax.random.rademacher(sign_key, shape, height.dtype) * distance / height
        bound = jnp.where(flat, 0.0, -beyond)
        kept = left & (jnp.log(jax.random.uniform(uniform_key, shape)) + bound < log_law(away))
        return key, jnp.where(kept, away, drawn), left & ~kept, tried + 1

    first = key, jnp.full(height.shape, jnp.nan), jnp.ones(height.shape, bool), jnp.zeros((), int)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[2]) & (carry[3] < 1000), propose, first)[1]
