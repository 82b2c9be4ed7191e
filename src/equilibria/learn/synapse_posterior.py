r"""The posterior of binary synapses itself, by Monte Carlo: what every approximation to it is measured against.

With M examples and independent priors of natural parameter $\theta^0$ the law of the weights is, up to a constant,

$$ \ln P(\xi \mid \sigma^1 \dots \sigma^M) = \theta^0 \cdot \xi + \sum_{a\mu} \ln 2\cosh(\beta X^a_\mu) - M \ln Z(\xi),
\qquad Z(\xi) = \sum_h \prod_i 2\cosh\Big(\frac{\beta}{\sqrt N} \sum_\mu \xi_{i\mu} h_\mu\Big). $$

Turning one weight over changes one hidden neuron's fields and one factor of each of the $2^P$ terms of Z, so that a step costs
O(M + 2^P). The signs of the posterior's means are the best estimate there is of planted weights.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.learn.synapse_training import as_data, natural_prior
from equilibria.random import as_key
from equilibria.units import Spin

_MOST = 12  # hidden neurons
_ln2cosh = Spin().cumulant


class SynapsePosterior(NamedTuple):
    """Averages over a chain: the `mean` of each weight, (N, P), and the fraction of steps that were `accepted`."""

    mean: Array
    accepted: Array


def sample_synapses(
    data: ArrayLike,
    hidden_size: int,
    *,
    sweeps: int = 2000,
    temperature: float = 1.0,
    prior: ArrayLike = 0.0,
    key: Array | int,
) -> SynapsePosterior:
    """Metropolis sampling of the binary weights of a machine with `hidden_size` hidden spins, given `data` (M, N) of -1 and +1.

    Parameters: `data` may hold several sets of the same size, (sets, M, N), which are sampled side by side; a sweep proposes
    to turn over every weight once, and the first quarter of the `sweeps` is left out; `prior` is the mean of each weight
    before data.

    With an even prior the hidden neurons are alike and each has its mirror image: the means are those of the copy that the
    chain has settled in. Little data, or a long chain, lets it wander between copies, and the means fall to zero.

    >>> data = np.sign(np.random.default_rng(0).standard_normal((4, 5)))
    >>> sample_synapses(data, 2, sweeps=8, key=0).mean.shape
    (5, 2)
    """
    check.count("sweeps", sweeps, least=4)
    check.number("temperature", temperature, above=0.0)
    if check.count("hidden_size", hidden_size) > _MOST:
        check.refuse("hidden_size", hidden_size, f"at most {_MOST}: each step sums over 2^{hidden_size} hidden states")
    given = np.asarray(data)
    sets = [as_data("data", one) for one in (given if given.ndim == 3 else given[None])]
    spins = jnp.asarray(np.stack(sets), jnp.float32)
    shape = (spins.shape[2], hidden_size)
    keys = jax.random.split(as_key(key), len(sets))
    scale = jnp.float32(1 / (temperature * np.sqrt(shape[0])))
    found = _chains(spins, natural_prior(prior, shape), scale, sweeps, keys)
    return found if given.ndim == 3 else SynapsePosterior(*(part[0] for part in found))


@jax.jit(static_argnames="sweeps")
def _chains(data, prior, scale, sweeps, keys):
    return jax.vmap(lambda data, key: _chain(data, prior, scale, sweeps, key))(data, keys)


def _chain(data: Array, prior: Array, scale: Array, sweeps: int, key: Array) -> SynapsePosterior:
    examples, (size, hidden_size) = len(data), prior.shape
    rows = scale * data.T  # what a visible neuron adds to the fields of the examples
    hidden = 2.0 * (jnp.arange(2**hidden_size)[:, None] >> jnp.arange(hidden_size) & 1) - 1
    begin_key, key = jax.random.split(key)
    weights = jnp.where(jax.random.bernoulli(begin_key, 0.5, prior.shape), 1.0, -1.0)
    inside = jnp.sum(_ln2cosh(scale * weights @ hidden.T), axis=0)

    def turn(step, carry):
        weights, fields, inside, accepted, order, threshold = carry
        unit, neuron = order[step] // size, order[step] % size
        row, field = weights[neuron], fields[unit]
        turned = row.at[unit].multiply(-1)
        moved = field - 2 * row[unit] * rows[neuron]
        new = inside + _ln2cosh(scale * hidden @ turned) - _ln2cosh(scale * hidden @ row)
        gain = -2 * row[unit] * prior[neuron, unit] + jnp.sum(_ln2cosh(moved) - _ln2cosh(field))
        gain -= examples * (jax.nn.logsumexp(new) - jax.nn.logsumexp(inside))
        taken = threshold[step] < gain
        return (
            weights.at[neuron].set(jnp.where(taken, turned, row)),
            fields.at[unit].set(jnp.where(taken, moved, field)),
            jnp.where(taken, new, inside),
            accepted + taken,
            order,
            threshold,
        )

    def sweep(index, carry):
        weights, inside, total, accepted = carry
        order_key, threshold_key = jax.random.split(jax.random.fold_in(key, index))
        order = jax.random.permutation(order_key, size * hidden_size)
        threshold = jnp.log(jax.random.uniform(threshold_key, order.shape))
        fields = weights.T @ rows  # anew in each sweep, so that rounding does not add up
        begin = (weights, fields, inside, accepted, order, threshold)
        weights, _, inside, accepted, _, _ = jax.lax.fori_loop(0, size * hidden_size, turn, begin)
        return weights, inside, total + jnp.where(index >= sweeps // 4, weights, 0.0), accepted

    _, _, total, accepted = jax.lax.fori_loop(0, sweeps, sweep, (weights, inside, jnp.zeros_like(prior), jnp.zeros(())))
    return SynapsePosterior(total / (sweeps - sweeps // 4), accepted / (sweeps * size * hidden_size))
