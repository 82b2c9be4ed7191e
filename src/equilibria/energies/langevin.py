"""Langevin chains in an energy and what is averaged along them, compiled once per energy.

`equilibria.learn.stochastic` is the public side and gives the definitions; equation numbers are those of Scellier and
Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179), Appendix B. Averages keep the chains on their
first axis, so that errors can be taken over independent chains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from equilibria.energies.function import Energy, PyTree, add, central, contrast, cost

_compiled = partial(jax.jit, static_argnames=("energy", "chains", "adjusted"))


class Noise(NamedTuple):
    """The dynamics: everything that may change without compiling again."""

    temperature: Any
    step: Any
    steps: Any  # averaged, after `burn` that are not
    burn: Any
    key: Array


class Run(NamedTuple):
    """What the chains leave behind, chains on the first axis."""

    state: PyTree  # where each chain ends
    mean: PyTree  # of the observable along each chain
    acceptance: Array


class Place(NamedTuple):
    state: Array
    level: Array
    slope: Array


def _run(
    energy: Energy,
    observable: Callable[[PyTree], PyTree],
    parameters: PyTree,
    influence: PyTree,
    start: PyTree,
    world: PyTree,
    noise: Noise,
    chains: int,
    adjusted: bool,
) -> Run:
    """Independent chains from `start`, and the mean of `observable` along each."""
    flat, unravel = ravel_pytree(start)
    surface = jax.vmap(jax.value_and_grad(lambda flat: energy(parameters, influence, unravel(flat), world)))

    def watch(place: Place) -> PyTree:
        seen = jax.vmap(lambda flat: observable(unravel(flat)))(place.state)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, float)), seen)

    def move(time: Array, carry: tuple) -> tuple:
        place, mean, refused = carry
        place, moved = _step(surface, place, noise, adjusted, jax.random.fold_in(noise.key, time))
        counted = time - noise.burn + 1
        share = jnp.where(counted > 0, 1 / jnp.maximum(counted, 1), 0.0)
        mean = jax.tree.map(lambda old, new: (old + share * (new - old)).astype(old.dtype), mean, watch(place))
        return place, mean, refused + ~moved

    states = jnp.tile(flat, (chains, 1))
    place = Place(states, *surface(states))
    before = place, jax.tree.map(jnp.zeros_like, watch(place)), jnp.zeros(chains, int)
    place, mean, refused = jax.lax.fori_loop(0, noise.burn + noise.steps, move, before)
    return Run(jax.vmap(unravel)(place.state), mean, 1 - refused / (noise.burn + noise.steps))


run = jax.jit(_run, static_argnames=("energy", "observable", "chains", "adjusted"))


def _step(surface: Callable, place: Place, noise: Noise, adjusted: bool, key: Array) -> tuple[Place, Array]:
    """One Euler step of (66) with σ² = 2T for every chain; if adjusted, a proposal that Metropolis accepts or refuses.

    Without adjustment what counts as accepted is a step to a finite energy.
    """
    chains, size = place.state.shape
    draws = jax.random.normal(key, (chains, size + 1), place.state.dtype)
    moved = place.state - noise.step * place.slope + jnp.sqrt(2 * noise.temperature * noise.step) * draws[:, :-1]
    moved = moved.astype(place.state.dtype)
    proposal = Place(moved, *surface(moved))
    if not adjusted:
        return proposal, jnp.isfinite(proposal.level)
    gain = (place.level - proposal.level) / noise.temperature
    gain += _log_reach(proposal, place, noise) - _log_reach(place, proposal, noise)
    luck = jnp.log(jax.scipy.special.ndtr(draws[:, -1]))  # the logarithm of a uniform number
    accept = luck < gain  # false where the proposal's energy is not a number
    return jax.tree.map(partial(jax.vmap(jnp.where), accept), proposal, place), accept


def _log_reach(origin: Place, goal: Place, noise: Noise) -> Array:
    """Log density of proposing `goal` from `origin`, up to a constant."""
    miss = goal.state - origin.state + noise.step * origin.slope
    return -jnp.sum(miss**2, axis=1) / (4 * noise.temperature * noise.step)


# Each of the following returns its values with the chains on the first axis, and the share of accepted proposals. -----


@_compiled
def objective(energy, parameters, influence, start, world, direction, noise, chains, adjusted):
    """The cost (3) along each chain."""
    watch = partial(_cost, energy, parameters, influence, direction, world)
    outcome = _run(energy, watch, parameters, influence, start, world, noise, chains, adjusted)
    return outcome.mean, outcome.acceptance.mean()


@_compiled
def two_phase(energy, parameters, influence, start, world, direction, multiples, noise, chains, adjusted):
    """(70) for each chain, between the influences β + multiples δ; the two phases share their noise."""

    def phase(multiple: Array) -> Run:
        nudged = add(influence, multiple, direction)

        def watch(state: PyTree) -> PyTree:
            return jax.grad(energy)(parameters, nudged, state, world)

        return _run(energy, watch, parameters, nudged, start, world, noise, chains, adjusted)

    both = jax.vmap(phase)(multiples)
    return contrast(both.mean, multiples), both.acceptance.mean()


@_compiled
def covariance(energy, parameters, influence, start, world, direction, noise, chains, adjusted):
    """E[dC/dθ] - Cov(dF/dθ, C) / T, linearised in each chain's means: its average over chains is the estimate."""

    def watch(state: PyTree) -> tuple:
        price = _cost(energy, parameters, influence, direction, world, state)
        direct = jax.grad(cost, argnums=1)(energy, parameters, influence, direction, state, world)
        push = jax.grad(energy)(parameters, influence, state, world)
        return direct, push, price, jax.tree.map(lambda leaf: leaf * price, push)

    outcome = _run(energy, watch, parameters, influence, start, world, noise, chains, adjusted)
    direct, push, price, product = outcome.mean

    def combine(direct: Array, push: Array, product: Array) -> Array:
        return direct - _covariance(push, price, product) / noise.temperature

    return jax.tree.map(combine, direct, push, product), outcome.acceptance.mean()


