"""Block descent with over-relaxation: the fast way to a minimum of the energy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import State


class Descent(Sweeps):
    r"""Block descent with over-relaxation: every layer moves to the minimum of the energy given the others, and beyond it.

    $$ s \leftarrow \text{clip}\big(s + (1 + o)\,(s^* - s)\big), \qquad s^* = \text{mode(field)} $$

    This is successive over-relaxation (SOR), projected on the units' bounds (Cryer 1971): with quadratic self-energies the
    energy falls at every step for -1 < o < 1, and to come to rest takes several times fewer sweeps than with o = 0, which is
    exact block descent. On a trained network with three hidden layers a residual of 10^-3 took 17 sweeps at o = 0.5, 40 at 0,
    and 143 Euler steps of 0.5 (each as many matrix products as a sweep). For continuous units.

    Args:
        steps: how many sweeps at most.
        over_relaxation: o, how far beyond the minimum, as a fraction of the way there; above -1 and at most 0.95.
        tolerance: stops when no neuron moves by more.

    Raises:
        ValueError: if a number is out of its range.

    >>> Descent(20).update, Descent(20).over_relaxation
    ('mode', Array(0.5, dtype=float32))
    """

    over_relaxation: Array

    def __init__(self, steps: int | Array, over_relaxation: ArrayLike = 0.5, *, tolerance: ArrayLike | None = None):
        super().__init__(steps, "mode", "parallel", None, tolerance)
        given = check.number("over_relaxation", over_relaxation, above=-1.0, most=0.95)
        self.over_relaxation = array(given)

    def allowed(self, system: Conditioned) -> None:
        """Refuse discrete units, and couplings inside a layer."""
        for layer in system.inner.layers:
            if layer.unit.levels is not None or layer.name in system.inner.lateral:
                kind = f"{type(layer.unit).__name__} units in layer {layer.name!r}"
                check.refuse("network", kind, "continuous units without couplings inside a layer")

    def updated(self, system: Conditioned, state: State, name: str, key: Any) -> Array:
        """One layer after its turn: beyond the minimum, and back into bounds."""
        target = super().updated(system, state, name, key)
        return jnp.clip(target + self.over_relaxation * (target - state[name]), *system.bounds(name))
