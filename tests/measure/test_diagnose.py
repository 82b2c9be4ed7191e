"""Diagnosis: machines that are known to mix or not to, and the numbers against the reference package."""

import jax
import numpy as np
import pytest

import equilibria as eq
from equilibria.measure.convergence import convergence, nearest_neighbour_accuracy
from equilibria.measure.starts import starts


def valleys(strength):
    """Twelve spins with one mode; far above strength 0.3 its two valleys are too far apart for sweeps."""
    pattern = np.full((12, 2), strength)
    layers = [eq.Layer("visible", eq.Spin(), np.full(12, 0.02)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    return eq.Network(layers, [eq.Dense(("visible", "hidden"), pattern)])


UP = np.ones((60, 12)) * np.where(np.arange(12) < 11, 1, -1)
UP = np.array([np.roll(row, number) for number, row in enumerate(UP)])  # all in one valley
HOW = {"chains": 40, "draws": 250, "key": 1}


def test_a_machine_that_mixes_is_said_to():
    found = eq.diagnose(valleys(0.2), UP, how=eq.Sweeps(1000), **HOW)
    assert found.mixed, found
    assert found.verdict == "mixed"
    assert found.r_hat < 1.01
    assert found.ess > 1000
    assert found.autocorrelation_time >= 2  # draws are two sweeps apart
    assert found.draws.sizes == {"chain": 80, "draw": 250}
    assert set(found.draws.start.values) == {"random", "data"}
    assert found.to_inference_data()["posterior"]["energy"].dims == ("chain", "draw")
    assert len(found.figure().axes) == 3


def test_chains_that_stay_at_data_are_found():
    found = eq.diagnose(valleys(1.0), UP, how=eq.Sweeps(1000), **HOW)
    assert not found.mixed
    assert found.verdict.startswith("not mixed: chains started at data stay there")
    assert "Tempered" in found.verdict
    assert found.r_hat > 1.1
    assert "not mixed" in str(found)


def test_tempering_is_said_to_mix_the_same_machine():
    found = eq.diagnose(valleys(1.0), UP, how=eq.Tempered(2500, rungs=6), **HOW)
    assert found.mixed, found


def test_chains_that_stay_anywhere_are_found_without_data():
    found = eq.diagnose(valleys(1.0), how=eq.Sweeps(1000), **HOW)
    assert not found.mixed
    assert found.verdict.startswith("not mixed: chains stay where they began")
    assert found.accuracy is None


def test_the_numbers_are_those_of_the_reference():
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(0)
    noise, chain = rng.normal(size=(6, 400)), np.zeros((6, 400))
    for step in range(1, 400):
        chain[:, step] = 0.8 * chain[:, step - 1] + noise[:, step]
    found = convergence(chain)
    assert found.r_hat == pytest.approx(float(array_stats.rhat(chain)))
    # The integrated autocorrelation time of this process is (1 + a) / (1 - a) = 9.
    assert found.autocorrelation_time == pytest.approx(9, rel=0.35)
    shifted = chain + np.where(np.arange(6) < 3, 0.0, 3.0)[:, None]
    assert convergence(shifted).r_hat > 1.1


def test_chains_that_never_move():
    assert convergence(np.ones((3, 10))) == (1.0, 30.0, 30.0, 1.0)
    assert convergence(np.repeat(np.arange(3.0)[:, None], 10, 1)).r_hat == np.inf


def test_neighbours_tell_copies_from_draws():
    rng = np.random.default_rng(0)
    data, fresh, far = rng.normal(size=(400, 3)), rng.normal(size=(400, 3)), 5 + rng.normal(size=(400, 3))
    # Each of 400 shares scatters by 0.025; neighbours are shared, which makes it somewhat more.
    assert nearest_neighbour_accuracy(data, fresh) == pytest.approx((0.5, 0.5), abs=0.15)
    assert nearest_neighbour_accuracy(data, far) == (1.0, 1.0)
    assert nearest_neighbour_accuracy(data, data) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": eq.Sweeps(10)}, r"how: got 10 steps; allowed: at least 1000"),
        ({"how": eq.MeanField(5000)}, r"how: got .*; allowed: an equilibrator that draws"),
        ({"chains": 1}, r"chains: got 1"),
        ({"data": np.zeros((3, 5))}, r"data\['visible'\]: got shape"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        eq.diagnose(valleys(0.2), **{"key": 0, **options})


def test_an_estimate_prints_what_is_known():
    assert str(eq.Estimate(1.5)) == "1.5000"
    assert str(eq.Estimate(-84.31, 0.234, (-84.61, -84.04), 55.3, r_hat=1.0042)) == (
        "-84.31 ± 0.23 (bracket -84.61 to -84.04, 55 effective samples, R-hat 1.004)"
    )
    assert str(eq.Estimate(2.0, np.nan, note="one mode")) == "2.0000 ± ? (one mode)"


def test_values_between_those_of_a_unit_are_means_of_the_states_that_chains_start_at():
    rows = {"visible": np.tile([0.0, 0.5, -1.0, np.nan], (400, 1))}
    network = eq.rbm(4, 2, visible=eq.Spin(), key=0)
    state, kinds = starts(network, rows, 400, jax.random.key(0), jax.random.key(1))
    found = np.asarray(state["visible"])[np.array(kinds) == "data"]
    assert np.isin(found, (-1, 1)).all()
    np.testing.assert_allclose(found.mean(0), [0.0, 0.5, -1.0, 0.0], atol=5 / np.sqrt(400))
    assert (found[:, 2] == -1).all()
