"""What a machine of two layers says of each row, in float64, whatever the company of the row."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria.estimators.common import in_blocks
from equilibria.model.network import Network

_ROWS = 256  # rows that are looked at together


def hidden_means(network: Network, rows: np.ndarray) -> np.ndarray:
    """The means of the hidden neurons given each row of features, (samples, components)."""
    return _by_rows(_hidden_means, network, rows)


def visible_means(network: Network, rows: np.ndarray) -> np.ndarray:
    """The means of the features given each row of hidden values, (samples, features)."""
    return _by_rows(_visible_means, network, rows)


def log_weights(network: Network, rows: np.ndarray) -> np.ndarray:
    """Minus the free energy of each row of features, (samples,)."""
    return _by_rows(_log_weights, network, rows)


def _by_rows(function: Callable[[Network, Array], Array], network: Network, rows: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), network)
        return in_blocks(lambda block: function(double, jnp.asarray(block)), rows.astype(np.float64), _ROWS)


@eqx.filter_jit
def _hidden_means(network: Network, rows: Array) -> Array:
    return network.layers[1].unit.mean(network.field({"visible": rows}, "hidden"))


@eqx.filter_jit
def _visible_means(network: Network, rows: Array) -> Array:
    return network.layers[0].unit.mean(network.field({"hidden": rows}, "visible"))


@eqx.filter_jit
def _log_weights(network: Network, rows: Array) -> Array:
    return -network.free_energy({"visible": rows}, ("hidden",))
