"""Learning rules for a user's own energy: what `Implicit.rule` and `Stochastic.rule` return, for `train`.

The parameters are the user's pytree, the data are the energy's `world` with the examples on the first axis of every array.
An example's gradient is that of `Implicit.gradient` or `Stochastic.gradient`; a step takes the mean over its batch.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.energies import averages, relaxation
from equilibria.energies.averages import Chains
from equilibria.energies.function import Energy, FunctionSystem, along, as_system, checked_system, floating, phases
from equilibria.energies.relaxation import Relaxation
from equilibria.learn.rule import PyTree, Rule, Step
from equilibria.model.network import State


class Question(eqx.Module):
    """Which gradient is asked for: of the cost along a direction of the influence, and by which method.

    Args:
        influence: β.
        direction: δ, shaped like the influence.
        method: one of `methods`.
        methods: those there are.
        nudge: ξ, for two phases.
        sides: "one", "random" or "both".
    """

    influence: PyTree
    direction: PyTree
    nudge: Array
    sides: str = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __init__(
        self, influence: PyTree, direction: PyTree, method: str, methods: tuple[str, ...], nudge: float, sides: str
    ):
        phases(nudge, sides, jax.random.key(0))  # refuses what is no nudge
        self.influence = jax.tree.map(floating, influence)
        self.direction = along(self.influence, direction)
        self.method, self.nudge, self.sides = check.choice("method", method, methods), jnp.asarray(nudge, float), sides

    def multiples(self, key: Array) -> Array:
        """What the two phases add to the influence, in multiples of the direction."""
        return phases(self.nudge, self.sides, key)


class Found(NamedTuple):
    """What one example says."""

    gradient: PyTree
    report: dict[str, Array]
    end: State  # where its particle is left


class EnergyRule(Rule):
    """A rule whose parameters an energy reads, and whose data are its world.

    Attributes:
        energy: the user's function.
        question: which gradient is asked for.
        start: one state for all examples.
        particles: whether each example goes on from its last state instead.
        temperature: of the system, 0 where it comes to rest.
    """

    energy: Energy = eqx.field(static=True)
    question: Question
    start: PyTree
    particles: bool = eqx.field(static=True)
    temperature: Array

    @abstractmethod
    def example(self, system: FunctionSystem, start: State, key: Array) -> Found:
        """The gradient of one example."""

    @property
    def remembers(self) -> bool:
        """A particle for each example, where they are kept."""
        return self.particles

    @property
    def copies(self) -> tuple[int, ...]:
        """The leading axes of an example's particle: its chains."""
        return ()

    def prepared(self, parameters: PyTree, data: PyTree, probabilities: bool = False) -> PyTree:
        """The data as arrays, if the energy makes a number of the first example."""
        data = jax.tree.map(jnp.asarray, data)
        if not jax.tree.leaves(eqx.filter(parameters, eqx.is_inexact_array_like)):
            check.refuse("model", repr(parameters), "an array of real numbers, or a pytree with at least one")
        for leaf in jax.tree.leaves(data):
            if not leaf.ndim:
                check.refuse("data", repr(leaf), "arrays with the examples on their first axis")
            check.finite("data", leaf)
        first = jax.tree.map(lambda leaf: leaf[0], data)
        checked_system(self.energy, parameters, self.question.influence, self.start, first)
        return data

    def batch(self, examples: PyTree) -> PyTree:
        """The examples as they are: an energy may read whole numbers as such."""
        return examples

    def begin(self, parameters: PyTree, data: PyTree, batch_size: int, key: Array) -> dict[str, PyTree]:
        """A particle for every example, where they are kept."""
        if not self.particles:
            return {}
        lead = (len(jax.tree.leaves(data)[0]), *self.copies)
        return {"particles": jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*lead, *leaf.shape)), self.start)}

    def step(self, parameters: PyTree, batch: PyTree, *, carry: Any = None, index: Any = None, key: Array) -> Step:
        """The mean over the batch of what each example says."""
        kept = (carry or {}).get("particles")
        starts = None if kept is None else jax.tree.map(lambda leaf: leaf[index], kept)

        def each(world: PyTree, start: PyTree, key: Array) -> tuple[PyTree, dict[str, Array], PyTree]:
            arguments = (parameters, self.question.influence, self.start, world, self.temperature)
            system, begin = as_system(self.energy, *arguments)
            begin = begin if start is None else system.written(start, lead=len(self.copies))
            found = self.example(system, begin, key)
            return found.gradient, found.report, system.read(found.end)

        keys = jax.random.split(key, len(jax.tree.leaves(batch)[0]))
        gradient, report, ends = jax.vmap(each)(batch, starts, keys)
        if kept is not None:
            carry = {"particles": jax.tree.map(lambda all_, new: all_.at[index].set(new), kept, ends)}
        mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), (gradient, report))
        return Step(mean[0], carry, mean[1])


class ImplicitRule(EnergyRule):
    """Gradients at fixed points; see `Implicit.rule`."""

    relaxation: Relaxation
    unroll: int = eqx.field(static=True)

    def example(self, system: FunctionSystem, start: State, key: Array) -> Found:
        """The gradient at the fixed point of one example."""
        free = relaxation.free_phase(system, start, self.question.direction, self.relaxation)
        found = relaxation.gradient(free, self.question.method, self.question.multiples(key), self.unroll)
        report = {"cost": found.objective, "unconverged": jnp.where(found.converged, 0.0, 1.0)}
        return Found(found.value, report, free.rest.state)


class StochasticRule(EnergyRule):
    """Gradients of expectations, sampled; see `Stochastic.rule`."""

    chains: Chains

    @property
    def copies(self) -> tuple[int, ...]:
        """One for each chain."""
        return (self.chains.count,)

    def example(self, system: FunctionSystem, start: State, key: Array) -> Found:
        """The gradient of one example's expected cost."""
        chosen, moving = jax.random.split(key)
        arguments = (self.chains, system, start, self.question.direction, moving)
        multiples = self.question.multiples(chosen)
        found = averages.gradient(self.question.method, *arguments, multiples)
        value = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), found.gradient)
        return Found(value, {"cost": jnp.mean(found.cost), "acceptance": found.acceptance}, found.state)
