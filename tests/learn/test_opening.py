"""Where learning begins: fields, chains and the rate come from the data unless someone says otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
from equilibria.learn.opening import largest_variance, natural_rate
from equilibria.model.transforms import independent_site_biases

DATA = np.random.default_rng(0).choice([0.0, 1.0], (40, 5), p=[0.2, 0.8]) * np.array([1, 1, 0, 1, 1])
MACHINE = eq.rbm(5, 3, key=0)
STILL = {"steps": 1, "batch_size": 20, "learning_rate": 1e-30, "key": 1}


def biases(run):
    return np.asarray(run.network.layers[0].bias)


def test_fields_begin_at_the_data_unless_there_are_some():
    at_data = np.asarray(independent_site_biases(MACHINE, DATA).layers[0].bias)
    np.testing.assert_array_equal(biases(eq.train(MACHINE, DATA, eq.pcd(2, chains=30), **STILL)), at_data)
    asked = eq.train(MACHINE, DATA, eq.pcd(2, chains=30, opening="network"), **STILL)
    np.testing.assert_allclose(biases(asked), 0.0, atol=1e-25)
    own = eq.rbm(weights=MACHINE.couplings[0].weights, visible_bias=[0.5, 0, 0, 0, 0])
    kept = biases(eq.train(own, DATA, eq.pcd(2, chains=30), **STILL))
    np.testing.assert_allclose(kept, own.layers[0].bias, atol=1e-25)


def test_a_run_that_goes_on_keeps_its_network():
    """A network whose fields came out as zero is not begun anew when its chains go on."""
    first = eq.train(MACHINE, DATA, eq.pcd(2, chains=30, opening="network"), **STILL)
    more = eq.train(first.network, DATA, eq.pcd(2, chains=30), carry=first.carry, **STILL)
    np.testing.assert_allclose(biases(more), 0.0, atol=1e-25)


def test_chains_begin_at_examples():
    rows = {tuple(row) for row in DATA}
    data = {"visible": jnp.asarray(DATA)}
    chains = eq.pcd(2, chains=30).begin(MACHINE, data, 20, jax.random.key(0))["chains"]
    assert {tuple(row) for row in np.asarray(chains["visible"])} <= rows
    assert len({tuple(row) for row in np.asarray(chains["visible"])}) > 3
    drawn = eq.pcd(2, chains=30, opening="network").begin(MACHINE, data, 20, jax.random.key(0))["chains"]
    assert not {tuple(row) for row in np.asarray(drawn["visible"])} <= rows  # the third feature is never on


def test_nudged_recipes_keep_their_fields():
    network = eq.layered((4, 3, 2), key=0)
    run = eq.train(network, (np.eye(4), np.eye(4)[:, :2]), eq.equilibrium_propagation(), **STILL)
    np.testing.assert_allclose(biases(run), 0.0, atol=1e-25)
    assert run.history.attrs["learning_rate"] == pytest.approx(1e-30)


def test_the_largest_variance_is_an_eigenvalue():
    values = np.random.default_rng(1).normal(size=(500, 20)) @ np.diag(np.linspace(1, 3, 20))
    largest = np.linalg.eigvalsh(np.cov(values.T, bias=True))[-1]
    assert largest_variance(values) == pytest.approx(largest, rel=0.05)
    assert largest_variance(np.ones((9, 4))) == 0.0
    assert natural_rate(MACHINE, {"visible": np.ones((9, 5))}) > 0  # nothing varies: any rate will do


def test_a_mode_grows_by_the_rate_times_its_variance_less_one():
    """Decelle 2017, linear regime, in spins: data of two opposite patterns have one mode, of variance N."""
    pattern = np.array([1.0, -1, 1, 1, -1, 1])
    data, rate, weak = np.stack([pattern, -pattern]), 0.01, 1e-3
    network = eq.rbm(weights=weak * pattern[:, None], visible=eq.Spin(), hidden=eq.Spin())
    run = eq.train(network, data, eq.exact(), steps=1, learning_rate=rate, key=0)
    grown = float(pattern @ np.asarray(run.network.couplings[0].weights)[:, 0]) / (weak * len(pattern))
    assert grown == pytest.approx(1 + rate * (len(pattern) - 1), abs=1e-4)
    chosen = eq.train(network, data, eq.exact(), steps=1, key=0).history.attrs["learning_rate"]
    assert chosen == pytest.approx(natural_rate(network, {"visible": data}))


def test_a_rate_from_the_data_is_that_of_the_run_that_goes_on(tmp_path):
    options = {"batch_size": 10, "final_rate": 0.5, "key": 1}
    recipe = eq.pcd(2, chains=30)
    whole = eq.train(MACHINE, DATA, recipe, steps=8, **options)
    eq.train(MACHINE, DATA, recipe, steps=8, callbacks=[_until(4)], record=[4], checkpoint=tmp_path, **options)
    rest = eq.train(MACHINE, DATA, recipe, steps=8, checkpoint=tmp_path, resume=True, **options)
    np.testing.assert_array_equal(rest.network.couplings[0].weights, whole.network.couplings[0].weights)
    with pytest.raises(ValueError, match=r"another learning_rate: 'auto, falling to 0.5 of it', here '0.05"):
        eq.train(MACHINE, DATA, recipe, steps=9, checkpoint=tmp_path, resume=True, **{**options, "learning_rate": 0.05})


def _until(last):
    def stop(step, parameters, row):
        if step == last:
            raise eq.StopRun("enough")

    return stop


class Decay(eq.Rule):
    def begin(self, parameters, data, batch_size, key):
        return None

    def step(self, parameters, batch, *, carry, index, key):
        return eq.Step(parameters, carry, {})


def test_a_rate_falls_in_a_line_and_stays(tmp_path):
    """Rates of 1/2 and 1/4, then none: a run that goes on beyond its end does not jump back up."""
    options = {"learning_rate": 0.5, "final_rate": 0.0, "checkpoint": tmp_path, "key": 0}
    run = eq.train(jnp.asarray(1.0), np.zeros((4, 1)), Decay(), steps=2, **options)
    assert float(run.parameters) == pytest.approx(0.5 * 0.75)
    more = eq.train(jnp.asarray(1.0), np.zeros((4, 1)), Decay(), steps=5, resume=True, **options)
    assert float(more.parameters) == pytest.approx(0.5 * 0.75)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": "fast"}, "learning_rate: got 'fast'; allowed: numbers"),
        ({"final_rate": 1.5}, "final_rate: got 1.5"),
        ({"final_rate": 0.5, "optimiser": eq.trust_ratio(0.1)}, "final_rate: got 0.5; allowed: 1 where an optimiser"),
    ],
)
def test_refused_with_a_reason(options, message):
    with pytest.raises(ValueError, match=message):
        eq.train(MACHINE, DATA, eq.cd(1), steps=1, key=0, **options)


def test_an_opening_is_one_of_two():
    with pytest.raises(ValueError, match="opening: got 'zero'; allowed: 'data', 'network'"):
        eq.pcd(1, opening="zero")
