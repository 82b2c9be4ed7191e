"""Sites of several states: the law of a block, sums and draws against enumeration, and what is refused."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines

STATES = 3
# Two sites of three states and two hidden neurons: 9 x 4 configurations.
MACHINE = machines.with_biases(eq.rbm(2 * STATES, 2, visible=eq.Potts(STATES), scale=1.0, key=8), 8)


def sequences():
    """All rows of two sites, and their whole numbers."""
    states = np.array(list(product(range(STATES), repeat=2)))
    return states, eq.data.one_hot(states, STATES)


def law(network, temperature):
    """Each row's weight, with the hidden neurons summed by hand in float64."""
    rows = np.asarray(sequences()[1], np.float64)
    weights = np.asarray(network.couplings[0].weights, np.float64)
    visible, hidden = (np.asarray(layer.bias, np.float64) for layer in network.layers)
    fields = (rows @ weights + hidden) / temperature
    return rows @ visible / temperature + np.logaddexp(0, fields).sum(1)


def test_a_block_is_a_one_hot_layer_of_its_own():
    field = jax.random.normal(jax.random.key(0), (4, 2 * STATES))
    for method in ("mean", "variance", "mode", "cumulant", "inverse"):
        given = jax.nn.softmax(field) if method == "inverse" else field
        whole = getattr(eq.Potts(STATES), method)(given)
        parts = [getattr(eq.OneHot(), method)(given[:, i : i + STATES]) for i in (0, STATES)]
        np.testing.assert_allclose(whole, jnp.concatenate(parts, axis=1), rtol=1e-6)
    slope = jax.grad(lambda x: eq.Potts(STATES).cumulant(x).sum())(field)
    np.testing.assert_allclose(slope, eq.Potts(STATES).mean(field), atol=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sums_and_draws_agree_with_enumeration(temperature):
    logs = law(MACHINE, temperature)
    log_z = np.logaddexp.reduce(logs)
    exact = eq.log_partition(MACHINE, temperature=temperature)
    assert exact.value == pytest.approx(log_z, abs=1e-4)
    likelihood = eq.log_likelihood(MACHINE, sequences()[1], temperature=temperature)
    assert likelihood.value == pytest.approx(np.mean(logs - log_z), abs=1e-4)
    sampled = eq.log_partition(MACHINE, "ais", temperature=temperature, steps=300, chains=200, key=2)
    assert abs(sampled.value - log_z) < 5 * sampled.error + 1e-3
    for how in (eq.Sweeps(40), eq.Exact()):
        draws = eq.sample(MACHINE, how, chains=10_000, temperature=temperature, key=3)["visible"]
        found = eq.data.states_of(draws, STATES) @ [STATES, 1]
        shares, expected = np.bincount(found, minlength=9) / 10_000, np.exp(logs - log_z)
        assert (np.abs(shares - expected) < 5 * np.sqrt(expected * (1 - expected) / 10_000) + 1e-6).all()


def test_the_pseudo_likelihood_is_that_of_whole_sites():
    logs, (states, rows) = law(MACHINE, 1.0).reshape(STATES, STATES), sequences()
    by_hand = [
        logs[a, b] - np.logaddexp.reduce(logs[:, b]) + logs[a, b] - np.logaddexp.reduce(logs[a]) for a, b in states
    ]
    assert eq.pseudo_likelihood(MACHINE, rows) == pytest.approx(np.mean(by_hand), abs=1e-5)


def test_a_machine_learns_the_frequencies_of_its_data():
    states = np.random.default_rng(0).choice(9, 2000, p=np.array([4, 1, 1, 1, 4, 1, 1, 1, 4]) / 18)
    rows = sequences()[1][states]
    start = eq.rbm(2 * STATES, 4, visible=eq.Potts(STATES), key=1)
    run = eq.train(start, rows, eq.exact(), steps=600, batch_size=2000, learning_rate=1.0, key=2)
    best = np.mean(np.log(np.bincount(states, minlength=9) / 2000)[states])
    # Sites that are independent of one another are 0.23 nats short of it.
    assert eq.log_likelihood(run.network, rows).value > best - 0.02


def test_sites_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match=r"layer 'visible': got 7 neurons; allowed: a multiple of the 3 states"):
        eq.rbm(7, 2, visible=eq.Potts(3), key=0)
    with pytest.raises(ValueError, match=r"states: got 1"):
        eq.Potts(1)
    with pytest.raises(ValueError, match=r"data: got site 1 without exactly one 1"):
        eq.Potts(3).check("data", np.array([[1, 0, 0, 1, 1, 0]]))


def test_a_machine_comes_back_from_its_file(tmp_path):
    eq.save_network(tmp_path, MACHINE)
    found = eq.load_network(tmp_path)
    assert found.layers[0].unit.states == STATES
    np.testing.assert_array_equal(found.couplings[0].weights, MACHINE.couplings[0].weights)
