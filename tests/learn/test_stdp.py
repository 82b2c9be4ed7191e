"""STDP along the nudged phase against the contrast of its two ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equilibria.energies.implicit import Implicit
from equilibria.learn.stdp import stdp


def network(weights, influence, state, target):
    """The energy (34) with ρ = tanh and no bias, the last unit nudged."""
    rates = jnp.tanh(state)
    return 0.5 * state @ state - 0.5 * rates @ weights @ rates - rates[0] + 0.5 * influence * (state[-1] - target) ** 2


def contrast(rates):
    return np.outer(rates[-1], rates[-1]) - np.outer(rates[0], rates[0])


@pytest.fixture(scope="module")
def phase():
    """Rates along the nudged phase, of fixed duration 4, as a function of the step."""
    weights = 0.4 * np.random.default_rng(1).normal(size=(4, 4))
    weights = (weights + weights.T) * (1 - np.eye(4))

    def run(step):
        with jax.enable_x64(True):
            free = Implicit(network).fixed_point(weights, 0.0, np.zeros(4), 1.0)
            system = Implicit(network, step=step, steps=round(4 / step))
            return np.tanh(np.asarray(system.path(weights, 1.0, free.state, 1.0)))

    return weights, {step: run(step) for step in (0.1, 0.05, 0.025)}


def test_left_rule_converges_to_first_order(phase):
    """The left sum misses Σ Δρ_i Δρ_j, which is step x ∫ dρ_i/dt dρ_j/dt dt: half the step, half the error."""
    errors = []
    for rates in phase[1].values():
        with jax.enable_x64(True):
            missed = np.asarray(stdp(rates, rule="left")) - contrast(rates)
        np.testing.assert_allclose(missed, -np.diff(rates, axis=0).T @ np.diff(rates, axis=0), atol=1e-14)
        errors.append(np.linalg.norm(missed))
    assert errors[0] > 1e-4
    assert np.log2(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.1)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(1.0, abs=0.05)


def test_trapezoid_is_exact_at_any_step(phase):
    for rates in phase[1].values():
        with jax.enable_x64(True):
            np.testing.assert_allclose(stdp(rates), contrast(rates), atol=1e-14)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_trapezoid_telescopes_on_any_path(seed):
    rates = np.random.default_rng(seed).normal(size=(7, 3))
    with jax.enable_x64(True):
        np.testing.assert_allclose(stdp(rates), contrast(rates), atol=1e-13)


def test_stdp_is_the_two_phase_gradient(phase):
    """(36): -1/ξ x the change of a tied synapse. A pair of equal weights is moved, so that both of its halves count."""
    weights = phase[0]
    nudge = 0.1
    with jax.enable_x64(True):
        system = Implicit(network, step=0.1, steps=1000)
        free = system.fixed_point(weights, 0.0, np.zeros(4), 1.0)
        change = np.asarray(stdp(jnp.tanh(system.path(weights, nudge, free.state, 1.0))))
        found = system.gradient(weights, 0.0, np.zeros(4), 1.0, nudge=nudge, sides="one").value
    np.testing.assert_allclose(found, -0.5 * change / nudge, atol=1e-10)  # dF/dW_ij alone is -ρ_i ρ_j / 2


def test_untied_rule_depends_on_the_path():
    """One quarter turn and its chord have the same ends; the difference of their integrals is the area between them."""
    angles = np.linspace(0, np.pi / 2, 2001)
    arc = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with jax.enable_x64(True):
        bent, straight = (np.asarray(stdp(path, tied=False)) for path in (arc, arc[[0, -1]]))
    assert bent[0, 1] - straight[0, 1] == pytest.approx(np.pi / 4 - 0.5, abs=1e-6)
    np.testing.assert_allclose(bent + bent.T, straight + straight.T, atol=1e-12)


@pytest.mark.parametrize(
    ("rates", "options", "message"),
    [
        (np.zeros(3), {}, r"rates: got shape \(3,\)"),
        (np.full((2, 2), np.nan), {}, "rates: got nan"),
        (np.zeros((2, 2)), {"rule": "right"}, "rule: got 'right'"),
    ],
)
def test_bad_arguments(rates, options, message):
    with pytest.raises(ValueError, match=message):
        stdp(rates, **options)
