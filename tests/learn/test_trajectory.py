"""Networks that a run keeps, the likelihood along them, and chains that climb with the network."""

import warnings

import jax
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import relax

RNG = np.random.default_rng(0)
CENTRES = RNG.integers(0, 2, (2, 12))
# Two clusters of 12 pixels with a tenth of them flipped.
ROWS = np.abs(CENTRES[RNG.integers(0, 2, 400)] - (RNG.random((400, 12)) < 0.1)).astype(np.float32)
START = eq.independent_site_biases(eq.rbm(12, 6, key=1), ROWS)
OPTIONS = {"batch_size": 100, "learning_rate": 0.2, "key": 3, "checkpoint_every": 100}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    found = eq.train(
        START, ROWS[:300], eq.pcd(5, chains=400), steps=400, checkpoint=folder, keep=0.8, validation=ROWS[300:],
        record=[100, 400], **OPTIONS,
    )  # fmt: skip
    return found, folder


def test_networks_are_kept_where_they_no_longer_exchange(run):
    found, folder = run
    kept = eq.Trajectory(folder)
    assert kept.steps[0] == 0
    assert 3 < len(kept) < 60
    assert kept[0].couplings[0].weights.shape == (12, 6)
    assert len(kept[1:3]) == 2
    how = eq.Tempered(300, ladder=kept)
    rates = np.asarray(eq.equilibrate(found.network, how, chains=300, key=1).info["exchange_rates"])
    assert rates.min() > 0.6  # kept before the rate fell below 0.8, which a look at 400 chains tells within 0.05


def test_the_likelihood_along_the_way_is_right(run):
    found, folder = run
    kept = eq.Trajectory(folder)
    for place in (0, len(kept) // 2, len(kept) - 1):
        truth = eq.log_partition(kept[place]).value
        assert abs(kept.log_partition[place] - truth) < 5 * kept.error[place] + 0.02
    last = found.history.isel(step=-1)
    error = float(last.log_partition_error)
    assert error < 0.3
    for name, rows in (("train", ROWS[:300]), ("validation", ROWS[300:])):
        truth = eq.log_likelihood(found.network, rows).value
        assert abs(float(last[f"{name}_log_likelihood"]) - truth) < 5 * error + 0.02


def test_keeping_changes_nothing_in_the_run_and_goes_on_with_it(run, tmp_path):
    found, folder = run
    plain = eq.train(START, ROWS[:300], eq.pcd(5, chains=400), steps=400, **OPTIONS)
    for first, second in zip(jax.tree.leaves(found.network), jax.tree.leaves(plain.network), strict=True):
        np.testing.assert_array_equal(first, second)
    options = {**OPTIONS, "checkpoint": tmp_path, "keep": 0.8}
    eq.train(START, ROWS[:300], eq.pcd(5, chains=400), steps=200, **options)
    again = eq.train(START, ROWS[:300], eq.pcd(5, chains=400), steps=400, resume=True, **options)
    for first, second in zip(jax.tree.leaves(found.network), jax.tree.leaves(again.network), strict=True):
        np.testing.assert_array_equal(first, second)
    early = [step for step in eq.Trajectory(folder).steps if step <= 200]
    assert list(eq.Trajectory(tmp_path).steps)[: len(early)] == early


def test_fewer_networks_are_chosen_by_what_is_measured(run):
    _, folder = run
    kept = eq.Trajectory(folder)
    assert 2 <= len(kept.chosen(0.2, key=0)) < len(kept)
    with pytest.raises(ValueError, match=r"most: got 500 rungs; allowed: at most the"):
        kept.chosen(0.2, most=500, key=0)


def test_more_rungs_than_kept_networks_are_refused_and_ends_that_do_not_overlap_told(run, tmp_path):
    folder = run[1]
    kept = eq.Trajectory(folder)
    names = sorted(path.name for path in folder.rglob("*"))
    given = f"rungs: got {len(kept) + 2} with a ladder of {len(kept)} networks; allowed: at most {len(kept) + 1}"
    with pytest.raises(ValueError, match=given):
        eq.Tempered(10, rungs=len(kept) + 2, ladder=kept)
    assert sorted(path.name for path in folder.rglob("*")) == names
    wide = np.repeat(ROWS, 8, axis=1)
    options = {**OPTIONS, "learning_rate": 0.5, "steps": 100, "keep": [0, 100], "checkpoint": tmp_path}
    eq.train(eq.rbm(96, 6, key=1), wide, eq.pcd(5, chains=100), **options)
    with pytest.raises(ValueError, match=r"networks: got networks 0 and 1, which exchange .* keep networks more often"):
        eq.Trajectory(tmp_path).chosen(key=0)


def test_what_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"folder: got .*; allowed: the folder of a run that kept networks"):
        eq.Trajectory(tmp_path)
    with pytest.raises(ValueError, match=r"keep: got 0.5, a share of exchanges; allowed: steps"):
        eq.train(START, ROWS, eq.cd(1), steps=2, checkpoint=tmp_path / "a", keep=0.5, key=0)
    with pytest.raises(ValueError, match=r"keep: got 0.5; allowed: None without a checkpoint"):
        eq.train(START, ROWS, eq.pcd(1), steps=2, keep=0.5, key=0)


