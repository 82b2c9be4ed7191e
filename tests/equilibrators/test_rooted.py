"""Ladders whose last rung is drawn without a chain: cluster shares against enumeration, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq

CENTRES = np.stack([np.zeros(40), np.ones(40)])
CHAINS, ROUNDS = 1000, 60


@pytest.fixture(scope="module")
def start():
    """A machine that has learned two clusters, one twice as heavy as the other, between which sweeps never pass."""
    rng = np.random.default_rng(0)
    which = rng.random(2000) < 2 / 3
    rows = np.abs(CENTRES[which.astype(int)] - (rng.random((2000, 40)) < 0.1))
    return eq.low_rank_start(rows, 8, components=1, scale=0.0, key=0)


def other(network):
    """Another machine of that shape, whose clusters have other shares."""
    biases = network.layers[0].bias - 0.04
    return eq.rbm(weights=0.98 * network.couplings[0].weights, visible_bias=biases, hidden_bias=network.layers[1].bias)


def share(draws):
    return float((np.asarray(draws["visible"]).mean(1) > 0.5).mean())


def test_cluster_shares_are_those_of_the_machine_wherever_chains_begin(start):
    network = other(start.network)
    truth = share(eq.sample(network, eq.Exact(), chains=20_000, key=1))
    assert abs(truth - share(eq.sample(start.network, eq.Exact(), chains=20_000, key=1))) > 0.1
    plain = eq.Tempered(ROUNDS, ladder=[start.network])
    for begin in (0.0, 1.0):
        options = {"start": {"visible": np.full((CHAINS, 40), begin)}, "key": 2}
        rest = eq.equilibrate(network, start.rooted(plain), **options)
        # Five standard errors of the draws of both.
        assert abs(share(rest) - truth) < 5 * np.sqrt(truth * (1 - truth) * (1 / CHAINS + 1 / 20_000))
        assert float(rest.info["round_trips"]) > 1
        # The negative control: without fresh draws every chain stays where it began.
        assert share(eq.equilibrate(network, plain, **options)) == begin


def test_draws_fill_their_clusters_and_are_no_wider(start):
    """Neurons drawn independently at a node of the mesh had 1.4 times the width of the machine's clusters."""
    exact = np.asarray(eq.sample(start.network, eq.Exact(), chains=20_000, key=1)["visible"])
    drawn = start.root(jax.random.key(2), 20_000)
    assert drawn["hidden"].shape == (20_000, 8)
    for side in (False, True):
        widths = [rows[(rows.mean(1) > 0.5) == side].sum(1).std() for rows in (exact, np.asarray(drawn["visible"]))]
        # Six thousand draws or more of each: a standard error of 0.013 in the ratio.
        assert widths[1] / widths[0] == pytest.approx(1.0, abs=0.06)


def warped(root):
    """The same machine with a mesh that is wrong: each node's share is drawn towards those of all others."""
    shares = np.diff(np.asarray(root.heaped, np.float64), prepend=0.0)
    wrong = np.maximum(shares, 0) ** 0.7 * np.where(np.arange(len(shares)) < len(shares) / 2, 2.0, 1.0)
    wrong /= wrong.sum()
    logs = root.logs + np.log(np.maximum(wrong, 1e-30)) - np.log(np.maximum(shares, 1e-30))
    parts = jnp.asarray(np.cumsum(wrong), float), jnp.asarray(logs, float)
    return eqx.tree_at(lambda here: (here.heaped, here.logs), root, parts)


def test_a_mesh_that_is_wrong_slows_chains_and_does_not_change_their_law(start, monkeypatch):
    root = warped(start.root)
    truth = share(eq.sample(start.network, eq.Exact(), chains=20_000, key=1))
    assert abs(share(root.proposed(jax.random.key(0), 20_000)) - truth) > 0.05
    how = eq.Rooted(eq.Tempered(ROUNDS, ladder=[start.network]), root)
    options = {"start": {"visible": np.zeros((4 * CHAINS, 40))}, "key": 2}
    allowed = 5 * np.sqrt(truth * (1 - truth) * (1 / (4 * CHAINS) + 1 / 20_000))
    assert abs(share(eq.equilibrate(start.network, how, **options)) - truth) < allowed
    # The negative control: every draw of that mesh is taken. One more chain, so that this is compiled.
    options["start"] = {"visible": np.zeros((4 * CHAINS + 1, 40))}
    monkeypatch.setattr(type(root), "log_ratio", lambda self, state: jnp.zeros(len(state["visible"])))
    assert abs(share(eq.equilibrate(start.network, how, **options)) - truth) > allowed


def test_the_ratio_of_machine_and_mesh_is_that_of_their_laws():
    """On six neurons the mesh's law is summed out node by node, and ln Z of the machine is known."""
    rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)
    small = eq.low_rank_start(rows, 4, components=1, key=0)
    states = np.array(list(np.ndindex(*[2] * 6)), np.float32)
    fields = np.asarray(small.root.fields + small.root.tilts @ small.root.directions, np.float64)
    shares = np.diff(np.asarray(small.root.heaped, np.float64), prepend=0.0)
    each = np.exp(states @ fields.T - np.logaddexp(0, fields).sum(1))
    law = each @ shares
    assert law.sum() == pytest.approx(1.0, abs=1e-4)
    hidden = states @ np.asarray(small.network.couplings[0].weights, np.float64) + np.asarray(
        small.network.layers[1].bias
    )
    logs = states @ np.asarray(small.network.layers[0].bias) + np.logaddexp(0, hidden).sum(1)
    found = np.asarray(small.root.log_ratio({"visible": jnp.asarray(states), "hidden": jnp.zeros((64, 4))}))
    np.testing.assert_allclose(found, logs - np.log(law), rtol=1e-4, atol=2e-3)


def test_a_recipe_learns_with_a_root_and_goes_on_bit_for_bit(start, tmp_path):
    rows = np.asarray(start.draws(400, key=3))
    recipe = start.rooted(eq.tempered(1, chains=50, along="training", rungs=4))
    options = {"batch_size": 50, "learning_rate": 0.05, "key": 1, "record": [10]}
    whole = eq.train(start.network, rows, recipe, steps=10, **options)
    assert whole.history["round_trips"][-1] > 0.5
    eq.train(start.network, rows, recipe, steps=4, checkpoint=tmp_path, **options)
    again = eq.train(start.network, rows, recipe, steps=10, checkpoint=tmp_path, resume=True, **options)
    np.testing.assert_array_equal(again.network.couplings[0].weights, whole.network.couplings[0].weights)


def test_what_has_no_such_rung_is_refused(start):
    with pytest.raises(ValueError, match="how: got Tempered; allowed: an exchange along networks"):
        start.rooted(eq.Tempered(10))
    with pytest.raises(ValueError, match="how: got Sweeps; allowed: an exchange along networks"):
        start.rooted(eq.pcd(1))
    with pytest.raises(ValueError, match="how: got a ladder that begins with another network"):
        start.rooted(eq.Tempered(10, ladder=[other(start.network)]))
    how = start.rooted(eq.Tempered(10, ladder=[start.network]))
    with pytest.raises(ValueError, match=r"temperature: got .*2.*; allowed: 1, at which the root is drawn"):
        eq.sample(start.network, how, chains=3, temperature=2.0, key=0)
    with pytest.raises(ValueError, match="world: got clamps or nudges"):
        eq.equilibrate(start.network, how, world=eq.Clamp("hidden", np.ones(8)), chains=3, key=0)
