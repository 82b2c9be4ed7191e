"""Planted receptive fields: the hidden truth that a network with binary synapses has to find."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from equilibria import check
from equilibria.equilibrators.driver import sample
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.architectures import as_spins, rbm
from equilibria.model.units import Spin
from equilibria.random import as_key


def planted_receptive_fields(count: int, size: int, correlation: float = 0.0, *, key: Array | int) -> Array:
    """P random fields of N neurons, +-1, with (1/N) xi^a . xi^b = q exactly for every pair (Huang 2019: P = 2 or 3).

    q = 0 means exactly orthogonal. Every pair then differs at d = N (1 - q)/2 neurons, and not every d exists:

    - two fields: any whole d from 0 to N;
    - three or four fields: any even d with 3d/2 <= N, that is N (1 - q) a multiple of 4 and q >= -1/3;
    - more fields: the sums of distances of the tiles below, so long as they fit into N neurons.

    The fields are laid out in tiles that put
    all pairs at one distance: rows of Hadamard matrices of order h (h - 1 neurons, distance h/2), or fields that each
    leave a common parent at one neuron of their own (`count` neurons, distance 2). Neurons left over are common to all.
    Rows, columns and the sign of each neuron are then drawn at random, which changes no overlap.

    Args:
        count: P, how many fields.
        size: N, how many neurons each has.
        correlation: q of every pair, from -1 to 1. A single field has no pairs, and this says nothing about it.
        key: a random key or a seed.

    Returns:
        The fields (count, size), values -1 and +1 in float32.

    Raises:
        ValueError: if no such fields exist, or none that tiles can make; the message names the nearest q that can be had.

    >>> fields = planted_receptive_fields(3, 100, 0.2, key=jax.random.key(0))
    >>> (fields @ fields.T).astype(int).tolist()
    [[100, 20, 20], [20, 100, 20], [20, 20, 100]]
    >>> planted_receptive_fields(3, 100, 0.3, key=jax.random.key(0))
    Traceback (most recent call last):
    ValueError: correlation: got 0.3 with count=3 and size=100; allowed: the nearest are 0.28 and 0.32
    """
    check.count("count", count)
    check.count("size", size)
    check.number("correlation", correlation, least=-1, most=1)
    tiles = _tiling(count, size, correlation) if count > 1 else []
    # The layout is combinatorial and small, so NumPy draws it, seeded by the key's own bits.
    random = np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))))
    fields = _laid_out(tiles, count, size, random)
    gauge = random.choice([-1, 1], size)
    # NumPy's conversion and `device_put`, unlike `asarray`, compile nothing
    return jax.device_put((random.permutation(fields, axis=1) * gauge).astype(np.float32))


def planted_data(fields: Array, count: int, *, temperature: float = 1.0, key: Array | int) -> Array:
    r"""Independent examples from the machine that has planted fields (Huang 2019, equation 1).

    $P(\sigma) \propto \prod_\mu \cosh(\beta\, \xi^\mu \cdot \sigma/\sqrt N)$. With up to 16 fields the draws are exact;
    with more, each example is the end of a Gibbs chain of its own of 1,000 sweeps.

    Args:
        fields: xi, (P, N), values -1 and +1.
        count: how many examples.
        temperature: $1/\beta$.
        key: a random key or a seed.

    Returns:
        The examples (count, N), values -1 and +1 in float32.

    Raises:
        ValueError: if the fields have other values, or a number is not above 0.

    >>> fields = planted_receptive_fields(2, 100, key=jax.random.key(0))
    >>> planted_data(fields, 5, key=1).shape
    (5, 100)
    """
    check.count("count", count)
    check.number("temperature", temperature, above=0.0)
    weights = as_spins("fields", fields, ("fields", "neurons")).T
    network = rbm(weights=weights / np.sqrt(len(weights)), visible=Spin(), hidden=Spin())
    how = Exact() if weights.shape[1] <= 16 else Sweeps(1000)
    return sample(network, how, chains=count, temperature=temperature, key=key)["visible"]


class _Tile(NamedTuple):
    order: int  # of the Hadamard matrix; 0: each field leaves a common parent at a neuron of its own
    width: int  # in neurons
    distance: int  # of every pair of rows


def _tiling(count: int, size: int, correlation: float) -> list[_Tile]:
    """The narrowest tiles whose distances add up to size (1 - correlation)/2."""
    width, last = _narrowest(count, size)
    wanted = size * (1 - float(correlation)) / 2
    distance = round(wanted)
    if abs(wanted - distance) > 1e-4 or width[distance] > size:  # 1e-4 neurons: room for a float32 correlation
        reachable = np.flatnonzero(width <= size)
        around = {*reachable[reachable > wanted][:1].tolist(), *reachable[reachable < wanted][-1:].tolist()}
        nearest = " and ".join(f"{1 - 2 * d / size:.6g}" for d in sorted(around, reverse=True))
        given = f"{correlation} with count={count} and size={size}"
        check.refuse("correlation", given, f"the nearest {'are' if len(around) > 1 else 'is'} {nearest}")
    tiles = []
    while distance:
        tiles.append(last[distance])
        distance -= tiles[-1].distance
    return tiles


def _narrowest(count: int, size: int) -> tuple[np.ndarray, dict[int, _Tile]]:
    """For each distance from 0 to `size`, the least width of tiles that make it (or infinity) and the last of them."""
    orders = [order for order in range(count, 4 * count + 1) if _is_known(order)]
    tiles = [_Tile(order, order - 1, order // 2) for order in orders] + [_Tile(0, count, 2)]
    width = np.full(size + 1, np.inf)
    width[0] = 0
    last = {}
    for distance in range(1, size + 1):
        for tile in tiles:
            if tile.distance <= distance and width[distance - tile.distance] + tile.width < width[distance]:
                width[distance] = width[distance - tile.distance] + tile.width
                last[distance] = tile
    return width, last


def _laid_out(tiles: list[_Tile], count: int, size: int, random: np.random.Generator) -> np.ndarray:
    spare = size - sum(tile.width for tile in tiles)
    blocks = []
    for tile in tiles:
        if tile.order == 0:
            rows = 1 - 2 * np.eye(count)
        else:
            # With its constant column the rows are orthogonal, and each may change sign. Without these signs four
            # fields would always have xi^4 = xi^1 xi^2 xi^3.
            whole = spare > 0
            signs = random.choice([-1, 1], (count, 1)) if whole else 1
            rows = random.permutation(_hadamard(tile.order))[:count, 0 if whole else 1 :] * signs
            spare -= whole
        blocks.append(rows)
    return np.hstack([*blocks, np.ones((count, spare))])


def _is_known(order: int) -> bool:
    return order == 1 or _is_paley(order) or (order % 2 == 0 and _is_known(order // 2))


def _is_paley(order: int) -> bool:
    prime = order - 1
    return prime % 4 == 3 and all(prime % divisor for divisor in range(2, int(prime**0.5) + 1))


@lru_cache(maxsize=16)
def _hadamard(order: int) -> np.ndarray:
    """Orthogonal +-1 rows, the first column constant: Paley's first construction and Sylvester's doubling.

    (SciPy's has only the powers of two, too few to make up every size.)
    """
    if order == 1:
        return np.ones((1, 1))
    if not _is_paley(order):
        return np.kron([[1, 1], [1, -1]], _hadamard(order // 2))
    prime = order - 1
    residue = np.full(prime, -1)
    residue[np.arange(1, prime) ** 2 % prime] = 1
    residue[0] = 0
    skew = np.ones((order, order))
    skew[1:, 0] = -1
    skew[1:, 1:] = residue[np.subtract.outer(np.arange(prime), np.arange(prime)) % prime]
    skew[0, 0] = 0
    matrix = skew + np.eye(order)
    return matrix * matrix[:, :1]
