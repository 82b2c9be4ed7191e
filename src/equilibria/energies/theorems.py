"""The theorems of the framework as measurements on any energy: both sides of an equation, found separately.

Equation numbers are those of Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179):
Theorem 1 and Proposition 2 at fixed points, Theorem 3 and Proposition 4 under the Boltzmann law. Derivatives are centered
differences of a system that relaxes or is sampled again; no second derivative is used where the theorem speaks of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from equilibria import check
from equilibria.energies.averages import Chains, covaried, sampled
from equilibria.energies.function import PART, Energy, FunctionSystem, along, checked_system, double
from equilibria.energies.relaxation import Relaxation, free_phase, hessian, warn_unconverged
from equilibria.learn.rule import PyTree
from equilibria.model.network import State

# What the system answers once it is at rest or sampled, and how far that can be trusted (at rest, share accepted).
Answer = Callable[[FunctionSystem, Callable[[FunctionSystem, PyTree], Array]], tuple[Array, Array]]


class Comparison(NamedTuple):
    """The two sides of an equation, measured separately."""

    left: Any
    right: Any
    difference: Any  # left - right
    converged: Any


def compared(
    measure: Callable[..., tuple[Array, Array, Array]],
    energy: Energy,
    relaxation: Callable[[np.dtype], Relaxation],
    arguments: tuple,
    nudge: float,
    *direction: PyTree,
) -> Comparison:
    """What `theorem` or `proposition` finds for the four arguments of an energy, in float64."""
    check.number("nudge", nudge, above=0.0)
    with jax.enable_x64(True):
        system, start = checked_system(energy, *double(arguments))
        directions = tuple(along(system.influence, double(given)) for given in direction)
        how, width = relaxation(system.precision), jnp.asarray(nudge, float)
        left, right, converged = measure(system, start, *directions, how, width)
        warn_unconverged("check", converged, "a relaxation did not come to rest", depth=4)
        sides = np.asarray(left), np.asarray(right)
        return Comparison(*sides, sides[0] - sides[1], bool(converged))


def compared_by_sampling(
    measure: Callable[..., tuple[Array, Array, Array]],
    chains: Chains,
    begun: tuple[FunctionSystem, State],
    nudge: float,
    key: Array,
    *direction: PyTree,
) -> Comparison:
    """What `sampled_theorem` or `sampled_proposition` finds, each side with its error."""
    check.number("nudge", nudge, above=0.0)
    directions = tuple(along(begun[0].influence, given) for given in direction)
    left, right, acceptance = measure(*begun, *directions, chains, jnp.asarray(nudge, float), key)
    difference = sampled(left - right, acceptance, chains, depth=4)
    sides = sampled(left, acceptance, chains, depth=4), sampled(right, acceptance, chains, depth=4)
    return Comparison(*sides, difference, bool(np.isfinite(difference.error).all()))


@eqx.filter_jit
def theorem(
    system: FunctionSystem, start: State, relaxation: Relaxation, nudge: ArrayLike
) -> tuple[Array, Array, Array]:
    """The two sides of (20), (dim β, dim θ), and whether every relaxation came to rest."""
    free = relaxation(system, start)

    def answer(here: FunctionSystem, read: Callable[[FunctionSystem, PyTree], Array]) -> tuple[Array, Array]:
        rest = relaxation(here, free.state)
        return read(here, here.read(rest.state)), rest.converged

    left, right, rested = _responses(system, answer, nudge)
    return left.T, right, free.converged & rested


@eqx.filter_jit
def sampled_theorem(
    system: FunctionSystem, start: State, chains: Chains, nudge: ArrayLike, key: Array
) -> tuple[Array, Array, Array]:
    """The two sides of (73) for each chain, (chains, dim β, dim θ), and the least acceptance."""

    def answer(here: FunctionSystem, read: Callable[[FunctionSystem, PyTree], Array]) -> tuple[Array, Array]:
        found = chains(here, start, lambda state: read(here, state), key)
        return found.mean, found.acceptance.mean()

    left, right, accepted = _responses(system, answer, nudge)
    return jnp.moveaxis(left, 0, 2), jnp.moveaxis(right, 0, 1), accepted


def _responses(system: FunctionSystem, answer: Answer, nudge: ArrayLike) -> tuple[Array, Array, Array]:
    """d/dθ of dF/dβ and d/dβ of dF/dθ, what is moved on the first axis, and the least trust."""
    learned, fixed = eqx.partition(system.parameters, eqx.is_inexact_array)
    theta, parameters_of = ravel_pytree(learned)
    beta, influence_of = ravel_pytree(system.influence)

    def at_parameters(theta: Array) -> tuple[Array, Array]:
        here = system.with_parameters(eqx.combine(parameters_of(theta), fixed))
        return answer(here, lambda here, state: ravel_pytree(here.by_influence(state))[0])

    def at_influence(beta: Array) -> tuple[Array, Array]:
        here = system.with_influence(influence_of(beta))
        return answer(here, lambda here, state: ravel_pytree(here.by_parameters(state))[0])

    left, trust = central(at_parameters, theta, nudge)
    right, other = central(at_influence, beta, nudge)
    return left, right, jnp.minimum(trust, other)


@eqx.filter_jit
def proposition(
    system: FunctionSystem, start: State, direction: PyTree, relaxation: Relaxation, nudge: ArrayLike
) -> tuple[Array, Array, Array]:
    """The derivative of (32) by a centered difference, the right-hand side of (33) by a linear solve, and all at rest."""
    free = free_phase(system, start, direction, relaxation)

    def nudged_cost(multiple: Array) -> tuple[Array, Array]:
        rest = relaxation(system.nudged(multiple[0], direction), free.rest.state)
        return free.cost(system.parameters, rest.state), rest.converged

    left, rested = central(nudged_cost, jnp.zeros(1), nudge)
    curvature = hessian(system, free.rest.state)
    pull = jax.grad(lambda state: free.cost(system.parameters, state))(free.rest.state)[PART]
    costate = -jnp.linalg.solve(curvature, pull)
    return left[0], -costate @ curvature @ costate, free.rest.converged & rested


@eqx.filter_jit
def sampled_proposition(
    system: FunctionSystem, start: State, direction: PyTree, chains: Chains, nudge: ArrayLike, key: Array
) -> tuple[Array, Array, Array]:
    """The derivative of (77) for each chain by a centered difference, its value by (78), and the least acceptance."""

    def price(state: PyTree) -> Array:
        return system.cost(direction, state)

    def nudged_cost(multiple: Array) -> tuple[Array, Array]:
        found = chains(system.nudged(multiple[0], direction), start, price, key)
        return found.mean, found.acceptance.mean()

    left, accepted = central(nudged_cost, jnp.zeros(1), nudge)
    first, second = chains(system, start, lambda state: (price(state), price(state) ** 2), key).mean
    return left[0], -covaried(first, first, second) / system.temperature, accepted


def central(function: Callable[[Array], tuple[PyTree, Array]], point: Array, nudge: ArrayLike) -> tuple[PyTree, Array]:
    """Centered differences of `function` along each coordinate of the vector `point`, on the first axis.

    The function returns what is differenced and how far it can be trusted; the second result is the least trust.

    >>> slopes, trust = central(lambda point: (jnp.sum(point**2), jnp.bool_(True)), jnp.arange(3.0), 0.5)
    >>> slopes, trust
    (Array([0., 2., 4.], dtype=float32), Array(True, dtype=bool))
    """
    moves = nudge * jnp.eye(point.size, dtype=point.dtype)
    values, trust = jax.vmap(function)(point + jnp.concatenate([moves, -moves]))
    return jax.tree.map(lambda leaf: (leaf[: point.size] - leaf[point.size :]) / (2 * nudge), values), trust.min()
