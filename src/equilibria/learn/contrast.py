r"""The contrast between two equilibria, which changes the weights.

$$ \Delta\theta \propto -\frac{1}{\xi}\left( \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{plus}}
   - \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{minus}} \right) $$

Each phase gives a number, its free energy, whose gradient in the parameters is its average of $\partial
E/\partial\theta$; the contrast is the gradient of their difference. $\xi$ is the difference of the two nudges, or 1
where nothing is nudged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.couplings import Dense
from equilibria.equilibrators.driver import Equilibrator, Equilibrium, relax
from equilibria.equilibrators.setting import setting
from equilibria.learn import particles
from equilibria.learn.devices import spread
from equilibria.network import Network, State
from equilibria.world import Clamp, Nudge, squared_error

Start = Literal["data", "rest", "random", "chains", "particles", "base"]


class Phase(eqx.Module):
    """One equilibrium of a recipe: what is imposed, how it is reached, and from where.

    Parameters: `hold` clamps no data, the "inputs" (all data but the last layer, which is the target) or "all" data.
    `nudge` pulls the target layer towards the data. `start` is where the phase begins: at the "data", at "rest" (the
    mode at zero field), at "random", where the recipe's "chains" or the example's "particles" were left, or at the
    "base" phase's end. `cost` is what the nudge weighs.
    """

    how: Equilibrator
    hold: Literal["none", "inputs", "all"] = eqx.field(static=True, default="none")
    start: Start = eqx.field(static=True, default="data")
    nudge: Any = eqx.field(default=None, converter=lambda value: value if value is None else jnp.asarray(value, float))
    temperature: Any = eqx.field(default=1.0, converter=lambda value: jnp.asarray(value, float))
    cost: Callable[[Array, Array], Array] = eqx.field(static=True, default=squared_error)

    def world(self, data: Mapping[str, Array], target: str) -> list[Clamp | Nudge]:
        """What is imposed on the network when these data are shown."""
        shown = {"none": [], "inputs": [name for name in data if name != target], "all": list(data)}[self.hold]
        clamps: list[Clamp | Nudge] = [Clamp(name, data[name]) for name in shown]
        return clamps if self.nudge is None else [*clamps, Nudge(target, data[target], self.nudge, self.cost)]


class Rule(eqx.Module):
    """What training needs of a learning rule: where it begins, and what a step finds.

    With `watch_changes` the history gets the relative change of each coupling in a step, |dW| / |W|.
    """

    # Not annotated: a field of the same name in a rule keeps its own place among that rule's fields.
    watch_changes = False
    chains = None  # type: Any

    @abstractmethod
    def begin(self, network: Network, data: Mapping[str, Array], batch_size: int, key: Array) -> dict[str, Any]:
        """What the rule keeps from step to step."""

    @abstractmethod
    def step(
        self,
        network: Network,
        data: Mapping[str, Array],
        *,
        memory: Mapping[str, Any] | None = None,
        index: Array | None = None,
        key: Array,
    ) -> Contrast:
        """The gradient on a batch; arguments are those of `contrast`."""


class Recipe(Rule):
    """A learning rule: the contrast of a plus and a minus phase.

    `base`, if there is one, runs first; `minus=None` takes the base's equilibrium itself. `chains` is how many
    persistent chains the phases that start there have (as many as examples in a batch, by default). `random_sign` flips
    the sign of the nudges at random from step to step. `about_means` takes the couplings' gradient about the means of
    both ends (`centered`); `l1` and `l2` add the penalties l1 |W| + l2 W^2 / 2 on every coupling. `precision` is the type
    in which particles are kept.
    """

    plus: Phase
    minus: Phase | None
    base: Phase | None = None
    chains: int | None = eqx.field(static=True, default=None)
    random_sign: bool = eqx.field(static=True, default=False)
    about_means: bool = eqx.field(static=True, default=False)
    l1: Any = eqx.field(default=0.0, converter=lambda value: jnp.asarray(value, float))
    l2: Any = eqx.field(default=0.0, converter=lambda value: jnp.asarray(value, float))
    precision: str = eqx.field(static=True, default="float32")
    watch_changes: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.minus is None and self.base is None:
            check.refuse("minus", None, "a phase, or None with a base phase")
        check.number("l1", self.l1, least=0.0)
        check.number("l2", self.l2, least=0.0)

    @property
    def phases(self) -> list[Phase]:
        """The phases there are."""
        return [phase for phase in (self.base, self.plus, self.minus) if phase is not None]

    def begin(self, network: Network, data: Mapping[str, Array], batch_size: int, key: Array) -> dict[str, Any]:
        """What the recipe keeps from step to step: persistent chains and what carries them, or a particle for every example."""
        particles.check_nudges(network, self.phases, target_layer(network, data), both=self.random_sign)
        starts: set[str] = {phase.start for phase in self.phases}
        memory: dict[str, Any] = {}
        if "chains" in starts:
            memory["chains"] = _drawn(network, (self.chains or batch_size,), key)
            (phase,) = (phase for phase in self.phases if phase.start == "chains")
            memory["carried"] = phase.how.begin(setting(network, (), phase.temperature), memory["chains"])
        if "particles" in starts:
            examples = len(next(iter(data.values())))
            moving = [name for name in network.names if name not in data or name == target_layer(network, data)]
            particles.check_room(network, moving, examples, self.precision)
            memory["particles"] = {
                name: layer.astype(self.precision) for name, layer in _at_rest(network, (examples,), moving).items()
            }
        return memory

    def step(self, network, data, *, memory=None, index=None, key):
        return contrast(network, self, data, memory=memory, index=index, key=key)


def target_layer(network: Network, data: Mapping[str, Array]) -> str:
    """The last layer that data are given for: the one a supervised recipe predicts."""
    return [name for name in network.names if name in data][-1]


@eqx.filter_jit
def _drawn(network: Network, batch: tuple[int, ...], key: Array) -> State:
    keys = jax.random.split(key, len(network.layers))
    return {
        layer.name: jnp.asarray(layer.unit.sample(here, jnp.zeros((*batch, layer.size))), float)
        for layer, here in zip(network.layers, keys, strict=True)
    }


def starting_at_rest(network: Network, batch: tuple[int, ...]) -> State:
    """Every layer at its mode in zero field."""
    return _at_rest(network, batch, list(network.names))


def _at_rest(network: Network, batch: tuple[int, ...], names: list[str]) -> State:
    layers = [network.layer(name) for name in names]
    return {layer.name: jnp.asarray(layer.unit.mode(jnp.zeros((*batch, layer.size))), float) for layer in layers}


class Contrast(eqx.Module):
    """What one step of a recipe found: the gradient to descend, the recipe's memory, and numbers worth watching."""

    gradient: Network
    memory: dict[str, Any]
    report: dict[str, Array]


