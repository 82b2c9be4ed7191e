"""What the components of a singular vector are drawn from, and the averages over a layer that follow.

A layer of spins feels fields h = sum_g slope_g c_g + sqrt(variance) x, with c_g i.i.d. components of zero mean and unit
variance and x a standard normal. Everything the theory needs is one function of the slopes and the variance,

    A(slopes, variance) = E ln 2 cosh h,   dA/dslope_g = E c_g tanh h,   2 dA/dvariance = E sech^2 h,

and A needs only the law's characteristic function phi(t) = E exp(i t c), because

    ln cosh h = int_0^inf (1 - cos k h) / (k sinh(pi k / 2)) dk.

So K modes cost K products on a line and not a K-dimensional integral, for every law. On equally spaced k the rule
converges exponentially: with spacing 2 pi / T it repeats the fields with period T, and sech^2 falls like exp(-2|h|).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from equilibria import check

Function = Callable[[jax.Array], jax.Array]
Ratios = tuple[jax.Array, jax.Array, jax.Array]
Values = np.ndarray | jax.Array  # NumPy's outside, JAX's inside compiled code


class Law(eqx.Module):
    """The distribution of a component: symmetric, of zero mean and unit variance.

    Subclass it and give `characteristic` and `reach`.

    >>> class Coin(Law):
    ...     def characteristic(self, t):
    ...         return jnp.cos(t)
    ...     def reach(self):
    ...         return 1.0
    >>> Coin().reach()
    1.0
    """

    @abstractmethod
    def characteristic(self, t: jax.Array) -> jax.Array:
        """The characteristic function phi(t) = E cos(t c), element by element and differentiable twice."""

    @abstractmethod
    def reach(self) -> float:
        """The largest |c| that matters (for an unbounded law: beyond it lies less than 1e-15)."""

    def ratios(self, t: jax.Array) -> Ratios:
        """The characteristic function phi, and phi'/phi and phi''/phi."""

        def derivative(function: Function) -> Function:
            return lambda t: jax.jvp(function, (t,), (jnp.ones_like(t),))[1]

        first = derivative(self.characteristic)
        return _ratios(self.characteristic(t), first(t), derivative(first)(t))


def _ratios(phi: jax.Array, first: jax.Array, second: jax.Array) -> Ratios:
    # A zero of phi is moved by nothing that counts; products of the ratios with phi then stay finite and right.
    phi = jnp.where(phi == 0, 1e-30, phi)
    return phi, first / phi, second / phi


class GaussianLaw(Law):
    """A standard normal component, c ~ N(0, 1)."""

    def characteristic(self, t: jax.Array) -> jax.Array:
        """The characteristic function."""
        return jnp.exp(-0.5 * t**2)

    def reach(self) -> float:
        """The largest |c| that matters."""
        return 9.0

    def ratios(self, t: jax.Array) -> Ratios:
        """The characteristic function phi, and phi'/phi and phi''/phi."""
        return self.characteristic(t), -t, t**2 - 1.0


class UniformLaw(Law):
    """A component uniform on [-sqrt 3, sqrt 3]."""

    def characteristic(self, t: jax.Array) -> jax.Array:
        """The characteristic function."""
        return self.ratios(t)[0]

    def reach(self) -> float:
        """The largest |c| that matters."""
        return 3.0**0.5

    def ratios(self, t: jax.Array) -> Ratios:
        """The characteristic function phi, and phi'/phi and phi''/phi."""
        square = 3.0 * t**2
        small = square < 0.25
        x = jnp.sqrt(jnp.where(small, 1.0, square))
        # sin(x)/x and its slope over x; near 0 their closed forms lose digits that their series keep
        n = np.arange(1, 10)
        series = np.append(1.0, np.cumprod(-1.0 / (2 * n * (2 * n + 1))))
        phi = jnp.where(small, jnp.polyval(series[::-1], square), jnp.sin(x) / x)
        slope = jnp.where(small, jnp.polyval((2 * n * series[1:])[::-1], square), (jnp.cos(x) - phi) / x**2)
        return _ratios(phi, 3.0 * t * slope, -3.0 * (phi + 2.0 * slope))


class BernoulliLaw(Law):
    """A component of -1 or +1."""

    def characteristic(self, t: jax.Array) -> jax.Array:
        """The characteristic function."""
        return jnp.cos(t)

    def reach(self) -> float:
        """The largest |c| that matters."""
        return 1.0

    def ratios(self, t: jax.Array) -> Ratios:
        """The characteristic function phi, and phi'/phi and phi''/phi."""
        return _ratios(jnp.cos(t), -jnp.sin(t), -jnp.cos(t))


