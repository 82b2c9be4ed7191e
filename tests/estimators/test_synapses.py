"""Binary synapses behind scikit-learn's interface, and their file."""

import jax
import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import equilibria as eq
import oracle
from equilibria import files
from equilibria.data import planted_data, planted_receptive_fields
from equilibria.estimators.synapses import BinarySynapseRBM
from equilibria.measure.matching import match_fields
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.saving import load_synapses, save_synapses


@pytest.mark.slow  # every check has shapes of its own, which compile anew
@parametrize_with_checks([BinarySynapseRBM()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def learned():
    fields = planted_receptive_fields(2, 60, key=jax.random.key(1))
    data = np.asarray(planted_data(fields, 480, key=2))
    return np.asarray(fields), data, BinarySynapseRBM(n_components=2, n_iter=150, random_state=0).fit(data)


def test_it_learns(learned):
    fields, data, machine = learned
    assert match_fields(machine.components_, fields).overlaps.mean() > 0.75
    hidden = machine.transform(data)
    np.testing.assert_allclose(hidden, np.tanh(data @ machine.components_.T / np.sqrt(60)), rtol=1e-5)
    assert machine.score(data) > -60 * np.log(2)  # better than knowing nothing
    assert machine.sample(3, steps=5).shape == (3, 60)
    assert ((machine.variances_ >= 0) & (machine.variances_ <= 1)).all()
    assert machine.history_["bound"].values[-1] > machine.history_["bound"].values[0]


def test_score_is_the_log_likelihood():
    data = np.random.default_rng(0).choice([-1.0, 1.0], (20, 7))
    machine = BinarySynapseRBM(n_components=2, n_iter=3, random_state=0).fit(data)
    brute = oracle.enumerate_states(machine.network_)
    marginal = [brute.probabilities[(brute.states[:, :7] == row).all(axis=1)].sum() for row in data]
    np.testing.assert_allclose(machine.score_samples(data), np.log(marginal), atol=1e-4)


def test_grey_levels_need_a_threshold():
    grey = np.random.default_rng(0).random((20, 6))
    with pytest.raises(ValueError, match=r"X: got .* among the values; allowed: -1 and .*threshold"):
        BinarySynapseRBM(n_iter=1, binarize=None).fit(grey)
    cut = BinarySynapseRBM(n_components=2, n_iter=1, binarize=0.5, random_state=0).fit(grey)
    again = BinarySynapseRBM(n_components=2, n_iter=1, random_state=0).fit(np.where(grey > 0.5, 1, -1))
    assert (cut.components_ == again.components_).all()
    with pytest.raises(ValueError, match="binarize: got shape"):
        BinarySynapseRBM(n_iter=1, binarize=[0.5, 0.5]).fit(grey)


def test_an_e_step_is_one_of_several():
    with pytest.raises(ValueError, match=r"e_step: got 'Exact'; allowed: None, 'exact', 'cavity'"):
        BinarySynapseRBM(e_step="Exact").fit(np.ones((4, 3)))


def test_too_many_components_for_the_exact_e_step():
    with pytest.raises(ValueError, match=r"26 hidden units.*'cavity', 'response' or 'gibbs'"):
        BinarySynapseRBM(n_components=26, e_step="exact").fit(np.ones((4, 3)))


def test_the_file_has_one_bit_for_each_weight(learned, tmp_path):
    machine = learned[2]
    path = tmp_path / "machine.safetensors"
    size = machine.save(path)
    assert size == path.stat().st_size < 60 * 2 / 8 + 600  # the header of the file, with its digest
    network = load_synapses(path)
    np.testing.assert_allclose(network.couplings[0].weights, machine.network_.couplings[0].weights, rtol=1e-6)
    wide = Synapses(np.random.default_rng(0).standard_normal((784, 100)), bias=np.ones(784), temperature=0.5)
    assert save_synapses(path, wide) < 784 * 100 / 8 + 4 * 784 + 600
    with pytest.raises(ValueError, match="network: got weights of several sizes"):
        save_synapses(path, eq.rbm(4, 2, key=0))
    again = load_synapses(path)
    np.testing.assert_allclose(again.couplings[0].weights, wide.network().couplings[0].weights, rtol=1e-6)
    np.testing.assert_array_equal(again.layers[0].bias, wide.bias)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "machine.safetensors"
    save_synapses(path, Synapses(np.ones((8, 2))))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(files.CheckpointError, match=r"machine.safetensors: truncated or damaged"):
        load_synapses(path)
    with pytest.raises(ValueError, match="allowed: a file that save_synapses wrote"):
        load_synapses(tmp_path / "none")
