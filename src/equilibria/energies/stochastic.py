"""Learning in any energy with noise: expectations under the Boltzmann law, sampled, with their standard errors.

Scellier and Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179), Appendix B.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.energies import averages, function, quadrature
from equilibria.energies.averages import Chains, Observable, Sampled, sampled, warn_of_chains
from equilibria.energies.function import Energy, FunctionSystem, along, check_settings, checked_system
from equilibria.energies.rules import Question, StochasticRule
from equilibria.energies.theorems import Comparison, compared_by_sampling, sampled_proposition, sampled_theorem
from equilibria.equilibrators.flow import Langevin
from equilibria.learn.rule import PyTree, Rule
from equilibria.model.network import State


class Stochastic(eqx.Module):
    """A system that is read through its Boltzmann law e^(-F/T) / Z, sampled by Langevin dynamics.

    The energy is a function as in `Implicit`. The dynamics is ds = -dF/ds dt + σ dB (66), whose stationary law is
    proportional to e^(-2F/σ²): at temperature T, σ² = 2T, and the paper's e^(-F) (67) is T = 1, σ = √2. Errors are the
    spread of the chains' averages over √chains: they hold whatever the correlation within a chain, provided that `burn`
    is long enough to forget the start.

    Args:
        energy: the function F.
        temperature: T.
        step: the length of a Langevin step.
        steps: how many are averaged.
        burn: how many are made before and forgotten.
        chains: how many independent chains start at the same state.
        adjusted: each step is a proposal that Metropolis' rule accepts or refuses; an acceptance near 0.6 is good, near 0
            the chains do not move. Without it the law has a bias of order `step`.

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
        """Refuse what is no function or no dynamics."""
        check_settings(self.energy, self.step, self.steps)
        check.number("temperature", self.temperature, above=0.0)
        check.count("burn", self.burn, least=0)
        check.count("chains", self.chains, least=2)

    def sample(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, key: Array
    ) -> PyTree:
        """Where each chain ends: independent draws from the Boltzmann law (67).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            key: a random key.

        Returns:
            The states, with the chains on the first axis.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state**2).sum(), step=0.5, steps=50)
        >>> system.sample(0.0, 0.0, jnp.zeros(3), key=jax.random.key(0)).shape
        (100, 3)
        """
        system, begin = self._system(parameters, influence, start, world)
        found = self._chains(system, begin, averages.nothing, key)
        warn_of_chains(found.state, found.acceptance.mean(), self._chains)
        return system.read(found.state)

    def expectation(
        self, observable: Observable, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, key: Array
    ) -> Sampled:  # fmt: skip
        """The mean of an observable over the Boltzmann law (67). Compiled once per observable: define it once.

        Args:
            observable: a function of the state.
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            key: a random key.

        Returns:
            The mean with its error.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2, temperature=3.0, step=0.3)
        >>> square = system.expectation(lambda state: state**2, 2.0, 0.0, 0.0, key=jax.random.key(1))
        >>> bool(abs(square.value - 1.5) < 4 * square.error)       # temperature / weight
        True
        """
        system, begin = self._system(parameters, influence, start, world)
        found = self._chains(system, begin, observable, key)
        return sampled(found.mean, found.acceptance.mean(), self._chains)

    def objective(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0, key: Array
    ) -> Sampled:  # fmt: skip
        """The expected cost J(θ, v) = E[δ . dF/dβ] (69).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.
            key: a random key.

        Returns:
            The mean with its error.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state, step=0.5)
        >>> cost = system.objective(2.0, 0.0, 0.0, key=jax.random.key(0))
        >>> bool(abs(cost.value - 2.0) < 4 * cost.error)
        True
        """
        system, begin = self._system(parameters, influence, start, world)
        found = averages.objective(self._chains, system, begin, along(system.influence, direction), key)
        return sampled(*found, self._chains)

    def gradient(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0,
        method: str = "two-phase", nudge: float = 0.1, sides: str = "both", key: Array,
    ) -> Sampled:  # fmt: skip
        """The gradient dJ/dθ of the expected cost (69).

        - ``"two-phase"``: (E under β + ξδ of dF/dθ, minus the same under β) / ξ (70). Both phases use the same noise,
          and the error is that of their difference; it still grows as 1/ξ, while the bias falls as ξ or ξ².
        - ``"covariance"``: E[d²F/dβdθ . δ] - Cov(dF/dθ, C) / T with C = δ . dF/dβ, the limit of the former, from one
          phase and without bias. It follows from (74)-(76).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.
            method: one of those above.
            nudge: ξ.
            sides: as in `Implicit.gradient`.
            key: a random key.

        Returns:
            The gradient with its error.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * (state - weight) ** 2 + pull * state, step=0.5)
        >>> slope = system.gradient(2.0, 0.0, 0.0, key=jax.random.key(0))
        >>> bool(abs(slope.value - 1.0) < 4 * slope.error)
        True
        """
        check.choice("method", method, averages.METHODS)
        system, begin = self._system(parameters, influence, start, world)
        chosen, moving = jax.random.split(key)
        arguments = (self._chains, system, begin, along(system.influence, direction), moving)
        found = averages.gradient(method, *arguments, function.phases(nudge, sides, chosen))
        return sampled(found.gradient, found.acceptance, self._chains)

    def rule(
        self, influence: PyTree, start: PyTree, *, direction: PyTree = 1.0, method: str = "two-phase",
        nudge: float = 0.1, sides: str = "both", particles: bool = False,
    ) -> Rule:  # fmt: skip
        """This energy as a learning rule: `train` then learns its parameters from data.

        As `Implicit.rule`; each example has its own noise in each step. The history has the "cost" and "acceptance".

        Args:
            influence: β.
            start: the state to begin with, one for all examples and chains.
            direction: δ, shaped like `influence`.
            method: as in `gradient`.
            nudge: ξ.
            sides: as in `gradient`; a random sign is drawn for each example.
            particles: each example's chains go on from their last states, and need less `burn`.

        Returns:
            A rule.

        >>> import equilibria as eq
        >>> def energy(mean, pull, state, world):
        ...     return 0.5 * (state - mean) ** 2 + pull * 0.5 * (state - world) ** 2
        >>> rule = Stochastic(energy, step=0.5, steps=50, burn=10).rule(influence=0.0, start=0.0)
        >>> run = eq.train(jnp.asarray(0.0), jnp.array([1.0, 2.0, 3.0]), rule, steps=50, learning_rate=0.3, key=0)
        >>> bool(abs(run.parameters - 2.0) < 0.1)
        True
        """
        question = Question(influence, direction, method, averages.METHODS, nudge, sides)
        arguments = (question, jax.tree.map(function.floating, start), particles, jnp.asarray(self.temperature, float))
        return StochasticRule(self.energy, *arguments, chains=self._chains)

    def check_theorem(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, nudge: float = 0.1, key: Array
    ) -> Comparison:  # fmt: skip
        """Theorem 3 on this energy: (d/dθ E[dF/dβ])^T = d/dβ E[dF/dθ] (73), at any temperature.

        Both sides are centered differences. Where nothing fluctuates only rounding is left, which no error counts.

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            nudge: half the width of the differences.
            key: a random key.

        Returns:
            Each side and the difference, whose error counts that the noise is shared, are `Sampled`, (dim β, dim θ).

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2 + pull * state, step=0.3)
        >>> sides = system.check_theorem(2.0, 0.5, 0.0, key=jax.random.key(0))       # both are pull / weight^2
        >>> bool(abs(sides.difference.value) < 4 * sides.difference.error)
        True
        """
        begun = self._system(parameters, influence, start, world)
        return compared_by_sampling(sampled_theorem, self._chains, begun, nudge, key)

    def check_proposition(
        self, parameters: PyTree, influence: PyTree, start: PyTree, world: PyTree = None, *, direction: PyTree = 1.0,
        nudge: float = 0.1, key: Array,
    ) -> Comparison:  # fmt: skip
        """Proposition 4 on this energy: d/dξ E^(β+ξδ)[C] = -Var[C] / T <= 0 at ξ = 0 (77, 78; the paper has T = 1).

        Args:
            parameters: θ.
            influence: β.
            start: the state to begin with.
            world: v.
            direction: δ, shaped like `influence`.
            nudge: half the width of the difference.
            key: a random key.

        Returns:
            The derivative as a centered difference, and the variance without nudge; each is a `Sampled`.

        >>> system = Stochastic(lambda weight, pull, state, world: 0.5 * weight * state**2 + pull * state, step=0.3)
        >>> sides = system.check_proposition(2.0, 0.0, 0.0, key=jax.random.key(0))     # -1 / weight
        >>> bool(abs(sides.left.value + 0.5) < 4 * sides.left.error), bool(abs(sides.right.value + 0.5) < 0.03)
        (True, True)
        """
        begun = self._system(parameters, influence, start, world)
        return compared_by_sampling(sampled_proposition, self._chains, begun, nudge, key, direction)

    def exact(
        self, observable: Observable, parameters: PyTree, influence: PyTree, centre: PyTree, world: PyTree = None, *,
        reach: float = 10.0, points: int = 401,
    ) -> PyTree:  # fmt: skip
        """The mean of `observable` by quadrature, for a state of one or two numbers, in float64.

        The trapezoidal rule converges faster than any power if the law vanishes at the edges, or else it is refused.

        Args:
            observable: a function of the state.
            parameters: θ.
            influence: β.
            centre: the state in the middle of the grid.
            world: v.
            reach: how far the grid goes to either side.
            points: on each axis.

        Returns:
            The mean.

        >>> system = Stochastic(lambda weight, pull, state, world: state**4 / 4 - weight * state, temperature=0.5)
        >>> float(system.exact(lambda state: state**3, 1.5, 0.0, 0.0).round(12))      # the mean force is 0
        1.5
        """
        check.number("reach", reach, above=0.0)
        check.count("points", points, least=3)
        with jax.enable_x64(True):
            arguments = function.double((parameters, influence, centre, world))
            system, middle = checked_system(self.energy, *arguments, temperature=self.temperature, name="centre")
            return quadrature.expectation(system, middle, observable, reach, points)

    @property
    def _chains(self) -> Chains:
        how = Langevin(self.steps, self.step, self.adjusted)
        return Chains(how, jnp.asarray(self.burn, int), self.chains)

    def _system(self, *arguments: PyTree) -> tuple[FunctionSystem, State]:
        return checked_system(self.energy, *arguments, temperature=self.temperature)