def contrast(
    network: Network,
    recipe: Recipe,
    data: Mapping[str, Array],
    *,
    memory: Mapping[str, Any] | None = None,
    index: Array | None = None,
    key: Array,
) -> Contrast:
    """The contrast of a recipe on a batch of data.

    Parameters: `data` is by layer, (batch, size); `memory` is what `recipe.begin` or the last contrast returned;
    `index` says which examples these are, for particles.

    >>> import equilibria as eq
    >>> net = eq.rbm(6, 3, key=0)
    >>> found = contrast(net, eq.cd(steps=1), {"visible": jnp.ones((4, 6))}, key=jax.random.key(1))
    >>> found.gradient.couplings[0].weights.shape
    (6, 3)
    """
    return _contrast(network, recipe, dict(data), dict(memory or {}), index, key)


@eqx.filter_jit
def _contrast(
    network: Network, recipe: Recipe, data: dict[str, Array], memory: dict[str, Any], index: Array | None, key: Array
) -> Contrast:
    batch = (len(next(iter(data.values()))),)
    target = target_layer(network, data)
    keys = iter(jax.random.split(key, 8))
    sign = jnp.where(recipe.random_sign & jax.random.bernoulli(next(keys)), -1.0, 1.0)

    def beginning(phase: Phase, base: State) -> State:
        drawn = _drawn(network, batch, next(keys)) if phase.start in ("random", "data") else {}
        rest = _at_rest(network, batch, [name for name in network.names if name not in drawn])
        stored = memory.get("particles", {})
        sources: dict[str, Any] = {
            "data": data,
            "rest": {},
            "random": {},
            "chains": memory.get("chains"),
            "particles": {name: jnp.asarray(layer[index], float) for name, layer in stored.items()},
            "base": base,
        }
        return {**rest, **drawn, **sources[phase.start]}

    def reach(phase: Phase, base: State) -> tuple[Phase, Equilibrium]:
        if phase.nudge is not None:
            phase = eqx.tree_at(lambda here: here.nudge, phase, sign * phase.nudge)
        surroundings = setting(network, phase.world(data, target), phase.temperature)
        start = spread(surroundings.imposed(beginning(phase, base)))
        if surroundings.independent and phase.how.averages:
            return phase, Equilibrium(start, jnp.zeros((), int), None, None, None)
        carried = memory.get("carried") if phase.start == "chains" else None
        return phase, relax(phase.how, surroundings, start, next(keys), carried)

    ends: dict[str, tuple[Phase, Equilibrium]] = {}
    if recipe.base is not None:
        ends["base"] = reach(recipe.base, {})
    base = ends["base"][1].state if "base" in ends else {}
    ends["plus"] = reach(recipe.plus, base)
    if recipe.minus is not None:
        ends["minus"] = reach(recipe.minus, base)
    plus, minus = ends["plus"], ends["minus" if "minus" in ends else "base"]

    def averaged(parameters: Network, phase: Phase, end: Equilibrium) -> Array:
        surroundings = setting(parameters, phase.world(data, target), phase.temperature)
        return jnp.mean(phase.how.free_energy(surroundings, end.state))

    (high, pushed), (low, pulled) = (eqx.filter_value_and_grad(averaged)(network, *end) for end in (plus, minus))
    nudges = [0.0 if phase.nudge is None else phase.nudge for phase, _ in (plus, minus)]
    distance = 1.0 if plus[0].nudge is None else nudges[0] - nudges[1]
    gradient = jax.tree.map(lambda first, second: (first - second) / distance, pushed, pulled)
    if recipe.about_means:
        gradient = centered(gradient, jax.tree.map(lambda first, second: -(first + second) / 2, pushed, pulled))
    for phase, end in ends.values():
        if phase.start == "chains":
            memory["chains"], memory["carried"] = end.state, end.memory
        if phase.start == "particles":
            stored = memory["particles"]
            memory["particles"] = {
                name: stored[name].at[index].set(end.state[name].astype(stored[name].dtype)) for name in stored
            }
    report = {"contrast": (high - low) / distance, **_unsettled(ends)}
    if minus[1].memory is not None:
        report |= minus[0].how.watched(minus[1].memory)
    if recipe.base is not None:
        report |= errors(recipe.plus.cost, base[target], data[target])
    return Contrast(_penalised(gradient, network, recipe), memory, report)


