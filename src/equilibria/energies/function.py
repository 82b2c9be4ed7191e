"""A user's own energy as a system that comes to rest, and what everything that learns in it needs.

An energy is a function F(θ, β, s, v) = energy(parameters, influence, state, world) that returns one number. Equation
numbers are those of Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from equilibria import check
from equilibria.learn.rule import PyTree
from equilibria.model.network import State

Energy = Callable[[PyTree, PyTree, PyTree, PyTree], Array]
PART = "state"  # the name of the one part of the state


class FunctionSystem(eqx.Module):
    """A function with all its arguments but the state: a `model.energy.System`.

    Its state is one part, {"state": (..., size)}: the numbers of the user's state in a row, in the process's own
    precision, with chains on the leading axes. It can be differentiated in what it holds.

    Attributes:
        function: the energy F(θ, β, s, v).
        unravel: makes a user's state of the numbers in a row.
        precision: of the user's state.
        parameters: θ.
        influence: β.
        world: v.
        temperature: one number, or one for each chain.

    >>> system, start = checked_system(lambda a, b, state, v: a * jnp.sum(state["x"] ** 2), 3.0, 0.0, {"x": jnp.ones(2)})
    >>> float(system.energy(start)), system.force({"state": jnp.ones((4, 2))})["state"].shape
    (6.0, (4, 2))
    """

    function: Energy = eqx.field(static=True)
    unravel: Callable[[Array], PyTree] = eqx.field(static=True)
    precision: np.dtype = eqx.field(static=True)
    parameters: PyTree
    influence: PyTree
    world: PyTree
    temperature: Array

    @property
    def free(self) -> tuple[str, ...]:
        """The one part there is."""
        return (PART,)

    @property
    def column(self) -> Array:
        """The temperature with an axis for the numbers of a state."""
        return self.temperature[..., None]

    def energy(self, state: Mapping[str, Array]) -> Array:
        """F of each chain."""
        return jnp.vectorize(self._level, signature="(n)->()")(state[PART])

    def force(self, state: Mapping[str, Array]) -> State:
        """-dF/ds of each chain."""
        return {PART: -jnp.vectorize(jax.grad(self._level), signature="(n)->(n)")(state[PART])}

    def imposed(self, state: State) -> State:
        """The state as it is: nothing in it is held."""
        return state

    def held(self, name: str) -> Array | bool:
        """None of the numbers: what is clamped is in the world."""
        return False

    def bounds(self, name: str) -> tuple[float, float]:
        """All numbers."""
        return -np.inf, np.inf

    def check_continuous(self) -> None:
        """All states are continuous here."""

    def _level(self, numbers: Array) -> Array:
        return self.function(self.parameters, self.influence, self._user(numbers), self.world)

    def _user(self, numbers: Array) -> PyTree:
        return self.unravel(numbers.astype(self.precision))

    def read(self, state: Mapping[str, Array]) -> PyTree:
        """The user's state, or where there are chains the states of all of them, on the first axis of each array."""
        numbers = state[PART]
        return (jax.vmap(self._user) if numbers.ndim > 1 else self._user)(numbers)

    def written(self, state: PyTree, *, lead: int = 0) -> State:
        """The system's own state of a user's, whose arrays have `lead` leading axes for chains."""
        ravel = lambda state: jnp.asarray(ravel_pytree(state)[0], float)  # noqa: E731
        for _ in range(lead):
            ravel = jax.vmap(ravel)
        return {PART: ravel(state)}

    def with_parameters(self, parameters: PyTree) -> FunctionSystem:
        """The same with other parameters."""
        return self._with(parameters, self.influence)

    def with_influence(self, influence: PyTree) -> FunctionSystem:
        """The same under another influence."""
        return self._with(self.parameters, influence)

    def nudged(self, multiple: ArrayLike, direction: PyTree) -> FunctionSystem:
        """The same under the influence β + multiple δ."""
        return self.with_influence(
            jax.tree.map(lambda a, b: (a + multiple * b).astype(a.dtype), self.influence, direction)
        )

    def _with(self, parameters: PyTree, influence: PyTree) -> FunctionSystem:
        arguments = (parameters, influence, self.world, self.temperature)
        return FunctionSystem(self.function, self.unravel, self.precision, *arguments)

    def by_parameters(self, state: PyTree) -> PyTree:
        """dF/dθ at a user's state."""
        return eqx.filter_grad(self.function)(self.parameters, self.influence, state, self.world)

    def by_influence(self, state: PyTree) -> PyTree:
        """dF/dβ at a user's state."""
        return jax.grad(self.function, argnums=1)(self.parameters, self.influence, state, self.world)

    def cost(self, direction: PyTree, state: PyTree) -> Array:
        """C = δ . dF/dβ (3) of a user's state."""

        def level(influence: PyTree) -> Array:
            return self.function(self.parameters, influence, state, self.world)

        return jax.jvp(level, (self.influence,), (direction,))[1]


