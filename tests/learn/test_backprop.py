"""The exact gradients agree with one another and with equilibrium propagation; rates by coupling; what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import equilibria as eq
import machines
from equilibria.equilibrators.descent import Descent
from equilibria.learn import feasible
from equilibria.learn.backprop import feedforward, feedforward_backprop, recurrent_backprop, unrolled_backprop
from equilibria.learn.phase import trainable
from equilibria.learn.rates import relative_changes, scale_by_coupling, trust_ratio
from equilibria.model.transforms import spectrally_scaled
from equilibria.model.units import Graded
from equilibria.model.world import cross_entropy

NET = machines.with_biases(eq.layered((4, 5, 3), gain=0.6, key=1), 1)
BATCH = {"input": np.linspace(0, 1, 12).reshape(3, 4), "output": np.eye(3)}
SETTLE = eq.Sweeps(2000, update="mode", tolerance=1e-13)
# Smooth units with linear outputs and a softmax read-out; a skip connection, so that the layer graph is not a chain.
SOFTMAX = machines.with_biases(
    eq.layered(
        (4, 5, 4, 3), units=(eq.Gaussian(), Graded(), eq.Clipped(), eq.Gaussian()), skips=[(1, 3)], gain=0.5, key=2
    ),
    2,
)
CASES = {"squared error": (NET, eq.squared_error), "softmax": (SOFTMAX, cross_entropy)}


def double(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array_like(leaf) else leaf, tree)


def leaves(network):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(network, trainable(network)))])


def gradient(rule, network, batch):
    found = rule.step(network, batch, carry={}, key=jax.random.key(0))
    return leaves(found.gradient), found.report


@pytest.mark.parametrize("case", CASES)
def test_exact_gradients_agree_and_equilibrium_propagation_approaches_them(case):
    """In float64: recurrent against unrolled to rounding, against finite differences, and EP to second order in the nudge."""
    with jax.enable_x64(True):
        network, cost = double(CASES[case][0]), CASES[case][1]
        batch = double(BATCH)
        recurrent, report = gradient(recurrent_backprop(free=SETTLE, steps=300, cost=cost), network, batch)
        assert report["unconverged_base"] == 0
        unrolled, _ = gradient(unrolled_backprop(300, cost=cost), network, batch)
        np.testing.assert_allclose(recurrent, unrolled, atol=1e-10)

        direction = jax.tree.map(
            lambda leaf, learned: jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape) * learned,
            network, trainable(network),
        )  # fmt: skip

        def objective(width):
            moved = jax.tree.map(lambda leaf, step: leaf + width * step, network, direction)
            rest = eq.equilibrate(moved, SETTLE, world=eq.Clamp("input", batch["input"]))
            return float(jnp.mean(cost(rest["output"], batch["output"])))

        slope = (objective(1e-5) - objective(-1e-5)) / 2e-5
        assert slope == pytest.approx(recurrent @ leaves(direction), rel=1e-6)

        errors = []
        for nudge in (0.02, 0.01):
            recipe = eq.equilibrium_propagation(nudge, free=SETTLE, nudged=SETTLE, cost=cost)
            errors.append(np.abs(gradient(recipe, network, batch)[0] - recurrent).max())
        assert errors[1] < 0.01 * np.abs(recurrent).max()
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.3)


def test_a_layer_coupled_to_itself_has_a_gradient_that_keeps_it_symmetric():
    """In float64, against finite differences along symmetric changes; no neuron comes to pull on itself."""
    units = (eq.Gaussian(), Graded(), eq.Gaussian())
    with jax.enable_x64(True):
        network = double(machines.with_biases(eq.dense((4, 5, 3), units=units, gain=0.3, key=3), 3))
        batch, settle = double(BATCH), eq.GradientFlow(5000, 0.2, tolerance=1e-14)
        direction = jax.tree.map(
            lambda leaf, learned: jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape) * learned,
            network, trainable(network),
        )  # fmt: skip
        turned = [each.weights + each.weights.T - 2 * jnp.diag(jnp.diag(each.weights)) if each.lateral else each.weights
                  for each in direction.couplings]  # fmt: skip
        direction = eqx.tree_at(lambda n: [each.weights for each in n.couplings], direction, turned)

        def objective(width):
            moved = jax.tree.map(lambda leaf, step: leaf + width * step, network, direction)
            rest = eq.equilibrate(moved, settle, world=eq.Clamp("input", batch["input"]))
            return float(jnp.mean(eq.squared_error(rest["output"], batch["output"])))

        slope = (objective(1e-5) - objective(-1e-5)) / 2e-5
        for rule in (recurrent_backprop(free=settle, steps=1000), unrolled_backprop(1000, how=settle)):
            found = rule.step(network, batch, carry={}, key=None).gradient
            assert slope == pytest.approx(leaves(found) @ leaves(direction), rel=1e-6)
            for coupling in found.couplings:
                if coupling.lateral:
                    np.testing.assert_allclose(coupling.weights, coupling.weights.T, atol=1e-14)
                    assert not np.diag(coupling.weights).any()
        lateral = np.abs(np.concatenate([np.ravel(each.weights) for each in found.couplings if each.lateral]))
        assert lateral.max() > 0.01


def test_without_feedback_the_feedforward_gradient_is_plain_back_propagation():
    def objective(weights):
        hidden = jnp.clip(batch["input"] @ weights[0] + NET.layers[1].bias, 0, 1)
        return jnp.mean(eq.squared_error(jnp.clip(hidden @ weights[1] + NET.layers[2].bias, 0, 1), batch["output"]))

    batch = jax.tree.map(jnp.float32, BATCH)
    found = feedforward_backprop().step(NET, batch, key=jax.random.key(0))
    expected = jax.jit(jax.grad(objective))([coupling.weights for coupling in NET.couplings])
    for coupling, wanted in zip(found.gradient.couplings, expected, strict=True):
        np.testing.assert_allclose(coupling.weights, wanted, atol=1e-6)
    assert found.report["cost"] == pytest.approx(float(objective([c.weights for c in NET.couplings])), rel=1e-5)


def test_every_rule_learns():
    """Three examples are learned by heart: the cost falls to under a tenth of what it was."""
    network = eq.layered((4, 8, 3), units=(eq.Clipped(), Graded(0.25), eq.Gaussian()), gain=0.4, key=0)
    for rule in (recurrent_backprop(), unrolled_backprop(10), feedforward_backprop()):
        run = eq.train(network, (np.eye(4)[:3], np.eye(3)), rule, epochs=400, learning_rate=0.05, batch_size=3,
                       record=[1, 399, 400], key=0)  # fmt: skip
        assert run.history["cost"][-1] < 0.1 * run.history["cost"][0]


@pytest.mark.parametrize("units", [eq.Clipped(), eq.Gaussian()])
def test_overshooting_reaches_the_same_rest_in_fewer_sweeps(units):
    """Positive couplings with a largest eigenvalue of 0.97: block descent gains a factor 0.97^2 in a sweep."""
    network = eq.layered((6, 20, 20, 20, 5), units=units, key=3)
    inner = np.zeros((65, 65))
    edges = np.cumsum([0, 20, 20, 20, 5])
    for place, coupling in enumerate(network.couplings[1:]):
        rows, columns = (slice(*edges[place + move : place + move + 2]) for move in (0, 1))
        inner[rows, columns] = np.abs(coupling.weights)
    scale = 0.97 / np.linalg.eigvalsh(inner + inner.T)[-1]
    couplings = [eq.Dense(coupling.ends, scale * jnp.abs(coupling.weights)) for coupling in network.couplings]
    network = eq.Network(network.layers, couplings)
    clamp = eq.Clamp("input", 0.05 * np.random.default_rng(0).random((8, 6)))
    plain, quick = (
        eq.equilibrate(network, Descent(3000, overshoot, tolerance=1e-6), world=clamp) for overshoot in (0.0, 0.6)
    )
    assert plain.converged.all()
    assert quick.converged.all()
    assert quick.steps.max() < 0.4 * plain.steps.max()
    for name in network.names:  # the last move over one minus the factor: 1e-6 / 0.06
        np.testing.assert_allclose(plain[name], quick[name], atol=4e-5)


def test_overshooting_never_raises_the_energy():
    for seed in range(10):
        network = machines.with_biases(eq.layered((3, 20, 20, 4), gain=3.0, key=seed), seed)
        clamp = eq.Clamp("input", np.random.default_rng(seed).random(3))
        energy = eqx.Partial(eq.Network.energy, network)
        _, energies = eq.trajectory(network, Descent(12, 0.8), world=clamp, observe=energy)
        assert (np.diff(energies) <= 1e-4).all()


def test_rates_by_coupling():
    network = NET
    step = jax.tree.map(jnp.ones_like, eqx.filter(network, trainable(network)))
    transform = scale_by_coupling([0.5, 0.1])
    scaled, _ = transform.update(step, transform.init(step))
    assert [float(coupling.weights.mean()) for coupling in scaled.couplings] == pytest.approx([0.5, 0.1])
    assert [float(layer.bias.mean()) for layer in scaled.layers] == pytest.approx([0.5, 0.5, 0.1])


def test_equalised_changes_are_equal():
    """Gradients of very different sizes, with noise in their norms: the mean relative change is what was asked for each."""
    parameters = eqx.filter(NET, trainable(NET))
    transform = trust_ratio(0.01, decay=0.9)
    state, seen = transform.init(parameters), []

    @eqx.filter_jit
    def moved(state, step):
        key = jax.random.fold_in(jax.random.key(0), step)
        size = 1 + 0.3 * jax.random.normal(key)
        slope = eqx.tree_at(
            lambda net: [coupling.weights for coupling in net.couplings], parameters,
            [size * scale * coupling.weights for scale, coupling in zip((1e-4, 30.0), parameters.couplings, strict=True)],
        )  # fmt: skip
        updates, state = transform.update(slope, state, parameters)
        return relative_changes(parameters, updates), state

    for step in range(200):
        change, state = moved(state, jnp.asarray(step))
        seen.append(change)
    # Each is 0.01 size / (running mean of size): spread 0.3, over 200 steps, 5 sigma.
    np.testing.assert_allclose(np.mean(seen[50:], axis=0), 0.01, rtol=5 * 0.3 / np.sqrt(150))
    assert np.asarray(seen[-1])[0] == pytest.approx(np.asarray(seen[-1])[1], rel=1e-4)


def test_changes_are_watched_and_particles_may_be_halves():
    recipe = eq.equilibrium_propagation(0.5, particles="float16", watch_changes=True)
    data = tuple(np.tile(values, (4, 1)) for values in BATCH.values())
    rates = optax.chain(optax.sgd(0.1), scale_by_coupling([1.0, 0.0]))
    run = eq.train(NET, data, recipe, epochs=2, batch_size=3, optimiser=rates, key=0)
    assert run.carry["particles"]["hidden1"].dtype == jnp.float16
    assert run.carry["particles"]["hidden1"].shape == (12, 5)
    change = run.history["change"].values
    assert (change[:, 0] > 0).all()
    assert (change[:, 1] == 0).all()


def test_spectral_scaling():
    scaled = spectrally_scaled(eq.layered((60, 50, 40), key=0), 0.8)
    for coupling in scaled.couplings:
        assert np.linalg.svd(np.asarray(coupling.weights), compute_uv=False)[0] == pytest.approx(0.8, rel=1e-5)


def test_feedforward_is_the_first_pass_up():
    state = feedforward(NET, {"input": BATCH["input"]})
    hidden = np.clip(BATCH["input"] @ np.asarray(NET.couplings[0].weights) + np.asarray(NET.layers[1].bias), 0, 1)
    np.testing.assert_allclose(state["hidden1"], hidden, atol=1e-6)


def train(recipe, network=NET, data=None):
    return eq.train(network, data or (BATCH["input"], BATCH["output"]), recipe, epochs=1, batch_size=3, key=0)


REFUSED = {
    "labels of another size": (
        lambda: train(eq.equilibrium_propagation(), data=(BATCH["input"], np.eye(3, 4))),
        r"data\['output'\]: got shape \(3, 4\); allowed: shape \(..., 3\)",
    ),
    "a nudge without a minimum": (
        lambda: train(eq.equilibrium_propagation(1.5)),
        r"nudge: got -1.5; allowed: more than -1, or the energy has no minimum",
    ),
    "a random sign without a minimum": (
        lambda: train(eq.equilibrium_propagation(1.5, symmetric=False, random_sign=True)),
        r"nudge: got -1.5; allowed: more than -1",
    ),
    "an unbounded flow": (
        lambda: train(eq.equilibrium_propagation(2.0, nudged=eq.GradientFlow(4)), SOFTMAX),
        r"nudge: got -2; allowed: more than -1",
    ),
    "a kind of particle": (lambda: eq.equilibrium_propagation(particles="int8"), r"particles: got 'int8'"),
    "too few rates": (
        lambda: eq.train(NET, tuple(BATCH.values()), eq.equilibrium_propagation(), epochs=1,
                         optimiser=scale_by_coupling([0.1]), key=0),
        r"factors: got 1 numbers; allowed: one for each of the 2 couplings",
    ),
    "sweeps in random order": (
        lambda: train(recurrent_backprop(), eq.dense((4, 5, 3), units=eq.Clipped(), key=0)),
        r"free: got Sweeps; allowed: one that draws nothing, such as GradientFlow\(100\)",
    ),
    "an overshoot": (lambda: Descent(3, 1.5), r"over_relaxation: got 1.5; allowed: finite and > -1 and <= 0.95"),
    "spins that overshoot": (
        lambda: eq.equilibrate(eq.layered((3, 2), units=eq.Spin(), key=0), Descent(3)),
        r"network: got Spin units in layer 'input'",
    ),
    "norms": (lambda: spectrally_scaled(NET, [1.0]), r"norms: got 1 numbers; allowed: one, or one for each of 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_reason(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_the_papers_flow_may_be_nudged_the_other_way():
    train(eq.equilibrium_propagation(2.0, nudged=eq.GradientFlow(4), symmetric=False, random_sign=True))


def test_particles_that_do_not_fit_are_told_in_advance(monkeypatch):
    monkeypatch.setattr(feasible, "free_memory", lambda: 50)
    with pytest.raises(
        ValueError, match=r'particles: got 3 examples, which take 9.6e-08 GB .* particles="float16" halves'
    ):
        train(eq.equilibrium_propagation(particles=True))
