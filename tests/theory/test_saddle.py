"""Averages, roots and maxima against values known in closed form."""

import numpy as np
import pytest
from scipy.special import factorial2

from equilibria.theory.saddle import gaussian_average, logistic_average, maximum, root


@pytest.mark.parametrize("power", [2, 4, 6, 8])
def test_gaussian_moments(power):
    # E z^(2k) = (2k - 1)!!, to rounding
    assert gaussian_average(lambda z: z**power) == pytest.approx(factorial2(power - 1), rel=1e-13)


def test_gaussian_average_keeps_leading_axes():
    scale = np.array([[0.5], [1.0]])
    np.testing.assert_allclose(
        gaussian_average(lambda z: np.cos(scale * z)), np.exp(-(scale[:, 0] ** 2) / 2), rtol=1e-13
    )


@pytest.mark.parametrize(("power", "value"), [(0, 1.0), (2, np.pi**2 / 12), (4, 7 * np.pi**4 / 240)])
def test_logistic_moments(power, value):
    assert logistic_average(lambda x: x**power) == pytest.approx(value, rel=1e-13)


def test_logistic_noise_is_temperature():
    # E cos(k x) = (pi k / 2) / sinh(pi k / 2) is the characteristic function of the density sech^2 / 2
    k = 0.5
    assert logistic_average(lambda x: np.cos(k * x)) == pytest.approx(
        (np.pi * k / 2) / np.sinh(np.pi * k / 2), rel=1e-12
    )


def test_root_element_by_element():
    levels = np.array([[0.1, 0.5], [1e-6, 0.999]])
    found = root(lambda x, level: np.tanh(x) - level, 0.0, 10.0, levels)
    assert found.converged.all()
    np.testing.assert_allclose(found.value, np.arctanh(levels), rtol=1e-12)


def test_root_without_a_change_of_sign_says_so():
    assert not root(lambda x: x * x + 1, -1.0, 1.0).converged


def test_maximum_takes_the_higher_of_two():
    def two_hills(x, height):
        return np.exp(-((x - 1) ** 2) / 0.1) + height * np.exp(-((x - 3) ** 2) / 0.1)

    # the place is known to the square root of rounding
    np.testing.assert_allclose(maximum(two_hills, 0.0, 4.0, [0.9, 1.1]).value, [1.0, 3.0], atol=1e-7)
