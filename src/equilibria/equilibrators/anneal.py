r"""Annealing: chains that are taken along a path of networks, with weights that keep account of what the path changed.

Between two networks of one shape lies a straight line in their parameters,

$$ E_\beta = (1-\beta) E_0 + \beta E_1, \qquad 0 = \beta_0 < \dots < \beta_K = 1. $$

Every chain is swept once at each $\beta$ and collects $\ln w = \sum_k [F_{\beta_k} - F_{\beta_{k+1}}](s_k)/T$, with one
colour of layers summed out in F; then $\langle w \rangle = Z_1/Z_0$ exactly (Neal 2001; Salakhutdinov and Murray 2008).
The first network may have no couplings: independent neurons, whose Z is known. Fields are linear in the parameters, so
that a field on the way is a mixture of the fields at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria.compiled import strong
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import Layer, Network, State

_Chains: TypeAlias = tuple[State, Array, Array]  # the state, the logarithm of the weights, the number of the step


class Annealed(NamedTuple):
    """What annealing leaves.

    Attributes:
        state: where the chains ended.
        log_weights: (chains,), the logarithm of their weights.
    """

    state: State
    log_weights: Array


def uncoupled(network: Network, biases: State) -> Network:
    """The network's units by themselves, in these biases.

    >>> import equilibria as eq
    >>> uncoupled(eq.rbm(3, 2, key=0), {"visible": jnp.ones(3), "hidden": jnp.zeros(2)}).couplings
    ()
    """
    return Network([Layer(layer.name, layer.unit, biases[layer.name]) for layer in network.layers])


@eqx.filter_jit
def log_partition_uncoupled(network: Network, temperature: Array) -> Array:
    """The logarithm of Z of the network's units in its biases alone."""
    terms = (jnp.sum(layer.unit.heated(temperature).cumulant(layer.bias / temperature)) for layer in network.layers)
    return sum(terms, start=jnp.zeros(()))


@eqx.filter_jit
def drawn_uncoupled(network: Network, temperature: Array, chains: int, key: Array) -> State:
    """Independent draws of every unit in its bias alone."""
    keys = jax.random.split(key, len(network.layers))
    drawn = {
        layer.name: layer.unit.heated(temperature).sample(
            here, jnp.broadcast_to(layer.bias / temperature, (chains, layer.size))
        )
        for layer, here in zip(network.layers, keys, strict=True)
    }
    return strong(drawn)  # another type would compile the annealing again


@eqx.filter_jit
def anneal(first: Network, last: Network, temperature: Array, betas: Array, start: State, key: Array) -> Annealed:
    """Take chains through a range of beta, with one sweep at each but the first.

    Args:
        first: at beta = 0, of the shape of the last or without couplings.
        last: at beta = 1.
        temperature: T.
        betas: upwards or downwards.
        start: by layer, (chains, size).
        key: a random key.

    Returns:
        The last state and the chains' weights.
    """
    path = _Path(first, last, jnp.asarray(temperature, float))
    whole = conditioned(last, (), temperature)

    def advance(carry: _Chains, here: tuple[Array, Array]) -> tuple[_Chains, None]:
        state, log_weights, step = carry
        before, after = here
        pulls = {name: path.pulls(state, name) for name in whole.integrable}
        log_weights += path.gain(state, pulls, before, after)
        state = path.swept(state, pulls, after, jax.random.fold_in(key, step))
        return (state, log_weights, step + 1), None

    chains = len(next(iter(start.values())))
    begun = ({name: jnp.asarray(layer, float) for name, layer in start.items()}, jnp.zeros(chains), jnp.zeros((), int))
    (state, log_weights, _), _ = jax.lax.scan(advance, begun, (betas[:-1], betas[1:]))
    return strong(Annealed(state, log_weights))


class _Path(eqx.Module):
    """The networks between two."""

    first: Network
    last: Network
    temperature: Array

    @property
    def _ends(self) -> Sequence[Network]:
        return (self.first, self.last) if self.first.couplings else (self.last,)

    def bias(self, name: str, beta: Array) -> Array:
        return (1 - beta) * self.first.layer(name).bias + beta * self.last.layer(name).bias

    def pulls(self, state: State, name: str) -> list[Array]:
        """What the other layers exert on a layer at the ends that have couplings; computed once for every use at one state."""
        return [end.field(state, name) - end.layer(name).bias for end in self._ends]

    def field(self, pulls: list[Array], name: str, beta: Array) -> Array:
        """The field on a layer at one beta."""
        mixed = beta * pulls[-1] if len(pulls) == 1 else (1 - beta) * pulls[0] + beta * pulls[1]
        return self.bias(name, beta) + mixed

    def at(self, beta: Array) -> Network:
        """The network at one beta."""
        layers = [Layer(layer.name, layer.unit, self.bias(layer.name, beta)) for layer in self.last.layers]
        if len(self._ends) == 1:
            return Network(layers, [coupling.scaled(beta) for coupling in self.last.couplings])
        mixed = jax.tree.map(lambda a, b: (1 - beta) * a + beta * b, self.first.couplings, self.last.couplings)
        return Network(layers, mixed)

    def gain(self, state: State, pulls: dict[str, list[Array]], before: Array, after: Array) -> Array:
        """The increment of ln w: the differences are taken neuron by neuron, where single precision keeps them."""
        rest = [name for name in self.last.names if name not in pulls]
        total = jnp.zeros(())
        for name in rest:
            slope = self.last.layer(name).bias - self.first.layer(name).bias
            total += (after - before) * (state[name] @ slope) / self.temperature
        for sign, network in zip((1, -1), (self.last, self.first), strict=True):
            for coupling in network.couplings:
                if not set(coupling.ends) & set(pulls):
                    energy = coupling.energy(*(state[end] for end in coupling.ends))
                    total -= sign * (after - before) * energy / self.temperature
        for name, pull in pulls.items():
            unit = self.last.layer(name).unit.heated(self.temperature)
            cumulants = [unit.cumulant(self.field(pull, name, beta) / self.temperature) for beta in (after, before)]
            total += jnp.sum(cumulants[0] - cumulants[1], axis=-1)
        return total

    def swept(self, state: State, pulls: dict[str, list[Array]], beta: Array, key: Array) -> State:
        """One sweep at this beta: the layers whose pulls are known first, then the others."""
        rest = [name for colour in reversed(self.last.colours) for name in colour if name not in pulls]
        for name in [*pulls, *rest]:
            here = jax.random.fold_in(key, self.last.names.index(name))
            if name in self.last.lateral:
                moved = Sweeps(1).updated(conditioned(self.at(beta), (), self.temperature), state, name, here)
            else:
                pull = pulls[name] if name in pulls else self.pulls(state, name)
                unit = self.last.layer(name).unit.heated(self.temperature)
                moved = unit.sample(here, self.field(pull, name, beta) / self.temperature)
            state = {**state, name: moved}
        return state
