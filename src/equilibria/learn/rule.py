r"""The contract of everything that learns: where it begins, and what one step finds.

What is learned is any pytree of parameters: a network, the synapses of a machine, a dict of arrays that a user's own energy
reads. A rule says what it carries from step to step and what a step on a batch finds; the loop (`learn.loop`) does all the
rest, and so every rule has batches, any optimiser, history, checkpoints, devices, several runs side by side, ways to stop.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria.model.network import without_wrapping

PyTree = Any


class Step(eqx.Module):
    """What one step of a rule found.

    Attributes:
        gradient: what an optimiser descends, in the shape of the parameters.
        carry: what the rule keeps for the next step: chains, particles, messages.
        report: numbers for the history, by name; of a rule that peeks a function that computes them, called where a row is
            due.

    >>> import equilibria as eq
    >>> found = eq.cd(1).step(eq.rbm(3, 2, key=0), {"visible": jnp.ones((4, 3))}, key=jax.random.key(1))
    >>> sorted(found.report), found.gradient.layers[1].bias.shape
    (['contrast'], (2,))
    """

    gradient: PyTree
    carry: PyTree
    report: dict[str, Array] | Callable[[], dict[str, Array]]


class Rule(eqx.Module):
    """What the loop needs of a learning rule.

    A new rule gives `begin` and `step`; all else has a default. It then has batches, any optimiser, history, checkpoints,
    devices, several runs side by side and ways to stop, from `train`.

    Attributes:
        peeks: whether a report is about the parameters before the step and belongs into the history as that (a bound at
            step 0, 1, ...); other reports are averaged since the last record.
        headline: the numbers of its report that a progress bar shows, beside those that the user measures.

    >>> class Decay(Rule):
    ...     def begin(self, parameters, data, batch_size, key):
    ...         return None
    ...     def step(self, parameters, batch, *, carry, index, key):
    ...         return Step(parameters, carry, {"size": jnp.abs(parameters)})
    >>> import equilibria as eq
    >>> run = eq.train(jnp.asarray(1.0), jnp.zeros((4, 1)), Decay(), epochs=2, batch_size=2, learning_rate=0.5, key=0)
    >>> float(run.parameters)
    0.0625
    """

    peeks: ClassVar[bool] = False
    headline: ClassVar[tuple[str, ...]] = ("bound", "error", "cost")

    @abstractmethod
    def begin(self, parameters: PyTree, data: PyTree, batch_size: int, key: Array) -> PyTree:
        """What the rule keeps from step to step, at the start; `data` are all of them."""

    @abstractmethod
    def step(self, parameters: PyTree, batch: PyTree, *, carry: PyTree, index: Array, key: Array) -> Step:
        """What a batch says; `index` holds the numbers of its examples."""

    def prepared(self, parameters: PyTree, data: PyTree, probabilities: bool = False) -> PyTree:
        """Checked data as arrays with the examples on their first axis."""
        return jax.tree.map(lambda leaf: jnp.asarray(without_wrapping(leaf)), data)

    def opened(self, parameters: PyTree, data: PyTree) -> PyTree:
        """The parameters that learning begins with, given prepared data; those given, unless a rule knows better."""
        return parameters

    def rate(self, parameters: PyTree, data: PyTree) -> float | None:
        """The rate of plain gradient descent that suits the data, where a rule knows one."""
        return None

    def batch(self, examples: PyTree) -> PyTree:
        """Examples as `step` takes them: whole numbers, in which data may be stored, become real ones."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, float)), examples)

    def learned(self, parameters: PyTree) -> PyTree:
        """Which leaves learning changes: all real numbers, unless a rule knows better."""
        return jax.tree.map(eqx.is_inexact_array, parameters)

    def broken(self, parameters: PyTree) -> str | None:
        """Why these parameters make no system at all, or None; looked at between chunks."""
        return None

    def watched(self, parameters: PyTree, updates: PyTree) -> dict[str, Array]:
        """Numbers for the history about a change of the parameters."""
        return {}

    def persistent(self, carry: PyTree) -> Mapping[str, Array] | None:
        """The persistent chains in the carry, draws of the network that is learned; None where there are none."""
        return None

    @property
    def law_temperature(self) -> Array:
        """The temperature of the law that `persistent` chains draw from."""
        return jnp.ones(())

    def shared(self, carry: PyTree) -> PyTree:
        """For each leaf of the carry, whether its first axis is shared out between devices."""
        return jax.tree.map(lambda leaf: False, carry)

    @property
    def remembers(self) -> bool:
        """Whether it keeps something for each example from epoch to epoch."""
        return False

    @property
    def counts(self) -> Mapping[str, int | None]:
        """Numbers that must be multiples of the number of devices, by the argument that decides them."""
        return {}
