"""The optimiser of a run: any optax transformation, known by its value."""

from __future__ import annotations

import uuid
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax

from equilibria import check
from equilibria.files.identity import Unseen, fingerprint
from equilibria.learn.rule import PyTree, Rule

_RATE = "learning_rate"
# The learning rate lives in the optimiser's state, so that another rate does not compile again.
_DESCENT = optax.inject_hyperparams(optax.sgd)(learning_rate=0.01)


class Optimiser:
    """A transformation with the rate it is to have; equal ones share one compiled program.

    Optax makes new functions every time: what is compared is their code and the numbers they close over.

    >>> Optimiser(optax.adam(0.1), None) == Optimiser(optax.adam(0.1), None) != Optimiser(optax.adam(0.2), None)
    True
    """

    def __init__(self, transform: optax.GradientTransformation | None, rate: float | None):
        self.transform = _DESCENT if transform is None else transform
        self.rate = None if rate is None else float(check.number(_RATE, rate, above=0.0))
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
        state = (eqx.filter_vmap(self.transform.init) if mapped else self.transform.init)(moving)
        if self.rate is None:
            return state
        rates: dict[str, Any] = getattr(state, "hyperparams", {})
        if _RATE not in rates:
            check.refuse(_RATE, self.rate, "None where an optimiser is given that has its own")
        return state._replace(hyperparams=rates | {_RATE: jnp.full_like(rates[_RATE], self.rate)})