def test_validation_that_nobody_would_look_at_is_refused(tmp_path):
    deep = eq.layered((12, 4, 3), units=eq.Binary(), key=0)
    cases = [
        (START, eq.pcd(1), {}, "data, and no keep; allowed: None without keep"),
        (START, eq.cd(1), {"keep": [0, 2]}, "data, with a recipe without persistent chains"),
        (START, eq.pcd(1), {"keep": [1, 2]}, "data, with steps in keep that leave out 0"),
        (deep, eq.pcd(1), {"keep": [0, 2]}, "data, with hidden layers that are coupled to one another"),
    ]
    for number, (network, recipe, options, told) in enumerate(cases):
        options = {**options, "checkpoint": tmp_path / str(number)}
        with pytest.raises(ValueError, match=f"validation: got {told}"):
            eq.train(network, ROWS, recipe, steps=2, validation=ROWS[:5], key=0, **options)
        assert not (tmp_path / str(number) / "trajectory").exists()


def test_likelihoods_along_a_run_sum_out_what_is_missing(tmp_path):
    gaps = np.where(RNG.random(ROWS.shape) < 0.1, np.nan, ROWS)
    options = {**OPTIONS, "keep": 0.8, "checkpoint": tmp_path, "record": [50], "validation": gaps[300:]}
    found = eq.train(START, gaps[:300], eq.pcd(5, chains=400), steps=50, **options)
    last = found.history.isel(step=-1)
    for name, rows in (("train", gaps[:300]), ("validation", gaps[300:])):
        truth = eq.log_likelihood(found.network, rows).value
        assert abs(float(last[f"{name}_log_likelihood"]) - truth) < 5 * float(last.log_partition_error) + 0.02


def test_examples_that_miss_too_much_are_left_out_aloud(tmp_path):
    wide = np.repeat(ROWS, 4, axis=1)
    gaps = wide.copy()
    gaps[::2, :40] = np.nan
    network = eq.rbm(48, 30, key=1)
    options = {**OPTIONS, "keep": 0.5, "checkpoint": tmp_path, "record": [2]}
    with pytest.warns(
        UserWarning, match=r"log-likelihood of the train data only of the 200 examples that miss nothing"
    ):
        found = eq.train(network, gaps, eq.pcd(1, chains=100), steps=2, **options)
    truth = eq.log_likelihood(found.network, wide[1::2], "ais", steps=300, reverse=False, key=0)
    last = found.history.isel(step=-1)
    error = np.hypot(truth.error, float(last.log_partition_error))
    assert abs(float(last.train_log_likelihood) - truth.value) < 5 * error + 0.02


def test_a_ladder_grows_with_its_network():
    recipe = eq.tempered(2, chains=300, along="training", rungs=6)
    run = eq.train(START, ROWS, recipe, steps=400, batch_size=100, learning_rate=0.2, key=3)
    rungs = run.carry["carried"].networks
    sizes = np.linalg.norm(np.asarray(rungs.couplings[0].weights), axis=(1, 2))
    assert (np.diff(sizes) <= 1e-6).all()  # from the newest to the first network, whose couplings are the weakest
    assert sizes[0] > 3 * sizes[-1]
    np.testing.assert_array_equal(rungs.couplings[0].weights[-1], START.couplings[0].weights)
    rates = run.history["exchange_rates"].values[-1]
    assert rates.min() > 0.2
    assert float(run.history["round_trips"][-1]) > 1
    # Both clusters are there in their proportions: 400 examples and 300 chains.
    side = lambda rows: np.mean(np.abs(rows - CENTRES[0]).sum(1) < np.abs(rows - CENTRES[1]).sum(1))  # noqa: E731
    draws = eq.sample(run.network, eq.Exact(), chains=2000, key=1)["visible"]
    assert side(np.asarray(draws)) == pytest.approx(side(ROWS), abs=0.12)


def test_climbing_chains_sample_the_network_they_are_at():
    network = machines.DISCRETE["rbm binary"]
    how = eq.Climbing(60, rungs=3)
    system = conditioned(network, (), 1.0)
    state = {layer.name: np.zeros((10_000, layer.size), np.float32) for layer in network.layers}
    carry = how.begin(conditioned(eq.Network(network.layers, [network.couplings[0].scaled(0.1)]), (), 1.0), state)
    rest = relax(how, system, jax.tree.map(jax.numpy.asarray, state), jax.random.key(0), carry)
    exact = oracle.enumerate_states(network).probabilities
    found = oracle.frequencies(network, rest.state)
    assert np.abs(found - exact).sum() / 2 < oracle.total_variation_bound(exact, 10_000)
    assert not np.array_equal(rest.carry.networks.couplings[0].weights[0], carry.networks.couplings[0].weights[0])


