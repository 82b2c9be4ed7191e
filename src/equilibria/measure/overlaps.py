"""Overlaps: how alike two configurations are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.equilibrator import Equilibrium

Configurations: TypeAlias = Equilibrium | Mapping[str, ArrayLike] | ArrayLike


def overlap(state: Configurations, pattern: ArrayLike, *, layer: str | None = None) -> Array:
    r"""The Mattis overlap $m = \frac1N \sum_i \xi_i \sigma_i$ of a state with a pattern, or with each of several.

    Args:
        state: an equilibrium, a state by layer, or an array (..., N).
        pattern: one pattern (N,), or several (K, N).
        layer: which layer of the state; the first by default.

    Returns:
        The overlaps, of shape (...) with one pattern, (..., K) with several.

    Raises:
        ValueError: if the pattern has another length than the layer, or there is no such layer.

    >>> overlap(jnp.array([1.0, 1.0, -1.0, -1.0]), [[1, 1, -1, 1], [1, 1, 1, 1]])
    Array([0.5, 0. ], dtype=float32)
    """
    if hasattr(state, "couplings"):
        check.refuse("state", "a network", "a state of one, as eq.equilibrate and eq.sample return it")
    given, size = _layer_of(state, layer), np.shape(_layer_of(state, layer))[-1]
    check.shape("pattern", pattern, (size,))
    known = check.concrete(given), check.concrete(pattern)
    if known[0] is None or known[1] is None:
        return jnp.asarray(given, float) @ jnp.asarray(pattern, float).T / size
    # By NumPy: a product of every new shape would be compiled first.
    real = jnp.result_type(float)
    return array(np.asarray(known[0], real) @ np.asarray(known[1], real).T / real.type(size))


def replica_overlap(state: Configurations, *, layer: str | None = None) -> Array:
    r"""The overlaps $q_{ab} = \frac1N \sum_i \sigma_i^a \sigma_i^b$ between all chains of a state.

    Args:
        state: an equilibrium, a state by layer, or an array, with the chains on the first axis: (chains, N).
        layer: which layer of the state; the first by default.

    Returns:
        (chains, chains), with ones on the diagonal for two-valued spins.

    >>> replica_overlap(jnp.array([[1.0, 1.0], [1.0, -1.0]]))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    neurons = _layer_of(state, layer)
    return overlap(neurons, neurons)


def _layer_of(state: Configurations, layer: str | None) -> ArrayLike:
    if isinstance(state, Equilibrium):
        state = state.state
    if not isinstance(state, Mapping):
        return state
    return state[check.choice("layer", layer or next(iter(state)), state)]
