"""The contract of everything that brings a state to rest, and what it leaves behind."""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jax import Array

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.html import table
from equilibria.model.network import State

Kind = Literal["draws", "averages", "rests"]


class Result(IntEnum):
    """Why a chain ended where it did.

    Attributes:
        DONE: it made the steps that were asked for, and no tolerance was to be met.
        CONVERGED: nothing moves by more than the tolerance.
        NOT_FINITE: its numbers overflowed, or there are none.
        OUT_OF_STEPS: the steps ended before it came to rest.

    >>> Result(2).reason
    'not finite: its numbers overflowed or there are none'
    """

    DONE = 0
    CONVERGED = 1
    NOT_FINITE = 2
    OUT_OF_STEPS = 3

    @property
    def reason(self) -> str:
        """The same in words."""
        return {
            Result.DONE: "made the steps that were asked for, which have no end by themselves",
            Result.CONVERGED: "converged: nothing moves by more than the tolerance",
            Result.NOT_FINITE: "not finite: its numbers overflowed or there are none",
            Result.OUT_OF_STEPS: "out of steps before it came to rest",
        }[self]


class Equilibrator(eqx.Module):
    """How a state comes to rest: at most `steps` steps, fewer when `tolerance` is given and nothing moves any more.

    A new equilibrator is one class. It gives `steps`, `tolerance`, `kind` and `step`; `begin` if it carries something of
    its own from step to step, and `info` if a person would look at some of that; and the two numbers that averages
    follow from, `free_energy` and `log_partition`, where they are not those of a state at rest. Nobody asks for its type.

    Attributes:
        steps: how many steps at most, an array so that another number does not compile again.
        tolerance: the move of a neuron below which it counts as at rest; None makes all steps.

    >>> class HalfWay(Equilibrator):  # every layer moves half the way to the mode of its field
    ...     steps: Array
    ...     tolerance: Array | None = None
    ...     kind = "rests"
    ...     def step(self, system, state, carry, key):
    ...         for name in system.free:
    ...             unit, field = system.effective(state, name, system.field(state, name))
    ...             state = {**state, name: (state[name] + unit.mode(field)) / 2}
    ...         return state, carry
    >>> import jax.numpy as jnp, equilibria as eq
    >>> net, shown = eq.layered((2, 3), key=0), eq.Clamp("input", [1.0, 0.5])
    >>> rest = eq.equilibrate(net, HalfWay(jnp.asarray(30)), world=shown)
    >>> exact = eq.equilibrate(net, eq.Sweeps(1, update="mode"), world=shown)
    >>> bool(jnp.allclose(rest["output"], exact["output"]))
    True
    """

    steps: eqx.AbstractVar[Array]
    tolerance: eqx.AbstractVar[Array | None]

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Whether the state it leaves is a draw from the law, the averages of it, or a state at rest."""

    @abstractmethod
    def step(self, system: Any, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """The state after one step in a `System`, and what the equilibrator carries along; no key where none is needed."""

    @property
    def stops_at_bounds(self) -> bool:
        """Whether it makes small steps that bounds end, so that an energy without a minimum inside them is no harm."""
        return False

    def begin(self, system: Any, state: State) -> Any:
        """What the equilibrator carries from step to step; nothing unless it says otherwise."""
        return None

    @property
    def carries(self) -> bool:
        """Whether `begin` gives something."""
        return type(self).begin is not Equilibrator.begin

    def info(self, carry: Any) -> dict[str, Array]:
        """What a person looks at in what is carried along, by name: acceptance, exchange rates."""
        return {}

    def complaint(self, carry: Any) -> str | None:
        """What a person has to be told of what is carried when it ends, though every chain made its steps; None if nothing."""
        return None

    def allowed(self, system: Any) -> None:
        """Refuse a system that this equilibrator cannot serve."""

    def needs_key(self, system: Any) -> bool:
        """Whether a step needs random numbers."""
        return self.kind == "draws"

    def leaves_room(self, system: Any) -> bool:
        """Whether its numbers stay the same where a layer has room for more neurons than are present (`Coupling.roomy`)."""
        return False

    def needs_state(self, system: Any) -> bool:
        """Whether the averages depend on the state reached; where they do not, learning takes no step."""
        return True

    def at_zero(self) -> Equilibrator:
        """The equilibrator for temperature exactly zero."""
        return self

    def clamped(self) -> Equilibrator:
        """The equilibrator that goes with this one for a phase in which data are held."""
        return self

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """A number for each chain whose gradient in the parameters is the average of dE's in the equilibrium reached."""
        return system.network.energy(state)

    def log_partition(self, system: Conditioned, state: State) -> Array | None:
        """The logarithm ln Z of each chain's system as this equilibrator knows it, apart from learning; None if it does not."""
        return None

    @property
    def knows_log_partition(self) -> bool:
        """Whether `log_partition` gives a number."""
        return type(self).log_partition is not Equilibrator.log_partition


class Equilibrium(eqx.Module):
    """Where a network came to rest.

    Attributes:
        state: by layer; `equilibrium["layer"]` is the same.
        steps: for each chain, how many steps it took to rest; without a tolerance how many were made.
        result: for each chain a `Result`; `reason` says it in words.
        residual: the largest last move of each chain; None without a tolerance.
        info: what the equilibrator reports, by name (acceptance, exchange rates).
        carry: what it would go on from.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.hopfield([[1, -1, 1]]), eq.Sweeps(10, tolerance=0.0), [1, 1, 1], temperature=0.0, key=0)
    >>> rest["neurons"], bool(rest.converged)
    (Array([ 1., -1.,  1.], dtype=float32), True)
    >>> rest.reason
    'converged: nothing moves by more than the tolerance'
    """

    state: State
    steps: Array
    result: Array
    residual: Array | None
    info: dict[str, Array]
    carry: Any

    def __getitem__(self, layer: str) -> Array:
        return self.state[layer]

    def _repr_html_(self) -> str:
        rows = [(name, " × ".join(map(str, layer.shape))) for name, layer in self.state.items()]
        return table("Equilibrium", ("layer", "shape"), rows, self.reason)

    @property
    def converged(self) -> Array | None:
        """Whether each chain came to rest; None where nothing was to come to rest."""
        if self.residual is None:
            return None
        known = check.concrete(self.result)
        return self.result == Result.CONVERGED if known is None else array(known == Result.CONVERGED, bool)

    @property
    def reason(self) -> str:
        """Why the worst of the chains ended where it did."""
        return Result(int(np.max(self.result))).reason


def whole(argument: str, value: Array | int) -> Array:
    """A count as an array, so that another count does not compile again."""
    return value if isinstance(value, jax.Array) else array(check.count(argument, value), int)


def optional_tolerance(value: Any) -> Array | None:
    """A tolerance as an array; None stays None."""
    return value if value is None else array(check.number("tolerance", value, least=0.0))
