"""Fixed points of an energy and the derivatives of what is read there, compiled once per energy.

`equilibria.learn.implicit` is the public side and gives the definitions; equation numbers are those of Scellier and
Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optimistix as optx
from jax import Array
from jax.flatten_util import ravel_pytree

from equilibria.energies.function import Energy, PyTree, add, central, contrast, cost


class FixedPoint(NamedTuple):
    """Where the state stopped, and whether it was at rest there."""

    state: PyTree
    converged: Array  # the force is below the tolerance
    steps: Array  # steps of gradient flow
    force: Array  # largest |dF/ds| over the state


class Pace(NamedTuple):
    """How the gradient flow is followed, and where it stops."""

    step: float
    steps: int
    tolerance: float


@partial(jax.jit, static_argnames=("energy", "polish"))
def relax(
    energy: Energy, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree, pace: Pace, polish: bool
) -> FixedPoint:
    """The gradient flow (37), then Newton's method if asked; Newton's state is kept if its force is smaller."""
    slope = _slope(energy, influence, world)
    rest = _descend(lambda state: slope(state, parameters), start, pace)
    if not polish:
        return rest
    state = _newton(slope, rest.state, parameters)
    force = optx.max_norm(slope(state, parameters))
    better = force < rest.force
    state = jax.tree.map(lambda new, old: jnp.where(better, new, old), state, rest.state)
    force = jnp.where(better, force, rest.force)
    return FixedPoint(state, force <= pace.tolerance, rest.steps, force)


@partial(jax.jit, static_argnames=("energy", "steps"))
def path(
    energy: Energy, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree, step: float, steps: int
) -> PyTree:
    """`start` and the states after each of `steps` Euler steps (53)."""
    slope = _slope(energy, influence, world)

    def move(state: PyTree, _: None) -> tuple[PyTree, PyTree]:
        state = add(state, -step, slope(state, parameters))
        return state, state

    _, states = jax.lax.scan(move, start, length=steps)
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)


# Gradients: each returns dJ/dθ and whether what it relaxed came to rest. ---------------------------------------------


@partial(jax.jit, static_argnames=("energy", "polish"))
def two_phase(energy, parameters, influence, start, world, direction, free, pace, polish, multiples):
    """The contrast of dF/dθ at rest between the influences β + multiples δ: (10) where the first multiple is 0."""

    def phase(multiple: Array) -> tuple[PyTree, Array]:
        nudged = add(influence, multiple, direction)
        rest = relax(energy, parameters, nudged, free, world, pace, polish)
        return jax.grad(energy)(parameters, nudged, rest.state, world), rest.converged

    pushes, rested = jax.vmap(phase)(multiples)
    return contrast(pushes, multiples), rested.all()


@partial(jax.jit, static_argnames="energy")
def implicit(energy, parameters, influence, start, world, direction, free, pace):
    """Reverse differentiation of the cost at the root of dF/ds, by the implicit function theorem."""
    slope = _slope(energy, influence, world)

    def objective(parameters: PyTree) -> Array:
        state = _newton(slope, free, parameters)
        return cost(energy, parameters, influence, direction, state, world)

    return jax.grad(objective)(parameters), jnp.bool_(True)


@partial(jax.jit, static_argnames="energy")
def recurrent(energy, parameters, influence, start, world, direction, free, pace):
    """Appendix A: the costate relaxes in the linearised system (62), then dL/dθ of the Lagrangian (57)."""
    slope = _slope(energy, influence, world)
    pull = jax.grad(cost, argnums=4)(energy, parameters, influence, direction, free, world)

    def residual(costate: PyTree) -> PyTree:
        return add(_curve(slope, parameters, free, costate), 1.0, pull)

    rest = _descend(residual, jax.tree.map(jnp.zeros_like, free), pace)

    def lagrangian(parameters: PyTree) -> Array:
        work = jax.jvp(lambda state: energy(parameters, influence, state, world), (free,), (rest.state,))[1]
        return cost(energy, parameters, influence, direction, free, world) + work

    return jax.grad(lagrangian)(parameters), rest.converged


@partial(jax.jit, static_argnames=("energy", "steps"))
def _unrolled(energy, parameters, influence, start, world, direction, step, steps, tolerance):
    def objective(parameters: PyTree) -> tuple[Array, PyTree]:
        states = path(energy, parameters, influence, start, world, step, steps)
        last = jax.tree.map(lambda leaf: leaf[-1], states)
        return cost(energy, parameters, influence, direction, last, world), last

    gradient, last = jax.grad(objective, has_aux=True)(parameters)
    force = optx.max_norm(_slope(energy, influence, world)(last, parameters))
    return gradient, force <= tolerance


def unrolled(energy, parameters, influence, start, world, direction, free, pace):
    """Reverse differentiation through every step of the relaxation from `start`."""
    return _unrolled(energy, parameters, influence, start, world, direction, *pace)


EXACT: dict[str, Callable] = {"implicit": implicit, "recurrent": recurrent, "unrolled": unrolled}


# Checks: each returns the two sides and whether every relaxation came to rest. ---------------------------------------


@partial(jax.jit, static_argnames="energy")
def hessian(energy, parameters, influence, state, world):
    """d²F/ds² as a matrix."""
    flat, unravel = ravel_pytree(state)
    return jax.hessian(lambda flat: energy(parameters, influence, unravel(flat), world))(flat)


@partial(jax.jit, static_argnames=("energy", "polish"))
def theorem(energy, parameters, influence, start, world, pace, polish, nudge):
    """The two sides of (20), by centered differences of the relaxed system."""
    free = relax(energy, parameters, influence, start, world, pace, polish)
    theta, parameters_of = ravel_pytree(parameters)
    beta, influence_of = ravel_pytree(influence)

    def response(argument: int, theta: Array, beta: Array) -> tuple[Array, Array]:
        where = parameters_of(theta), influence_of(beta)
        rest = relax(energy, *where, free.state, world, pace, polish)
        return ravel_pytree(jax.grad(energy, argument)(*where, rest.state, world))[0], rest.converged

    left, rested_left = central(lambda theta: response(1, theta, beta), theta, nudge)
    right, rested_right = central(lambda beta: response(0, theta, beta), beta, nudge)
    return left.T, right, free.converged & rested_left & rested_right


@partial(jax.jit, static_argnames=("energy", "polish"))
def proposition(energy, parameters, influence, start, world, direction, pace, polish, nudge):
    """The derivative of (32) by a centered difference, and the right-hand side of (33) by a linear solve."""
    free = relax(energy, parameters, influence, start, world, pace, polish)

    def nudged_cost(multiple: Array) -> tuple[Array, Array]:
        rest = relax(energy, parameters, add(influence, multiple[0], direction), free.state, world, pace, polish)
        return cost(energy, parameters, influence, direction, rest.state, world), rest.converged

    left, rested = central(nudged_cost, jnp.zeros(1), nudge)
    curvature = hessian(energy, parameters, influence, free.state, world)
    pull = ravel_pytree(jax.grad(cost, argnums=4)(energy, parameters, influence, direction, free.state, world))[0]
    costate = -jnp.linalg.solve(curvature, pull)
    return left[0], -costate @ curvature @ costate, free.converged & rested


# Parts ----------------------------------------------------------------------------------------------------------------


def _slope(energy: Energy, influence: PyTree, world: PyTree) -> Callable[[PyTree, PyTree], PyTree]:
    """dF/ds as a function of the state and the parameters."""
    return lambda state, parameters: jax.grad(energy, argnums=2)(parameters, influence, state, world)


def _curve(slope: Callable, parameters: PyTree, state: PyTree, costate: PyTree) -> PyTree:
    """d²F/ds² . costate, without the matrix."""
    return jax.jvp(lambda state: slope(state, parameters), (state,), (costate,))[1]


def _descend(slope: Callable[[PyTree], PyTree], start: PyTree, pace: Pace) -> FixedPoint:
    """Euler steps against `slope` until it vanishes. It stops as soon as the slope is not finite."""

    def moving(carry: tuple) -> Array:
        _, pull, count = carry
        size = optx.max_norm(pull)
        return (count < pace.steps) & (size > pace.tolerance) & jnp.isfinite(size)

    def move(carry: tuple) -> tuple:
        state, pull, count = carry
        state = add(state, -pace.step, pull)
        return state, slope(state), count + 1

    state, pull, count = jax.lax.while_loop(moving, move, (start, slope(start), jnp.int32(0)))
    force = optx.max_norm(pull)
    return FixedPoint(state, force <= pace.tolerance, count, force)


def _newton(slope: Callable[[PyTree, PyTree], PyTree], start: PyTree, parameters: PyTree) -> PyTree:
    """A root of `slope` near `start`, differentiable in the parameters by the implicit function theorem."""
    precision = 4 * float(jnp.finfo(jnp.result_type(*jax.tree.leaves(start))).eps)
    solver: optx.Newton = optx.Newton(rtol=precision, atol=precision)
    return optx.root_find(slope, solver, start, args=parameters, max_steps=32, throw=False).value
