"""Missing entries: likelihoods and gradients with them summed out, against enumeration."""

import jax
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle

MACHINE = machines.DISCRETE["rbm binary"]  # 4 visible and 3 hidden neurons
NAN = np.nan
ROWS = np.array([[1, NAN, 0, 1], [NAN, NAN, 1, 0], [0, 1, 1, 1], [1, 0, NAN, NAN]], np.float32)


def log_weights(network, rows, temperature=1.0):
    """The logarithm of the summed weight of all states that agree with what is known, by brute force."""
    found = oracle.enumerate_states(network, temperature)
    logs = -found.energies / temperature
    visible = found.states[:, : rows.shape[1]]
    agree = ((visible == rows[:, None]) | np.isnan(rows[:, None])).all(-1)
    return np.array([np.logaddexp.reduce(logs[row]) for row in agree]), np.logaddexp.reduce(logs)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "layered"])
def test_the_likelihood_sums_over_what_is_missing(machine, temperature):
    network = machines.DISCRETE[machine]
    rows = np.where(ROWS == 0, min(network.layers[0].unit.levels), ROWS)[:, : network.layers[0].size]
    logs, log_z = log_weights(network, rows, temperature)
    found = eq.log_likelihood(network, rows, temperature=temperature)
    assert found.value == pytest.approx(np.mean(logs - log_z), abs=1e-5)
    filled = eq.log_likelihood(network, np.nan_to_num(rows, nan=1.0), temperature=temperature)
    assert abs(filled.value - found.value) > 0.1  # filling in is something else


def test_both_ways_to_sum_agree(monkeypatch):
    from equilibria.equilibrators import missing

    network = machines.with_biases(eq.rbm(9, 3, scale=1.0, key=5), 5)
    rows = np.random.default_rng(0).choice([0, 1, NAN], (20, 9), p=[0.4, 0.4, 0.2]).astype(np.float32)
    rows = rows[np.isnan(rows).any(1)]
    over_hidden = missing.completions(network, {"visible": rows}, 1.0)  # 8 hidden states, up to 2^5 of the gaps
    monkeypatch.setattr(missing.exact, "plan", lambda system: pytest.fail("not this way") if system else None)
    monkeypatch.setattr(missing.exact, "plan", lambda system: (_ for _ in ()).throw(ValueError))
    over_gaps = missing.completions(network, {"visible": rows}, 1.0)
    np.testing.assert_allclose(over_gaps, over_hidden, atol=1e-4)
    np.testing.assert_allclose(over_gaps, log_weights(network, rows)[0], atol=1e-4)


def test_continuous_neurons_that_are_missing_are_integrated():
    network = machines.with_biases(eq.rbm(2, 2, visible=eq.Gaussian(0.7), scale=0.8, key=6), 6)
    grid = np.linspace(-8, 8, 4001)
    whole = np.stack([np.full_like(grid, 0.3), grid], axis=1).astype(np.float32)
    logs = eq.log_likelihood(network, np.array([[0.3, NAN]], np.float32)).value
    from equilibria.measure.likelihood import unnormalised

    each = unnormalised(network, {"visible": whole}).astype(np.float64)
    by_hand = np.log(np.trapezoid(np.exp(each - each.max()), grid)) + each.max()
    assert logs + eq.log_partition(network).value == pytest.approx(by_hand, abs=1e-4)


def test_missing_sites_of_several_states():
    network = machines.with_biases(eq.rbm(6, 2, visible=eq.Potts(3), scale=1.0, key=8), 8)
    known, whole = eq.data.one_hot([[2, -1]], 3), eq.data.one_hot([[2, k] for k in range(3)], 3)
    logs = [eq.log_likelihood(network, row[None]).value for row in whole]
    assert eq.log_likelihood(network, known).value == pytest.approx(np.logaddexp.reduce(logs), abs=1e-5)


def gradient(network, recipe, data, **more):
    data = recipe.prepared(network, data)
    carry = recipe.begin(network, data, len(ROWS), jax.random.key(3))
    return eq.contrast(network, recipe, data, carry=carry, key=jax.random.key(4), **more).gradient


