"""The fast generator: statistics of its bits, and the samplers with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import equilibria as eq
import machines
import oracle
from compilations import compilations
from equilibria import files
from equilibria import random as own
from equilibria.random import _hashed, as_key, fold_in, key, split, split_array

COUNT = 2**18
KEYS = [key(0), key(1), jax.random.fold_in(key(0), 1), jax.random.split(key(0))[1]]
# Each test looks at some thousand numbers at most; a p-value below this happens by chance once in a million tests.
RISK = 1e-8
bits_of = jax.jit(lambda key: jax.random.bits(key, (COUNT,), jnp.uint32))


def bits(key):
    return np.asarray(bits_of(key))


def normal(scores):
    """Whether independent standard normal scores are as small as they should be, all of them."""
    scores = np.asarray(scores)
    return np.abs(scores).max() < -stats.norm.ppf(RISK / scores.size)


@pytest.mark.parametrize("index", range(len(KEYS)))
def test_numbers_are_uniform(index):
    """Chi-square of the top 16 bits and of the low 16 bits: a 32-bit generator often fails in only one of them."""
    stream = bits(KEYS[index])
    for part in (stream >> 16, stream & 0xFFFF):
        counts = np.bincount(part, minlength=2**16)
        assert stats.chisquare(counts).pvalue > RISK
    uniform = np.asarray(jax.random.uniform(KEYS[index], (COUNT,)))
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > RISK


@pytest.mark.parametrize("index", range(len(KEYS)))
def test_each_bit_is_balanced_and_independent_of_the_others(index):
    planes = np.unpackbits(bits(KEYS[index]).view(np.uint8).reshape(-1, 4), axis=1).astype(np.float32) * 2 - 1
    assert normal(planes.mean(0) * np.sqrt(COUNT))
    pairs = planes.T @ planes / np.sqrt(COUNT)
    assert normal(pairs[np.triu_indices(32, 1)])


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 16, 64, 500, 784, 1024, 2**16])
def test_neighbours_in_the_stream_are_independent(lag):
    """Serial tests at lags that chains and layers have: chains are rows, so one lag is a neuron, another a chain."""
    for stream in map(bits, KEYS[::2]):
        first, second = stream[:-lag], stream[lag:]
        scores = [
            _correlation(first, second),
            _correlation(first & 0xFFFF, second & 0xFFFF),
            _correlation(first, second & 0xFFFF),
        ]
        pairs = np.bincount((first >> 25).astype(int) * 128 + (second >> 25), minlength=2**14)
        assert stats.chisquare(pairs).pvalue > RISK
        assert normal(scores)


def _correlation(first, second):
    """The correlation times the root of the count: a standard normal score if the two are independent."""
    first, second = (values.astype(np.float64) for values in (first, second))
    return np.corrcoef(first, second)[0, 1] * np.sqrt(len(first))


def test_keys_give_independent_streams():
    """Steps, layers and seeds are keys that differ in one number; 32 of each kind, all pairs."""
    size = 2**16
    families = [
        [key(seed) for seed in range(32)],
        [jax.random.fold_in(key(7), step) for step in range(32)],
        list(jax.random.split(key(7), 32)),
    ]
    keys = [here for family in families for here in family]
    streams = np.stack([bits(here)[:size] for here in keys]).astype(np.float64)
    streams = (streams - streams.mean(1, keepdims=True)) / streams.std(1, keepdims=True)
    scores = streams @ streams.T / np.sqrt(size)
    assert normal(scores[np.triu_indices(len(keys), 1)])
    assert len(np.unique(streams[:, :1000])) > 0.999 * len(keys) * 1000


def test_one_bit_of_the_key_or_the_counter_changes_half_of_the_bits():
    """Avalanche, for every bit of the key and every bit of the counter."""
    draws = 2**14
    data = np.random.default_rng(0).integers(0, 2**32, (draws, 2), dtype=np.uint32)
    counter = np.random.default_rng(1).integers(0, 2**32, draws, dtype=np.uint32)
    words = [data[:, 0], data[:, 1], counter]
    plain = np.asarray(_hashed(*map(jnp.asarray, words)))
    scores = []
    for place in range(3):
        for bit in range(32):
            changed = [word ^ np.uint32(1 << bit) if here == place else word for here, word in enumerate(words)]
            flips = plain ^ np.asarray(_hashed(*map(jnp.asarray, changed)))
            frequencies = np.unpackbits(flips.view(np.uint8).reshape(-1, 4), axis=1).mean(0)
            scores.append(np.abs(frequencies - 0.5))
    # Four rounds do not make a perfect hash: a bias of 2% in one bit is far below what any sampler here can feel.
    assert np.max(scores) < 0.02 + 5 * 0.5 / np.sqrt(draws)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("machine", ["rbm binary", "rbm spin-binary", "layered", "dense"])
def test_samplers_with_it_have_the_exact_law(machine, temperature):
    network = machines.DISCRETE[machine]
    draws = eq.sample(network, eq.Sweeps(60), chains=10_000, temperature=temperature, key=key(11))
    exact = oracle.enumerate_states(network, temperature).probabilities
    found = oracle.frequencies(network, draws)
    assert np.abs(found - exact).sum() / 2 < oracle.total_variation_bound(exact, 10_000)


def test_normal_numbers_and_permutations_come_from_it():
    draws = np.asarray(jax.random.normal(key(3), (COUNT,)))
    assert stats.kstest(draws, "norm").pvalue > RISK
    assert sorted(np.asarray(jax.random.permutation(key(3), 1000))) == list(range(1000))


def test_every_width_of_integer():
    with jax.enable_x64(True):
        wide = np.asarray(jax.random.bits(key(0), (COUNT,), jnp.uint64))
    halves = np.stack([wide >> np.uint64(32), wide & np.uint64(0xFFFFFFFF)]).astype(np.float64)
    assert normal([_correlation(*halves)])
    for width in (8, 16):
        assert jax.random.bits(key(0), (5,), f"uint{width}").dtype == f"uint{width}"


def test_a_batch_of_keys_draws_what_each_key_draws():
    keys = jax.random.split(key(5), 3)
    together = jax.vmap(lambda here: jax.random.uniform(here, (4,)))(keys)
    apart = np.stack([jax.random.uniform(here, (4,)) for here in keys])
    np.testing.assert_array_equal(together, apart)


def test_keys_are_stored_with_their_generator(tmp_path):
    files.save(tmp_path, 0, {"fast": key(4), "plain": jax.random.key(4)})
    found = files.load(tmp_path).arrays
    assert (found["fast"] == key(4)) & (found["plain"] == jax.random.key(4))
    assert jax.random.uniform(found["fast"]) == jax.random.uniform(key(4))


def test_bad_seeds_are_refused():
    for bad in (-1, 0.5, "seed", True):
        with pytest.raises(ValueError, match=r"seed: got .*; allowed: a whole number >= 0"):
            key(bad)
    assert as_key(key(2)) == key(2)


@pytest.mark.parametrize("fast", [True, False])
def test_keys_by_numpy_are_those_of_jax(fast):
    key = eq.key(2**31 + 5, fast=fast)
    for count in (1, 2, 5):
        wanted = jax.random.split(key, count)
        assert (jnp.stack(split(key, count)) == wanted).all()
        assert (split_array(key, count) == wanted).all()
        assert (jax.jit(lambda key, count=count: split_array(key, count))(key) == wanted).all()
    for number in (0, 1, 2**32 - 1):
        assert fold_in(key, number) == jax.random.fold_in(key, number)
    for shape in ((), (7,), (3, 4, 5)):
        np.testing.assert_array_equal(own.bits(key, shape), jax.random.bits(key, shape))
    assert own.bits(key, (1000, 1000)) is None


def test_keys_of_the_fast_generator_are_split_and_folded_by_threefry():
    """As JAX's own does it; a fold is that of the inverted key."""
    data = jax.random.key_data(eq.key(3))
    plain = jax.random.wrap_key_data(data, impl="threefry2x32")
    inverted = jax.random.wrap_key_data(~data, impl="threefry2x32")
    for shape in ((2,), (3, 4)):
        found = jax.random.key_data(jax.random.split(eq.key(3), shape))
        np.testing.assert_array_equal(found, jax.random.key_data(jax.random.split(plain, shape)))
    for number in (0, 9, 2**32 - 1):
        found = jax.random.key_data(jax.random.fold_in(eq.key(3), number))
        np.testing.assert_array_equal(found, jax.random.key_data(jax.random.fold_in(inverted, number)))


def test_operations_on_keys_compile_nothing():
    def work(seed):
        first, second = split(as_key(seed))
        return fold_in(first, 3), split_array(second, 4), own.bits(first, (10, 10))

    with compilations() as found:
        work(17)
    assert found == []
