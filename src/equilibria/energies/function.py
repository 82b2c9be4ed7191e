"""What every method that learns in a user's energy needs: its arguments as arrays, its cost, its phases.

An energy is a function F(θ, β, s, v) = energy(parameters, influence, state, world) that returns one number. Equation
numbers are those of Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check

PyTree = Any
Energy = Callable[[PyTree, PyTree, PyTree, PyTree], Array]


def callable_energy(energy: Any) -> None:
    if not callable(energy):
        check.refuse(
            "energy", repr(energy), "a function of (parameters, influence, state, world) that returns one number"
        )


def checked(
    energy: Energy, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree, *, name: str = "start"
) -> tuple:
    """The four arguments of the energy as arrays, if they are finite and the energy makes one number of them.

    `name` is what the public function calls the state.
    """
    parameters, influence, state = jax.tree.map(_floating, (parameters, influence, state))
    world = jax.tree.map(jnp.asarray, world)
    for leaf in map(check.concrete, jax.tree.leaves(influence)):
        if leaf is not None and np.isinf(leaf).any():
            check.refuse(
                "influence", "an infinity", "finite numbers; a clamped variable is left out of the state instead"
            )
    for argument, tree in {"parameters": parameters, "influence": influence, name: state, "world": world}.items():
        for leaf in jax.tree.leaves(tree):
            check.finite(argument, leaf)
    if not jax.tree.leaves(state):
        check.refuse(name, repr(state), "an array, or a pytree with at least one")
    result = jax.tree.leaves(jax.eval_shape(energy, parameters, influence, state, world))
    if [leaf.shape for leaf in result] != [()] or not jnp.issubdtype(result[0].dtype, jnp.floating):
        check.refuse("energy", f"a function that returns {result}", "one that returns one real number")
    return parameters, influence, state, world


def along(influence: PyTree, direction: PyTree) -> PyTree:
    """The direction as arrays, if it has the shape of the influence."""
    direction = jax.tree.map(_floating, direction)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (direction, influence)]
    if shapes[0] != shapes[1]:
        check.refuse("direction", f"shapes {shapes[0]}", f"those of the influence, {shapes[1]}")
    for leaf in jax.tree.leaves(direction):
        check.finite("direction", leaf)
    return direction


def phases(nudge: float, sides: str, key: Array | None) -> Array:
    """The two multiples of the direction that are added to the influence, in the low phase and in the high phase."""
    check.choice("sides", sides, ("one", "random", "both"))
    check.number("nudge", nudge)
    if check.concrete(nudge) == 0:
        check.refuse("nudge", repr(nudge), "a number other than 0")
    if sides == "random":
        if key is None:
            check.refuse("key", "None", "a JAX key, needed when sides='random'")
        return jnp.array([0.0, nudge]) * jax.random.rademacher(key, ())
    return jnp.array([-nudge if sides == "both" else 0.0, nudge])


def contrast(pair: PyTree, multiples: Array) -> PyTree:
    """The difference of what was found in the two phases, on the first axis, over the difference of their nudges."""
    return jax.tree.map(lambda leaf: (leaf[1] - leaf[0]) / (multiples[1] - multiples[0]), pair)


def double(tree: PyTree) -> PyTree:
    """The same tree with its real numbers in float64; call it where float64 is on."""

    def convert(leaf: Any) -> Any:
        return jnp.asarray(leaf, jnp.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    return jax.tree.map(convert, tree)


def _floating(leaf: Any) -> Array:
    return jnp.asarray(leaf, jnp.result_type(leaf, float))


def add(tree: PyTree, scale: Any, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: (a + scale * b).astype(a.dtype), tree, other)


def cost(
    energy: Energy, parameters: PyTree, influence: PyTree, direction: PyTree, state: PyTree, world: PyTree
) -> Array:
    """δ . dF/dβ (3)."""
    return jax.jvp(lambda beta: energy(parameters, beta, state, world), (influence,), (direction,))[1]


def central(function: Callable, point: Array, nudge: Any) -> tuple[PyTree, Array]:
    """Centered differences of `function` along each coordinate of the vector `point`, on the first axis.

    The function returns what is differenced and how far it can be trusted; the second result is the least trust.
    """
    moves = nudge * jnp.eye(point.size, dtype=point.dtype)
    values, trust = jax.vmap(function)(point + jnp.concatenate([moves, -moves]))
    return jax.tree.map(lambda leaf: (leaf[: point.size] - leaf[point.size :]) / (2 * nudge), values), trust.min()
