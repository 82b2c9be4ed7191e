"""Exact enumeration in NumPy and float64, independent of the library's own sums."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from equilibria import Dense, Factored, Network


class Enumeration(NamedTuple):
    """Every configuration of a discrete network with its probability."""

    states: np.ndarray  # (configurations, neurons), layers one after the other
    energies: np.ndarray
    probabilities: np.ndarray
    log_partition: float


def matrix(network: Network) -> np.ndarray:
    """All couplings as one symmetric matrix over all neurons."""
    ends = np.cumsum([0, *(layer.size for layer in network.layers)])
    place = {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(network.names)}
    whole = np.zeros((ends[-1], ends[-1]))
    for coupling in network.couplings:
        first, second = (place[name] for name in coupling.ends)
        if isinstance(coupling, Factored):
            factors = np.asarray(coupling.factors, np.float64)
            block = factors.T @ factors / factors.shape[1]
            whole[first, second] += block - np.diag(np.diag(block))
        elif isinstance(coupling, Dense) and coupling.lateral:
            whole[first, second] += np.asarray(coupling.weights, np.float64)
        else:
            whole[first, second] += np.asarray(coupling.weights, np.float64)
            whole[second, first] += np.asarray(coupling.weights, np.float64).T
    return whole


def enumerate_states(network: Network, temperature: float = 1.0) -> Enumeration:
    """Every configuration of a network of discrete units without self-energy, by brute force."""
    levels = [layer.unit.levels for layer in network.layers for _ in range(layer.size)]
    states = np.array(list(product(*levels)))
    bias = np.concatenate([np.asarray(layer.bias, np.float64) for layer in network.layers])
    energies = -0.5 * np.einsum("si,ij,sj->s", states, matrix(network), states) - states @ bias
    logs = -energies / temperature
    log_partition = logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return Enumeration(states, energies, np.exp(logs - log_partition), float(log_partition))


def joined(network: Network, state) -> np.ndarray:
    """A state by layer as one array over all neurons."""
    return np.concatenate([np.asarray(state[name]) for name in network.names], axis=-1)


def frequencies(network: Network, state) -> np.ndarray:
    """How often each configuration occurs among the chains, in the order of `enumerate_states`."""
    index = np.zeros(joined(network, state).shape[:-1], int)
    column = 0
    for layer in network.layers:
        for neuron in range(layer.size):
            level = np.searchsorted(layer.unit.levels, np.asarray(state[layer.name])[..., neuron])
            index = index * len(layer.unit.levels) + level
            column += 1
    configurations = int(np.prod([len(layer.unit.levels) ** layer.size for layer in network.layers]))
    return np.bincount(index.ravel(), minlength=configurations) / index.size


def total_variation_bound(probabilities: np.ndarray, draws: int, risk: float = 1e-6) -> float:
    """What the total variation between a law and `draws` independent draws from it exceeds with probability < `risk`.

    Its mean is at most sum sqrt(p (1 - p) / draws) / 2 by Jensen, and one draw changes it by at most 1 / draws, so
    McDiarmid's inequality gives the rest.
    """
    mean = np.sqrt(probabilities * (1 - probabilities) / draws).sum() / 2
    return mean + np.sqrt(np.log(1 / risk) / (2 * draws))