def checked_system(
    energy: Energy, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree = None, *,
    temperature: ArrayLike = 0.0, name: str = "start",
) -> tuple[FunctionSystem, State]:  # fmt: skip
    """A system and its state of the four arguments of an energy, if they are finite and it makes one number of them.

    `name` is what the public function calls the state.
    """
    influence, state = jax.tree.map(floating, (influence, state))
    parameters = jax.tree.map(lambda leaf: floating(leaf) if eqx.is_array_like(leaf) else leaf, parameters)
    world = jax.tree.map(jnp.asarray, world)
    for leaf in map(check.concrete, jax.tree.leaves(influence)):
        if leaf is not None and np.isinf(leaf).any():
            check.refuse(
                "influence", "an infinity", "finite numbers; a clamped variable is left out of the state instead"
            )
    for argument, tree in {"parameters": parameters, "influence": influence, name: state, "world": world}.items():
        for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array)):
            check.finite(argument, leaf)
    if not jax.tree.leaves(state):
        check.refuse(name, repr(state), "an array, or a pytree with at least one")
    plain = all(map(eqx.is_array, jax.tree.leaves(parameters)))
    shape_of = jax.eval_shape if plain else eqx.filter_eval_shape  # the first remembers, and traces an energy only once
    result = jax.tree.leaves(shape_of(energy, parameters, influence, state, world))
    if [leaf.shape for leaf in result] != [()] or not jnp.issubdtype(result[0].dtype, jnp.floating):
        check.refuse("energy", f"a function that returns {result}", "one that returns one real number")
    return as_system(energy, parameters, influence, state, world, temperature)


def as_system(
    energy: Energy, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree, temperature: ArrayLike
) -> tuple[FunctionSystem, State]:
    """The same for arguments that are known to be right."""
    numbers, unravel = ravel_pytree(state)
    arguments = (parameters, influence, world, jnp.asarray(temperature, float))
    return FunctionSystem(energy, unravel, numbers.dtype, *arguments), {PART: jnp.asarray(numbers, float)}


def check_settings(energy: Any, step: float, steps: int, tolerance: float | None = None) -> None:
    """Refuse what is no function, or no way to follow one."""
    if not callable(energy):
        check.refuse(
            "energy", repr(energy), "a function of (parameters, influence, state, world) that returns one number"
        )
    check.number("step", step, above=0.0)
    check.count("steps", steps)
    if tolerance is not None:
        check.number("tolerance", tolerance, above=0.0)


def along(influence: PyTree, direction: PyTree) -> PyTree:
    """The direction as arrays, if it has the shape of the influence."""
    direction = jax.tree.map(floating, direction)
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (direction, influence)]
    if shapes[0] != shapes[1]:
        check.refuse("direction", f"shapes {shapes[0]}", f"those of the influence, {shapes[1]}")
    for leaf in jax.tree.leaves(direction):
        check.finite("direction", leaf)
    return direction


def phases(nudge: ArrayLike, sides: str, key: Array | None) -> Array:
    """The two multiples of the direction that are added to the influence, in the low phase and in the high phase."""
    check.choice("sides", sides, ("one", "random", "both"))
    check.number("nudge", nudge)
    if check.concrete(nudge) == 0:
        check.refuse("nudge", repr(nudge), "a number other than 0")
    if sides == "random":
        if key is None:
            check.refuse("key", "None", "a JAX key, needed when sides='random'")
        return jnp.array([0.0, nudge]) * jax.random.rademacher(key, ())
    size = jnp.asarray(nudge, float)
    return jnp.stack([-size if sides == "both" else jnp.zeros_like(size), size])


def double(tree: PyTree) -> PyTree:
    """The same tree with its real numbers in float64; call it where float64 is on."""

    def convert(leaf: Any) -> Any:
        return jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array_like(leaf) else leaf

    return jax.tree.map(convert, tree)


def floating(leaf: Any) -> Array:
    """A number or numbers as real ones."""
    return jnp.asarray(leaf, jnp.result_type(leaf, float))
