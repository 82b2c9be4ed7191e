r"""The E-step: averages of the equivalent machine, by any way of bringing it to equilibrium.

The machine has weights $\beta\lambda/\sqrt N$ and hidden fields $\beta \Xi_\mu z_\mu$, z normal (`synapses.bound`); its
averages are taken over its states and over z.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.driver import relax
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.model.network import Network, State
from equilibria.synapses.distribution import Synapses


class Fields(NamedTuple):
    """Points of a Gaussian average.

    Attributes:
        values: z, (F, P).
        weights: (F,), which add up to one.
    """

    values: Array
    weights: Array


def quadrature(hidden_size: int, nodes: int) -> Fields:
    """The trapezoidal rule with `nodes` points in each of the P dimensions.

    For a function as smooth as tanh it converges exponentially, and faster than Gauss's rule, which the function's poles
    hold up: with 13 points the average of 1 - tanh(z)^2 is right to 1e-5, and to 1e-3 with Gauss's 12.

    >>> rule = quadrature(1, 13)
    >>> jnp.isclose(rule.weights @ rule.values[:, 0] ** 2, 1.0, atol=1e-3)
    Array(True, dtype=bool)
    """
    reach = min(4.5, 0.55 * nodes)  # so that the cut-off and the spacing cost about the same
    points = np.linspace(-reach, reach, nodes)
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    grid = np.array(list(product(points, repeat=hidden_size)))
    mass = np.prod(np.array(list(product(weights, repeat=hidden_size))), axis=1)
    return Fields(jnp.asarray(grid, float), jnp.asarray(mass, float))


def drawn(hidden_size: int, count: int, key: Array) -> Fields:
    """`count` standard normal points.

    Not in opposite pairs: what is averaged here is even in z but for the biases' part, so that a pair says little more than
    one of its points (the error of the gradient is larger by a factor of 1.4 at the same cost).

    >>> drawn(3, 8, jax.random.key(0)).values.shape
    (8, 3)
    """
    return Fields(jax.random.normal(key, (count, hidden_size)), jnp.full(count, 1 / count))


class Moments(NamedTuple):
    """What the E-step finds: averages in the equivalent machine, averaged over its fields as well."""

    log_partition: Callable[[], Array | None]  # a sum of its own; None where the equilibrator does not know it
    correlation: Array  # <sigma_i h_mu>, (N, P)
    visible: Array  # <sigma_i>, (N,)
    spread: Array  # 1 - <h_mu>^2, or the E-step's own average of (14), (P,)
    state: State  # where the equilibrator was left
    carry: Any  # and what it goes on from
    unconverged: Array  # the fraction of fields for which it did not come to rest


def samples(how: Equilibrator) -> bool:
    """Whether an E-step draws: its chains are then kept, each with its field, two for every field."""
    return how.kind == "draws" and not how.knows_log_partition


def begin(how: Equilibrator, synapses: Synapses, fields: Fields, start: State) -> Any:
    """What the equilibrator carries from E-step to E-step, from `start`."""
    return how.begin(conditioned(_machines(synapses, fields, start)[0], (), 1.0), start)


def e_step(
    how: Equilibrator, synapses: Synapses, fields: Fields, start: State, key: Array, carry: Any = None
) -> Moments:
    """Bring the equivalent machine to equilibrium, from `start` (a multiple of F chains, by layer).

    The moments are the gradient of what `how` gives for the free energy; ln Z is what it knows of it, if it does. Chains
    beyond the first F are independent copies. An E-step whose means are not those of a law has a method `spread`, which
    averages (14) in its own way.
    """
    network, weights, copies = _machines(synapses, fields, start)
    system = conditioned(network, (), 1.0)
    state, unconverged = start, jnp.zeros(())
    if how.needs_state(system):
        rest = relax(how, system, start, key, carry)
        state, carry = rest.state, rest.carry
        unconverged = unconverged if rest.converged is None else jnp.mean(~rest.converged)

    def averaged(network: Network) -> Array:
        return -weights @ how.free_energy(conditioned(network, (), 1.0), state)

    slope = eqx.filter_grad(averaged)(network)
    hidden = (slope.layers[1].bias / weights[:, None]).reshape(copies, -1, slope.layers[1].size)
    spread = getattr(how, "spread", _by_parts)(fields, hidden, synapses.width)
    known = eqx.Partial(_log_partition, how, system, state, weights)
    return Moments(known, slope.couplings[0].weights, slope.layers[0].bias, spread, state, carry, unconverged)


def _log_partition(how: Equilibrator, system: Conditioned, state: State, weights: Array) -> Array | None:
    """ln Z of the equivalent machine, averaged over its fields; None where the equilibrator does not know it."""
    known = how.log_partition(system, state)
    return None if known is None else weights @ known


def _by_parts(fields: Fields, hidden: Array, width: Array) -> Array:
    """E[z m]/Xi of (14), integrated by parts: 1 - E[m^2], from the means (copy, field, P) of the hidden neurons."""
    copies = len(hidden)
    # For copies that are draws, the product of two different ones is the unbiased estimate of the mean's square.
    square = (jnp.sum(hidden, axis=0) ** 2 - jnp.sum(hidden**2, axis=0)) / max(copies * (copies - 1), 1)
    return 1 - fields.weights @ (square if copies > 1 else hidden[0] ** 2)


def _machines(synapses: Synapses, fields: Fields, start: State) -> tuple[Network, Array, int]:
    """The equivalent machine for every chain, with the chains' weights, and how many chains a field has."""
    copies = max(len(start["hidden"]) // len(fields.weights), 1)
    weights = jnp.tile(fields.weights, copies) / copies
    return synapses.equivalent(jnp.tile(fields.values, (copies, 1))), weights, copies
