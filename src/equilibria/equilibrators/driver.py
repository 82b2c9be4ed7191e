"""One driver for every way of coming to rest.

An equilibrator only describes a step; the driver imposes the world, computes once what the clamped layers contribute, repeats
the step in one compiled loop, and says when each chain came to rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.setting import Setting, setting
from equilibria.network import Network, State, without
from equilibria.progress import stretches
from equilibria.random import as_key
from equilibria.stability import unbounded
from equilibria.world import World, clamps_and_nudges


class Equilibrator(eqx.Module):
    """How a state comes to rest: at most `steps` steps, fewer when `tolerance` is given and nothing moves any more.

    A new equilibrator gives `step`, and `begin` if it carries something of its own from step to step.
    """

    steps: eqx.AbstractVar[Any]  # a count, as an array
    tolerance: eqx.AbstractVar[Any]  # a number, as an array, or None

    @abstractmethod
    def step(self, setting: Setting, state: State, memory: Any, key: Array) -> tuple[State, Any]:
        """The state after one step, and what the equilibrator carries along."""

    def begin(self, setting: Setting, state: State) -> Any:
        """What the equilibrator carries from step to step; nothing unless it says otherwise."""
        return None

    def allowed(self, setting: Setting) -> None:
        """Refuse a setting that this equilibrator cannot serve."""

    def draws(self, setting: Setting) -> bool:
        """Whether a step needs random numbers."""
        return False

    def at_zero(self) -> Equilibrator:
        """The equilibrator for temperature exactly zero."""
        return self

    @property
    def averages(self) -> bool:
        """Whether `free_energy` sums the integrable layers out, so that nothing need be done where all layers are."""
        return False

    def watched(self, memory: Any) -> dict[str, Array]:
        """Numbers worth watching in what the equilibrator carries along, by name; they go into a training's history."""
        return {}

    def free_energy(self, setting: Setting, state: State) -> Array:
        """A number for each chain whose gradient in the parameters is the average of dE's in the equilibrium reached."""
        return setting.network.energy(state)


class Equilibrium(eqx.Module):
    """Where a network came to rest.

    `state` is by layer (and so is `equilibrium["layer"]`). Where a tolerance was given, `converged` says for each chain
    whether the last step moved no neuron by more, `steps` after how many steps that was, and `residual` is the largest
    last move; without a tolerance `converged` and `residual` are None and `steps` is the number asked for.
    """

    state: State
    steps: Array
    converged: Array | None
    residual: Array | None
    memory: Any

    def __getitem__(self, layer: str) -> Array:
        return self.state[layer]


def equilibrate(
    network: Network,
    how: Equilibrator,
    start: Equilibrium | Mapping[str, ArrayLike] | ArrayLike | None = None,
    *,
    temperature: ArrayLike = 1.0,
    world: World = (),
    chains: int | None = None,
    show_progress: bool | None = None,
    key: Array | int | None = None,
) -> Equilibrium:
    """Let a network come to equilibrium under what the world imposes.

    Parameters: `how` is an equilibrator such as `Sweeps(100)`; `start` gives states by layer (an array alone is for the
    first layer; layers left out start at random, or at rest without a `key`); `temperature` is one number or one for each
    chain; `world` holds `Clamp` and `Nudge` objects; `chains` is how many independent copies to run where `start` and
    `world` do not say; a progress bar is shown on a terminal, or as `show_progress` says; `key` is needed by whatever draws.

    >>> from equilibria import Sweeps, hopfield
    >>> net = hopfield([[1, -1, 1, -1, 1, -1]])
    >>> rest = equilibrate(net, Sweeps(10, tolerance=0.0), [1, 1, 1, -1, 1, -1], temperature=0.0, key=0)
    >>> rest["neurons"], rest.converged
    (Array([ 1., -1.,  1., -1.,  1., -1.], dtype=float32), Array(True, dtype=bool))
    """
    how, prepared, state, run_key = _prepared(network, how, start, temperature, world, chains, key)
    if check.concrete(how.steps) is None or any(
        check.concrete(leaf) is None for leaf in jax.tree.leaves((prepared, state))
    ):
        return relax(how, prepared, state, run_key)  # inside someone's compiled code there is nothing to show
    loop = _start(how, prepared, state)
    for until in stretches(0, int(how.steps), "equilibrating", show=show_progress):
        loop = _run(how, prepared, loop, jnp.asarray(until, int), run_key)
        if int(loop.step) < until:
            break
    return _ended(how, loop)


