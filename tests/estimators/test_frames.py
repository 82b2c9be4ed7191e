"""Frames of pandas and polars keep the names of their columns in the estimators."""

import numpy as np
import pandas as pd
import pytest

from equilibria.estimators import (
    RBM,
    BinarySynapseRBM,
    EquilibriumClassifier,
    EquilibriumRegressor,
    HopfieldMemory,
)

NAMES = ["age", "dose", "marker", "status"]
BITS = np.random.default_rng(0).integers(0, 2, (20, 4))


def frames():
    polars = pytest.importorskip("polars")
    return {"pandas": pd.DataFrame(BITS, columns=NAMES), "polars": polars.DataFrame(BITS, schema=NAMES)}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_names_are_kept_and_looked_at(kind):
    frame = frames()[kind]
    machine = RBM(2, batch_size=10, n_iter=1, random_state=0).fit(frame)
    assert machine.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(machine.transform(frame), machine.transform(frame[NAMES]))
    with pytest.raises(ValueError, match="feature names"):
        machine.transform(frame[NAMES[::-1]])
    out = machine.set_output(transform=kind).transform(frame)
    assert list(out.columns) == ["rbm0", "rbm1"]


@pytest.mark.parametrize("estimator", [RBM(2), HopfieldMemory(), BinarySynapseRBM(2), EquilibriumClassifier((2,))])
def test_a_cell_that_is_no_number_is_named(estimator):
    frame = pd.DataFrame(BITS, columns=NAMES)
    words = frame.assign(kind=pd.Categorical(["a", "b"] * 10))
    with pytest.raises(ValueError, match=r"X: got 'a' in row 1, column 'kind' of the frame; .*get_dummies"):
        estimator.fit(words, BITS[:, 0])
    missing = frame.astype(float)
    missing.iloc[2, 0] = np.nan
    with pytest.raises(ValueError, match=r"a missing cell in row 3, column 'age' of the frame; .* eq\.train sums out"):
        estimator.fit(missing, BITS[:, 0])
    with pytest.raises(ValueError, match=r"^Input X contains NaN; eq\.train sums out what is missing$"):
        estimator.fit(missing.to_numpy(), BITS[:, 0])
    with pytest.raises(ValueError, match=r"X: got 't\.csv'; .* eq\.data\.read_table\(file\)\.values"):
        estimator.fit("t.csv", BITS[:, 0])


def test_counts_are_not_taken_for_gaussian_features_in_silence():
    with pytest.warns(
        UserWarning, match="whole numbers from 0 to 7: taken as Gaussian features; visible='gaussian' says"
    ) as told:
        RBM(2, batch_size=10, n_iter=1, random_state=0).fit(7 * BITS)
    assert told[0].filename == __file__  # the line that the user wrote


@pytest.mark.parametrize(
    ("estimator", "numbers"),
    [
        (RBM(2, batch_size=10, n_iter=2), {"contrast"}),
        (BinarySynapseRBM(2, n_iter=2), {"bound"}),
        (EquilibriumClassifier((2,), max_iter=2), {"cost", "error"}),
        (EquilibriumRegressor((2,), max_iter=2), {"cost"}),
        (HopfieldMemory(sleep=1.0), {"patterns", "stable"}),
    ],
    ids=lambda given: type(given).__name__,
)
def test_every_estimator_tells_how_it_learned(estimator, numbers):
    history = estimator.fit(BITS, BITS[:, 0]).history_
    assert history.sizes["step"] >= 1
    assert numbers <= set(history)
    assert all(np.isfinite(history[name]).all() for name in numbers)
