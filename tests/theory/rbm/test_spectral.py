"""Moving singular vectors, the data's pull and the law of noise, each against an independent computation."""

import numpy as np
import pytest
from scipy.integrate import quad

from equilibria.theory.rbm.spectral import (
    empirical_term,
    hidden_means,
    marchenko_pastur,
    marchenko_pastur_edges,
    marchenko_pastur_fit,
    projected_dynamics,
)

RNG = np.random.default_rng(1)


def differentiated_svd(weights, velocity, step=1e-5):
    """Central differences of the singular value decomposition, signs of the vectors aligned."""
    u, w, vt = np.linalg.svd(weights, full_matrices=False)
    sides = []
    for sign in (1, -1):
        left, values, right = np.linalg.svd(weights + sign * step * velocity, full_matrices=False)
        flip = np.sign(np.sum(left * u, axis=0))
        sides.append((values, left * flip, right.T * flip))
    dw, du, dv = ((plus - minus) / (2 * step) for plus, minus in zip(*sides, strict=True))
    return u, w, vt.T, dw, du.T @ u, dv.T @ vt.T


@pytest.mark.parametrize("shape", [(7, 4), (4, 4), (4, 7)])
def test_rotations_are_those_of_a_differentiated_svd(shape):
    weights, velocity = RNG.normal(size=(2, *shape))
    u, w, v, dw, visible, hidden = differentiated_svd(weights, velocity)
    motion = projected_dynamics(w, u.T @ velocity @ v)
    # central differences: error of order step^2 = 1e-10 times third derivatives, plus rounding 1e-16 / step = 1e-11
    np.testing.assert_allclose(motion.strengths, dw, atol=1e-7)
    np.testing.assert_allclose(motion.visible, visible, atol=1e-7)
    np.testing.assert_allclose(motion.hidden, hidden, atol=1e-7)
    assert not motion.degenerate.any()


def test_rotations_solve_the_equation_they_come_from():
    w, speed = np.array([3.0, 2.0, 0.5]), RNG.normal(size=(3, 3))
    motion = projected_dynamics(w, speed)
    # W = sum u w v^T: d(W)_ab = delta_ab dw_a + Omega^v_ba w_b + w_a Omega^h_ab
    rebuilt = np.diag(motion.strengths) + motion.visible.T * w + w[:, None] * motion.hidden
    np.testing.assert_allclose(rebuilt, speed, atol=1e-14)


def test_equal_singular_values_are_marked_and_their_rotation_left_out():
    motion = projected_dynamics([1.0, 1.0, 0.0, 0.0], RNG.normal(size=(4, 4)))
    assert motion.degenerate[0, 1]
    assert motion.degenerate[2, 3]
    assert motion.degenerate.sum() == 4
    assert np.isfinite(motion.visible).all()
    assert np.isfinite(motion.hidden).all()
    np.testing.assert_allclose(motion.visible, -motion.visible.T)


def draw(law, size):
    return {
        "gaussian": RNG.normal(size=size),
        "uniform": RNG.uniform(-(3**0.5), 3**0.5, size=size),
        "bernoulli": RNG.choice([-1.0, 1.0], size=size),
    }[law]


@pytest.mark.parametrize("law", ["gaussian", "uniform", "bernoulli"])
def test_the_datas_pull_is_that_of_a_large_hidden_layer(law):
    hidden, w, theta = 200_000, np.array([30.0, 20.0]), np.array([100.0, -50.0])
    projections = RNG.normal(size=(40, 2)) * 10
    v = draw(law, (hidden, 2)) / np.sqrt(hidden)
    answers = np.tanh((projections * w + theta) @ v.T) @ v
    # each is a mean of `hidden` bounded terms times sqrt(hidden): its standard error is at most one; five of them
    np.testing.assert_allclose(
        hidden_means(projections, w, hidden=hidden, hidden_field=theta, components=law), answers, atol=5
    )
    scale = np.abs(answers).max()
    assert scale > 100  # so that the tolerance means something
    term = empirical_term(projections, w, hidden=hidden, hidden_field=theta, components=law)
    np.testing.assert_allclose(term, projections.T @ answers / 40, atol=5 * np.abs(projections).mean())


