"""Simulation against theory, on the same axes: the overlap with a stored pattern, N = 1000."""

import jax
import numpy as np
import pytest

import equilibria as eq
from equilibria.measure.storage import padded, recall

SIZE, CHAINS, ROWS = 1000, 50, 300
QUALITY, EXAMPLES = 0.7, 10
ENTROPY = eq.theory.dataset_entropy(QUALITY, EXAMPLES)


def measured(network, targets, temperature, seed):
    """Mean overlap over patterns with its error; all cases share the compiled loops of T = 0 and T > 0."""
    targets = targets[np.arange(CHAINS) % len(targets)]
    found = recall(padded(network, ROWS), targets, temperature=temperature, sweeps=20, key=seed)
    return float(found.mean()), float(found.std() / np.sqrt(min(CHAINS, len(targets))))


def agrees(found, error, theory):
    """Five standard errors over patterns, and 5/N for what the theory of infinite N leaves out."""
    assert abs(found - theory) < 5 * error + 5 / SIZE, (found, error, theory)


@pytest.mark.parametrize(
    ("load", "temperature", "sleep"),
    [
        (0.05, 0.0, 0.0),
        (0.1, 0.0, 0.0),
        (0.05, 0.2, 0.0),
        (0.1, 0.2, 0.0),
        (0.05, 0.4, 0.0),
        (0.02, 0.5, 0.0),
        (0.3, 0.0, 1.0),
        (0.2, 0.2, 1.0),
        (0.3, 0.15, 1.0),
        (0.3, 0.1, 10.0),
    ],
)
def test_overlap_of_stored_patterns(load, temperature, sleep):
    patterns = eq.data.random_patterns(round(load * SIZE), SIZE, key=jax.random.key(1))
    found, error = measured(eq.hopfield(patterns, sleep=sleep), patterns, temperature, seed=2)
    agrees(found, error, eq.theory.hopfield(load, temperature, sleep).m)


@pytest.mark.parametrize("supervised", [True, False], ids=["supervised", "unsupervised"])
@pytest.mark.parametrize(("load", "temperature"), [(0.01, 0.0), (0.03, 0.0), (0.03, 0.2)])
def test_overlap_of_archetypes_learned_from_examples(load, temperature, supervised):
    archetypes = eq.data.random_patterns(round(load * SIZE), SIZE, key=jax.random.key(3))
    examples = eq.data.blurred_examples(archetypes, EXAMPLES, QUALITY, key=jax.random.key(4))
    network = eq.hopfield_from_examples(examples, supervised=supervised)
    found, error = measured(network, archetypes, temperature, seed=5)
    options = {"entropy": ENTROPY, "examples": EXAMPLES, "supervised": supervised}
    agrees(found, error, eq.theory.hopfield_examples(load, temperature, **options).m)


def test_sleep_on_top_of_examples():
    load, sleep = 0.05, 1.0
    archetypes = eq.data.random_patterns(round(load * SIZE), SIZE, key=jax.random.key(6))
    examples = eq.data.blurred_examples(archetypes, EXAMPLES, QUALITY, key=jax.random.key(7))
    found, error = measured(eq.hopfield_from_examples(examples, sleep=sleep), archetypes, 0.0, seed=8)
    agrees(found, error, eq.theory.hopfield_examples(load, entropy=ENTROPY, examples=EXAMPLES, sleep=sleep).m)


def test_one_parallel_step_from_the_archetype():
    load = 0.1
    archetypes = eq.data.random_patterns(round(load * SIZE), SIZE, key=jax.random.key(9))
    examples = eq.data.blurred_examples(archetypes, EXAMPLES, QUALITY, key=jax.random.key(10))
    network = eq.hopfield_from_examples(examples)
    step = eq.equilibrate(network, eq.Sweeps(1, order="parallel"), archetypes, temperature=0.0)
    found = np.mean(np.asarray(step["neurons"] * archetypes), axis=-1)
    theory = eq.theory.hopfield_examples_step(load, entropy=ENTROPY, examples=EXAMPLES)
    agrees(found.mean(), found.std() / np.sqrt(len(found)), theory)


def test_a_wrong_theory_is_noticed():
    """The tolerance tells Hebb's rule from a short sleep, and a temperature from another."""
    patterns = eq.data.random_patterns(50, SIZE, key=jax.random.key(1))
    found, error = measured(eq.hopfield(patterns), patterns, 0.4, seed=2)
    for wrong in ({"temperature": 0.3}, {"temperature": 0.4, "sleep": 1.0}):
        with pytest.raises(AssertionError):
            agrees(found, error, eq.theory.hopfield(0.05, **wrong).m)


def test_above_the_capacity_patterns_are_lost_and_below_they_are_kept():
    """At 0.138 a network of finite size has a rounded edge, so the two loads stand well away from it."""
    recalled = eq.recall_at_load(SIZE, [0.11, 0.2], chains=20, sweeps=40, key=11)
    assert recalled.retrieved.values[0] > 0.8
    assert recalled.retrieved.values[1] < 0.2


def test_ten_thousand_neurons_never_form_their_matrix():
    """A cheap version of 100,000 neurons with 1,000 patterns: the matrix alone would take 400 MB here, 40 GB there."""
    patterns = eq.data.random_patterns(50, 10_000, key=jax.random.key(12))
    cues = eq.data.corrupt(patterns[:3], flips=0.2, key=jax.random.key(13))
    network = eq.hopfield(patterns, sleep=1.0)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(network)) < 3e6
    found = eq.retrieve(network, patterns, cues, order="parallel")
    np.testing.assert_array_equal(found.pattern, [0, 1, 2])
    np.testing.assert_array_equal(found.overlap, 1)  # a sum of whole numbers below 2^24: exact on any processor
