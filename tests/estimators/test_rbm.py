"""The scikit-learn side of restricted Boltzmann machines."""

import warnings
from dataclasses import fields
from typing import get_args

import jax
import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import equilibria as eq
from equilibria.app.options import Rbm
from equilibria.estimators import RBM
from equilibria.learn.names import LikelihoodRecipe
from equilibria.learn.opening import natural_rate
from equilibria.learn.recipes import LIKELIHOOD, likelihood_recipe
from equilibria.measure.verdict import independent_sites

WORDS = np.random.default_rng(0).choice([0.0, 1.0], (40, 5), p=[0.3, 0.7]) * [1, 1, 0, 1, 1]

TWO = np.tile([[1.0, 1, 1, 0, 0], [0, 0, 0, 1, 1]], (20, 1))


@pytest.mark.slow  # every check has shapes of its own, which compile anew
@parametrize_with_checks([RBM()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_digits_classified_at_least_as_well_as_with_bernoulli_rbm():
    """The same features, sizes, passes and split for both; grey pixels as probabilities."""
    pixels, labels = load_digits(return_X_y=True)
    split = train_test_split(pixels / 16, labels, test_size=0.3, random_state=0)
    common = {"n_components": 100, "n_iter": 40, "batch_size": 10, "learning_rate": 0.1, "random_state": 0}
    accuracies = {}
    for name, features in (
        ("ours", RBM(**common)),
        ("theirs", BernoulliRBM(**common)),
    ):
        model = make_pipeline(features, LogisticRegression(max_iter=500)).fit(split[0], split[2])
        accuracies[name] = model.score(split[1], split[3])
    assert accuracies["ours"] >= accuracies["theirs"]
    assert accuracies["ours"] > 0.9


def test_scores_are_log_likelihoods():
    """The exact sum over all 32 words is one, and learning raises the mean."""
    data = TWO
    before, after = (
        RBM(n_components=3, n_iter=n, batch_size=10, learning_rate=0.3, random_state=1).fit(data) for n in (1, 100)
    )
    words = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    assert np.exp(after.score_samples(words)).sum() == pytest.approx(1, abs=1e-5)
    assert before.score(data) < -3.0  # independent neurons with a mean of 1/2: 5 ln 2 = 3.47
    assert after.score(data) > -1.5  # ln 2 = 0.69 at best
    assert after.score(data) == pytest.approx(after.score_samples(data).mean())


def test_gaussian_scores_are_densities_of_the_features_as_given():
    """The density integrates to one in the units of the data: one feature, on a grid."""
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(10, 0.5, (100, 1)), rng.normal(14, 0.5, (100, 1))])
    model = RBM(n_components=2, n_iter=20, batch_size=10, learning_rate=0.02, random_state=0).fit(values)
    assert type(model.network_.layers[0].unit).__name__ == "Gaussian"
    grid = np.linspace(-10, 40, 4001)[:, None]
    assert np.trapezoid(np.exp(model.score_samples(grid)), grid[:, 0]) == pytest.approx(1, abs=1e-4)


def test_few_gaussian_features_with_many_hidden_neurons_have_a_score():
    """The side that can be enumerated is the hidden one, and has too many states: ln Z is annealed."""
    values = np.random.default_rng(3).normal(5, 2, (40, 3))
    model = RBM(n_components=60, n_iter=1, random_state=0).fit(values)
    assert model.log_partition_.effective > 50
    # A machine whose couplings are still small is a normal law of the features, each with its own width.
    alone = -0.5 * np.log(2 * np.pi * np.e) - np.log(values.std(0))
    assert model.score(values) == pytest.approx(alone.sum(), abs=0.3)


def test_kinds_of_features_are_recognised():
    kinds = {"Binary": WORDS, "Spin": 2 * WORDS - 1, "Gaussian": 3 * WORDS}
    for kind, values in kinds.items():
        model = RBM(n_components=3, n_iter=1, random_state=0).fit(values)
        assert type(model.network_.layers[0].unit).__name__ == kind
        draws = model.sample(4, steps=10)
        assert draws.shape == (4, 5)
        assert np.isfinite(model.transform(values)).all()


def test_draws_do_not_repeat_and_fits_do():
    first, second = (RBM(n_components=3, n_iter=1, random_state=3).fit(WORDS) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)
    draws = [first.sample(20, steps=10) for _ in range(2)]
    assert (draws[0] != draws[1]).any()
    np.testing.assert_array_equal(draws[0], second.sample(20, steps=10))


def test_sparse_matrices_and_constant_features():
    dense = RBM(n_components=3, n_iter=2, random_state=0).fit(WORDS)
    thin = RBM(n_components=3, n_iter=2, random_state=0).fit(sparse.csr_matrix(WORDS))
    np.testing.assert_array_equal(dense.components_, thin.components_)
    np.testing.assert_array_equal(dense.transform(WORDS), thin.transform(sparse.csc_matrix(WORDS)))
    constant = RBM(n_components=2, n_iter=2, random_state=0).fit(np.full((9, 3), 4.2))
    assert np.isfinite(constant.components_).all()
    assert np.isfinite(constant.score_samples(np.full((2, 3), 4.2))).all()
    alone = RBM(n_components=2, n_iter=2, random_state=0).fit(WORDS[:1])
    assert np.isfinite(alone.score(WORDS[:1]))


