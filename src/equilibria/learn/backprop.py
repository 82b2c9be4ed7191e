r"""The exact gradients that equilibrium propagation approaches, as learning rules for comparison.

Of the cost of the output, $J(\theta) = C(s^*_{\text{out}}, y)$: `recurrent_backprop` at the free fixed point, by the adjoint of
the relaxation (Almeida 1987, Pineda 1987; Scellier and Bengio, Appendix A), `unrolled_backprop` through every step of the
relaxation, and `feedforward_backprop` through one pass from the inputs up, without feedback.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.driver import relax
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.sweep import Sweeps
from equilibria.learn.phase import NetworkRule, errors, starting_at_rest, target_layer
from equilibria.learn.rule import PyTree, Rule, Step
from equilibria.model.couplings import Coupling
from equilibria.model.network import Network, State
from equilibria.model.world import Clamp, Cost, squared_error


class Costate(NamedTuple):
    """Where the costate came to rest.

    Attributes:
        gradient: of the cost, in the shape of the parameters.
        residual: how far the costate still moved in its last step.
        steps: after how many steps.
    """

    gradient: PyTree
    residual: Array
    steps: Array


def costate(
    step: Callable[[PyTree, PyTree], PyTree],
    parameters: PyTree,
    state: PyTree,
    slope: PyTree,
    steps: int | Array,
    tolerance: float | Array = -1.0,
) -> Costate:
    r"""The gradient of a cost at the fixed point of any relaxation, by relaxing backwards (Almeida 1987, Pineda 1987).

    At rest a step S leaves the state where it is. The costate relaxes in the linearised system,
    $u \leftarrow \partial C/\partial s + (\partial S/\partial s)^T u$, and the gradient is $(\partial S/\partial\theta)^T u$.
    For a gradient step $S = s - \epsilon\, \partial F/\partial s$ its rest is $u = -\lambda^*/\epsilon$, with $\lambda^*$ the
    costate of Scellier and Bengio, equation (62).

    Args:
        step: S, a function of parameters and state.
        parameters: what the gradient is taken in.
        state: the fixed point.
        slope: the gradient of the cost in the state.
        steps: how many steps backwards at most.
        tolerance: stops when no number of the costate moves by more; below zero never.

    Returns:
        The gradient, with what is left to move.

    >>> found = costate(lambda a, s: s - 0.5 * (s - a), jnp.asarray(2.0), jnp.asarray(2.0), jnp.asarray(3.0), 30)
    >>> float(found.gradient)
    3.0
    """
    _, pull_back = jax.vjp(step, parameters, state)

    def moving(carry: tuple[PyTree, Array, Array]) -> Array:
        _, residual, count = carry
        return (count < steps) & (residual > tolerance) & jnp.isfinite(residual)

    def move(carry: tuple[PyTree, Array, Array]) -> tuple[PyTree, Array, Array]:
        before, _, count = carry
        after = jax.tree.map(jnp.add, slope, pull_back(before)[1])
        moves = jax.tree.map(lambda new, old: jnp.max(jnp.abs(new - old)), after, before)
        return after, jnp.max(jnp.stack(jax.tree.leaves(moves))), count + 1

    # As large as a number can be, so that the first step is made.
    largest = jnp.finfo(jnp.result_type(*jax.tree.leaves(slope))).max
    begin = slope, jnp.asarray(largest), jnp.zeros((), int)
    found, residual, count = jax.lax.while_loop(moving, move, begin)
    return Costate(pull_back(found)[0], residual, count)


class Backprop(NetworkRule):
    """A rule that differentiates the cost of a prediction."""

    cost: Cost = eqx.field(static=True)

    @abstractmethod
    def gradient(self, network: Network, data: State, target: str) -> tuple[Array, Network, dict[str, Array]]:
        """The prediction of the target layer, the gradient of its mean cost, and numbers worth watching."""

    def begin(self, parameters: Network, data: State, batch_size: int, key: Array) -> dict[str, Any]:
        """Nothing: these rules carry nothing from step to step."""
        return {}

    def step(self, parameters: Network, batch: State, *, carry: Any = None, index: Any = None, key: Any) -> Step:
        """The gradient of the mean cost of the target layer, and how large cost and error are."""
        target = target_layer(parameters, batch)
        prediction, gradient, seen = self.gradient(parameters, batch, target)
        report = errors(self.cost, prediction, batch[target])
        return Step(gradient, carry, {"contrast": report["cost"], **seen, **report})


class _ByEnergy(Coupling):
    """A layer's coupling to itself by the gradient of its energy: derivatives of the field W s are not symmetric."""

    ends: tuple[str, str] = eqx.field(static=True)
    inner: Coupling

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def pull(self, state: Array, toward: str) -> Array:
        return -jax.grad(lambda own: jnp.sum(self.inner.energy(own, own)))(state)

    def energy(self, state: Array, other: Array) -> Array:
        return self.inner.energy(state, other)

    def scaled(self, factor: ArrayLike) -> Self:
        return eqx.tree_at(lambda here: here.inner, self, self.inner.scaled(factor))


def _held(
    network: Network, data: Mapping[str, Array], target: str, how: Equilibrator, argument: str
) -> tuple[Conditioned, State]:
    """The network with everything but the target held, and its state at rest."""
    world = [Clamp(name, values) for name, values in data.items() if name != target]
    couplings = [_ByEnergy(each.ends, each) if each.lateral else each for each in network.couplings]
    system = conditioned(Network(network.layers, couplings), world, 0.0)
    if how.needs_key(system):
        allowed = "one that draws nothing, such as GradientFlow(100): a layer is coupled to itself"
        check.refuse(argument, type(how).__name__, allowed)
    return system, system.imposed(starting_at_rest(network, (len(data[target]),)))


