"""The Curie-Weiss model against its own equation, exact sums and its critical behaviour."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from equilibria.theory import curie_weiss


def test_landmarks():
    np.testing.assert_allclose(curie_weiss([0.5, 0.8]).m, [0.9575040, 0.7104118], atol=5e-8)


def test_equation_holds_up_to_the_critical_point():
    temperature = np.concatenate([np.linspace(0.01, 0.99, 50), 1 - 10.0 ** -np.arange(3, 12)])
    magnet = curie_weiss(temperature)
    assert magnet.converged.all()
    assert (magnet.m > 0).all()
    np.testing.assert_allclose(magnet.m, np.tanh(magnet.m / temperature), rtol=1e-12)


def test_critical_exponent():
    # m^2 -> 3 (1 - T), with a relative correction of order 1 - T
    assert curie_weiss(1 - 1e-6).m ** 2 / 3e-6 == pytest.approx(1, abs=1e-5)


def test_nothing_above_the_critical_temperature():
    assert curie_weiss([1.0, 1.5]).m.tolist() == [0.0, 0.0]
    assert curie_weiss(1.5).free_energy == pytest.approx(-1.5 * np.log(2), rel=1e-14)


@pytest.mark.parametrize(("temperature", "field"), [(0.7, 0.0), (0.7, 0.1), (1.3, 0.2)])
def test_free_energy_is_the_limit_of_exact_sums(temperature, field):
    # E = -(sum s)^2 / 2N - h sum s; ln Z / N approaches the limit as ln N / N
    spins = 20_000
    up = np.arange(spins + 1)
    m = 2 * up / spins - 1
    log_weight = gammaln(spins + 1) - gammaln(up + 1) - gammaln(spins - up + 1)
    exact = -temperature * logsumexp(log_weight + spins * (m * m / 2 + field * m) / temperature) / spins
    assert curie_weiss(temperature, field).free_energy == pytest.approx(exact, abs=temperature * np.log(spins) / spins)


@pytest.mark.parametrize(("name", "value"), [("temperature", -0.1), ("temperature", np.nan), ("field", -1.0)])
def test_bad_input_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: got"):
        curie_weiss(**{"temperature": 0.5, name: value})
