"""Networks in other gauges have the same law, by enumeration."""

from itertools import product

import numpy as np
import pytest

import equilibria as eq
import machines
import oracle

KINDS = {
    "potts": (eq.Potts(3), 6),
    "onehot": (eq.OneHot(), 4),
    "binary": (eq.Binary(), 3),
    "gaussian": (eq.Gaussian(0.7), 2),
}


def machine(visible, hidden, seed=1):
    (first, size), (second, other) = KINDS[visible], KINDS[hidden]
    return machines.with_biases(eq.rbm(size, other, visible=first, hidden=second, scale=0.6, key=seed), seed)


@pytest.mark.parametrize("pair", [*product(("potts", "onehot"), ("potts", "binary", "gaussian")), ("binary", "potts")])
def test_zero_sums_leave_every_energy_as_it_was(pair):
    network = machine(*pair)
    found = eq.zero_sum(network)
    rng = np.random.default_rng(0)
    state = {
        layer.name: oracle.states_of(layer)[rng.integers(0, len(oracle.states_of(layer)), 50)]
        if layer.unit.levels is not None
        else rng.normal(size=(50, layer.size))
        for layer in network.layers
    }
    state = {name: np.asarray(rows, np.float32) for name, rows in state.items()}
    np.testing.assert_allclose(network.energy(state), found.network.energy(state) + found.constant, atol=1e-5)
    moved = False
    for axis, layer in enumerate(network.layers):
        if (width := layer.unit.choices(layer.size)) is not None and width.shape[1] > 1:
            weights = np.moveaxis(np.asarray(found.network.couplings[0].weights), axis, 0)
            sites = np.concatenate([weights, np.asarray(found.network.layers[axis].bias)[:, None]], axis=1)
            np.testing.assert_allclose(sites.reshape(-1, width.shape[1], sites.shape[1]).sum(1), 0, atol=1e-5)
            moved = True
    assert moved
    assert abs(found.constant) > 1e-3  # something was there to take away


def test_couplings_within_a_layer_stay():
    network = eq.hopfield(np.array([[1, -1, 1]]))
    assert eq.zero_sum(network).constant == 0
    np.testing.assert_array_equal(eq.zero_sum(network).network.couplings[0].matrix(), network.couplings[0].matrix())


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
@pytest.mark.parametrize("hidden", [eq.Gaussian(3.0), eq.ReLU(0.4), eq.DoubleReLU(0.5, 2.0, -0.7)], ids=["g", "r", "d"])
def test_hidden_neurons_of_variance_one_leave_the_visible_law(hidden, temperature):
    network = machines.with_biases(eq.rbm(4, 2, hidden=hidden, scale=0.4, key=3), 3)
    every = np.array(list(product((0.0, 1.0), repeat=4)), np.float32)
    rows = every[np.random.default_rng(1).choice(16, 300)]
    found = eq.standardised(network, rows, temperature=temperature)
    old, new = (np.asarray(net.free_energy({"visible": every}, ["hidden"], temperature)) for net in (network, found))
    np.testing.assert_allclose(old - old[0], new - new[0], atol=2e-5)
    assert not np.allclose(old, new, atol=1e-3)  # ln Z differs, by the sum of ln sigma
    # Hidden neurons drawn given the data: twelve of each row, five standard errors of a variance of heavy tails.
    many = np.tile(rows, (12, 1))
    rest = eq.equilibrate(found, eq.Sweeps(1), world=eq.Clamp("visible", many), temperature=temperature, key=5)
    assert np.asarray(rest["hidden"]).var(0) == pytest.approx(1.0, abs=5 * np.sqrt(5 / 3600))


def test_what_has_no_free_scale_is_refused():
    with pytest.raises(ValueError, match="network: got no layer to scale"):
        eq.standardised(eq.rbm(4, 2, key=0), np.eye(4))
