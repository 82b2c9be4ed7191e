"""Patterns to store, cues to recall them from, and blurred examples to learn them from."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.random import as_key, bits, split


def random_patterns(count: int, size: int, *, bias: float = 0.0, key: Array | int) -> Array:
    """Patterns of independent neurons: P(xi = +1) = (1 + b)/2 and P(xi = -1) = (1 - b)/2, so E xi = b, the bias.

    With b = 0 these are the patterns of the Hopfield model (Amit, Gutfreund and Sompolinsky 1985); the load is
    alpha = `count` / `size`.

    Args:
        count: how many patterns.
        size: how many neurons each has.
        bias: their mean activity b, from -1 to 1.
        key: a random key or a seed.

    Returns:
        The patterns (count, size), values -1 and +1 in float32.

    Raises:
        ValueError: if a number is not as above.

    >>> patterns = random_patterns(3, 100, key=jax.random.key(0))
    >>> patterns.shape, patterns.dtype.name, sorted(set(patterns.ravel().tolist()))
    ((3, 100), 'float32', [-1.0, 1.0])
    """
    shape = (check.count("count", count), check.count("size", size))
    check.number("bias", bias, least=-1, most=1)
    return array(_drawn(as_key(key), bias, shape), np.float32)


def correlated_patterns(count: int, size: int, correlation: float, *, key: Array | int) -> Array:
    """Patterns with E[xi^a_i xi^b_i] = q for every pair a != b, and E xi = 0.

    All are blurred copies of one hidden random parent, xi^a_i = chi^a_i s_i with E chi = sqrt(q), so a pair's overlap
    scatters around q by sqrt((1 - q^2) / size). A common parent cannot make correlations negative. For overlaps that
    hold exactly, see `planted_receptive_fields`.

    Args:
        count: how many patterns.
        size: how many neurons each has.
        correlation: q of every pair, from 0 to 1.
        key: a random key or a seed.

    Returns:
        The patterns (count, size), values -1 and +1 in float32.

    Raises:
        ValueError: if a number is not as above.

    >>> first, second = correlated_patterns(2, 10_000, 0.5, key=jax.random.key(0))
    >>> round(float(first @ second) / 10_000, 1)
    0.5
    """
    check.number("correlation", correlation, least=0, most=1)
    parent_key, copies_key = split(as_key(key))
    parent = random_patterns(1, size, key=parent_key)[0]
    return blurred_examples(parent, check.count("count", count), correlation**0.5, key=copies_key)


def corrupt(patterns: ArrayLike, *, flips: float = 0.0, masked: float = 0.0, key: Array | int) -> Array:
    """Cues: patterns with a fraction of their neurons flipped and another fraction silent.

    Both fractions are exact in every pattern (to the nearest whole neuron), and no neuron is hit twice. The cue's
    overlap with its pattern is then the same for all, 1 - 2 flips - masked: basins of attraction are measured against
    this overlap, and independent flips would blur it by O(1/sqrt(N)).
    A masked neuron is 0 because it says nothing: it exerts no field, and takes a sign when it is first updated.
    For random values in place of 0, flip half as many: `flips=masked / 2`.

    Args:
        patterns: (..., size), values -1 and +1.
        flips: the fraction of neurons that change sign.
        masked: the fraction that becomes 0; both together are at most 1.
        key: a random key or a seed.

    Returns:
        The cues, in the shape of the patterns, float32.

    Raises:
        ValueError: if the patterns have other values, or the fractions do not fit together.

    >>> patterns = random_patterns(2, 100, key=jax.random.key(0))
    >>> cues = corrupt(patterns, flips=0.1, masked=0.3, key=jax.random.key(1))
    >>> (cues * patterns).mean(axis=-1).round(6).tolist()
    [0.5, 0.5]
    """
    spins = _spins("patterns", patterns)
    check.number("flips", flips, least=0, most=1)
    check.number("masked", masked, least=0, most=1)
    if flips + masked > 1 + 1e-9:  # room for the rounding of the sum
        check.refuse("flips + masked", flips + masked, "at most 1")
    size = spins.shape[-1]
    counts = round(flips * size), round(flips * size) + round(masked * size)
    rows = spins.reshape(-1, size)
    rank = _ranks(as_key(key), rows.shape) if isinstance(rows, np.ndarray) else None
    if rank is None:
        return _corrupt(as_key(key), rows, *counts).reshape(spins.shape)
    return array(
        np.where(rank < counts[0], -rows, np.where(rank < counts[1], 0, rows)).reshape(spins.shape), np.float32
    )


def blurred_examples(archetypes: ArrayLike, examples: int, quality: float, *, key: Array | int) -> Array:
    """Noisy copies of each archetype: eta^{mu,a}_i = chi^{mu,a}_i xi^mu_i, chi = +-1 independent with E chi = r.

    These are the datasets of Agliari 2024; what they leave unknown is measured by `theory.dataset_entropy`.

    Args:
        archetypes: xi, (..., size), values -1 and +1.
        examples: M, how many copies of each.
        quality: r, from 0 to 1: at 1 every example is its archetype, at 0 pure noise.
        key: a random key or a seed.

    Returns:
        The examples (..., M, size), values -1 and +1 in float32.

    Raises:
        ValueError: if the archetypes have other values, or a number is not as above.

    >>> archetypes = random_patterns(3, 1000, key=jax.random.key(0))
    >>> examples = blurred_examples(archetypes, 20, 0.8, key=jax.random.key(1))
    >>> examples.shape
    (3, 20, 1000)
    >>> round(float((examples * archetypes[:, None]).mean()), 1)
    0.8
    """
    spins = _spins("archetypes", archetypes)
    check.number("quality", quality, least=0, most=1)
    *leading, size = spins.shape
    shape = (*leading, check.count("examples", examples), size)
    return array(_drawn(as_key(key), quality, shape) * spins[..., None, :], np.float32)


def _drawn(key: Array, mean: ArrayLike, shape: tuple[int, ...]) -> Any:
    """Signs of this mean: by NumPy where that gives the same without a compilation."""
    known = check.concrete(mean)
    words = None if known is None else bits(key, shape)
    if known is None or words is None:
        return _signs(key, mean, shape)
    # Uniform numbers as JAX makes them, from the upper bits of each word.
    uniform = ((words >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)
    return np.where(uniform < (1 + known.astype(np.float32)) / np.float32(2), np.float32(1), np.float32(-1))


def _ranks(key: Array, shape: tuple[int, int]) -> np.ndarray | None:
    """0, 1, ... in each row, shuffled as `jax.random.permutation` does: sorted by random words, again if there are many."""
    rank = np.broadcast_to(np.arange(shape[1]), shape)
    for _ in range(math.ceil(3 * math.log(max(1, rank.size)) / math.log(2**32 - 1))):
        key, here = split(key)
        words = bits(here, shape)
        if words is None:
            return None
        rank = np.take_along_axis(rank, np.argsort(words, axis=-1, kind="stable"), axis=-1)
    return rank


@partial(jax.jit, static_argnames="shape")
def _signs(key: Array, mean: ArrayLike, shape: tuple[int, ...]) -> Array:
    plus = jax.random.bernoulli(key, (1 + jnp.asarray(mean, jnp.float32)) / 2, shape)
    return jnp.where(plus, jnp.float32(1), jnp.float32(-1))


@jax.jit
def _corrupt(key: Array, spins: Array, flipped: ArrayLike, hit: ArrayLike) -> Array:
    places = jnp.broadcast_to(jnp.arange(spins.shape[-1]), spins.shape)
    rank = jax.random.permutation(key, places, axis=-1, independent=True)
    return jnp.where(rank < flipped, -spins, jnp.where(rank < hit, 0, spins))


def _spins(argument: str, given: ArrayLike) -> Any:
    """The spins in NumPy, or inside compiled code as they are."""
    check.shape(argument, given, (None,))
    values = check.concrete(given)
    if values is not None and (values.size == 0 or not np.isin(values, (-1, 1)).all()):
        strange = values[~np.isin(values, (-1, 1))]
        check.refuse(argument, f"the value {strange[0]}" if strange.size else f"shape {values.shape}", "-1 and +1")
    return jnp.asarray(given, jnp.float32) if values is None else values.astype(np.float32, copy=False)
