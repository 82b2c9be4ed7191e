"""Every sampler against exact enumeration."""

import jax
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.conditioned import conditioned

CHAINS = 10_000
SAMPLERS = {"sweeps": eq.Sweeps(60), "visits": eq.Sweeps(400, visits=1), "exact": eq.Exact()}


def distance(network, draws, temperature):
    """The total variation between the chains and the exact law, and what it may be by chance."""
    exact = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, draws)
    return np.abs(found - exact).sum() / 2, oracle.total_variation_bound(exact, CHAINS)


PAIRS = [
    (machine, sampler)
    for machine, network in machines.DISCRETE.items()
    for sampler in SAMPLERS
    if sampler != "visits" or network.lateral  # visits only concern layers coupled to themselves
]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("machine", "sampler"), PAIRS)
def test_samples_the_boltzmann_law(machine, sampler, temperature):
    network = machines.DISCRETE[machine]
    draws = eq.sample(network, SAMPLERS[sampler], chains=CHAINS, temperature=temperature, key=11)
    found, allowed = distance(network, draws, temperature)
    assert found < allowed


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", machines.DISCRETE)
def test_chains_at_equilibrium_do_not_drift(machine, temperature):
    network = machines.DISCRETE[machine]
    start = eq.sample(network, eq.Exact(), chains=CHAINS, temperature=temperature, key=1)
    end = eq.equilibrate(network, eq.Sweeps(3), start, temperature=temperature, key=2)
    found, allowed = distance(network, end.state, temperature)
    assert found < allowed


def test_a_wrong_temperature_is_noticed():
    network = machines.DISCRETE["rbm binary"]
    draws = eq.sample(network, eq.Sweeps(60), chains=CHAINS, temperature=2.0, key=11)
    found, allowed = distance(network, draws, 1.0)
    assert found > 2 * allowed


def test_each_chain_may_have_its_own_temperature():
    network = machines.DISCRETE["rbm binary"]
    temperatures = np.repeat([0.5, 2.0], CHAINS)
    draws = eq.sample(network, eq.Sweeps(60), chains=2 * CHAINS, temperature=temperatures, key=3)
    for half, temperature in ((slice(None, CHAINS), 0.5), (slice(CHAINS, None), 2.0)):
        found, allowed = distance(network, {name: layer[half] for name, layer in draws.items()}, temperature)
        assert found < allowed


def test_parallel_updates_have_another_law():
    """Peretto's law of parallel dynamics, exp(sum ln 2cosh(field)), not Boltzmann's."""
    network = machines.DISCRETE["dense"]
    exact = oracle.enumerate_states(network)
    fields = exact.states @ oracle.matrix(network) + np.asarray(network.layers[0].bias)
    logs = np.log(2 * np.cosh(fields)).sum(1) + exact.states @ np.asarray(network.layers[0].bias)
    peretto = np.exp(logs) / np.exp(logs).sum()
    draws = eq.sample(network, eq.Sweeps(60, order="parallel"), chains=CHAINS, key=4)
    found = oracle.frequencies(network, draws)
    assert np.abs(found - peretto).sum() / 2 < oracle.total_variation_bound(peretto, CHAINS)
    assert np.abs(found - exact.probabilities).sum() / 2 > oracle.total_variation_bound(exact.probabilities, CHAINS)


@pytest.mark.parametrize("held", ["values", "mask"])
def test_clamped_neurons_condition_the_law(held):
    network = machines.DISCRETE["rbm binary"]
    values, mask = (
        np.array([1.0, 0.0, 1.0, 1.0]),
        np.array([True, True, True, True] if held == "values" else [True, False, True, False]),
    )
    world = eq.Clamp("visible", values, mask=None if held == "values" else mask)
    exact = oracle.enumerate_states(network)
    agree = (exact.states[:, :4][:, mask] == values[mask]).all(axis=1)
    law = exact.probabilities * agree / exact.probabilities[agree].sum()
    for how in (eq.Sweeps(60), eq.Exact()):
        found = oracle.frequencies(network, eq.sample(network, how, chains=CHAINS, world=world, key=5))
        assert np.abs(found - law).sum() / 2 < oracle.total_variation_bound(law, CHAINS)


def test_masked_neurons_stay_put_in_a_walk():
    network = machines.DISCRETE["dense"]
    values, mask = np.array([1.0, -1, 1, 1, -1, 1]), np.array([True, False, False, True, False, False])
    exact = oracle.enumerate_states(network)
    agree = (exact.states[:, mask] == values[mask]).all(axis=1)
    law = exact.probabilities * agree / exact.probabilities[agree].sum()
    draws = eq.sample(network, eq.Sweeps(60), chains=CHAINS, world=eq.Clamp("neurons", values, mask=mask), key=6)
    assert np.abs(oracle.frequencies(network, draws) - law).sum() / 2 < oracle.total_variation_bound(law, CHAINS)


@pytest.mark.parametrize("machine", ["hopfield", "dense", "dense layers"])
def test_visits_may_come_back_to_a_neuron(machine):
    """Thirty visits of a few neurons, which are worked on as one block with repetitions."""
    network = machines.DISCRETE[machine]
    draws = eq.sample(network, eq.Sweeps(20, visits=30), chains=CHAINS, temperature=0.7, key=7)
    found, allowed = distance(network, draws, 0.7)
    assert found < allowed


def test_blocks_of_a_walk_leave_no_neuron_out():
    """More neurons than one block, and not a multiple of it: without couplings each follows its own bias exactly."""
    size = 71
    layer = eq.Layer("neurons", eq.Spin(), np.linspace(-1, 1, size))
    network = eq.Network([layer], [eq.Factored(("neurons", "neurons"), np.zeros((2, size)))])
    cold = eq.equilibrate(network, eq.Sweeps(1), np.ones(size), temperature=0.0, key=8)
    np.testing.assert_array_equal(cold["neurons"], np.where(np.linspace(-1, 1, size) >= 0, 1, -1))
    warm = eq.sample(network, eq.Sweeps(1), chains=CHAINS, key=9)["neurons"]
    # Six standard errors of a mean of +-1, one for each of 71 neurons.
    np.testing.assert_allclose(warm.mean(0), np.tanh(np.linspace(-1, 1, size)), atol=6 / CHAINS**0.5)


def test_a_walk_in_blocks_is_the_walk_visit_by_visit():
    """By hand in NumPy, at T = 0, where nothing is drawn but the order."""
    patterns = np.asarray(eq.data.random_patterns(9, 71, key=eq.key(0)))
    start = np.asarray(eq.data.random_patterns(4, 71, key=eq.key(1)))
    network = eq.hopfield(patterns, sleep=0.5)
    key = jax.random.key(2)
    found = eq.Sweeps(1, update="mode").updated(conditioned(network, (), 0.0), {"neurons": start}, "neurons", key)
    order_key, _ = jax.random.split(key)
    state, matrix = start.copy(), oracle.matrix(network)
    for site in np.asarray(jax.random.permutation(order_key, 71)):
        state[:, site] = np.where(state @ matrix[site] >= 0, 1, -1)
    np.testing.assert_array_equal(found, state)
