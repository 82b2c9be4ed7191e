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
