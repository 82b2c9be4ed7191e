"""Spike-timing dependent plasticity: a local rule that adds up, along the nudged phase, to the contrast of phases."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from equilibria import check


def stdp(rates: Array, *, rule: str = "trapezoid", tied: bool = True) -> Array:
    r"""The change of each synapse by spike-timing dependent plasticity, integrated along a path of firing rates.

    $$ \frac{dW_{ij}}{dt} = \rho(s_i) \frac{d\rho(s_j)}{dt} \qquad (45) $$

    With `tied`, a synapse and its mirror image share both their changes (46); the trapezoidal sum then telescopes, at any
    step, to the contrast

    $$ \rho(s_i^\xi) \rho(s_j^\xi) - \rho(s_i^0) \rho(s_j^0) \qquad (47) $$

    which is $\xi$ times the two-phase rule (36). Without `tied`, the integral depends on the path.

    Source: Scellier and Bengio, arXiv:1602.05179, Section 3.4.

    Args:
        rates: rho(s) with time on the first axis and neurons on the second.
        rule: "left" uses the presynaptic rate before each step, as a neuron would, and is right to first order in the step;
            "trapezoid" uses the mean of before and after.
        tied: whether a synapse and its mirror image are the same.

    Returns:
        The changes, with entry (i, j) for the synapse from i to j.

    Raises:
        ValueError: if the rates have another shape or are not finite, or there is no such rule.

    >>> stdp(jnp.array([[0.0, 1.0], [0.5, 0.75], [1.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    rates = check.finite("rates", jnp.asarray(rates))
    if rates.ndim != 2 or len(rates) < 1:
        check.refuse("rates", f"shape {rates.shape}", "shape (times, neurons) with at least one time")
    check.choice("rule", rule, ("left", "trapezoid"))
    before, after = rates[:-1], rates[1:]
    presynaptic = before if rule == "left" else (before + after) / 2
    change = presynaptic.T @ (after - before)
    return change + change.T if tied else change
