"""Where chains begin that are to tell whether they forget it: at random, and at data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria.model.network import Network, State
from equilibria.model.units import Unit
from equilibria.random import fold_in


def starts(
    network: Network, data: Mapping[str, np.ndarray], chains: int, pick: Array, key: Array
) -> tuple[State, list[str]]:
    """Every layer drawn at random, and for as many chains again data where there are any.

    Args:
        network: what is sampled.
        data: by layer, (examples, size); what is missing starts at random. Empty: no chains start at data.
        chains: of each kind.
        pick: a random key, for the examples.
        key: a random key, for what starts at random.

    Returns:
        The states, and "random" or "data" for each chain.

    >>> import equilibria as eq
    >>> rows = {"visible": np.array([[1.0, 0.0, 1.0]])}
    >>> state, kinds = starts(eq.rbm(3, 2, key=0), rows, 1, jax.random.key(0), jax.random.key(1))
    >>> state["visible"][1], kinds
    (Array([1., 0., 1.], dtype=float32), ['random', 'data'])
    """
    kinds = ["random"] * chains + ["data"] * (chains if data else 0)
    state = {name: np.array(layer) for name, layer in _without_fields(network, key, len(kinds)).items()}
    if data:
        chosen = np.asarray(_picked(pick, len(next(iter(data.values()))), chains))
        for place, (name, values) in enumerate(data.items()):
            rows = _with_means(network.layer(name).unit, values[chosen], fold_in(pick, place))
            state[name][chains:] = np.where(np.isnan(rows), state[name][chains:], rows)
    return {name: jnp.asarray(layer) for name, layer in state.items()}, kinds


@eqx.filter_jit
def _without_fields(network: Network, key: Array, chains: int) -> State:
    """Draws of units that no field acts on."""
    keys = jax.random.split(key, len(network.layers))
    return {
        layer.name: layer.unit.sample(here, jnp.zeros((chains, layer.size)))
        for layer, here in zip(network.layers, keys, strict=True)
    }


@partial(jax.jit, static_argnums=(1, 2))
def _picked(key: Array, examples: int, chains: int) -> Array:
    """Which examples chains start at, each another as long as there are enough."""
    return jax.random.choice(key, examples, (chains,), replace=examples < chains)


def _with_means(unit: Unit, rows: np.ndarray, key: Array) -> np.ndarray:
    """The rows, or where two-valued neurons were given values between, which are no states, states drawn with these means."""
    low, high = unit.range
    if not unit.two_valued or np.isin(rows[~np.isnan(rows)], (low, high)).all():
        return rows
    up = np.asarray(jax.random.uniform(key, rows.shape)) < (rows - low) / (high - low)
    return np.where(np.isnan(rows), np.nan, np.where(up, high, low)).astype(np.float32)
