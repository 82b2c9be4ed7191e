"""How layers learn by being nudged: what the estimators and `equilibria train classifier` share.

Chosen on digits, breast cancer, wine, moons and 10,000 digits of MNIST (docs/results/panel.md), after our networks for MNIST.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import optax
import xarray as xr
from jax import Array

from equilibria import check
from equilibria.equilibrators.descent import Descent
from equilibria.learn.augment import Augmented, InputDropout
from equilibria.learn.backprop import recurrent_backprop
from equilibria.learn.rates import scale_by_coupling
from equilibria.learn.recipes import contrastive_hebbian, equilibrium_propagation
from equilibria.learn.rule import Rule
from equilibria.model.world import Cost, cross_entropy

TINY = 1e-12  # a feature with a smaller spread is not scaled
# Outputs times this are the logits: with couplings small enough for one rest state, outputs are of order one.
SHARPNESS = 4.0
_FLOOR = 0.3  # of its range: features of a smaller spread are divided by so much, for near-constant ones are noise
TOLERANCE = 1e-2  # the free phase stops when nothing moves by more
_MISSING, _MANY = 0.2, 50  # inputs that are missing at random where there are many
# How fast each coupling learns beside the first, for one, two and three hidden layers.
_RATES = {1: (0.25,), 2: (0.375, 0.125), 3: (0.375, 0.25, 0.125)}
_RESTLESS = 0.5  # of the examples
_LONGEST = 1.0  # a batch that asks for a longer gradient gets one of this length


def softmax_cost(state: Array, target: Array) -> Array:
    """The cross-entropy of a softmax read-out of the outputs, with a slope of order one."""
    return cross_entropy(SHARPNESS * state, target) / SHARPNESS


def scales(X: np.ndarray) -> np.ndarray:
    """What each feature is divided by.

    >>> scales(np.array([[0.0, 0.0, 7.0], [0.0, 2.0, 7.0], [0.0, 2.0, 7.0], [9.0, 0.0, 7.0]])).round(2).tolist()
    [3.9, 1.0, 1.0]
    """
    spread = X.std(axis=0)
    return np.where(spread > TINY, np.maximum(spread, _FLOOR * np.ptp(X, axis=0)), 1.0)


def direction(couplings: int) -> optax.GradientTransformation:
    """Where a step goes: no further than its limit, and later couplings more slowly, from 3/8 to 1/8 of the first."""
    later = _RATES.get(couplings - 1, tuple(np.geomspace(0.375, 0.125, max(couplings - 1, 0))))
    return optax.chain(optax.clip_by_global_norm(_LONGEST), scale_by_coupling([1.0, *map(float, later)]))


def nudged_rule(
    recipe: str,
    cost: Cost,
    *,
    nudge: float,
    sweeps: int,
    nudged_sweeps: int,
    inputs: int,
    input_dropout: float | Literal["auto"] = "auto",
) -> Rule:
    """The learning rule.

    Args:
        recipe: "equilibrium_propagation", "contrastive_hebbian" or "recurrent_backprop".
        cost: of the outputs.
        nudge: its strength.
        sweeps: of the free phase at most, over-relaxed.
        nudged_sweeps: of the other phases.
        inputs: how many there are.
        input_dropout: the probability that one is missing while learning; "auto" is 0.2 from 50 inputs on, else 0.

    Returns:
        The rule.

    >>> type(nudged_rule("contrastive_hebbian", softmax_cost, nudge=0.2, sweeps=9, nudged_sweeps=3, inputs=64)).__name__
    'Augmented'
    """
    free, nudged = Descent(sweeps, tolerance=TOLERANCE), Descent(nudged_sweeps)
    made: dict[str, Callable[[], Rule]] = {
        "equilibrium_propagation": lambda: equilibrium_propagation(nudge, free=free, nudged=nudged, cost=cost),
        "contrastive_hebbian": lambda: contrastive_hebbian(free=free, clamped=nudged),
        "recurrent_backprop": lambda: recurrent_backprop(free=free, steps=nudged_sweeps, cost=cost),
    }
    rule = made[check.choice("recipe", recipe, made)]()
    missing = (_MISSING if inputs >= _MANY else 0.0) if input_dropout == "auto" else input_dropout
    check.number("input_dropout", missing, least=0.0, most=0.99)
    return Augmented(rule, InputDropout(missing)) if missing else rule


def restless(history: xr.Dataset) -> list[str]:
    """A sentence where the free phase of many examples did not come to rest at the end of learning.

    Args:
        history: of the run.

    Returns:
        None or one.

    >>> restless(xr.Dataset({"unconverged_base": ("step", [0.0, 0.75])}))[0]
    'the free phase of 75% of the examples did not come to rest: lower the learning rate, or use more sweeps'
    """
    share = float(history["unconverged_base"][-1]) if "unconverged_base" in history else 0.0
    if share <= _RESTLESS:
        return []
    told = f"the free phase of {share:.0%} of the examples did not come to rest"
    return [f"{told}: lower the learning rate, or use more sweeps"]
