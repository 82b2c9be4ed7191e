"""Exact sums against the oracle."""

import jax
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators import exact
from equilibria.equilibrators.conditioned import conditioned


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", machines.DISCRETE)
def test_log_partition(machine, temperature):
    network = machines.DISCRETE[machine]
    found = exact.log_partition_function(conditioned(network, (), temperature))
    np.testing.assert_allclose(found, oracle.enumerate_states(network, temperature).log_partition, rtol=2e-6)


def test_the_smaller_side_is_enumerated():
    chosen = exact.plan(conditioned(eq.rbm(30, 5, key=0), (), 1.0))
    assert chosen == exact.Plan(integrated=("visible",), enumerated=("hidden",), states=2**5)
    gaussian = eq.rbm(8, 40, visible=eq.Spin(), hidden=eq.Gaussian(), key=0)
    assert exact.plan(conditioned(gaussian, (), 1.0)).enumerated == ("visible",)


def test_sums_in_chunks_are_the_same(monkeypatch):
    network = machines.DISCRETE["dense"]
    whole = exact.log_partition_function(conditioned(network, (), 1.0))
    monkeypatch.setattr(exact, "_CHUNK", 10)  # does not divide 2^6: the last chunk is cut
    np.testing.assert_allclose(exact.log_partition_function(conditioned(network, (), 1.0)), whole, rtol=1e-6)


def test_clamps_and_nudges_are_summed_per_example():
    network = machines.DISCRETE["rbm spin-binary"]
    visible = np.array([[1.0, -1, 1, 1], [-1, -1, 1, -1]])
    found = exact.log_partition_function(conditioned(network, eq.Clamp("visible", visible), 0.7))
    brute = oracle.enumerate_states(network, 0.7)
    for row, value in zip(visible, found, strict=True):
        agree = (brute.states[:, :4] == row).all(1)
        np.testing.assert_allclose(value, np.log(np.exp(-brute.energies[agree] / 0.7).sum()), rtol=1e-5)
    target = np.array([[1.0, 0, 1], [0, 1, 0]])
    found = exact.log_partition_function(conditioned(network, eq.Nudge("hidden", target, 0.6), 0.7))
    for row, value in zip(target, found, strict=True):
        energies = brute.energies + 0.6 * ((brute.states[:, 4:] - row) ** 2).sum(1) / 2
        np.testing.assert_allclose(value, np.log(np.exp(-energies / 0.7).sum()), rtol=1e-5)


@pytest.mark.parametrize("machine", machines.DISCRETE)
def test_its_free_energy_differentiates_to_the_averages(machine):
    """T d ln Z / d bias is the mean of each neuron."""
    network = machines.DISCRETE[machine]
    gradient = jax.grad(lambda net: exact.log_partition_function(conditioned(net, (), 1.0)))(network)
    brute = oracle.enumerate_states(network)
    means = np.concatenate([np.asarray(layer.bias) for layer in gradient.layers])
    np.testing.assert_allclose(means, brute.probabilities @ brute.states, atol=2e-5)


@pytest.mark.slow
def test_2_to_the_22_states_fit():
    network = eq.rbm(22, 400, scale=0.01, key=0)
    found = exact.log_partition_function(conditioned(network, (), 1.0))
    # In spins of size W/4 with fields r/4 and c/4 (r, c the row and column sums of W), to third order in small weights.
    weights = np.asarray(network.couplings[0].weights, np.float64)
    rows, columns = weights.sum(1), weights.sum(0)
    second = ((rows**2).sum() + (columns**2).sum() + (weights**2).sum()) / 32
    expected = weights.sum() / 4 + second + rows @ weights @ columns / 64
    # ln Z is near 300, where single precision resolves 3e-5; the next order is of that size as well.
    np.testing.assert_allclose(float(found) - 422 * np.log(2), expected, atol=1e-4)
