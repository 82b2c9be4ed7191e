"""Scellier and Bengio's equations as they are printed, against the library; what is not here is named in docs/papers.md."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
from equilibria.energies.implicit import Implicit
from equilibria.papers.scellier2017 import training

SIZES = (3, 4, 2)


def printed(parameters, influence, state, world):
    """(5), (6) and (34) with ρ = tanh: F = E + A of a state {x, h, y}, every neuron coupled to every other."""
    x, target = world
    s = jnp.concatenate([state["x"], state["h"], state["y"]])
    off = 1 - jnp.eye(len(s))
    internal = (
        jnp.sum(s**2) / 2
        - jnp.sum(off * parameters["W"] * jnp.outer(jnp.tanh(s), jnp.tanh(s))) / 2
        - parameters["b"] @ jnp.tanh(s)
    )
    external = influence["x"] * jnp.sum((state["x"] - x) ** 2) / 2
    return internal + external + influence["y"] * jnp.sum((state["y"] - target) ** 2) / 2


def example(seed=0):
    """Parameters, a start and a state of the world."""
    random = np.random.default_rng(seed)
    weights = 0.3 * random.normal(size=(9, 9))
    parameters = {"W": (weights + weights.T) / 2, "b": random.normal(size=9)}
    start = {name: np.zeros(size) for name, size in zip("xhy", SIZES, strict=True)}
    return parameters, start, (random.normal(size=3), random.uniform(-1, 1, size=2))


SYSTEM = Implicit(printed, step=0.05, steps=20_000)
OFF = {"x": 20.0, "y": 0.0}
TARGET = {"x": 0.0, "y": 1.0}


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def rest():
    """The 0-fixed point of the example, with a finite β_x."""
    parameters, start, world = example()
    with jax.enable_x64(True):
        found = SYSTEM.fixed_point(parameters, OFF, start, world)
    assert found.converged
    return parameters, found.state, world


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.usefixtures("float64")
def test_fixed_points_are_minima(rest):
    """(1), (2)."""
    parameters, state, world = rest
    force = jax.grad(printed, argnums=2)(parameters, OFF, state, world)
    assert np.abs(flat(force)).max() < 1e-9
    assert SYSTEM.curvature(parameters, OFF, state, world).min() > 0


@pytest.mark.usefixtures("float64")
def test_the_cost_is_the_derivative_of_the_energy_in_its_influence(rest):
    """(3), (7), (16): δ · ∂F/∂β; (4), (8), (9), (17), (48): at rest, for δ = (0, 1), half the squared error."""
    parameters, state, (x, target) = rest
    slope = jax.grad(printed, argnums=1)(parameters, OFF, state, (x, target))
    expected = {"x": float(np.sum((state["x"] - x) ** 2)) / 2, "y": float(np.sum((state["y"] - target) ** 2)) / 2}
    assert {name: float(value) for name, value in slope.items()} == pytest.approx(expected)
    found = SYSTEM.objective(parameters, OFF, state, (x, target), direction=TARGET)
    assert float(found) == pytest.approx(expected["y"], rel=1e-9)


@pytest.mark.usefixtures("float64")
def test_inputs_are_clamped_as_their_influence_grows():
    """(42): the input moves towards the world, and as β_x goes to infinity it is there; what it misses falls as 1/β_x."""
    parameters, start, (x, target) = example()
    missed = []
    for strength in (40.0, 80.0):
        stiff = Implicit(printed, step=0.5 / strength, steps=40_000)
        found = stiff.fixed_point(parameters, {"x": strength, "y": 0.0}, start, (x, target))
        missed.append(np.abs(found.state["x"] - x).max())
    assert missed[0] / missed[1] == pytest.approx(2, rel=0.05)
    assert missed[1] < 0.1


@pytest.mark.usefixtures("float64")
def test_forces_are_those_of_the_two_potentials(rest):
    """(40)-(43): -∂F/∂s is ρ'(s_i) (Σ W_ij ρ(s_j) + b_i) - s_i, and a pull on inputs and outputs alone."""
    parameters, state, (x, target) = rest
    nudge = OFF | {"y": 0.3}
    s = np.concatenate([state[name] for name in "xhy"])
    weights = parameters["W"] - np.diag(np.diag(parameters["W"]))
    internal = (1 - np.tanh(s) ** 2) * (weights @ np.tanh(s) + parameters["b"]) - s
    external = np.concatenate([20.0 * (x - state["x"]), np.zeros(4), 0.3 * (target - state["y"])])
    found = jax.grad(printed, argnums=2)(parameters, nudge, state, (x, target))
    np.testing.assert_allclose(-np.concatenate([found[name] for name in "xhy"]), internal + external, atol=1e-10)


