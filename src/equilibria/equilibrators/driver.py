"""One driver for every way of coming to rest.

An equilibrator only describes a step; the driver imposes the world, computes once what the clamped layers contribute, repeats
the step in one compiled loop, and says when each chain came to rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array, strong
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Equilibrium, Result
from equilibria.equilibrators.prepare import Start, prepared
from equilibria.equilibrators.room import room
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
        # Inside someone's compiled code there is nothing to show.
        return relax(how, system.completed(), state, run_key)
    found = room(how, system, state)
    if found is not None:
        system, state = found.system, found.state
    loop = _begun(how, system, state)
    for until in paced(0, int(how.steps), "equilibrating", show=show_progress):
        loop, finite = _run(how, system, loop, array(until, int), run_key)
        if int(loop.step) < until:
            break
    rest = _ended(how, loop, finite)
    return rest if found is None else found.cut(rest)


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
    return followed(how, system, state, key, observe, records, every, show_progress)


def followed(
    how: Equilibrator,
    system: Conditioned,
    state: State,
    key: Array | None,
    observe: Callable[[State], Any],
    records: int,
    every: int = 1,
    show_progress: bool | None = None,
) -> tuple[Equilibrium, Any]:
    """The trajectory of checked arguments (`prepared`)."""
    loop = _begun(how, system, state)
    seen = eqx.filter_eval_shape(observe, loop.state)
    rows = jax.tree.map(lambda value: array(np.zeros((records + 1, *value.shape)), value.dtype), seen)
    done, apart = 0, array(every, int)
    known = all(check.concrete(leaf) is not None for leaf in jax.tree.leaves((how, system, state)))
    # Inside someone's compiled code there is nothing to show, and one chunk is compiled faster than several.
    chunks = paced(0, records + 1, "following", "record", show=show_progress) if known else [records + 1]
    for last in chunks:
        loop, rows, finite = _record(how, system, loop, rows, array(done, int), array(last, int), apart, key, observe)
        done = last
        jax.block_until_ready(rows)  # so that the pace is that of the work
    return _ended(how, loop, finite), rows


class _Loop(NamedTuple):
    step: Array
    state: State
    carry: Any
    residual: Array | None
    settled: Array  # the step after which each chain has not moved


def _step(how: Equilibrator, system: System, loop: _Loop, key: Array | None) -> _Loop:
    here = None if key is None else jax.random.fold_in(key, loop.step)
    state, carry = how.step(system, loop.state, loop.carry, here)
    # Draws come back weakly typed; the next chunk would be compiled again for them.
    state, carry = strong((system.imposed(state), carry))
    residual, settled = loop.residual, loop.settled
    if how.tolerance is not None:
        moves = [jnp.max(jnp.abs(state[name] - loop.state[name]), axis=-1) for name in system.free]
        residual = jnp.max(jnp.stack(moves), axis=0)
        settled = jnp.where(residual > how.tolerance, loop.step + 1, settled)
    return _Loop(loop.step + 1, state, carry, residual, settled)


def _first(how: Equilibrator, state: State, carry: Any) -> _Loop:
    batch = next(iter(state.values())).shape[:-1]
    residual = None if how.tolerance is None else array(np.full(batch, np.inf))
    return _Loop(array(0, int), state, carry, residual, array(np.zeros(batch), int))


def _begun(how: Equilibrator, system: Conditioned, state: State) -> _Loop:
    """The loop before its first step; nothing is compiled where the equilibrator carries nothing."""
    return _first(how, state, _carried(how, system, state) if how.carries else None)


def _finite(loop: _Loop) -> Array:
    return jnp.stack([jnp.all(jnp.isfinite(layer), axis=-1) for layer in loop.state.values()]).all(axis=0)


def _ended(how: Equilibrator, loop: _Loop, finite: Array) -> Equilibrium:
    """What is left, in JAX inside compiled code and in NumPy outside it."""
    info = _informed(how, loop.carry) if how.carries else {}
    library: Any = jnp if check.concrete(finite) is None else np
    if library is np and (complaint := how.complaint(loop.carry)) is not None:
        warnings.warn(complaint, stacklevel=3)
    if loop.residual is None or how.tolerance is None:
        steps, good = loop.step, library.asarray(Result.DONE)
    else:
        rests = library.asarray(loop.residual) <= library.asarray(how.tolerance)
        steps, good = loop.settled, library.where(rests, Result.CONVERGED, Result.OUT_OF_STEPS)
    result = array(library.where(finite, good, Result.NOT_FINITE), int)
    return Equilibrium(loop.state, steps, result, loop.residual, info, loop.carry)


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
    begun = _first(how, state, how.begin(system, state) if carry is None else carry)
    loop = _advance(how, system, begun, how.steps, key)
    return _ended(how, loop, _finite(loop))


@eqx.filter_jit
def _carried(how: Equilibrator, system: Conditioned, state: State) -> Any:
    return strong(how.begin(system.completed(), state))


@eqx.filter_jit
def _informed(how: Equilibrator, carry: Any) -> dict[str, Array]:
    return strong(how.info(carry))


@eqx.filter_jit
def _run(how: Equilibrator, system: Conditioned, loop: _Loop, until: Array, key: Array | None) -> tuple[_Loop, Array]:
    """The loop at step `until`, and which chains are finite: all of a call that is compiled."""
    loop = _advance(how, system.completed(), loop, until, key)
    return loop, _finite(loop)


@eqx.filter_jit
def _record(
    how: Equilibrator,
    system: Conditioned,
    loop: _Loop,
    records: Any,
    first: Array,
    last: Array,
    every: Array,
    key: Array | None,
    observe: Callable[[State], Any],
) -> tuple[_Loop, Any, Array]:
    """`records` with rows up to `last` filled in, the start and then one after each `every` steps, and the loop there."""
    system = system.completed()

    def row(index: Array, carry: tuple[_Loop, Any]) -> tuple[_Loop, Any]:
        loop, records = carry
        steps = jnp.where(index == 0, 0, every)
        loop = jax.lax.fori_loop(0, steps, lambda _, loop: _step(how, system, loop, key), loop)
        seen = observe(loop.state)
        return loop, jax.tree.map(lambda rows, value: rows.at[index].set(value), records, seen)

    loop, records = jax.lax.fori_loop(first, last, row, (loop, records))
    return loop, records, _finite(loop)
