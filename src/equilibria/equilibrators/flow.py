r"""Flows: a continuous state moves down its energy, with or without noise.

$$ ds = -\frac{\partial F}{\partial s} dt + \sqrt{2T}\, dB $$

with $F$ the energy and the nudges (Scellier and Bengio, equations 37 and 66; their noise $\sigma$ is $\sqrt{2T}$). Written
over `model.energy.System`, so that a network in its world and a user's own energy flow alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, optional_tolerance, whole
from equilibria.model.energy import System
from equilibria.model.network import State


class GradientFlow(Equilibrator):
    r"""Euler steps down the energy, all layers at once: $s \leftarrow s - \epsilon\, \partial F/\partial s$, kept in bounds.

    Scellier and Bengio, equations 53-54.

    Args:
        steps: how many at most.
        step_size: their epsilon, 0.5 in all their experiments.
        tolerance: stops when no number moves by more in a step.
        force_tolerance: a chain stands still once no force on it is larger (or it is not finite), so that where it rests
            does not depend on the step size; forces that held values and bounds take up do not count. The tolerance on
            moves is 0 then, unless it is given too.

    Raises:
        ValueError: if a number is out of its range.

    >>> GradientFlow(20).step_size
    Array(0.5, dtype=float32)
    """

    steps: Array
    step_size: Array
    tolerance: Array | None
    force_tolerance: Array | None

    def __init__(
        self,
        steps: int | Array,
        step_size: ArrayLike = 0.5,
        tolerance: ArrayLike | None = None,
        force_tolerance: ArrayLike | None = None,
    ):
        self.steps, self.force_tolerance = whole("steps", steps), optional_tolerance(force_tolerance)
        self.step_size = array(check.number("step_size", step_size, above=0.0))
        self.tolerance = optional_tolerance(0.0 if tolerance is None and force_tolerance is not None else tolerance)

    @property
    def kind(self) -> Kind:
        """It rests."""
        return "rests"

    @property
    def stops_at_bounds(self) -> bool:
        """It does: each step is short, and cut off at the bounds."""
        return True

    def allowed(self, system: System) -> None:
        """Refuse discrete units."""
        system.check_continuous()

    def step(self, system: System, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """One Euler step of every free layer."""
        forces = system.force(state)
        moved = {
            name: jnp.clip(state[name] + self.step_size * force, *system.bounds(name)) for name, force in forces.items()
        }
        if self.force_tolerance is not None:
            moving = self._moving(system, state, forces, self.force_tolerance)[..., None]
            moved = {name: jnp.where(moving, layer, state[name]) for name, layer in moved.items()}
        return {**state, **moved}, carry

    def _moving(self, system: System, state: State, forces: State, tolerance: Array) -> Array:
        """Which chains a force still moves."""
        sizes = []
        for name, force in forces.items():
            room = ((bound - state[name]) / self.step_size for bound in system.bounds(name))
            sizes.append(jnp.max(jnp.abs(jnp.where(system.held(name), 0.0, jnp.clip(force, *room))), axis=-1))
        largest = jnp.max(jnp.stack(sizes), axis=0)
        return (largest > tolerance) & jnp.isfinite(largest)


class Attempts(NamedTuple):
    """What Langevin dynamics counts.

    Attributes:
        made: how many proposals each chain made.
        accepted: how many of them it accepted.
    """

    made: Array
    accepted: Array


class Langevin(Equilibrator):
    r"""Langevin steps, each accepted or refused by Metropolis' rule so that the Boltzmann law is sampled exactly.

    $$ s' = s - \epsilon\, \partial F/\partial s + \sqrt{2 \epsilon T}\, z $$

    with z standard normal is the proposal, a step of equation (66) of Scellier and Bengio; one out of bounds is refused, and so
    is one whose energy is not a number. `Equilibrium.info["acceptance"]` is the share of accepted proposals of each chain;
    without the rule, of steps to a finite energy.

    Args:
        steps: how many.
        step_size: epsilon.
        adjusted: False leaves Metropolis' rule out, and with it exactness: the law is then off by O(`step_size`), and
            states are pushed back into bounds.

    Raises:
        ValueError: if a number is out of its range.

    >>> Langevin(100, step_size=0.1).adjusted
    True
    """

    steps: Array
    step_size: Array
    adjusted: bool = eqx.field(static=True)
    tolerance: None

    def __init__(self, steps: int | Array, step_size: ArrayLike = 0.1, adjusted: bool = True):
        self.steps, self.adjusted, self.tolerance = whole("steps", steps), adjusted, None
        self.step_size = array(check.number("step_size", step_size, above=0.0))

    @property
    def kind(self) -> Kind:
        """It draws."""
        return "draws"

    def allowed(self, system: System) -> None:
        """Refuse discrete units and temperature zero."""
        system.check_continuous()
        check.number("temperature", system.temperature, above=0.0)

    def begin(self, system: System, state: State) -> Attempts:
        """No proposals made, none accepted."""
        none = jnp.zeros(next(iter(state.values())).shape[:-1], int)
        return Attempts(none, none)

    def info(self, carry: Attempts) -> dict[str, Array]:
        """The share of accepted proposals of each chain, as "acceptance"."""
        return {"acceptance": carry.accepted / jnp.maximum(carry.made, 1)}

    def step(self, system: System, state: State, carry: Attempts, key: Any) -> tuple[State, Attempts]:
        """One proposal for every chain, accepted or refused."""
        noise_key, accept_key = jax.random.split(key)
        noise_keys = dict(zip(system.free, jax.random.split(noise_key, len(system.free)), strict=True))
        drift = {name: self.step_size * force for name, force in system.force(state).items()}
        width = jnp.sqrt(2 * self.step_size * system.column)
        noise = {name: jax.random.normal(noise_keys[name], state[name].shape) for name in system.free}
        moved = system.imposed({**state, **{name: state[name] + drift[name] + width * noise[name] for name in drift}})
        proposal = {**moved, **{name: jnp.clip(moved[name], *system.bounds(name)) for name in system.free}}
        level = system.energy(proposal)
        if not self.adjusted:
            return proposal, Attempts(carry.made + 1, carry.accepted + jnp.isfinite(level))
        inside = jnp.stack([jnp.all(moved[name] == proposal[name], axis=-1) for name in system.free]).all(axis=0)
        log_ratio = (system.energy(state) - level) / system.temperature
        for name, force in system.force(proposal).items():
            back, step = self.step_size * force, proposal[name] - state[name]
            there_and_back = jnp.square(step - drift[name]) - jnp.square(-step - back)
            free = jnp.where(system.held(name), 0.0, there_and_back)
            log_ratio += jnp.sum(free, axis=-1) / (2 * width[..., 0] ** 2)
        # Not a number is no reason to accept: the comparison is then false.
        accepted = (jnp.log(jax.random.uniform(accept_key, carry.made.shape)) < log_ratio) & inside
        state = {name: jnp.where(accepted[..., None], proposal[name], layer) for name, layer in state.items()}
        return state, Attempts(carry.made + 1, carry.accepted + accepted)


def newton(system: System, state: State) -> State:
    """A state without force near `state`, by Newton's method; differentiable in the system by the implicit function theorem.

    Of order (numbers in the state)^3 for each of at most 32 steps; whoever calls it looks at the force that is left.
    """
    precision = 4 * float(jnp.finfo(jnp.result_type(*state.values())).eps)
    solver: optx.Newton = optx.Newton(rtol=precision, atol=precision)
    free = {name: state[name] for name in system.free}

    def force(free: State, system: System) -> State:
        return system.force({**state, **free})

    found = optx.root_find(force, solver, free, args=system, max_steps=32, throw=False).value
    return {**state, **found}
