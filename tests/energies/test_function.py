"""A user's function as a system: what the protocol asks for, and that it flows and is sampled as a network is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
from equilibria.energies.function import checked_system
from equilibria.energies.implicit import Implicit
from equilibria.energies.stochastic import Stochastic
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import relax
from equilibria.equilibrators.flow import GradientFlow, Langevin, newton

# One free layer of linear units above held inputs: a network whose state has one part, too.
NETWORK = machines.with_biases(eq.layered((3, 4), units=eq.Gaussian(0.7), key=3), 3)
SHOWN, TARGET = jnp.array([0.3, -1.0, 0.5]), jnp.linspace(0, 1, 4)


def network_energy(network, nudge, state, world):
    shown, target = world
    return network.energy({"input": shown, "output": state}) + nudge * 0.5 * jnp.sum((state - target) ** 2)


def both(temperature=0.0):
    """The network in its world, and the same energy as a function."""
    world = [eq.Clamp("input", SHOWN), eq.Nudge("output", TARGET, strength=0.5)]
    function, start = checked_system(
        network_energy, NETWORK, 0.5, jnp.zeros(4), (SHOWN, TARGET), temperature=temperature
    )
    return conditioned(NETWORK, world, temperature), function, start["state"]


def test_energy_and_force_over_chains():
    system, start = checked_system(
        lambda a, b, state, v: a * jnp.sum(state["x"] ** 2) * state["y"] + b * v * state["y"],
        2.0, 1.0, {"x": jnp.array([1.0, 2.0]), "y": 3.0}, 5.0,
    )  # fmt: skip
    x, y = np.array([1.0, 2.0]), 3.0
    assert float(system.energy(start)) == 2 * 5 * 3 + 15
    np.testing.assert_allclose(system.force(start)["state"], [*(-4 * x * y), -(2 * 5 + 5)])
    chains = {"state": jnp.arange(24.0).reshape(2, 4, 3)}
    energies, forces = system.energy(chains), system.force(chains)["state"]
    assert energies.shape == (2, 4)
    for index in np.ndindex(2, 4):
        one = {"state": chains["state"][index]}
        np.testing.assert_allclose(energies[index], system.energy(one), rtol=1e-6)
        np.testing.assert_allclose(forces[index], system.force(one)["state"], rtol=1e-6)
    read = system.read({"state": jnp.arange(6.0).reshape(2, 3)})
    np.testing.assert_array_equal(read["x"], [[0, 1], [3, 4]])
    np.testing.assert_array_equal(system.written(read, lead=1)["state"], jnp.arange(6.0).reshape(2, 3))


def test_a_network_and_its_energy_as_a_function_flow_alike():
    network, function, zeros = both()
    how = GradientFlow(500, 0.2, force_tolerance=1e-5)
    first = relax(how, network, {"input": SHOWN, "output": zeros}, None)
    second = relax(how, function, {"state": zeros}, None)
    assert bool(first.converged)
    assert bool(second.converged)
    assert int(first.steps) == int(second.steps) > 10
    np.testing.assert_allclose(first["output"], second["state"], atol=1e-6)
    polished = [newton(network, first.state)["output"], newton(function, second.state)["state"]]
    np.testing.assert_allclose(*polished, atol=1e-6)
    stiffness, field = 1 / 0.7 + 0.5, SHOWN @ NETWORK.couplings[0].weights + NETWORK.layers[1].bias + 0.5 * TARGET
    np.testing.assert_allclose(polished[1], field / stiffness, atol=2e-6)


def test_a_network_and_its_energy_as_a_function_are_sampled_alike():
    """The same random numbers, the same proposals, the same refusals."""
    network, function, _ = both(temperature=0.8)
    chains, key = jnp.zeros((6, 4)), jax.random.key(0)
    shown = jnp.broadcast_to(SHOWN, (6, 3))
    first = relax(Langevin(50, 0.4), network, {"input": shown, "output": chains}, key)
    second = relax(Langevin(50, 0.4), function, {"state": chains}, key)
    assert 0.3 < float(second.info["acceptance"].mean()) < 1
    np.testing.assert_array_equal(first.info["acceptance"], second.info["acceptance"])
    np.testing.assert_allclose(first["output"], second["state"], atol=1e-5)


def test_a_system_is_differentiable_in_what_it_holds():
    """d/dθ of the fixed point, through Newton's method: s = θ^2."""
    system, start = checked_system(lambda a, b, state, v: jnp.sum(0.5 * (state - a**2) ** 2), 1.5, 0.0, jnp.zeros(3))

    def total(system):
        return jnp.sum(newton(system, start)["state"])

    assert float(jax.grad(total)(system).parameters) == pytest.approx(3 * 2 * 1.5, rel=1e-6)


def test_states_keep_their_precision():
    """A float32 state in a float64 process, with parameters of either kind."""
    energy = lambda a, b, state, v: 0.5 * jnp.sum((state - a) ** 2) + b * jnp.sum(state)  # noqa: E731
    with jax.enable_x64(True):
        start, goal = np.zeros(2, np.float32), np.array([1.0, 2.0], np.float32)
        rest = Implicit(energy).fixed_point(goal, 0.0, start)
        assert rest.state.dtype == np.float32
        np.testing.assert_allclose(rest.state, goal, atol=1e-5)
        found = Implicit(energy).gradient(goal, 0.0, start, method="recurrent")
        np.testing.assert_allclose(found.value, np.ones(2), atol=1e-5)
        draws = Stochastic(energy, step=0.5, steps=10, chains=4).sample(goal, 0.0, start, key=jax.random.key(0))
        assert draws.dtype == np.float32
