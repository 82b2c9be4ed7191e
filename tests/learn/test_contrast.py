"""The contrast of every recipe against autodiff and enumeration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.driver import setting
from equilibria.learn.train import trainable


def double(network):
    return jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, network)


def some_data(network, examples=6, seed=0):
    layer = network.layers[0]
    return {layer.name: jnp.asarray(np.random.default_rng(seed).choice(layer.unit.levels, (examples, layer.size)))}


def brute_log_likelihood(network, data, states):
    """The mean log-probability of the data by summing all configurations, in plain jnp so that it differentiates."""
    edges = np.cumsum([layer.size for layer in network.layers])[:-1]
    state = dict(zip(network.names, map(jnp.asarray, np.split(states, edges, axis=1)), strict=True))
    logs = -network.energy(state)
    first = network.names[0]
    log_z = jax.nn.logsumexp(logs)
    likelihoods = []
    for row in np.asarray(data[first]):
        agree = (states[:, : len(row)] == row).all(1)
        likelihoods.append(jax.nn.logsumexp(logs[agree]) - log_z)
    return jnp.mean(jnp.stack(likelihoods))


def leaves(network):
    """Biases and weights as one vector."""
    mask = trainable(network)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(network, mask))])


@pytest.mark.parametrize("machine", machines.DISCRETE)
def test_exact_phases_give_the_gradient_of_the_likelihood(machine):
    with jax.enable_x64(True):
        network = double(machines.DISCRETE[machine])
        data = some_data(network)
        found = eq.contrast(network, eq.exact(), data, key=jax.random.key(0))
        states = oracle.enumerate_states(network).states
        expected = eqx.filter_grad(brute_log_likelihood)(network, data, states)
        np.testing.assert_allclose(leaves(found.gradient), -leaves(expected), atol=1e-6)
        np.testing.assert_allclose(found.report["contrast"], -brute_log_likelihood(network, data, states), atol=1e-9)


@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "layered", "dense", "hopfield"])
def test_long_free_phases_approach_it(machine):
    """Persistent chains, contrastive divergence from the data and random starts, all run until they forget their start."""
    network = machines.DISCRETE[machine]
    data = {name: jnp.tile(values, (2000, 1)) for name, values in some_data(network, 3).items()}
    expected = leaves(eq.contrast(network, eq.exact(), data, key=jax.random.key(0)).gradient)
    for recipe in (eq.cd(60), eq.rdm(60), eq.pcd(60, chains=6000)):
        memory = recipe.begin(network, data, 6000, jax.random.key(1))
        found = leaves(eq.contrast(network, recipe, data, memory=memory, key=jax.random.key(2)).gradient)
        # Every statistic is an average of 6,000 products of size at most 1 in each phase: 5 sigma.
        assert np.abs(found - expected).max() < 5 * np.sqrt(2 / 6000)


def test_summing_a_colour_out_lowers_the_noise():
    """The average over hidden units in closed form has the mean of the sampled product, and a smaller variance."""
    network = machines.DISCRETE["rbm binary"]
    state = eq.sample(network, eq.Exact(), chains=20_000, key=0)
    whole = setting(network, (), 1.0)

    def gradient(energy):
        per_chain = jax.vmap(lambda one: eqx.filter_grad(lambda net: energy(net, one))(network).couplings[0].weights)
        return np.asarray(per_chain(state))

    plain = gradient(lambda net, one: net.energy(one))
    averaged = gradient(lambda net, one: net.free_energy(one, whole.integrable))
    error = np.sqrt((plain.var(0) + averaged.var(0)) / 20_000)
    assert (np.abs(plain.mean(0) - averaged.mean(0)) < 5 * error).all()
    assert (averaged.var(0) < plain.var(0)).all()


NET = machines.with_biases(eq.layered((4, 5, 3), gain=0.6, key=1), 1)
BATCH = {"input": jnp.linspace(0, 1, 12).reshape(3, 4), "output": jnp.eye(3)}


def settle(steps=2000):
    return eq.Sweeps(steps, mood="mode", tolerance=1e-13)


def objective(network, batch):
    """The mean squared error at the free fixed point, differentiated through 300 block sweeps."""

    def output(x):
        hidden, out = jnp.zeros(5), jnp.zeros(3)
        first, second = (coupling.weights for coupling in network.couplings)
        for _ in range(300):
            out = jnp.clip(hidden @ second + network.layers[2].bias, 0, 1)
            hidden = jnp.clip(x @ first + out @ second.T + network.layers[1].bias, 0, 1)
        return jnp.clip(hidden @ second + network.layers[2].bias, 0, 1)

    return jnp.mean(eq.squared_error(jax.vmap(output)(batch["input"]), batch["output"]))


@pytest.mark.parametrize("variant", ["one-sided", "centered", "random sign"])
def test_equilibrium_propagation_approaches_the_gradient_of_the_objective(variant):
    """The error is of first order in the nudge one-sided and of second order centered."""
    with jax.enable_x64(True):
        network, batch = double(NET), jax.tree.map(lambda leaf: leaf.astype(float), BATCH)
        expected = leaves(eqx.filter_grad(objective)(network, batch))
        errors = []
        for nudge in (0.02, 0.01):
            recipe = eq.equilibrium_propagation(
                nudge,
                free=settle(),
                nudged=settle(),
                centered=variant == "centered",
                random_sign=variant == "random sign",
            )
            found = eq.contrast(network, recipe, batch, key=jax.random.key(3))
            assert found.report["unconverged_base"] == 0
            errors.append(np.abs(leaves(found.gradient) - expected).max())
        order = np.log2(errors[0] / errors[1])
        assert errors[1] < 0.05 * np.abs(expected).max()
        assert order == pytest.approx(2 if variant == "centered" else 1, abs=0.25)


def test_contrastive_hebbian_learning_is_the_fully_clamped_contrast():
    with jax.enable_x64(True):
        network, batch = double(NET), jax.tree.map(lambda leaf: leaf.astype(float), BATCH)
        recipe = eq.contrastive_hebbian(free=settle(), clamped=settle())
        found = eq.contrast(network, recipe, batch, key=jax.random.key(0)).gradient
        inputs, output = eq.Clamp("input", batch["input"]), eq.Clamp("output", batch["output"])
        free = eq.equilibrate(network, settle(), world=inputs)
        clamped = eq.equilibrate(network, settle(), world=[inputs, output])
        hebb = [rest["hidden1"].T @ rest["output"] / 3 for rest in (free, clamped)]
        np.testing.assert_allclose(found.couplings[1].weights, hebb[0] - hebb[1], atol=1e-10)


def test_particles_go_on_from_where_they_were():
    recipe = eq.equilibrium_propagation(0.5, free=eq.Sweeps(1, mood="mode"), particles=True)
    memory = recipe.begin(NET, {name: jnp.tile(v, (2, 1)) for name, v in BATCH.items()}, 3, jax.random.key(0))
    assert {name: layer.shape for name, layer in memory["particles"].items()} == {"hidden1": (6, 5), "output": (6, 3)}
    index = jnp.array([4, 0, 2])
    first = eq.contrast(NET, recipe, BATCH, memory=memory, index=index, key=jax.random.key(1)).memory["particles"]
    assert (np.asarray(first["hidden1"])[[1, 3, 5]] == 0).all()  # examples not shown stay
    assert (np.asarray(first["hidden1"])[[4, 0, 2]] != 0).any()
    second = eq.contrast(NET, recipe, BATCH, memory={"particles": first}, index=index, key=jax.random.key(1))
    two = eq.equilibrate(
        NET,
        eq.Sweeps(2, mood="mode"),
        {"hidden1": np.zeros((3, 5)), "output": np.zeros((3, 3))},
        world=eq.Clamp("input", BATCH["input"]),
    )
    np.testing.assert_allclose(second.memory["particles"]["hidden1"][index], two["hidden1"], atol=1e-6)


def test_units_keep_their_own_parameters():
    mask = trainable(eq.rbm(3, 2, hidden=eq.Gaussian(), key=0))
    assert mask.couplings[0].weights
    assert not mask.layers[1].unit.stiffness
