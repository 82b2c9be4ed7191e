"""What saddle-point equations have in common: averages over Gaussian and thermal noise, roots and maxima, many at once.

NumPy in double precision, element by element: functions take arrays that broadcast, and the solvers drop the elements
that have converged. Only `bracketed_root` is for compiled code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import elementwise


def gaussian_average(function: Callable, *, nodes: int = 128) -> Any:
    """The average E[f(z)] of `function` over a standard normal z.

    The trapezoidal rule on [-9, 9], beyond which the weight is below double precision. It converges exponentially: with
    128 nodes it is exact to rounding for a function as smooth as tanh(2 z), and a function twice as steep needs twice
    the nodes. For a spin in a field of any strength there is `neuron.py`.

    `function` takes the array of nodes and returns an array whose last axis is that of the nodes.

    >>> round(float(gaussian_average(lambda z: z**4)), 12)
    3.0
    """
    points = np.linspace(-9, 9, nodes)
    density = np.exp(-points * points / 2)
    return function(points) @ (density / density.sum())


def logistic_average(function: Callable, *, nodes: int = 32) -> Any:
    """The average E[f(x)] of `function` over thermal noise x, whose density is sech(x)^2 / 2.

    It turns a spin at temperature T into one at zero temperature: tanh(h / T) = E[sign(h + T x)]. Gauss's rule, good
    to 1e-12 for a function as smooth as erf(x / 2 sqrt(2)). `function` is as in `gaussian_average`.

    >>> round(float(logistic_average(lambda x: x**2)), 6)  # pi^2 / 12
    0.822467
    """
    points, weights = _logistic_rule(nodes)
    return function(points) @ weights


@functools.cache
def _logistic_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    n = np.arange(1.0, nodes)  # x p_n = p_{n+1} + (pi^2 n^4 / (4 (4 n^2 - 1))) p_{n-1}: continuous Hahn polynomials
    points, vectors = eigh_tridiagonal(np.zeros(nodes), np.pi * n**2 / np.sqrt(16 * n**2 - 4))
    return points, vectors[0] ** 2


class Found(NamedTuple):
    """Where a function has its root or its maximum."""

    value: Any
    converged: Any  # False, with a `value` of no use, where the ends do not bracket one or the steps ran out


def root(function: Callable, low: ArrayLike, high: ArrayLike, *given: ArrayLike, tolerance: float = 1e-14) -> Found:
    """The root of function(x, *given) in x between `low` and `high`, where its signs differ.

    `tolerance` is relative to x.

    >>> root(lambda x, c: x * x - c, 0, 2, [2.0, 3.0]).value.round(6)
    array([1.414214, 1.732051])
    """
    tolerances = {"xatol": 1e-30, "xrtol": tolerance, "fatol": 0, "frtol": 0}
    result = elementwise.find_root(function, (low, high), args=given, tolerances=tolerances)
    return Found(result.x, result.success)


def bracketed_root(
    function: Callable,
    low: jax.typing.ArrayLike,
    high: jax.typing.ArrayLike,
    *,
    tolerance: float = 1e-14,
    steps: int = 100,
) -> Found:
    """`root` for one point inside compiled code (jit, vmap): the root of a scalar `function` between `low` and `high`.

    Chandrupatla's method (Adv. Eng. Software 28, 145, 1997): inverse quadratic interpolation where the last points
    are well placed for it, bisection elsewhere. The root never leaves its bracket. `tolerance` is relative to the root,
    and to the first bracket for a root at zero.

    >>> with jax.enable_x64(True):
    ...     print(bracketed_root(lambda x: x * x - 2, 0.0, 2.0).value)
    1.41421356...
    """
    low, high = jnp.asarray(low, float), jnp.asarray(high, float)
    floor = 0.01 * tolerance * jnp.abs(high - low)

    def unfinished(carry):
        new, f_new, old, _, _, _, _, step = carry
        return (jnp.abs(new - old) > tolerance * jnp.abs(new) + floor) & (f_new != 0) & (step < most)

    def advance(carry):
        new, f_new, old, f_old, _, _, fraction, step = carry
        trial = new + fraction * (old - new)
        f_trial = function(trial)
        same = jnp.sign(f_trial) == jnp.sign(f_new)
        # (new, old) stays a bracket; `last` is the point that leaves it
        last, f_last = jnp.where(same, new, old), jnp.where(same, f_new, f_old)
        old, f_old = jnp.where(same, old, new), jnp.where(same, f_old, f_new)
        swap = jnp.abs(f_old) < jnp.abs(f_trial)
        new, f_new = jnp.where(swap, old, trial), jnp.where(swap, f_old, f_trial)
        old, f_old = jnp.where(swap, trial, old), jnp.where(swap, f_trial, f_old)
        xi, phi = (new - old) / (last - old), (f_new - f_old) / (f_last - f_old)
        usable = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = f_new / (f_old - f_new) * f_last / (f_old - f_last) + (last - new) / (old - new) * f_new / (
            f_last - f_new
        ) * f_old / (f_last - f_old)
        margin = jnp.minimum((0.5 * tolerance * jnp.abs(new) + floor) / jnp.abs(old - new), 0.5)
        fraction = jnp.clip(jnp.where(usable, quadratic, 0.5), margin, 1 - margin)
        return new, f_new, old, f_old, last, f_last, fraction, step + 1

    f_low, f_high = function(low), function(high)
    swap = jnp.abs(f_low) < jnp.abs(f_high)
    new, f_new = jnp.where(swap, low, high), jnp.where(swap, f_low, f_high)
    old, f_old = jnp.where(swap, high, low), jnp.where(swap, f_high, f_low)
    bracketed = jnp.sign(f_low) * jnp.sign(f_high) <= 0
    most = jnp.where(bracketed, steps, 0)
    carry = (new, f_new, old, f_old, old, f_old, jnp.full_like(new, 0.5), jnp.zeros((), int))
    new, f_new, *_, step = jax.lax.while_loop(unfinished, advance, carry)
    return Found(new, bracketed & ((step < most) | (f_new == 0)))


def maximum(function: Callable, low: ArrayLike, high: ArrayLike, *given: ArrayLike, scan: int = 40) -> Found:
    """Where function(x, *given) is largest in x between `low` and `high`: the best of a scan, refined.

    The place is good to the square root of machine precision, the height to machine precision.

    >>> maximum(lambda x, c: x * np.exp(-c * x), 0, 5, [1.0, 2.0]).value.round(6)
    array([1. , 0.5])
    """
    low, high, *arrays = np.broadcast_arrays(low, high, *given)
    points = np.linspace(low, high, scan, axis=-1)
    heights = function(points, *(array[..., None] for array in arrays))
    best = np.clip(np.argmax(heights, axis=-1), 1, scan - 2)[..., None]
    bracket = tuple(np.take_along_axis(points, best + step, axis=-1)[..., 0] for step in (-1, 0, 1))
    result = elementwise.find_minimum(lambda *x: -function(*x), bracket, args=tuple(arrays), tolerances={"xrtol": 1e-9})
    return Found(np.where(result.success, result.x, bracket[1]), result.success)
