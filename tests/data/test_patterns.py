"""Every statistical bound is five standard deviations; seeds are fixed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equilibria.data import blurred_examples, correlated_patterns, corrupt, random_patterns
from equilibria.theory import dataset_entropy

KEY = jax.random.key(7)


@pytest.mark.parametrize("bias", [-1.0, -0.6, 0.0, 0.3, 1.0])
def test_random_patterns_have_the_bias(bias):
    patterns = random_patterns(50, 400, bias=bias, key=KEY)
    assert patterns.dtype == jnp.float32
    assert set(np.unique(patterns)) <= {-1.0, 1.0}
    # The mean of 20,000 signs; 1e-6 covers the float32 sum.
    assert abs(float(patterns.mean()) - bias) <= 5 * np.sqrt((1 - bias**2) / patterns.size) + 1e-6


def test_random_patterns_are_independent():
    patterns = np.asarray(random_patterns(30, 2000, key=KEY))
    overlaps = (patterns @ patterns.T / 2000)[np.triu_indices(30, 1)]
    # 435 overlaps of variance 1/N: their mean square is 1/N within 5 sqrt(2/435) of itself.
    assert np.mean(overlaps**2) * 2000 == pytest.approx(1, abs=5 * np.sqrt(2 / 435))


def test_the_key_decides():
    first, again, other = (random_patterns(2, 50, key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.7, 1.0])
def test_correlated_patterns_overlap_as_asked(correlation):
    patterns = np.asarray(correlated_patterns(4, 20_000, correlation, key=KEY))
    scatter = np.sqrt((1 - correlation**2) / 20_000)
    for first, second in itertools.combinations(patterns, 2):
        assert abs(first @ second / 20_000 - correlation) <= 5 * scatter
    # Neurons of different sites share nothing: the mean activity is that of N signs, at most as strong as one parent's.
    assert abs(patterns.mean()) <= 5 / np.sqrt(20_000)


SPINS = random_patterns(3, 60, key=KEY)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 100))
def test_corruption_is_exact_and_hits_no_neuron_twice(flips, masked, seed):
    masked *= 1 - flips
    agreement = np.asarray(corrupt(SPINS, flips=flips, masked=masked, key=jax.random.key(seed)) * SPINS)
    flipped = round(flips * 60)
    assert ((agreement == -1).sum(axis=-1) == flipped).all()
    # When both fractions round up and do not fit together the mask gives way.
    assert ((agreement == 0).sum(axis=-1) == min(round(masked * 60), 60 - flipped)).all()
    assert set(np.unique(agreement)) <= {-1.0, 0.0, 1.0}


def test_corruption_falls_on_every_neuron_alike_and_on_each_pattern_anew():
    patterns = random_patterns(4000, 20, key=KEY)
    agreement = np.asarray(corrupt(patterns, flips=0.25, masked=0.1, key=KEY) * patterns)
    for hit, rate in ((-1, 0.25), (0, 0.1)):
        scatter = np.sqrt(rate * (1 - rate) / 4000)
        assert np.abs((agreement == hit).mean(axis=0) - rate).max() <= 5 * scatter
    assert len(np.unique(agreement == -1, axis=0)) > 1000  # of 15,504 ways to flip 5 of 20


def test_no_corruption_is_no_change_for_one_pattern_or_many():
    assert (corrupt(SPINS, key=KEY) == SPINS).all()
    assert (corrupt(SPINS[0], flips=1.0, key=KEY) == -SPINS[0]).all()
    assert corrupt(SPINS[None], flips=0.5, key=KEY).shape == (1, 3, 60)


@pytest.mark.parametrize("quality", [0.0, 0.4, 0.9, 1.0])
def test_examples_have_the_quality_and_the_entropy(quality):
    archetypes = random_patterns(20, 500, key=jax.random.key(1))
    examples = blurred_examples(archetypes, 8, quality, key=KEY)
    assert examples.shape == (20, 8, 500)
    agreement = np.asarray(examples * archetypes[:, None], float)
    assert abs(agreement.mean() - quality) <= 5 * np.sqrt((1 - quality**2) / agreement.size)
    if quality:
        # E etabar^2 = r^2 (1 + rho), by the 10,000 independent neurons' own scatter.
        squares = agreement.mean(axis=1) ** 2
        expected = quality**2 * (1 + dataset_entropy(quality, 8))
        assert abs(squares.mean() - expected) <= 5 * squares.std() / np.sqrt(squares.size) + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_patterns(0, 5, key=KEY), "count: got 0"),
        (lambda: random_patterns(2, 5.0, key=KEY), "size: got 5.0"),
        (lambda: random_patterns(2, 5, bias=1.5, key=KEY), "bias: got 1.5"),
        (lambda: correlated_patterns(2, 5, -0.1, key=KEY), "correlation: got -0.1"),
        (lambda: correlated_patterns(0, 5, 0.1, key=KEY), "count: got 0"),
        (lambda: corrupt(SPINS, flips=-0.1, key=KEY), "flips: got -0.1"),
        (lambda: corrupt(SPINS, masked=float("nan"), key=KEY), "masked: got nan"),
        (lambda: corrupt(SPINS, flips=0.6, masked=0.6, key=KEY), r"flips \+ masked: got 1.2"),
        (lambda: corrupt([0.0, 1.0], key=KEY), "patterns: got the value 0.0"),
        (lambda: corrupt([1.0, np.nan], key=KEY), "patterns: got the value nan"),
        (lambda: corrupt(np.ones((2, 0)), key=KEY), r"patterns: got shape \(2, 0\)"),
        (lambda: corrupt(1.0, key=KEY), r"patterns: got shape \(\)"),
        (lambda: blurred_examples([[2.0]], 3, 0.5, key=KEY), "archetypes: got the value 2.0"),
        (lambda: blurred_examples(SPINS, 0, 0.5, key=KEY), "examples: got 0"),
        (lambda: blurred_examples(SPINS, 3, 1.1, key=KEY), "quality: got 1.1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}; allowed: "):
        call()
