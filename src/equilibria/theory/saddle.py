"""What saddle-point equations have in common: averages over Gaussian and thermal noise, roots and maxima, many at once.

NumPy in double precision, element by element: functions take arrays that broadcast, and the solvers drop the elements
that have converged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import elementwise


def gaussian_average(function: Callable[[np.ndarray], np.ndarray], *, nodes: int = 128) -> np.ndarray:
    """The average E[f(z)] over a standard normal z.

    The trapezoidal rule on [-9, 9], beyond which the weight is below double precision. It converges exponentially: with
    128 nodes it is exact to rounding for a function as smooth as tanh(2 z), and a function twice as steep needs twice
    the nodes. For a spin in a field of any strength there is `neuron.py`.

    Args:
        function: f, which takes the array of nodes and returns an array whose last axis is that of the nodes.
        nodes: how many.

    Returns:
        The average, without that last axis.

    >>> round(float(gaussian_average(lambda z: z**4)), 12)
    3.0
    """
    points = np.linspace(-9, 9, nodes)
    density = np.exp(-points * points / 2)
    return function(points) @ (density / density.sum())


def logistic_average(function: Callable[[np.ndarray], np.ndarray], *, nodes: int = 32) -> np.ndarray:
    """The average E[f(x)] over thermal noise x, whose density is sech(x)^2 / 2.

    It turns a spin at temperature T into one at zero temperature: tanh(h / T) = E[sign(h + T x)]. Gauss's rule, good
    to 1e-12 for a function as smooth as erf(x / 2 sqrt(2)).

    Args:
        function: f, which takes the array of nodes and returns an array whose last axis is that of the nodes.
        nodes: how many.

    Returns:
        The average, without that last axis.

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
    """Where a function has its root or its maximum.

    >>> root(lambda x: x * x + 1, -1.0, 1.0).converged
    np.False_
    """

    value: np.ndarray
    converged: np.ndarray  # False, with a `value` of no use, where the ends do not bracket one or the steps ran out


def root(
    function: Callable[..., np.ndarray], low: ArrayLike, high: ArrayLike, *given: ArrayLike, tolerance: float = 1e-14
) -> Found:
    """The root of function(x, *given) in x, between two places where its signs differ.

    Args:
        function: takes arrays that broadcast.
        low: one end.
        high: the other.
        *given: the further arguments of `function`.
        tolerance: relative to x.

    Returns:
        The root of each element, and whether it was found.

    >>> root(lambda x, c: x * x - c, 0, 2, [2.0, 3.0]).value.round(6)
    array([1.414214, 1.732051])
    """
    tolerances = {"xatol": 1e-30, "xrtol": tolerance, "fatol": 0, "frtol": 0}
    result = elementwise.find_root(function, (low, high), args=given, tolerances=tolerances)
    return Found(result.x, result.success)


def maximum(
    function: Callable[..., np.ndarray], low: ArrayLike, high: ArrayLike, *given: ArrayLike, scan: int = 40
) -> Found:
    """Where function(x, *given) is largest in x between two places: the best of a scan, refined.

    The place is good to the square root of machine precision, the height to machine precision.

    Args:
        function: takes arrays that broadcast.
        low: one end.
        high: the other.
        *given: the further arguments of `function`.
        scan: how many places are looked at before the best is refined.

    Returns:
        The place of each element, and whether it was found.

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
