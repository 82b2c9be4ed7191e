"""Random keys, and a generator whose numbers cost almost nothing beside a matrix product.

A sweep through a restricted Boltzmann machine draws as many random numbers as there are neurons, and JAX's default generator,
Threefry, takes about as long for that as both matrix products. The generator here hashes a key and a counter in a dozen
integer operations for each number, which the compiler fuses into the comparison that uses it: no random array is written.

Keys are seeded, split and folded by Threefry itself, so that different keys are as independent as JAX's own (and, unlike there,
`fold_in(key, 1)` is not `split(key)[1]`); only the stream of numbers of one key is new. That hash is four rounds of "xor
with a shifted copy, multiply by an odd constant", the mixing step of MurmurHash3 and its successors, with the two words of the
key brought in before each round. For each key it is a permutation of the 32-bit counters. It is made for simulation, not
for secrets.

A whole number given as a key means this generator; a key made by `jax.random.key` means JAX's.

Outside compiled code every operation on a key is a program that JAX compiles first, some 20 to 100 ms each. `split`, `fold_in`
and `bits` compute the same words in NumPy there, for keys of these two generators; inside compiled code, and for other
generators, they are JAX's own.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.random import define_prng_impl, threefry_prng_impl

from equilibria import check

# Odd multipliers with good avalanche: the pair found by search for the hash "lowbias32" (C. Wellons), the golden ratio,
# and the second prime of xxHash32.
_ROUNDS = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 0x9E3779B1), (15, 0x85EBCA77))
_MOST_BY_NUMPY = 2**18  # random numbers: beyond, what is saved of the compilation is lost in computing them


_LAST_SEED = 2**32 - 1  # JAX would cut a larger one short: 2**32 would be another name for 0


def _hashed(first: Any, second: Any, counter: Any) -> Any:
    """32 bits for each counter, from the two words of a key; in NumPy or in JAX."""
    mixed = counter
    for place, (shift, multiplier) in enumerate(_ROUNDS):
        mixed = mixed ^ (first if place % 2 == 0 else second)
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(multiplier)
    return mixed ^ (mixed >> np.uint32(16))


def _counters(shape: tuple[int, ...]) -> Array:
    """The number of each element, in an elementwise form that fuses with what uses it."""
    strides = np.cumprod([1, *shape[:0:-1]])[::-1] if shape else ()
    axes = (jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(s) for axis, s in enumerate(strides))
    return sum(axes, start=jnp.zeros(shape, jnp.uint32))


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    if math.prod(shape) > 2**32:
        check.refuse("shape", shape, "at most 2^32 random numbers from one key")
    first, second = key[0], key[1]
    low = _hashed(first, second, _counters(shape))
    if width <= 32:
        return low.astype(f"uint{width}")
    # The upper half is the stream of the key with its words exchanged and one of them inverted.
    high = _hashed(~second, first, _counters(shape))
    return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)


def _threefry(first: Any, second: Any, counter: Any) -> tuple[Any, Any]:
    """Two words for each counter, by Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw 2011); in NumPy or in JAX.

    JAX's own is a loop on a CPU, each of which costs the compiler as much as a small program. Keys are a few numbers: written
    out, their rounds are one small piece of code.
    """
    words = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    left, right = words[0] + 0 * counter, counter + words[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            left = left + right
            right = ((right << np.uint32(turn)) | (right >> np.uint32(32 - turn))) ^ left
        left = left + words[(group + 1) % 3]
        right = right + words[(group + 2) % 3] + np.uint32(group + 1)
    return left, right


def _parted(key: Array, shape: tuple[int, ...]) -> Array:
    """Threefry's split."""
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    # Behind a barrier: otherwise the compiler may do it again for each of the numbers that a key is used for.
    pairs = jax.lax.optimization_barrier(jnp.stack(_threefry(key[0], key[1], counters), axis=-1))
    return pairs.reshape(*shape, 2)


def _folded(key: Array, data: Any) -> Array:
    """Threefry's fold, of the key with its bits inverted: apart from what `split` gives."""
    number = jnp.asarray(data, jnp.uint32)
    return jax.lax.optimization_barrier(jnp.stack(_threefry(~key[0], ~key[1], number), axis=-1))


FAST: Any = define_prng_impl(
    key_shape=threefry_prng_impl.key_shape,
    seed=threefry_prng_impl.seed,
    split=_parted,
    random_bits=_random_bits,
    fold_in=_folded,
    name="equilibria_fast",
    tag="fast",
)


def key(seed: int, *, fast: bool = True) -> Array:
    """A random key: of the fast generator above, or of JAX's default one with `fast=False`.

    Every function that takes a key, here and in JAX, works with either; the key decides which generator is used.

    Args:
        seed: a whole number from 0 to 2^32 - 1.
        fast: whether the key is one of the fast generator.

    Returns:
        A typed JAX key.

    Raises:
        ValueError: if the seed is no whole number, or out of its range.

    >>> jax.random.uniform(key(0)) < 1
    Array(True, dtype=bool)
    >>> key(0, fast=False) == jax.random.key(0)
    Array(True, dtype=bool)
    """
    seed = check.count("seed", seed, least=0, most=_LAST_SEED)
    return _seeded(seed) if fast else jax.random.key(seed)


