"""Retrieval gives the right verdict; basins and capacities are where they should be."""

import jax
import numpy as np
import pytest

import equilibria as eq
import oracle

SIZE = 200
PATTERNS = np.asarray(eq.data.random_patterns(5, SIZE, key=jax.random.key(0)))
NETWORK = eq.hopfield(PATTERNS)


def cues(**damage):
    return eq.data.corrupt(PATTERNS, key=jax.random.key(1), **damage)


@pytest.mark.parametrize("order", ["random", "parallel"])
@pytest.mark.parametrize("damage", [{"flips": 0.15}, {"masked": 0.5}, {"flips": 0.1, "masked": 0.3}])
def test_each_damaged_pattern_is_found_again(damage, order):
    found = eq.retrieve(NETWORK, PATTERNS, cues(**damage), order=order, key=2)
    assert found.pattern.tolist() == [0, 1, 2, 3, 4]
    assert found.converged.all()
    assert not found.spurious.any()
    # At a load of 0.025 the noise of the fields is 0.16 of the signal: a stray neuron has odds of 1e-10.
    np.testing.assert_array_equal(found.state, PATTERNS)
    assert ((found.steps >= 1) & (found.steps <= 5)).all()


def test_leading_axes_are_kept():
    found = eq.retrieve(NETWORK, PATTERNS, np.stack([PATTERNS, PATTERNS]), key=2)
    assert found.state.shape == (2, 5, SIZE)
    assert found.pattern.shape == found.overlap.shape == found.converged.shape == found.spurious.shape == (2, 5)
    assert eq.retrieve(NETWORK, PATTERNS, PATTERNS[3], key=2).pattern == 3


def test_mixtures_and_mirror_images_are_spurious():
    """The majority of three patterns is a stable state at low load, with overlap 1/2 with each of them."""
    mixture = np.sign(PATTERNS[:3].sum(axis=0))
    found = eq.retrieve(NETWORK, PATTERNS, np.stack([mixture, -PATTERNS[0]]), key=3)
    assert found.spurious.all()
    assert found.converged.all()
    assert found.overlap[0] == pytest.approx(0.5, abs=0.2)  # finite size: 3 / sqrt(200)
    np.testing.assert_array_equal(found.state[1], -PATTERNS[0])


def test_a_parallel_cycle_of_two_is_not_converged():
    """Two patterns that differ in half the neurons; the antiferromagnet of two spins, written as -J, would need a sign."""
    network = eq.Network(
        [eq.Layer("neurons", eq.Spin(), [0.0, 0.0])], [eq.Dense(("neurons", "neurons"), [[0, 1], [1, 0]])]
    )
    found = eq.retrieve(network, [[1, 1]], [[1, -1], [1, 1]], order="parallel", sweeps=9)
    assert found.converged.tolist() == [False, True]
    assert found.spurious.tolist() == [True, False]


def test_at_a_temperature_nothing_is_called_converged():
    found = eq.retrieve(NETWORK, PATTERNS, PATTERNS, temperature=0.3, sweeps=20, key=4)
    assert found.converged is None
    assert found.pattern.tolist() == [0, 1, 2, 3, 4]


def test_the_final_state_is_a_local_minimum():
    crowded = np.asarray(eq.data.random_patterns(60, SIZE, key=jax.random.key(5)))
    network = eq.hopfield(crowded)
    found = eq.retrieve(network, crowded, crowded[:20], key=6)
    assert found.converged.all()
    state, matrix = np.asarray(found.state), oracle.matrix(network)
    assert (state * (state @ matrix) >= -1e-6).all()
    assert found.overlap.mean() < 0.9  # far above capacity the patterns are lost


def test_observables_are_recorded_inside_the_loop():
    def observe(state):
        return {
            "mattis": eq.overlap(state, PATTERNS),
            "replica": eq.replica_overlap(state),
            "energy": NETWORK.energy(state),
        }

    _, seen = eq.trajectory(NETWORK, eq.Sweeps(4), cues(flips=0.2), observe=observe, temperature=0.0, key=7)
    assert {name: rows.shape for name, rows in seen.items()} == {
        "mattis": (5, 5, 5),
        "replica": (5, 5, 5),
        "energy": (5, 5),
    }
    np.testing.assert_allclose(seen["mattis"][0][np.arange(5), np.arange(5)], 0.6, atol=1e-6)
    np.testing.assert_allclose(seen["replica"][-1], PATTERNS @ PATTERNS.T / SIZE, atol=1e-6)
    assert (np.diff(seen["energy"], axis=0) <= 1e-4).all()


def test_basins_end_and_sleep_widens_them():
    """Twenty patterns of this size are a load at which Hebb's basins are narrow: cues in between tell the two apart."""
    crowded = np.asarray(eq.data.random_patterns(20, SIZE, key=jax.random.key(8)))
    cues = [0.1, 0.3, 0.4, 0.5, 0.9]
    awake, asleep = (
        eq.basin_of_attraction(eq.hopfield(crowded, sleep=sleep), crowded, cues, key=9) for sleep in (0.0, 5.0)
    )
    np.testing.assert_array_equal(awake.cue, cues)
    for basin in (awake, asleep):
        assert basin.retrieved.values[0] < 0.5 < basin.retrieved.values[-1]
        assert (basin.error.values <= 0.5 / np.sqrt(20) * 1.03).all()  # an overlap spreads over less than [0, 1]
    assert asleep.overlap.sel(cue=0.9) > 0.999  # fixed points themselves, once slept
    assert awake.overlap.sel(cue=0.9) > 0.95
    # of sixty cues in between more are followed after sleep, by more than three standard deviations of a fair coin
    middle = slice(0.3, 0.5)
    more = 20 * (asleep.retrieved.sel(cue=middle) - awake.retrieved.sel(cue=middle)).sum()
    assert more > 3 * np.sqrt(60 / 4)


def test_recall_is_lost_at_high_load():
    found = eq.recall_at_load(SIZE, [0.05, 0.5], chains=10, key=10)
    assert found.attrs == {"size": SIZE, "sleep": 0.0, "temperature": 0.0}
    np.testing.assert_allclose(found["load"], [0.05, 0.5])
    assert found.retrieved.values.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"cues": np.ones((2, 7))},
            r"cues: got shape \(2, 7\); allowed: shape \(..., 200\), the length of the patterns",
        ),
        ({"cues": np.full(SIZE, 0.5)}, r"cues: got 0.5 among the values; allowed: -1 and \+1, and 0"),
        ({"patterns": np.ones((2, 7))}, r"patterns: got shape \(2, 7\)"),
        ({"temperature": -1.0}, r"temperature: got -1; allowed: finite and >= 0"),
        ({"threshold": 2.0}, r"threshold: got 2;"),
        ({"sweeps": 0}, r"steps: got 0"),
        ({"key": None}, r"key: got None; allowed: a JAX random key"),
    ],
)
def test_refused_with_a_reason(change, message):
    given = {"patterns": PATTERNS, "cues": PATTERNS, "key": 0} | change
    with pytest.raises(ValueError, match=message):
        eq.retrieve(NETWORK, given.pop("patterns"), given.pop("cues"), **given)
