"""The states of modes in noise against autodiff, exact sums, Gibbs sampling and landmarks."""

import itertools

import jax
import numpy as np
import pytest

from equilibria.theory.rbm import states as module
from equilibria.theory.rbm.ensemble import describe, log_partition, turn, turn_slope
from equilibria.theory.rbm.states import fixed_points

RNG = np.random.default_rng(3)
LAWS = ["gaussian", "uniform", "bernoulli"]


@jax.jit
def derivatives(ensemble, x, xbar):
    """The gradient of ln Z, the slope of a turn by autodiff, and as it is written down."""
    gradient = jax.grad(log_partition, argnums=(1, 2))(ensemble, x, xbar)
    slope = jax.jacfwd(lambda x: turn(ensemble, x).hidden_order)(x)
    return gradient, slope, turn_slope(ensemble, turn(ensemble, x))


@pytest.mark.parametrize("law", LAWS)
def test_saddle_point_is_stationary_and_its_slope_is_right(law):
    args = {"noise": 0.4, "aspect": 0.5, "visible_field": [0.1, 0.0], "hidden_field": [0.0, 0.2], "components": law}
    states = fixed_points([1.8, 1.7], **args)
    assert (states.residual < 1e-12).all()
    x = np.append(states.hidden[0], states.hidden_overlap[0])
    xbar = np.append(states.visible[0], states.visible_overlap[0])
    with jax.enable_x64(True):
        found = derivatives(describe([1.8, 1.7], *args.values()), x, xbar)
        gradients, slope, written = jax.tree.map(np.asarray, found)
    for gradient in gradients:
        np.testing.assert_allclose(gradient, 0, atol=1e-10)
    np.testing.assert_allclose(written, slope, atol=1e-10)
    np.testing.assert_allclose(states.growth[0], np.abs(np.linalg.eigvals(slope)).max(), rtol=1e-6)


@pytest.mark.parametrize(
    ("strength", "noise", "aspect", "expected"),
    [
        (1.5, 0.3, 0.5, (0.5079, 0.5699, 0.4059, 0.2520)),
        (1.2, 0.5, 0.25, (0.3217, 0.3523, 0.2391, 0.0874)),
    ],
)
def test_landmarks(strength, noise, aspect, expected):
    best = fixed_points([strength], noise=noise, aspect=aspect)
    got = best.hidden[0, 0], best.visible[0, 0], best.hidden_overlap[0], best.visible_overlap[0]
    np.testing.assert_allclose(got, expected, atol=5e-5)  # as many digits as were given
    assert best.residual.max() < 1e-8


def test_a_sampled_machine_finds_the_landmark():
    visible, hidden, strength, noise = 1600, 800, 1.5, 0.3
    root = np.sqrt(visible * hidden)
    u, v = RNG.normal(size=visible), RNG.normal(size=hidden)
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    weights = strength * np.outer(u, v) + noise / np.sqrt(root) * RNG.normal(size=(visible, hidden))
    weights = weights.astype(np.float32)
    s = np.sign(u + 1e-9)[None].repeat(2, 0).astype(np.float32)
    along = []
    for step in range(80):
        field = s @ weights
        sigma = np.where(RNG.random(field.shape) < 1 / (1 + np.exp(-2 * field)), 1, -1).astype(np.float32)
        field = sigma @ weights.T
        s = np.where(RNG.random(field.shape) < 1 / (1 + np.exp(-2 * field)), 1, -1).astype(np.float32)
        if step >= 20:
            along.append([np.mean(sigma @ v), np.mean(s @ u)])
    m, mbar = np.mean(along, axis=0) / np.sqrt(root)
    # the draw of u, v and r moves m by about 1/sqrt(N_h) = 3.5%, of which sd 0.6/sqrt(N_h) here: three of them
    np.testing.assert_allclose([m, mbar], [0.5079, 0.5699], atol=0.035)


