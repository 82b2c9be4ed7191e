"""Fixed points of a user's energy and the gradients of what is read there, compiled once per energy.

`equilibria.energies.implicit` is the public side and gives the definitions; equation numbers are those of Scellier and
Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.energies.function import PART, FunctionSystem
from equilibria.equilibrators.driver import relax
from equilibria.equilibrators.flow import GradientFlow, newton
from equilibria.learn.backprop import costate
from equilibria.learn.contrast import difference
from equilibria.learn.rule import PyTree
from equilibria.model.network import State


class FixedPoint(NamedTuple):
    """Where the state stopped, and whether it was at rest there."""

    state: PyTree
    converged: Array  # the force is below the tolerance
    steps: Array  # steps of gradient flow
    force: Array  # largest |dF/ds| over the state


class Gradient(NamedTuple):
    """A gradient of the objective, and whether every relaxation behind it came to rest."""

    value: PyTree  # shaped like the parameters
    objective: Array
    converged: Array


class Relaxation(eqx.Module):
    """The gradient flow (37), then Newton's method if asked; Newton's state is kept if its force is smaller."""

    flow: GradientFlow
    polish: bool = eqx.field(static=True)

    @property
    def euler(self) -> GradientFlow:
        """The flow without an end: one step of it is s - ε dF/ds wherever it is (53)."""
        return GradientFlow(self.flow.steps, self.flow.step_size)

    def rests(self, force: Array) -> Array:
        """Whether a force is no longer felt."""
        return force <= jnp.asarray(self.flow.force_tolerance)

    @eqx.filter_jit
    def __call__(self, system: FunctionSystem, start: State) -> FixedPoint:
        """Where `start` comes to rest, as a state of the system."""
        end = relax(self.flow, system, start, None)
        state, force = end.state, largest_force(system, end.state)
        if self.polish:
            polished = newton(system, state)
            better = (left := largest_force(system, polished)) < force
            state = {PART: jnp.where(better, polished[PART], state[PART])}
            force = jnp.where(better, left, force)
        return FixedPoint(state, self.rests(force), end.steps, force)


def largest_force(system: FunctionSystem, state: State) -> Array:
    """The largest |dF/ds| over a state."""
    return jnp.max(jnp.abs(system.force(state)[PART]))


@eqx.filter_jit
def path(system: FunctionSystem, start: State, how: GradientFlow, steps: int) -> State:
    """`start` and the states after each of `steps` Euler steps (53)."""

    def move(state: State, _: None) -> tuple[State, State]:
        state, _ = how.step(system, state, None, None)
        return state, state

    _, states = jax.lax.scan(move, start, length=steps)
    return {PART: jnp.concatenate([start[PART][None], states[PART]])}


@eqx.filter_jit
def hessian(system: FunctionSystem, state: State) -> Array:
    """d²F/ds² as a matrix."""
    return -jax.jacfwd(lambda numbers: system.force({PART: numbers})[PART])(state[PART])


class FreePhase(eqx.Module):
    """A system at rest without nudge, from which every gradient is taken."""

    system: FunctionSystem
    direction: PyTree
    relaxation: Relaxation
    start: State
    rest: FixedPoint
    objective: Array

    def cost(self, parameters: PyTree, state: State) -> Array:
        """C(θ, s) (3)."""
        here = self.system.with_parameters(parameters)
        return here.cost(self.direction, here.read(state))


@eqx.filter_jit
def free_phase(system: FunctionSystem, start: State, direction: PyTree, relaxation: Relaxation) -> FreePhase:
    """The free phase, and the objective (4) there."""
    rest = relaxation(system, start)
    return FreePhase(system, direction, relaxation, start, rest, system.cost(direction, system.read(rest.state)))


# Gradients: each returns dJ/dθ and whether what it relaxed came to rest. ---------------------------------------------


@eqx.filter_jit
def two_phase(free: FreePhase, multiples: Array) -> tuple[PyTree, Array]:
    """The contrast of dF/dθ at rest between the influences β + multiples δ: (10) where the first multiple is 0."""

    def phase(multiple: Array) -> tuple[PyTree, Array]:
        system = free.system.nudged(multiple, free.direction)
        rest = free.relaxation(system, free.rest.state)
        return system.by_parameters(system.read(rest.state)), rest.converged

    pushes, rested = jax.vmap(phase)(multiples)
    return between(pushes, multiples), rested.all()


def between(pair: PyTree, multiples: Array) -> PyTree:
    """The contrast of what was found in the low and the high phase, which are on the first axis."""
    low, high = (jax.tree.map(lambda leaf: leaf[side], pair) for side in (0, 1))  # noqa: B023
    return difference(high, low, multiples[1] - multiples[0])


@eqx.filter_jit
def implicit(free: FreePhase) -> tuple[PyTree, Array]:
    """Reverse differentiation of the cost at the root of dF/ds, by the implicit function theorem."""

    def objective(parameters: PyTree) -> Array:
        return free.cost(parameters, newton(free.system.with_parameters(parameters), free.rest.state))

    return eqx.filter_grad(objective)(free.system.parameters), jnp.bool_(True)


@eqx.filter_jit
def recurrent(free: FreePhase) -> tuple[PyTree, Array]:
    """Appendix A: the costate relaxes in the linearised system (62), then dL/dθ of the Lagrangian (57).

    Here the costate is that of one Euler step of the flow, S = s - ε dF/ds, whose linearisation is 1 - ε H with
    H = d²F/ds². With λ = -ε u, u <- dC/ds + (1 - ε H) u is λ <- λ - ε (H λ + dC/ds): the flow whose rest is (62), and a
    move of u is what is left of (62). (dS/dθ)^T u is then the second term of dL/dθ = dC/dθ + λ . d²F/dθds.
    """
    learned, fixed = eqx.partition(free.system.parameters, eqx.is_inexact_array)
    flow, state = free.relaxation.flow, free.rest.state

    def step(learned: PyTree, state: State) -> State:
        return free.relaxation.euler.step(free.system.with_parameters(eqx.combine(learned, fixed)), state, None, None)[
            0
        ]

    direct, slope = jax.grad(lambda *at: free.cost(eqx.combine(at[0], fixed), at[1]), argnums=(0, 1))(learned, state)
    found = costate(step, learned, state, slope, flow.steps, jnp.asarray(flow.force_tolerance))
    return jax.tree.map(jnp.add, direct, found.gradient), free.relaxation.rests(found.residual)


@eqx.filter_jit
def unrolled(free: FreePhase, steps: int) -> tuple[PyTree, Array]:
    """Reverse differentiation through every step of the relaxation from `start`."""

    def objective(parameters: PyTree) -> tuple[Array, State]:
        states = path(free.system.with_parameters(parameters), free.start, free.relaxation.euler, steps)
        last = {PART: states[PART][-1]}
        return free.cost(parameters, last), last

    gradient, last = eqx.filter_grad(objective, has_aux=True)(free.system.parameters)
    return gradient, free.relaxation.rests(largest_force(free.system, last))


METHODS: dict[str, Callable[[FreePhase, Array, int], tuple[PyTree, Array]]] = {
    "two-phase": lambda free, multiples, steps: two_phase(free, multiples),
    "implicit": lambda free, multiples, steps: implicit(free),
    "recurrent": lambda free, multiples, steps: recurrent(free),
    "unrolled": lambda free, multiples, steps: unrolled(free, steps),
}


def gradient(free: FreePhase, method: str, multiples: Array, steps: int) -> Gradient:
    """dJ/dθ by one of the methods: `multiples` are those of two phases, `steps` those that are unrolled.

    A warning says if a relaxation did not come to rest, where that is known.
    """
    value, rested = METHODS[method](free, multiples, steps)
    converged = free.rest.converged & rested
    seen = f"free phase: largest force {free.rest.force}, steps {free.rest.steps}"
    warn_unconverged(f"{method} gradient", converged, seen, depth=4)
    return Gradient(value, free.objective, converged)


def warn_unconverged(what: str, converged: Array, detail: str, *, depth: int = 3) -> None:
    """Say, `depth` calls up, that something did not come to rest, where that is known."""
    known = check.concrete(converged)
    if known is not None and not known.all():
        advice = "If the force grows, take a smaller step; if it falls, more steps; if neither, look at the energy."
        warnings.warn(f"{what} not converged ({detail}). {advice}", RuntimeWarning, stacklevel=depth)
