r"""A population of chains that follows a network while it learns, each chain with a weight.

Chains that never cross from one cluster to another cannot tell how a change of the network has changed the clusters' shares.
Weights can: when the free energy over the temperature changes from $f$ to $f'$,

$$ \ln w \leftarrow \ln w + f(x) - f'(x), \qquad Z'/Z = \langle w\,e^{f - f'} \rangle / \langle w \rangle, $$

and weighted averages over the chains are those of the new network, whether or not a chain ever leaves its cluster (Jarzynski
1997; Neal 2001; in learning Carbone, Hua, Coste and Vanden-Eijnden 2023).

A weight must not be taken from the states that the change itself was computed from. An update is largest along just their
fluctuations, and the estimate of $Z'/Z$ would miss, in each cluster and at each update, the rate times the variance of the
statistics over the number of chains. So learning sees the states before some sweeps, and the weights those after.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, whole
from equilibria.equilibrators.ladder import reduced
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import State


class Population(NamedTuple):
    """What the weighted chains carry along.

    Attributes:
        states: of every chain, (chains, size) by layer.
        reduced: (chains,), the free energy over the temperature in the network that they were last swept in.
        log_weights: (chains,), the mean of the weights is 1.
        log_partition: ln Z of the network less that of the network they began in.
        effective: the effective number of chains (Kish) when they were last seen.
    """

    states: State
    reduced: Array
    log_weights: Array
    log_partition: Array
    effective: Array


class Reweighted(Equilibrator):
    r"""Chains with weights that follow a network as it changes, for the free phase of a recipe (`reweighted`).

    $$ \ln w \leftarrow \ln w + f(x) - f'(x) $$

    The state seen is drawn from the population by its weights. The population itself keeps them, until the effective number
    of chains falls below a share; then it is drawn anew, and all weights are 1. In a network that does not change it is
    sweeps. `Equilibrium.info` holds "effective_chains", in training it is in the history: a number that stays low says that
    the rate is too high for the chains.

    Args:
        steps: rounds: weights, what is seen, sweeps.
        sweeps: in each round.
        least: the share of effective chains below which the population is drawn anew.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(6, 3, key=0), Reweighted(2, sweeps=5), chains=10, key=1)
    >>> rest["visible"].shape, float(rest.info["effective_chains"])
    ((10, 6), 10.0)
    """

    steps: Array
    sweeps: Array
    least: Array
    tolerance: None

    def __init__(self, steps: int | Array, sweeps: int | Array = 10, least: ArrayLike = 0.5):
        self.steps, self.sweeps, self.tolerance = whole("steps", steps), whole("sweeps", sweeps), None
        self.least = array(check.number("least", least, least=0.0, most=1.0))

    @property
    def kind(self) -> Kind:
        """It draws."""
        return "draws"

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero, where there are no weights."""
        check.number("temperature", system.temperature, above=0.0)

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent, whose averages are known."""
        return not system.independent

    def clamped(self) -> Sweeps:
        """Plain sweeps: where data are held there are no clusters to weigh."""
        return Sweeps(self.sweeps)

    def begin(self, system: Conditioned, state: State) -> Population:
        """All chains with the same weight."""
        free = reduced(system, state)
        chains = jnp.asarray(free.size, float)
        return Population(state, free, jnp.zeros_like(free), jnp.zeros(()), chains)

    def info(self, carry: Population) -> dict[str, Array]:
        """The "effective_chains"."""
        return {"effective_chains": carry.effective}

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """As sweeps have it: one colour of layers summed out."""
        return system.summed_out(state)

    def step(self, system: Conditioned, state: State, carry: Population, key: Array) -> tuple[State, Population]:
        """What is seen of the population in the network as it is, and the population after its sweeps."""
        draw_key, sweep_key = jax.random.split(key)
        logs = carry.log_weights + carry.reduced - reduced(system, carry.states)
        change = jax.nn.logsumexp(logs) - jnp.log(float(logs.size))
        logs = logs - change
        effective = logs.size**2 / jnp.sum(jnp.exp(2 * logs))
        seen = _drawn(carry.states, logs, draw_key)
        few = effective < self.least * logs.size
        states = {name: jnp.where(few, seen[name], layer) for name, layer in carry.states.items()}

        def sweep(step: Array, states: State) -> State:
            return system.imposed(Sweeps(1).step(system, states, None, jax.random.fold_in(sweep_key, step))[0])

        states = jax.lax.fori_loop(0, self.sweeps, sweep, states)
        weights = jnp.where(few, 0.0, logs)
        return seen, Population(
            states, reduced(system, states), weights, carry.log_partition + change, jnp.asarray(effective, float)
        )


def _drawn(states: State, logs: Array, key: Array) -> State:
    """As many chains, each as often as its weight says, rounded by one random number for all (systematic resampling)."""
    chains = logs.size
    places = (jnp.arange(chains) + jax.random.uniform(key)) / chains
    chosen = jnp.searchsorted(jnp.cumsum(jax.nn.softmax(logs.ravel())), places)
    chosen = jnp.minimum(chosen, chains - 1)  # the sum of the weights may end a little below 1
    return {name: layer.reshape(chains, layer.shape[-1])[chosen].reshape(layer.shape) for name, layer in states.items()}
