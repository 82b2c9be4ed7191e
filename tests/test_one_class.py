"""A new unit, coupling, equilibrator or rule is one class: this file defines one of each and imports public names only.

Nothing of the library knows these classes, and everything serves them: sampling, exact sums, learning, likelihood, files.
"""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq


class Ternary(eq.Unit):
    """A neuron with three states, -1, 0 and 1."""

    levels = (-1.0, 0.0, 1.0)

    def _logs(self, field):
        return jnp.stack([-field, jnp.zeros_like(field), field], axis=-1)

    def mean(self, field):
        return jax.nn.softmax(self._logs(field)) @ jnp.asarray(self.levels)

    def variance(self, field):
        return jax.nn.softmax(self._logs(field)) @ jnp.asarray(self.levels) ** 2 - self.mean(field) ** 2

    def mode(self, field):
        return jnp.sign(field)

    def sample(self, key, field):
        return jax.random.categorical(key, self._logs(field), axis=-1) - 1.0

    def cumulant(self, field):
        return jax.nn.logsumexp(self._logs(field), axis=-1)


class Ring(eq.Coupling):
    """Neighbours on a ring pull on each other: neuron i of one layer on i and i + 1 of the other."""

    ends: tuple[str, str] = eqx.field(static=True)
    size: int = eqx.field(static=True)
    strength: jax.Array

    @property
    def shape(self):
        return self.size, self.size

    def pull(self, state, toward):
        shift = 1 if toward == self.ends[1] else -1
        return self.strength * (state + jnp.roll(state, shift, axis=-1))

    def energy(self, state, other):
        return -jnp.sum(self.pull(state, self.ends[1]) * other, axis=-1)

    def scaled(self, factor):
        return Ring(self.ends, self.size, factor * self.strength)


class Metropolis(eq.Equilibrator):
    """Each step proposes one other value for one random neuron of each free layer."""

    steps: jax.Array
    tolerance: None = None

    @property
    def kind(self):
        return "draws"

    def begin(self, system, state):
        return jnp.zeros(next(iter(state.values())).shape[:-1])

    def info(self, carry):
        return {"accepted": carry}

    def step(self, system, state, carry, key):
        for number, name in enumerate(system.free):
            place, value, luck = jax.random.split(jax.random.fold_in(key, number), 3)
            layer = system.network.layer(name)
            chains = state[name].shape[:-1]
            chosen = jax.nn.one_hot(jax.random.randint(place, chains, 0, layer.size), layer.size)
            drawn = jax.random.choice(value, jnp.asarray(layer.unit.levels), (*chains, 1))
            moved = {**state, name: jnp.where(chosen > 0, drawn, state[name])}
            gain = (system.energy(state) - system.energy(moved)) / system.temperature
            accept = jnp.log(jax.random.uniform(luck, chains)) < gain
            state = {**state, name: jnp.where(accept[..., None], moved[name], state[name])}
            carry = carry + accept
        return state, carry


class RatioMatching(eq.Rule):
    """A rule of one's own, for a machine without hidden layers: it raises each neuron's odds given the others."""

    def begin(self, parameters, data, batch_size, key):
        return None

    def step(self, parameters, batch, *, carry, index, key):
        def loss(network):
            field = network.field({"neurons": batch}, "neurons")
            return jnp.mean(jnp.sum(jax.nn.softplus(-2 * batch * field), axis=-1))

        value, gradient = eqx.filter_value_and_grad(loss)(parameters)
        return eq.Step(gradient, carry, {"loss": value})


SIZE = 3
LAYERS = [eq.Layer("a", Ternary(), [0.3, -0.2, 0.5]), eq.Layer("b", eq.Spin(), [0.1, 0.4, -0.3])]
NETWORK = eq.Network(LAYERS, [Ring(("a", "b"), SIZE, jnp.asarray(0.6))])
CHAINS = 4000