class Growing(eq.Rule):
    """A rule that changes the couplings by the same amount in every step, or by less and less."""

    slows: bool

    def begin(self, parameters, data, batch_size, key):
        return jax.numpy.zeros(())

    def step(self, parameters, batch, *, carry, index, key):
        size = 1 / (1 + carry) if self.slows else 1.0
        gradient = jax.tree.map(lambda leaf: -size * jax.numpy.ones_like(leaf), parameters)
        return eq.Step(gradient, carry + 1, {})

    def learned(self, parameters):
        return jax.tree.map(lambda leaf: True, parameters)


def grown(slows, **options):
    watch = eq.WatchMixing(**options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = eq.train(eq.rbm(12, 6, key=1), {"visible": ROWS}, Growing(slows), steps=256, callbacks=[watch], key=0,
                       record=[2**k for k in range(9)], learning_rate=0.001)  # fmt: skip
    return run, watch, [str(item.message) for item in caught]


def test_singular_values_that_only_grow_are_told():
    run, watch, told = grown(slows=False)
    assert run.stopped is None
    assert any("grows by the same amount in every update" in text for text in told)
    stopped, _, _ = grown(slows=False, stop=True)
    assert "grows by the same amount" in stopped.stopped
    _, watch, told = grown(slows=True)
    assert watch.found == {}
    assert told == []


def test_chains_that_remember_their_start_are_told():
    weights = np.full((12, 2), 1.5)
    layers = [eq.Layer("visible", eq.Spin(), np.full(12, 0.2)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    stuck = eq.Network(layers, [eq.Dense(("visible", "hidden"), weights)])
    watch = eq.WatchMixing(-np.ones((5, 12)), chains=50)
    with pytest.warns(UserWarning, match=r"energies of chains from noise and from data are .* deviations apart"):
        watch.record(1, stuck, {})
    watch = eq.WatchMixing(-np.ones((5, 12)), chains=50)
    watch.record(1, eq.Network(layers, [eq.Dense(("visible", "hidden"), 0.05 * weights)]), {})
    assert watch.found == {}


def test_clusters_of_one_energy_in_other_shares_are_told_by_projections():
    """Two clusters that mirror one another: chains from noise find both alike, chains from data keep nine to one."""
    pattern = np.where(np.arange(12) % 2, 1.0, -1.0)
    layers = [eq.Layer("visible", eq.Spin(), np.zeros(12)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    rng = np.random.default_rng(0)
    rows = pattern * np.where(rng.random((400, 1)) < 0.1, -1, 1) * np.where(rng.random((400, 12)) < 0.05, -1, 1)
    for scale, mixes in ((1.5, False), (0.05, True)):
        weights = scale * np.stack([pattern, pattern], axis=1)
        network = eq.Network(layers, [eq.Dense(("visible", "hidden"), weights)])
        watch = eq.WatchMixing(rows)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            watch.record(1, network, {})
        told = [str(item.message) for item in caught]
        assert len(told) == (not mixes)
        assert all(
            "projections on component 0 of the data of chains from noise and from data are" in text for text in told
        )


def test_data_that_vary_in_nothing_or_miss_something_everywhere_have_no_components():
    network = eq.rbm(4, 2, scale=0.01, key=0)
    for rows in (np.ones((3, 4)), np.array([[1.0, np.nan, 0.0, 1.0], [np.nan, 1.0, 0.0, 1.0]])):
        watch = eq.WatchMixing(rows, sweeps=20)
        watch.record(1, network, {})
        assert watch.found == {}


def test_chains_are_compared_from_an_update_on_and_with_grey_data():
    weights = np.full((12, 2), 4.0)
    layers = [eq.Layer("visible", eq.Binary(), np.full(12, -4.0)), eq.Layer("hidden", eq.Binary(), np.full(2, -32.0))]
    stuck = eq.Network(layers, [eq.Dense(("visible", "hidden"), weights)])
    told = []

    class Heard(eq.WatchMixing):
        def tell(self, complaint):
            told.append(complaint)

    watch = Heard(np.full((5, 12), 0.9), chains=50, first=64)
    watch.record(63, stuck, {})
    assert watch.found == {}
    watch.record(64, stuck, {})
    assert [text.startswith("step 64: energies of chains from noise and from data are") for text in told] == [True]
    with pytest.raises(ValueError, match="first: got 0"):
        eq.WatchMixing(first=0)
