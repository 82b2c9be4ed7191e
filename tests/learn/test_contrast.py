"""The contrast of every recipe against autodiff and enumeration."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.conditioned import conditioned
from equilibria.learn.phase import trainable


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
        value, expected = eqx.filter_jit(
            lambda network: eqx.filter_value_and_grad(brute_log_likelihood)(network, data, states)
        )(network)
        np.testing.assert_allclose(leaves(found.gradient), -leaves(expected), atol=1e-6)
        np.testing.assert_allclose(found.report["contrast"], -value, atol=1e-9)


@pytest.mark.parametrize(
    "machine",
    [
        "rbm spin-binary",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("rbm binary", "layered", "dense", "hopfield")),
    ],
)
def test_long_free_phases_approach_it(machine):
    """Persistent chains, contrastive divergence from the data and random starts, all run until they forget their start."""
    network = machines.DISCRETE[machine]
    data = {name: jnp.tile(values, (2000, 1)) for name, values in some_data(network, 3).items()}
    expected = leaves(eq.contrast(network, eq.exact(), data, key=jax.random.key(0)).gradient)
    plain = {"centered_gradient": False}
    for recipe in (eq.cd(60, **plain), eq.rdm(60, **plain), eq.pcd(60, chains=6000, **plain)):
        memory = recipe.begin(network, data, 6000, jax.random.key(1))
        found = leaves(eq.contrast(network, recipe, data, carry=memory, key=jax.random.key(2)).gradient)
        # Every statistic is an average of 6,000 products of size at most 1 in each phase: 5 sigma.
        assert np.abs(found - expected).max() < 5 * np.sqrt(2 / 6000)


def test_summing_a_colour_out_lowers_the_noise():
    """The average over hidden units in closed form has the mean of the sampled product, and a smaller variance."""
    network = machines.DISCRETE["rbm binary"]
    state = eq.sample(network, eq.Exact(), chains=20_000, key=0)
    whole = conditioned(network, (), 1.0)

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
    return eq.Sweeps(steps, update="mode", tolerance=1e-13)


def objective(network, batch):
    """The mean squared error at the free fixed point, differentiated through 300 block sweeps."""

    def output(x):
        first, second = (coupling.weights for coupling in network.couplings)

        def sweep(hidden, _):
            out = jnp.clip(hidden @ second + network.layers[2].bias, 0, 1)
            return jnp.clip(x @ first + out @ second.T + network.layers[1].bias, 0, 1), None

        hidden, _ = jax.lax.scan(sweep, jnp.zeros(5), None, 300)
        return jnp.clip(hidden @ second + network.layers[2].bias, 0, 1)

    return jnp.mean(eq.squared_error(jax.vmap(output)(batch["input"]), batch["output"]))


@pytest.mark.parametrize("variant", ["one-sided", "centered", "random sign"])
def test_equilibrium_propagation_approaches_the_gradient_of_the_objective(variant):
    """The error is of first order in the nudge one-sided and of second order centered."""
    with jax.enable_x64(True):
        network, batch = double(NET), jax.tree.map(lambda leaf: leaf.astype(float), BATCH)
        expected = leaves(eqx.filter_jit(eqx.filter_grad(objective))(network, batch))
        errors = []
        for nudge in (0.02, 0.01):
            recipe = eq.equilibrium_propagation(
                nudge,
                free=settle(),
                nudged=settle(),
                symmetric=variant == "centered",
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
    recipe = eq.equilibrium_propagation(0.5, free=eq.Sweeps(1, update="mode"), particles=True)
    memory = recipe.begin(NET, {name: jnp.tile(v, (2, 1)) for name, v in BATCH.items()}, 3, jax.random.key(0))
    assert {name: layer.shape for name, layer in memory["particles"].items()} == {"hidden1": (6, 5), "output": (6, 3)}
    index = jnp.array([4, 0, 2])
    first = eq.contrast(NET, recipe, BATCH, carry=memory, index=index, key=jax.random.key(1)).carry["particles"]
    assert (np.asarray(first["hidden1"])[[1, 3, 5]] == 0).all()  # examples not shown stay
    assert (np.asarray(first["hidden1"])[[4, 0, 2]] != 0).any()
    second = eq.contrast(NET, recipe, BATCH, carry={"particles": first}, index=index, key=jax.random.key(1))
    two = eq.equilibrate(
        NET,
        eq.Sweeps(2, update="mode"),
        {"hidden1": np.zeros((3, 5)), "output": np.zeros((3, 3))},
        world=eq.Clamp("input", BATCH["input"]),
    )
    np.testing.assert_allclose(second.carry["particles"]["hidden1"][index], two["hidden1"], atol=1e-6)


def test_units_keep_their_own_parameters():
    mask = trainable(eq.rbm(3, 2, hidden=eq.Gaussian(), key=0))
    assert mask.couplings[0].weights
    assert not mask.layers[1].unit.stiffness


@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "layered", "dense", "dense layers"])
def test_centered_gradients_are_those_about_the_means(machine):
    """The couplings see covariances with the means, averaged over both phases, as offsets; float64, by enumeration."""
    with jax.enable_x64(True):
        network = double(machines.DISCRETE[machine])
        data = some_data(network)
        plain = eq.contrast(network, eq.exact(), data, key=jax.random.key(0)).gradient
        found = eq.contrast(network, eq.exact(centered_gradient=True), data, key=jax.random.key(0)).gradient
        brute = oracle.enumerate_states(network)
        first = network.layers[0].size
        shown = np.zeros(len(brute.states))
        for row in np.asarray(data[network.names[0]]):
            agree = (brute.states[:, :first] == row).all(1)
            shown += agree * brute.probabilities / brute.probabilities[agree].sum() / len(data[network.names[0]])
        means = [law @ brute.states for law in (shown, brute.probabilities)]
        deviations = brute.states - (means[0] + means[1]) / 2
        covariance = np.einsum("s,si,sj->ij", brute.probabilities - shown, deviations, deviations)
        edges = np.cumsum([0, *(layer.size for layer in network.layers)])
        place = {name: slice(edges[i], edges[i + 1]) for i, name in enumerate(network.names)}
        for coupling in found.couplings:
            block = covariance[place[coupling.ends[0]], place[coupling.ends[1]]]
            if coupling.lateral:
                block = (block - np.diag(np.diag(block))) / 2
            np.testing.assert_allclose(coupling.weights, block, atol=1e-7)
        # Downhill: the directions of the plain and the centered gradient agree.
        assert leaves(plain) @ leaves(found) > 0


def test_centered_gradients_do_not_depend_on_the_names_of_values():
    """The same machine with a visible neuron's 0 and 1 exchanged learns the same, up to that exchange."""
    with jax.enable_x64(True):
        network = double(machines.DISCRETE["rbm binary"])
        weights, (visible, hidden) = network.couplings[0].weights, network.layers
        flipped = eq.Network(
            [
                eq.Layer("visible", eq.Binary(), visible.bias.at[0].mul(-1)),
                eq.Layer("hidden", eq.Binary(), hidden.bias + weights[0]),
            ],
            [eq.Dense(("visible", "hidden"), weights.at[0].mul(-1))],
        )
        data = some_data(network)["visible"]
        recipe = eq.exact(centered_gradient=True)
        here = eq.contrast(network, recipe, {"visible": data}, key=jax.random.key(0)).gradient
        there = eq.contrast(
            flipped, recipe, {"visible": data.at[:, 0].set(1 - data[:, 0])}, key=jax.random.key(0)
        ).gradient
        np.testing.assert_allclose(there.couplings[0].weights[0], -here.couplings[0].weights[0], atol=1e-9)
        np.testing.assert_allclose(there.couplings[0].weights[1:], here.couplings[0].weights[1:], atol=1e-9)
        np.testing.assert_allclose(there.layers[1].bias, here.layers[1].bias + here.couplings[0].weights[0], atol=1e-9)


