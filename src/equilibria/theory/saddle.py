"""What saddle-point equations have in common: Gaussian averages, bracketed roots, maxima, many points at once.

Everything here is written for one point and runs in double precision. `pointwise` turns a function of scalars into one
of NumPy arrays, compiled once whatever their shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


def gaussian_average(function: Callable, *, nodes: int = 64) -> Any:
    """The average E[f(z)] of `function` over a standard normal z.

    The trapezoidal rule on [-9, 9], beyond which the weight is below double precision. It converges exponentially: with
    64 nodes it is exact to rounding for a function that varies over distances of order one or more (tanh(b z) up to
    b = 1); in general give about 64 nodes for each unit of b. A spin in a strong field: see `neuron.py`.

    `function` takes a scalar and returns an array or a tree of them.

    >>> with jax.enable_x64(True):
    ...     print(round(float(gaussian_average(lambda z: z**4)), 12))
    3.0
    """
    return _average(function, np.linspace(-9, 9, nodes), lambda z: np.exp(-z * z / 2))


def logistic_average(function: Callable, *, nodes: int = 112) -> Any:
    """The average E[f(x)] of `function` over thermal noise x, whose density is sech(x)^2 / 2.

    It turns a spin at temperature T into one at zero temperature: tanh(h / T) = E[sign(h + T x)]. The same rule as
    `gaussian_average`, on [-16, 16].

    >>> with jax.enable_x64(True):
    ...     print(round(float(logistic_average(lambda x: x**2) - np.pi**2 / 12), 12))
    0.0
    """
    return _average(function, np.linspace(-16, 16, nodes), lambda x: np.cosh(x) ** -2.0)


def _average(function: Callable, points: np.ndarray, density: Callable) -> Any:
    weights = density(points) / density(points).sum()
    return jax.tree.map(lambda values: jnp.tensordot(weights, values, axes=1), jax.vmap(function)(jnp.asarray(points)))


class Root(NamedTuple):
    """Where a function of one variable vanishes."""

    value: jax.Array
    converged: jax.Array  # False where the bracket shows no change of sign or the steps ran out


def bracketed_root(
    function: Callable,
    low: jax.typing.ArrayLike,
    high: jax.typing.ArrayLike,
    *,
    tolerance: float = 1e-14,
    steps: int = 100,
) -> Root:
    """The root of a continuous scalar `function` between `low` and `high`, where its signs differ.

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
        return (jnp.abs(new - old) > tolerance * jnp.abs(new) + floor) & (f_new != 0) & (step < steps)

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
    steps = jnp.where(bracketed, steps, 0)
    carry = (new, f_new, old, f_old, old, f_old, jnp.full_like(new, 0.5), jnp.zeros((), int))
    new, f_new, *_, step = jax.lax.while_loop(unfinished, advance, carry)
    return Root(new, bracketed & ((step < steps) | (f_new == 0)))


def maximum(function: Callable, low: jax.typing.ArrayLike, high: jax.typing.ArrayLike, *, scan: int = 24) -> jax.Array:
    """Where a scalar `function` is largest between `low` and `high`: a scan of the interval, then golden sections.

    The place is good to the square root of machine precision, the height to machine precision.

    >>> with jax.enable_x64(True):
    ...     print(round(float(maximum(lambda x: x * jnp.exp(-x), 0.0, 5.0)), 6))
    1.0
    """
    points = low + (high - low) * jnp.arange(scan) / (scan - 1)
    best = jnp.clip(jnp.argmax(jax.lax.map(function, points)), 1, scan - 2)
    golden = (np.sqrt(5) - 1) / 2

    def shrink(_, bracket):
        left, right, inner, f_inner = bracket
        # the new point mirrors the old one, so that one of the two lies at the golden section of the new bracket
        outer = left + right - inner
        f_outer = function(outer)
        (x, fx), (y, fy) = (
            (jnp.minimum(inner, outer), jnp.where(inner < outer, f_inner, f_outer)),
            (jnp.maximum(inner, outer), jnp.where(inner < outer, f_outer, f_inner)),
        )
        rising = fy > fx
        return jnp.where(rising, x, left), jnp.where(rising, right, y), jnp.where(rising, y, x), jnp.maximum(fx, fy)

    left, right = points[best - 1], points[best + 1]
    inner = left + golden * (right - left)
    return jax.lax.fori_loop(0, 36, shrink, (left, right, inner, function(inner)))[2]


def pointwise(function: Callable, *, chunk: int = 256) -> Callable:
    """`function` of scalars, as a function of NumPy arrays that broadcast; double precision in and out.

    The points are solved `chunk` at a time, so that one compilation serves every shape and easy chunks end early.

    >>> pointwise(lambda x, y: x * y)(np.array([1.0, 2.0]), 3)
    array([3., 6.])
    """
    compiled = jax.jit(jax.vmap(function))

    @functools.wraps(function)
    def on_arrays(*arguments: Any) -> Any:
        arrays = np.broadcast_arrays(*(np.asarray(argument, np.float64) for argument in arguments))
        shape, size = arrays[0].shape, arrays[0].size
        flat = [np.resize(array.ravel(), (max(1, -(-size // chunk)), chunk)) for array in arrays]
        with jax.enable_x64(True):
            parts = [jax.tree.map(np.asarray, compiled(*rows)) for rows in zip(*flat, strict=True)]
        return jax.tree.map(lambda *pieces: np.concatenate(pieces)[:size].reshape(shape), *parts)

    return on_arrays
