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
from equilibria.compiled import array, strong
from equilibria.model.units import Spin
from equilibria.progress import chunks as paced
from equilibria.random import as_key, split_array
from equilibria.synapses.data import as_data, natural_prior

_MOST = 12  # hidden neurons
_ln2cosh = Spin().cumulant


class SynapsePosterior(NamedTuple):
    """Averages over a chain that samples the posterior; with a leading axis for several data sets.

    Attributes:
        mean: of each weight, (N, P).
        accepted: the fraction of steps that were accepted.

    >>> data = np.sign(np.random.default_rng(0).standard_normal((4, 5)))
    >>> found = sample_synapses(data, 2, sweeps=8, key=0)
    >>> found.mean.shape, bool(0 < found.accepted <= 1)
    ((5, 2), True)
    """

    mean: Array
    accepted: Array


def sample_synapses(
    data: ArrayLike,
    hidden_size: int,
    *,
    sweeps: int = 2000,
    temperature: float = 1.0,
    prior: ArrayLike = 0.0,
    show_progress: bool | None = None,
    key: Array | int,
) -> SynapsePosterior:
    r"""Metropolis sampling of the binary weights of a machine, given data: the posterior itself.

    $$ P(\xi \mid \sigma^1 \dots \sigma^M) \propto e^{\theta^0 \cdot \xi - M \ln Z(\xi)} \prod_{a\mu} 2\cosh(\beta X^a_\mu) $$

    (Huang 2019, equation 3, with a prior of natural parameter $\theta^0$). A sweep proposes to turn over every weight once, and
    the first quarter of the sweeps is left out.

    With an even prior the hidden neurons are alike and each has its mirror image: the means are those of the copy that the
    chain has settled in. Little data, or a long chain, lets it wander between copies, and the means fall to zero.

    Args:
        data: (M, N) of -1 and +1, or several sets of the same size, (sets, M, N), which are sampled side by side.
        hidden_size: the number P of hidden spins, at most 12.
        sweeps: how many.
        temperature: $1/\beta$.
        prior: the mean of each weight before data, one or (N, P).
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The mean of each weight, and how many steps were accepted.

    Raises:
        ValueError: if there are too many hidden spins, data have other values, or a number is out of its range.

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
    spins = array(np.stack(sets), np.float32)
    shape = (spins.shape[2], hidden_size)
    machine = _Machine(spins, natural_prior(prior, shape), array(1 / (temperature * np.sqrt(shape[0])), np.float32))
    chains, keys = _begun(machine, split_array(as_key(key), len(sets)))
    for until in paced(0, sweeps, "sampling", "sweep", show=show_progress):
        chains = _advance(machine, chains, array(until, int), array(sweeps // 4, int), keys)
        chains.sweep.block_until_ready()  # so that the pace is that of the work
    made = np.float32(sweeps - sweeps // 4), np.float32(sweeps * shape[0] * shape[1])
    found = np.asarray(chains.total) / made[0], np.asarray(chains.accepted) / made[1]
    return SynapsePosterior(*(array(part if given.ndim == 3 else part[0]) for part in found))


class _Machine(NamedTuple):
    data: Array  # (sets, M, N)
    prior: Array  # natural parameters, (N, P)
    scale: Array  # what a weight contributes to a field

    @property
    def hidden(self) -> Array:
        """All states of the hidden layer, (2^P, P)."""
        units = jnp.arange(self.prior.shape[1])
        return 2.0 * (jnp.arange(2 ** len(units))[:, None] >> units & 1) - 1


class _Chain(NamedTuple):
    sweep: Array
    weights: Array
    inside: Array  # what the visible layer contributes to each hidden state
    total: Array  # of the weights, after the sweeps that are left out
    accepted: Array


@jax.jit
def _begun(machine: _Machine, keys: Array) -> tuple[_Chain, Array]:
    """Chains at random weights, and the keys that they go on with."""

    def begun(key: Array) -> _Chain:
        weights = jnp.where(jax.random.bernoulli(key, 0.5, machine.prior.shape), 1.0, -1.0)
        inside = jnp.sum(_ln2cosh(machine.scale * weights @ machine.hidden.T), axis=0)
        return _Chain(jnp.zeros((), int), weights, inside, jnp.zeros_like(weights), jnp.zeros(()))

    begin_keys, keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    return strong(jax.vmap(begun)(begin_keys)), keys


@jax.jit
def _advance(machine: _Machine, chains: _Chain, until: Array, left_out: Array, keys: Array) -> _Chain:
    def advanced(data: Array, chain: _Chain, key: Array) -> _Chain:
        rows = machine.scale * data.T  # what a visible neuron adds to the fields of the examples

        def sweep(chain: _Chain) -> _Chain:
            moved = _sweep(machine, rows, chain, jax.random.fold_in(key, chain.sweep))
            kept = jnp.where(chain.sweep >= left_out, moved.weights, 0.0)
            return moved._replace(sweep=chain.sweep + 1, total=chain.total + kept)

        return jax.lax.while_loop(lambda chain: chain.sweep < until, sweep, chain)

    return strong(jax.vmap(advanced)(machine.data, chains, keys))


def _sweep(machine: _Machine, rows: Array, chain: _Chain, key: Array) -> _Chain:
    """Every weight proposed once, in a random order."""
    prior, scale, hidden, (size, _) = machine.prior, machine.scale, machine.hidden, machine.prior.shape
    order_key, threshold_key = jax.random.split(key)
    order = jax.random.permutation(order_key, prior.size)
    threshold = jnp.log(jax.random.uniform(threshold_key, order.shape))

    def turn(step: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        weights, fields, inside, accepted = carry
        unit, neuron = order[step] // size, order[step] % size
        row, field = weights[neuron], fields[unit]
        turned = row.at[unit].multiply(-1)
        moved = field - 2 * row[unit] * rows[neuron]
        new = inside + _ln2cosh(scale * hidden @ turned) - _ln2cosh(scale * hidden @ row)
        gain = -2 * row[unit] * prior[neuron, unit] + jnp.sum(_ln2cosh(moved) - _ln2cosh(field))
        gain -= rows.shape[1] * (jax.nn.logsumexp(new) - jax.nn.logsumexp(inside))
        taken = threshold[step] < gain
        return (
            weights.at[neuron].set(jnp.where(taken, turned, row)),
            fields.at[unit].set(jnp.where(taken, moved, field)),
            jnp.where(taken, new, inside),
            accepted + taken,
        )

    fields = chain.weights.T @ rows  # anew in each sweep, so that rounding does not add up
    begin = (chain.weights, fields, chain.inside, chain.accepted)
    weights, _, inside, accepted = jax.lax.fori_loop(0, prior.size, turn, begin)
    return chain._replace(weights=weights, inside=inside, accepted=accepted)
