"""A Hopfield network and its Boltzmann machine are the same law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.exact import log_partition_function

PATTERNS = np.asarray(eq.data.random_patterns(3, 8, key=jax.random.key(0)))
NETWORKS = {
    "hebb": machines.with_biases(eq.hopfield(PATTERNS), 1),
    "slept": eq.hopfield(PATTERNS, sleep=2.0),
    "pseudo-inverse": eq.hopfield(PATTERNS, sleep=np.inf),
}


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("name", NETWORKS)
def test_partition_functions_are_equal(name, temperature):
    network = NETWORKS[name]
    factors = np.asarray(network.couplings[0].factors, np.float64)
    count, size = factors.shape
    constant = count / 2 * np.log(2 * np.pi * temperature) + np.sum(factors**2) / size / (2 * temperature)
    with jax.enable_x64(True):
        machine = jax.tree.map(lambda leaf: leaf.astype(float), eq.hubbard_stratonovich(network))
        # The weights were divided by sqrt(N) in single precision; give them their digits back.
        machine = eq.Network(machine.layers, [eq.Dense(("neurons", "hidden"), factors.T / np.sqrt(size))])
        found = float(log_partition_function(conditioned(machine, (), temperature)))
    exact = oracle.enumerate_states(network, temperature).log_partition
    assert found == pytest.approx(exact + constant, abs=1e-12 * abs(exact) + 1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_out_and_in_again(name):
    network = NETWORKS[name]
    again = eq.marginalise(eq.hubbard_stratonovich(network), "hidden")
    np.testing.assert_allclose(oracle.matrix(again), oracle.matrix(network), atol=1e-6)
    np.testing.assert_allclose(again.layers[0].bias, network.layers[0].bias, atol=1e-6)


def test_other_units_get_their_diagonal_back():
    """0/1 and continuous units feel the diagonal of W W^T; integrating in and out must leave their energy alone."""
    for unit, values in (
        (eq.Binary(), np.array([1.0, 0, 1, 1, 0, 0, 1, 0])),
        (eq.Gaussian(0.3), np.linspace(-1, 1, 8)),
    ):
        layer = eq.Layer("neurons", unit, np.linspace(-0.4, 0.3, 8))
        network = eq.Network([layer], [eq.Factored(("neurons", "neurons"), PATTERNS)])
        again = eq.marginalise(eq.hubbard_stratonovich(network), "hidden")
        state = {"neurons": jnp.asarray(values)}
        np.testing.assert_allclose(again.energy(state), network.energy(state), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_sampling_the_machine_samples_the_network(temperature):
    network, chains = NETWORKS["hebb"], 10_000
    draws = eq.sample(eq.hubbard_stratonovich(network), eq.Sweeps(100), chains=chains, temperature=temperature, key=3)
    law = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, draws)
    assert np.abs(found - law).sum() / 2 < oracle.total_variation_bound(law, chains)


def test_orthonormal_weights_are_the_pseudo_inverse_rule():
    basis, _ = np.linalg.qr(PATTERNS.T)
    layers = [eq.Layer("neurons", eq.Spin(), np.zeros(8)), eq.Layer("hidden", eq.Gaussian(), np.zeros(3))]
    machine = eq.Network(layers, [eq.Dense(("neurons", "hidden"), basis)])
    found = oracle.matrix(eq.marginalise(machine, "hidden"))
    np.testing.assert_allclose(found, oracle.matrix(NETWORKS["pseudo-inverse"]), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: eq.hubbard_stratonovich(eq.rbm(3, 2, key=0)),
            r"network: got 0 factored couplings; allowed: exactly one",
        ),
        (lambda: eq.hubbard_stratonovich(NETWORKS["hebb"], "neurons"), r"layer: got 'neurons'; allowed: a new name"),
    ],
)
def test_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