def by_differences(network, rows, step=1e-3):
    """The slope of the mean log-likelihood in each visible bias, by enumeration."""
    slopes = []
    for neuron in range(rows.shape[1]):
        values = []
        for sign in (1, -1):
            bias = np.asarray(network.layers[0].bias, np.float64) + sign * step * np.eye(rows.shape[1])[neuron]
            layers = [eq.Layer("visible", network.layers[0].unit, bias), network.layers[1]]
            logs, log_z = log_weights(eq.Network(layers, network.couplings), rows)
            values.append(np.mean(logs - log_z))
        slopes.append((values[0] - values[1]) / (2 * step))
    return np.array(slopes)


def test_the_exact_gradient_sums_over_what_is_missing():
    found = gradient(MACHINE, eq.exact(), ROWS)
    np.testing.assert_allclose(-np.asarray(found.layers[0].bias), by_differences(MACHINE, ROWS), atol=1e-3)


@pytest.mark.parametrize(
    "recipe", [eq.pcd(60, chains=8000, centered_gradient=False), eq.cd(60, centered_gradient=False)]
)
def test_sampled_gradients_leave_missing_neurons_free(recipe):
    rows = np.tile(ROWS, (2000, 1))
    found = gradient(MACHINE, recipe, rows)
    # Averages of 8,000 values of 0 and 1 in each phase: 5 sigma.
    np.testing.assert_allclose(
        -np.asarray(found.layers[0].bias), by_differences(MACHINE, ROWS), atol=5 * np.sqrt(0.5 / 8000)
    )
    filled = gradient(MACHINE, recipe, np.nan_to_num(rows))
    assert np.abs(np.asarray(filled.layers[0].bias) - np.asarray(found.layers[0].bias)).max() > 0.05


def test_training_with_missing_entries_goes_on_bit_for_bit(tmp_path):
    options = {"batch_size": 2, "key": 1, "checkpoint_every": 2}
    whole = eq.train(MACHINE, ROWS, eq.pcd(2), steps=4, **options)
    eq.train(MACHINE, ROWS, eq.pcd(2), steps=2, checkpoint=tmp_path, **options)
    resumed = eq.train(MACHINE, ROWS, eq.pcd(2), steps=4, checkpoint=tmp_path, resume=True, **options)
    for first, second in zip(jax.tree.leaves(whole.network), jax.tree.leaves(resumed.network), strict=True):
        np.testing.assert_array_equal(first, second)


def test_biases_from_data_leave_out_what_is_missing():
    found = eq.independent_site_biases(eq.rbm(1, 1, key=0), np.array([[1.0], [NAN], [1.0], [0.0]]))
    assert float(eq.Binary().mean(found.layers[0].bias[0])) == pytest.approx(2.5 / 4, abs=1e-6)


def test_what_cannot_be_summed_is_refused():
    wide = eq.rbm(100, 40, key=0)
    rows = np.full((2, 100), NAN, np.float32)
    rows[0, :50], rows[1, 50:] = 1.0, 0.0
    with pytest.raises(ValueError, match=r"data: got up to 50 missing sites in an example; allowed: fewer missing"):
        eq.log_likelihood(wide, rows, "ais", steps=2, chains=2, key=0)
    with pytest.raises(ValueError, match=r"data\['visible'\]: got nothing known in column 2"):
        eq.train(MACHINE, np.where(np.arange(4) == 2, NAN, ROWS), eq.cd(1), steps=1, key=0)
    half = eq.data.one_hot([[0, 1]], 3)
    half[0, 0] = NAN
    with pytest.raises(ValueError, match=r"site 0 of row 0 missing in part"):
        eq.train(eq.rbm(6, 2, visible=eq.Potts(3), key=0), half, eq.cd(1), steps=1, key=0)
    pair = eq.layered((4, 3, 2), key=0)
    target = np.array([[1.0, NAN], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"missing entries in 'output'"):
        eq.train(pair, (np.ones((2, 4)), target), eq.equilibrium_propagation(), steps=1, key=0)