@pytest.mark.usefixtures("float64")
def test_a_tied_weight_counts_once(rest):
    """(35): ∂E/∂W_ij = -ρ_i ρ_j for the tied weight; for W_ij and W_ji apart (34) has half of it each."""
    parameters, state, world = rest
    active = np.tanh(np.concatenate([state[name] for name in "xhy"]))

    def tied(weight):
        changed = parameters["W"].at[1, 5].set(weight).at[5, 1].set(weight)
        return printed(parameters | {"W": changed}, OFF, state, world)

    parameters = parameters | {"W": jnp.asarray(parameters["W"])}
    assert float(jax.grad(tied)(parameters["W"][1, 5])) == pytest.approx(-active[1] * active[5])
    apart = jax.grad(lambda W: printed(parameters | {"W": W}, OFF, state, world))(parameters["W"])
    assert float(apart[1, 5]) == pytest.approx(-active[1] * active[5] / 2)


@pytest.mark.usefixtures("float64")
def test_the_lagrangian_has_the_gradient(rest):
    """(55)-(65): s* is the fixed point, λ* = δ · ∂s/∂β solves (62), and -∂L/∂θ is minus the gradient of two phases."""
    parameters, state, world = rest
    vector, back = jax.flatten_util.ravel_pytree(state)

    def lagrangian(theta, vector, multiplier):
        cost = jax.grad(printed, argnums=1)(theta, OFF, back(vector), world)["y"]
        return cost + multiplier @ flat_force(theta, vector)

    def flat_force(theta, vector):
        return jax.flatten_util.ravel_pytree(jax.grad(printed, argnums=2)(theta, OFF, back(vector), world))[0]

    curvature = jax.jacobian(flat_force, argnums=1)(parameters, vector)
    cost_slope = jax.grad(lagrangian, argnums=1)(parameters, vector, jnp.zeros_like(vector))
    multiplier = np.linalg.solve(curvature, -cost_slope)  # (62)
    assert np.abs(jax.grad(lagrangian, argnums=2)(parameters, vector, multiplier)).max() < 1e-9  # (58), (61)
    assert np.abs(jax.grad(lagrangian, argnums=1)(parameters, vector, multiplier)).max() < 1e-9  # (59)
    ends = [SYSTEM.fixed_point(parameters, OFF | {"y": xi}, state, world).state for xi in (1e-4, -1e-4)]
    moved = (np.asarray(jax.flatten_util.ravel_pytree(ends[0])[0]) - jax.flatten_util.ravel_pytree(ends[1])[0]) / 2e-4
    np.testing.assert_allclose(multiplier, moved, atol=1e-6)  # (63)
    step = jax.grad(lagrangian)(parameters, vector, multiplier)
    two = SYSTEM.gradient(parameters, OFF, state, world, direction=TARGET, nudge=1e-4, sides="both").value
    np.testing.assert_allclose(flat(step), flat(two), atol=1e-6)  # (60), (64), (65)


def hard(seed=0, bias=0.4):
    """A layered network with the hard sigmoid, its weights and biases, and an example."""
    random = np.random.default_rng(seed)
    network = eq.layered(SIZES, key=1)
    biases = [random.normal(scale=bias, size=size).astype(np.float32) for size in SIZES]
    network = eqx.tree_at(lambda n: [layer.bias for layer in n.layers], network, [jnp.asarray(b) for b in biases])
    weights = [np.asarray(coupling.weights, float) for coupling in network.couplings]
    return network, weights, biases, random.random(3).astype(np.float32), np.array([1.0, 0.0], np.float32)


def hard_energy(layers, weights, biases, target, push):
    """(5), (6) and (34) with ρ(s) = 0 ∨ s ∧ 1, layer by layer."""
    active = [jnp.clip(layer, 0, 1) for layer in layers]
    squares = sum(jnp.sum(layer**2) for layer in layers) / 2
    pairs = sum(a @ w @ b for a, w, b in zip(active, weights, active[1:], strict=False))
    alone = sum(a @ b for a, b in zip(active, biases, strict=True))
    return squares - pairs - alone + push * jnp.sum((layers[-1] - target) ** 2) / 2


