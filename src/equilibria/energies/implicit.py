"""Learning in any energy that a user writes: predictions, costs and gradients defined by where a system comes to rest.

Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179), Section 2 and Appendix A.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.energies import relaxation
from equilibria.energies.function import Energy, along, check_settings, checked_system, double, floating, phases
from equilibria.energies.relaxation import FixedPoint, Gradient, Relaxation, warn_unconverged
from equilibria.energies.rules import ImplicitRule, Question
from equilibria.energies.theorems import Comparison, compared, proposition, theorem
from equilibria.equilibrators.flow import GradientFlow
from equilibria.learn.rule import PyTree, Rule


class Implicit(eqx.Module):
    """A system that predicts by minimising an energy and learns by contrasting two minima.

    The energy F(θ, β, s, v) is any differentiable function ``energy(parameters, influence, state, world)`` that returns
    one number: θ is learned, β is how strongly the world acts on the system, s moves, v is the data; all are arrays or
    pytrees. The state follows the gradient flow ds/dt = -dF/ds (37), in Euler steps (53), until no force is felt. A
    clamped variable (β_x = +∞ in the paper) is no infinite number here: leave it out of the state and let the energy
    read it from `world`. Compiled once per energy: define it once, with what changes in its arguments.

    Args:
        energy: the function F.
        step: the length of an Euler step.
        steps: how many at most.
        tolerance: the largest force at rest; by default eps^(3/4), 6e-6 in float32 and 2e-12 in float64.
        polish: Newton's method from where the flow stops, kept if the force is smaller; of order size^3 per step.

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
        """Refuse what is no function or no pace."""
        check_settings(self.energy, self.step, self.steps, self.tolerance)

    def fixed_point(self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None) -> FixedPoint:
        """The local minimum s_θ,v^β of (1) that the flow reaches from `start`. A warning says if it did not.

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.

        Returns:
            The state, whether it is at rest, the steps of the flow, and the largest force that is left.

        >>> system = Implicit(lambda weight, pull, state, world: (state**4).sum() / 4 - weight * state.sum())
        >>> system.fixed_point(8.0, 0.0, jnp.ones(2)).state.round(3).tolist()
        [2.0, 2.0]
        """
        system, begin = checked_system(self.energy, parameters, influence, start, world)
        rest = self._relaxation(system.precision)(system, begin)
        warn_unconverged("fixed point", rest.converged, f"largest force {rest.force}, steps {rest.steps}")
        return rest._replace(state=system.read(rest.state))

    def path(self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None) -> PyTree:
        """Every state of the flow (53) from `start`, whether at rest or not.

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.

        Returns:
            The states, `steps` + 1 on the first axis.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * state**2, step=0.5, steps=3)
        >>> system.path(0.0, 0.0, 8.0).tolist()
        [8.0, 4.0, 2.0, 1.0]
        """
        system, begin = checked_system(self.energy, parameters, influence, start, world)
        return system.read(relaxation.path(system, begin, GradientFlow(self.steps, self.step), self.steps))

    def cost(
        self, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree = None, *, direction: PyTree = 1.0
    ) -> Array:
        """The cost of a state, C(θ, s, v) = δ . dF/dβ(θ, β, s, v) (3).

        Args:
            parameters: θ.
            influence: β.
            state: s.
            world: v.
            direction: δ, shaped like `influence`.

        Returns:
            One number.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * state**2 + pull * abs(state - world))
        >>> float(system.cost(0.0, 0.0, 2.0, 5.0))
        3.0
        """
        system, at = checked_system(self.energy, parameters, influence, state, world, name="state")
        return system.cost(along(system.influence, direction), system.read(at))

    def objective(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0
    ) -> Array:
        """The cost at the fixed point, J(θ, v) = C(θ, s_θ,v^β, v) (4).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.

        Returns:
            One number.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state)
        >>> round(float(system.objective(2.0, 0.0, 0.0)), 3)
        2.0
        """
        rest = self.fixed_point(parameters, influence, start, world)
        return self.cost(parameters, influence, rest.state, world, direction=direction)

    def gradient(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0,
        method: str = "two-phase", nudge: float = 0.01, sides: str = "both", key: Array | None = None,
    ) -> Gradient:  # fmt: skip
        """The gradient dJ/dθ of the objective (4).

        - ``"two-phase"``: [dF/dθ at rest under β + ξδ, minus the same under β] / ξ (10). One-sided, ξ times it is the
          gradient of the contrastive cost (49) with β⁺ = β + ξδ: with a large nudge, contrastive Hebbian learning.
        - ``"implicit"``: the implicit function theorem at the fixed point.
        - ``"recurrent"``: recurrent back-propagation (Appendix A): the costate λ relaxes to (62) in the linearised
          system, then dJ/dθ = dL/dθ with L = C + λ . dF/ds (57). (64) omits dC/dθ, which a regulariser has.
        - ``"unrolled"``: back-propagation through all `steps` steps of the relaxation from `start`.

        A regulariser λΩ(θ) is a term β_θ Ω(θ) in the energy with β_θ = 0 and δ_θ = λ (Section 2.2): the influence is
        then for example ``{"output": 0.0, "decay": 0.0}`` and the direction ``{"output": 1.0, "decay": 1e-4}``.

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.
            method: one of those above.
            nudge: ξ.
            sides: ``"one"`` (error of order ξ), ``"random"`` (a random sign) or ``"both"`` (±ξ, error of order ξ²).
            key: a random key, for the random sign.

        Returns:
            The gradient, the objective, and whether all came to rest; a warning says if not.

        >>> def energy(weight, pull, state, world):
        ...     fit = 0.5 * (state - world) ** 2
        ...     return 0.5 * (state - weight) ** 2 + pull["output"] * fit + pull["decay"] * weight**2
        >>> system, off, goal = Implicit(energy), {"output": 0.0, "decay": 0.0}, {"output": 1.0, "decay": 0.1}
        >>> slope = system.gradient(2.0, off, 0.0, 5.0, direction=goal, method="implicit")    # (2 - 5) + 2 x 0.1 x 2
        >>> round(float(slope.value), 3)
        -2.6
        """
        check.choice("method", method, relaxation.METHODS)
        system, begin = checked_system(self.energy, parameters, influence, start, world)
        goal, how = along(system.influence, direction), self._relaxation(system.precision)
        multiples = phases(nudge, sides, key) if method == "two-phase" else jnp.zeros(2)
        free = relaxation.free_phase(system, begin, goal, how)
        return relaxation.gradient(free, method, multiples, self.steps)

    def rule(
        self, influence: PyTree, start: PyTree, *, direction: PyTree = 1.0, method: str = "two-phase",
        nudge: float = 0.01, sides: str = "both", particles: bool = False,
    ) -> Rule:  # fmt: skip
        """This energy as a learning rule: `train` then learns its parameters from data.

        What is trained is θ, any pytree; the data are v, with the examples on the first axis of every array, each of
        which keeps its type. A step descends the mean of `gradient` over a batch. The history has the mean objective,
        "cost", and the fraction of examples of which some relaxation did not come to rest, "unconverged".

        Args:
            influence: β.
            start: the state to begin with, one for all examples.
            direction: δ, shaped like `influence`.
            method: as in `gradient`.
            nudge: ξ.
            sides: as in `gradient`; a random sign is drawn for each example.
            particles: each example goes on from its last state.

        Returns:
            A rule.

        >>> import equilibria as eq
        >>> def energy(weight, pull, state, world):
        ...     x, target = world
        ...     return 0.5 * (state - weight @ x) ** 2 + pull * 0.5 * (state - target) ** 2
        >>> inputs = np.random.default_rng(0).normal(size=(20, 2))
        >>> rule = Implicit(energy, step=0.5).rule(influence=0.0, start=0.0)
        >>> run = eq.train(jnp.zeros(2), (inputs, inputs @ [1.0, -2.0]), rule, epochs=100, learning_rate=0.5, key=0)
        >>> run.parameters.round(2).tolist()
        [1.0, -2.0]
        """
        question = Question(influence, direction, method, tuple(relaxation.METHODS), nudge, sides)
        start, length = jax.tree.map(floating, start), self.steps if method == "unrolled" else 0
        how = self._relaxation(jnp.result_type(float, *jax.tree.leaves(start)))
        return ImplicitRule(self.energy, question, start, particles, jnp.zeros(()), how, length)

    def curvature(self, parameters: PyTree, influence: PyTree, state: PyTree, world: PyTree = None) -> np.ndarray:
        """Eigenvalues of d²F/ds² at a state, in float64: at a minimum all are positive (2). Of order size^3.

        Args:
            parameters: θ.
            influence: β.
            state: s.
            world: v.

        Returns:
            The eigenvalues, smallest first.

        >>> system = Implicit(lambda weight, pull, state, world: state[0] ** 2 - weight * state[1] ** 2)
        >>> system.curvature(3.0, 0.0, jnp.zeros(2)).round(6).tolist()     # a saddle
        [-6.0, 2.0]
        """
        with jax.enable_x64(True):
            system, at = checked_system(self.energy, *double((parameters, influence, state, world)), name="state")
            return np.linalg.eigvalsh(np.asarray(relaxation.hessian(system, at)))

    def check_theorem(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, nudge: float = 1e-4
    ) -> Comparison:
        """Theorem 1 on this energy: (d/dθ dF/dβ)^T = d/dβ dF/dθ at the fixed point (20).

        Both sides are centered differences of the relaxed system, in float64: on the left each parameter is moved and
        the state relaxes again, on the right each influence. For small systems: 2 (dim θ + dim β) relaxations.

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            nudge: half the width of the differences.

        Returns:
            Both sides, (dim β, dim θ), and what they differ by.

        >>> system = Implicit(lambda weight, pull, state, world: 0.5 * (state - weight**2) ** 2 + pull * state**2)
        >>> sides = system.check_theorem(1.5, 0.2, 0.0)
        >>> bool(abs(sides.difference).max() < 1e-6), bool(sides.converged)
        (True, True)
        """
        return compared(theorem, self.energy, self._relaxation, (parameters, influence, start, world), nudge)

    def check_proposition(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0,
        nudge: float = 1e-4,
    ) -> Comparison:  # fmt: skip
        """Proposition 2 on this energy: nudging lowers the cost, d/dξ C(θ, s^(β+ξδ)) <= 0 at ξ = 0 (32).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.
            nudge: half the width of the difference.

        Returns:
            On the left that derivative as a centered difference; on the right -λ . d²F/ds² . λ (33), where λ solves (62).

        >>> system = Implicit(lambda weight, pull, state, world: (state - weight) ** 2 + pull * state)
        >>> sides = system.check_proposition(1.0, 0.0, 0.0)
        >>> round(float(sides.left), 6), round(float(sides.right), 6)
        (-0.5, -0.5)
        """
        return compared(
            proposition, self.energy, self._relaxation, (parameters, influence, start, world), nudge, direction
        )

    def _relaxation(self, precision: np.dtype) -> Relaxation:
        tolerance = self.tolerance or float(jnp.finfo(precision).eps) ** 0.75
        return Relaxation(GradientFlow(self.steps, self.step, force_tolerance=tolerance), self.polish)
