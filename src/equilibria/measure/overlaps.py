"""Overlaps: how alike two configurations are."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.driver import Equilibrium


def overlap(
    state: Equilibrium | Mapping[str, ArrayLike] | ArrayLike, pattern: ArrayLike, *, layer: str | None = None
) -> Array:
    r"""The Mattis overlap $m = \frac1N \sum_i \xi_i \sigma_i$ of a state with a pattern, or with each of several.

    Parameters: `state` is an equilibrium, a state by layer (the first layer, unless `layer` names another) or an array
    (..., N); `pattern` is (N,), giving an overlap of shape (...), or (K, N), giving (..., K).

    >>> overlap(jnp.array([1.0, 1.0, -1.0, -1.0]), [[1, 1, -1, 1], [1, 1, 1, 1]])
    Array([0.5, 0. ], dtype=float32)
    """
    neurons, pattern = jnp.asarray(_layer_of(state, layer), float), jnp.asarray(pattern, float)
    check.shape("pattern", pattern, (neurons.shape[-1],))
    return neurons @ pattern.T / neurons.shape[-1]


def replica_overlap(state: Equilibrium | Mapping[str, ArrayLike] | ArrayLike, *, layer: str | None = None) -> Array:
    r"""The overlaps $q_{ab} = \frac1N \sum_i \sigma_i^a \sigma_i^b$ between all chains of a state (chains, N).

    >>> replica_overlap(jnp.array([[1.0, 1.0], [1.0, -1.0]]))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    neurons = jnp.asarray(_layer_of(state, layer), float)
    return overlap(neurons, neurons)


def _layer_of(state, layer: str | None):
    if isinstance(state, Equilibrium):
        state = state.state
    if not isinstance(state, Mapping):
        return state
    return state[check.choice("layer", layer or next(iter(state)), state)]