def test_gaussian_components_leave_only_the_strongest_mode():
    states = fixed_points([3.0, 2.9, 2.8], noise=0.1)
    assert states.stable.sum() == 1
    assert np.flatnonzero(states.hidden[0]).tolist() == [0]
    # against the single mode a, mode b grows by (w_b / w_a)^2
    lower = states.growth[states.hidden[:, 1] > 0]
    np.testing.assert_allclose(lower, (3.0 / 2.9) ** 2, rtol=1e-6)


@pytest.mark.parametrize("law", [pytest.param("uniform", marks=pytest.mark.slow), "bernoulli"])
def test_flatter_components_allow_many_states(law):
    states = fixed_points([3.0, 2.9, 2.8], noise=0.1, components=law)
    assert states.stable.sum() >= 3
    alone = states.stable & ((states.hidden > 1e-6).sum(axis=1) == 1)
    assert alone.sum() == 3


def test_mixtures_of_three_bernoulli_modes_are_stable():
    states = fixed_points([6.0, 5.9, 5.8], components="bernoulli")
    mixed = states.stable & ((states.hidden > 0.3).sum(axis=1) == 3)
    assert mixed.sum() == 1
    # at low temperature the majority of three signs has overlap 1/2 with each; 8 copies by signs
    # (the least field is w/2 times 1/2, so thermal errors are of order exp(-2 * 1.5) / 8 at most)
    np.testing.assert_allclose(states.hidden[mixed][0], 0.5, atol=6e-3)
    assert states.copies[mixed] == 8


def test_a_field_chooses_the_sign_and_splits_the_free_energies():
    states = fixed_points([1.5], visible_field=0.05, components="bernoulli")
    assert states.stable.sum() == 2
    assert states.hidden[0, 0] > 0 > states.hidden[1, 0]
    assert states.log_partition[0] > states.log_partition[1]


def test_free_energy_of_a_machine_summed_exactly():
    # no modes, all noise: E ln Z of a machine of 5 + 5 spins, at sigma = 0.5 where corrections are of order 1/L
    noise, size = 0.5, 5
    spins = np.array(list(itertools.product([-1, 1], repeat=size)))
    weights = noise / np.sqrt(size) * RNG.normal(size=(2000, size, size))
    fields = np.einsum("si,nij->nsj", spins, weights)
    total = np.mean(np.log(np.exp(np.log(2 * np.cosh(fields)).sum(-1)).sum(-1)))
    predicted = fixed_points([0.0], noise=noise).log_partition[0]
    # the annealed value 2 ln 2 + sigma^2/2 with the correction ln(1 - sigma^4)/4L of the paramagnet's loops
    assert predicted == pytest.approx(2 * np.log(2) + noise**2 / 2, abs=1e-12)
    assert total / size == pytest.approx(predicted + np.log(1 - noise**4) / (4 * size), abs=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed_points([1.0], aspect=0.0), r"aspect: got 0; allowed: finite and > 0"),
        (lambda: fixed_points([1.0], aspect=-1.0), "aspect: got"),
        (lambda: fixed_points([1.0], noise=-0.1), "noise: got"),
        (lambda: fixed_points([np.nan]), "strengths: got"),
        (lambda: fixed_points([[1.0]]), "strengths: got shape"),
        (lambda: fixed_points(np.ones(30), mixtures=5), "mixtures: got 5, which asks for 174437 searches"),
        (
            lambda: fixed_points(np.ones(8), mixtures=8, visible_field=0.1),
            "mixtures: got 8, which asks for 6561 searches",
        ),
        (lambda: fixed_points([1.0], components=("uniform",) * 3), "components: got 3 laws"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_stable_state_is_said(monkeypatch):
    monkeypatch.setattr(module, "RESIDUAL", 0.0)
    with pytest.raises(RuntimeError, match="no stable fixed point found among 2 searches"):
        fixed_points([1.5], noise=0.3, aspect=0.5)