def centered(gradient: Network, means: Network) -> Network:
    r"""The gradient of the couplings about the means $\mu$ of both ends, and of the biases with them held there.

    $$ \Delta W = \langle (s_a - \mu_a)(s_b - \mu_b)^T \rangle_{\text{plus}} - \langle \cdot \rangle_{\text{minus}}, \qquad
       \Delta b_a = \langle s_a \rangle_{\text{plus}} - \langle s_a \rangle_{\text{minus}} - \Delta W \mu_b $$

    (Cho, Raiko and Ilin 2013; Montavon and Müller 2012.) It is linear in the plain `gradient`, points downhill as well,
    and does not change when the two values of a neuron exchange their names; `means` holds the means as its biases.
    Couplings other than `Dense` keep their gradient.

    >>> import equilibria as eq
    >>> gradient = eq.rbm(2, 1, key=0)
    >>> jnp.array_equal(centered(gradient, gradient).couplings[0].weights, gradient.couplings[0].weights)  # means of zero
    Array(True, dtype=bool)
    """
    slopes = {layer.name: layer.bias for layer in gradient.layers}
    offsets = {layer.name: layer.bias for layer in means.layers}
    biases, couplings = dict(slopes), []
    for coupling in gradient.couplings:
        if isinstance(coupling, Dense):
            first, second = coupling.ends
            about = jnp.outer(offsets[first], slopes[second]) + jnp.outer(slopes[first], offsets[second])
            if coupling.lateral:  # each pair is there twice, and no neuron with itself
                about = (about - jnp.diag(jnp.diagonal(about))) / 2
            weights = coupling.weights - about
            biases[first] -= weights @ offsets[second]
            if not coupling.lateral:
                biases[second] -= offsets[first] @ weights
            coupling = eqx.tree_at(lambda here: here.weights, coupling, weights)
        couplings.append(coupling)
    gradient = eqx.tree_at(lambda net: net.couplings, gradient, tuple(couplings))
    return eqx.tree_at(
        lambda net: [layer.bias for layer in net.layers], gradient, [biases[name] for name in gradient.names]
    )


def _penalised(gradient: Network, network: Network, recipe: Recipe) -> Network:
    """The gradient with that of the penalties on the couplings."""
    couplings = jax.tree.map(
        lambda slope, weights: slope + recipe.l2 * weights + recipe.l1 * jnp.sign(weights),
        gradient.couplings,
        network.couplings,
    )
    return eqx.tree_at(lambda net: net.couplings, gradient, couplings)


def _unsettled(ends: Mapping[str, tuple[Phase, Equilibrium]]) -> dict[str, Array]:
    """The fraction of examples that did not come to rest in each phase that had a tolerance."""
    return {
        f"unconverged_{name}": jnp.mean(~end.converged) for name, (_, end) in ends.items() if end.converged is not None
    }


def errors(cost: Callable[[Array, Array], Array], prediction: Array, target: Array) -> dict[str, Array]:
    """The cost of a prediction, and how often its largest component is the wrong one."""
    wrong = jnp.argmax(prediction, axis=-1) != jnp.argmax(target, axis=-1)
    return {"cost": jnp.mean(cost(prediction, target)), "error": jnp.mean(wrong)}