class ListedLaw(Law):
    """A component drawn from a list, for example from the measured components of a singular vector.

    The list is symmetrised and scaled to unit variance.

    Args:
        values: the list; not all of it zero.

    Raises:
        ValueError: if the values are not finite, or all zero.

    >>> ListedLaw([1.0, 2.0, 3.0]).reach()
    1.388...
    """

    values: np.ndarray

    def __init__(self, values: ArrayLike) -> None:
        given = np.asarray(values, dtype=np.float64).ravel()
        check.number("values", given)
        scale = np.sqrt(np.mean(given**2)) if given.size else 0.0
        if scale == 0:
            check.refuse("values", f"{given.size} values, all zero", "at least one component that is not zero")
        self.values = given / scale

    def characteristic(self, t: jax.Array) -> jax.Array:
        """The characteristic function."""
        return jnp.mean(jnp.cos(t[..., None] * self.values), axis=-1)

    def reach(self) -> float:
        """The largest |c| that matters."""
        return float(np.abs(self.values).max())


LAWS: dict[str, Law] = {"gaussian": GaussianLaw(), "uniform": UniformLaw(), "bernoulli": BernoulliLaw()}


Components = str | Law | tuple[str | Law, str | Law]


def laws(components: Components) -> tuple[Law, Law]:
    """The laws of the visible and of the hidden components.

    Args:
        components: a name or a `Law` for both, or a pair (visible, hidden).

    Returns:
        The pair.

    Raises:
        ValueError: if a name is not known.

    >>> laws("uniform")
    (UniformLaw(), UniformLaw())
    """
    pair = components if isinstance(components, tuple) else (components, components)
    if len(pair) != 2:
        check.refuse("components", f"{len(pair)} laws", "one law, or a pair (visible, hidden)")
    visible, hidden = (law if isinstance(law, Law) else LAWS[check.choice("components", law, LAWS)] for law in pair)
    return visible, hidden


def waves(reach: float, *, precision: float = 1e-15, least: int = 256) -> np.ndarray:
    """Wavenumbers that integrate functions of a local field.

    Args:
        reach: how large the field may be.
        precision: about how well.
        least: their number is a power of two and not below this, so that compiled code is shared.

    Returns:
        The wavenumbers, equally spaced.

    Raises:
        ValueError: if the field is so large that it would take more than 2^14 of them.

    >>> waves(1.0).size, waves(100.0).size
    (256, 512)
    """
    digits = -np.log(precision)
    highest = (digits + 4.0) * 2.0 / np.pi
    period = reach + 0.5 * digits + 1.0
    number = max(least, 2 ** int(np.ceil(np.log2(highest * period / (2.0 * np.pi)))))
    if number > 2**14:
        check.refuse("strengths and fields", f"local fields up to {reach:.3g}", "local fields below about 4000")
    return (np.arange(number) + 0.5) * (highest / number)


class LayerAverages(NamedTuple):
    """Averages over a layer whose fields are h = sum_g slope_g c_g + sqrt(variance) x."""

    log_cosh: jax.Array  # A = E ln 2 cosh h
    along: jax.Array  # dA/dslope_a = E c_a tanh h
    square: jax.Array  # E tanh^2 h = 1 - 2 dA/dvariance
    curvature: jax.Array  # E c_a c_b sech^2 h, the slope of `along` in the slopes
    # the slope of E sech^2 h in the slopes: of `square` with a minus, twice that of `along` in the variance
    tilt: jax.Array
    heat: jax.Array  # the slope of `square` in the variance
    quartic: jax.Array  # E sech^4 h, from sech^4 = (4 sech^2 - (sech^2)'') / 6


def layer_averages(law: Law, slopes: jax.Array, variance: Values, waves: Values) -> LayerAverages:
    """All averages at once: a derivative in slope_a brings a factor k phi'/phi(k slope_a), one in variance -k^2/2."""
    phi, first, second = law.ratios(slopes[:, None] * waves)
    joint = jnp.prod(phi, axis=0) * jnp.exp(-0.5 * variance * waves**2)
    kernel = 2.0 * waves[0] / jnp.sinh(0.5 * jnp.pi * waves)
    density = kernel * joint
    pairs = -(density * waves * first) @ first.T
    return LayerAverages(
        jnp.log(2.0) + jnp.sum(kernel / waves * (1.0 - joint)),
        -first @ density,
        1.0 - density @ waves,
        # not pairs on the diagonal: (phi')^2 / phi there is not the second derivative
        jnp.where(jnp.eye(slopes.size, dtype=bool), -second @ (density * waves), pairs),
        first @ (density * waves**2),
        0.5 * density @ waves**3,
        density @ (waves * (4.0 + waves**2)) / 6.0,
    )
