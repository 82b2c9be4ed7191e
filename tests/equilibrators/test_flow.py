"""Flows of continuous units: descent, and Langevin dynamics against quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines

CHAINS = 8_000
NETWORK = machines.with_biases(eq.layered((1, 1, 1), units=eq.Clipped(), key=2), 2, scale=1.5)


def moments_on_a_grid(network, temperature, points=61):
    """Mean and covariance of three [0, 1] units by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    nodes, weights = (nodes + 1) / 2, weights / 2
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    measure = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    state = {name: jnp.asarray(grid[:, i : i + 1]) for i, name in enumerate(network.names)}
    law = measure * np.exp(-np.asarray(network.energy(state), float) / temperature)
    law /= law.sum()
    mean = law @ grid
    return mean, np.einsum("s,si,sj->ij", law, grid - mean, grid - mean)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("how", [eq.Langevin(400, step_size=0.02), eq.Sweeps(20)], ids=["langevin", "sweeps"])
def test_continuous_units_are_sampled(how, temperature):
    mean, covariance = moments_on_a_grid(NETWORK, temperature)
    end = eq.equilibrate(NETWORK, how, chains=CHAINS, temperature=temperature, key=5)
    states = np.concatenate([np.asarray(end[name]) for name in NETWORK.names], -1)
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(states.mean(0) - mean) < 5 * spread / np.sqrt(CHAINS)).all()
    # Products of centred bounded variables: their own spread gives the error of each covariance.
    centred = states - mean
    products = np.einsum("si,sj->sij", centred, centred)
    assert (np.abs(products.mean(0) - covariance) < 5 * products.std(0) / np.sqrt(CHAINS)).all()
    if isinstance(how, eq.Langevin):
        assert 0.3 < float(end.info["acceptance"].mean()) < 1  # what each chain accepted is reported


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_gaussian_machine_has_its_covariance(temperature):
    """Precision matrix [[1/v, -W], [-W', 1/u]] / T (Decelle et al., below equation 9)."""
    network = machines.with_biases(eq.rbm(2, 2, visible=eq.Gaussian(0.8), hidden=eq.Gaussian(1.2), scale=0.2, key=3), 3)
    weights = np.asarray(network.couplings[0].weights, float)
    precision = np.block([[np.eye(2) / 0.8, -weights], [-weights.T, np.eye(2) / 1.2]])
    covariance = temperature * np.linalg.inv(precision)
    mean = np.linalg.solve(precision, np.concatenate([np.asarray(layer.bias) for layer in network.layers]))
    for how in (eq.Sweeps(40), eq.Langevin(200, step_size=0.15)):
        draws = eq.sample(network, how, chains=CHAINS, temperature=temperature, key=6)
        states = np.concatenate([np.asarray(draws[name]) for name in network.names], -1)
        assert (np.abs(states.mean(0) - mean) < 5 * np.sqrt(np.diag(covariance) / CHAINS)).all()
        variances = np.outer(np.diag(covariance), np.diag(covariance))
        assert (np.abs(np.cov(states.T) - covariance) < 5 * np.sqrt((covariance**2 + variances) / CHAINS)).all()


def test_without_the_metropolis_rule_the_law_is_off():
    """The discretisation error that the rule removes is there to be seen at a large step."""
    mean, _ = moments_on_a_grid(NETWORK, 1.0)
    rough = eq.Langevin(150, step_size=0.05, adjusted=False)
    draws = eq.sample(NETWORK, rough, chains=CHAINS, key=5)
    states = np.concatenate([np.asarray(draws[name]) for name in NETWORK.names], -1)
    assert np.abs(states.std(0) / np.sqrt(np.diag(moments_on_a_grid(NETWORK, 1.0)[1])) - 1).max() > 0.05
    assert np.isfinite(mean).all()


def test_flow_and_block_descent_reach_the_same_fixed_point():
    network = machines.with_biases(eq.layered((4, 5, 3), gain=0.5, key=4), 4)
    clamp = eq.Clamp("input", np.linspace(0, 1, 8).reshape(2, 4))
    nudge = eq.Nudge("output", np.eye(3)[:2], strength=0.5)
    flow = eq.equilibrate(network, eq.GradientFlow(2000, tolerance=1e-7), world=[clamp, nudge])
    block = eq.equilibrate(network, eq.Sweeps(500, update="mode", tolerance=1e-7), world=[clamp, nudge])
    assert flow.converged.all()
    assert block.converged.all()
    for name in ("hidden1", "output"):
        np.testing.assert_allclose(flow[name], block[name], atol=2e-6)


def test_a_zero_state_moves():
    """States start at exactly 0, where the derivative of a clip is a convention: the drive must not depend on it."""
    network = eq.layered((2, 2), key=0)
    network = eq.Network([network.layers[0], eq.Layer("output", eq.Clipped(), [0.4, 0.4])], network.couplings)
    start = {"input": np.zeros(2), "output": np.zeros(2)}
    moved = eq.equilibrate(network, eq.GradientFlow(1), start, world=eq.Clamp("input", np.zeros(2)))
    np.testing.assert_allclose(moved["output"], 0.2, rtol=1e-6)


def test_a_flow_that_stops_by_force_rests_at_the_same_place_for_any_step():
    """Units at their bounds and held ones feel forces for ever; those do not count."""
    network = machines.with_biases(eq.layered((4, 5, 3), gain=0.5, key=4), 4, scale=1.0)
    world = [
        eq.Clamp("input", np.linspace(0, 1, 8).reshape(2, 4)),
        eq.Clamp("output", np.full((2, 3), 0.9), mask=np.array([True, False, False])),
    ]
    ends = [
        eq.equilibrate(network, eq.GradientFlow(3000, step, force_tolerance=1e-5), world=world) for step in (0.5, 0.02)
    ]
    assert all(end.converged.all() for end in ends)
    assert (ends[1].steps > 10 * ends[0].steps).all()
    hidden = np.asarray(ends[0]["hidden1"])
    assert ((hidden == 0) | (hidden == 1)).any()
    np.testing.assert_array_equal(ends[0]["output"][:, 0], np.float32(0.9))
    for name in ("hidden1", "output"):  # a force of 1e-5 over a least curvature of about 0.5
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=5e-5)


def test_a_chain_at_rest_does_not_move_while_others_do():
    network = eq.layered((2, 2), units=eq.Gaussian(), key=0)
    clamp = eq.Clamp("input", np.array([[0.0, 0.0], [1.0, -1.0]]))
    rest = eq.equilibrate(
        network, eq.GradientFlow(100, 0.1, force_tolerance=1e-3), {"output": np.full(2, 1e-4)}, world=clamp
    )
    assert rest.steps[0] == 0
    assert rest.steps[1] > 20
    np.testing.assert_array_equal(rest["output"][0], np.float32(1e-4))
