"""Message passing against enumeration: exact without loops, close with weak ones, and its own linear response."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators import bethe, cavity
from equilibria.equilibrators.cavity import Cavity, bethe_log_partition
from equilibria.equilibrators.conditioned import conditioned

UNITS = {"spin": eq.Spin(), "binary": eq.Binary()}


def machine(visible, hidden, *, scale, units=("spin", "spin"), seed=0):
    net = eq.rbm(visible, hidden, visible=UNITS[units[0]], hidden=UNITS[units[1]], scale=scale, key=seed)
    return machines.with_biases(net, seed + 1)


@eqx.filter_jit
@eqx.filter_value_and_grad
def log_partition(network, how, state, temperature):
    return -how.free_energy(conditioned(network, (), temperature), state) / temperature


def moments(network, how, temperature=1.0, start=None):
    """ln Z, the means and the pair averages <v_i h_mu> that an equilibrator's free energy implies."""
    rest = eq.equilibrate(network, how, start, temperature=temperature)
    value, slope = log_partition(network, how, rest.state, jnp.asarray(temperature))
    assert bool(rest.converged)
    return value, [slope.layers[0].bias, slope.layers[1].bias, slope.couplings[0].weights], rest


def exact_moments(network, temperature=1.0):
    brute = oracle.enumerate_states(network, temperature)
    size = network.layers[0].size
    visible, hidden = brute.states[:, :size], brute.states[:, size:]
    p = brute.probabilities
    return brute.log_partition, [p @ visible, p @ hidden, np.einsum("s,si,sm->im", p, visible, hidden)]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("units", [("spin", "spin"), ("binary", "binary"), ("spin", "binary"), ("binary", "spin")])
def test_exact_on_a_star(units, temperature):
    network = machine(7, 1, scale=1.0, units=units)
    value, found, rest = moments(network, Cavity(), temperature)
    log_partition, expected = exact_moments(network, temperature)
    np.testing.assert_allclose(value, log_partition, rtol=1e-5)
    for got, want in zip(found, expected, strict=True):
        # 1 - <v h> of a strong pair is a difference of numbers near 1, under a root.
        np.testing.assert_allclose(got * temperature, want, atol=1e-4)
    np.testing.assert_allclose(rest["visible"], expected[0], atol=5e-6)


def test_taking_a_message_out_of_a_large_field_loses_no_digits():
    messages = np.tanh(np.array([0.1, 3.0, 6.5, -6.5, 7.5])).astype(np.float32)
    fields = np.array([0.3, 3.4, 7.0, -6.0, 9.0], np.float32)
    expected = np.tanh(fields - np.arctanh(messages.astype(np.float64)))
    # From the tanh of the field, rounded to single precision, the last would come out as 0.82; 0.90 is right.
    np.testing.assert_allclose(cavity._without(fields, messages), expected, atol=2e-6)


@pytest.mark.parametrize("bias", [0.3, 5.0])
def test_two_strong_bonds_in_a_row(bias):
    weights, fields = np.array([[6.0], [7.0]]), (np.array([bias, -0.2]), np.array([0.1]))
    network = machine(2, 1, scale=1.0)
    network = eqx.tree_at(
        lambda net: (net.layers[0].bias, net.layers[1].bias, net.couplings[0].weights),
        network,
        tuple(jnp.asarray(value, jnp.float32) for value in (*fields, weights)),
    )
    rest = eq.equilibrate(network, Cavity())
    _, expected = exact_moments(network)
    np.testing.assert_allclose(rest["visible"], expected[0], atol=1e-5)
    np.testing.assert_allclose(rest["hidden"], expected[1], atol=1e-5)


@pytest.mark.parametrize("units", [("spin", "spin"), ("binary", "spin")])
def test_close_to_enumeration_with_loops(units):
    # The shortest loops add sum_{mu<nu} (w^T w)_{mu nu}^2 / 2 to ln Z at most: about 3 * 8 * 0.1^4 / 2 = 0.001 for spins of
    # width 0.1 (0/1 neurons have half the coupling), and what the draw makes of it.
    network = machine(8, 3, scale=0.1 if units[0] == "spin" else 0.2, units=units)
    log_partition, expected = exact_moments(network)
    value, found, _ = moments(network, Cavity())
    _, corrected, _ = moments(network, Cavity(response=True))
    np.testing.assert_allclose(value, log_partition, atol=0.006)
    for got, want in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(got, want, atol=0.006)
    plain, better = (np.abs(pairs[2] - expected[2]).max() for pairs in (found, corrected))
    assert better < plain / 2
    assert better < 0.004


