"""The hidden neurons of a start of low rank, fitted on a mesh to where the data lie along the components."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from scipy.optimize import minimize

from equilibria.compiled import array
from equilibria.learn.mesh import Mesh
from equilibria.model.units import Unit

_OFFSETS = 9  # kinks along each direction


class Seen(NamedTuple):
    """Where the data lie along the components.

    Attributes:
        points: (points, components).
        shares: (points,), what each of them counts; one in all.
    """

    points: np.ndarray
    shares: np.ndarray


class Fit(NamedTuple):
    """Couplings of hidden neurons to the projections, their biases, and a field along the projections.

    Attributes:
        weights: (neurons, components).
        biases: (neurons,).
        field: (components,).
    """

    weights: np.ndarray
    biases: np.ndarray
    field: np.ndarray


def potential(points: np.ndarray, fit: Fit, hidden: Unit) -> np.ndarray:
    """What the hidden neurons and the field along the projections add to ln p at each point.

    Args:
        points: (..., components).
        fit: the neurons and the field.
        hidden: the kind of the neurons.

    Returns:
        (...,).
    """
    return in_double(hidden.cumulant, points @ fit.weights.T + fit.biases).sum(-1) + points @ fit.field


def in_double(function: Callable[[Array], Array], values: np.ndarray) -> np.ndarray:
    """What a function of JAX gives in double precision, whatever the process computes in.

    Args:
        function: such as a unit's `mean` or `cumulant`.
        values: its argument.

    Returns:
        The result.
    """
    with jax.enable_x64(True):
        return np.asarray(function(array(values)))


def fitted(mesh: Mesh, seen: Seen, hidden: Unit, count: int) -> Fit:
    """The kinks of the concave problem, the strongest as hidden neurons, and these fitted on the mesh.

    Args:
        mesh: of the projections.
        seen: the data.
        hidden: the kind of the neurons.
        count: how many of them at most.

    Returns:
        The neurons and the field.
    """
    normals, offsets = _kinks(seen.points)
    strengths, field = _strengths(mesh, seen, normals, offsets)
    best = np.argsort(-strengths)[:count]
    best = best[strengths[best] > 1e-6] if (strengths[best] > 1e-6).any() else best[:1]
    low, high = hidden.range
    # q |x - z| is what a neuron with values low and high adds at large strength, up to a field along its direction.
    scale = 2 * np.maximum(strengths[best], 0.05) / (high - low)
    weights = scale[:, None] * normals[best]
    start = Fit(weights, -scale * offsets[best], field - (low + high) / 2 * weights.sum(0))
    return refined(mesh, seen, hidden, start)


def _kinks(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions spread evenly over half a sphere, and offsets at the quantiles of the data along each."""
    count = seen.shape[1]
    if count == 1:
        normals = np.ones((1, 1))
    elif count == 2:
        angles = np.arange(12) * np.pi / 12
        normals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        grid = np.array([row for row in product((-1, 0, 1), repeat=count) if any(row) and row > tuple(-x for x in row)])
        normals = grid / np.linalg.norm(grid, axis=1, keepdims=True)
    along = seen @ normals.T
    ends = along.min(0), along.max(0)
    places = np.linspace(0, 1, _OFFSETS + 2)[1:-1]
    offsets = ends[0] + places[:, None] * (ends[1] - ends[0])
    return np.repeat(normals, _OFFSETS, axis=0), offsets.T.ravel()


def _strengths(mesh: Mesh, seen: Seen, normals: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The concave problem: q >= 0 of every kink, and a field along the projections."""
    functions = np.concatenate([np.abs(mesh.nodes @ normals.T - offsets), mesh.nodes], axis=1)
    wanted = seen.shares @ np.concatenate([np.abs(seen.points @ normals.T - offsets), seen.points], axis=1)

    def lost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logs = mesh.log_weights + functions @ parameters
        log_z = np.logaddexp.reduce(logs)
        slope = np.exp(logs - log_z) @ functions - wanted
        return float(log_z - wanted @ parameters + 1e-4 * parameters @ parameters), slope + 2e-4 * parameters

    bounds = [(0.0, None)] * len(offsets) + [(None, None)] * seen.points.shape[1]
    found = minimize(lost, np.zeros(len(wanted)), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    return found.x[: len(offsets)], found.x[len(offsets) :]


def refined(mesh: Mesh, seen: Seen, hidden: Unit, start: Fit) -> Fit:
    """The couplings, biases and the field of largest likelihood on the mesh, from a start; the likelihood never falls.

    Args:
        mesh: of the projections.
        seen: the data.
        hidden: the kind of the neurons.
        start: where to begin.

    Returns:
        The neurons and the field.
    """
    shapes = [part.shape for part in start]
    cuts = np.cumsum([part.size for part in start])[:-1]

    def parts(parameters: np.ndarray) -> Fit:
        pieces = zip(np.split(parameters, cuts), shapes, strict=True)
        return Fit(*(piece.reshape(shape) for piece, shape in pieces))

    def statistics(points: np.ndarray, weights: np.ndarray, fit: Fit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        means = weights[:, None] * in_double(hidden.mean, points @ fit.weights.T + fit.biases)
        return means.T @ points, means.sum(0), weights @ points

    def lost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        fit = parts(parameters)
        logs = mesh.log_weights + potential(mesh.nodes, fit, hidden)
        log_z = np.logaddexp.reduce(logs)
        model, wanted = statistics(mesh.nodes, np.exp(logs - log_z), fit), statistics(*seen, fit)
        slope = np.concatenate([(a - b).ravel() for a, b in zip(model, wanted, strict=True)])
        value = log_z - seen.shares @ potential(seen.points, fit, hidden)
        return float(value + 1e-5 * parameters @ parameters), slope + 2e-5 * parameters

    begin = np.concatenate([part.ravel() for part in start])
    return parts(minimize(lost, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x)