def sample(
    network: Network,
    how: Equilibrator,
    *,
    chains: int,
    start: Equilibrium | Mapping[str, ArrayLike] | ArrayLike | None = None,
    temperature: ArrayLike = 1.0,
    world: World = (),
    show_progress: bool | None = None,
    key: Array | int,
) -> State:
    """The states of `chains` independent chains after `how`, by layer.

    >>> from equilibria import Sweeps, rbm
    >>> sample(rbm(6, 3, key=0), Sweeps(50), chains=4, key=1)["visible"].shape
    (4, 6)
    """
    check.count("chains", chains)
    options: Any = {"temperature": temperature, "world": world, "show_progress": show_progress, "key": key}
    return equilibrate(network, how, start, chains=chains, **options).state


def trajectory(
    network: Network,
    how: Equilibrator,
    start: Equilibrium | Mapping[str, ArrayLike] | ArrayLike | None = None,
    *,
    observe: Callable[[State], Any],
    every: int = 1,
    temperature: ArrayLike = 1.0,
    world: World = (),
    chains: int | None = None,
    show_progress: bool | None = None,
    key: Array | int | None = None,
) -> tuple[Equilibrium, Any]:
    """As `equilibrate`, and what `observe(state)` returns at the start and after every `every` steps, stacked.

    The observations are made inside the compiled loop; only they are kept, not the states.

    >>> from equilibria import Sweeps, hopfield, overlap
    >>> pattern = [1, -1, 1, -1, 1, -1]
    >>> _, overlaps = trajectory(hopfield([pattern]), Sweeps(2), [1, 1, 1, -1, 1, -1], temperature=0.0, key=0,
    ...                          observe=lambda state: overlap(state, pattern))
    >>> overlaps
    Array([0.6666667, 1.       , 1.       ], dtype=float32)
    """
    if how.tolerance is not None:
        check.refuse("how", "a tolerance", "no tolerance: a trajectory has a fixed number of steps")
    records, rest = divmod(int(how.steps), check.count("every", every))
    if rest:
        check.refuse("every", every, f"a divisor of the number of steps, {int(how.steps)}")
    how, prepared, state, key = _prepared(network, how, start, temperature, world, chains, key)
    loop = _start(how, prepared, state)
    rows, done = _room(loop, records + 1, observe), 1
    for last in stretches(1, records + 1, "following", "record", show=show_progress):
        loop, rows = _record(
            how, prepared, loop, rows, jnp.asarray(done), jnp.asarray(last), jnp.asarray(every), key, observe
        )
        done = last
        jax.block_until_ready(rows)  # so that the pace is that of the work
    return _ended(how, loop), rows


def _prepared(network, how, start, temperature, world, chains, key):
    """Checked and completed arguments of the compiled loops."""
    if not isinstance(how, Equilibrator):
        check.refuse("how", repr(how), "an equilibrator such as Sweeps(100)")
    check.number("temperature", temperature, least=0.0)
    _check_world(network, world)
    zero = check.concrete(temperature)
    if zero is not None and not zero.any():
        how = how.at_zero()
    prepared = setting(network, world, temperature)
    if not prepared.nudges and (reason := unbounded(without(network, prepared.clamps))) is not None:
        check.refuse(
            "network", reason, "couplings between Gaussian units weaker than their stiffness, or a clamp on them"
        )
    if not prepared.free:
        check.refuse("world", "a clamp on every layer", "at least one layer left to move")
    how.allowed(prepared)
    if key is None and how.draws(prepared):
        check.refuse("key", None, f"a JAX random key: {type(how).__name__} draws random numbers here")
    start_key, key = (None, None) if key is None else jax.random.split(as_key(key))
    state = _starting_state(prepared, start, chains, start_key)
    return how, prepared, state, key


def _check_world(network: Network, world: World) -> None:
    clamps, nudges = clamps_and_nudges(world)
    for name, clamp in clamps.items():
        network.check_values(f"Clamp({name!r}) values", name, clamp.values)
        if clamp.mask is not None:
            check.shape(f"Clamp({name!r}) mask", clamp.mask, (network.layer(name).size,))
    for name, nudge in nudges.items():
        check.finite(f"Nudge({name!r}) target", nudge.target)
        check.shape(f"Nudge({name!r}) target", nudge.target, (network.layer(name).size,))
        network.layer(name).unit.nudged(jnp.zeros(()), nudge.strength, 0.0)  # refuses an energy without a minimum