def test_partial_fit_learns_and_goes_on():
    model = RBM(n_components=3, batch_size=20, learning_rate=0.5, random_state=0)
    scores = []
    for _ in range(45):
        model.partial_fit(TWO)
        scores.append(model.score(TWO))
    assert scores[-1] > scores[0] + 0.8


def test_a_pass_goes_on_with_the_chains_of_the_last():
    """The same as the one loop gives when it is handed what it left; another recipe has chains of its own."""
    model = RBM(n_components=3, batch_size=20, learning_rate=0.5, n_iter=60, random_state=0).fit(TWO)
    first, chains = model.network_, model._chains["pcd"]
    model.partial_fit(TWO)
    keys = jax.random.fold_in(model._key(2), 1)
    options = {"epochs": 1, "batch_size": 20, "learning_rate": 0.5, "probabilities": True, "key": keys}
    run = eq.train(first, TWO.astype(np.float32), eq.pcd(1, chains=100), carry=chains, **options)
    np.testing.assert_array_equal(model.components_, np.asarray(run.network.couplings[0].weights, np.float64).T)
    fresh = eq.train(first, TWO.astype(np.float32), eq.pcd(1, chains=100), **options)
    assert (model.components_ != np.asarray(fresh.network.couplings[0].weights).T).any()
    for recipe in ("cd", "tap", "pcd"):
        model.set_params(recipe=recipe).partial_fit(TWO)
    assert set(model._chains) == {"cd", "tap", "pcd"}


def test_every_recipe_is_known_by_its_name():
    assert set(get_args(LikelihoodRecipe)) == set(LIKELIHOOD)
    for recipe in LIKELIHOOD:
        model = RBM(n_components=2, recipe=recipe, n_iter=1, batch_size=40, random_state=0).fit(WORDS)
        assert np.isfinite(model.components_).all()


def test_hidden_values_give_features_back():
    model = RBM(n_components=8, n_iter=1000, batch_size=10, learning_rate=0.5, random_state=0).fit(
        np.repeat(np.eye(4), 10, axis=0)
    )
    back = model.inverse_transform(model.transform(np.eye(4)))
    assert (back.argmax(1) == np.arange(4)).all()


CLUSTERS = np.repeat(np.random.default_rng(1).choice([0.0, 1.0], (3, 20)), 30, axis=0)


def test_the_rate_follows_from_the_data_and_is_said():
    model = RBM(n_components=3, n_iter=200, random_state=0).fit(CLUSTERS)
    assert model.history_.attrs["learning_rate"] == pytest.approx(natural_rate(model.network_, {"visible": CLUSTERS}))
    assert model.verdict_.complaints == ()
    assert model.verdict_.machine.value > model.verdict_.independent
    assert model.score(CLUSTERS) == pytest.approx(model.verdict_.machine.value, abs=1e-3)


def test_a_machine_that_is_worse_than_independent_features_says_so():
    with pytest.warns(UserWarning, match=r"worse than independent neurons: .* lower the learning rate.* was 50"):
        RBM(n_components=3, n_iter=20, learning_rate=50.0, random_state=0).fit(CLUSTERS)


def test_a_search_over_sizes_finds_the_clusters():
    """Six clusters take three hidden neurons at least: two know four states. Scores of both sizes are log-likelihoods."""
    rng = np.random.default_rng(5)
    centres, chosen = rng.random((6, 40)) < 0.5, rng.integers(0, 6, 400)
    rows = (centres[chosen] ^ (rng.random((400, 40)) < 0.05)).astype(float)
    search = GridSearchCV(RBM(random_state=0), {"n_components": [2, 64]}, cv=2, refit=False).fit(rows)
    small, large = search.cv_results_["mean_test_score"]
    assert large > small + 2  # by far more than the error of ln Z
    learned, held = next(KFold(2).split(rows))
    for place, (size, how) in enumerate(
        {2: {"method": "exact"}, 64: {"method": "ais", "steps": 10_000, "key": 7}}.items()
    ):
        network = RBM(size, random_state=0).fit(rows[learned]).network_
        found = eq.log_likelihood(network, rows[held], **how)  # ln Z by another method, or with ten times as many steps
        # Two scores that are off by less than half of what is between them are in the right order.
        assert abs(search.cv_results_["split0_test_score"][place] - found.value) < (large - small) / 2
        assert found.value > independent_sites(network, rows[held])


