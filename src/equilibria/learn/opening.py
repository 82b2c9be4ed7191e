r"""Where learning of the likelihood begins: fields, chains and a rate, all from the data.

From zero fields the first thing that couplings learn is the data's means, in one mode that grows with every update and takes
all chains with it. Fields that give every neuron its mean leave the couplings what they are for; Decelle 2017 starts so.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria.learn.phase import drawn
from equilibria.model.missing import completed
from equilibria.model.network import Network, State
from equilibria.model.transforms import site_biases

# Both chosen on the tables of benchmarks/panel.py, drawn with other seeds than those shown there: by how much the fastest
# mode grows in one update, and the least number of independent neurons that a mode counts as, below which the noise of
# batches and chains limits the rate.
GROWTH, LEAST = 0.1, 5
_ROWS, _ROUNDS = 10_000, 30


def with_fields(network: Network, data: Mapping[str, Array]) -> Network:
    """The network with the fields of independent neurons wherever it has data and none of its own.

    Args:
        network: the network.
        data: by layer.

    Returns:
        The network; a layer with a field other than zero keeps all of its fields.

    >>> import equilibria as eq
    >>> with_fields(eq.rbm(2, 1, key=0), {"visible": np.array([[1, 0], [1, 1], [1, 0]])}).layers[0].bias
    Array([ 1.9459..., -0.5108...], dtype=float32)
    """
    bare = {name: values for name, values in data.items() if not np.asarray(network.layer(name).bias).any()}
    biases = site_biases(network, bare)
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], network, [biases[n] for n in network.names])


@eqx.filter_jit
def chains_at(network: Network, data: State, chains: int, key: Array) -> State:
    """Chains that begin at examples drawn with replacement; layers without data are drawn at zero field.

    Args:
        network: the network.
        data: by layer.
        chains: how many.
        key: a random key.

    Returns:
        By layer, (chains, size).
    """
    choose, rest = jax.random.split(key)
    index = jax.random.randint(choose, (chains,), 0, len(next(iter(data.values()))))
    random = drawn(network, (chains,), rest)
    return random | {name: jnp.asarray(completed(rows[index], random[name]), float) for name, rows in data.items()}


def natural_rate(network: Network, data: Mapping[str, ArrayLike]) -> float:
    r"""A learning rate at which no mode of the data grows too fast.

    Near the start $\Delta W = \eta\, \sigma_h^2 (C - D) W$, with C the covariance of the data, D its diagonal and
    $\sigma_h^2$ the variance of a hidden neuron in no field: in spins' units a mode of variance v grows by $\eta (v - 1)$ in an
    update (Decelle 2017, "Linear instabilities"). So $\eta$ is 0.1 over $\sigma_h^2$ times the largest variance, which counts
    as that of 5 independent neurons at least.

    Args:
        network: what learns.
        data: by layer.

    Returns:
        The rate of plain gradient descent.

    >>> import equilibria as eq
    >>> clusters = np.repeat(np.eye(2), 20, axis=1)  # of variance 10
    >>> natural_rate(eq.rbm(40, 4, key=0), {"visible": clusters})
    0.04
    """
    spreads = dict(zip(network.names, np.asarray(_free_variances(network)).tolist(), strict=True))
    spreads |= {name: max(largest_variance(values), LEAST * spreads[name]) for name, values in data.items()}
    steepest = max(spreads[first] * spreads[second] for first, second in (part.ends for part in network.couplings))
    return float(f"{GROWTH / steepest:.3g}")


@eqx.filter_jit
def _free_variances(network: Network) -> Array:
    """The largest variance of a neuron in no field, layer by layer."""
    return jnp.stack([jnp.max(layer.unit.variance(jnp.zeros(layer.size))) for layer in network.layers])


def largest_variance(values: ArrayLike) -> float:
    """The largest variance of examples along any direction, to a few percent, by power iteration on the host.

    Args:
        values: (examples, size); of more than 10,000 examples, as many that are spread evenly.

    Returns:
        The largest eigenvalue of their covariance.

    >>> largest_variance(np.repeat(np.eye(2), 8, axis=1))
    4.0
    """
    rows = np.asarray(values[:: -(-len(values) // _ROWS)], np.float32)  # type: ignore[index, arg-type]
    rows = np.nan_to_num(rows - np.nanmean(rows, axis=0))  # what is missing varies with nothing
    direction = np.random.default_rng(0).standard_normal(rows.shape[1]).astype(np.float32)
    found = 0.0
    for _ in range(_ROUNDS):
        direction = rows.T @ (rows @ (direction / max(np.linalg.norm(direction), 1e-30))) / len(rows)
        before, found = found, float(np.linalg.norm(direction))
        if found <= before * 1.01:
            break
    return found
