r"""Annealed importance sampling of ln Z, from below and from above.

A network with its couplings switched off has a known partition function $Z_0$. Along the path

$$ E_\beta = E_{\text{self}} - \sum_i [(1-\beta) a_i + \beta b_i] s_i - \beta \sum_{(ij)} W_{ij} s_i s_j,
   \qquad 0 = \beta_0 < \dots < \beta_K = 1 $$

every chain is swept once at each $\beta$ and collects $\ln w = \sum_k [F_{\beta_k} - F_{\beta_{k+1}}](s_k)/T$, with one
colour of layers summed out in F; then $\langle w \rangle = Z/Z_0$ exactly (Neal 2001; Salakhutdinov and Murray 2008).
The mean of w is unbiased, so that its logarithm is low on average; chains that run down from equilibrium at $\beta = 1$
give $\langle 1/w \rangle = Z_0/Z$, and a value that is high on average. Between the two lies ln Z, as far as the chains
that start down are at equilibrium.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.estimate import Estimate
from equilibria.model.network import Layer, Network, State

# The literature's 14,500 steps for a machine of MNIST's size: 500 up to 0.5, 4,000 up to 0.9, 10,000 up to 1.
_SHARES = np.array([0, 500, 4500, 14_500]) / 14_500
_REACHED = np.array([0.0, 0.5, 0.9, 1.0])
_Chains: TypeAlias = tuple[State, Array, Array]  # the state, the logarithm of the weights, the number of the step


def schedule(steps: int) -> np.ndarray:
    """Values of beta from 0 to 1, spaced as in the literature: densest near 1.

    Args:
        steps: how many intervals.

    Returns:
        (steps + 1,).

    >>> schedule(29).round(3)[[0, 1, 9, 29]]
    array([0. , 0.5, 0.9, 1. ], dtype=float32)
    """
    return np.interp(np.linspace(0, 1, steps + 1), _SHARES, _REACHED).astype(np.float32)


class Annealed(NamedTuple):
    """What annealing leaves.

    Attributes:
        state: where the chains ended.
        log_weights: (chains,), the logarithm of their weights.
    """

    state: State
    log_weights: Array


def log_partition_without_couplings(network: Network, biases: State, temperature: Array) -> Array:
    """The logarithm of Z of the network's units in these biases alone."""
    terms = (
        jnp.sum(layer.unit.heated(temperature).cumulant(biases[layer.name] / temperature)) for layer in network.layers
    )
    return sum(terms, start=jnp.zeros(()))


@eqx.filter_jit
def drawn_without_couplings(network: Network, biases: State, temperature: Array, chains: int, key: Array) -> State:
    """Independent draws of every unit in these biases alone."""
    keys = jax.random.split(key, len(network.layers))
    return {
        layer.name: layer.unit.heated(temperature).sample(
            here, jnp.broadcast_to(biases[layer.name] / temperature, (chains, layer.size))
        )
        for layer, here in zip(network.layers, keys, strict=True)
    }


@eqx.filter_jit
def anneal(network: Network, biases: State, temperature: Array, betas: Array, start: State, key: Array) -> Annealed:
    """Take chains through a range of beta, with one sweep at each but the first.

    Args:
        network: at beta = 1.
        biases: of the independent units at beta = 0, by layer.
        temperature: T.
        betas: upwards or downwards.
        start: by layer, (chains, size).
        key: a random key.

    Returns:
        The last state and the chains' weights.
    """
    path = _Path(network, biases, jnp.asarray(temperature, float))
    whole = conditioned(network, (), temperature)

    def advance(carry: _Chains, here: tuple[Array, Array]) -> tuple[_Chains, None]:
        state, log_weights, step = carry
        before, after = here
        pulls = {name: path.pull(state, name) for name in whole.integrable}
        log_weights += path.gain(state, pulls, before, after)
        state = path.swept(state, pulls, after, jax.random.fold_in(key, step))
        return (state, log_weights, step + 1), None

    chains = len(next(iter(start.values())))
    first = ({name: jnp.asarray(layer, float) for name, layer in start.items()}, jnp.zeros(chains), jnp.zeros((), int))
    (state, log_weights, _), _ = jax.lax.scan(advance, first, (betas[:-1], betas[1:]))
    return Annealed(state, log_weights)


