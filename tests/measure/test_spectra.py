"""Spectra of couplings, their alignment with data, and the conversion between 0/1 and -1/+1."""

import numpy as np
import pytest

import equilibria as eq
import machines
import oracle


def test_a_spectrum_puts_the_coupling_together_again():
    network = eq.rbm(7, 4, scale=1.0, key=0)
    found = eq.spectrum(network)
    np.testing.assert_allclose((found.first.T * found.values) @ found.second, network.couplings[0].weights, atol=1e-6)
    assert (np.diff(found.values) <= 0).all()
    assert (found.first.sum(1) >= 0).all()


def test_noise_has_the_marchenko_pastur_edge():
    """The largest singular value scatters around the edge by about n^(-2/3) of it."""
    found = eq.spectrum(eq.rbm(300, 100, scale=0.05, key=1)).values
    low, high = eq.theory.marchenko_pastur_edges(300, 100, variance=0.05**2)
    assert found[0] == pytest.approx(high, rel=3 * 100 ** (-2 / 3))
    assert found[-1] == pytest.approx(low, rel=6 * 100 ** (-2 / 3))


def test_principal_components_are_those_of_scikit_learn():
    from sklearn.decomposition import PCA

    data = np.random.default_rng(0).normal(size=(60, 5)) * [5, 3, 2, 1, 0.5] + 7
    found, other = eq.principal_components(data), PCA().fit(data)
    np.testing.assert_allclose(found.values**2 * 60 / 59, other.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(eq.alignment(found.first, other.components_), np.eye(5), atol=1e-7)
    raw = eq.principal_components(data, centred=False)
    assert eq.alignment(raw.first[:1], data.mean(0)[None])[0, 0] > 0.98


def test_learning_aligns_the_first_mode_with_the_data():
    rng = np.random.default_rng(1)
    hidden = rng.choice([-1.0, 1.0], (400, 1))
    data = np.where(rng.random((400, 12)) < 0.85, hidden, -hidden)
    run = eq.train(
        eq.rbm(12, 6, visible=eq.Spin(), hidden=eq.Spin(), scale=0.01, key=0),
        data,
        eq.pcd(2),
        epochs=10,
        batch_size=40,
        learning_rate=0.05,
        record=eq.log_spaced_steps(100, 8),
        metrics=eq.watch_spectrum(data, modes=2),
        key=1,
    )
    assert run.history["singular_values"].shape == (run.history.sizes["step"], 6)
    assert run.history["alignment"][0, 0, 0] < 0.9
    assert run.history["alignment"][-1, 0, 0] > 0.98
    assert run.history["singular_values"][-1, 0] > 5 * run.history["singular_values"][-1, 1]


@pytest.mark.parametrize("name", ["rbm binary", "rbm spin-binary", "layered", "dense layers", "dense", "hopfield"])
def test_conversions_keep_every_energy(name):
    network = machines.DISCRETE[name]
    brute = oracle.enumerate_states(network)
    edges = np.cumsum([layer.size for layer in network.layers])[:-1]
    state = dict(zip(network.names, np.split(brute.states, edges, axis=1), strict=True))
    for convert, old, change in (
        (eq.to_spins, eq.Binary, lambda s: 2 * s - 1),
        (eq.to_binary, eq.Spin, lambda s: (s + 1) / 2),
    ):
        found = convert(network)
        assert not any(isinstance(layer.unit, old) for layer in found.network.layers)
        moved = {n: change(s) if isinstance(network.layer(n).unit, old) else s for n, s in state.items()}
        np.testing.assert_allclose(found.network.energy(moved) + found.constant, brute.energies, atol=3e-6)
        back = (eq.to_binary if convert is eq.to_spins else eq.to_spins)(found.network)
        assert [layer.size for layer in back.network.layers] == [layer.size for layer in network.layers]


def test_the_same_law_after_conversion():
    network = machines.DISCRETE["rbm binary"]
    found = eq.to_spins(network)
    assert eq.log_partition(found.network).value - found.constant == pytest.approx(
        eq.log_partition(network).value, abs=1e-5
    )
    assert eq.spectrum(network).values / 4 == pytest.approx(eq.spectrum(found.network).values, rel=1e-6)


def test_bad_input():
    with pytest.raises(ValueError, match=r"coupling: got 1; allowed: a number below 1"):
        eq.spectrum(eq.rbm(3, 2, key=0), coupling=1)
    with pytest.raises(ValueError, match=r"second: got shape \(1, 3\)"):
        eq.alignment(np.eye(2), np.ones((1, 3)))
    with pytest.raises(ValueError, match="last: got 0"):
        eq.log_spaced_steps(0)
