r"""The E-step as Huang 2019 writes it, with all of its approximations.

The hidden layer is summed out, and what a hidden neuron $\mu$ hears is taken to be normal: of mean
$\beta\chi_\mu = \sum_j w_{j\mu} m_{j \to \mu}$ and variance $\sum_j w_{j\mu}^2 (1 - m_{j \to \mu}^2)$, with
$w = \beta\lambda/\sqrt N$. Messages are (10), ln Z is (11), the moments are (15). The correlation (15c) of a pair counts only
the edge between the two, so that it lacks what they have in common with other neurons; `Cavity` with `response` does not.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria.equilibrators.bethe import Spins, neurons_first, spins
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.model.network import State
from equilibria.model.units import Spin
from equilibria.synapses.e_step import Fields, quadrature

_BELOW_ONE = 1 - 2.0**-23
_NODES = 13  # of the integrals over z in (15)
_FACTORS = 5  # of (1 + t)/(1 - t) <= 2^24 in one product, which single precision can hold
_NARROW = 1e-6  # a hidden field without width, whose weights are known, has nothing to average
_EDGE_STEPS = 6  # each brings the messages of an edge closer by its coupling squared, about 1/N


class PaperCavity(Cavity):
    r"""Message passing (10) between visible spins and weakly coupled hidden ones, with the moments (15) of Huang 2019.

    The state reached holds the means $m_i$ (15a) of the visible spins, and of the hidden ones $\tanh(\beta\chi_\mu + \beta
    H_\mu)$, what the messages make of them; the moments are (15b-d), and (14) is averaged with its factor $z/\Xi$.

    Args:
        steps: the most iterations of (10).
        tolerance: stops when no mean moves by more.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(20, 3, visible=eq.Spin(), hidden=eq.Spin(), key=0), eq.PaperCavity())
    >>> bool(rest.converged), rest["hidden"].shape
    (True, (3,))
    """

    def __init__(self, steps: int | Array = 50, tolerance: ArrayLike | None = 1e-4):
        super().__init__(steps, tolerance=tolerance)

    def begin(self, system: Conditioned, state: State) -> Array | None:
        """The messages of the visible spins, each at first its mean."""
        if system.independent:
            return None
        first, second = system.inner.couplings[0].ends
        mean = jnp.moveaxis(state[first], -1, 0)[:, None]
        return jnp.broadcast_to(mean, (mean.shape[0], state[second].shape[-1], *mean.shape[2:]))

    def step(self, system: Conditioned, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """One iteration of (10)."""
        if system.independent:
            return super().step(system, state, carry, key)
        pair = neurons_first(spins(system), carry.ndim - 2)
        heard = pair.second + jnp.sum(pair.coupling * carry, axis=0)
        tilt = _tilts(pair, heard, carry)
        mean = jnp.tanh(pair.first + _total(tilt))
        first, second = system.inner.couplings[0].ends
        means = {first: mean, second: jnp.tanh(heard)}
        moved = {name: jnp.moveaxis(mean, 0, -1) for name, mean in means.items()}
        return {**state, **moved}, _without(mean[:, None], tilt)

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """Its value is -T ln Z of (11), its gradient are the moments (15)."""
        if system.independent:
            return super().free_energy(system, state)
        pair = spins(system)
        means = [jax.lax.stop_gradient(state[name]) for name in system.inner.couplings[0].ends]
        value = jax.lax.stop_gradient(_log_partition(pair, *means))
        parts = (pair.first, pair.second, pair.coupling)
        for average, part, axes in zip(moments(pair, means[0]), parts, ((-1,), (-1,), (-2, -1)), strict=True):
            value += jnp.sum(jax.lax.stop_gradient(average) * (part - jax.lax.stop_gradient(part)), axis=axes)
        return -system.temperature * value

    def spread(self, fields: Fields, hidden: Array, width: Array) -> Array:
        r"""E[z m]/Xi as (14) has it, from the means (1, field, P): by (15b) it is not E[1 - m^2]."""
        return fields.weights @ (fields.values * hidden[0]) / jnp.maximum(width, _NARROW)


def moments(pair: Spins, first: Array) -> tuple[Array, Array, Array]:
    """The means of both layers and the correlations of pairs (15b-d), from the means of the visible spins (..., N).

    Args:
        pair: the two layers.
        first: m_i of (15a).

    Returns:
        The means (..., N) and (..., P), and <sigma h>, (..., N, P).

    >>> pair = Spins(jnp.array([[0.1]]), jnp.zeros(1), jnp.zeros(1), jnp.zeros(()))
    >>> round(float(moments(pair, jnp.zeros(1))[2][0, 0]), 3)
    0.099
    """
    rule = quadrature(1, _NODES)
    free = 1 - first**2
    centre = jnp.einsum("...i,...im->...m", first, pair.coupling) + pair.second
    width = jnp.sqrt(jnp.einsum("...i,...im->...m", free, pair.coupling**2))
    response = jnp.tanh(centre[..., None] + width[..., None] * rule.values[:, 0])
    hidden, slack = response @ rule.weights, 1 - response**2 @ rule.weights
    direct = pair.coupling * free[..., :, None] * slack[..., None, :]
    return first, hidden, first[..., :, None] * hidden[..., None, :] + direct


def _tilts(pair: Spins, heard: Array, messages: Array) -> Array:
    """The tanh of the messages (10b) to the visible spins, neurons first."""
    return jnp.clip(jnp.tanh(heard - pair.coupling * messages) * jnp.tanh(pair.coupling), -_BELOW_ONE, _BELOW_ONE)


def _total(tilt: Array) -> Array:
    """The messages' sum over hidden neurons, sum_mu atanh(t), of tilts (N, P, ...): a logarithm for each few of them."""
    pieces = -(-tilt.shape[1] // _FACTORS)
    room = [(0, 0)] * tilt.ndim
    if pieces > 1:
        room[1] = (0, pieces * _FACTORS - tilt.shape[1])  # a tilt of zero is a factor of one
    parts = jnp.pad(tilt, room).reshape(tilt.shape[0], pieces, -1, *tilt.shape[2:])
    return jnp.sum(jnp.log(jnp.prod(1 + parts, axis=2) / jnp.prod(1 - parts, axis=2)), axis=1) / 2


def _without(mean: Array, tilt: Array) -> Array:
    """A mean tanh(F) when a message is taken from its field: tanh(F - atanh(t)) = (tanh F - t) / (1 - t tanh F)."""
    mean = jnp.clip(mean, -_BELOW_ONE, _BELOW_ONE)
    return (mean - tilt) / (1 - mean * tilt)


def _log_partition(pair: Spins, first: Array, second: Array) -> Array:
    """ln Z of (11), with 2 cosh for cosh as everywhere here; the messages are those that leave these means.

    The sum over i of F_i less N - 1 times that of F_mu is written as a sum of differences, which single precision can hold.
    """
    chains = jnp.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    pair = neurons_first(pair, len(chains))
    mean, active = (jnp.clip(jnp.moveaxis(part, -1, 0), -_BELOW_ONE, _BELOW_ONE) for part in (first, second))
    heard = jnp.arctanh(active)
    messages = jnp.broadcast_to(mean[:, None], (len(mean), len(heard), *chains))
    for _ in range(_EDGE_STEPS):
        messages = _without(mean[:, None], _tilts(pair, heard, messages))
    pull = pair.coupling * messages
    free = pair.coupling**2 * (1 - messages**2)  # of Lambda^2
    cosh = Spin().cumulant
    edges = cosh(heard - pull + pair.coupling) - cosh(heard) - free / 2
    alone = pair.first + jax.nn.softplus(-2 * (pair.first + _total(_tilts(pair, heard, messages))))
    factors = jnp.sum(free, axis=0) / 2 + cosh(heard)
    return pair.constant + jnp.sum(alone, axis=0) + jnp.sum(edges, axis=(0, 1)) + jnp.sum(factors, axis=0)
