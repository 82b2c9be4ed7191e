"""The optimiser of a run: any optax transformation, known by its value."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from equilibria import check
from equilibria.compiled import array
from equilibria.files.identity import Unseen, fingerprint
from equilibria.learn.rule import PyTree, Rule

_RATE, _FINAL, _STEPS = "learning_rate", "final_rate", "steps"


class _Fallen(NamedTuple):
    """What a falling rate keeps: the number of updates, and what the direction's transformation keeps."""

    updates: Array
    inner: PyTree


def _falling(
    learning_rate: Array, final_rate: Array, steps: Array, direction: optax.GradientTransformation
) -> optax.GradientTransformation:
    def update(updates: PyTree, state: _Fallen, parameters: PyTree = None) -> tuple[PyTree, _Fallen]:
        updates, inner = direction.update(updates, state.inner, parameters)
        rate = learning_rate * (1 + (final_rate - 1) * jnp.minimum(state.updates / steps, 1.0))
        return jax.tree.map(lambda slope: -rate * slope, updates), _Fallen(state.updates + 1, inner)

    return optax.GradientTransformation(lambda moving: _Fallen(jnp.zeros((), int), direction.init(moving)), update)


def falling(direction: optax.GradientTransformation) -> optax.GradientTransformation:
    """Steps along a direction at a rate that falls in a line to a fraction of itself, and stays there.

    The rate, the fraction and the number of steps live in the state, where `train` puts what it was given: others do not
    compile again, and a run that goes on has those it had.

    Args:
        direction: a transformation such as `optax.scale_by_adam()`.

    Returns:
        The optimiser, for `train(learning_rate=..., final_rate=...)`.
    """
    inject = optax.inject_hyperparams(_falling, static_args=("direction",))
    return inject(learning_rate=0.01, final_rate=1.0, steps=1.0, direction=direction)


_DESCENT = falling(optax.identity())


class Optimiser:
    """A transformation with the rate it is to have; equal ones share one compiled program.

    Optax makes new functions every time: what is compared is their code and the numbers they close over.

    >>> Optimiser(optax.adam(0.1), None) == Optimiser(optax.adam(0.1), None) != Optimiser(optax.adam(0.2), None)
    True
    """

    def __init__(self, transform: optax.GradientTransformation | None, rate: float | None, final_rate: float = 1.0):
        self.transform = _DESCENT if transform is None else transform
        self.rate = None if rate is None else float(check.number(_RATE, rate, above=0.0))
        self.final_rate = float(check.number(_FINAL, final_rate, least=0.0, most=1.0))
        self.steps = 1  # over which the rate falls
        try:
            self.name = fingerprint(tuple(self.transform))
        except Unseen:  # then it equals no other one
            self.name = uuid.uuid4().hex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Optimiser) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def init(self, rule: Rule, parameters: PyTree, mapped: bool) -> PyTree:
        """The state to begin with, for one run or for several side by side."""
        moving = eqx.filter(parameters, rule.learned(parameters))
        state = _begun(self, moving, mapped)
        if self.rate is None and self.final_rate == 1:
            return state
        rates: dict[str, Any] = getattr(state, "hyperparams", {})
        if self.rate is not None and _RATE not in rates:
            check.refuse(_RATE, self.rate, "None where an optimiser is given that has its own")
        if self.final_rate != 1 and _FINAL not in rates:
            check.refuse(_FINAL, self.final_rate, "1 where an optimiser is given, which may have a schedule of its own")
        wanted = {_RATE: self.rate, **({} if self.final_rate == 1 else {_FINAL: self.final_rate, _STEPS: self.steps})}
        given = {
            name: array(np.full(rates[name].shape, value), rates[name].dtype)
            for name, value in wanted.items()
            if value is not None
        }
        return state._replace(hyperparams=rates | given)

    def used(self, state: PyTree) -> float | None:
        """The learning rate in a state, where it is one number that this class has put there."""
        rates = getattr(state, "hyperparams", {})
        return float(np.ravel(rates[_RATE])[0]) if _RATE in rates else None


@eqx.filter_jit
def _begun(optimiser: Optimiser, moving: PyTree, mapped: bool) -> PyTree:
    """The first state of a transformation, compiled once for all that are equal."""
    begin = optimiser.transform.init
    return (eqx.filter_vmap(begin) if mapped else begin)(moving)
