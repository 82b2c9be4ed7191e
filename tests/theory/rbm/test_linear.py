"""The linear machine against automatic differentiation, gradient ascent and Gaussian formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from equilibria.theory.rbm.linear import linear_fixed_point, linear_flow, linear_likelihood, linear_log_partition

RNG = np.random.default_rng(2)
SIZES = {"visible_variance": 0.8, "hidden_variance": 1.5}


def problem(visible=5, hidden=3):
    spread = RNG.normal(size=(visible, 2 * visible))
    return spread @ spread.T / visible, 0.1 * RNG.normal(size=(visible, hidden))


def test_likelihood_is_that_of_the_gaussian():
    _, weights = problem()
    data = RNG.normal(size=(50, 5))
    law = multivariate_normal(cov=np.linalg.inv(np.eye(5) / 0.8 - 1.5 * weights @ weights.T))
    expected = law.logpdf(data).mean()
    assert linear_likelihood(data.T @ data / 50, weights, **SIZES) == pytest.approx(expected, rel=1e-12)


def test_beyond_the_normalisable_range():
    # a little beyond the edge: at the edge itself a rounding decides
    weights = np.diag([0.5, (0.8 * 1.5) ** -0.5 * (1 + 1e-12)])
    assert linear_log_partition(weights, **SIZES) == np.inf
    assert linear_likelihood(np.eye(2), weights * 1.1, **SIZES) == -np.inf
    with pytest.raises(ValueError, match=r"weights: got a singular value of 1\.\d+; allowed: below 0\.91"):
        linear_flow(np.eye(2), weights * 1.1, [1.0], **SIZES)


def test_flow_is_gradient_ascent_on_the_likelihood():
    moments, weights = problem()
    with jax.enable_x64(True):

        def likelihood(w):
            precision = jnp.eye(5) / 0.8 - 1.5 * w @ w.T
            return 0.5 * (jnp.linalg.slogdet(precision)[1] - jnp.sum(precision * moments))

        gradient = jax.grad(likelihood)

        @jax.jit
        def ascend(step, updates):
            return jax.lax.fori_loop(0, updates, lambda _, w: w + step * gradient(w), jnp.asarray(weights))

        # the error of ascent with a finite step is linear in it: three steps remove it up to its cube, 1e-9 here
        coarse, middle, fine = (np.asarray(ascend(step, round(0.5 / step))) for step in (1e-3, 5e-4, 2.5e-4))
    limit = (coarse - 6 * middle + 8 * fine) / 3
    flow = linear_flow(moments, weights, [0.5], **SIZES)
    np.testing.assert_allclose(flow.weights[0], limit, atol=1e-6)
    assert np.abs(fine - weights).max() > 0.1


def test_flow_ends_at_the_fixed_point_aligned_with_the_data():
    moments = np.diag([6.0, 3.0, 1.5, 0.5, 0.1])
    _, weights = problem()
    flow = linear_flow(moments, weights, np.linspace(0, 60, 30), **SIZES)
    np.testing.assert_allclose(flow.strengths[-1], linear_fixed_point([6.0, 3.0, 1.5], **SIZES), atol=1e-6)
    np.testing.assert_allclose(flow.overlaps[-1], 1, atol=1e-6)
    assert (np.diff(flow.likelihood) > -1e-9).all()


def test_weak_directions_decay_to_zero():
    np.testing.assert_allclose(linear_fixed_point([0.8, 0.79, 0.0], **SIZES), 0)
    flow = linear_flow(np.diag([0.5, 0.2]), 0.3 * np.eye(2), [30.0], **SIZES)
    assert flow.strengths[-1, 0] < 1e-4


def test_fixed_point_is_stationary():
    given = np.array([0.9, 2.0, 50.0])
    w = linear_fixed_point(given, **SIZES)
    np.testing.assert_allclose(given - 0.8 / (1 - 0.8 * 1.5 * w**2), 0, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_flow([[1.0, 2.0], [0.0, 1.0]], np.zeros((2, 1)), [1.0]), "covariance: got"),
        (lambda: linear_flow(np.eye(2), np.zeros((3, 1)), [1.0]), "weights: got shape"),
        (lambda: linear_flow(np.eye(2), np.zeros((2, 1)), [1.0, 0.5]), "times: got"),
        (lambda: linear_fixed_point([1.0], visible_variance=0.0), "visible_variance: got"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
