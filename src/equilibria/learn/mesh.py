"""What configurations of independent neurons weigh by their projections on a few directions, on a mesh.

The weight of all configurations with projections m is the saddle point of its Laplace transform (Daniels 1954): the tilt
mu along the directions in which independent neurons have m as their mean.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria.compiled import array
from equilibria.model.units import Unit

_POINTS = {1: 400, 2: 90, 3: 36, 4: 20}  # of the mesh along each direction at most
_SPACING = 0.05  # of the mesh, in standard deviations of independent neurons along the direction: clusters are narrower
_TOGETHER = 4096  # nodes that are worked on together


class Mesh(NamedTuple):
    """Projections on a mesh, and what independent neurons weigh there.

    Attributes:
        nodes: (nodes, components), the projections m.
        tilts: (nodes, components), the fields mu along the components in which independent neurons have that mean.
        log_weights: (nodes,), ln of rho times the volume of a cell.
        sums: (nodes,), ln of the sum over all states of independent neurons in the fields of the tilt.
    """

    nodes: np.ndarray
    tilts: np.ndarray
    log_weights: np.ndarray
    sums: np.ndarray


def mesh_over(unit: Unit, base: np.ndarray, directions: np.ndarray, seen: np.ndarray) -> Mesh:
    """A mesh over where the data are and some way beyond, with the weight of independent neurons at each node.

    Args:
        unit: of the neurons, with a finite number of states.
        base: (size,), their fields.
        directions: (components, size), orthogonal.
        seen: (examples, components), the projections of the data.

    Returns:
        The mesh.

    >>> from equilibria.model.units import Binary
    >>> even = mesh_over(Binary(), np.zeros(30), np.full((1, 30), 30**-0.5), np.array([[1.0], [4.0]]))
    >>> abs(np.logaddexp.reduce(even.log_weights) - 30 * np.log(2)) < 0.05  # of 2^30 configurations
    np.True_
    """
    count, choices = len(directions), np.asarray(unit.choices(len(base)), np.float64)
    with jax.enable_x64(True):
        width = np.sqrt(np.diagonal(np.asarray(_seen(unit, array(base), array(directions))[2])))
        axes = []
        for axis in range(count):
            low, high = seen[:, axis].min() - 6 * width[axis], seen[:, axis].max() + 6 * width[axis]
            # No projection lies outside of what all neurons together can give.
            each = directions[axis].reshape(-1, choices.shape[1]) @ choices.T  # of every site in each of its states
            low, high = max(low, each.min(1).sum()), min(high, each.max(1).sum())
            points = int(np.clip(np.ceil((high - low) / (_SPACING * width[axis])), 8, _POINTS[count]))
            axes.append(np.linspace(low, high, points + 2)[1:-1])
        nodes = np.array(list(product(*axes)))
        cell = np.prod([axis[1] - axis[0] for axis in axes])
        parts = np.array_split(nodes, -(-len(nodes) // _TOGETHER))
        found = [_saddles(unit, base, directions, part) for part in parts]
    tilts, logs, sums, good = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    return Mesh(nodes[good], tilts[good], logs[good] + np.log(cell), sums[good])


def _saddles(
    unit: Unit, base: np.ndarray, directions: np.ndarray, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The tilt at which independent neurons have each node as their mean projection, ln rho, the sum there, and where it is."""

    def at(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = _seen(unit, array(base + tilt @ directions), array(directions))
        return np.asarray(found[0]), np.asarray(found[1]), np.asarray(found[2])

    tilts = np.zeros_like(nodes)
    value = np.full(len(nodes), -np.inf)
    step = np.zeros_like(nodes)
    for _ in range(60):  # damped Newton on a convex function: a step that does not lower it is halved
        trial = tilts + step
        total, mean, bend = at(trial)
        height = (trial * nodes).sum(1) - total
        better = height >= value - 1e-12
        tilts, value = np.where(better[:, None], trial, tilts), np.where(better, height, value)
        slope = nodes - mean
        newton = np.linalg.solve(bend + 1e-12 * np.eye(bend.shape[1]), slope[..., None])[..., 0]
        length = np.linalg.norm(newton, axis=1, keepdims=True)
        newton *= np.minimum(1.0, 4.0 / np.maximum(length, 1e-12))
        step = np.where(better[:, None], newton, step / 2)
        if np.abs(step).max() < 1e-9:
            break
    total, mean, bend = at(tilts)
    sign, determinant = np.linalg.slogdet(2 * np.pi * bend)
    good = (np.abs(mean - nodes).max(1) < 1e-6) & (sign > 0)
    return tilts, total - (tilts * nodes).sum(1) - determinant / 2, total, good


@eqx.filter_jit
def _seen(unit: Unit, fields: Array, directions: Array) -> tuple[Array, Array, Array]:
    """Of independent neurons: the logarithm of the sum over their states, the mean projections, and these' covariance.

    The covariance is how the mean projections follow tilts along the directions.
    """
    alike = [jnp.broadcast_to(direction, fields.shape) for direction in directions]
    moved = [jax.jvp(unit.mean, (fields,), (tangent,))[1] @ directions.T for tangent in alike]
    return jnp.sum(unit.cumulant(fields), axis=-1), unit.mean(fields) @ directions.T, jnp.stack(moved, axis=-1)
