"""Exact enumeration in NumPy and float64, independent of the library's own sums."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

import equilibria
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


def states_of(layer):
    """Every configuration of a layer, without the unit's own enumeration."""
    if isinstance(layer.unit, equilibria.OneHot):
        return np.eye(layer.size)
    if isinstance(layer.unit, equilibria.Potts):
        sites = product(np.eye(layer.unit.states), repeat=layer.size // layer.unit.states)
        return np.array([np.concatenate(blocks) for blocks in sites])
    return np.array(list(product(layer.unit.levels, repeat=layer.size)))


def log_integral(layer, fields, temperature):
    """ln of the sum or integral over a layer in these fields (..., size), in NumPy and float64."""
    if isinstance(layer.unit, equilibria.Gaussian):
        variance = 1 / float(layer.unit.stiffness)
        return (fields**2 * variance / (2 * temperature) + np.log(2 * np.pi * variance * temperature) / 2).sum(-1)
    if isinstance(layer.unit, equilibria.Clipped):
        points, weights = np.polynomial.legendre.leggauss(60)
        points, weights = (points + 1) / 2, weights / 2
        exponents = fields[..., None] * points - float(layer.unit.stiffness) * points**2 / 2
        return np.log((weights * np.exp(exponents / temperature)).sum(-1)).sum(-1)
    if isinstance(layer.unit, (equilibria.ReLU, equilibria.DoubleReLU)):
        sides = (0.0, 30.0), (-30.0, 0.0)
        total = 0.0
        for low, high in sides[: 1 + isinstance(layer.unit, equilibria.DoubleReLU)]:
            points, weights = np.polynomial.legendre.leggauss(400)
            points, weights = low + (high - low) * (points + 1) / 2, (high - low) * weights / 2
            stiffness = float(layer.unit.below if low < 0 else layer.unit.stiffness)
            own = stiffness * points**2 / 2 + float(getattr(layer.unit, "threshold", 0.0)) * np.abs(points)
            total = total + (weights * np.exp((fields[..., None] * points - own) / temperature)).sum(-1)
        return np.log(total).sum(-1)
    return np.log(np.exp(fields @ states_of(layer).T / temperature).sum(-1))


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
