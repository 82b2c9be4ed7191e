import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equilibria.data import planted_receptive_fields
from equilibria.data.planted import _hadamard, _is_known

KEY = jax.random.key(3)


def overlaps(fields):
    fields = np.asarray(fields, int)
    return fields @ fields.T


def reachable_by_search(count, size):
    """The overlaps N q of 2 to 4 fields, by trying all: the first is constant (a gauge), the rest form a clique."""
    others = np.array(list(itertools.product([-1, 1], repeat=size)))
    gram = others @ others.T
    found = set()
    for overlap in range(-size, size + 1):
        rows = others.sum(axis=1) == overlap
        close = (gram == overlap)[np.ix_(rows, rows)].astype(int)
        cliques = {2: rows.sum(), 3: close.sum(), 4: np.trace(close @ close @ close)}
        if cliques[count]:
            found.add(overlap)
    return found


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8])
def test_two_to_four_fields_are_found_whenever_they_exist(count, size):
    found = set()
    for overlap in range(-size, size + 1):
        try:
            fields = planted_receptive_fields(count, size, overlap / size, key=KEY)
        except ValueError:
            continue
        assert (overlaps(fields)[~np.eye(count, dtype=bool)] == overlap).all()
        found.add(overlap)
    assert found == reachable_by_search(count, size)


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 200), st.floats(-1, 1), st.integers(0, 2**31))
def test_overlaps_are_exact_or_the_nearest_are_named(count, size, correlation, seed):
    key = jax.random.key(seed)
    try:
        fields = planted_receptive_fields(count, size, correlation, key=key)
    except ValueError as error:
        named = [float(word) for word in str(error).partition("nearest ")[2].split() if word[-1].isdigit()]
        assert 1 <= len(named) <= 2
        correlation = min(named, key=lambda q: abs(q - correlation))
        correlation = round(correlation * size) / size  # the message has six digits
        fields = planted_receptive_fields(count, size, correlation, key=key)
    assert set(np.unique(fields)) <= {-1.0, 1.0}
    expected = np.full((count, count), round(size * correlation) if count > 1 else 0)
    np.fill_diagonal(expected, size)
    assert (overlaps(fields) == expected).all()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 10, 12, 20, 24])
def test_orthogonal_fields_of_the_papers_size(count):
    assert (overlaps(planted_receptive_fields(count, 100, key=KEY)) == 100 * np.eye(count)).all()


def test_orthogonal_fields_fill_a_whole_hadamard_matrix():
    assert (overlaps(planted_receptive_fields(24, 24, key=KEY)) == 24 * np.eye(24)).all()


def test_many_fields_may_be_close():
    # Nine fields of ten neurons at distance 2: only possible as a parent and one neuron each.
    fields = planted_receptive_fields(9, 10, 0.6, key=KEY)
    assert (overlaps(fields)[~np.eye(9, dtype=bool)] == 6).all()


@pytest.mark.parametrize("order", [order for order in range(1, 85) if _is_known(order)])
def test_hadamard_matrices(order):
    matrix = _hadamard(order)
    assert (np.abs(matrix) == 1).all()
    assert (matrix[:, 0] == 1).all()
    assert (matrix @ matrix.T == order * np.eye(order)).all()


def test_every_neuron_of_every_field_is_a_fair_coin():
    draws = np.array([planted_receptive_fields(3, 20, 0.2, key=jax.random.key(seed)) for seed in range(400)])
    assert np.abs(draws.mean(axis=0)).max() <= 5 / np.sqrt(400)  # five standard deviations of 400 signs
    # Where two fields agree is random as well: the mean over neurons is exactly q, each neuron scatters around it.
    agree = (draws[:, 0] * draws[:, 1]).mean(axis=0)
    assert np.abs(agree - 0.2).max() <= 5 * np.sqrt((1 - 0.2**2) / 400)


def test_four_fields_are_no_product_of_one_another():
    # 25 tiles, each with product +1 or -1 throughout: all alike by chance has probability 2^-24 per draw.
    products = [
        abs(np.prod(planted_receptive_fields(4, 100, key=jax.random.key(seed)), axis=0).mean()) for seed in range(20)
    ]
    assert max(products) < 1
    # sum of 25 signs / 25: mean square 1/25, over 20 draws within 5 sqrt(2/20) of itself.
    assert np.mean(np.square(products)) * 25 == pytest.approx(1, abs=5 * np.sqrt(2 / 20))


def test_the_key_decides():
    first, again, other = (planted_receptive_fields(2, 50, 0.2, key=jax.random.key(seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 99), r"correlation: got 0.0 with count=2 and size=99; allowed: the nearest are -0.010101 and 0.010101"),
        ((3, 100, -0.5), r"correlation: got -0.5 .* allowed: the nearest is -0.32"),
        ((2, 100, 1.5), "correlation: got 1.5; allowed: "),
        ((0, 100), "count: got 0; allowed: "),
        ((2, 0), "size: got 0; allowed: "),
    ],
)
def test_the_impossible_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        planted_receptive_fields(*arguments, key=KEY)


def test_a_float32_correlation_is_near_enough():
    fields = planted_receptive_fields(2, 100, np.float32(0.3), key=KEY)
    assert overlaps(fields)[0, 1] == 30
