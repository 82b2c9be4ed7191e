"""Whether a network has a law: the curvature of its energy along the units that have no bounds.

For Gaussian units a curvature above zero in every direction decides it. Rectified units see only some directions: for them it
is enough, and asked for, although not every machine without it lacks a law.
"""

from __future__ import annotations

import jax
import numpy as np

from equilibria import check
from equilibria.model.network import Layer, Network


def precision(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """The curvature of the energy far out in the unbounded units, all layers one after the other, and their biases; float64."""
    layers = _open(network)
    ends = np.cumsum([0, *(layer.size for layer in layers)])
    place = {layer.name: slice(ends[i], ends[i + 1]) for i, layer in enumerate(layers)}
    matrix = np.zeros((ends[-1], ends[-1]))
    bias = np.zeros(ends[-1])
    for layer in layers:
        here = place[layer.name]
        matrix[here, here] += np.diag(np.broadcast_to(np.asarray(layer.unit.tail_stiffness, float), layer.size))
        bias[here] = layer.bias
    for coupling in network.couplings:
        if set(coupling.ends) <= set(place):
            first, second = (place[name] for name in coupling.ends)
            weights = np.asarray(coupling.matrix(), float)
            matrix[first, second] -= weights
            if not coupling.lateral:
                matrix[second, first] -= weights.T
    return matrix, bias


def unbounded(network: Network) -> str | None:
    """Why a network has no law, or None if it has one; inside compiled code, where no number is known, None.

    Only unbounded units that are coupled to one another can lack one: other units bound what they add.
    """
    layers = {layer.name for layer in _open(network)}
    together = [coupling for coupling in network.couplings if set(coupling.ends) <= layers]
    if not together or any(check.concrete(leaf) is None for leaf in jax.tree.leaves(together)):
        return None
    matrix, _ = precision(network)
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(matrix)[0]
        kinds = " and ".join(dict.fromkeys(type(layer.unit).__name__ for layer in _open(network)))
        return f"not normalisable: the {kinds} units' energy has a curvature of {least:.3g} in one direction, and no minimum"
    return None


def _open(network: Network) -> list[Layer]:
    return [layer for layer in network.layers if layer.unit.tail_stiffness is not None]
