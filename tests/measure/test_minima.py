"""The number of local minima: against a plain loop over all states, and annealed against enumerated."""

import itertools

import numpy as np
import pytest

import equilibria as eq


def by_hand(weights, bias):
    """States that no flip of one spin lowers, each energy computed anew."""

    def energy(state):
        return -state @ weights @ state / 2 - bias @ state

    count = 0
    for spins in itertools.product([-1.0, 1.0], repeat=len(bias)):
        state = np.array(spins)
        flips = state * (1 - 2 * np.eye(len(bias)))
        count += all(energy(flipped) >= energy(state) - 1e-9 for flipped in flips)
    return count


def spins(size, seed, field=0.0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(size, size)) / np.sqrt(size)
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    bias = field * rng.normal(size=size)
    network = eq.Network([eq.Layer("neurons", eq.Spin(), bias)], [eq.Dense(("neurons", "neurons"), weights)])
    return network, weights, bias


@pytest.mark.parametrize(("size", "seed", "field"), [(9, 0, 0.0), (9, 1, 0.4), (13, 2, 0.0)])
def test_enumeration_counts_what_no_flip_lowers(size, seed, field):
    network, weights, bias = spins(size, seed, field)
    assert round(np.exp(eq.log_minima(network).value)) == by_hand(weights, bias)


def test_ties_count():
    """Two patterns that agree in half of four neurons: flips that change nothing are there, and lower nothing."""
    network = eq.hopfield([[1, 1, 1, 1], [1, 1, -1, -1]])
    weights = np.asarray(network.couplings[0].matrix())
    weights = weights - np.diag(np.diag(weights))
    assert round(np.exp(eq.log_minima(network).value)) == by_hand(weights, np.zeros(4))


def test_annealing_agrees_with_enumeration():
    gaps = []
    for seed in range(4):
        network, *_ = spins(13, seed)
        found = eq.log_minima(network, "annealed", chains=300, steps=100, key=seed)
        gaps.append((found.value - eq.log_minima(network).value) / found.error)
        assert found.error < 0.3  # so that the test can fail
    assert np.abs(gaps).max() < 3.5
    assert abs(np.mean(gaps)) < 2  # four of them: no lean to one side


@pytest.mark.parametrize(
    ("match", "given"),
    [("network: got", {}), ("key: got", {"method": "annealed"}), ("method: got", {"method": "guess"})],
)
def test_bad_input_is_named(match, given):
    network = eq.rbm(4, 3, key=0) if match.startswith("network") else eq.hopfield(np.ones((1, 6)))
    with pytest.raises(ValueError, match=match):
        eq.log_minima(network, **given)
