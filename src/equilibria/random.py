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


_LAST_SEED = 2**32 - 1  # JAX would cut a larger one short: 2**32 would be another name for 0


def _hashed(first: Array, second: Array, counter: Array) -> Array:
    """32 bits for each counter, from the two words of a key."""
    mixed = counter
    for place, (shift, multiplier) in enumerate(_ROUNDS):
        mixed = mixed ^ (first if place % 2 == 0 else second)
        mixed = (mixed ^ (mixed >> shift)) * jnp.uint32(multiplier)
    return mixed ^ (mixed >> 16)


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


def _folded(key: Array, data: int) -> Array:
    """Threefry's fold, of the key with its bits inverted: apart from what `split` gives."""
    return threefry_prng_impl.fold_in(~key, data)


FAST: Any = define_prng_impl(
    key_shape=threefry_prng_impl.key_shape,
    seed=threefry_prng_impl.seed,
    split=threefry_prng_impl.split,
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
    return jax.random.key(seed, impl=FAST) if fast else jax.random.key(seed)


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
        return jax.random.key(check.count("key", key, least=0, most=_LAST_SEED), impl=FAST)
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape[-1:] == (2,):
        return jax.random.wrap_key_data(key)
    check.refuse("key", repr(key), "a JAX random key, or a whole number >= 0 as its seed")
