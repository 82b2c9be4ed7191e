"""Langevin chains in a user's energy and what is averaged along them, compiled once per energy.

`equilibria.energies.stochastic` is the public side and gives the definitions; equation numbers are those of Scellier and
Bengio, "Towards a biologically plausible backprop" (arXiv:1602.05179), Appendix B. Averages keep the chains on their
first axis, so that errors can be taken over independent chains.
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

from equilibria import check
from equilibria.energies.function import PART, FunctionSystem
from equilibria.energies.relaxation import between
from equilibria.equilibrators.flow import Langevin
from equilibria.learn.rule import PyTree
from equilibria.model.network import State

Observable = Callable[[PyTree], PyTree]


class Sampled(NamedTuple):
    """A sampled value, its standard error, and the share of proposals that were accepted."""

    value: PyTree
    error: PyTree
    acceptance: Array


class Averages(NamedTuple):
    """What the chains leave behind, chains on the first axis."""

    state: State  # where each chain ends
    mean: PyTree  # of the observable along each chain
    acceptance: Array


class Chains(eqx.Module):
    """`count` independent chains: `burn` steps that are forgotten, then the steps of `how`, which are averaged."""

    how: Langevin
    burn: Array
    count: int = eqx.field(static=True)

    def spread(self, start: State) -> State:
        """The start of every chain, where they have one in common."""
        numbers = start[PART]
        return start if numbers.ndim > 1 else {PART: jnp.tile(numbers, (self.count, 1))}

    @eqx.filter_jit
    def __call__(self, system: FunctionSystem, start: State, observable: Observable, key: Array) -> Averages:
        """Where chains from `start` end, and the mean of `observable`, a function of the user's state, along each."""

        def watch(state: State) -> PyTree:
            seen = jax.vmap(observable)(system.read(state))
            return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, float)), seen)

        def move(time: Array, loop: tuple[State, Any, PyTree]) -> tuple[State, Any, PyTree]:
            state, carry, mean = loop
            state, carry = self.how.step(system, state, carry, jax.random.fold_in(key, time))
            counted = time - self.burn + 1
            share = jnp.where(counted > 0, 1 / jnp.maximum(counted, 1), 0.0)
            mean = jax.tree.map(lambda old, new: (old + share * (new - old)).astype(old.dtype), mean, watch(state))
            return state, carry, mean

        states = self.spread(start)
        none = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), eqx.filter_eval_shape(watch, states))
        first = (states, self.how.begin(system, states), none)
        state, carry, mean = jax.lax.fori_loop(0, self.burn + self.how.steps, move, first)
        return Averages(state, mean, self.how.info(carry)["acceptance"])


def nothing(state: PyTree) -> tuple:
    """Observes nothing, for who wants the states alone."""
    return ()


# Each of the following returns its values with the chains on the first axis, and the share of accepted proposals. -----


@eqx.filter_jit
def objective(
    chains: Chains, system: FunctionSystem, start: State, direction: PyTree, key: Array
) -> tuple[Array, Array]:
    """The cost (3) along each chain."""
    found = chains(system, start, lambda state: system.cost(direction, state), key)
    return found.mean, found.acceptance.mean()


class Response(NamedTuple):
    """What a gradient of the expected cost is made of, chains on the first axis."""

    gradient: PyTree
    cost: Array  # without nudge
    acceptance: Array
    state: State  # where the chains end, in the lower of two phases


@eqx.filter_jit
def two_phase(
    chains: Chains, system: FunctionSystem, start: State, direction: PyTree, key: Array, multiples: Array
) -> Response:
    """(70) for each chain, between the influences β + multiples δ; the two phases share their noise."""

    def phase(multiple: Array) -> Averages:
        nudged = system.nudged(multiple, direction)
        return chains(nudged, start, lambda state: (nudged.by_parameters(state), nudged.cost(direction, state)), key)

    both = jax.vmap(phase)(multiples)
    pushes, costs = both.mean
    share = multiples[1] / (multiples[1] - multiples[0])  # on the straight line between the phases, where no nudge is
    cost = share * costs[0] + (1 - share) * costs[1]
    return Response(between(pushes, multiples), cost, both.acceptance.mean(), {PART: both.state[PART][0]})


@eqx.filter_jit
def covariance(chains: Chains, system: FunctionSystem, start: State, direction: PyTree, key: Array) -> Response:
    """E[dC/dθ] - Cov(dF/dθ, C) / T, linearised in each chain's means: its average over chains is the estimate."""

    def watch(state: PyTree) -> tuple[PyTree, PyTree, Array, PyTree]:
        price, direct = eqx.filter_value_and_grad(lambda theta: system.with_parameters(theta).cost(direction, state))(
            system.parameters
        )
        push = system.by_parameters(state)
        return direct, push, price, jax.tree.map(lambda leaf: leaf * price, push)

    found = chains(system, start, watch, key)
    direct, push, price, product = found.mean

    def combine(direct: Array, push: Array, product: Array) -> Array:
        return direct - covaried(push, price, product) / system.temperature

    value = jax.tree.map(combine, direct, push, product)
    return Response(value, price, found.acceptance.mean(), found.state)


METHODS = ("two-phase", "covariance")


def gradient(
    method: str, chains: Chains, system: FunctionSystem, start: State, direction: PyTree, key: Array, multiples: Array
) -> Response:
    """The gradient of (69) by one of the methods; `multiples` are those of two phases."""
    arguments = (chains, system, start, direction, key)
    return covariance(*arguments) if method == "covariance" else two_phase(*arguments, multiples)


def covaried(first: Array, second: Array, product: Array) -> Array:
    """A covariance from chain means, linear in each chain's own: its mean is the pooled value, its spread the error."""
    second = second.reshape(second.shape + (1,) * (first.ndim - second.ndim))
    whole_first, whole_second = first.mean(0), second.mean(0)
    return product - first * whole_second - whole_first * second + whole_first * whole_second


def sampled(by_chain: PyTree, acceptance: Array, chains: Chains, *, depth: int = 3) -> Sampled:
    """The mean over chains with its error; a warning, `depth` calls up, says if the chains went wrong."""
    warn_of_chains(by_chain, acceptance, chains, depth=depth + 1)
    mean = jax.tree.map(lambda leaf: leaf.mean(0), by_chain)
    error = jax.tree.map(lambda leaf: leaf.std(0, ddof=1) / np.sqrt(chains.count), by_chain)
    return Sampled(mean, error, acceptance)


def warn_of_chains(by_chain: PyTree, acceptance: Array, chains: Chains, *, depth: int = 3) -> None:
    """Say if chains diverged or hardly move, where that is known."""
    if check.concrete(acceptance) is None:
        return
    lost = not chains.how.adjusted and acceptance < 1  # an observable may be finite where the state is not
    if lost or not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(by_chain)):
        warnings.warn("chains diverged: take a smaller step or adjusted=True", RuntimeWarning, stacklevel=depth)
    elif acceptance < 0.05:
        message = f"chains hardly move: acceptance {acceptance:.3f}; take a smaller step"
        warnings.warn(message, RuntimeWarning, stacklevel=depth)