def _one_step(how: Equilibrator, system: Conditioned, state: State, free: State) -> State:
    moved, _ = how.step(system, {**state, **free}, None, None)
    return {name: moved[name] for name in free}


class _Recurrent(Backprop):
    how: Equilibrator
    steps: int = eqx.field(static=True)

    def gradient(self, network: Network, data: State, target: str) -> tuple[Array, Network, dict[str, Array]]:
        """By the costate at the free fixed point."""
        system, start = _held(network, data, target, self.how, "free")
        rest = relax(self.how, system, start, None)
        free = {name: rest.state[name] for name in system.free}
        learned, fixed = eqx.partition(network, eqx.is_inexact_array)

        def swept(learned: PyTree, free: State) -> State:
            here, _ = _held(eqx.combine(learned, fixed), data, target, self.how, "free")
            return _one_step(self.how, here, rest.state, free)

        slope = jax.grad(lambda output: jnp.mean(self.cost(output, data[target])))(free[target])
        source = {**jax.tree.map(jnp.zeros_like, free), target: slope}
        found = costate(swept, learned, free, source, self.steps)
        unsettled = {} if rest.converged is None else {"unconverged_base": jnp.mean(~rest.converged)}
        return free[target], found.gradient, unsettled


class _Unrolled(Backprop):
    how: Equilibrator
    steps: int = eqx.field(static=True)

    def gradient(self, network: Network, data: State, target: str) -> tuple[Array, Network, dict[str, Array]]:
        """Through every step from rest."""

        def predicted(network: Network) -> Array:
            system, start = _held(network, data, target, self.how, "how")
            first = {name: start[name] for name in system.free}
            step = lambda free, _: (_one_step(self.how, system, start, free), None)  # noqa: E731
            return jax.lax.scan(step, first, length=self.steps)[0][target]

        prediction, gradient = _differentiated(predicted, self.cost, network, data[target])
        return prediction, gradient, {}


class _Feedforward(Backprop):
    def gradient(self, network: Network, data: State, target: str) -> tuple[Array, Network, dict[str, Array]]:
        """Through one pass from the inputs up."""
        shown = {name: values for name, values in data.items() if name != target}
        prediction, gradient = _differentiated(
            lambda network: feedforward(network, shown)[target], self.cost, network, data[target]
        )
        return prediction, gradient, {}


def _differentiated(
    predicted: Callable[[Network], Array], cost: Cost, network: Network, target: Array
) -> tuple[Array, Network]:
    def objective(network: Network) -> tuple[Array, Array]:
        prediction = predicted(network)
        return jnp.mean(cost(prediction, target)), prediction

    (_, prediction), gradient = eqx.filter_value_and_grad(objective, has_aux=True)(network)
    return prediction, gradient


def feedforward(network: Network, shown: Mapping[str, Array]) -> State:
    """One pass from the `shown` layers up: each other layer answers, once, to the layers before it.

    Args:
        network: its layers in the order of the pass.
        shown: the states of the first layers.

    Returns:
        The state of every layer.

    >>> import equilibria as eq
    >>> feedforward(eq.layered((4, 3, 2), key=0), {"input": jnp.ones((5, 4))})["output"].shape
    (5, 2)
    """
    state: State = {name: jnp.asarray(values) for name, values in shown.items()}
    for layer in network.layers:
        if layer.name not in state:
            pulls = [
                coupling.pull(state[other], toward=layer.name)
                for coupling in network.couplings
                if layer.name in coupling.ends
                for other in set(coupling.ends) & set(state)
            ]
            state[layer.name] = layer.unit.mode(sum(pulls, start=layer.bias))
    return state


def recurrent_backprop(*, free: Equilibrator | None = None, steps: int = 20, cost: Cost = squared_error) -> Rule:
    r"""Recurrent back-propagation (Almeida 1987, Pineda 1987): the exact gradient at the free fixed point.

    It is found by `costate` (Scellier and Bengio, section 4.2 and Appendix A).

    Args:
        free: how the free phase comes to rest; 20 sweeps of block descent by default.
        steps: how many sweeps backwards.
        cost: of the output: `squared_error` or any other.

    Returns:
        The rule, for `train`.

    Raises:
        ValueError: if `steps` is no count.

    >>> import equilibria as eq
    >>> found = recurrent_backprop().step(eq.layered((4, 3, 2), key=0), {"input": jnp.ones((5, 4)), "output": jnp.ones((5, 2))},
    ...                                   key=None)
    >>> found.gradient.couplings[1].weights.shape
    (3, 2)
    """
    return _Recurrent(cost, free or Sweeps(20, update="mode"), check.count("steps", steps))


def unrolled_backprop(steps: int = 20, *, how: Equilibrator | None = None, cost: Cost = squared_error) -> Rule:
    """Back-propagation through every step of the relaxation from rest: the exact gradient of where they end.

    Args:
        steps: how many steps.
        how: an equilibrator of which the step is taken, block descent by default; its own number of steps is not looked at.
        cost: of the output: `squared_error` or any other.

    Returns:
        The rule, for `train`.

    Raises:
        ValueError: if `steps` is no count.

    >>> unrolled_backprop(10).steps
    10
    """
    return _Unrolled(cost, how or Sweeps(1, update="mode"), check.count("steps", steps))


def feedforward_backprop(*, cost: Cost = squared_error) -> Rule:
    """Ordinary back-propagation in the same network without feedback, each layer answering to those before it.

    Args:
        cost: of the output: `squared_error` or any other.

    Returns:
        The rule, for `train`.

    >>> feedforward_backprop().cost.__name__
    'squared_error'
    """
    return _Feedforward(cost)
