"""The Monte Carlo posterior of binary synapses against the sum over all weights."""

from itertools import product

import numpy as np
import pytest

import equilibria as eq

SIZE, HIDDEN, EXAMPLES = 4, 2, 6


def enumerated(data, prior, temperature):
    """The posterior's means by brute force, from the machine's own log-likelihood."""
    total, mass = np.zeros((SIZE, HIDDEN)), 0.0
    for signs in product((-1.0, 1.0), repeat=SIZE * HIDDEN):
        weights = np.reshape(signs, (SIZE, HIDDEN))
        network = eq.Synapses(np.zeros((SIZE, HIDDEN)), temperature=temperature).network(weights)
        coupling = np.asarray(network.couplings[0].weights, float)
        hidden = np.array(list(product((-1.0, 1.0), repeat=HIDDEN)))
        log_partition = np.log(np.prod(2 * np.cosh(hidden @ coupling.T), axis=1).sum())
        likelihood = np.log(2 * np.cosh(data @ coupling)).sum() - len(data) * log_partition
        probability = np.exp(likelihood) * np.prod((1 + weights * prior) / 2)
        total, mass = total + probability * weights, mass + probability
    return total / mass


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_means_against_enumeration(temperature):
    random = np.random.default_rng(3)
    data = random.choice([-1, 1], (EXAMPLES, SIZE))
    prior = random.uniform(-0.6, 0.6, (SIZE, HIDDEN))
    sets = np.broadcast_to(data, (50, *data.shape))
    found = eq.sample_synapses(sets, HIDDEN, sweeps=2000, temperature=temperature, prior=prior, key=0)
    chains = np.asarray(found.mean)
    error = chains.std(axis=0, ddof=1) / np.sqrt(len(chains))
    assert error.max() < 0.01
    assert np.abs((chains.mean(axis=0) - enumerated(data, prior, temperature)) / error).max() < 4.5
    assert 0.1 < float(found.accepted.mean()) < 1


def test_one_set_alone_is_a_list_of_one():
    data = np.random.default_rng(0).choice([-1, 1], (EXAMPLES, SIZE))
    alone, listed = (eq.sample_synapses(given, HIDDEN, sweeps=8, key=0) for given in (data, data[None]))
    np.testing.assert_array_equal(alone.mean, listed.mean[0])
    assert alone.mean.shape == (SIZE, HIDDEN)


def test_refusals():
    data = np.ones((2, 3))
    with pytest.raises(ValueError, match="hidden_size: got 13"):
        eq.sample_synapses(data, 13, key=0)
    with pytest.raises(ValueError, match="sweeps: got 3"):
        eq.sample_synapses(data, 2, sweeps=3, key=0)
    with pytest.raises(ValueError, match="data: got"):
        eq.sample_synapses([[0.3, 1.0]], 2, key=0)