class _Path(eqx.Module):
    """The networks between independent units and the network itself."""

    network: Network
    biases: State
    temperature: Array

    def bias(self, name: str, beta: Array) -> Array:
        return (1 - beta) * self.biases[name] + beta * self.network.layer(name).bias

    def pull(self, state: State, name: str) -> Array:
        """What the other layers exert on a layer at beta = 1; computed once for every use at one state."""
        return self.network.field(state, name) - self.network.layer(name).bias

    def at(self, beta: Array) -> Network:
        """The network at one beta."""
        layers = [Layer(layer.name, layer.unit, self.bias(layer.name, beta)) for layer in self.network.layers]
        return Network(layers, [coupling.scaled(beta) for coupling in self.network.couplings])

    def gain(self, state: State, pulls: dict[str, Array], before: Array, after: Array) -> Array:
        """The increment of ln w: the differences are taken neuron by neuron, where single precision keeps them."""
        rest = [name for name in self.network.names if name not in pulls]
        total = jnp.zeros(())
        for name in rest:
            slope = self.network.layer(name).bias - self.biases[name]
            total += (after - before) * (state[name] @ slope) / self.temperature
        for coupling in self.network.couplings:
            if not set(coupling.ends) & set(pulls):
                total -= (after - before) * coupling.energy(*(state[end] for end in coupling.ends)) / self.temperature
        for name, pull in pulls.items():
            unit = self.network.layer(name).unit.heated(self.temperature)
            cumulants = [
                unit.cumulant((self.bias(name, beta) + beta * pull) / self.temperature) for beta in (after, before)
            ]
            total += jnp.sum(cumulants[0] - cumulants[1], axis=-1)
        return total

    def swept(self, state: State, pulls: dict[str, Array], beta: Array, key: Array) -> State:
        """One sweep at this beta: the layers whose pulls are known first, then the others."""
        rest = [name for colour in reversed(self.network.colours) for name in colour if name not in pulls]
        for name in [*pulls, *rest]:
            here = jax.random.fold_in(key, self.network.names.index(name))
            if name in self.network.lateral:
                moved = Sweeps(1).updated(conditioned(self.at(beta), (), self.temperature), state, name, here)
            else:
                pull = pulls[name] if name in pulls else self.pull(state, name)
                unit = self.network.layer(name).unit.heated(self.temperature)
                moved = unit.sample(here, (self.bias(name, beta) + beta * pull) / self.temperature)
            state = {**state, name: moved}
        return state


def log_partition(
    network: Network, temperature: float, biases: State, chains: int, steps: int, burn_in: int | None, key: Array
) -> Estimate:
    """Anneal chains up, and as many down, for ln Z.

    Args:
        network: any network.
        temperature: T.
        biases: of the independent units that annealing starts from, by layer.
        chains: how many.
        steps: how many intervals of beta.
        burn_in: sweeps of the chains that go down before they do; None: none go down.
        key: a random key.

    Returns:
        The value, its error, the bracket if chains went down, and the effective number of chains.
    """
    heat = jnp.asarray(temperature, float)
    betas = jnp.asarray(schedule(steps))
    draw_key, up_key, choose_key, burn_key, down_key = jax.random.split(key, 5)
    base = float(log_partition_without_couplings(network, biases, heat))
    start = drawn_without_couplings(network, biases, heat, chains, draw_key)
    up = anneal(network, biases, heat, betas, start, up_key)
    low, error, effective = _log_mean(up.log_weights)
    if burn_in is None:
        return Estimate(base + low, error, None, effective, _few(effective))
    chosen = jax.random.categorical(choose_key, up.log_weights, shape=(chains,))
    state = {name: layer[chosen] for name, layer in up.state.items()}
    state = equilibrate(network, Sweeps(burn_in), state, temperature=temperature, key=burn_key).state
    down = anneal(network, biases, heat, betas[::-1], state, down_key)
    high = -_log_mean(down.log_weights)[0]
    # Low and high on average: where the two agree to within their noise they can come out either way round.
    bracket = (base + min(low, high), base + max(low, high))
    return Estimate(base + low, error, bracket, effective, _few(effective))


def _few(effective: float) -> str:
    return "" if effective >= 5 else f"only {effective:.1f} effective chains: use more steps, or data for the base"


def _log_mean(log_weights: Array) -> tuple[float, float, float]:
    """ln of the mean of weights, its standard error to first order, and their effective number."""
    logs = np.asarray(log_weights, np.float64)
    weights = np.exp(logs - logs.max())
    value = logs.max() + np.log(weights.mean())
    error = weights.std(ddof=1) / weights.mean() / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return float(value), float(error), float(weights.sum() ** 2 / (weights**2).sum())
