"""Weighted chains: the exact law, the shares of clusters that no chain leaves, and ln Z, all against enumeration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import relax

CHAINS = 10_000


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("machine", ["rbm binary", "layered", "dense"])
def test_samples_the_boltzmann_law(machine, temperature):
    network = machines.DISCRETE[machine]
    draws = eq.sample(network, eq.Reweighted(6, sweeps=10), chains=CHAINS, temperature=temperature, key=11)
    exact = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, draws)
    assert np.abs(found - exact).sum() / 2 < oracle.total_variation_bound(exact, CHAINS)


def valleys(field):
    """Twelve spins with two valleys that sweeps do not leave, the upper one raised by a field."""
    layers = [eq.Layer("visible", eq.Spin(), np.full(12, field)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    return eq.Network(layers, [eq.Dense(("visible", "hidden"), np.ones((12, 2)))])


@eqx.filter_jit
def followed(how, networks, start, key):
    """The state seen last, and what is carried, along networks that change from step to step."""
    carry = how.begin(conditioned(networks[0], (), 1.0), start) if how.carries else None
    for step, network in enumerate(networks):
        rest = relax(how, conditioned(network, (), 1.0), start, jax.random.fold_in(key, step), carry)
        start, carry = rest.state, rest.carry
    return start, carry


def test_weights_know_the_shares_of_valleys_that_no_chain_leaves():
    fields = np.linspace(0, 0.06, 7)
    networks = [valleys(field) for field in fields]
    start = eq.sample(networks[0], eq.Exact(), chains=CHAINS, key=1)
    exact = [oracle.enumerate_states(network) for network in (networks[0], networks[-1])]
    share = exact[1].probabilities[exact[1].states[:, :12].sum(1) > 0].sum()
    error = 5 * np.sqrt(share * (1 - share) / CHAINS)
    seen, population = followed(eq.Reweighted(1, sweeps=3), networks, start, jax.random.key(2))
    stuck, _ = followed(eq.Sweeps(3), networks, start, jax.random.key(2))
    assert (np.asarray(stuck["visible"]).sum(1) > 0).mean() < share - 2 * error  # the test could fail
    assert (np.asarray(seen["visible"]).sum(1) > 0).mean() == pytest.approx(share, abs=error)
    change = exact[1].log_partition - exact[0].log_partition
    weights = np.exp(np.asarray(population.log_weights))
    assert float(population.log_partition) == pytest.approx(change, abs=5 * weights.std() / np.sqrt(CHAINS))
    assert float(population.effective) < 0.9 * CHAINS


def test_a_population_of_few_effective_chains_is_drawn_anew():
    networks = [valleys(0.0), valleys(0.5)]
    start = eq.sample(networks[0], eq.Exact(), chains=1000, key=1)
    _, population = followed(eq.Reweighted(1, sweeps=1, least=0.9), networks, start, jax.random.key(2))
    assert not jnp.any(population.log_weights)
    assert (np.asarray(population.states["visible"]).sum(1) > 0).mean() > 0.99
    _, kept = followed(eq.Reweighted(1, sweeps=1, least=0.0), networks, start, jax.random.key(2))
    assert (np.asarray(kept.states["visible"]).sum(1) > 0).mean() == pytest.approx(0.5, abs=0.1)
    assert np.exp(np.asarray(kept.log_weights)).mean() == pytest.approx(1.0, abs=1e-3)


def test_bad_numbers_are_refused():
    for options, message in (({"sweeps": 0}, "sweeps: got 0"), ({"least": 1.5}, "least: got 1.5")):
        with pytest.raises(ValueError, match=message):
            eq.Reweighted(1, **options)
    with pytest.raises(ValueError, match="temperature"):
        eq.sample(valleys(0.0), eq.Reweighted(1), chains=2, temperature=0.0, key=0)
