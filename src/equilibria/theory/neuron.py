"""One spin in a Gaussian field: the averages that every replica-symmetric theory of spins needs, down to T = 0.

The field is h = A + X z with z standard normal, and the spin's mean is tanh(h / T). Where X > 2T the average over z is
done by hand and the one over the thermal noise by quadrature (`logistic_average`), else the other way round; so both
ends, T = 0 and X = 0, are exact and nothing is lost in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from equilibria.theory.saddle import gaussian_average, logistic_average

TINY = 1e-100  # stands for zero where one divides by a temperature; its square is still a number
BLOCK = 2048  # as many points at a time keep their quadrature nodes in the processor's cache

Averages = Callable[[np.ndarray, np.ndarray, np.ndarray], Sequence[np.ndarray]]  # columns of A, X, T -> rows


class Magnetisation(NamedTuple):
    """What a Gaussian field makes of a spin.

    >>> magnetisation(0.0, 1.0, 0.0).square  # frozen, in one direction or the other
    np.float64(1.0)
    """

    mean: np.ndarray  # E[tanh(h/T)]
    square: np.ndarray  # E[tanh(h/T)^2]
    slope: np.ndarray  # E[sech(h/T)^2] / T, the derivative of the mean by A: the susceptibility


def magnetisation(center: ArrayLike, spread: ArrayLike, temperature: ArrayLike) -> Magnetisation:
    """The averages of tanh(h/T), of its square and of its slope over a Gaussian field h = A + X z.

    Args:
        center: A.
        spread: X >= 0.
        temperature: T >= 0; the three broadcast.

    Returns:
        The three averages, in the shape of the arguments together.

    >>> magnetisation(1.0, 0.5, 0.0).mean.round(6)  # erf(1 / (0.5 sqrt 2))
    np.float64(0.9545)
    """

    def by_noise(center: np.ndarray, spread: np.ndarray, temperature: np.ndarray) -> Sequence[np.ndarray]:
        y, density = _standard(center, spread, temperature)
        mean, slope = logistic_average(lambda x: np.stack([erf(y(x) / np.sqrt(2)), density(y(x)) / spread]))
        return mean, 1 - temperature[:, 0] * slope, slope

    def by_field(center: np.ndarray, spread: np.ndarray, temperature: np.ndarray) -> Sequence[np.ndarray]:
        def moments(z: np.ndarray) -> np.ndarray:
            mean = np.tanh((center + spread * z) / temperature)
            return np.stack([mean, mean * mean, 1 - mean * mean])

        mean, square, slope = gaussian_average(moments)
        return mean, square, slope / temperature[:, 0]

    return Magnetisation(*_either(by_noise, by_field, center, spread, temperature))


class Thermodynamics(NamedTuple):
    """What is needed of a spin once its field is known: its share of the free energy and of the stability.

    >>> thermodynamics(2.0, 0.0, 0.0).pressure.round(6)
    np.float64(2.0)
    """

    pressure: np.ndarray  # T E[ln 2cosh(h/T)], E|h| at T = 0
    slope_square: np.ndarray  # E[sech(h/T)^4] / T^2, infinite at T = 0 if X > 0


def thermodynamics(center: ArrayLike, spread: ArrayLike, temperature: ArrayLike) -> Thermodynamics:
    """The averages of T ln 2cosh(h/T) and of (sech(h/T)^2 / T)^2 over a Gaussian field h = A + X z.

    Args:
        center: A.
        spread: X >= 0.
        temperature: T >= 0; the three broadcast.

    Returns:
        The two averages, in the shape of the arguments together.

    >>> thermodynamics(0.0, 1.0, 0.0).pressure.round(6)  # E|z| = sqrt(2 / pi)
    np.float64(0.797885)
    """

    def by_noise(center: np.ndarray, spread: np.ndarray, temperature: np.ndarray) -> Sequence[np.ndarray]:
        y, density = _standard(center, spread, temperature)
        pressure = logistic_average(lambda x: spread * (y(x) * erf(y(x) / np.sqrt(2)) + density(y(x))))
        # 6 sech^4 = 4 sech^2 - (sech^2)'' leaves the derivatives to the Gaussian
        slope, bend = logistic_average(lambda x: np.stack([density(y(x)), density(y(x)) * (y(x) ** 2 - 1)]))
        width, warmth = spread[:, 0], temperature[:, 0]
        fourth = (4 * slope - (warmth / width) ** 2 * bend) / (6 * width)
        return pressure, np.where(warmth > 0, fourth / np.maximum(warmth, TINY), np.inf)

    def by_field(center: np.ndarray, spread: np.ndarray, temperature: np.ndarray) -> Sequence[np.ndarray]:
        def moments(z: np.ndarray) -> np.ndarray:
            h = np.abs(center + spread * z)
            slope = (1 - np.tanh(h / temperature) ** 2) / temperature
            return np.stack([h + temperature * np.log1p(np.exp(-2 * h / temperature)), slope * slope])

        pressure, slope_square = gaussian_average(moments)
        return pressure, slope_square

    return Thermodynamics(*_either(by_noise, by_field, center, spread, temperature))


Function = Callable[[np.ndarray], np.ndarray]


def _standard(center: np.ndarray, spread: np.ndarray, temperature: np.ndarray) -> tuple[Function, Function]:
    """The field with thermal noise x, in units of its spread, and its density (twice that of z)."""
    return lambda x: (center + temperature * x) / spread, lambda y: np.sqrt(2 / np.pi) * np.exp(-y * y / 2)


def _either(by_noise: Averages, by_field: Averages, *given: ArrayLike) -> list[np.ndarray]:
    """Each point by the quadrature that suits it."""
    arrays = np.broadcast_arrays(*given)
    columns = np.stack([np.ravel(array) for array in arrays]).astype(float)[:, :, None]
    sharp = columns[1, :, 0] > np.maximum(2 * columns[2, :, 0], TINY ** (1 / 3))
    columns[2, ~sharp] = np.maximum(columns[2, ~sharp], TINY)
    parts = [
        (block, np.stack(average(*columns[:, block])))
        for chosen, average in ((sharp, by_noise), (~sharp, by_field))
        for block in _blocks(np.flatnonzero(chosen))
    ]
    results = np.empty((len(parts[0][1]), sharp.size))
    for block, values in parts:
        results[:, block] = values
    return [row.reshape(arrays[0].shape)[()] for row in results]


def _blocks(places: np.ndarray) -> list[np.ndarray]:
    return [places[start : start + BLOCK] for start in range(0, max(places.size, 1), BLOCK)]
