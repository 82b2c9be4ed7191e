"""The paper's energy (34) in a fully connected network with a smooth activation, as its theorems have it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array


def rates(state: Array) -> Array:
    """The activation: smooth, so that the theorems apply as they stand."""
    return jnp.tanh(state)


def energy(parameters, influence, state, world):
    """Equations 34 and 6 for one example: inputs clamped, every neuron coupled to every other, the last ones nudged."""
    inputs, target = world
    active = rates(state)
    weights = jnp.triu(parameters["weights"], 1)  # each pair once
    internal = (
        jnp.sum(state**2) / 2
        - active @ weights @ active
        - active @ (parameters["biases"] + parameters["input"] @ inputs)
    )
    return internal + influence * jnp.sum((active[-len(target) :] - target) ** 2) / 2


def draw(seed: int, neurons: int, inputs: int = 3, outputs: int = 2, strength: float = 0.6):
    """Random parameters, a start and an example, in float64.

    Args:
        seed: of everything that is drawn.
        neurons: in all, the last of them outputs.
        inputs: numbers that are clamped.
        outputs: neurons with a target.
        strength: of the weights.

    Returns:
        The parameters, the start, and the inputs with the target.
    """
    random = np.random.default_rng(seed)
    parameters = {
        "weights": strength * random.normal(size=(neurons, neurons)) / np.sqrt(neurons),
        "biases": 0.3 * random.normal(size=neurons),
        "input": random.normal(size=(neurons, inputs)),
    }
    return parameters, np.zeros(neurons), (random.normal(size=inputs), random.uniform(-0.8, 0.8, size=outputs))


def layered(parameters, sizes: tuple[int, ...]):
    """The same parameters without connections within a layer or past one, the inputs felt by the first layer only (Figure 4).

    Args:
        parameters: of a fully connected network.
        sizes: of its layers, the last of them the outputs.

    Returns:
        The parameters that are left.
    """
    number = np.repeat(np.arange(len(sizes)), sizes)
    neighbours = np.abs(number[:, None] - number) == 1
    return parameters | {
        "weights": parameters["weights"] * neighbours,
        "input": parameters["input"] * (number == 0)[:, None],
    }
