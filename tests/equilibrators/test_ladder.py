"""Ladders of networks: exchange and annealing along them against enumeration, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators import ladder as ladders

CHAINS = 10_000


def scaled(network, factor):
    layers = [eq.Layer(layer.name, layer.unit, factor * layer.bias) for layer in network.layers]
    return eq.Network(layers, [coupling.scaled(factor) for coupling in network.couplings])


def others(network):
    """Two more networks of its shape, neither a multiple of it."""
    rungs = [scaled(network, 0.2), scaled(machines.with_biases(network, 9), 0.6)]
    return [eq.Network(rung.layers, rung.couplings) for rung in rungs]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "layered", "dense"])
def test_exchange_along_networks_samples_the_boltzmann_law(machine, temperature):
    network = machines.DISCRETE[machine]
    how = eq.Tempered(60, ladder=others(network))
    rest = eq.equilibrate(network, how, chains=CHAINS, temperature=temperature, key=11)
    exact = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, rest.state)
    assert np.abs(found - exact).sum() / 2 < oracle.total_variation_bound(exact, CHAINS)
    # Every rung has its own law, not that of its neighbour.
    for place, rung in enumerate(reversed(others(network)), 1):
        law = oracle.enumerate_states(rung, temperature).probabilities
        there = oracle.frequencies(network, {name: layer[place] for name, layer in rest.carry.states.items()})
        assert np.abs(there - law).sum() / 2 < oracle.total_variation_bound(law, CHAINS)
    assert rest.info["round_trips"] > 0


def share_above(network, ladder, chains):
    """How many of the chains are in the upper valley after 200 rounds along a ladder, started below."""
    start = {layer.name: -np.ones((chains, layer.size), np.float32) for layer in network.layers}
    draws = eq.equilibrate(network, eq.Tempered(200, ladder=ladder), start, key=3)["visible"]
    return (np.asarray(draws).mean(1) > 0).mean()


def test_exchanges_by_a_wrong_rule_are_noticed(monkeypatch):
    """Two valleys that no sweep crosses: their weights come from exchanges alone, and are wrong if all are accepted."""
    from equilibria.equilibrators import temper

    layers = [eq.Layer("visible", eq.Spin(), np.full(12, 0.04)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    network = eq.Network(layers, [eq.Dense(("visible", "hidden"), np.ones((12, 2)))])
    ladder = [scaled(network, share) for share in (0.1, 0.25, 0.4, 0.6, 0.8)]
    exact = oracle.enumerate_states(network)
    above = exact.probabilities[exact.states[:, :12].mean(1) > 0].sum()
    error = np.sqrt(above * (1 - above) / 2000)
    assert abs(share_above(network, ladder, 2000) - above) < 5 * error
    monkeypatch.setattr(temper, "reduced", lambda system, state: 0 * ladders.reduced(system, state))
    wrong = share_above(network, ladder, 2001)  # one more chain, so that the wrong rule is compiled
    assert abs(wrong - above) > 7 * error


def test_a_clamped_network_is_tempered_under_its_clamp():
    network = machines.DISCRETE["rbm binary"]
    values, mask = np.array([1.0, 0.0, 1.0, 1.0]), np.array([True, False, True, False])
    exact = oracle.enumerate_states(network)
    agree = (exact.states[:, :4][:, mask] == values[mask]).all(axis=1)
    law = exact.probabilities * agree / exact.probabilities[agree].sum()
    world = eq.Clamp("visible", values, mask=mask)
    for how in (eq.Tempered(60, ladder=others(network)), eq.Tempered(60, rungs=3)):
        found = oracle.frequencies(network, eq.sample(network, how, chains=CHAINS, world=world, key=5))
        assert np.abs(found - law).sum() / 2 < oracle.total_variation_bound(law, CHAINS)


UNITS = [eq.Binary(), eq.Spin(), eq.Gaussian(0.8), eq.Clipped(2.0), eq.ReLU(1.5), eq.DoubleReLU(1.0, 2.0, -0.5)]
FEW = [(eq.Binary(), eq.Binary()), (eq.Gaussian(0.8), eq.Spin()), (eq.Potts(2), eq.ReLU())]
MANY = [(eq.Binary(), unit) for unit in UNITS[1:]] + [(unit, eq.Binary()) for unit in UNITS[1:]]
PAIRS = [*FEW, *(pytest.param(pair, marks=pytest.mark.slow) for pair in MANY)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(type(unit).__name__ for unit in pair))
def test_annealing_along_networks_finds_the_partition_function(pair):
    network = machines.with_biases(eq.rbm(4, 3, visible=pair[0], hidden=pair[1], scale=0.4, key=5), 3)
    found = eq.log_partition(network, "ais", ladder=others(network), chains=400, steps=90, burn_in=30, key=7)
    truth = eq.log_partition(network).value
    assert abs(found.value - truth) < 5 * found.error < 0.5
    assert found.bracket[0] - 5 * found.error < truth < found.bracket[1] + 5 * found.error


def test_annealing_refuses_rungs_whose_units_are_others():
    """Their biases and couplings are mixed on the way, and nothing else of them: it would be off without a word."""
    network = machines.with_biases(eq.rbm(4, 3, visible=eq.Gaussian(1.0), scale=0.4, key=5), 3)
    other = eq.rbm(4, 3, visible=eq.Gaussian(0.3), scale=0.2, key=5)
    with pytest.raises(ValueError, match=r"ladder: got other Gaussian units in 'visible' of the network in place 0"):
        eq.log_partition(network, "ais", ladder=[other], key=0)
    with pytest.raises(ValueError, match=r"ladder: got other Gaussian units"):
        eq.log_likelihood(network, np.zeros((2, 4)), "ais", ladder=[other], key=0)


def test_annealing_reports_its_chains_by_rung():
    network = machines.DISCRETE["rbm binary"]
    found = eq.log_partition(network, "ais", ladder=others(network), chains=50, steps=90, burn_in=100, key=7)
    assert len(found.by_rung) == 3
    assert found.by_rung[-1] == found.effective
    assert all(1 <= alive <= 50 for alive in found.by_rung)
    # Two pairs, by chains with weights and by exchanges of many chains: five standard errors of 50 are 0.2 or less.
    how = eq.Tempered(60, ladder=others(network))
    rates = np.asarray(eq.equilibrate(network, how, chains=400, key=1).info["exchange_rates"])[::-1]
    np.testing.assert_allclose(found.acceptance, rates, atol=0.2)
    assert np.ptp(rates) > 0.02  # they differ, so that their order is known
    assert eq.log_partition(network, "ais", chains=50, steps=90, burn_in=100, key=7).by_rung == ()
    along = {"ladder": others(network), "chains": 2000, "steps": 90, "reverse": False, "key": 7}
    np.testing.assert_allclose(eq.log_partition(network, "ais", **along).acceptance, rates, atol=0.04)


@pytest.mark.parametrize("machine", ["dense", "layered"])
def test_annealing_along_networks_of_other_kinds(machine):
    network = machines.DISCRETE[machine]
    found = eq.log_partition(network, "ais", ladder=others(network), chains=400, steps=90, reverse=False, key=7)
    assert abs(found.value - oracle.enumerate_states(network).log_partition) < 5 * found.error < 0.5


def test_a_wrong_rung_would_be_noticed():
    """A negative control: the way may pass anywhere, but its ends decide."""
    network = machines.DISCRETE["rbm binary"]
    wrong = eq.log_partition(scaled(network, 0.9), "ais", ladder=others(network), chains=400, steps=90, key=7)
    assert abs(wrong.value - eq.log_partition(network).value) > 10 * wrong.error


def test_draws_of_two_networks_give_the_ratio_of_their_sums():
    network = machines.DISCRETE["rbm binary"]
    first, second = others(network)[0], network
    draws = [eq.sample(net, eq.Exact(), chains=4000, key=number) for number, net in enumerate((first, second))]
    seen = ladders.crossing(first, second, *draws)
    found, error = ladders.bennett(seen)
    truth = eq.log_partition(second).value - eq.log_partition(first).value
    assert abs(found - truth) < 5 * error < 0.3
    fewer = ladders.Crossing(seen.up[:1000], seen.down)
    assert abs(ladders.bennett(fewer)[0] - truth) < 5 * ladders.bennett(fewer)[1]
    assert 0 < float(seen.acceptance()) < 1


def test_rungs_are_chosen_by_what_is_measured():
    network = machines.with_biases(eq.rbm(12, 6, scale=1.5, key=2), 2)
    path = [scaled(network, share) for share in np.linspace(0, 1, 21)]
    chosen = ladders.choose_rungs(path, 0.4, key=0)
    assert chosen[0] == 0
    assert chosen[-1] == 20
    assert 2 < len(chosen) < 21
    rest = eq.equilibrate(network, eq.Tempered(400, ladder=[path[place] for place in chosen[:-1]]), chains=200, key=1)
    # Running averages of 200 chains' exchanges: the bar was 0.4 for each pair but the one that closes the ladder.
    assert (np.asarray(rest.info["exchange_rates"]) > 0.33).all()


def test_nothing_compiles_again_for_another_ladder_of_the_same_length():
    network = machines.DISCRETE["rbm binary"]
    traces = []

    @jax.jit
    def step(how, state, key):
        traces.append(1)
        from equilibria.equilibrators.conditioned import conditioned

        system = conditioned(network, (), 1.0)
        return how.step(system, state, how.begin(system, state), key)[0]

    state = {"visible": jnp.zeros((5, 4)), "hidden": jnp.zeros((5, 3))}
    for factor in (1.0, 0.5):
        step(eq.Tempered(3, ladder=[scaled(rung, factor) for rung in others(network)]), state, jax.random.key(0))
    assert len(traces) == 1


def test_bad_ladders_are_refused():
    network = machines.DISCRETE["rbm binary"]
    rungs = others(network)
    with pytest.raises(ValueError, match=r"rungs: got 5 with a ladder of 2 networks; allowed: at most 3"):
        eq.Tempered(1, rungs=5, ladder=rungs)
    with pytest.raises(ValueError, match=r"ladder: got no networks"):
        eq.Tempered(1, ladder=[])
    with pytest.raises(ValueError, match=r"ladder: got a network of another shape"):
        eq.sample(machines.DISCRETE["rbm spin-binary"], eq.Tempered(1, ladder=rungs), chains=2, key=0)
    with pytest.raises(ValueError, match=r"ladder: got a network of another shape"):
        eq.log_partition(eq.rbm(5, 3, key=0), "ais", ladder=rungs, key=0)
    with pytest.raises(ValueError, match=r"most: got 3 rungs; allowed: at most the 2 networks"):
        ladders.choose_rungs(rungs, most=3, key=0)
    far = [eq.rbm(weights=np.zeros((40, 1)), visible_bias=np.full(40, bias)) for bias in (-3.0, 3.0)]
    with pytest.raises(ValueError, match=r"networks: got networks 0 and 1, which exchange .* neighbours that overlap"):
        ladders.choose_rungs(far, key=0)
