"""What a ξ-phase does to a fixed point: to its cost and to energies, where it goes back to, and how far it gets."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

import equilibria as eq
from equilibria.papers.scellier2017.resting import READING
from equilibria.papers.scellier2017.training import CLASSES, READINGS, TABLE

PUSHES = ("small", "table", "small away", "table away")  # ξ = SMALL, that of the table, and minus these
SMALL = 0.01
REST = 1e-6  # a phase that is to settle ends when no neuron moves by more
APART = 0.01  # fixed points with a neuron further apart are two
OPTIMAL = 1e-6  # a cost below it cannot get better in single precision, and a smaller change is none


def repelling(state: Array, target: Array) -> Array:
    """Minus the cost (8), which pushes away. It acts by its gradient, for which no ξ is too strong: states have bounds.

    >>> float(repelling(jnp.array([0.0, 1.0]), jnp.array([1.0, 1.0])))
    -0.5
    """
    return -jnp.sum((state - target) ** 2, axis=-1) / 2


def nudged(
    network: eq.Network, depth: int, inputs: np.ndarray, labels: np.ndarray, rest: Any, longest: int
) -> dict[str, np.ndarray]:
    """Nudge 0-fixed points towards their labels and away from them, and let go of them.

    Args:
        network: which relaxes.
        depth: the number of its hidden layers.
        inputs: images.
        labels: their classes.
        rest: its 0-fixed points, of at least as many images.
        longest: the most iterations.

    Returns:
        cost: half the squared error, mean over images: at the 0-fixed point, and at the ξ-fixed point of each of `PUSHES`.
        better: by push, the share of images whose cost is on the side that section 2.6 says: lower for ξ > 0, or already
            optimal, and higher for ξ < 0.
        wrong: by push, the share of images whose cost is on the other side; the rest stays, at the bounds of its outputs.
        back: by push, the share of images that come back to their 0-fixed point when they are let go.
        moved: by push, how far the neuron that moves most goes, mean over images.
        energies: for the small and the table's ξ, how many images have an update (11), in how many it raises the energy of
            the 0-fixed point, in how many it lowers that of the ξ-fixed point, and in how many both.
        way: how much of the way to the ξ-fixed point the table's iterations make, and how far the neuron furthest from it is
            then, means over images.
        fall: by how much the fall of the energy differs from the integral of the squared speed (38), over the latter, the
            largest of any image.
    """
    world, settle = eq.Clamp("input", inputs), eq.GradientFlow(longest, tolerance=REST)
    target = np.eye(CLASSES, dtype=np.float32)[labels]
    layers = [name for name in network.names if name != "input"]
    free = {name: np.asarray(rest[name])[: len(inputs)] for name in layers}
    xi = READINGS[READING].nudges[depth - 1]
    pushes = dict(zip(PUSHES, (SMALL, xi, -SMALL, -xi), strict=True))

    def relax(start: dict[str, np.ndarray], how: eq.GradientFlow, push: float) -> dict[str, np.ndarray]:
        forces: list[eq.Clamp | eq.Nudge] = [world]
        if push > 0:
            forces.append(eq.Nudge("output", target, push))
        elif push < 0:
            forces.append(eq.Nudge("output", target, -push, repelling))
        found = eq.equilibrate(network, how, start, world=forces)
        return {name: np.asarray(found[name]) for name in layers}

    def cost(state: dict[str, np.ndarray]) -> np.ndarray:
        return np.square(state["output"].astype(float) - target).sum(-1) / 2

    ends = {name: relax(free, settle, push) for name, push in pushes.items()}
    before, after = cost(free), {name: cost(end) for name, end in ends.items()}
    towards = {name: (after[name] < before) | (before < OPTIMAL) for name in PUSHES[:2]}
    right = towards | {name: after[name] > before for name in PUSHES[2:]}
    wrong = {name: after[name] > before + OPTIMAL for name in PUSHES[:2]}
    wrong |= {name: after[name] < before - OPTIMAL for name in PUSHES[2:]}
    released = {name: relax(end, settle, 0.0) for name, end in ends.items()}
    brief = relax(free, eq.GradientFlow(TABLE[depth].nudged), xi)
    whole = np.sqrt(_squared(ends["table"], free))
    made = np.sqrt(_squared(brief, free)) / np.where(whole > 0, whole, np.nan)
    energies = [_energies(network, inputs, free, ends[name]) for name in PUSHES[:2]]
    return {
        "cost": np.array([before.mean(), *(after[name].mean() for name in PUSHES)]),
        "better": np.array([right[name].mean() for name in PUSHES]),
        "wrong": np.array([wrong[name].mean() for name in PUSHES]),
        "back": np.array([(_furthest(released[name], free) < APART).mean() for name in PUSHES]),
        "moved": np.array([_furthest(ends[name], free).mean() for name in PUSHES]),
        "energies": np.array(energies, float),
        "way": np.array([np.nanmean(made), _furthest(brief, ends["table"]).mean()]),
        "fall": np.array(_fall(network, inputs[:20])),
    }


def _furthest(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> np.ndarray:
    return np.max([np.abs(first[name] - second[name]).max(-1) for name in first], axis=0)


def _squared(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> np.ndarray:
    return np.sum([np.square(first[name].astype(float) - second[name]).sum(-1) for name in first], axis=0)


def _energies(network: eq.Network, inputs: np.ndarray, free: dict, end: dict) -> list[int]:
    r"""Images with an update, with a raised 0-fixed point, with a lowered ξ-fixed point, and with both.

    The energy is linear in the parameters: an update against $g^\xi - g^0$, $g = \partial E/\partial\theta$, changes the energy
    of a state with the gradient g by $-(g^\xi - g^0) \cdot g$ times the rate over ξ. A product of two such gradients is, for a
    coupling, that of the overlaps of its two ends, and for biases the overlap of the layer.
    """
    states = [{name: layer.astype(float) for name, layer in state.items()} | {"input": inputs.astype(float)}
              for state in (free, end)]  # fmt: skip

    def product(a: int, b: int) -> np.ndarray:
        overlaps = {name: (states[a][name] * states[b][name]).sum(-1) for name in network.names}
        pairs = [overlaps[c.ends[0]] * overlaps[c.ends[1]] for c in network.couplings]
        return np.sum([*pairs, *(overlaps[name] for name in free)], axis=0)

    both, first, second = product(0, 1), product(0, 0), product(1, 1)
    updated = first + second - 2 * both > 1e-12 * first  # |g^ξ - g^0|²
    raised, lowered = updated & (first - both > 0), updated & (second - both > 0)
    return [int(np.count_nonzero(each)) for each in (updated, raised, lowered, raised & lowered)]


def _fall(network: eq.Network, inputs: np.ndarray, step: float = 0.001, steps: int = 100) -> float:
    """How well (38) holds along short clipped steps from 0, in double precision."""
    sizes = {layer.name: layer.size for layer in network.layers}
    state = {name: np.zeros((len(inputs), sizes[name])) for name in network.names} | {"input": inputs.astype(float)}
    biases = {layer.name: np.asarray(layer.bias, float) for layer in network.layers}
    weights = {coupling.ends: np.asarray(coupling.matrix(), float) for coupling in network.couplings}
    layers = [name for name in network.names if name != "input"]

    def energy() -> np.ndarray:
        alone = [np.square(state[name]).sum(-1) / 2 - state[name] @ biases[name] for name in layers]
        pairs = [((state[a] @ matrix) * state[b]).sum(-1) for (a, b), matrix in weights.items()]
        return np.sum(alone, axis=0) - np.sum(pairs, axis=0)

    begun, squared = energy(), np.zeros(len(inputs))
    for _ in range(steps):
        pulls = {name: biases[name] - state[name] for name in layers}
        for (a, b), matrix in weights.items():
            if a in pulls:
                pulls[a] = pulls[a] + state[b] @ matrix.T
            if b in pulls:
                pulls[b] = pulls[b] + state[a] @ matrix
        moved = {name: np.clip(state[name] + step * pulls[name], 0, 1) for name in layers}
        squared += np.sum([np.square(moved[name] - state[name]).sum(-1) for name in layers], axis=0) / step
        state |= moved
    return float(np.max(np.abs(energy() - begun + squared) / squared))
