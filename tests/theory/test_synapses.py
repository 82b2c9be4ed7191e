"""Thresholds against enumeration and against data."""

from itertools import product

import jax
import numpy as np
import pytest

from equilibria.data import planted_data, planted_receptive_fields
from equilibria.theory.synapses import synapse_spike, synapse_threshold


@pytest.mark.parametrize(
    ("count", "correlation", "temperature"), [(2, 0.3, 1.0), (2, -0.4, 0.7), (3, 0.2, 1.3), (4, -0.2, 1.0)]
)
def test_spike_is_the_largest_eigenvalue(count, correlation, temperature):
    overlaps = np.full((count, count), correlation)
    np.fill_diagonal(overlaps, 1.0)
    states = np.array(list(product([-1, 1], repeat=count)))
    logs = np.einsum("sm,mn,sn->s", states, overlaps, states) / (2 * temperature**2)
    law = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    averages = np.einsum("s,sm,sn->mn", law, states, states)
    expected = np.linalg.eigvals(averages @ overlaps).real.max() / temperature**2
    np.testing.assert_allclose(synapse_spike(correlation, temperature, count), expected, rtol=1e-10)


def test_landmarks():
    np.testing.assert_allclose([synapse_threshold(0.0, 0.8, count) for count in (1, 2, 3, 10)], 0.8**4)
    np.testing.assert_allclose(synapse_threshold(0.3), 1 / (1.3 * (1 + np.tanh(0.3))), rtol=1e-12)
    # the same sums in another order: some ten roundings, of 1e-16 each
    np.testing.assert_allclose(synapse_threshold(0.3), synapse_threshold(-0.3), rtol=1e-14)
    lowered = synapse_threshold(np.linspace(0, 0.9, 10))
    assert (np.diff(lowered) < 0).all()
    assert synapse_threshold(0.3, informed=True) < synapse_threshold(0.3)
    assert synapse_threshold([0.0, 0.1], [[0.5], [1.0]]).shape == (2, 2)


def test_spike_is_that_of_planted_data():
    size, examples = 400, 40_000
    fields = planted_receptive_fields(2, size, 0.3, key=jax.random.key(0))
    data = np.asarray(planted_data(fields, examples, key=1), np.float64)
    direction = np.asarray(fields.sum(axis=0), np.float64)
    direction /= np.linalg.norm(direction)
    projections = data @ direction
    # The variance of a variance of nearly normal numbers, five standard errors; couplings of 1/20 add O(1/400).
    expected = 1 + synapse_spike(0.3)
    np.testing.assert_allclose(np.var(projections), expected, atol=5 * expected * np.sqrt(2 / examples) + 0.01)


@pytest.mark.parametrize(("count", "correlation", "temperature"), [(2, 0.3, 1.0), (2, 0.0, 0.8), (3, 0.2, 1.0)])
def test_at_the_threshold_what_bayes_rule_makes_of_a_little_knowledge_neither_grows_nor_fades(
    count, correlation, temperature
):
    """One example's factor cosh(beta X) of the posterior, averaged over what is not known of X, and the examples' law."""
    size, examples, beta = 400, 20_000, 1 / temperature
    fields = planted_receptive_fields(count, size, correlation, key=jax.random.key(5))
    direction = np.asarray(fields, np.float64).sum(axis=0)
    direction /= np.linalg.norm(direction)
    excess = (
        np.var(np.asarray(planted_data(fields, examples, temperature=temperature, key=6), np.float64) @ direction) - 1
    )
    z = np.linspace(-8, 8, 4001)
    weights = np.exp(-(z**2) / 2)

    def belief(mean):
        return np.log(weights @ np.cosh(beta * (mean + z)))

    step = 1e-3
    slope = (belief(step) - 2 * belief(0.0) + belief(-step)) / step**2  # of the pull that an example has on the weights
    threshold = synapse_threshold(correlation, temperature, count)
    error = 5 * (1 + excess) * np.sqrt(2 / examples) + 0.02  # five standard errors of a variance; couplings of 1/20
    np.testing.assert_allclose(slope * excess * threshold, 1.0, atol=error * slope * threshold)
    if correlation:
        assert abs(slope * excess * synapse_threshold(correlation, temperature, count, informed=True) - 1.0) > 0.2


def test_the_informed_threshold_is_where_the_first_eigenvector_finds_the_fields():
    """Baik, Ben Arous and Peche: the squared overlap is (1 - 1/(a l^2)) / (1 + 1/(a l)), and 0 below a = 1/l^2."""
    size, spike = 600, float(synapse_spike(0.3))
    fields = planted_receptive_fields(2, size, 0.3, key=jax.random.key(3))
    direction = np.asarray(fields.sum(axis=0), np.float64)
    direction /= np.linalg.norm(direction)
    data = np.asarray(planted_data(fields, round(1.5 * size), key=4), np.float64)
    for density in (0.15, 1.5):
        first = np.linalg.svd(data[: round(density * size)], full_matrices=False)[2][0]
        expected = max((1 - 1 / (density * spike**2)) / (1 + 1 / (density * spike)), 0.0)
        # Fluctuations of a squared overlap at this size: a few times size^(-1/2), size^(-2/3) at the edge.
        np.testing.assert_allclose((first @ direction) ** 2, expected, atol=0.12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.5,), "correlation: got 1.5"),
        ((0.0, 0.0), "temperature: got 0"),
        ((0.0, 1.0, 0), "count: got 0"),
        ((-0.9, 1.0, 4), "correlation: got -0.9 for 4 fields"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        synapse_threshold(*arguments)