def test_penalties_act_on_the_couplings_alone():
    network = machines.DISCRETE["rbm binary"]
    data = some_data(network)
    plain, penalised = (
        eq.contrast(network, eq.exact(l1=l1, l2=l2), data, key=jax.random.key(0)).gradient
        for l1, l2 in ((0.0, 0.0), (0.3, 0.2))
    )
    weights = network.couplings[0].weights
    difference = penalised.couplings[0].weights - plain.couplings[0].weights
    np.testing.assert_allclose(difference, 0.3 * np.sign(weights) + 0.2 * weights, atol=1e-6)
    np.testing.assert_array_equal(plain.layers[0].bias, penalised.layers[0].bias)


@pytest.mark.parametrize("recipe", [eq.mean_field(200), eq.tap(2, 200), eq.tap(3, 200)], ids=["naive", "tap2", "tap3"])
def test_expansions_approach_the_gradient_at_weak_coupling(recipe):
    """The error of the couplings' gradient falls as the power of the couplings that the expansion leaves out."""
    recipe = eqx.tree_at(lambda here: here.minus.how.damping, recipe, jnp.asarray(0.2))
    order, errors = recipe.minus.how.order, []
    with jax.enable_x64(True):
        for scale in (0.4, 0.2):
            network = double(machines.with_biases(eq.rbm(4, 3, scale=scale, key=2), 2))
            data = some_data(network)
            memory = recipe.begin(network, data, 1, jax.random.key(1))
            found = eq.contrast(network, recipe, data, carry=memory, key=jax.random.key(2)).gradient
            expected = eq.contrast(network, eq.exact(centered_gradient=True), data, key=jax.random.key(0)).gradient
            errors.append(np.abs(found.couplings[0].weights - expected.couplings[0].weights).max())
    assert np.log2(errors[0] / errors[1]) > order - 0.4
    assert errors[1] < 0.03 / 4 ** (order - 1)


def test_labels_join_by_a_layer_of_their_own():
    """The exact gradient of ln p(x, y) of a machine whose second visible layer is a OneHot class."""
    network = eq.layered((3, 4, 3), units=(eq.Binary(), eq.Binary(), eq.OneHot()), gain=1.5, key=3)
    inputs, labels = np.eye(3)[[0, 1, 2, 1]], np.eye(3)[[2, 0, 1, 0]]
    data = {"input": jnp.asarray(inputs, jnp.float32), "output": jnp.asarray(labels, jnp.float32)}

    def likelihood(network):
        states = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], [0, 1, 2])).reshape(4, -1).T
        everything = {"input": jnp.asarray(states[:, :3], float), "output": jax.nn.one_hot(states[:, 3], 3)}
        log_z = jax.nn.logsumexp(-network.free_energy(everything, ("hidden1",)))
        return jnp.mean(-network.free_energy(data, ("hidden1",))) - log_z

    expected = eqx.filter_jit(eqx.filter_grad(likelihood))(network)
    found = eq.contrast(network, eq.exact(), data, key=jax.random.key(0)).gradient
    np.testing.assert_allclose(leaves(found), -leaves(expected), atol=1e-5)