def test_response_is_the_derivative_of_the_fixed_point():
    network = machine(6, 3, scale=0.4)
    _, (visible, hidden, corrected), _ = moments(network, Cavity(response=True))
    step = 0.01  # central differences: the error is of the order of step^2, and of 1e-6 / step

    def means(shift):
        shifted = eqx.tree_at(lambda net: net.layers[1].bias, network, network.layers[1].bias + shift)
        return np.asarray(eq.equilibrate(shifted, Cavity())["visible"])

    for unit in range(3):
        shift = step * np.eye(3)[unit]
        slope = (means(shift) - means(-shift)) / (2 * step)
        np.testing.assert_allclose(corrected[:, unit] - visible * hidden[unit], slope, atol=5e-4)


@pytest.mark.parametrize(("batch", "size"), [((), 1), ((7,), 2), ((3, 2), 5), ((2,), 40)])
def test_curvatures_are_inverted_without_lapack(batch, size):
    """Its kernels in jaxlib 0.10 wait for ever when two of them share two threads, as those of two E-steps did."""
    half = np.random.default_rng(size).standard_normal((*batch, size, 2 * size))
    curvature = (half @ np.swapaxes(half, -1, -2) / size + 0.1 * np.eye(size)).astype(np.float32)
    inverse = jax.jit(bethe._inverse)
    np.testing.assert_allclose(
        inverse(curvature) @ curvature, np.broadcast_to(np.eye(size), curvature.shape), atol=2e-5
    )
    assert "lapack" not in inverse.lower(curvature).as_text()
    assert "lapack" in jax.jit(jnp.linalg.inv).lower(curvature).as_text()  # as its name is written there


def test_response_on_either_side():
    network = machine(3, 6, scale=0.4, units=("binary", "spin"))
    _, found, _ = moments(network, Cavity(response=True))
    _, expected = exact_moments(network)
    np.testing.assert_allclose(found[2], expected[2], atol=0.02)


def test_the_fixed_point_makes_bethe_stationary():
    network = machine(8, 3, scale=0.4)
    _, _, rest = moments(network, Cavity())
    pair = cavity.spins(conditioned(network, (), 1.0))

    def value(first, second):
        return cavity.bethe(pair, first, second)

    # The gradient in the means leaves out that of the pairs, at which ln Z is stationary: differences do not.
    for axis in range(2):
        state = [rest["visible"], rest["hidden"]]
        for neuron in range(3):
            shifted = []
            for step in (-0.02, 0.02):
                moved = [part.at[neuron].add(step) if index == axis else part for index, part in enumerate(state)]
                shifted.append(float(value(*moved)))
            assert abs(shifted[1] - shifted[0]) / 0.04 < 1e-2  # third-order term of the difference, float32 of ln Z


def test_strong_couplings_stay_finite_and_say_when_they_do_not_settle():
    strong = eq.rbm(6, 6, visible=eq.Spin(), hidden=eq.Spin(), scale=20.0, key=3)
    rest = eq.equilibrate(strong, Cavity(steps=30, tolerance=1e-6), key=0)
    assert all(np.isfinite(layer).all() for layer in rest.state.values())
    assert rest.residual.shape == ()
    frustrated = eq.equilibrate(machine(8, 8, scale=2.5, seed=9), Cavity(steps=3, tolerance=1e-6))
    assert not bool(frustrated.converged)
    assert float(frustrated.residual) > 1e-6


def test_damping_reaches_the_same_fixed_point():
    network = machine(8, 3, scale=0.4)
    plain, damped = (eq.equilibrate(network, Cavity(damping=damping)) for damping in (0.0, 0.7))
    assert int(damped.steps) > int(plain.steps)
    np.testing.assert_allclose(damped["visible"], plain["visible"], atol=1e-5)


