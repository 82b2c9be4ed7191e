"""Patterns to store, cues to recall them from, and blurred examples to learn them from."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.random import as_key


def random_patterns(count: int, size: int, *, bias: float = 0.0, key: Array | int) -> Array:
    """`count` patterns of `size` independent neurons: P(xi = +1) = (1 + bias)/2, so E xi = bias.

    With `bias` = 0 these are the patterns of the Hopfield model (Amit, Gutfreund and Sompolinsky 1985);
    the load is alpha = count / size.

    >>> patterns = random_patterns(3, 100, key=jax.random.key(0))
    >>> patterns.shape, patterns.dtype.name, sorted(set(patterns.ravel().tolist()))
    ((3, 100), 'float32', [-1.0, 1.0])
    """
    shape = (check.count("count", count), check.count("size", size))
    check.number("bias", bias, least=-1, most=1)
    return _signs(as_key(key), bias, shape)


def correlated_patterns(count: int, size: int, correlation: float, *, key: Array | int) -> Array:
    """Patterns with E[xi^a_i xi^b_i] = `correlation` for every pair a != b, and E xi = 0.

    All are blurred copies of one hidden random parent, xi^a_i = chi^a_i s_i with E chi = sqrt(correlation), so a
    pair's overlap scatters around `correlation` by sqrt((1 - correlation^2) / size). A common parent cannot make
    correlations negative. For overlaps that hold exactly, see `planted_receptive_fields`.

    >>> first, second = correlated_patterns(2, 10_000, 0.5, key=jax.random.key(0))
    >>> round(float(first @ second) / 10_000, 1)
    0.5
    """
    check.number("correlation", correlation, least=0, most=1)
    parent_key, copies_key = jax.random.split(as_key(key))
    parent = random_patterns(1, size, key=parent_key)[0]
    return blurred_examples(parent, check.count("count", count), correlation**0.5, key=copies_key)


def corrupt(patterns: ArrayLike, *, flips: float = 0.0, masked: float = 0.0, key: Array | int) -> Array:
    """Cues: in each pattern a fraction `flips` of the neurons changes sign, and a fraction `masked` becomes 0.

    Both fractions are exact in every pattern (to the nearest whole neuron), and no neuron is hit twice. The cue's
    overlap with its pattern is then the same for all, 1 - 2 flips - masked: basins of attraction are measured against
    this overlap, and independent flips would blur it by O(1/sqrt(N)).
    A masked neuron is 0 because it says nothing: it exerts no field, and takes a sign when it is first updated.
    For random values in place of 0, flip half as many: `flips=masked / 2`.

    `patterns` has shape (..., size) with values -1 and +1.

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
    return _corrupt(as_key(key), spins, round(flips * size), round(masked * size))


def blurred_examples(archetypes: ArrayLike, examples: int, quality: float, *, key: Array | int) -> Array:
    """`examples` noisy copies of each archetype, shape (K, N) -> (K, M, N).

    eta^{mu,a}_i = chi^{mu,a}_i xi^mu_i with chi = +-1 independent and E chi = r (Agliari 2024), where xi is
    `archetypes`, M is `examples` and r is `quality`: at r = 1 every example is its archetype, at r = 0 pure noise.

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
    noise = _signs(as_key(key), quality, (*leading, check.count("examples", examples), size))
    return noise * spins[..., None, :]


def dataset_entropy(quality: ArrayLike, examples: ArrayLike) -> Any:
    """rho = (1 - r^2) / (M r^2): how little M = `examples` copies of `quality` r say about their archetype.

    rho -> 0 means that the archetypes are known; the mean of the examples etabar has E etabar^2 = r^2 (1 + rho)
    (Agliari 2024). Arguments broadcast.

    >>> round(float(dataset_entropy(0.5, 30)), 6)
    0.1
    """
    r = np.asarray(check.number("quality", quality, above=0, most=1), float)
    m = np.asarray(check.number("examples", examples, least=1), float)
    return (1 - r**2) / (m * r**2)


@partial(jax.jit, static_argnames="shape")
def _signs(key: Array, mean: ArrayLike, shape: tuple[int, ...]) -> Array:
    plus = jax.random.bernoulli(key, (1 + jnp.asarray(mean, jnp.float32)) / 2, shape)
    return jnp.where(plus, jnp.float32(1), jnp.float32(-1))


@jax.jit
def _corrupt(key: Array, spins: Array, flipped: ArrayLike, masked: ArrayLike) -> Array:
    places = jnp.broadcast_to(jnp.arange(spins.shape[-1]), spins.shape)
    rank = jax.random.permutation(key, places, axis=-1, independent=True)
    return jnp.where(rank < flipped, -spins, jnp.where(rank < flipped + masked, 0, spins))


def _spins(argument: str, given: ArrayLike) -> Array:
    check.shape(argument, given, (None,))
    values = check.concrete(given)
    if values is not None and (values.size == 0 or not np.isin(values, (-1, 1)).all()):
        strange = values[~np.isin(values, (-1, 1))]
        check.refuse(argument, f"the value {strange[0]}" if strange.size else f"shape {values.shape}", "-1 and +1")
    return jnp.asarray(given, jnp.float32)
