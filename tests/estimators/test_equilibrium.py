"""Equilibrium propagation through scikit-learn's own checks, and on data where it should do well."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from equilibria.estimators.equilibrium import EquilibriumClassifier, EquilibriumRegressor


@pytest.mark.slow  # every check has shapes of its own, which compile anew
@parametrize_with_checks([EquilibriumClassifier(), EquilibriumRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, test_size=0.3, random_state=0)


@pytest.mark.parametrize("recipe", ["equilibrium_propagation", "recurrent_backprop"])
def test_digits(digits, recipe):
    """540 test digits, of which a linear classifier gets about 96%."""
    X, X_test, y, y_test = digits
    model = EquilibriumClassifier((64,), recipe=recipe, max_iter=20, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.95
    probabilities = model.predict_proba(X_test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert probabilities[np.arange(len(y_test)), y_test].mean() > 0.85
    assert model.history_["cost"][-1] < 0.2 * model.history_["cost"][0]


def test_squared_error_has_no_probabilities(digits):
    X, X_test, y, y_test = digits
    model = EquilibriumClassifier((64,), loss="squared_error", max_iter=20, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.95
    assert not hasattr(model, "predict_proba")


def test_early_stopping_and_warm_start():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = EquilibriumClassifier((20,), early_stopping=True, n_iter_no_change=5, max_iter=300,
                                  validation_fraction=0.2, random_state=0).fit(X, y)  # fmt: skip
    assert model.n_iter_ < 300
    assert len(model.validation_scores_) == model.n_iter_ == model.history_.sizes["step"]
    assert int(np.argmax(model.validation_scores_)) == model.n_iter_ - 1 - 5  # the best, then five passes of patience
    assert model.score(X, y) > 0.85
    model.set_params(early_stopping=False, warm_start=True, max_iter=1, learning_rate=1e-6)
    before = np.asarray(model.network_.couplings[0].weights)
    after = np.asarray(model.fit(X, y).network_.couplings[0].weights)
    assert 0 < np.abs(after - before).max() < 1e-3  # Adam moves by at most its rate in each of nine steps


def test_another_kind_of_output_does_not_go_on_from_the_last():
    """A warm start keeps the network only where it is of the same kind."""
    X, y = make_moons(60, random_state=0)
    model = EquilibriumClassifier((4,), max_iter=1, warm_start=True, learning_rate=1e-6, random_state=0).fit(X, y)
    before = model.network_
    assert type(before.layers[-1].unit).__name__ == "Gaussian"
    after = model.set_params(loss="squared_error").fit(X, y).network_
    assert type(after.layers[-1].unit).__name__ == "Clipped"
    assert model.set_params(hidden_layer_sizes=(5,)).fit(X, y).network_.layers[1].size == 5


def test_passes_one_by_one_learn_and_keep_their_classes():
    X, y = make_moons(200, noise=0.1, random_state=0)
    model = EquilibriumClassifier((20,), random_state=0)
    scores = [model.partial_fit(X, y, classes=[0, 1, 2]).score(X, y) for _ in range(15)]
    assert scores[-1] > 0.8 > scores[0] - 0.3
    assert model.predict_proba(X).shape == (200, 3)
    assert model.n_iter_ == 15
    with pytest.raises(ValueError, match=r"y: got 7; allowed: the classes 0, 1, 2"):
        model.partial_fit(X, y + 7)
    targets = EquilibriumRegressor((20,), random_state=0)
    found = [targets.partial_fit(X, X[:, 0] + 5).score(X, X[:, 0] + 5) for _ in range(15)]
    assert found[-1] > 0.8


def test_a_row_of_weight_two_is_there_twice():
    X, y = make_moons(60, noise=0.1, random_state=0)
    weights = np.random.default_rng(0).integers(0, 3, 60)
    options = {"hidden_layer_sizes": (8,), "max_iter": 3, "random_state": 0}
    weighted = EquilibriumClassifier(**options).fit(X, y, sample_weight=weights)
    repeated = EquilibriumClassifier(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_weights_that_are_no_whole_numbers_decide_between_labels():
    """Every row is there with both labels; the one that counts nine times as much is learned, in a fit and in passes."""
    X, y = make_moons(60, noise=0.1, random_state=0)
    both, labels = np.concatenate([X, X]), np.concatenate([y, 1 - y])
    weights = np.repeat([0.1, 0.9], 60)
    model = EquilibriumClassifier((20,), max_iter=40, random_state=0).fit(both, labels, sample_weight=weights)
    assert model.score(X, 1 - y) > 0.8
    model = EquilibriumClassifier((20,), random_state=0)
    for _ in range(40):
        model.partial_fit(both, labels, sample_weight=weights)
    assert model.score(X, 1 - y) > 0.8


def test_a_bar_is_shown_to_those_who_ask(monkeypatch, capsys):
    monkeypatch.setattr("equilibria.progress._DELAY", 0.0)
    X, y = make_moons(60, noise=0.1, random_state=0)
    for kind in (EquilibriumClassifier, EquilibriumRegressor):
        kind((8,), max_iter=3, random_state=0).fit(X, y)
        assert capsys.readouterr().err == ""
        kind((8,), max_iter=3, random_state=0, verbose=1).fit(X, y)
        assert "training" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [EquilibriumClassifier, EquilibriumRegressor])
def test_the_log_tells_of_each_pass(kind, caplog):
    X, y = make_moons(60, noise=0.1, random_state=0)
    with caplog.at_level("INFO", "equilibria"):
        kind((8,), max_iter=3, batch_size=30, random_state=0).fit(X, y)
    told = [record.message for record in caplog.records]
    assert [message.partition(",")[0] for message in told] == [f"training: step {step}" for step in (2, 4, 6)]
    assert all("cost " in message for message in told)


@pytest.mark.parametrize("kind", [EquilibriumClassifier, EquilibriumRegressor])
def test_a_rate_that_is_too_high_is_said(kind):
    X, y = make_moons(100, noise=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"lower the learning rate.*was 1e\+06"):
        kind((8,), learning_rate=1e6, max_iter=5, random_state=0).fit(X, y)


def test_several_targets():
    X = np.random.default_rng(0).normal(size=(200, 3))
    Y = np.stack([X[:, 0] * 50 + 3, np.abs(X[:, 1])], axis=1)
    model = EquilibriumRegressor((40,), max_iter=100, random_state=0).fit(X, Y)
    assert model.predict(X).shape == (200, 2)
    assert model.score(X, Y) > 0.8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "magic"}, "recipe: got 'magic'; allowed: 'equilibrium_propagation'"),
        ({"loss": "hinge"}, "loss: got 'hinge'"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes: got 0"),
        ({"nudge": 0}, "nudge: got 0"),
        ({"loss": "squared_error", "nudge": 1.2}, "nudge: got -1.2; allowed: more than -1"),
        ({"max_iter": 0}, "max_iter: got 0"),
        ({"learning_rate": -1.0}, "learning_rate: got -1"),
        ({"learning_rate": "auto"}, "learning_rate: got 'auto'; allowed: numbers"),
        ({"input_dropout": 2}, "input_dropout: got 2"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        EquilibriumClassifier(**change).fit(np.eye(4), [0, 1, 0, 1])
