"""The associative memory keeps scikit-learn's promises and its own."""

import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import equilibria as eq
from equilibria.estimators import HopfieldMemory

PATTERNS = np.asarray(eq.data.random_patterns(6, 60, key=jax.random.key(0)))
CUES = np.asarray(eq.data.corrupt(PATTERNS, flips=0.1, key=jax.random.key(1)))


@parametrize_with_checks([HopfieldMemory()])
def test_the_check_suite_of_scikit_learn(estimator, check):
    check(estimator)


def test_damaged_patterns_are_recalled():
    memory = HopfieldMemory(random_state=0).fit(PATTERNS)
    np.testing.assert_array_equal(memory.predict(CUES), PATTERNS)
    assert memory.score(CUES) == memory.score(CUES, PATTERNS) == 1.0
    assert memory.score(CUES, PATTERNS[::-1]) == 0.0
    assert memory.score(np.sign(PATTERNS[:3].sum(0))[None]) == 0.0  # a mixture is none of them


def test_the_right_pattern_may_be_named_by_its_number():
    memory = HopfieldMemory(random_state=0).fit(PATTERNS)
    assert memory.score(CUES, np.arange(6)) == 1.0
    assert memory.score(CUES, np.arange(6)[::-1]) == 0.0


def test_real_patterns_are_cut_at_the_threshold():
    """Two-valued ones are not: there, 0 among -1 and +1 is what is not known."""
    real = PATTERNS * np.random.default_rng(0).uniform(0.1, 3, PATTERNS.shape) + 7
    memory = HopfieldMemory(binarize=7.0, random_state=0).fit(real)
    np.testing.assert_array_equal(memory.patterns_, PATTERNS)
    np.testing.assert_array_equal(memory.predict(CUES + 7), PATTERNS)


def test_too_many_patterns_are_said():
    many = np.asarray(eq.data.random_patterns(40, 60, key=jax.random.key(2)))
    with pytest.warns(UserWarning, match=r"40 patterns of 60 features are too many or too alike: \d+% .* sleep=1.0"):
        memory = HopfieldMemory(random_state=0).fit(many)
    assert memory.history_["stable"].item() < 0.95
    history = HopfieldMemory(random_state=0).partial_fit(PATTERNS[:2]).partial_fit(PATTERNS[2:]).history_
    assert history["patterns"].values.tolist() == [2, 6]
    assert history["stable"].values[0] == 1.0


def test_what_is_not_known_is_filled_in():
    cues = PATTERNS.copy()
    cues[:, :25] = 0
    np.testing.assert_array_equal(HopfieldMemory(random_state=0).fit(PATTERNS).predict(cues), PATTERNS)


def test_zeros_and_ones_come_back_as_zeros_and_ones():
    memory = HopfieldMemory(sleep=1.0, random_state=0).fit((PATTERNS + 1) / 2)
    np.testing.assert_array_equal(memory.predict((CUES + 1) / 2), (PATTERNS + 1) / 2)
    np.testing.assert_array_equal(memory.patterns_, PATTERNS)


def test_storing_bit_by_bit_is_storing_at_once():
    whole = HopfieldMemory(sleep=0.5, random_state=0).fit(PATTERNS)
    parts = HopfieldMemory(sleep=0.5, random_state=0).partial_fit(PATTERNS[:2]).partial_fit(PATTERNS[2:])
    np.testing.assert_array_equal(parts.network_.couplings[0].factors, whole.network_.couplings[0].factors)
    np.testing.assert_array_equal(parts.predict(CUES), whole.predict(CUES))


def test_it_can_be_cloned_and_pickled():
    memory = HopfieldMemory(sleep=np.inf, random_state=0).fit(PATTERNS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(memory)).predict(CUES), PATTERNS)
    assert clone(memory).get_params() == memory.get_params()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: HopfieldMemory(binarize=None).fit(PATTERNS * 0.5),
            r"X: got .*0.5 among the values; allowed: -1 and 1; real features",
        ),
        (
            lambda: HopfieldMemory().fit(PATTERNS).predict(CUES[:, :9]),
            r"X has 9 features, but HopfieldMemory is expecting 60",
        ),
        (lambda: HopfieldMemory().fit(PATTERNS).score(CUES, PATTERNS[:2]), r"y: got shape \(2, 60\)"),
        (lambda: HopfieldMemory().fit(PATTERNS).score(CUES, np.arange(6) + 1), r"y: got 1 to 6; allowed: patterns, or"),
        (lambda: HopfieldMemory(sleep=-1).fit(PATTERNS), r"sleep: got -1"),
        (lambda: HopfieldMemory().fit(np.full((2, 3), np.nan)), r"Input X contains NaN"),
        (
            lambda: HopfieldMemory().fit((PATTERNS + 1) / 2).partial_fit(PATTERNS),
            r"X: got -1 among the values",
        ),
    ],
)
def test_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()
