"""The machine's answer against exact sums, and the learning curve against what it must become in known cases."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from equilibria.theory.rbm import states
from equilibria.theory.rbm.components import ListedLaw
from equilibria.theory.rbm.curve import learning_curve
from equilibria.theory.rbm.linear import linear_flow
from equilibria.theory.rbm.response import response
from equilibria.theory.rbm.states import fixed_points

RNG = np.random.default_rng(4)


def binomial(units):
    """Values of sum_i s_i / sqrt(units) for free spins, and the log of how often each occurs."""
    up = np.arange(units + 1)
    return (2 * up - units) / np.sqrt(units), gammaln(units + 1) - gammaln(up + 1) - gammaln(units - up + 1)


def exact(strength, visible, hidden, field=0.0):
    """The law of (s_1, sigma_1) in a machine with one mode of +-1 components, and its values."""
    (s, number), (sigma, hidden_number) = binomial(visible), binomial(hidden)
    log = strength * np.outer(s, sigma) + number[:, None] + hidden_number + field * s[:, None]
    return np.exp(log - logsumexp(log)), s, sigma


# Corrections to a state are of relative order 1/(L gap^2), with L = 566 and a gap of 1 - w^2 below the transition and
# twice that beyond; at w = 1 only the order of magnitude sqrt(L) is claimed.
@pytest.mark.parametrize(
    ("strength", "tolerance"), [(0.3, 0.002), (0.8, 0.02), (1.0, 0.4), (1.2, 0.02), (1.5, 0.003), (2.0, 0.001)]
)
def test_response_is_that_of_the_exact_sum(strength, tolerance):
    law, s, sigma = exact(strength, 800, 400)
    got = response([strength], units=np.sqrt(800 * 400), aspect=0.5, components="bernoulli")
    assert got.correlations[0, 0] == pytest.approx(s @ law @ sigma, rel=tolerance)
    np.testing.assert_allclose(got.visible, 0)


def test_response_to_a_field():
    visible, hidden, field = 800, 400, 0.02  # of the order of 1/L, so that both signs count
    law, s, sigma = exact(1.4, visible, hidden, field)
    units = np.sqrt(visible * hidden)
    got = response([1.4], units=units, aspect=0.5, components="bernoulli", visible_field=field / np.sqrt(units))
    assert 0.1 < law.sum(axis=1) @ s / np.sqrt(units) < 0.7  # neither sign alone
    assert got.visible[0] == pytest.approx(law.sum(axis=1) @ s, rel=0.01)
    assert got.hidden[0] == pytest.approx(law.sum(axis=0) @ sigma, rel=0.01)
    assert got.correlations[0, 0] == pytest.approx(s @ law @ sigma, rel=0.01)


def test_weak_modes_answer_as_in_the_linear_machine():
    w = np.array([0.6, 0.3, 0.0])
    got = response(w, units=1e6).correlations
    # the gap is smoothed by 1/units: relative 1e-6 / 2 (1 - 0.36)^2
    np.testing.assert_allclose(got, np.diag(w / (1 - w**2)), rtol=1e-5, atol=1e-12)


def test_the_beginning_of_learning_is_linear():
    visible, hidden, samples = 60, 40, 200
    data = RNG.choice([-1.0, 1.0], size=(samples, visible))
    data[:, 1:20] = data[:, :1]  # a correlated block, of variance 20
    weights = 1e-3 * RNG.normal(size=(visible, hidden))
    times = np.array([0.0, 0.05, 0.12])
    u, w, vt = np.linalg.svd(weights, full_matrices=False)
    linear = linear_flow(data.T @ data / samples, u[:, :3] * w[:3] @ vt[:3], times)
    curve = learning_curve(data, weights, times, modes=3, tolerance=1e-6)
    # both layers saturate by terms of relative order w^2 N_v / N_h < 1e-3
    np.testing.assert_allclose(curve.strengths, linear.strengths[:, :3], rtol=2e-3)
    assert curve.strengths[-1, 0] > 1.5 * curve.strengths[0, 0]


def planted(strength, visible, hidden, samples):
    """Exact samples of a machine with one mode of +-1 components."""
    law, _, sigma = exact(strength, visible, hidden)
    pattern = RNG.choice([-1.0, 1.0], size=visible)
    along = RNG.choice(sigma, size=samples, p=law.sum(axis=0))
    chance = 1 / (1 + np.exp(-2 * strength * along[:, None] * pattern / np.sqrt(visible)))
    return np.where(RNG.random((samples, visible)) < chance, 1.0, -1.0), pattern


@pytest.mark.parametrize("learn_fields", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_planted_machine_is_found_again(learn_fields):
    data, pattern = planted(1.5, 200, 100, 1000)
    curve = learning_curve(
        data,
        0.01 * RNG.normal(size=(200, 100)),
        [0.0, 0.02, 0.1, 0.5],
        modes=2,
        components="bernoulli",
        learn_fields=learn_fields,
    )
    # the estimate of a strength from 1000 samples is good to about 1/sqrt(1000) of the width of its law
    assert curve.message == ""
    assert curve.strengths[-1, 0] == pytest.approx(1.5, abs=0.03)
    assert curve.strengths[-1, 1] < 0.5
    assert abs(curve.vectors[-1, :, 0] @ pattern) / np.sqrt(200) > 0.99
    assert curve.states[0] == pytest.approx(1, abs=1e-6)
    assert curve.states[-1] == pytest.approx(2, abs=0.1)
    np.testing.assert_allclose(curve.visible_rotation, -curve.visible_rotation.transpose(0, 2, 1), atol=1e-12)
    if not learn_fields:
        np.testing.assert_allclose(curve.visible_field, 0)


@pytest.fixture
def compiled_before(monkeypatch):
    """From when it is called on, compiling the search for states is an error."""

    def again(*_):
        raise AssertionError("the search is compiled again")

    return lambda: monkeypatch.setattr(states, "rest", again)


def test_states_and_answers_share_one_compiled_search(compiled_before):
    fixed_points([1.2], components="bernoulli")
    compiled_before()
    fixed_points([1.4], noise=0.2, aspect=0.5, visible_field=0.1, components="bernoulli")
    response([1.1], units=100.0, hidden_field=0.1, components="bernoulli")
    with pytest.raises(AssertionError, match="compiled again"):
        fixed_points([1.2], components=ListedLaw([1.0, 2.0, 4.0]))  # a law of its own


def test_curves_of_other_data_share_one_compiled_search(compiled_before):
    data, _ = planted(1.5, 200, 100, 1000)
    weights = 0.01 * RNG.normal(size=(200, 100))
    learning_curve(data, weights, [0.0], modes=2, components="bernoulli")
    compiled_before()
    learning_curve(data[:, :40], weights[:40, :20], [0.0], modes=2, components="bernoulli")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.zeros((5, 4))}, "data: got shape"),
        ({"weights": np.zeros((3, 2))}, "weights: got shape"),
        ({"modes": 3}, "modes: got 3; allowed: at most 2"),
        ({"times": [1.0, 0.0]}, "times: got"),
        ({"noise": -1.0}, "noise: got"),
        ({"components": "cauchy"}, "components: got"),
    ],
)
def test_bad_input(change, message):
    given = {"data": np.ones((5, 4)), "weights": np.ones((4, 2)), "times": [1.0]} | change
    with pytest.raises(ValueError, match=message):
        learning_curve(**given)


def test_units_must_be_positive():
    with pytest.raises(ValueError, match="units: got"):
        response([1.0], units=0)


def test_a_curve_that_cannot_go_on_says_so(monkeypatch):
    from equilibria.theory.rbm import curve as module

    data, _ = planted(1.5, 200, 100, 1000)
    advance = module._advance

    def stuck(problem, point, begin, duration, tolerance):
        if duration > 0.05:
            raise RuntimeError("too abruptly")
        return advance(problem, point, begin, duration, tolerance)

    monkeypatch.setattr(module, "_advance", stuck)
    weights = 0.01 * RNG.normal(size=(200, 100))
    curve = learning_curve(data, weights, [0.0, 0.02, 0.1, 0.5], modes=2, components="bernoulli")
    assert curve.times.tolist() == [0.0, 0.02]
    assert curve.strengths.shape == (2, 2)
    assert curve.message.startswith("stopped between times 0.02 and 0.1: too abruptly")
    with pytest.raises(RuntimeError, match="too abruptly"):
        learning_curve(data, weights, [0.1], modes=2, components="bernoulli")
