r"""What comes to rest: an energy over a state, as every equilibrator sees it.

A network in its world (`equilibrators.conditioned`) and a user's own function (`energies.function`) both meet `System`. A
state is a dict of arrays (..., size), all leading axes chains; `free` names the parts of it that move. What only follows
the energy (gradient flow, Langevin dynamics, Newton's method) is written over this alone, and so serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from jax import Array

from equilibria.model.network import State


class System(Protocol):
    """An energy under what the world imposes on it."""

    @property
    def free(self) -> tuple[str, ...]:
        """The parts of the state that move."""

    @property
    def temperature(self) -> Array:
        """One number, or one for each chain."""

    @property
    def column(self) -> Array:
        """The temperature with an axis for the neurons."""

    def energy(self, state: Mapping[str, Array]) -> Array:
        """The total energy of each chain."""

    def force(self, state: Mapping[str, Array]) -> State:
        """Minus the gradient of the energy in each free part."""

    def imposed(self, state: State) -> State:
        """The state with held values in place."""

    def held(self, name: str) -> Array | bool:
        """Which numbers of a free part are held all the same."""

    def bounds(self, name: str) -> tuple[float, float]:
        """The interval in which the numbers of a free part lie."""

    def check_continuous(self) -> None:
        """Refuse parts whose values are levels: they cannot follow a gradient."""
