"""Learning with weighted chains: clusters keep their shares where plain persistent chains lose them."""

import numpy as np
import pytest

import equilibria as eq

CENTRES = np.random.default_rng(0).integers(0, 2, (2, 60))
SHARE = 0.7


def clusters(examples=2000):
    """Noisy copies of two far centres, the first one more often."""
    rng = np.random.default_rng(1)
    which = (rng.random(examples) > SHARE).astype(int)
    return np.abs(CENTRES[which] - (rng.random((examples, 60)) < 0.05)).astype(np.float32)


def learned(recipe, rows, **options):
    return eq.train(eq.rbm(60, 6, key=0), rows, recipe, batch_size=200, learning_rate=0.1, key=1, **options)


def share(network):
    """The first cluster's, by independent draws of the machine."""
    draws = np.asarray(eq.sample(network, eq.Exact(), chains=4000, key=3)["visible"])
    first, second = (np.abs(draws - centre).sum(1) for centre in CENTRES)
    return (first < second).mean()


def test_clusters_keep_their_shares():
    rows = clusters()
    weighted = learned(eq.reweighted(5, chains=500), rows, steps=600)
    plain = learned(eq.pcd(5, chains=500), rows, steps=600)
    assert abs(share(plain.network) - SHARE) > 0.2  # chains do not cross here: the test could fail
    # The share is that of 500 chains, about one standard deviation of 0.02, and of their weights' changes: four of them.
    assert share(weighted.network) == pytest.approx(SHARE, abs=4 * np.sqrt(2) * 0.02)
    effective = weighted.history["effective_chains"].values
    assert (effective > 200).all()
    assert (effective < 500.001).all()


def test_a_run_goes_on_bit_for_bit(tmp_path):
    rows = clusters(400)
    whole = learned(eq.reweighted(2, chains=40), rows, steps=12)
    learned(eq.reweighted(2, chains=40), rows, steps=5, checkpoint=tmp_path)
    rest = learned(eq.reweighted(2, chains=40), rows, steps=12, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(whole.network.couplings[0].matrix(), rest.network.couplings[0].matrix())
    np.testing.assert_array_equal(whole.carry["carried"].log_weights, rest.carry["carried"].log_weights)
