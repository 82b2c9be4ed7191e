"""Block descent that overshoots: the fast way to a minimum of the energy."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from equilibria import check
from equilibria.equilibrators.sweep import Sweeps, optional_tolerance, whole


def _overshoot(value):
    return jnp.asarray(check.number("overshoot", value, above=-1.0, most=0.95), float)


class Descent(Sweeps):
    r"""Sweeps in which every layer moves to the minimum of the energy given the others, and beyond it by `overshoot`.

    $$ s \leftarrow \text{clip}\big(s + (1 + o)\,(s^* - s)\big), \qquad s^* = \text{mode(field)} $$

    This is successive over-relaxation, projected on the units' bounds (Cryer 1971): with quadratic self-energies the energy
    falls at every step for -1 < o < 1, and to come to rest takes several times fewer sweeps than with o = 0, which is exact
    block descent. On a trained network with three hidden layers a residual of 10^-3 took 17 sweeps at o = 0.5, 40 at 0, and
    143 Euler steps of 0.5 (each as many matrix products as a sweep). For continuous units.

    >>> Descent(20).mood, Descent(20).overshoot
    ('mode', Array(0.5, dtype=float32))
    """

    overshoot: Any = eqx.field(converter=_overshoot, default=0.5)

    def __init__(self, steps: int, overshoot: float = 0.5, *, tolerance: float | None = None):
        self.steps, self.tolerance = whole("steps")(steps), optional_tolerance(tolerance)
        self.mood, self.order, self.visits = "mode", "parallel", None
        self.overshoot = overshoot

    def allowed(self, setting):
        for layer in setting.inner.layers:
            if layer.unit.levels is not None or layer.name in setting.inner.lateral:
                kind = f"{type(layer.unit).__name__} units in layer {layer.name!r}"
                check.refuse("network", kind, "continuous units without couplings inside a layer")

    def updated(self, setting, state, name, key):
        target = super().updated(setting, state, name, key)
        return jnp.clip(target + self.overshoot * (target - state[name]), *setting.inner.layer(name).unit.bounds)
