"""Sweeps that do not draw: descent, mean field, stopping; and what the driver promises."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equilibria as eq
import machines
import oracle
from compilations import compilations


def random_network(kind: str, seed: int) -> eq.Network:
    """A network of fixed shape with random weights and biases, so that all examples share one compiled loop."""
    units = {
        "discrete": (eq.Spin(), eq.Binary(), eq.Spin()),
        "continuous": eq.Clipped(),
        "mixed": (eq.Clipped(), eq.Spin(), eq.Gaussian()),
    }
    if kind == "lateral":
        return machines.with_biases(
            eq.dense((3, 4, 2), units=(eq.Spin(), eq.Clipped(), eq.Binary()), gain=2.0, key=seed), seed
        )
    gain = 0.5 if kind == "mixed" else 2.0  # a Gaussian layer under strong weights has no lowest energy
    return machines.with_biases(eq.layered((4, 5, 3), units=units[kind], gain=gain, key=seed), seed)


@pytest.mark.parametrize("kind", ["discrete", "continuous", "mixed", "lateral"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_energy_never_increases_under_mode_sweeps(kind, seed):
    network = random_network(kind, seed)
    _, energies = eq.trajectory(
        network, eq.Sweeps(8, update="mode"), chains=3, key=seed, observe=network_energy(network)
    )
    rounding = 1e-5 * (1 + np.abs(energies).max())
    assert (np.diff(energies, axis=0) <= rounding).all()


def network_energy(network):
    return eqx.Partial(eq.Network.energy, network)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), sleep=st.sampled_from([0.0, 3.0]))
def test_energy_never_increases_visit_by_visit_at_zero_temperature(seed, sleep):
    patterns = np.sign(np.random.default_rng(seed).normal(size=(4, 12)))
    network = eq.hopfield(patterns, sleep=sleep)
    how = eq.Sweeps(30, visits=1)
    _, energies = eq.trajectory(network, how, chains=4, temperature=0.0, key=seed, observe=network_energy(network))
    assert (np.diff(energies, axis=0) <= 1e-5).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", machines.DISCRETE)
def test_mean_sweeps_reach_a_stationary_point_of_the_mean_field_free_energy(machine, temperature):
    """F(m) = E(m) - T sum S(m), its gradient taken by autodiff in the fields that parametrise the means."""
    network = machines.DISCRETE[machine]
    with jax.enable_x64(True):
        network = jax.tree.map(lambda leaf: leaf.astype(float), network)
        how = eq.Sweeps(3000, update="mean", tolerance=1e-12)
        rest = eq.equilibrate(network, how, temperature=temperature, key=0)
        assert rest.converged.all()

        def free_energy(fields):
            means = {layer.name: layer.unit.mean(fields[layer.name]) for layer in network.layers}
            entropy = sum(layer.unit.entropy(fields[layer.name]).sum() for layer in network.layers)
            return network.energy(means) - temperature * entropy

        fields = {name: network.field(rest.state, name) / temperature for name in network.names}
        gradient = jax.grad(free_energy)(fields)
    for name in network.names:
        np.testing.assert_allclose(gradient[name], 0, atol=1e-9)


def test_a_chain_stops_when_it_has_settled():
    """A Hopfield network with one pattern reaches it in one sweep from any start with positive overlap."""
    pattern = np.sign(np.random.default_rng(0).normal(size=30))
    cues = np.stack([pattern, np.where(np.arange(30) < 5, -pattern, pattern)])
    rest = eq.equilibrate(eq.hopfield(pattern[None]), eq.Sweeps(50, tolerance=0.0), cues, temperature=0.0, key=0)
    np.testing.assert_array_equal(rest["neurons"], np.stack([pattern, pattern]))
    assert rest.converged.all()
    assert rest.steps.tolist() == [0, 1]
    assert rest.residual.tolist() == [0, 0]


def test_what_has_not_settled_says_so():
    """Two spins that disagree with each other, updated in parallel, flip for ever."""
    network = eq.Network([eq.Layer("s", eq.Spin(), [0.0, 0.0])], [eq.Dense(("s", "s"), [[0, 1.0], [1.0, 0]])])
    how = eq.Sweeps(7, order="parallel", tolerance=0.0)
    rest = eq.equilibrate(network, how, [[1.0, -1.0], [1.0, 1.0]], temperature=0.0)
    assert rest.converged.tolist() == [False, True]
    assert rest.steps.tolist() == [7, 0]


def test_a_nudge_moves_the_output_exactly():
    network = machines.with_biases(eq.layered((3, 4, 2), key=1), 1)
    world = [eq.Clamp("input", np.array([0.2, 0.9, 0.4])), eq.Nudge("output", np.array([0.0, 1.0]), strength=0.8)]
    rest = eq.equilibrate(network, eq.Sweeps(200, update="mode", tolerance=1e-7), world=world)

    def total(free):
        state = {**rest.state, **free}
        return network.energy(state) + 0.8 * eq.squared_error(state["output"], jnp.array([0.0, 1.0]))

    lowest = total({})
    for seed in range(30):
        noise = {
            name: 0.01 * jax.random.normal(jax.random.key(seed), rest[name].shape) for name in ("hidden1", "output")
        }
        nearby = {name: jnp.clip(rest[name] + step, 0, 1) for name, step in noise.items()}
        assert total(nearby) >= lowest - 1e-6


def test_any_cost_can_nudge():
    """With a cost given as a function the same fixed point is reached as with the built-in squared error."""
    network = machines.with_biases(eq.layered((3, 4, 2), units=eq.Clipped(), gain=0.5, key=1), 1)
    clamp, target = eq.Clamp("input", np.array([0.2, 0.9, 0.4])), np.array([0.3, 0.6])
    own = eq.Nudge("output", target, 0.5, cost=lambda state, aim: jnp.sum((state - aim) ** 2, axis=-1) / 2)
    ends = [
        eq.equilibrate(network, eq.Sweeps(300, update="mode", tolerance=1e-8), world=[clamp, nudge])["output"]
        for nudge in (own, eq.Nudge("output", target, 0.5))
    ]
    np.testing.assert_allclose(*ends, atol=1e-6)


def test_nothing_compiles_again_when_only_values_change():
    def once(seed, steps, temperature):
        network = eq.rbm(weights=np.full((7, 5), 0.1 * (seed + 1)), visible=eq.Spin(), hidden=eq.Gaussian(0.5 + seed))
        world = eq.Clamp("visible", np.ones(7), mask=np.arange(7) < seed)
        eq.sample(network, eq.Sweeps(steps), chains=6, temperature=temperature, world=world, key=seed)

    once(0, 5, 1.0)
    with compilations() as found:
        once(1, 9, 0.3)
        once(2, 2, 2.0)
    assert found == []


def test_snapshots_of_a_trajectory_are_the_states_on_the_way():
    network = machines.DISCRETE["hopfield"]
    end, states = eq.trajectory(network, eq.Sweeps(6), chains=2, key=3, observe=lambda state: state["neurons"], every=2)
    assert states.shape == (4, 2, 6)
    np.testing.assert_array_equal(states[-1], end["neurons"])
    shorter = eq.equilibrate(network, eq.Sweeps(4), chains=2, key=3)
    np.testing.assert_array_equal(states[2], shorter["neurons"])


def test_layers_left_out_of_a_start_do_not_matter_to_an_rbm():
    network = machines.DISCRETE["rbm binary"]
    start = np.tile([1.0, 0.0, 0.0, 1.0], (5, 1))
    with_hidden = {"visible": start, "hidden": np.ones((5, 3))}
    ends = [eq.equilibrate(network, eq.Sweeps(1), begin, key=4) for begin in (start, with_hidden)]
    np.testing.assert_array_equal(ends[0]["visible"], ends[1]["visible"])


def test_oracle_finds_the_ground_state():
    """T = 0 descent from every configuration ends in local minima, the best of which is the ground state."""
    network = machines.DISCRETE["dense"]
    exact = oracle.enumerate_states(network)
    rest = eq.equilibrate(network, eq.Sweeps(50, tolerance=0.0), exact.states, temperature=0.0, key=0)
    assert rest.converged.all()
    np.testing.assert_allclose(network.energy(rest.state).min(), exact.energies.min(), atol=1e-5)