@_compiled
def theorem(energy, parameters, influence, start, world, nudge, noise, chains, adjusted):
    """The two sides of (73) for each chain, by centered differences."""
    theta, parameters_of = ravel_pytree(parameters)
    beta, influence_of = ravel_pytree(influence)

    def response(argument: int, theta: Array, beta: Array) -> tuple[Array, Array]:
        where = parameters_of(theta), influence_of(beta)

        def watch(state: PyTree) -> Array:
            return ravel_pytree(jax.grad(energy, argument)(*where, state, world))[0]

        outcome = _run(energy, watch, *where, start, world, noise, chains, adjusted)
        return outcome.mean, outcome.acceptance.mean()

    left, accepted_left = central(lambda theta: response(1, theta, beta), theta, nudge)
    right, accepted_right = central(lambda beta: response(0, theta, beta), beta, nudge)
    return jnp.moveaxis(left, 0, 2), jnp.moveaxis(right, 0, 1), jnp.minimum(accepted_left, accepted_right)


@_compiled
def proposition(energy, parameters, influence, start, world, direction, nudge, noise, chains, adjusted):
    """The derivative of (77) for each chain by a centered difference, and its value by (78)."""
    price = partial(_cost, energy, parameters, influence, direction, world)

    def nudged_cost(multiple: Array) -> tuple[Array, Array]:
        nudged = add(influence, multiple[0], direction)
        outcome = _run(energy, price, parameters, nudged, start, world, noise, chains, adjusted)
        return outcome.mean, outcome.acceptance.mean()

    left, accepted = central(nudged_cost, jnp.zeros(1), nudge)

    def watch(state: PyTree) -> tuple[Array, Array]:
        return price(state), price(state) ** 2

    here = _run(energy, watch, parameters, influence, start, world, noise, chains, adjusted)
    first, second = here.mean
    return left[0], -_covariance(first, first, second) / noise.temperature, accepted


def _cost(energy, parameters, influence, direction, world, state):
    return cost(energy, parameters, influence, direction, state, world)


def _covariance(first: Array, second: Array, product: Array) -> Array:
    """A covariance from chain means, linear in each chain's own: its mean is the pooled value, its spread the error."""
    second = second.reshape(second.shape + (1,) * (first.ndim - second.ndim))
    whole_first, whole_second = first.mean(0), second.mean(0)
    return product - first * whole_second - whole_first * second + whole_first * whole_second
