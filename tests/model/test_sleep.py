"""Rules that store patterns: Hebb, sleep, pseudo-inverse, examples; against the matrices they stand for."""

import re
import warnings

import jax
import numpy as np
import pytest

import equilibria as eq
import oracle
from equilibria.model.couplings.factored import slept

PATTERNS = np.asarray(eq.data.random_patterns(6, 30, key=jax.random.key(0)))
CORRELATED = np.asarray(eq.data.correlated_patterns(6, 30, 0.4, key=jax.random.key(1)))


def off_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


def coupling(patterns, kernel):
    return off_diagonal(patterns.T @ kernel @ patterns / patterns.shape[1])


def correlations(patterns):
    return patterns @ patterns.T / patterns.shape[1]


@pytest.mark.parametrize("patterns", [PATTERNS, CORRELATED], ids=["random", "correlated"])
@pytest.mark.parametrize("sleep", [0.0, 0.1, 1.0, 1e4])
def test_sleep_is_the_kernel_of_the_lecture(patterns, sleep):
    kernel = (1 + sleep) * np.linalg.inv(np.eye(6) + sleep * correlations(patterns))
    # Single precision of entries of order one.
    np.testing.assert_allclose(oracle.matrix(eq.hopfield(patterns, sleep=sleep)), coupling(patterns, kernel), atol=1e-6)


def test_infinite_sleep_is_the_pseudo_inverse_and_holds_every_pattern():
    network = eq.hopfield(CORRELATED, sleep=np.inf)
    projector = np.linalg.pinv(CORRELATED) @ CORRELATED
    np.testing.assert_allclose(oracle.matrix(network), off_diagonal(projector), atol=1e-6)
    # J xi = xi with the diagonal; without it the field is (1 - J_ii) xi_i, which has the sign of xi_i.
    fields = np.asarray(network.field({"neurons": CORRELATED}, "neurons"))
    np.testing.assert_allclose(fields, CORRELATED * (1 - np.diag(projector)), atol=1e-5)


def test_dependent_patterns_are_left_out_of_the_pseudo_inverse_with_a_warning():
    repeated = np.concatenate([PATTERNS, PATTERNS[:2]])
    with pytest.warns(UserWarning, match=re.escape("8 patterns are linearly dependent (rank 6)")):
        network = eq.hopfield(repeated, sleep=np.inf)
    np.testing.assert_allclose(oracle.matrix(network), oracle.matrix(eq.hopfield(PATTERNS, sleep=np.inf)), atol=1e-6)


@pytest.mark.parametrize(("nights", "rate"), [(1, 1.0), (20, 1.0), (7, 0.3)])
def test_nights_are_the_iteration_of_the_whole_matrix(nights, rate):
    matrix = PATTERNS.T @ PATTERNS / 30
    for night in range(1, nights + 1):
        matrix = matrix + rate / (1 + rate * night) * (matrix - matrix @ matrix)
    found = oracle.matrix(eq.dream(eq.hopfield(PATTERNS), nights, rate=rate))
    np.testing.assert_allclose(found, off_diagonal(matrix), atol=1e-6)


def test_short_nights_approach_the_closed_form_at_first_order():
    exact = oracle.matrix(eq.hopfield(PATTERNS, sleep=2.0))
    errors = [
        np.abs(oracle.matrix(eq.dream(eq.hopfield(PATTERNS), steps, rate=2.0 / steps)) - exact).max()
        for steps in (50, 100)
    ]
    assert errors[0] / errors[1] == pytest.approx(2.0, abs=0.1)  # Euler's error is proportional to the step


def largest(patterns):
    return np.linalg.eigvalsh(correlations(patterns)).max()