def test_a_search_does_not_choose_the_smallest_machine_for_want_of_learning():
    """120 bits in six clusters: with high rates and few chains, more hidden neurons learned less."""
    rng = np.random.default_rng(0)
    centres, chosen = rng.random((6, 120)) < 0.5, rng.integers(0, 6, 1000)
    rows = (centres[chosen] ^ (rng.random((1000, 120)) < 0.1)).astype(float)
    search = GridSearchCV(RBM(random_state=0), {"n_components": [4, 40]}, cv=2, refit=False).fit(rows)
    small, large = search.cv_results_["mean_test_score"]
    means = rows.mean(0)
    independent = (means * np.log(means) + (1 - means) * np.log(1 - means)).sum()
    assert search.best_params_ == {"n_components": 40}
    assert large > small > independent + 10  # nats of a row; what there is to know of them is 36 above independence


def test_the_command_line_learns_as_the_estimator_does():
    """What one default is shown to do on the panel of tables, the other does."""
    asked, params = {field.name: field.default for field in fields(Rbm)}, RBM().get_params()
    for option, parameter in {
        "recipe": "recipe", "steps": "steps", "final_rate": "final_rate", "batch_size": "batch_size", "l1": "l1", "l2": "l2",
        "hidden_units": "hidden", "visible_units": "visible", "epochs": "n_iter",
    }.items():  # fmt: skip
        assert asked[option] == params[parameter]
    assert int(asked["hidden"]) == params["n_components"]
    assert (asked["learning_rate"], params["learning_rate"]) == (None, "auto")
    assert (asked["chains"], params["n_chains"]) == (None, params["batch_size"])  # none: as many as examples in a batch
    assert params["centered_gradient"] is likelihood_recipe("pcd", steps=1).centered_gradient


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        ({"visible": "binary"}, 3 * WORDS, r"X: got 3 among the values; allowed: values in \[0, 1\]"),
        ({"visible": "potts"}, WORDS, r"visible: got 'potts'"),
        ({"hidden": "onehot"}, WORDS, r"hidden: got 'onehot'"),
        ({"recipe": "adam"}, WORDS, r"recipe: got 'adam'"),
        ({"n_components": 0}, WORDS, r"n_components: got 0"),
        ({"learning_rate": -1.0}, WORDS, r"learning_rate: got -1"),
        ({"n_iter": 0}, WORDS, r"n_iter: got 0"),
    ],
)
def test_bad_input(options, values, message):
    with pytest.raises(ValueError, match=message):
        RBM(**{"n_components": 3, "n_iter": 1, "random_state": 0, **options}).fit(values)


def test_whole_weights_are_repetitions_and_others_shares():
    options = {"n_components": 3, "n_iter": 5, "batch_size": 10, "random_state": 0}
    counts = np.arange(40) % 3
    weighted, repeated = RBM(**options), RBM(**options)
    weighted.fit(WORDS, sample_weight=counts)
    repeated.fit(np.repeat(WORDS, counts, axis=0))
    np.testing.assert_array_equal(weighted.components_, repeated.components_)
    # Only one of the two words counts: the machine knows no other.
    shares = np.where(np.arange(40) % 2, 0.0, 0.25)
    one = RBM(n_components=3, n_iter=60, batch_size=10, random_state=0).fit(TWO, sample_weight=shares)
    assert one.score(TWO[:1]) > -0.5 > one.score(TWO[1:2])
    more = RBM(**options).partial_fit(TWO, sample_weight=shares).partial_fit(TWO, sample_weight=shares)
    assert more.score(TWO[:1]) > more.score(TWO[1:2])
    with pytest.raises(ValueError, match=r"at least one non-zero|no weight above zero"):
        RBM(**options).fit(TWO, sample_weight=np.zeros(40))


@pytest.mark.parametrize("hidden", ["relu", "double_relu"])
def test_rectified_hidden_neurons(hidden):
    found = RBM(n_components=3, hidden=hidden, n_iter=60, batch_size=10, random_state=0).fit(TWO)
    features = found.transform(TWO)
    assert (features >= 0).all() or hidden == "double_relu"
    words = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    assert np.exp(found.score_samples(words)).sum() == pytest.approx(1, abs=0.05)
    assert found.score(TWO) > found.verdict_.independent + 1
    with pytest.raises(ValueError, match="hidden: got 'rectified'"):
        RBM(hidden="rectified").fit(TWO)


def test_chains_that_do_not_mix_are_told_without_being_asked_for():
    rng = np.random.default_rng(0)
    centres = np.stack([np.r_[np.ones(20), np.zeros(20)], np.r_[np.zeros(20), np.ones(20)]])
    rows = np.abs(centres[(rng.random(600) < 0.3).astype(int)] - (rng.random((600, 40)) < 0.03))
    with pytest.warns(UserWarning, match="not mixed: chains .* after 400 sweeps"):
        RBM(n_components=8, batch_size=60, n_iter=60, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RBM(n_components=8, batch_size=60, n_iter=60, random_state=0).fit(rng.integers(0, 2, (600, 40)))
