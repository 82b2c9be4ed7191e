"""A spin in a Gaussian field against adaptive quadrature, on both sides of the switch between the two rules."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf

from equilibria.theory.neuron import magnetisation, thermodynamics


def average(function, center, spread, temperature):
    kinks = sorted({float(np.clip((k * temperature - center) / spread, -9, 9)) for k in (-20, -5, -1, 0, 1, 5, 20)})
    edges = [-9.0, *kinks, 9.0]
    pieces = [
        quad(
            lambda z: function((center + spread * z) / temperature) * np.exp(-z * z / 2),
            low,
            high,
            epsabs=1e-14,
            limit=200,
        )[0]
        for low, high in itertools.pairwise(edges)
        if high > low
    ]
    return sum(pieces) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("center", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("ratio", [0.01, 1.0, 1.99, 2.01, 5.0, 100.0])
def test_averages(center, ratio):
    temperature = 0.1
    spread = ratio * temperature
    place = center * max(spread, temperature)
    given = (place, spread, temperature)
    answer, more = magnetisation(*given), thermodynamics(*given)
    # the two rules are good to 1e-12 in units of the quantity's own scale, the fourth power to 1e-10
    scale = max(spread, temperature)
    assert answer.mean == pytest.approx(average(np.tanh, *given), abs=2e-12)
    assert answer.square == pytest.approx(average(lambda u: np.tanh(u) ** 2, *given), abs=2e-12)
    assert answer.slope == pytest.approx(
        average(lambda u: np.exp(-2 * np.logaddexp(u, -u)) * 4, *given) / temperature, abs=2e-12 / scale
    )
    assert more.pressure == pytest.approx(
        temperature * average(lambda u: np.logaddexp(u, -u), *given), abs=2e-12 * scale
    )
    fourth = average(lambda u: np.exp(-4 * np.logaddexp(u, -u)) * 16, *given) / temperature**2
    assert more.slope_square == pytest.approx(fourth, abs=2e-10 / (scale * temperature))


def test_zero_temperature_in_closed_form():
    answer, more = magnetisation(0.3, 0.5, 0.0), thermodynamics(0.3, 0.5, 0.0)
    y = 0.3 / 0.5
    density = np.sqrt(2 / np.pi) * np.exp(-y * y / 2)
    assert answer.mean == pytest.approx(erf(y / np.sqrt(2)), rel=1e-14)
    assert answer.square == 1
    assert answer.slope == pytest.approx(density / 0.5, rel=1e-14)
    assert more.pressure == pytest.approx(0.3 * erf(y / np.sqrt(2)) + 0.5 * density, rel=1e-14)
    assert more.slope_square == np.inf


def test_no_noise_at_all():
    # the weights of 128 nodes add up to 1 but for their roundings
    np.testing.assert_allclose(magnetisation([-1.0, 0.0, 1.0], 0.0, 0.0).mean, [-1, 0, 1], rtol=1e-14)


def test_many_points_and_none():
    many = magnetisation(np.linspace(0, 1, 5000), 0.3, 0.1).mean
    # a processor may add up the nodes of many points in another order than those of one
    assert many[1234] == pytest.approx(magnetisation(np.linspace(0, 1, 5000)[1234], 0.3, 0.1).mean, rel=1e-14)
    assert magnetisation(np.empty((0, 3)), 0.3, 0.1).mean.shape == (0, 3)
