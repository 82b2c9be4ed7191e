"""Energy, field, marginals and constructors against the oracle and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle

every_machine = pytest.mark.parametrize("machine", machines.DISCRETE)


@every_machine
def test_energy_agrees_with_the_oracle(machine):
    network = machines.DISCRETE[machine]
    exact = oracle.enumerate_states(network)
    edges = np.cumsum([layer.size for layer in network.layers])[:-1]
    state = dict(zip(network.names, map(jnp.asarray, np.split(exact.states, edges, axis=1)), strict=True))
    np.testing.assert_allclose(network.energy(state), exact.energies, atol=2e-6)


@every_machine
def test_field_is_minus_the_gradient_of_the_energy(machine):
    network = machines.DISCRETE[machine]
    keys = jax.random.split(jax.random.key(0), len(network.layers))
    state = {
        layer.name: jax.random.normal(key, (5, layer.size)) for layer, key in zip(network.layers, keys, strict=True)
    }
    gradient = jax.grad(lambda values: network.energy(values).sum())(state)
    for name in network.names:
        np.testing.assert_allclose(network.field(state, name), -gradient[name], atol=1e-5)


@every_machine
def test_colours_are_independent_sets(machine):
    network = machines.DISCRETE[machine]
    assert sorted(sum(network.colours, ())) == sorted(network.names)
    for coupling in network.couplings:
        assert coupling.lateral or not any(set(coupling.ends) <= set(colour) for colour in network.colours)


def test_chains_of_layers_have_two_colours_and_triangles_three():
    assert eq.layered((2, 2, 2, 2), key=0).colours == (("input", "hidden2"), ("hidden1", "output"))
    assert len(eq.layered((2, 2, 2), skips=[(0, 2)], key=0).colours) == 3


def test_statistics_are_products_of_activities():
    network = machines.DISCRETE["rbm binary"]
    state = {"visible": jnp.array([[1.0, 0, 1, 0], [1, 1, 0, 0]]), "hidden": jnp.array([[1.0, 0, 1], [0, 1, 1]])}
    found = network.statistics(state)
    np.testing.assert_allclose(found.couplings[0].weights, state["visible"].T @ state["hidden"] / 2, atol=1e-6)
    np.testing.assert_allclose(found.layers[0].bias, state["visible"].mean(0), atol=1e-6)


def test_statistics_of_a_dense_layer_keep_it_symmetric_with_no_diagonal():
    network = machines.DISCRETE["dense"]
    found = network.statistics({"neurons": jnp.array([[1.0, -1, 1, 1, -1, 1]])}).couplings[0].weights
    np.testing.assert_allclose(found, found.T)
    assert not np.diagonal(found).any()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("hidden", [eq.Spin(), eq.Binary(), eq.Clipped()])
def test_the_free_energy_sums_a_layer_out(hidden, temperature):
    """Against a sum, or for [0, 1] units an integral by 40-point Gauss-Legendre quadrature, over each hidden unit."""
    network = machines.with_biases(eq.rbm(3, 2, visible=eq.Spin(), hidden=hidden, scale=1.0, key=8), 8)
    visible = np.array(list(np.ndindex(2, 2, 2))) * 2.0 - 1
    if hidden.levels:
        values, weights = np.array(hidden.levels), np.ones(2)
    else:
        points, weights = np.polynomial.legendre.leggauss(40)
        values, weights = (points + 1) / 2, weights / 2
    field = visible @ np.asarray(network.couplings[0].weights, float) + np.asarray(network.layers[1].bias)
    exponent = (field[..., None] * values - np.asarray(hidden.self_energy(values))) / temperature
    inside = np.log((weights * np.exp(exponent)).sum(-1)).sum(-1)
    expected = -visible @ np.asarray(network.layers[0].bias) - temperature * inside
    marginal = eq.marginalise(network, "hidden")
    np.testing.assert_allclose(marginal.energy({"visible": visible}, temperature), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("visible", [eq.Spin(), eq.Binary()])
def test_a_gaussian_layer_leaves_a_hopfield_network(visible, temperature):
    """ln Z of the machine = ln Z of what marginalise leaves + the stated constant, and all probabilities agree."""
    variance = 0.7
    network = machines.with_biases(eq.rbm(6, 3, visible=visible, hidden=eq.Gaussian(variance), scale=0.5, key=9), 9)
    left = eq.marginalise(network, "hidden")
    assert isinstance(left.couplings[0], eq.Factored)
    exact = oracle.enumerate_states(left, temperature)
    weights, bias = np.asarray(network.couplings[0].weights, float), np.asarray(network.layers[1].bias, float)
    constant = -variance / 2 * (bias @ bias) - temperature / 2 * 3 * np.log(2 * np.pi * variance * temperature)
    if isinstance(visible, eq.Spin):
        constant -= variance / 2 * (weights**2).sum()
    # The machine's own marginal, from the closed form of a Gaussian integral, one configuration at a time.
    field = exact.states @ weights + bias
    logs = (exact.states @ np.asarray(network.layers[0].bias) + variance / 2 * (field**2).sum(1)) / temperature
    logs += 3 / 2 * np.log(2 * np.pi * variance * temperature)
    log_partition = np.log(np.exp(logs - logs.max()).sum()) + logs.max()
    np.testing.assert_allclose(exact.log_partition - constant / temperature, log_partition, rtol=1e-6)
    np.testing.assert_allclose(exact.probabilities, np.exp(logs - log_partition), atol=1e-6)


def test_hopfield_on_the_fly_equals_the_full_matrix():
    patterns = np.sign(np.random.default_rng(0).normal(size=(3, 20)))
    network = eq.hopfield(patterns, sleep=1.5)
    correlations = patterns @ patterns.T / 20
    couplings = patterns.T @ (2.5 * np.linalg.inv(np.eye(3) + 1.5 * correlations)) @ patterns / 20
    np.fill_diagonal(couplings, 0)
    np.testing.assert_allclose(oracle.matrix(network), couplings, atol=1e-6)
    state = np.sign(np.random.default_rng(1).normal(size=(4, 20)))
    np.testing.assert_allclose(network.field({"neurons": jnp.asarray(state)}, "neurons"), state @ couplings, atol=1e-5)


def test_glorot_weights_have_their_variance():
    weights = np.asarray(eq.layered((300, 200), gain=0.5, key=0).couplings[0].weights)
    variance = 0.25 * 2 / 500
    # The variance of uniform draws is known to 5 sigma: kurtosis 1.8.
    assert abs(weights.var() - variance) < 5 * variance * np.sqrt(0.8 / weights.size)


def test_zero_one_patterns_are_taken_with_a_warning():
    with pytest.warns(UserWarning, match="0 and 1 are taken as -1 and"):
        network = eq.hopfield([[0, 1, 1, 0]])
    np.testing.assert_array_equal(network.couplings[0].factors, [[-1, 1, 1, -1]])
