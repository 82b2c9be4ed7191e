"""Exact expectations for a state of one or two numbers, by quadrature: what sampling is checked against."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from equilibria import check
from equilibria.energies.averages import Observable
from equilibria.energies.function import PART, FunctionSystem
from equilibria.learn.rule import PyTree
from equilibria.model.network import State


def expectation(system: FunctionSystem, centre: State, observable: Observable, reach: float, points: int) -> PyTree:
    """The mean of a function of the user's state over e^(-F/T) / Z, on a grid of `points` per axis at centre ± reach."""
    numbers = centre[PART]
    if numbers.size > 2:
        check.refuse("centre", f"{numbers.size} numbers", "one or two: a grid in more has too many points")
    axes = jnp.meshgrid(*(jnp.linspace(x - reach, x + reach, points) for x in numbers), indexing="ij")
    states = {PART: jnp.stack([axis.ravel() for axis in axes], axis=-1)}
    levels = system.energy(states)
    weights = jnp.exp((levels.min() - levels) / system.temperature)
    _vanishes_at_edges(np.asarray(weights).reshape((points,) * numbers.size), reach)
    mean = partial(jnp.tensordot, weights / weights.sum(), axes=1)
    return jax.tree.map(lambda leaf: np.asarray(mean(leaf)), jax.vmap(observable)(system.read(states)))


def _vanishes_at_edges(weights: np.ndarray, reach: float) -> None:
    edges = max(weights.take((0, -1), axis=axis).max() for axis in range(weights.ndim))
    if not edges < 1e-12:
        allowed = "a reach at whose end the Boltzmann weight is below 1e-12 of its largest, and an energy that has one"
        check.refuse("reach", f"{reach}, where the weight is {edges:.1e}", allowed)
