"""A start of low rank: its ln Z against enumeration, its draws against the data's clusters, its likelihood against others'."""

from itertools import product

import equinox as eqx
import numpy as np
import pytest

import equilibria as eq
from equilibria import files
from equilibria.learn.gaps import Gaps
from equilibria.learn.mesh import mesh_over


def clusters(centres, shares, flips, size, seed=0):
    """Rows near some centres, each neuron flipped with a small probability."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(centres), size, p=shares)
    return np.abs(centres[which] - (rng.random((size, centres.shape[1])) < flips)).astype(np.float32), which


RNG = np.random.default_rng(1)
LINE = np.stack([np.zeros(60), np.ones(60)])
TRIANGLE = RNG.integers(0, 2, (3, 60))
CASES = {
    "two clusters in one direction": (LINE, [0.3, 0.7], 1),
    "three clusters in two": (TRIANGLE, [0.2, 0.3, 0.5], 2),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    centres, shares, components = CASES[request.param]
    rows, which = clusters(centres, shares, 0.1, 2000)
    return rows, which, centres, eq.low_rank_start(rows, 10, components=components, scale=0.0, key=0)


def nearest(rows, centres):
    return np.argmin(np.abs(np.asarray(rows)[:, None] - centres).sum(-1), axis=1)


def test_ln_z_is_that_of_enumeration(case):
    rows, _, _, start = case
    # Sixty neurons: the saddle point is off by some hundredths of a nat.
    assert start.log_partition == pytest.approx(eq.log_partition(start.network).value, abs=0.1)
    assert start.likelihood == pytest.approx(eq.log_likelihood(start.network, rows).value, abs=0.1)


def test_narrow_clusters_are_not_lost_between_the_nodes_of_the_mesh():
    """On a coarse mesh the fit had a likelihood of +102 nats there, and of -468 by enumeration."""
    centres = np.stack([np.repeat([1, 0], 20), np.repeat([0, 1], 20)])
    rows, which = clusters(centres, [0.7, 0.3], 0.04, 1000)
    start = eq.low_rank_start(rows, 12, components=1, key=5)
    shares = np.bincount(which) / len(which)
    truth = 40 * (0.04 * np.log(0.04) + 0.96 * np.log(0.96)) + shares @ np.log(shares)
    found = eq.log_likelihood(start.network, rows).value
    assert start.likelihood == pytest.approx(found, abs=0.1)
    assert found > truth - 0.5


def test_every_cluster_has_its_weight(case):
    _, which, centres, start = case
    shares = np.bincount(which) / len(which)
    for draws in (eq.sample(start.network, eq.Exact(), chains=2000, key=1)["visible"], start.draws(2000, key=2)):
        found = np.bincount(nearest(draws, centres), minlength=len(centres)) / 2000
        # Five sigma of 2,000 draws, and 0.02 for what ten hidden neurons cannot do.
        assert (np.abs(found - shares) < 5 * np.sqrt(shares * (1 - shares) / 2000) + 0.02).all()


def test_neurons_beyond_the_fit_leave_the_clusters_their_weights():
    """Ten neurons with random couplings had changed the share of the larger cluster from 0.70 to 0.38."""
    centres = np.stack([np.arange(60) % 2, 1 - np.arange(60) % 2])
    rows, which = clusters(centres, [0.3, 0.7], 0.1, 2000)
    start = eq.low_rank_start(rows, 14, components=1, scale=0.1, key=2)
    draws = eq.sample(start.network, eq.Exact(), chains=4000, key=1)["visible"]
    # Five sigma of 4,000 draws.
    assert abs(nearest(draws, centres).mean() - which.mean()) < 5 * np.sqrt(0.21 / 4000)


def test_it_explains_the_data_better_than_independent_neurons(case):
    rows, which, _, start = case
    alone = eq.independent_site_biases(eq.rbm(60, 1, scale=0.0, key=0), rows)
    # What generated the data: flips of a tenth around the centre, and the choice of it.
    shares = np.bincount(which) / len(which)
    truth = 60 * (0.1 * np.log(0.1) + 0.9 * np.log(0.9)) + shares @ np.log(shares)
    assert start.likelihood > eq.log_likelihood(alone, rows).value + 5
    assert start.likelihood > truth - 1.5


def test_draws_are_those_of_the_machine(case):
    """A neuron by neuron comparison of draws without a chain with exact ones."""
    _, _, _, start = case
    exact = np.asarray(eq.sample(start.network, eq.Exact(), chains=4000, key=1)["visible"], np.float64)
    drawn = np.asarray(start.draws(4000, key=3), np.float64)
    # Means of 4,000 draws of each kind, five sigma, and the saddle point's error.
    assert np.abs(exact.mean(0) - drawn.mean(0)).max() < 5 * np.sqrt(0.5 / 4000) + 0.02
    assert np.abs(np.cov(exact.T) - np.cov(drawn.T)).max() < 0.06


def test_components_are_those_whose_linear_instability_is_no_noise(case):
    """Decelle 2017: from small couplings a direction grows if its variance is above that of a neuron."""
    rows, _, _, start = case
    variances = np.linalg.eigvalsh(np.cov(rows.T))[::-1] / np.var(rows, axis=0).mean()
    found = eq.theory.linear_flow(np.diag(variances), 1e-3 * np.eye(60), [0.0, 1.0]).strengths
    grows = found[1] > found[0]
    np.testing.assert_array_equal(grows, variances > 1)
    # Two thousand examples of sixty independent neurons have variances up to 1.38 by chance (Marchenko and Pastur).
    default = eq.low_rank_start(rows, 10, scale=0.0, key=0)
    assert len(default.directions) == (grows & (variances > (1 + np.sqrt(60 / 2000)) ** 2)).sum()
    np.testing.assert_allclose(
        np.abs(default.directions @ start.directions.T), np.eye(len(start.directions)), atol=1e-6
    )


def test_spins_are_learned_as_well():
    rows, _ = clusters(LINE, [0.3, 0.7], 0.1, 1000)
    start = eq.low_rank_start(2 * rows - 1, 6, visible=eq.Spin(), hidden=eq.Spin(), components=1, scale=0.0, key=0)
    assert start.log_partition == pytest.approx(eq.log_partition(start.network).value, abs=0.1)


def test_sites_of_several_states_start_so_too():
    """Two clusters of sequences of forty letters: ln Z, shares and draws against enumeration."""
    rng = np.random.default_rng(0)
    centres, which = rng.integers(0, 3, (2, 40)), rng.random(3000) < 0.7
    letters = np.where(rng.random((3000, 40)) < 0.15, rng.integers(0, 3, (3000, 40)), centres[which.astype(int)])
    rows, ends = eq.data.one_hot(letters, 3), eq.data.one_hot(centres, 3)
    for components in (1, 2):
        start = eq.low_rank_start(rows, 10, visible=eq.Potts(3), components=components, scale=0.0, key=0)
        assert start.log_partition == pytest.approx(eq.log_partition(start.network).value, abs=0.1)
        assert start.likelihood == pytest.approx(eq.log_likelihood(start.network, rows).value, abs=0.1)
        for draws in (eq.sample(start.network, eq.Exact(), chains=4000, key=1)["visible"], start.draws(4000, key=2)):
            # Five sigma of 4,000 draws.
            assert abs(nearest(draws, ends).mean() - which.mean()) < 5 * np.sqrt(0.21 / 4000)


def test_what_does_not_fit_is_refused():
    rows = np.eye(6)
    with pytest.raises(ValueError, match=r"components: got 5; allowed: from 1 to 4"):
        eq.low_rank_start(rows, 3, components=5, key=0)
    with pytest.raises(ValueError, match=r"visible: got Gaussian units; allowed: sites of some states each"):
        eq.low_rank_start(rows, 3, visible=eq.Gaussian(), key=0)
    with pytest.raises(ValueError, match=r"visible: got OneHot units; allowed: sites of some states each"):
        eq.low_rank_start(rows, 3, visible=eq.OneHot(), key=0)
    with pytest.raises(ValueError, match=r"hidden: got Gaussian units; allowed: two-valued"):
        eq.low_rank_start(rows, 3, hidden=eq.Gaussian(), key=0)
    with pytest.raises(ValueError, match=r"data: got 6 neurons; allowed: a multiple of the 4 states"):
        eq.low_rank_start(rows, 3, visible=eq.Potts(4), key=0)
    with pytest.raises(ValueError, match=r"data: got 2 among the values"):
        eq.low_rank_start(2 * rows, 3, key=0)


def test_what_is_missing_is_summed_out_by_draws_with_weights():
    """The projections of a row and its probability, against the sum over all completions of it."""
    rng = np.random.default_rng(0)
    size, missing = 24, 8
    direction = np.linalg.qr(rng.normal(size=(size, 1)))[0].T
    base = 0.3 * rng.normal(size=size)
    for visible in (eq.Binary(), eq.Spin(), eq.Potts(3)):
        choices = np.asarray(visible.choices(size))
        row = choices[rng.integers(len(choices), size=size // choices.shape[1])].ravel().astype(float)
        sites = missing // choices.shape[1]
        row[: sites * choices.shape[1]] = np.nan
        mesh = mesh_over(visible, base, direction, np.array([[-1.0], [1.0]]))

        def added(points):
            return np.logaddexp(0, 1.5 * points - 0.4).sum(-1)

        generator = np.random.default_rng(1)
        known = Gaps.of(visible, np.stack([row] * 400), base, direction, generator)
        seen, logs = known.seen(mesh, added)
        ends = np.array(list(product(choices, repeat=sites))).reshape(len(choices) ** sites, -1)
        whole = np.concatenate([ends, np.broadcast_to(row[ends.shape[1] :], (len(ends), size - ends.shape[1]))], axis=1)
        weights = whole @ base + added(whole @ direction.T)
        log_z = np.logaddexp.reduce(mesh.log_weights + added(mesh.nodes))
        shares = np.exp(weights - np.logaddexp.reduce(weights))
        truth = shares @ (whole @ direction.T)
        spread = np.sqrt(shares @ (whole @ direction.T - truth) ** 2)
        found = seen.shares @ seen.points
        assert seen.shares.sum() == pytest.approx(1)
        # 400 times 8 draws: five standard errors, and as much for their weights.
        assert abs(found - truth) < 10 * spread / np.sqrt(3200)
        assert np.mean(logs) == pytest.approx(np.logaddexp.reduce(weights) - log_z, abs=0.02)


def test_a_start_from_incomplete_rows_is_that_of_whole_ones():
    rows, which = clusters(LINE, [0.3, 0.7], 0.1, 600)
    gaps = np.where(np.random.default_rng(5).random(rows.shape) < 0.3, np.nan, rows)
    others, _ = clusters(LINE, [0.3, 0.7], 0.1, 500, seed=9)
    options = {"components": 1, "scale": 0.0, "key": 0}
    whole, found = eq.low_rank_start(rows, 6, **options), eq.low_rank_start(gaps, 6, **options)
    filled = eq.low_rank_start(np.where(np.isnan(gaps), np.round(np.nanmean(gaps, axis=0)), gaps), 6, **options)
    likelihood = [eq.log_likelihood(start.network, others).value for start in (whole, found, filled)]
    assert likelihood[1] > likelihood[0] - 0.1  # a third of the entries is not there
    assert likelihood[2] < likelihood[0] - 2  # filling in makes entries certain that are not
    assert found.likelihood == pytest.approx(eq.log_likelihood(found.network, gaps).value, abs=0.1)
    draws = found.draws(4000, key=2)
    shares = np.bincount(which) / len(which)
    weights = np.bincount(nearest(draws, LINE), minlength=2) / 4000
    # Five sigma of 4,000 draws, and 0.02 for what six hidden neurons cannot do.
    assert (abs(weights - shares) < 5 * np.sqrt(shares * (1 - shares) / 4000) + 0.02).all()


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_the_mesh_reaches_clusters_of_which_little_is_known(share):
    """Sized by rows filled with means it did not, and the fit ran away to +298 and +2,091 nats."""
    centres = np.stack([np.zeros(200), np.ones(200)])
    rows, _ = clusters(centres, [0.3, 0.7], 0.05, 300)
    gaps = np.where(np.random.default_rng(6).random(rows.shape) < share, np.nan, rows)
    start = eq.low_rank_start(gaps, 4, components=1, scale=0.0, key=0)
    assert start.likelihood == pytest.approx(eq.log_likelihood(start.network, gaps).value, abs=0.1)
    # More than half of the way from independent neurons to what the rows were made by.
    alone = eq.independent_site_biases(eq.rbm(200, 1, scale=0.0, key=0), gaps)
    made = 200 * (0.05 * np.log(0.05) + 0.95 * np.log(0.95)) * (1 - share) + 0.3 * np.log(0.3) + 0.7 * np.log(0.7)
    assert start.likelihood > (eq.log_likelihood(alone, gaps).value + made) / 2


def test_gaps_do_not_make_components_of_noise():
    rows = np.random.default_rng(0).integers(0, 2, (300, 50)).astype(float)
    gaps = np.where(np.random.default_rng(1).random(rows.shape) < 0.5, np.nan, rows)
    assert len(eq.low_rank_start(gaps, 2, neurons=1, key=0).directions) == 1  # the least there is


def test_incomplete_data_of_which_nobody_knows_anything_are_refused():
    rows = np.array([[1.0, np.nan], [0.0, np.nan]])
    with pytest.raises(ValueError, match="nothing known in column 1"):
        eq.low_rank_start(rows, 2, key=0)


def test_rows_of_which_nothing_is_known_change_nothing():
    rows, _ = clusters(LINE, [0.3, 0.7], 0.1, 300)
    more = np.concatenate([rows, np.full((100, 60), np.nan)])
    alone, found = (eq.low_rank_start(data, 6, components=1, scale=0.0, key=0) for data in (rows, more))
    # A row without entries has probability one.
    assert found.likelihood * len(more) == pytest.approx(alone.likelihood * len(rows), rel=0.01)
    truth = eq.log_likelihood(alone.network, rows).value
    assert eq.log_likelihood(found.network, rows).value == pytest.approx(truth, abs=0.2)


def test_a_mesh_that_is_off_says_so():
    rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)  # six neurons that are never flipped
    with pytest.warns(UserWarning, match="the mesh is off: it gives .* nats"):
        eq.low_rank_start(rows, 4, components=1, key=0)


def test_a_root_comes_back_from_its_file_and_nothing_else_does(tmp_path):
    rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)
    root = eq.low_rank_start(rows, 4, components=1, key=0).root
    back = eq.load_root(eq.save_root(tmp_path / "root.safetensors", root))
    assert eqx.tree_equal(back, root)
    eq.save_network(tmp_path / "net.safetensors", root.network)
    with pytest.raises(files.CheckpointError, match="holds no root of a ladder"):
        eq.load_root(tmp_path / "net.safetensors")
    short = eqx.tree_at(lambda root: root.logs, root, root.logs[:-1])
    with pytest.raises(files.CheckpointError, match="logs of another shape"):
        eq.load_root(eq.save_root(tmp_path / "short.safetensors", short))
    with pytest.raises(ValueError, match=r"path: got .*allowed: a file that ends in .safetensors"):
        eq.save_root(tmp_path / "root.npz", root)
    with pytest.raises(ValueError, match="root: got Network"):
        eq.save_root(tmp_path / "root.safetensors", root.network)