def test_a_diverging_iteration_is_refused_and_the_bound_is_sharp():
    patterns = np.asarray(eq.data.random_patterns(60, 60, key=jax.random.key(2)))
    bound = 1 / (largest(patterns) - 2)
    assert 0 < bound < 1
    with pytest.raises(ValueError, match=r"rate: got 1 with a coupling .* diverges; allowed: a rate below"):
        eq.dream(eq.hopfield(patterns), 3)
    with pytest.raises(ValueError, match="diverges"):
        eq.dream(eq.hopfield(patterns), 3, rate=1.001 * bound)
    calm = eq.dream(eq.hopfield(patterns), 2000, rate=0.999 * bound)
    assert np.linalg.eigvalsh(oracle.matrix(calm)).max() < 1.01  # every eigenvalue goes to 1, less the diagonal
    # What is refused does diverge: the same iteration on the largest eigenvalue alone.
    value = largest(patterns)
    for night in range(1, 2000):
        value += 1 / (1 + night) * (value - value**2)
        if value < -1e6:
            break
    assert value < -1e6


EXAMPLES = np.asarray(eq.data.blurred_examples(PATTERNS, 9, 0.7, key=jax.random.key(3)))


@pytest.mark.parametrize("sleep", [0.0, 1.5])
@pytest.mark.parametrize("supervised", [True, False])
def test_examples_give_the_couplings_of_the_lecture(supervised, sleep):
    means = EXAMPLES.mean(axis=1)
    scale = np.mean(means**2)
    whole = (
        (means.T @ means if supervised else np.einsum("kai,kaj->ij", EXAMPLES, EXAMPLES, dtype=float) / 9) / scale / 30
    )
    after = (1 + sleep) * whole @ np.linalg.inv(np.eye(30) + sleep * whole)
    found = oracle.matrix(eq.hopfield_from_examples(EXAMPLES, supervised=supervised, sleep=sleep))
    np.testing.assert_allclose(found, off_diagonal(after), atol=2e-6)


def test_perfect_examples_are_the_patterns():
    copies = np.repeat(PATTERNS[:, None], 4, axis=1)
    for supervised in (True, False):
        network = eq.hopfield_from_examples(copies, supervised=supervised)
        np.testing.assert_allclose(oracle.matrix(network), oracle.matrix(eq.hopfield(PATTERNS)), atol=1e-6)


def test_zeros_and_ones_are_taken_with_a_note():
    with pytest.warns(UserWarning, match="patterns: 0 and 1 are taken as -1 and"):
        network = eq.hopfield((PATTERNS + 1) / 2)
    np.testing.assert_array_equal(network.couplings[0].factors, PATTERNS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eq.hopfield(PATTERNS, sleep=-0.5), r"sleep: got -0.5; allowed: finite and >= 0"),
        (lambda: eq.hopfield(PATTERNS, sleep=np.nan), r"sleep: got nan"),
        (lambda: eq.hopfield(np.zeros((0, 5))), r"patterns: got shape \(0, 5\); allowed: shape \(patterns, neurons\)"),
        (lambda: eq.hopfield(PATTERNS * 0.5), r"patterns: got .*0.5 among the values"),
        (lambda: eq.hopfield_from_examples(PATTERNS), r"examples: got shape \(6, 30\); allowed: shape \(patterns, ex"),
        (lambda: eq.hopfield_from_examples([[[1, 1], [-1, -1]]]), r"examples: got examples that cancel"),
        (lambda: eq.dream(eq.hopfield(PATTERNS), 0), r"nights: got 0"),
        (lambda: eq.dream(eq.hopfield(PATTERNS), 1, rate=0), r"rate: got 0"),
        (lambda: eq.dream(eq.rbm(3, 2, key=0), 1), r"network: got couplings .*; allowed: a factored coupling"),
    ],
)
def test_refused_with_a_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("sleep", [3.0, np.inf])
def test_more_factors_than_neurons_sleep_by_the_smaller_matrix(sleep):
    """Forty examples of twelve neurons: the couplings are those of the 12 x 12 matrix, function by function of it."""
    rows = np.random.default_rng(4).normal(size=(40, 12))
    whole = rows.T @ rows / 12
    values, vectors = np.linalg.eigh(whole)
    gains = 1 / values if np.isinf(sleep) else (1 + sleep) / (1 + sleep * values)
    with warnings.catch_warnings():  # forty patterns in twelve dimensions are dependent, which is said
        warnings.simplefilter("ignore")
        found = slept(rows, sleep)
    assert found.shape == rows.shape
    np.testing.assert_allclose(found.T @ found / 12, (vectors * gains * values) @ vectors.T, atol=1e-9)
