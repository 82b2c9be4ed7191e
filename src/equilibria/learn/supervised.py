r"""The exact gradients that equilibrium propagation approaches, as learning rules for comparison.

Each differentiates the cost of the output, $J(\theta) = C(s^*_{\text{out}}, y)$, in its own way: `recurrent_backprop` at the
free fixed point, by the adjoint of the relaxation (Almeida 1987, Pineda 1987; Scellier and Bengio, Appendix A),
`unrolled_backprop` through every step of the relaxation, and `feedforward_backprop` through one pass from the inputs up,
without feedback.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.equilibrators.driver import Equilibrator, relax
from equilibria.equilibrators.setting import Setting, setting
from equilibria.equilibrators.sweep import Sweeps
from equilibria.learn.contrast import Contrast, Rule, errors, starting_at_rest, target_layer
from equilibria.network import Network, State
from equilibria.world import Clamp, squared_error

Cost = Callable[[Array, Array], Array]


class Backprop(Rule):
    """A rule that differentiates the cost of a prediction."""

    cost: Cost = eqx.field(static=True)

    @abstractmethod
    def gradient(
        self, network: Network, data: Mapping[str, Array], target: str
    ) -> tuple[Array, Network, dict[str, Array]]:
        """The prediction of the target layer, the gradient of its mean cost, and numbers worth watching."""

    def begin(self, network, data, batch_size, key):
        return {}

    def step(self, network, data, *, memory=None, index=None, key):
        target = target_layer(network, data)
        prediction, gradient, seen = self.gradient(network, data, target)
        report = errors(self.cost, prediction, data[target])
        return Contrast(gradient, dict(memory or {}), {"contrast": report["cost"], **seen, **report})


def _surroundings(network: Network, data: Mapping[str, Array], target: str) -> tuple[Setting, State]:
    """The network with everything but the target held, and its state at rest."""
    world = [Clamp(name, values) for name, values in data.items() if name != target]
    prepared = setting(network, world, 0.0)
    return prepared, prepared.imposed(starting_at_rest(network, (len(data[target]),)))


def _one_step(how: Equilibrator, prepared: Setting, state: State, free: State) -> State:
    no_key: Any = None
    moved, _ = how.step(prepared, {**state, **free}, None, no_key)
    return {name: moved[name] for name in free}


class _Recurrent(Backprop):
    how: Equilibrator
    steps: int = eqx.field(static=True)

    def gradient(self, network, data, target):
        prepared, start = _surroundings(network, data, target)
        rest = relax(self.how, prepared, start, None)
        free = {name: rest.state[name] for name in prepared.free}
        learned, fixed = eqx.partition(network, eqx.is_inexact_array)

        def swept(learned, free):
            surroundings, _ = _surroundings(eqx.combine(learned, fixed), data, target)
            return _one_step(self.how, surroundings, rest.state, free)

        _, pull_back = jax.vjp(swept, learned, free)
        slope = jax.grad(lambda output: jnp.mean(self.cost(output, data[target])))(free[target])
        source = {**jax.tree.map(jnp.zeros_like, free), target: slope}
        costate = jax.lax.fori_loop(
            0, self.steps, lambda _, costate: jax.tree.map(jnp.add, source, pull_back(costate)[1]), source
        )
        unsettled = {} if rest.converged is None else {"unconverged_base": jnp.mean(~rest.converged)}
        return free[target], pull_back(costate)[0], unsettled


class _Unrolled(Backprop):
    how: Equilibrator
    steps: int = eqx.field(static=True)

    def gradient(self, network, data, target):
        def predicted(network):
            prepared, start = _surroundings(network, data, target)
            first = {name: start[name] for name in prepared.free}
            step = lambda free, _: (_one_step(self.how, prepared, start, free), None)  # noqa: E731
            return jax.lax.scan(step, first, length=self.steps)[0][target]

        prediction, gradient = _differentiated(predicted, self.cost, network, data[target])
        return prediction, gradient, {}


class _Feedforward(Backprop):
    def gradient(self, network, data, target):
        shown = {name: values for name, values in data.items() if name != target}
        prediction, gradient = _differentiated(
            lambda network: feedforward(network, shown)[target], self.cost, network, data[target]
        )
        return prediction, gradient, {}


def _differentiated(predicted: Callable[[Network], Array], cost: Cost, network: Network, target: Array):
    def objective(network):
        prediction = predicted(network)
        return jnp.mean(cost(prediction, target)), prediction

    (_, prediction), gradient = eqx.filter_value_and_grad(objective, has_aux=True)(network)
    return prediction, gradient


def feedforward(network: Network, shown: Mapping[str, Array]) -> State:
    """One pass from the `shown` layers up: each other layer answers, once, to the layers before it.

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

    At rest a sweep S leaves the state where it is. The costate relaxes in the linearised network,
    $u \leftarrow \partial C/\partial s + (\partial S/\partial s)^T u$, for `steps` sweeps backwards, and the gradient is
    $(\partial S/\partial\theta)^T u$. `free` says how the free phase comes to rest (20 sweeps of block descent).

    >>> import equilibria as eq
    >>> found = recurrent_backprop().step(eq.layered((4, 3, 2), key=0), {"input": jnp.ones((5, 4)), "output": jnp.ones((5, 2))},
    ...                                   key=None)
    >>> found.gradient.couplings[1].weights.shape
    (3, 2)
    """
    return _Recurrent(cost, free or Sweeps(20, mood="mode"), check.count("steps", steps))


def unrolled_backprop(steps: int = 20, *, how: Equilibrator | None = None, cost: Cost = squared_error) -> Rule:
    """Back-propagation through `steps` steps of the relaxation from rest: the exact gradient of where they end.

    `how` is an equilibrator of which the step is taken (block descent); its own number of steps is not looked at.

    >>> unrolled_backprop(10).steps
    10
    """
    return _Unrolled(cost, how or Sweeps(1, mood="mode"), check.count("steps", steps))


def feedforward_backprop(*, cost: Cost = squared_error) -> Rule:
    """Ordinary back-propagation in the same network without feedback, each layer answering to those before it.

    >>> feedforward_backprop().cost.__name__
    'squared_error'
    """
    return _Feedforward(cost)