def test_a_step_of_the_relaxation_is_the_clipped_gradient_of_the_energy():
    """(37), (53), (54), away from the bounds where ρ' is a convention: s ← 0 ∨ (s - ε ∂F/∂s) ∧ 1."""
    network, weights, biases, x, target = hard(bias=1.2)
    hidden, output = np.array([0.2, 0.9, 0.5, 0.05], np.float32), np.array([0.3, 0.8], np.float32)
    world = [eq.Clamp("input", x), eq.Nudge("output", target, 0.7)]
    found = eq.equilibrate(network, eq.GradientFlow(1, 0.5), {"hidden1": hidden, "output": output}, world=world)
    slopes = jax.grad(hard_energy)([jnp.asarray(part) for part in (x, hidden, output)], weights, biases, target, 0.7)
    for name, state, slope in zip(("hidden1", "output"), (hidden, output), slopes[1:], strict=True):
        np.testing.assert_allclose(found[name], np.clip(state - 0.5 * slope, 0, 1), atol=1e-5)
    assert ((found["hidden1"] == 0) | (found["hidden1"] == 1)).any()  # one was clipped


def test_below_zero_the_energy_falls_towards_zero():
    """Section 5.1 prints ∂F/∂h = -h > 0 for h < 0; that is the force, -∂F/∂h, and the slope is h."""
    _, weights, biases, x, target = hard()
    layers = [jnp.asarray(part) for part in (x, np.array([-0.3, 0.5, 0.5, 0.5]), np.array([0.5, 0.5]))]
    slope = jax.grad(hard_energy)(layers, weights, biases, target, 0.0)[1][0]
    assert float(slope) == pytest.approx(-0.3)


def test_the_rule_of_the_library_is_the_printed_one():
    """(11), (18), (36), (50): the update is (ρ(s^ξ) ρ(s^ξ) - ρ(s^0) ρ(s^0)) / ξ of the two fixed points."""
    network, _, _, x, target = hard()
    nudge, how = 0.5, eq.GradientFlow(400)
    rule = eq.equilibrium_propagation(nudge, free=how, nudged=how, symmetric=False)
    data = {"input": jnp.asarray(x)[None], "output": jnp.asarray(target)[None]}
    gradient = rule.step(network, data, carry={}, index=jnp.arange(1), key=jax.random.key(0)).gradient
    free = eq.equilibrate(network, how, world=eq.Clamp("input", x))
    begun = {name: np.asarray(free[name]) for name in ("hidden1", "output")}
    end = eq.equilibrate(network, how, begun, world=[eq.Clamp("input", x), eq.Nudge("output", target, nudge)])
    assert np.abs(np.asarray(end["output"]) - begun["output"]).max() > 0.05
    for coupling, (below, above) in zip(gradient.couplings, (("input", "hidden1"), ("hidden1", "output")), strict=True):
        rates = [
            (x if below == "input" else np.asarray(state[below]), np.asarray(state[above])) for state in (end, free)
        ]
        contrast = (np.outer(*rates[0]) - np.outer(*rates[1])) / nudge
        np.testing.assert_allclose(-np.asarray(coupling.weights), contrast, atol=1e-4)


def test_a_neuron_alone_forgets_with_a_time_constant_of_one():
    """Section 5.1, τ = 1: without weights and fields (37) is ds/dt = -s."""
    network = eqx.tree_at(
        lambda n: [coupling.weights for coupling in n.couplings], eq.layered((1, 1, 1), key=0), [jnp.zeros((1, 1))] * 2
    )
    start = {"hidden1": np.ones((1, 1), np.float32), "output": np.ones((1, 1), np.float32)}
    found = eq.equilibrate(network, eq.GradientFlow(1000, 0.001), start, world=eq.Clamp("input", np.zeros((1, 1))))
    np.testing.assert_allclose(found["hidden1"], np.exp(-1), atol=1e-3)


def test_the_second_phase_of_table_2_lasts_as_many_time_constants_as_layers():
    """Section 5.1: N/ε iterations, with N hidden and output layers and ε = 0.5."""
    assert {depth: row.nudged for depth, row in training.TABLE.items()} == {
        depth: (depth + 1) / 0.5 for depth in (1, 2, 3)
    }


def test_the_prediction_is_the_output_that_is_most_active():
    """(51), at the 0-fixed point."""
    network, weights, biases, x, _ = hard()
    state = eq.equilibrate(network, eq.GradientFlow(400), world=eq.Clamp("input", x[None]))
    hidden, output = np.zeros(4), np.zeros(2)
    for _ in range(400):
        hidden = hidden + 0.1 * (np.clip(x @ weights[0] + output @ weights[1].T + biases[1], 0, 1) - hidden)
        output = output + 0.1 * (np.clip(hidden @ weights[1] + biases[2], 0, 1) - output)
    np.testing.assert_allclose(state["output"][0], output, atol=1e-4)
    assert training.predicted(network, eq.GradientFlow(400), x[None]).tolist() == [output.argmax()]
