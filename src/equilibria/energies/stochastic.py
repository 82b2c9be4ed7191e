"""Learning in any energy with noise: expectations under the Boltzmann law instead of fixed points.

Appendix B of Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179); equation numbers are
theirs. Each quantity is measured on independent Langevin chains and comes with its standard error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from equilibria import check
from equilibria.energies import langevin
from equilibria.energies.function import Energy, PyTree, along, callable_energy, checked, double, phases
from equilibria.energies.implicit import Comparison
from equilibria.energies.langevin import Noise


class Estimate(NamedTuple):
    """A sampled value, its standard error, and the share of proposals that were accepted."""

    value: PyTree
    error: PyTree
    acceptance: Array


class Stochastic(eqx.Module):
    """A system that is read through its Boltzmann law e^(-F/T) / Z, sampled by Langevin dynamics.

    The energy is a function as in `Implicit`. The dynamics is ds = -dF/ds dt + σ dB (66), whose stationary law is
    proportional to e^(-2F/σ²): at `temperature` T, σ² = 2T, and the paper's e^(-F) (67) is T = 1, σ = √2. Euler steps
    of length `step` sample it with a bias of order `step`; with `adjusted` each step is a proposal that is accepted or
    refused (Metropolis), which removes the bias and leaves the step to be chosen for speed: an acceptance near 0.6 is
    good, and near 0 the chains do not move.

    `chains` independent chains start at the same state, make `burn` steps that are forgotten and `steps` that are
    averaged. Errors are the spread of the chains' averages over √chains: they hold whatever the correlation within a
    chain, provided that `burn` is long enough to forget the start.

    Source: Scellier and Bengio, arXiv:1602.05179, Appendix B.

    >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state, step=0.5)
    >>> mean = system.expectation(lambda state: state, 2.0, 0.0, 0.0, key=jax.random.key(0))
    >>> bool(abs(mean.value - 2.0) < 4 * mean.error), bool(mean.error < 0.02)
    (True, True)
    """

    energy: Energy = eqx.field(static=True)
    temperature: float = eqx.field(default=1.0, static=True)
    step: float = eqx.field(default=0.1, static=True)
    steps: int = eqx.field(default=2000, static=True)
    burn: int = eqx.field(default=200, static=True)
    chains: int = eqx.field(default=100, static=True)
    adjusted: bool = eqx.field(default=True, static=True)

    def __check_init__(self) -> None:
        callable_energy(self.energy)
        check.number("temperature", self.temperature, above=0.0)
        check.number("step", self.step, above=0.0)
        check.count("steps", self.steps)
        check.count("burn", self.burn, least=0)
        check.count("chains", self.chains, least=2)

    def sample(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, key: Array
    ) -> PyTree:
        """Where each chain ends: independent draws from the Boltzmann law (67), with the chains on the first axis.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state**2).sum(), step=0.5, steps=50)
        >>> system.sample(0.0, 0.0, jnp.zeros(3), key=jax.random.key(0)).shape
        (100, 3)
        """
        arguments = checked(self.energy, parameters, influence, start, world)
        run = langevin.run(self.energy, _nothing, *arguments, self._noise(key), self.chains, self.adjusted)
        self._warn(run.state, run.acceptance.mean())
        return run.state

    def expectation(
        self,
        observable: Callable[[PyTree], PyTree],
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        key: Array,
    ) -> Estimate:
        """The mean of `observable`, a function of the state, over the Boltzmann law (67).

        Compiled once per observable: define it once.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2, temperature=3.0, step=0.3)
        >>> square = system.expectation(lambda state: state**2, 2.0, 0.0, 0.0, key=jax.random.key(1))
        >>> bool(abs(square.value - 1.5) < 4 * square.error)       # temperature / weight
        True
        """
        arguments = checked(self.energy, parameters, influence, start, world)
        run = langevin.run(self.energy, observable, *arguments, self._noise(key), self.chains, self.adjusted)
        return self._estimate(run.mean, run.acceptance.mean())

    def objective(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        direction: PyTree = 1.0,
        key: Array,
    ) -> Estimate:
        """The expected cost J(θ, v) = E[δ . dF/dβ] (69).

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state, step=0.5)
        >>> cost = system.objective(2.0, 0.0, 0.0, key=jax.random.key(0))
        >>> bool(abs(cost.value - 2.0) < 4 * cost.error)
        True
        """
        arguments = checked(self.energy, parameters, influence, start, world)
        direction = along(arguments[1], direction)
        rest = (self._noise(key), self.chains, self.adjusted)
        return self._estimate(*langevin.objective(self.energy, *arguments, direction, *rest))

    def gradient(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        direction: PyTree = 1.0,
        method: str = "two-phase",
        nudge: float = 0.1,
        sides: str = "both",
        key: Array,
    ) -> Estimate:
        """The gradient dJ/dθ of the expected cost (69).

        - ``"two-phase"``: (E under β + ξδ of dF/dθ, minus the same under β) / ξ (70), ξ = `nudge`, `sides` as in
          `Implicit.gradient`. Both phases use the same noise, and the error is that of their difference; it still
          grows as 1/ξ, while the bias falls as ξ or ξ².
        - ``"covariance"``: E[d²F/dβdθ . δ] - Cov(dF/dθ, C) / T with C = δ . dF/dβ, the limit of the former, from one
          phase and without bias. It follows from (74)-(76).

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state, step=0.5)
        >>> slope = system.gradient(2.0, 0.0, 0.0, key=jax.random.key(0))
        >>> bool(abs(slope.value - 1.0) < 4 * slope.error)
        True
        """
        check.choice("method", method, ("two-phase", "covariance"))
        arguments = checked(self.energy, parameters, influence, start, world)
        direction = along(arguments[1], direction)
        chosen, moving = jax.random.split(key)
        rest = (self._noise(moving), self.chains, self.adjusted)
        if method == "covariance":
            return self._estimate(*langevin.covariance(self.energy, *arguments, direction, *rest))
        multiples = phases(nudge, sides, chosen)
        return self._estimate(*langevin.two_phase(self.energy, *arguments, direction, multiples, *rest))

    def check_theorem(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        nudge: float = 0.1,
        key: Array,
    ) -> Comparison:
        """Theorem 3 on this energy: (d/dθ E[dF/dβ])^T = d/dβ E[dF/dθ] (73), at any temperature.

        Both sides are centered differences, of width `nudge`, of sampled expectations; each is an `Estimate` of size
        (dim β, dim θ), and so is the difference, whose error counts that the chains share their noise. Where nothing
        fluctuates (a regulariser) only rounding is left, which the error does not count.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2 + pull * state, step=0.3)
        >>> sides = system.check_theorem(2.0, 0.5, 0.0, key=jax.random.key(0))       # both are pull / weight^2
        >>> bool(abs(sides.difference.value) < 4 * sides.difference.error)
        True
        """
        return self._compare(langevin.theorem, (parameters, influence, start, world), key, nudge)

    def check_proposition(
        self,
        parameters: PyTree,
        influence: PyTree,
        start: PyTree,
        world: PyTree = None,
        *,
        direction: PyTree = 1.0,
        nudge: float = 0.1,
        key: Array,
    ) -> Comparison:
        """Proposition 4 on this energy: d/dξ E^(β+ξδ)[C] = -Var[C] / T <= 0 at ξ = 0 (77, 78; the paper has T = 1).

        `left` is the derivative as a centered difference, of width `nudge`, between sampled expectations; `right` is
        the variance without nudge.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2 + pull * state, step=0.3)
        >>> sides = system.check_proposition(2.0, 0.0, 0.0, key=jax.random.key(0))     # -1 / weight
        >>> bool(abs(sides.left.value + 0.5) < 4 * sides.left.error), bool(abs(sides.right.value + 0.5) < 0.03)
        (True, True)
        """
        return self._compare(langevin.proposition, (parameters, influence, start, world), key, nudge, direction)

    def exact(
        self,
        observable: Callable[[PyTree], PyTree],
        parameters: PyTree,
        influence: PyTree,
        centre: PyTree,
        world: PyTree = None,
        *,
        reach: float = 10.0,
        points: int = 401,
    ) -> PyTree:
        """The mean of `observable` by quadrature, for a state of one or two numbers, in float64.

        The trapezoidal rule with `points` per axis on centre ± reach, which converges faster than any power where the
        law vanishes at the edges; if it does not vanish there, this is refused.

        >>> system = Stochastic(lambda weight, pull, state, world: state**4 / 4 - weight * state, temperature=0.5)
        >>> float(system.exact(lambda state: state**3, 1.5, 0.0, 0.0).round(12))      # the mean force is 0
        1.5
        """
        check.number("reach", reach, above=0.0)
        check.count("points", points, least=3)
        with jax.enable_x64(True):
            arguments = checked(self.energy, *double((parameters, influence, centre, world)), name="centre")
            flat, unravel = ravel_pytree(arguments[2])
            if flat.size > 2:
                check.refuse("centre", f"{flat.size} numbers", "one or two: a grid in more has too many points")
            axes = jnp.meshgrid(*(jnp.linspace(x - reach, x + reach, points) for x in flat), indexing="ij")
            states = jax.vmap(unravel)(jnp.stack([axis.ravel() for axis in axes], axis=-1))
            parameters, influence, _, world = arguments
            levels = jax.vmap(lambda state: self.energy(parameters, influence, state, world))(states)
            weights = jnp.exp((levels.min() - levels) / self.temperature)
            _vanishes_at_edges(np.asarray(weights).reshape((points,) * flat.size), reach)
            mean = partial(jnp.tensordot, weights / weights.sum(), axes=1)
            return jax.tree.map(lambda leaf: np.asarray(mean(leaf)), jax.vmap(observable)(states))

    def _compare(self, measure: Callable, arguments: tuple, key: Array, nudge: float, *direction: PyTree) -> Comparison:
        check.number("nudge", nudge, above=0.0)
        arguments = checked(self.energy, *arguments)
        direction = tuple(along(arguments[1], given) for given in direction)
        rest = (nudge, self._noise(key), self.chains, self.adjusted)
        left, right, acceptance = measure(self.energy, *arguments, *direction, *rest)
        difference = self._estimate(left - right, acceptance)
        finite = bool(np.isfinite(difference.error).all())
        return Comparison(self._estimate(left, acceptance), self._estimate(right, acceptance), difference, finite)

    def _noise(self, key: Array) -> Noise:
        return Noise(self.temperature, self.step, self.steps, self.burn, key)

    def _estimate(self, by_chain: PyTree, acceptance: Array) -> Estimate:
        self._warn(by_chain, acceptance)
        mean = jax.tree.map(lambda leaf: leaf.mean(0), by_chain)
        error = jax.tree.map(lambda leaf: leaf.std(0, ddof=1) / np.sqrt(self.chains), by_chain)
        return Estimate(mean, error, acceptance)

    def _warn(self, by_chain: PyTree, acceptance: Array) -> None:
        if check.concrete(acceptance) is None:
            return
        lost = not self.adjusted and acceptance < 1  # an observable may be finite where the state is not
        if lost or not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(by_chain)):
            warnings.warn("chains diverged: take a smaller step or adjusted=True", RuntimeWarning, stacklevel=4)
        elif acceptance < 0.05:
            message = f"chains hardly move: acceptance {acceptance:.3f}; take a smaller step"
            warnings.warn(message, RuntimeWarning, stacklevel=4)


def _nothing(state: PyTree) -> tuple:
    return ()


def _vanishes_at_edges(weights: np.ndarray, reach: float) -> None:
    edges = max(weights.take((0, -1), axis=axis).max() for axis in range(weights.ndim))
    if not edges < 1e-12:
        allowed = "a reach at whose end the Boltzmann weight is below 1e-12 of its largest, and an energy that has one"
        check.refuse("reach", f"{reach}, where the weight is {edges:.1e}", allowed)
