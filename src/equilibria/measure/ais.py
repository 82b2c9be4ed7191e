r"""Annealed importance sampling of ln Z, from below and from above, along any ladder of networks.

Chains start at independent neurons, whose partition function $Z_0$ is known, and are taken (`equilibrators.anneal`) to the
network itself, by way of the networks of a ladder if there is one. The mean of their weights w is Z/Z_0 without bias, so that
its logarithm is low on average; chains that run down from equilibrium give $\langle 1/w \rangle = Z_0/Z$, and a value that is
high on average. Between the two lies ln Z, as far as the chains that start down are at equilibrium.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria.compiled import array
from equilibria.equilibrators import anneal as path
from equilibria.equilibrators.anneal import Annealed
from equilibria.equilibrators.driver import trajectory
from equilibria.equilibrators.ladder import Crossing, crossing
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.convergence import convergence
from equilibria.measure.estimate import Estimate
from equilibria.model.network import Network, State
from equilibria.random import fold_in, split

# The literature's 14,500 steps for a machine of MNIST's size: 500 up to 0.5, 4,000 up to 0.9, 10,000 up to 1.
_SHARES = np.array([0, 500, 4500, 14_500]) / 14_500
_REACHED = np.array([0.0, 0.5, 0.9, 1.0])
_LOOKS, _FEWEST = 50, 10  # at the chains that come to equilibrium before they go down


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


def anneal(network: Network, biases: State, temperature: Array, betas: Array, start: State, key: Array) -> Annealed:
    """Take chains from independent neurons in these biases to a network, or back; see `equilibrators.anneal`."""
    return path.anneal(path.uncoupled(network, biases), network, temperature, betas, start, key)


def log_partition(
    network: Network,
    temperature: float,
    biases: State,
    chains: int,
    steps: int,
    burn_in: int | None,
    key: Array,
    ladder: Sequence[Network] = (),
) -> Estimate:
    """Anneal chains up, and as many down, for ln Z.

    Args:
        network: any network.
        temperature: T.
        biases: of the independent units that annealing starts from, by layer.
        chains: how many.
        steps: how many intervals of beta, shared out between the parts of the way.
        burn_in: sweeps of the chains that go down before they do; None: none go down.
        key: a random key.
        ladder: networks to pass on the way, of the same shape, from the one next to independent units on.

    Returns:
        The value, its error, the bracket and R-hat if chains went down, and the effective number of chains, with a ladder
        also by rung, with the acceptance between rungs; the note then says where on the way most chains were lost, if few are
        left. A chain makes one trip, up or down: there are no round trips to count.
    """
    heat = array(temperature)
    stations = [path.uncoupled(network, biases), *ladder, network]
    parts = list(pairwise(stations))
    betas = schedule(steps) if not ladder else np.linspace(0, 1, -(-steps // len(parts)) + 1)
    draw_key, up_key, choose_key, burn_key, down_key = split(key, 5)
    base = float(path.log_partition_uncoupled(stations[0], heat))
    state = path.drawn_uncoupled(stations[0], heat, chains, draw_key)
    logs, alive, rates = np.zeros(chains, np.float32), [float(chains)], []
    for number, (first, last) in enumerate(parts):
        before, old = state, logs
        state, gained = path.anneal(first, last, heat, array(betas), state, fold_in(up_key, number))
        logs = logs + np.asarray(gained)
        alive.append(_log_mean(logs)[2])
        if number:  # the first part begins at independent neurons, which are no network of the ladder
            rates.append(_acceptance(crossing(first, last, before, state, heat), old, logs))
    low, error, effective = _log_mean(logs)
    note, by_rung = _few(effective, alive, len(ladder)), tuple(alive[1:]) if ladder else ()
    if burn_in is None:
        return Estimate(base + low, error, None, effective, note, by_rung=by_rung, acceptance=tuple(rates))
    state = _chosen(state, array(logs), choose_key)
    state, r_hat = _burnt_in(network, state, temperature, burn_in, burn_key)
    logs = np.zeros(chains, np.float32)
    for number, (first, last) in enumerate(reversed(parts)):
        state, gained = path.anneal(first, last, heat, array(betas[::-1]), state, fold_in(down_key, number))
        logs = logs + np.asarray(gained)
    high = -_log_mean(logs)[0]
    # Low and high on average: where the two agree to within their noise they can come out either way round.
    bracket = (base + min(low, high), base + max(low, high))
    return Estimate(base + low, error, bracket, effective, note, r_hat, by_rung, tuple(rates))


def _burnt_in(
    network: Network, state: State, temperature: float, sweeps: int, key: Array
) -> tuple[State, float | None]:
    """The chains after some sweeps, and R-hat of their energies on the way; None where too few of either can tell."""
    # Some fifty looks tell, and each costs about a sweep; they must come at equal distances.
    apart = next(number for number in range(max(sweeps // _LOOKS, 1), 0, -1) if sweeps % number == 0)
    options: dict[str, Any] = {"observe": network.energy, "every": apart, "temperature": temperature, "key": key}
    rest, seen = trajectory(network, Sweeps(sweeps), state, **options)
    draws = np.asarray(seen, np.float64).T[:, 1:]
    enough = len(draws) > 1 and draws.shape[1] >= _FEWEST and np.isfinite(draws).all()
    return rest.state, convergence(draws).r_hat if enough else None


@jax.jit
def _chosen(state: State, log_weights: Array, key: Array) -> State:
    """As many chains as there are, drawn by their weights."""
    chosen = jax.random.categorical(key, log_weights, shape=log_weights.shape)
    return {name: layer[chosen] for name, layer in state.items()}


def _acceptance(seen: Crossing, first: np.ndarray, second: np.ndarray) -> float:
    """How probable an exchange between two rungs is, over all pairs of chains by their weights at each of the two."""
    shares = [np.exp(logs.astype(np.float64) - logs.max()) for logs in (first, second)]
    odds = np.exp(np.minimum(-np.add.outer(np.asarray(seen.up), np.asarray(seen.down)), 0.0))
    return float(shares[0] @ odds @ shares[1] / (shares[0].sum() * shares[1].sum()))


def _few(effective: float, alive: Sequence[float], ladder: int) -> str:
    if effective >= 5:
        return ""
    where = ""
    if ladder:
        lost = int(np.argmax(np.array(alive[:-1]) / np.array(alive[1:])))
        where = f", most of them lost between rungs {lost} and {lost + 1} of {ladder + 1}"
    return f"only {effective:.1f} effective chains{where}: use more steps, or data for the base"


def _log_mean(log_weights: ArrayLike) -> tuple[float, float, float]:
    """ln of the mean of weights, its standard error to first order, and their effective number."""
    logs = np.asarray(log_weights, np.float64)
    weights = np.exp(logs - logs.max())
    value = logs.max() + np.log(weights.mean())
    error = weights.std(ddof=1) / weights.mean() / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return float(value), float(error), float(weights.sum() ** 2 / (weights**2).sum())
