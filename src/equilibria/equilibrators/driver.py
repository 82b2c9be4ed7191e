"""One driver for every way of coming to rest.

An equilibrator only describes a step; the driver imposes the world, computes once what the clamped layers contribute, repeats
the step in one compiled loop, and says when each chain came to rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.equilibrator import Equilibrator, Equilibrium, Result
from equilibria.equilibrators.prepare import Start, prepared
from equilibria.model.energy import System
from equilibria.model.network import Network, State
from equilibria.model.world import World
from equilibria.progress import chunks as paced


def equilibrate(
    network: Network,
    how: Equilibrator,
    start: Start = None,
    *,
    temperature: ArrayLike = 1.0,
    world: World = (),
    chains: int | None = None,
    show_progress: bool | None = None,
    key: Array | int | None = None,
) -> Equilibrium:
    """Let a network come to equilibrium under what the world imposes.

    Args:
        network: what comes to rest.
        how: an equilibrator such as `Sweeps(100)`.
        start: states by layer; an array alone is for the first layer. Layers left out start at random, or at rest
            without a `key`.
        temperature: one number, or one for each chain.
        world: `Clamp` and `Nudge` objects.
        chains: how many independent copies to run, where `start` and `world` do not say.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed, needed by whatever draws.

    Returns:
        The state reached, with why and after how many steps each chain ended there.

    Raises:
        ValueError: if an argument cannot be served; the message says what was given and what is allowed.

    >>> from equilibria import Sweeps, hopfield
    >>> net = hopfield([[1, -1, 1, -1, 1, -1]])
    >>> rest = equilibrate(net, Sweeps(10, tolerance=0.0), [1, 1, 1, -1, 1, -1], temperature=0.0, key=0)
    >>> rest["neurons"], bool(rest.converged)
    (Array([ 1., -1.,  1., -1.,  1., -1.], dtype=float32), True)
    """
    how, system, state, run_key = prepared(network, how, start, temperature, world, chains, key)
    if any(check.concrete(leaf) is None for leaf in jax.tree.leaves((how.steps, system, state))):
        return relax(how, system, state, run_key)  # inside someone's compiled code there is nothing to show
    loop = _start(how, system, state)
    for until in paced(0, int(how.steps), "equilibrating", show=show_progress):
        loop = _run(how, system, loop, jnp.asarray(until, int), run_key)
        if int(loop.step) < until:
            break
    return _end(how, loop)


def sample(
    network: Network,
    how: Equilibrator,
    *,
    chains: int,
    start: Start = None,
    temperature: ArrayLike = 1.0,
    world: World = (),
    show_progress: bool | None = None,
    key: Array | int,
) -> State:
    """The states of `chains` independent chains after `how`, by layer.

    Args:
        network: what is sampled.
        how: an equilibrator that draws, such as `Sweeps(1000)`.
        chains: how many chains.
        start: states by layer, as in `equilibrate`.
        temperature: one number, or one for each chain.
        world: `Clamp` and `Nudge` objects.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The last state of every chain, by layer, (chains, size).

    Raises:
        ValueError: if an argument cannot be served, or numbers overflow; the message says what was given and what is allowed.

    >>> from equilibria import Sweeps, rbm
    >>> sample(rbm(6, 3, key=0), Sweeps(50), chains=4, key=1)["visible"].shape
    (4, 6)
    """
    check.count("chains", chains)
    options: Any = {"temperature": temperature, "world": world, "show_progress": show_progress, "key": key}
    drawn = equilibrate(network, how, start, chains=chains, **options)
    result = check.concrete(drawn.result)
    if result is not None and (result == Result.NOT_FINITE).any():
        given = f"{np.mean(result == Result.NOT_FINITE):.0%} of the chains are {Result.NOT_FINITE.reason}"
        check.refuse("network", given, "weaker couplings, or another temperature")
    return drawn.state


def trajectory(
    network: Network,
    how: Equilibrator,
    start: Start = None,
    *,
    observe: Callable[[State], Any],
    every: int = 1,
    temperature: ArrayLike = 1.0,
    world: World = (),
    chains: int | None = None,
    show_progress: bool | None = None,
    key: Array | int | None = None,
) -> tuple[Equilibrium, Any]:
    """As `equilibrate`, and what `observe(state)` returns along the way.

    The observations are made inside the compiled loop; only they are kept, not the states.

    Args:
        network: what comes to rest.
        how: an equilibrator without a tolerance.
        start: states by layer, as in `equilibrate`.
        observe: a function of the state that returns an array, or a pytree of them.
        every: how many steps lie between two observations; a divisor of the number of steps.
        temperature: one number, or one for each chain.
        world: `Clamp` and `Nudge` objects.
        chains: how many independent copies to run, where `start` and `world` do not say.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed, needed by whatever draws.

    Returns:
        The equilibrium, and the observations at the start and after every `every` steps, stacked.

    Raises:
        ValueError: if `how` has a tolerance, `every` does not divide its steps, or another argument cannot be served.

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
    how, system, state, key = prepared(network, how, start, temperature, world, chains, key)
    loop = _start(how, system, state)
    rows, done = _room(loop, records + 1, observe), 1
    for last in paced(1, records + 1, "following", "record", show=show_progress):
        loop, rows = _record(
            how, system, loop, rows, jnp.asarray(done), jnp.asarray(last), jnp.asarray(every), key, observe
        )
        done = last
        jax.block_until_ready(rows)  # so that the pace is that of the work
    return _end(how, loop), rows


