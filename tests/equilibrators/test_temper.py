"""Parallel tempering: the exact law, temperatures that adapt, and a barrier that sweeps do not cross."""

import warnings

import numpy as np
import pytest
from scipy import stats

import equilibria as eq
import machines
import oracle

CHAINS = 10_000


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "dense"])
def test_samples_the_boltzmann_law(machine, temperature):
    network = machines.DISCRETE[machine]
    how = eq.Tempered(60, rungs=3, hottest=3.0)
    draws = eq.sample(network, how, chains=CHAINS, temperature=temperature, key=11)
    exact = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, draws)
    assert np.abs(found - exact).sum() / 2 < oracle.total_variation_bound(exact, CHAINS)


def two_valleys():
    """A machine of 12 spins whose two ground states are far apart: one strong mode."""
    pattern = np.ones((12, 1)) * np.array([[1.0, 1.0]])
    layers = [eq.Layer("visible", eq.Spin(), np.zeros(12)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    return eq.Network(layers, [eq.Dense(("visible", "hidden"), pattern)])


def test_chains_cross_barriers_that_sweeps_do_not():
    network = two_valleys()
    start = {"visible": np.ones((200, 12)), "hidden": np.ones((200, 2))}
    stuck = eq.equilibrate(network, eq.Sweeps(300), start, key=0)
    free = eq.equilibrate(network, eq.Tempered(300, rungs=6, hottest=10.0), start, key=0)
    assert (np.asarray(stuck["visible"]).mean(1) > 0).mean() > 0.95
    # Half of 200 chains in each valley: 5 standard deviations of a fair coin.
    assert (np.asarray(free["visible"]).mean(1) > 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(200))


def test_temperatures_move_until_all_pairs_exchange_equally_often():
    network = two_valleys()
    fixed = eq.equilibrate(network, eq.Tempered(3000, rungs=5, hottest=30.0, adapt=0.0), chains=100, key=1).carry
    adapted = eq.equilibrate(network, eq.Tempered(3000, rungs=5, hottest=30.0), chains=100, key=1).carry
    np.testing.assert_allclose(fixed.temperatures, 30.0 ** np.linspace(0, 1, 5), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(adapted.temperatures)[[0, -1]], [1.0, 30.0], rtol=1e-6)
    assert (np.diff(adapted.temperatures) > 0).all()
    assert np.ptp(adapted.rates) < 0.06
    assert np.ptp(fixed.rates) > 3 * np.ptp(adapted.rates)
    assert adapted.rates.min() > fixed.rates.min()


def far_apart(gap):
    """A machine of 40 visible neurons in a field, and a rung whose field points the other way."""
    return [eq.rbm(weights=np.zeros((40, 1)), visible_bias=np.full(40, bias)) for bias in (-gap, gap)]


@pytest.mark.parametrize("rounds", [6, 60])
def test_rates_are_those_measured(rounds):
    """Where nothing is exchanged the rate is nothing, from the first measurement on, and not what it began with."""
    other, network = far_apart(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = eq.equilibrate(network, eq.Tempered(rounds, ladder=[other]), chains=200, key=0)
    assert float(rest.info["exchange_rates"][0]) < 1e-6
    # Equal networks exchange always: this is no rate that only falls.
    same = eq.equilibrate(network, eq.Tempered(rounds, ladder=[network]), chains=200, key=0)
    assert float(same.info["exchange_rates"][0]) == pytest.approx(1.0)


def test_a_rate_is_the_mean_over_what_was_tried():
    """Independent draws of two fields: the mean of min(1, e^-(...)), by enumeration of both sums of neurons."""
    networks = [eq.rbm(weights=np.zeros((4, 1)), visible_bias=np.full(4, bias)) for bias in (0.0, 1.0)]
    rest = eq.equilibrate(networks[1], eq.Tempered(42, ladder=networks[:1]), chains=2000, key=0)
    counts = np.arange(5)
    laws = [stats.binom.pmf(counts, 4, 1 / (1 + np.exp(-bias))) for bias in (1.0, 0.0)]
    odds = np.exp(np.minimum(counts[None, :] - counts[:, None], 0.0))  # of x from the field and y from without
    truth = float(laws[0] @ odds @ laws[1])
    # 20 tries of 2000 chains, whose states are drawn anew in every round: a standard error below 0.003.
    assert float(rest.info["exchange_rates"][0]) == pytest.approx(truth, abs=0.012)


def test_a_ladder_whose_neighbours_never_exchange_is_told():
    other, network = far_apart(3.0)
    with pytest.warns(UserWarning, match=r"rungs 0 and 1 of 2, .* exchange .* put more networks between them"):
        eq.sample(network, eq.Tempered(60, ladder=[other]), chains=50, key=0)
    with pytest.warns(UserWarning, match=r"put more temperatures between them"):
        eq.sample(eq.rbm(200, 100, scale=1.0, key=0), eq.Tempered(60, rungs=2, hottest=1e6), chains=50, key=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eq.sample(network, eq.Tempered(60, ladder=[far_apart(2.5)[1]]), chains=50, key=0)


def test_bad_ladders_are_refused():
    for options, message in (({"rungs": 1}, "rungs: got 1"), ({"hottest": 1.0}, "hottest"), ({"adapt": -1.0}, "adapt")):
        with pytest.raises(ValueError, match=message):
            eq.Tempered(1, **options)
    with pytest.raises(ValueError, match="temperature"):
        eq.sample(two_valleys(), eq.Tempered(1), chains=2, temperature=0.0, key=0)