def generator(name: str) -> Any:
    """The generator that `str(jax.random.key_impl(key))` names, for keys read from a file.

    Args:
        name: of the generator.

    Returns:
        What `jax.random.wrap_key_data` takes as `impl`.

    >>> jax.random.wrap_key_data(jax.random.key_data(key(3)), impl=generator("fast")) == key(3)
    Array(True, dtype=bool)
    """
    return FAST if name == str(FAST) else name


def as_key(key: Array | int) -> Array:
    """What a caller gave as a key, as a typed JAX key.

    Args:
        key: a typed JAX key, which is returned as it is; the two words of one; or a whole number, the seed of a key of the
            fast generator.

    Returns:
        A typed JAX key.

    Raises:
        ValueError: if it is none of these.

    >>> jax.random.key_impl(as_key(0)), jax.random.key_impl(as_key(jax.random.key(0)))
    (PRNGSpec('equilibria_fast'), 'threefry2x32')
    """
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return _seeded(check.count("key", key, least=0, most=_LAST_SEED))
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape[-1:] == (2,):
        return jax.random.wrap_key_data(key)
    check.refuse("key", repr(key), "a JAX random key, or a whole number >= 0 as its seed")


def split(key: Array, count: int = 2) -> tuple[Array, ...]:
    """Independent keys from one, those of `jax.random.split`.

    Args:
        key: a typed key.
        count: how many.

    Returns:
        As many keys.

    >>> first, second = split(key(0))
    >>> bool(first == jax.random.split(key(0))[0]), bool(second == jax.random.split(key(0))[1])
    (True, True)
    """
    words = _words(key)
    if words is None:
        return tuple(jax.random.split(key, count))
    return tuple(_wrapped(row, key) for row in _split(words, count))


def split_array(key: Array, count: int) -> Array:
    """The same keys in one array, for what is mapped over them.

    Args:
        key: a typed key.
        count: how many.

    Returns:
        (count,) keys.

    >>> bool((split_array(key(0), 3) == jax.random.split(key(0), 3)).all())
    True
    """
    words = _words(key)
    return jax.random.split(key, count) if words is None else _wrapped(_split(words, count), key)


def fold_in(key: Array, number: int) -> Array:
    """A key made of another and a number, that of `jax.random.fold_in`.

    Args:
        key: a typed key.
        number: a whole number >= 0.

    Returns:
        A key.

    >>> bool(fold_in(key(0), 7) == jax.random.fold_in(key(0), 7))
    True
    """
    words = _words(key)
    if words is None or check.concrete(number) is None:
        return jax.random.fold_in(key, number)
    flipped = ~words if _fast(key) else words
    return _wrapped(np.stack(_threefry(flipped[0], flipped[1], np.array([number], np.uint32)), axis=-1)[0], key)


def bits(key: Array, shape: tuple[int, ...]) -> np.ndarray | None:
    """32 random bits for each element, those of `jax.random.bits`, made by NumPy.

    Args:
        key: a typed key.
        shape: of what is returned.

    Returns:
        uint32, or None where JAX does it better: inside compiled code, for other generators, for many numbers.

    >>> int(bits(key(0), (3,))[2]) == int(jax.random.bits(key(0), (3,))[2])
    True
    """
    words, size = _words(key), math.prod(shape)
    if words is None or size > _MOST_BY_NUMPY:
        return None
    counters = np.arange(size, dtype=np.uint32)
    if _fast(key):
        return _hashed(words[0], words[1], counters).reshape(shape)
    first, second = _threefry(words[0], words[1], counters)
    return (first ^ second).reshape(shape)


def _seeded(seed: int) -> Array:
    """What `jax.random.key(seed, impl=FAST)` gives."""
    if jax.config.values.get("jax_random_seed_offset"):
        return jax.random.key(seed, impl=FAST)
    return jax.random.wrap_key_data(jax.device_put(np.array([0, seed], np.uint32)), impl=FAST)


def _fast(key: Array) -> bool:
    return str(jax.random.key_impl(key)) == str(FAST)


def _words(key: Array) -> np.ndarray | None:
    """The two words of a single key whose generator NumPy can follow; None for any other."""
    if isinstance(key, jax.core.Tracer) or key.ndim or not jax.config.values.get("jax_threefry_partitionable", False):
        return None
    if not _fast(key) and jax.random.key_impl(key) != "threefry2x32":
        return None
    return np.asarray(jax.random.key_data(key))


def _wrapped(words: np.ndarray, like: Array) -> Array:
    # The words are put on the device, not converted there, which would be compiled.
    return jax.random.wrap_key_data(jax.device_put(words), impl=FAST if _fast(like) else "threefry2x32")


def _split(words: np.ndarray, count: int) -> np.ndarray:
    return np.stack(_threefry(words[0], words[1], np.arange(count, dtype=np.uint32)), axis=-1)