class _Loop(NamedTuple):
    step: Array
    state: State
    carry: Any
    residual: Array | None
    settled: Array  # the step after which each chain has not moved


def _step(how: Equilibrator, system: System, loop: _Loop, key: Array | None) -> _Loop:
    here = None if key is None else jax.random.fold_in(key, loop.step)
    state, carry = how.step(system, loop.state, loop.carry, here)
    state = system.imposed(state)
    residual, settled = loop.residual, loop.settled
    if how.tolerance is not None:
        moves = [jnp.max(jnp.abs(state[name] - loop.state[name]), axis=-1) for name in system.free]
        residual = jnp.max(jnp.stack(moves), axis=0)
        settled = jnp.where(residual > how.tolerance, loop.step + 1, settled)
    return _Loop(loop.step + 1, state, carry, residual, settled)


def _first(how: Equilibrator, system: System, state: State, carry: Any = None) -> _Loop:
    carry = how.begin(system, state) if carry is None else carry
    batch = next(iter(state.values())).shape[:-1]
    residual = None if how.tolerance is None else jnp.full(batch, jnp.inf)
    return _Loop(jnp.zeros((), int), state, carry, residual, jnp.zeros(batch, int))


def _ended(how: Equilibrator, loop: _Loop) -> Equilibrium:
    finite = jnp.stack([jnp.all(jnp.isfinite(layer), axis=-1) for layer in loop.state.values()]).all(axis=0)
    if loop.residual is None or how.tolerance is None:
        steps, good = loop.step, jnp.asarray(Result.DONE)
    else:
        steps = loop.settled
        good = jnp.where(loop.residual <= how.tolerance, Result.CONVERGED, Result.OUT_OF_STEPS)
    result = jnp.where(finite, good, Result.NOT_FINITE).astype(int)  # strong, as every other array that comes back
    return Equilibrium(loop.state, steps, result, loop.residual, how.info(loop.carry), loop.carry)


def _advance(how: Equilibrator, system: System, loop: _Loop, until: ArrayLike, key: Array | None) -> _Loop:
    """The loop at step `until`, or where nothing moves any more."""

    def moving(loop: _Loop) -> Array:
        more = loop.step < until
        if loop.residual is None or how.tolerance is None:
            return more
        return more & jnp.any(loop.residual > how.tolerance)

    return jax.lax.while_loop(moving, lambda loop: _step(how, system, loop, key), loop)


def relax(how: Equilibrator, system: System, state: State, key: Array | None, carry: Any = None) -> Equilibrium:
    """The whole loop, for use inside compiled code: no checks, `state` complete, `carry` that of a run that goes on."""
    return _ended(how, _advance(how, system, _first(how, system, state, carry), how.steps, key))


_start = eqx.filter_jit(_first)
_run = eqx.filter_jit(_advance)
_end = eqx.filter_jit(_ended)


@eqx.filter_jit
def _record(
    how: Equilibrator,
    system: System,
    loop: _Loop,
    records: Any,
    first: Array,
    last: Array,
    every: Array,
    key: Array | None,
    observe: Callable[[State], Any],
) -> tuple[_Loop, Any]:
    """`records` with rows up to `last` filled in, one after each `every` steps, and the loop there."""

    def row(index: Array, carry: tuple[_Loop, Any]) -> tuple[_Loop, Any]:
        loop, records = carry
        loop = jax.lax.fori_loop(0, every, lambda _, loop: _step(how, system, loop, key), loop)
        seen = observe(loop.state)
        return loop, jax.tree.map(lambda rows, value: rows.at[index].set(value), records, seen)

    return jax.lax.fori_loop(first, last, row, (loop, records))


@eqx.filter_jit
def _room(loop: _Loop, count: int, observe: Callable[[State], Any]) -> Any:
    """Room for `count` records, the first of them made."""
    return jax.tree.map(
        lambda value: jnp.zeros((count, *jnp.shape(value)), jnp.result_type(value)).at[0].set(value),
        observe(loop.state),
    )
