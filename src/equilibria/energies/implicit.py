"""Learning in any energy: predictions, costs and gradients defined by where a system comes to rest.

The framework of Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179), Section 2 and
Appendix A; equation numbers are theirs. Nothing here knows about neurons: the energy is a function the user writes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.energies import relax
from equilibria.energies.function import Energy, PyTree, along, callable_energy, checked, cost, double, phases
from equilibria.energies.relax import FixedPoint, Pace


class Gradient(NamedTuple):
    """A gradient of the objective, and whether every relaxation behind it came to rest."""

    value: PyTree  # shaped like the parameters
    objective: Array
    converged: Array


class Comparison(NamedTuple):
    """The two sides of an equation, measured separately."""

    left: Any
    right: Any
    difference: Any  # left - right
    converged: Any


class Implicit(eqx.Module):
    """A system that predicts by minimising an energy and learns by contrasting two minima.

    The energy F(θ, β, s, v) is any differentiable function ``energy(parameters, influence, state, world)`` that returns
    one number: θ is learned, β is how strongly the world acts on the system, s moves, v is the data. All four are
    arrays or pytrees. The state follows the gradient flow ds/dt = -dF/ds (37), in Euler steps of length `step` (53),
    until the largest force is below `tolerance` or `steps` have been made. The default tolerance is eps^(3/4) of the
    state's precision: 6e-6 in float32, 2e-12 in float64. With `polish`, Newton's method goes on from where the flow
    stopped and its result is kept if the force is smaller: worth it for stiff energies, of order size^3 per step.

    A clamped variable (β_x = +∞ in the paper) is not an infinite number here: leave it out of the state and let the
    energy read it from `world`.

    Functions are compiled once per energy: define the energy once, with what changes in its arguments.

    Source: Scellier and Bengio, arXiv:1602.05179, Section 2.

    >>> def energy(weight, pull, state, world):
    ...     x, target = world
    ...     return 0.5 * (state - weight * x) ** 2 + pull * 0.5 * (state - target) ** 2
    >>> system = Implicit(energy, step=0.5)
    >>> rest = system.fixed_point(2.0, 0.0, 0.0, (3.0, 5.0))      # weight, influence, start, world
    >>> round(float(rest.state), 3), bool(rest.converged)
    (6.0, True)
    >>> round(float(system.gradient(2.0, 0.0, 0.0, (3.0, 5.0)).value), 2)     # (weight x - target) x
    3.0
    """

    energy: Energy = eqx.field(static=True)
    step: float = eqx.field(default=0.1, static=True)
    steps: int = eqx.field(default=10_000, static=True)
    tolerance: float | None = eqx.field(default=None, static=True)
    polish: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        callable_energy(self.energy)
        check.number("step", self.step, above=0.0)
        check.count("steps", self.steps)
        if self.tolerance is not None:
            check.number("tolerance", self.tolerance, above=0.0)

    def fixed_point(self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None) -> FixedPoint:
        """The local minimum s_θ,v^β of (1) that the flow reaches from `start`. A warning says if it did not.

        >>> system = Implicit(lambda weight, pull, state, world: (state**4).sum() / 4 - weight * state.sum())
        >>> system.fixed_point(8.0, 0.0, jnp.ones(2)).state.round(3).tolist()
        [2.0, 2.0]
        """
        arguments = checked(self.energy, parameters, influence, start, world)
        rest = relax.relax(self.energy, *arguments, self._pace(arguments[2]), self.polish)
        self._warn("fixed point", rest.converged, f"largest force {rest.force}, steps {rest.steps}")
        return rest

    def path(self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None) -> PyTree:
        """Every state of the flow (53) from `start`: arrays with `steps` + 1 on the first axis, whether at rest or not.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * state**2, step=0.5, steps=3)
        >>> system.path(0.0, 0.0, 8.0).tolist()
        [8.0, 4.0, 2.0, 1.0]
        """
        arguments = checked(self.energy, parameters, influence, start, world)
        return relax.path(self.energy, *arguments, self.step, self.steps)

    def cost(
        self, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree = None, *, direction: PyTree = 1.0
    ) -> Array:
        """The cost of a state, C(θ, s, v) = δ . dF/dβ(θ, β, s, v) (3), with δ = `direction`, shaped like `influence`.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * state**2 + pull * abs(state - world))
        >>> float(system.cost(0.0, 0.0, 2.0, 5.0))
        3.0
        """
        parameters, influence, state, world = checked(self.energy, parameters, influence, state, world, name="state")
        return cost(self.energy, parameters, influence, along(influence, direction), state, world)

    def objective(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0
    ) -> Array:
        """The cost at the fixed point, J(θ, v) = C(θ, s_θ,v^β, v) (4).

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state)
        >>> round(float(system.objective(2.0, 0.0, 0.0)), 3)
        2.0
        """
        rest = self.fixed_point(parameters, influence, start, world)
        return self.cost(parameters, influence, rest.state, world, direction=direction)

    def gradient(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        direction: PyTree = 1.0,
        method: str = "two-phase",
        nudge: float = 0.01,
        sides: str = "both",
        key: Array | None = None,
    ) -> Gradient:
        """The gradient dJ/dθ of the objective (4).

        - ``"two-phase"``: [dF/dθ at rest under β + ξδ, minus the same under β] / ξ (10), with ξ = `nudge`. `sides` is
          ``"one"`` (as written, error of order ξ), ``"random"`` (ξ with a random sign drawn from `key`) or ``"both"``
          (+ξ against -ξ over 2ξ, error of order ξ²). With ``"one"`` and any ξ, ξ times the result is the gradient of
          the contrastive cost (49) with β⁺ = β + ξδ: contrastive Hebbian learning is this with a large nudge.
        - ``"implicit"``: the implicit function theorem at the fixed point.
        - ``"recurrent"``: recurrent back-propagation (Appendix A): the costate λ relaxes in the linearised system
          dλ/dt = -(d²F/ds² λ + dC/ds), whose rest is (62), then dJ/dθ = dL/dθ with L = C + λ . dF/ds (57). The paper's
          (64) omits dC/dθ, which is there when the cost depends on θ, as with a regulariser.
        - ``"unrolled"``: back-propagation through all `steps` steps of the relaxation from `start`.

        A regulariser λΩ(θ) is a term β_θ Ω(θ) in the energy with β_θ = 0 and δ_θ = λ (Section 2.2): the influence is
        then for example ``{"output": 0.0, "decay": 0.0}`` and the direction ``{"output": 1.0, "decay": 1e-4}``.

        >>> def energy(weight, pull, state, world):
        ...     fit = 0.5 * (state - world) ** 2
        ...     return 0.5 * (state - weight) ** 2 + pull["output"] * fit + pull["decay"] * weight**2
        >>> system, off, goal = Implicit(energy), {"output": 0.0, "decay": 0.0}, {"output": 1.0, "decay": 0.1}
        >>> slope = system.gradient(2.0, off, 0.0, 5.0, direction=goal, method="implicit")    # (2 - 5) + 2 x 0.1 x 2
        >>> round(float(slope.value), 3)
        -2.6
        """
        check.choice("method", method, ("two-phase", *relax.EXACT))
        arguments = checked(self.energy, parameters, influence, start, world)
        direction = along(arguments[1], direction)
        pace = self._pace(arguments[2])
        free = relax.relax(self.energy, *arguments, pace, self.polish)
        if method == "two-phase":
            rest = (free.state, pace, self.polish, phases(nudge, sides, key))
            value, at_rest = relax.two_phase(self.energy, *arguments, direction, *rest)
        else:
            value, at_rest = relax.EXACT[method](self.energy, *arguments, direction, free.state, pace)
        converged = free.converged & at_rest
        self._warn(f"{method} gradient", converged, f"free phase: largest force {free.force}, steps {free.steps}")
        parameters, influence, _, world = arguments
        objective = cost(self.energy, parameters, influence, direction, free.state, world)
        return Gradient(value, objective, converged)

    def curvature(self, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree = None) -> np.ndarray:
        """Eigenvalues of d²F/ds² at a state, smallest first, in float64: at a minimum all are positive (2).

        For small states: of order size^3.

        >>> system = Implicit(lambda weight, pull, state, world: state[0] ** 2 - weight * state[1] ** 2)
        >>> system.curvature(3.0, 0.0, jnp.zeros(2)).round(6).tolist()     # a saddle
        [-6.0, 2.0]
        """
        with jax.enable_x64(True):
            arguments = checked(self.energy, *double((parameters, influence, state, world)), name="state")
            return np.linalg.eigvalsh(np.asarray(relax.hessian(self.energy, *arguments)))

    def check_theorem(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, nudge: float = 1e-4
    ) -> Comparison:
        """Theorem 1 on this energy: (d/dθ dF/dβ)^T = d/dβ dF/dθ at the fixed point (20), sizes (dim β, dim θ).

        Both sides are centered differences, of width `nudge`, of the relaxed system: on the left each parameter is
        moved and the state relaxes again, on the right each influence. No second derivative is used. Float64, for
        small systems: 2 (dim θ + dim β) relaxations.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * (state - weight**2) ** 2 + pull * state**2)
        >>> sides = system.check_theorem(1.5, 0.2, 0.0)
        >>> bool(abs(sides.difference).max() < 1e-6), bool(sides.converged)
        (True, True)
        """
        return self._compare(relax.theorem, (parameters, influence, start, world), nudge)

    def check_proposition(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        direction: PyTree = 1.0,
        nudge: float = 1e-4,
    ) -> Comparison:
        """Proposition 2 on this energy: nudging lowers the cost, d/dξ C(θ, s^(β+ξδ)) <= 0 at ξ = 0 (32).

        `left` is that derivative as a centered difference of width `nudge` between relaxed states; `right` is
        -λ . d²F/ds² . λ (33), where λ, the derivative of the fixed point along δ (63), solves (62).

        >>> system = Implicit(lambda weight, pull, state, world: (state - weight) ** 2 + pull * state)
        >>> sides = system.check_proposition(1.0, 0.0, 0.0)
        >>> round(float(sides.left), 6), round(float(sides.right), 6)
        (-0.5, -0.5)
        """
        return self._compare(relax.proposition, (parameters, influence, start, world), nudge, direction)

    def _compare(self, measure: Callable, arguments: tuple, nudge: float, *direction: PyTree) -> Comparison:
        check.number("nudge", nudge, above=0.0)
        with jax.enable_x64(True):
            arguments = checked(self.energy, *double(arguments))
            direction = tuple(along(arguments[1], double(given)) for given in direction)
            pace = self._pace(arguments[2])
            left, right, converged = measure(self.energy, *arguments, *direction, pace, self.polish, nudge)
            self._warn("check", converged, "a relaxation did not come to rest")
            left, right = np.asarray(left), np.asarray(right)
            return Comparison(left, right, left - right, bool(converged))

    def _pace(self, state: PyTree) -> Pace:
        precision = jnp.finfo(jnp.result_type(*jax.tree.leaves(state))).eps
        return Pace(self.step, self.steps, self.tolerance or float(precision) ** 0.75)

    def _warn(self, what: str, converged: Array, detail: str) -> None:
        known = check.concrete(converged)
        if known is not None and not known.all():
            advice = "If the force grows, take a smaller step; if it falls, more steps; if neither, look at the energy."
            warnings.warn(f"{what} not converged ({detail}). {advice}", RuntimeWarning, stacklevel=3)
