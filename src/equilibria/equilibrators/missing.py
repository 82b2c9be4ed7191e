r"""Sums over what is missing in data: $\ln \sum_{v_\text{missing}} e^{-F(v)/T}$, exactly.

There are two ways, and the one with fewer states is taken. Either the values of the missing sites are enumerated and the hidden
layers summed in closed form; or the hidden states are enumerated and the missing neurons, independent of one another given
them, summed in closed form, which also serves continuous units.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.equilibrators import exact
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.model.missing import held, parted
from equilibria.model.network import Network

_MOST_CHOICES = 2**16  # for each example
_STATES = 2**14  # configurations that are looked at together
_ROWS = 64  # examples whose hidden states are summed together


def completions(
    network: Network, data: Mapping[str, np.ndarray], temperature: float, *, summable: bool = True
) -> np.ndarray:
    """The logarithm of the sum of e^(-F/T) over what is missing, for each example.

    Args:
        network: any network.
        data: by layer, (examples, size) each, NaN where nothing is known; each example misses something.
        temperature: T.
        summable: whether the layers without data are independent of one another given those with.

    Returns:
        (examples,).

    Raises:
        ValueError: if there are too many states either way.

    >>> import equilibria as eq
    >>> machine = eq.rbm(4, 2, scale=0.0, key=0)  # every entry that is missing has two values of one weight
    >>> (completions(machine, {"visible": np.array([[1, np.nan, np.nan, 0]])}, 1.0) / np.log(2)).round(4)
    array([4.]...)
    """
    first = network.names[0]
    choices = network.layer(first).unit.choices(network.layer(first).size)
    alone = list(data) == [first] and summable and choices is not None
    sites = np.zeros(1, int)
    if alone and choices is not None:
        gaps = np.isnan(data[first]).reshape(len(data[first]), -1, choices.shape[1]).any(-1)
        sites = gaps.sum(1)
    few = alone and choices is not None and len(choices) ** float(sites.max()) <= _MOST_CHOICES
    shown = {name: parted(values) for name, values in data.items()}
    systems = [held(name, part) for name, part in shown.items()]
    try:
        hidden: float = exact.plan(conditioned(network, systems, temperature)).states
    except ValueError:
        if not few:
            given = f"up to {sites.max()} missing sites in an example" if alone else "missing entries"
            check.refuse("data", given, "fewer missing, or a hidden layer small enough to sum over")
        hidden = np.inf
    heat = jnp.asarray(temperature, float)
    if few and choices is not None and len(choices) ** float(sites.max()) <= hidden:
        return _over_choices(network, data[first], gaps, choices, heat)
    found = []
    for start in range(0, len(next(iter(data.values()))), _ROWS):
        parts = [held(name, parted(values[start : start + _ROWS])) for name, values in data.items()]
        found.append(np.asarray(_over_hidden(conditioned(network, parts, heat))))
    return np.concatenate(found)


@eqx.filter_jit
def _over_hidden(system: Conditioned) -> Array:
    return exact.log_partition_function(system)


def _over_choices(network: Network, rows: np.ndarray, gaps: np.ndarray, choices: np.ndarray, heat: Array) -> np.ndarray:
    """Examples with equally many gaps together, so that few shapes are compiled: the number is rounded up to a power of two."""
    found = np.empty(len(rows), np.float32)
    counts = gaps.sum(1)
    room = 2 ** np.ceil(np.log2(counts)).astype(int)
    room = np.where(len(choices) ** room.astype(float) <= _MOST_CHOICES, room, counts)
    for most in np.unique(room):
        here = np.flatnonzero(room == most)
        # Places beyond an example's own gaps point nowhere: each choice there counts every state once more.
        places = np.full((len(here), most), gaps.shape[1])
        for place, row in enumerate(here):
            own = np.flatnonzero(gaps[row])
            places[place, : len(own)] = own
        logs = _summed(network, jnp.asarray(np.nan_to_num(rows[here])), jnp.asarray(places), jnp.asarray(choices), heat)
        found[here] = np.asarray(logs) - (most - counts[here]) * np.log(len(choices))
    return found


@eqx.filter_jit
def _summed(network: Network, rows: Array, places: Array, choices: Array, heat: Array) -> Array:
    """ln of the sum of e^(-F/T) over all values at the places, for each row."""
    first = network.names[0]
    hidden = [name for name in network.names if name != first]
    states = len(choices) ** places.shape[1]
    together = max(1, min(states, _STATES // len(rows)))
    lines = jnp.arange(len(rows))[:, None]
    blocks = rows.reshape(len(rows), -1, choices.shape[1])

    def weight(index: Array) -> Array:
        digits = (index // len(choices) ** jnp.arange(places.shape[1])) % len(choices)
        values = jnp.broadcast_to(choices[digits], (len(rows), *digits.shape, choices.shape[1]))
        filled = blocks.at[lines, places].set(values, mode="drop").reshape(rows.shape)
        return -network.free_energy({first: filled}, hidden, heat) / heat

    def chunk(start: Array) -> Array:
        index = start + jnp.arange(together)
        logs = jnp.where((index < states)[:, None], jax.vmap(weight)(index), -jnp.inf)
        return jax.nn.logsumexp(logs, axis=0)

    return jax.nn.logsumexp(jax.lax.map(chunk, jnp.arange(0, states, together)), axis=0)