def test_chains_and_temperatures_side_by_side():
    network = machine(7, 1, scale=1.0)
    temperatures = jnp.array([0.7, 1.0, 1.9])
    found = bethe_log_partition(network, temperature=temperatures)
    expected = [oracle.enumerate_states(network, float(t)).log_partition for t in temperatures]
    np.testing.assert_allclose(found.log_partition, expected, rtol=1e-5)
    assert found.means["visible"].shape == (3, 7)


def test_a_held_layer_leaves_exact_means():
    network = machine(4, 3, scale=1.0, units=("binary", "binary"))
    data = np.array([[1.0, 0, 1, 1], [0, 0, 1, 0]])
    rest = eq.equilibrate(network, Cavity(), world=eq.Clamp("visible", data))
    expected = jax.nn.sigmoid(network.field({"visible": jnp.asarray(data)}, "hidden"))
    np.testing.assert_allclose(rest["hidden"], expected, rtol=1e-6)


def test_three_layers_with_one_held():
    network = machines.DISCRETE["layered"]
    world = eq.Clamp("input", np.array([1.0, 0.0, 1.0]))
    how = Cavity()
    rest = eq.equilibrate(network, how, world=world)
    found = -how.free_energy(conditioned(network, world, 1.0), rest.state)
    brute = oracle.enumerate_states(network)
    chosen = (brute.states[:, :3] == [1.0, 0.0, 1.0]).all(axis=1)
    exact = np.log(np.exp(-brute.energies[chosen]).sum())
    np.testing.assert_allclose(found, exact, atol=0.02)  # one square of couplings below 1: a loop of four


def test_it_trains_an_ordinary_machine():
    """The gradient with message passing in the free phase is close to the exact one where the couplings are weak."""
    network = machine(6, 3, scale=0.1, units=("binary", "binary"))
    data = {"visible": jax.random.bernoulli(jax.random.key(1), 0.5, (20, 6)).astype(float)}
    passing = eq.Recipe(plus=eq.Phase(Cavity(), hold="all"), minus=eq.Phase(Cavity()))
    found = eq.contrast(network, passing, data, key=jax.random.key(0))
    exact = eq.contrast(network, eq.exact(), data, key=jax.random.key(0))
    np.testing.assert_allclose(found.gradient.couplings[0].weights, exact.gradient.couplings[0].weights, atol=2e-4)
    assert float(found.report["unconverged_minus"]) == 0


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (eq.rbm(4, 3, hidden=eq.Gaussian(), key=0), "two coupled layers of Spin or Binary"),
        (machines.DISCRETE["hopfield"], "two coupled layers of Spin or Binary"),
        (machines.DISCRETE["layered"], "two coupled layers of Spin or Binary"),
    ],
)
def test_refusals(network, message):
    with pytest.raises(ValueError, match=message):
        eq.equilibrate(network, Cavity())


def test_refused_arguments():
    with pytest.raises(ValueError, match="damping: got 1"):
        Cavity(damping=1.0)
    with pytest.raises(ValueError, match="temperature"):
        eq.equilibrate(machine(3, 2, scale=0.1), Cavity(), temperature=0.0)


@pytest.mark.parametrize("response", [False, True])
def test_frozen_neurons_have_a_free_energy(response):
    """Couplings so strong that means are one to the last digit: ln Z and its gradient are those of the one state left."""
    network = eq.rbm(weights=[[18.0, 0.5], [0.3, 18.0]])
    found = bethe_log_partition(network, Cavity(1000, damping=0.2, response=response))
    exact = oracle.enumerate_states(network).log_partition
    assert bool(found.converged)
    np.testing.assert_allclose(found.log_partition, exact, rtol=1e-5)  # 36.8
    _, slopes, _ = moments(network, Cavity(1000, damping=0.2, response=response))
    for slope in slopes:
        np.testing.assert_allclose(slope, np.ones(slope.shape), atol=1e-4)


def test_what_is_not_finite_has_not_settled(monkeypatch):
    monkeypatch.setattr(Cavity, "free_energy", lambda how, system, state: jnp.asarray(jnp.nan))
    assert not bool(bethe_log_partition(eq.rbm(4, 3, key=0)).converged)
    with pytest.raises(ValueError, match=r"network: got ln Z = -?(nan|inf), which is no number"):
        eq.log_partition(eq.rbm(5, 3, key=0), "bethe")
