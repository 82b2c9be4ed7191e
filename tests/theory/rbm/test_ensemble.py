"""The ensemble of modes in noise against autodiff, exact sums, quadrature, Gibbs sampling and landmarks."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equilibria.theory.rbm import components as layers
from equilibria.theory.rbm.ensemble import describe, fixed_points, log_partition, sweep, sweep_slope
from equilibria.theory.rbm.phases import breaking_line, critical_strength, phase_diagram

RNG = np.random.default_rng(3)
LAWS = ["gaussian", "uniform", "bernoulli"]
RULES = {  # nodes and weights of an independent quadrature for each law
    "gaussian": (lambda x, p: (x, p / p.sum()))(*np.polynomial.hermite_e.hermegauss(120)),
    "uniform": (lambda x, p: (x * 3**0.5, p / 2))(*np.polynomial.legendre.leggauss(60)),
    "bernoulli": (np.array([-1.0, 1.0]), np.array([0.5, 0.5])),
}


def averages(law, slopes, variance):
    """E ln 2cosh h, E c_1 tanh h, E c_1 c_2 sech^2 h, E tanh^2 h, E sech^4 h by a three-dimensional quadrature."""
    (c, p), (x, px) = RULES[law], RULES["gaussian"]
    one, two, noise = c[:, None, None], c[:, None], x
    weight = p[:, None, None] * p[:, None] * px
    h = slopes[0] * one + slopes[1] * two + np.sqrt(variance) * noise
    terms = np.logaddexp(h, -h), one * np.tanh(h), one * two / np.cosh(h) ** 2, np.tanh(h) ** 2, np.cosh(h) ** -4.0
    return [np.sum(weight * term) for term in terms]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("slopes", "variance"), [((0.9, 0.5), 0.3), ((0.0, 1.2), 0.5), ((1e-9, 0.4), 0.1)])
def test_layer_averages(law, slopes, variance):
    with jax.enable_x64(True):
        got = layers.layer(
            layers.LAWS[law], jnp.asarray(slopes), jnp.asarray(variance), jnp.asarray(layers.waves(25.0))
        )
        values = [got.log_cosh, got.along[0], got.curvature[0, 1], got.square, got.quartic]
    # Gauss-Hermite with 120 nodes is the weaker of the two: tanh has poles at distance pi/2
    np.testing.assert_allclose(values, averages(law, slopes, variance), atol=1e-10)


def test_a_listed_law_and_a_law_of_ones_own():
    class Coin(layers.Law):
        def characteristic(self, t):
            return jnp.cos(t)

        def reach(self):
            return 1.0

    with jax.enable_x64(True):
        point = jnp.array([0.9, 0.4]), jnp.asarray(0.2), jnp.asarray(layers.waves(5.0))
        expected = layers.layer(layers.LAWS["bernoulli"], *point)
        for law in (layers.ListedLaw([0.3, -0.3]), Coin()):
            for got, wanted in zip(layers.layer(law, *point), expected, strict=True):
                np.testing.assert_allclose(got, wanted, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_saddle_point_is_stationary_and_its_slope_is_right(law):
    args = {"noise": 0.4, "aspect": 0.5, "visible_field": [0.1, 0.0], "hidden_field": [0.0, 0.2], "components": law}
    states = fixed_points([1.8, 1.7], **args)
    assert (states.residual < 1e-12).all()
    with jax.enable_x64(True):
        ensemble = describe([1.8, 1.7], *args.values())
        x = jnp.append(states.hidden[0], states.hidden_overlap[0])
        xbar = jnp.append(states.visible[0], states.visible_overlap[0])
        for gradient in jax.jit(jax.grad(log_partition, argnums=(1, 2)))(ensemble, x, xbar):
            np.testing.assert_allclose(gradient, 0, atol=1e-10)
        slope = jax.jit(jax.jacfwd(sweep, argnums=1))(ensemble, x)
        np.testing.assert_allclose(jax.jit(sweep_slope)(ensemble, x), slope, atol=1e-10)
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
    x, p = RULES["gaussian"]
    for _ in range(2000):
        q = p @ np.tanh(noise * np.sqrt(q) * x) ** 2
    data = phase_diagram([noise], [0.0])
    assert float(data.hidden_overlap[0, 0]) == pytest.approx(q, abs=1e-8)
    assert critical_strength([noise])[0] == pytest.approx(1 / (1 - q), rel=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fixed_points([1.0], aspect=0.0), r"aspect: got 0\.; allowed: finite and > 0"),
        (lambda: fixed_points([1.0], aspect=-1.0), "aspect: got"),
        (lambda: fixed_points([1.0], noise=-0.1), "noise: got"),
        (lambda: fixed_points([np.nan]), "strengths: got"),
        (lambda: fixed_points([[1.0]]), "strengths: got shape"),
        (lambda: fixed_points(np.ones(30), mixtures=5), "mixtures: got 5"),
        (lambda: fixed_points([1.0], components=("uniform",) * 3), "components: got 3 laws"),
        (lambda: phase_diagram([[1.0]], [1.0]), "noise: got shape"),
        (lambda: layers.ListedLaw([0.0]), "values: got"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_stable_state_is_said(monkeypatch):
    from equilibria.theory.rbm import ensemble

    monkeypatch.setattr(ensemble, "RESIDUAL", 0.0)
    with pytest.raises(RuntimeError, match="no stable fixed point found among 2 searches"):
        fixed_points([1.5], noise=0.3, aspect=0.5)
