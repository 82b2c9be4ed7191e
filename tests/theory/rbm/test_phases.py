"""The phases of one mode in noise, their lines, and the spin glass of Sherrington and Kirkpatrick."""

import numpy as np
import pytest

from equilibria.theory.rbm.phases import breaking_line, critical_strength, phase_diagram


def test_phases_and_their_lines():
    noises, strengths = np.array([0.0, 0.5, 0.95, 1.3, 1.8]), np.array([0.0, 0.5, 0.97, 1.03, 1.5, 3.0])
    data = phase_diagram(noises, strengths, aspect=0.5)
    assert data.converged.all()
    assert float(data.residual.max()) < 1e-8
    critical = critical_strength(noises, aspect=0.5)
    np.testing.assert_allclose(critical[:3], 1, atol=1e-9)
    expected = np.where(strengths > critical[:, None], 1, np.where(noises[:, None] > 1, 2, 0))
    np.testing.assert_array_equal(data.phase, expected)
    assert (data.replicon.values[expected == 2] > 1).all()
    assert (data.replicon.values[expected == 0] < 1).all()
    sigma = breaking_line([1.5], aspect=0.5)[0]
    near = phase_diagram([sigma - 1e-4, sigma + 1e-4], [1.5], aspect=0.5).replicon.values[:, 0]
    assert near[0] < 1 < near[1]


def test_the_spin_glass_is_that_of_sherrington_and_kirkpatrick_when_square():
    noise = 1.4
    q = 0.5
    x, p = np.polynomial.hermite_e.hermegauss(120)
    p = p / p.sum()
    for _ in range(2000):
        q = p @ np.tanh(noise * np.sqrt(q) * x) ** 2
    data = phase_diagram([noise], [0.0])
    assert float(data.hidden_overlap[0, 0]) == pytest.approx(q, abs=1e-8)
    assert critical_strength([noise])[0] == pytest.approx(1 / (1 - q), rel=1e-7)


def test_bad_input():
    with pytest.raises(ValueError, match="noise: got shape"):
        phase_diagram([[1.0]], [1.0])
