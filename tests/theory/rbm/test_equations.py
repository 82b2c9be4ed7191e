"""Equations (1) to (4) of Decelle 2017 and those of its linear machine, as they are printed."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
from equilibria.theory.rbm.linear import linear_fixed_point, linear_flow, linear_log_partition

RNG = np.random.default_rng(7)
W, ETA, THETA = 0.5 * RNG.normal(size=(4, 3)), 0.4 * RNG.normal(size=4), 0.4 * RNG.normal(size=3)
ROWS = RNG.choice([-1.0, 1.0], (5, 4))


@pytest.fixture(scope="module")
def machine():
    return eq.rbm(weights=W, visible_bias=ETA, hidden_bias=THETA, visible=eq.Spin(), hidden=eq.Spin())


@pytest.fixture(scope="module")
def summed():
    """All states s and sigma, and their law by (1) and (2)."""
    s, sigma = (np.array(list(product((-1.0, 1.0), repeat=size))) for size in (4, 3))
    logs = s @ W @ sigma.T + (s @ ETA)[:, None] + sigma @ THETA
    return s, sigma, logs, np.log(np.exp(logs).sum())


def test_1_is_the_energy_and_3_lacks_the_visible_fields(machine, summed):
    s, sigma, logs, log_z = summed
    energies = machine.energy({"visible": jnp.asarray(s[:, None]), "hidden": jnp.asarray(sigma[None])})
    np.testing.assert_allclose(energies, -logs, atol=1e-5)
    printed = np.log(2 * np.cosh(ROWS @ W + THETA)).sum(axis=1) - log_z
    found = eq.log_likelihood(machine, ROWS, "exact").value
    np.testing.assert_allclose(found, (printed + ROWS @ ETA).mean(), atol=1e-5)
    assert abs(found - printed.mean()) > 0.05


def test_4_is_the_gradient_of_learning(machine, summed):
    s, sigma, logs, log_z = summed
    law = np.exp(logs - log_z)
    answers = np.tanh(ROWS @ W + THETA)
    expected = {
        "weights": ROWS.T @ answers / len(ROWS) - s.T @ law @ sigma,
        "visible": ROWS.mean(axis=0) - law.sum(axis=1) @ s,
        "hidden": answers.mean(axis=0) - law.sum(axis=0) @ sigma,
    }
    gradient = eq.contrast(machine, eq.exact(), {"visible": jnp.asarray(ROWS)}, key=jax.random.key(0)).gradient
    np.testing.assert_allclose(gradient.couplings[0].weights, -expected["weights"], atol=1e-5)
    for layer, name in zip(gradient.layers, ("visible", "hidden"), strict=True):
        np.testing.assert_allclose(layer.bias, -expected[name], atol=1e-5)


def test_5_the_singular_vectors_are_those_of_the_weights(machine):
    found = eq.spectrum(machine)
    np.testing.assert_allclose(W @ found.second.T, found.first.T * found.values, atol=1e-5)
    np.testing.assert_allclose(W.T @ found.first.T, found.second.T * found.values, atol=1e-5)


def test_the_linear_machine_has_the_printed_covariance():
    visible, hidden, weights = 0.8, 1.5, 0.3 * RNG.normal(size=(4, 3))
    precision = np.block([[np.eye(4) / visible, -weights], [-weights.T, np.eye(3) / hidden]])
    covariance = np.linalg.inv(precision)
    step, told = 1e-5, {"visible_variance": visible, "hidden_variance": hidden}
    slope = np.zeros_like(weights)  # d ln Z / dW = <s sigma>
    for place in np.ndindex(*weights.shape):
        ahead, behind = weights.copy(), weights.copy()
        ahead[place] += step
        behind[place] -= step
        slope[place] = (linear_log_partition(ahead, **told) - linear_log_partition(behind, **told)) / (2 * step)
    np.testing.assert_allclose(slope, covariance[:4, 4:], atol=1e-8)
    # its part along a mode is what the printed growth takes away, over w sigma_h^2
    left, strengths, right = np.linalg.svd(weights, full_matrices=False)
    along = np.diag(left.T @ covariance[:4, 4:] @ right.T)
    np.testing.assert_allclose(along, strengths * hidden * visible / (1 - visible * hidden * strengths**2), rtol=1e-9)


def test_no_more_components_are_learned_than_there_are_hidden_neurons_and_those_are_the_strongest():
    variances = [5.0, 3.5, 2.5, 1.8, 0.5]
    flow = linear_flow(np.diag(variances), 0.1 * RNG.normal(size=(5, 2)), [60.0])
    np.testing.assert_allclose(flow.strengths[-1], linear_fixed_point(variances[:2]), atol=1e-6)
    np.testing.assert_allclose(flow.overlaps[-1], 1, atol=1e-6)