def enumerated(network, temperature=1.0):
    """States and probabilities by brute force, from the energy written out here and not by the classes above."""
    states = np.array(
        [[*a, *b] for a in product((-1, 0, 1), repeat=SIZE) for b in product((-1, 1), repeat=SIZE)], float
    )
    first, second = states[:, :SIZE], states[:, SIZE:]
    strength = float(network.couplings[0].strength)
    pull = strength * (first + np.roll(first, 1, axis=1))
    energy = (
        -(pull * second).sum(1)
        - first @ np.asarray(network.layers[0].bias)
        - second @ np.asarray(network.layers[1].bias)
    )
    logs = -energy / temperature
    log_z = logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return states, np.exp(logs - log_z), log_z


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("how", [Metropolis(jnp.asarray(800)), eq.Sweeps(30), eq.Tempered(60, rungs=3), eq.Exact()])
def test_they_are_sampled(how, temperature):
    states, probabilities, _ = enumerated(NETWORK, temperature)
    rest = eq.equilibrate(NETWORK, how, chains=CHAINS, temperature=temperature, key=1)
    found = np.concatenate([np.asarray(rest[name]) for name in NETWORK.names], axis=1)
    mean, spread = probabilities @ states, np.sqrt(probabilities @ states**2 - (probabilities @ states) ** 2)
    # The worst of six means of independent chains lies within 5 standard errors but for once in 3e5 times.
    assert (np.abs(found.mean(0) - mean) < 5 * spread / np.sqrt(CHAINS)).all()
    pairs = np.einsum("si,sj->ij", found[:, :SIZE], found[:, SIZE:]) / CHAINS
    exact = np.einsum("s,si,sj->ij", probabilities, states[:, :SIZE], states[:, SIZE:])
    assert np.abs(pairs - exact).max() < 5 / np.sqrt(CHAINS)
    if "accepted" in rest.info:
        assert (rest.info["accepted"] > 0).all()


def test_their_partition_function_is_known_by_every_method():
    _, _, log_z = enumerated(NETWORK)
    assert eq.log_partition(NETWORK).value == pytest.approx(log_z, abs=1e-5)
    annealed = eq.log_partition(NETWORK, "ais", steps=200, chains=200, key=0)
    assert abs(annealed.value - log_z) < 5 * annealed.error
    assert eq.log_partition(NETWORK, "bethe").value == pytest.approx(log_z, abs=0.5)  # TAP to second order


def test_they_learn_the_exact_gradient():
    data = {"a": jnp.array([[1.0, 0.0, -1.0], [1.0, 1.0, 0.0]])}
    found = eq.contrast(NETWORK, eq.exact(), data, key=jax.random.key(0)).gradient

    def likelihood(strength):
        network = eqx.tree_at(lambda net: net.couplings[0].strength, NETWORK, jnp.asarray(strength, float))
        states, _, log_z = enumerated(network)
        logs = []
        for row in np.asarray(data["a"]):
            same = states[(states[:, :SIZE] == row).all(1)]
            pull = strength * (row + np.roll(row, 1))
            energy = (
                -(pull * same[:, SIZE:]).sum(1)
                - row @ np.asarray(LAYERS[0].bias)
                - same[:, SIZE:] @ np.asarray(LAYERS[1].bias)
            )
            logs.append(np.log(np.exp(-energy).sum()) - log_z)
        return np.mean(logs)

    slope = (likelihood(0.601) - likelihood(0.599)) / 0.002
    assert float(found.couplings[0].strength) == pytest.approx(-slope, abs=1e-3)


def test_they_train_and_come_back_from_a_file(tmp_path):
    data = np.array([[1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]] * 5)
    how = Metropolis(jnp.asarray(5))
    recipe = eq.Recipe(eq.Phase(how.clamped(), hold="all"), eq.Phase(how, start="chains"), chains=20)
    run = eq.train(NETWORK, data, recipe, epochs=2, batch_size=5, checkpoint=tmp_path, key=0)
    assert {"contrast", "accepted"} <= set(run.history)
    back = eq.load_network(tmp_path)
    assert isinstance(back.layers[0].unit, Ternary)
    assert isinstance(back.couplings[0], Ring)
    assert float(back.couplings[0].strength) == float(run.network.couplings[0].strength) != 0.6


def test_a_rule_of_ones_own_has_all_that_the_loop_has(tmp_path):
    rng = np.random.default_rng(0)
    pattern = rng.choice([-1.0, 1.0], 6)
    data = np.where(rng.random((40, 6)) < 0.1, -pattern, pattern).astype(np.float32)
    network = eq.dense(6, gain=0.1, key=0)
    options = {"epochs": 20, "batch_size": 10, "learning_rate": 0.1, "key": 1}
    run = eq.train(network, data, RatioMatching(), checkpoint=tmp_path, **options)
    losses = run.history["loss"].values
    assert losses[-1] < losses[0] / 2
    again = eq.train(network, data, RatioMatching(), checkpoint=tmp_path, resume=True, **{**options, "epochs": 25})
    whole = eq.train(network, data, RatioMatching(), **{**options, "epochs": 25})
    np.testing.assert_array_equal(again.network.couplings[0].weights, whole.network.couplings[0].weights)
