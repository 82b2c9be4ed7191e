"""Rules on altered examples: the inner rule sees what the change returns, and nothing else differs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq

NETWORK = eq.layered((6, 4, 2), key=0)
DATA = {"input": jnp.linspace(0.1, 1.0, 30).reshape(5, 6), "output": jnp.eye(2)[jnp.array([0, 1, 0, 1, 1])]}
RULE = eq.equilibrium_propagation(0.3, free=eq.Sweeps(4, update="mode"))


def _weights(found):
    return [np.asarray(coupling.weights) for coupling in found.gradient.couplings]


def test_the_rule_sees_the_altered_batch():
    key = jax.random.key(3)
    here, inner = jax.random.split(key)
    found = eq.Augmented(RULE, eq.InputDropout(0.4)).step(NETWORK, DATA, carry={}, key=key)
    expected = RULE.step(NETWORK, eq.InputDropout(0.4)(here, DATA), carry={}, key=inner)
    plain = RULE.step(NETWORK, DATA, carry={}, key=inner)
    for mine, its, unaltered in zip(_weights(found), _weights(expected), _weights(plain), strict=True):
        np.testing.assert_array_equal(mine, its)
        assert not np.allclose(mine, unaltered)


def test_missing_values_are_as_many_as_asked_and_keep_the_mean():
    values = eq.InputDropout(0.2)(jax.random.key(0), {"input": jnp.ones((1000, 100)), "output": jnp.ones(3)})
    missing = float(jnp.mean(values["input"] == 0))
    assert abs(missing - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 1e5)
    np.testing.assert_allclose(jnp.unique(values["input"]), [0.0, 1.25], rtol=1e-6)
    np.testing.assert_array_equal(values["output"], 1)


def test_training_goes_on_where_it_stopped(tmp_path):
    rule = eq.Augmented(eq.equilibrium_propagation(particles=True, watch_changes=True), eq.InputDropout(0.5))
    data = np.asarray(DATA["input"]), np.asarray(DATA["output"])
    once = eq.train(NETWORK, data, rule, epochs=4, batch_size=2, learning_rate=0.1, key=1)
    eq.train(NETWORK, data, rule, epochs=2, batch_size=2, learning_rate=0.1, checkpoint=tmp_path, key=1)
    again = eq.train(
        NETWORK, data, rule, epochs=4, batch_size=2, learning_rate=0.1, checkpoint=tmp_path, resume=True, key=1
    )
    for first, second in zip(once.network.couplings, again.network.couplings, strict=True):
        np.testing.assert_array_equal(first.weights, second.weights)
    assert once.history["change"].shape[-1] == 2
    other = eq.Augmented(rule.rule, eq.InputDropout(0.4))
    with pytest.raises(ValueError, match="a run with another rule"):
        eq.train(NETWORK, data, other, epochs=4, batch_size=2, checkpoint=tmp_path, resume=True, key=1)


def test_any_function_may_be_the_change():
    rule = eq.Augmented(RULE, lambda key, batch: {**batch, "input": 1 - batch["input"]})
    data = {name: np.asarray(values) for name, values in DATA.items()}
    found = eq.train(NETWORK, data, rule, epochs=1, batch_size=5, learning_rate=0.1, key=1)
    turned = {**data, "input": 1 - data["input"]}
    expected = eq.train(NETWORK, turned, RULE, epochs=1, batch_size=5, learning_rate=0.1, key=1)
    for first, second in zip(found.network.couplings, expected.network.couplings, strict=True):
        np.testing.assert_allclose(first.weights, second.weights, rtol=1e-6, atol=1e-7)


def test_chains_are_those_of_the_rule():
    assert eq.Augmented(eq.pcd(steps=1, chains=7), eq.InputDropout(0.1, layer="visible")).counts == {"chains": 7}


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"change: got 0\.2; allowed: a function"):
        eq.Augmented(RULE, 0.2)
    with pytest.raises(ValueError, match=r"rule: got .*; allowed: a recipe"):
        eq.Augmented(eq.InputDropout(0.2), RULE)
    with pytest.raises(ValueError, match="fraction"):
        eq.InputDropout(1.0)
    with pytest.raises(ValueError, match="a layer that has data: input, output"):
        eq.InputDropout(0.1, layer="hidden")(jax.random.key(0), DATA)