def test_gaussian_components_follow_equation_9():
    from equilibria.theory.saddle import gaussian_average

    w, theta, projections = np.array([0.8, 1.4]), np.array([0.3, 0.0]), RNG.normal(size=(30, 2)) * 8
    pull = projections * w + theta
    size = np.sqrt(np.sum(pull**2, axis=1) / 50)
    soft = np.array([gaussian_average(lambda y, b=b: np.cosh(b * y) ** -2, nodes=400) for b in size])
    expected = projections.T @ (pull * soft[:, None]) / 30
    np.testing.assert_allclose(empirical_term(projections, w, hidden=50, hidden_field=theta), expected, rtol=1e-11)


def test_weak_weights_give_the_linear_limit():
    projections, w = RNG.normal(size=(30, 3)), np.array([1e-5, 2e-5, 0.0])
    for law in ("gaussian", "uniform", "bernoulli"):
        term = empirical_term(projections, w, hidden=10, components=law)
        np.testing.assert_allclose(term, projections.T @ projections / 30 * w, rtol=1e-8, atol=1e-18)


def test_noise_adds_to_the_hidden_fields():
    w, projections = np.array([2.0]), np.array([[5.0]])
    quiet = hidden_means(projections, w, hidden=20)
    loud = hidden_means(projections, w, hidden=20, noise=0.7, visible=80)
    # a noise field of variance sigma^2 sqrt(N_v/N_h) and a second, silent Gaussian mode of that size do the same
    silent = hidden_means([[5.0, 1.0]], [2.0, np.sqrt(0.49 * 2 * 20)], hidden=20)
    assert loud[0, 0] < quiet[0, 0]
    np.testing.assert_allclose(loud[0, 0], silent[0, 0], rtol=1e-12)


@pytest.mark.parametrize("sizes", [(300, 100), (100, 300), (200, 200)])
def test_marchenko_pastur_density(sizes):
    low, high = marchenko_pastur_edges(*sizes, variance=0.02)
    total = quad(lambda x: marchenko_pastur(x, *sizes, variance=0.02), low, high)[0]
    square = quad(lambda x: x**2 * marchenko_pastur(x, *sizes, variance=0.02), low, high)[0]
    assert total == pytest.approx(1, abs=1e-6)
    # sum of squared singular values = sum of squared entries
    assert square * min(sizes) == pytest.approx(0.02 * sizes[0] * sizes[1], rel=1e-6)
    assert marchenko_pastur(high * 1.01, *sizes, variance=0.02) == 0


def test_noise_is_recognised_and_a_mode_stands_out():
    noise = RNG.normal(size=(300, 200)) * 0.1
    fit = marchenko_pastur_fit(noise)
    # the bulk is rigid: deviations of order ln(n)/n = 0.03
    assert fit.distance < 0.03
    assert fit.variance == pytest.approx(0.01, rel=0.03)
    u, v = np.linalg.qr(RNG.normal(size=(300, 2)))[0], np.linalg.qr(RNG.normal(size=(200, 2)))[0]
    spiked = marchenko_pastur_fit(noise + u @ np.diag([8.0, 6.0]) @ v.T)
    assert spiked.outliers == 2
    assert spiked.variance == pytest.approx(0.01, rel=0.03)
    assert marchenko_pastur_fit(noise**3).distance < 0.1  # universal in the law of the entries, slowly for heavy tails
    assert marchenko_pastur_fit(np.diag(np.linspace(1, 2, 200))).distance > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: projected_dynamics([1.0, -1.0], np.eye(2)), "strengths: got"),
        (lambda: projected_dynamics([1.0, 2.0], np.eye(3)), "velocity: got shape"),
        (lambda: hidden_means([[1.0]], [1.0], hidden=0), "hidden: got 0"),
        (lambda: hidden_means([[1.0]], [1.0], hidden=5, noise=0.1), "visible: got None"),
        (lambda: hidden_means([[1.0]], [1.0], hidden=5, components="cauchy"), "components: got 'cauchy'"),
        (lambda: hidden_means([[1.0]], [1e9], hidden=5), "local fields below"),
        (lambda: marchenko_pastur([1.0], 5, 5, variance=0.0), "variance: got"),
        (lambda: marchenko_pastur_fit(np.zeros((5, 5))), "weights: got"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
