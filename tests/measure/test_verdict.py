"""A machine beside independent neurons, and estimates that say how far to trust them."""

import numpy as np
import pytest

import equilibria as eq
import oracle
from equilibria.measure.estimate import Estimate
from equilibria.measure.verdict import independent_sites, verdict

DATA = np.random.default_rng(0).choice([0.0, 1.0], (40, 4), p=[0.3, 0.7])
MACHINE = eq.rbm(4, 3, scale=1.0, key=2)


def test_independent_neurons_are_a_machine_without_couplings():
    alone = eq.independent_site_biases(eq.rbm(weights=np.zeros((4, 3))), DATA)
    brute = oracle.enumerate_states(alone)
    rows = [brute.probabilities[(brute.states[:, :4] == row).all(axis=1)].sum() for row in DATA]
    assert independent_sites(MACHINE, DATA) == pytest.approx(np.mean(np.log(rows)), abs=1e-4)
    values = np.random.default_rng(1).normal(3, 1, (200, 2))
    gaussian = eq.rbm(2, 3, visible=eq.Gaussian(), key=0)
    means = values.sum(0) / 201
    density = -0.5 * np.square(values - means).sum(1).mean() - np.log(2 * np.pi)
    assert independent_sites(gaussian, values) == pytest.approx(density, abs=1e-4)


def test_a_good_machine_has_nothing_to_complain_of():
    run = eq.train(eq.rbm(4, 3, key=0), DATA, eq.exact(), steps=200, learning_rate=0.2, key=1)
    found = verdict(run.network, DATA, eq.log_partition(run.network))
    assert found.complaints == ()
    assert found.machine.value == pytest.approx(eq.log_likelihood(run.network, DATA).value, abs=1e-4)
    assert found.machine.value > found.independent


def test_few_chains_and_a_machine_without_a_likelihood_are_said():
    few = verdict(MACHINE, DATA, Estimate(eq.log_partition(MACHINE).value - 50, 0.1, None, 2.5))
    assert len(few.complaints) == 1
    assert few.complaints[0].startswith("only 2.5 effective chains carry the estimate")
    lost = verdict(MACHINE, DATA, Estimate(np.nan))
    assert lost.complaints[0].startswith("worse than independent neurons: nan")


def test_a_method_is_found_and_brackets_have_their_ends_in_order():
    assert eq.log_likelihood(MACHINE, DATA) == eq.log_likelihood(MACHINE, DATA, "exact")
    with pytest.raises(ValueError, match="key: got None"):
        eq.log_likelihood(eq.rbm(30, 30, key=0), np.ones((2, 30)))
    for key in range(8):  # so short that the two ends often cross by noise
        low, high = eq.log_partition(MACHINE, "ais", chains=4, steps=20, burn_in=5, key=key).bracket
        assert low <= high
        low, high = eq.log_likelihood(MACHINE, DATA, "ais", chains=4, steps=20, burn_in=5, key=key).bracket
        assert low <= high