def _starting_state(prepared: Setting, start, chains, key) -> State:
    """A full state from what the caller gave, drawn at zero field where nothing was given."""
    network = prepared.network
    if isinstance(start, Equilibrium):
        start = start.state
    given = {} if start is None else dict(start) if isinstance(start, Mapping) else {network.names[0]: start}
    for name, values in given.items():
        # A start may lie between the levels: a neuron at 0 says nothing until it is first updated.
        network.check_values(f"start[{name!r}]", name, values, between=True)
    held = [clamp.values for clamp in prepared.clamps.values()] + [nudge.target for nudge in prepared.nudges.values()]
    leading = [np.shape(values)[:-1] for values in [*given.values(), *held]] + [prepared.temperature.shape]
    batch = np.broadcast_shapes(*leading)
    if chains is not None:
        check.count("chains", chains)
        if batch not in ((), (chains,)):
            check.refuse("chains", chains, f"{batch[0]}, the number of configurations in start, world or temperature")
        batch = (chains,)
    state = {}
    for index, layer in enumerate(network.layers):
        shape = (*batch, layer.size)
        if layer.name in given:
            state[layer.name] = jnp.broadcast_to(jnp.asarray(given[layer.name], float), shape)
        elif key is None:
            state[layer.name] = jnp.broadcast_to(layer.unit.mode(jnp.zeros(layer.size)), shape)
        else:
            state[layer.name] = layer.unit.sample(jax.random.fold_in(key, index), jnp.zeros(shape))
    return {
        # Strongly typed, so that every way to start shares one compiled loop.
        name: jnp.broadcast_to(jnp.asarray(layer, float), (*batch, layer.shape[-1]))
        for name, layer in prepared.imposed(state).items()
    }


class _Loop(NamedTuple):
    step: Array
    state: State
    memory: Any
    residual: Array | None
    settled: Array  # the step after which each chain has not moved


def _step(how: Equilibrator, prepared: Setting, loop: _Loop, key: Array | None) -> _Loop:
    here: Any = None if key is None else jax.random.fold_in(key, loop.step)
    state, memory = how.step(prepared, loop.state, loop.memory, here)
    state = prepared.imposed(state)
    residual, settled = loop.residual, loop.settled
    if how.tolerance is not None:
        moves = [jnp.max(jnp.abs(state[name] - loop.state[name]), axis=-1) for name in prepared.free]
        residual = jnp.max(jnp.stack(moves), axis=0)
        settled = jnp.where(residual > how.tolerance, loop.step + 1, settled)
    return _Loop(loop.step + 1, state, memory, residual, settled)


def _first(how: Equilibrator, prepared: Setting, state: State, memory: Any = None) -> _Loop:
    memory = how.begin(prepared, state) if memory is None else memory
    batch = next(iter(state.values())).shape[:-1]
    residual = None if how.tolerance is None else jnp.full(batch, jnp.inf)
    return _Loop(jnp.zeros((), int), state, memory, residual, jnp.zeros(batch, int))


def _ended(how: Equilibrator, loop: _Loop) -> Equilibrium:
    if loop.residual is None:
        return Equilibrium(loop.state, loop.step, None, None, loop.memory)
    converged = loop.residual <= how.tolerance
    return Equilibrium(loop.state, loop.settled, converged, loop.residual, loop.memory)


def _advance(how: Equilibrator, prepared: Setting, loop: _Loop, until: ArrayLike, key: Array | None) -> _Loop:
    """The loop at step `until`, or where nothing moves any more."""

    def moving(loop):
        more = loop.step < until
        return more if how.tolerance is None else more & jnp.any(loop.residual > how.tolerance)

    return jax.lax.while_loop(moving, lambda loop: _step(how, prepared, loop, key), loop)


def relax(how: Equilibrator, prepared: Setting, state: State, key: Array | None, memory: Any = None) -> Equilibrium:
    """The whole loop, for use inside compiled code: no checks, `state` complete, `memory` that of a run that goes on."""
    return _ended(how, _advance(how, prepared, _first(how, prepared, state, memory), how.steps, key))


_start = eqx.filter_jit(_first)
_run = eqx.filter_jit(_advance)


@eqx.filter_jit
def _record(how, prepared, loop, records, first, last, every, key, observe):
    """`records` with rows up to `last` filled in, one after each `every` steps, and the loop there."""

    def row(index, carry):
        loop, records = carry
        loop = jax.lax.fori_loop(0, every, lambda _, loop: _step(how, prepared, loop, key), loop)
        seen = observe(loop.state)
        return loop, jax.tree.map(lambda rows, value: rows.at[index].set(value), records, seen)

    return jax.lax.fori_loop(first, last, row, (loop, records))


@eqx.filter_jit
def _room(loop, count, observe):
    """Room for `count` records, the first of them made."""
    return jax.tree.map(
        lambda value: jnp.zeros((count, *jnp.shape(value)), jnp.result_type(value)).at[0].set(value),
        observe(loop.state),
    )
