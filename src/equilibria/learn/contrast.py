r"""The contrast between two equilibria, which changes the weights.

$$ \Delta\theta \propto -\frac{1}{\xi}\left( \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{plus}}
   - \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{minus}} \right) $$

Each phase gives a number, its free energy, whose gradient in the parameters is its average of $\partial E/\partial\theta$; the
contrast is the gradient of their difference. $\xi$ is the difference of the two nudges, or 1 where nothing is nudged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.equilibrators.driver import Equilibrator, Equilibrium, relax, setting
from equilibria.network import Network, State
from equilibria.world import Clamp, Nudge, squared_error

Start = Literal["data", "rest", "random", "chains", "particles", "base"]


class Phase(eqx.Module):
    """One equilibrium of a recipe: what is imposed, how it is reached, and from where.

    Parameters: `hold` clamps no data, the "inputs" (all data but the last layer, which is the target) or "all" data. `nudge`
    pulls the target layer towards the data. `start` is where the phase begins: at the "data", at "rest" (the mode at zero
    field), at "random", where the recipe's "chains" or the example's "particles" were left, or at the "base" phase's end.
    """

    how: Equilibrator
    hold: Literal["none", "inputs", "all"] = eqx.field(static=True, default="none")
    start: Start = eqx.field(static=True, default="data")
    nudge: Array | None = eqx.field(
        default=None, converter=lambda value: value if value is None else jnp.asarray(value, float)
    )
    temperature: Array = eqx.field(default=1.0, converter=lambda value: jnp.asarray(value, float))

    def world(self, data: Mapping[str, Array], target: str) -> list[Clamp | Nudge]:
        """What is imposed on the network when these data are shown."""
        shown = {"none": [], "inputs": [name for name in data if name != target], "all": list(data)}[self.hold]
        clamps = [Clamp(name, data[name]) for name in shown]
        return clamps if self.nudge is None else [*clamps, Nudge(target, data[target], self.nudge)]


class Recipe(eqx.Module):
    """A learning rule: the contrast of a plus and a minus phase.

    `base`, if there is one, runs first; `minus=None` takes the base's equilibrium itself. `chains` is how many persistent chains
    the phases that start there have (as many as examples in a batch, by default). `random_sign` flips the sign of the
    nudges at random from step to step.
    """

    plus: Phase
    minus: Phase | None
    base: Phase | None = None
    chains: int | None = eqx.field(static=True, default=None)
    random_sign: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.minus is None and self.base is None:
            check.refuse("minus", None, "a phase, or None with a base phase")

    @property
    def phases(self) -> list[Phase]:
        """The phases there are."""
        return [phase for phase in (self.base, self.plus, self.minus) if phase is not None]

    def begin(self, network: Network, data: Mapping[str, Array], batch_size: int, key: Array) -> dict[str, State]:
        """What the recipe keeps from step to step: persistent chains, or a particle for every example."""
        starts, memory = {phase.start for phase in self.phases}, {}
        if "chains" in starts:
            memory["chains"] = _drawn(network, (self.chains or batch_size,), key)
        if "particles" in starts:
            examples = len(next(iter(data.values())))
            moving = [name for name in network.names if name not in data or name == target_layer(network, data)]
            memory["particles"] = _at_rest(network, (examples,), moving)
        return memory


def target_layer(network: Network, data: Mapping[str, Array]) -> str:
    """The last layer that data are given for: the one a supervised recipe predicts."""
    return [name for name in network.names if name in data][-1]


def _drawn(network: Network, batch: tuple[int, ...], key: Array) -> State:
    keys = jax.random.split(key, len(network.layers))
    return {
        layer.name: jnp.asarray(layer.unit.sample(here, jnp.zeros((*batch, layer.size))), float)
        for layer, here in zip(network.layers, keys, strict=True)
    }


def _at_rest(network: Network, batch: tuple[int, ...], names: list[str]) -> State:
    layers = [network.layer(name) for name in names]
    return {layer.name: jnp.asarray(layer.unit.mode(jnp.zeros((*batch, layer.size))), float) for layer in layers}


class Contrast(eqx.Module):
    """What one step of a recipe found: the gradient to descend, the recipe's memory, and numbers worth watching."""

    gradient: Network
    memory: dict[str, State]
    report: dict[str, Array]


def contrast(
    network: Network,
    recipe: Recipe,
    data: Mapping[str, Array],
    *,
    memory: Mapping[str, State] | None = None,
    index: Array | None = None,
    key: Array,
) -> Contrast:
    """The contrast of a recipe on a batch of data.

    Parameters: `data` is by layer, (batch, size); `memory` is what `recipe.begin` or the last contrast returned; `index` says
    which examples these are, for particles.

    >>> import equilibria as eq
    >>> net = eq.rbm(6, 3, key=0)
    >>> found = contrast(net, eq.cd(steps=1), {"visible": jnp.ones((4, 6))}, key=jax.random.key(1))
    >>> found.gradient.couplings[0].weights.shape
    (6, 3)
    """
    memory = dict(memory or {})
    batch = (len(next(iter(data.values()))),)
    target = target_layer(network, data)
    keys = iter(jax.random.split(key, 8))
    sign = jnp.where(recipe.random_sign & jax.random.bernoulli(next(keys)), -1.0, 1.0)

    def beginning(phase: Phase, base: Equilibrium | None) -> State:
        drawn = _drawn(network, batch, next(keys)) if phase.start in ("random", "data") else {}
        rest = _at_rest(network, batch, [name for name in network.names if name not in drawn])
        sources = {
            "data": data,
            "rest": {},
            "random": {},
            "chains": memory.get("chains"),
            "particles": {name: layer[index] for name, layer in memory.get("particles", {}).items()},
            "base": base.state if base is not None else None,
        }
        return {**rest, **drawn, **sources[phase.start]}

    def reach(phase: Phase, base: Equilibrium | None) -> tuple[Phase, Equilibrium]:
        if phase.nudge is not None:
            phase = eqx.tree_at(lambda here: here.nudge, phase, sign * phase.nudge)
        surroundings = setting(network, phase.world(data, target), phase.temperature)
        start = surroundings.imposed(beginning(phase, base))
        if surroundings.independent and phase.how.averages:
            return phase, Equilibrium(start, jnp.zeros((), int), None, None, None)
        return phase, relax(phase.how, surroundings, start, next(keys))

    base = reach(recipe.base, None)[1] if recipe.base is not None else None
    plus_phase, plus = reach(recipe.plus, base)
    minus_phase, minus = reach(recipe.minus, base) if recipe.minus is not None else (recipe.base, base)
    nudges = [0.0 if phase.nudge is None else phase.nudge for phase in (plus_phase, minus_phase)]
    distance = nudges[0] - nudges[1] if plus_phase.nudge is not None else 1.0

    def difference(parameters: Network) -> Array:
        plus_energy, minus_energy = (
            jnp.mean(
                phase.how.free_energy(setting(parameters, phase.world(data, target), phase.temperature), end.state)
            )
            for phase, end in ((plus_phase, plus), (minus_phase, minus))
        )
        return (plus_energy - minus_energy) / distance

    value, gradient = eqx.filter_value_and_grad(difference)(network)
    for phase, end in ((recipe.base, base), (plus_phase, plus), (minus_phase, minus)):
        if phase is not None and phase.start == "chains":
            memory["chains"] = end.state
        if phase is not None and phase.start == "particles":
            stored = memory["particles"]
            memory["particles"] = {name: stored[name].at[index].set(end.state[name]) for name in stored}
    report = {"contrast": value, **_unsettled({"base": base, "plus": plus, "minus": minus})}
    if base is not None:
        report |= _errors(base.state[target], data[target])
    return Contrast(gradient, memory, report)


def _unsettled(ends: Mapping[str, Equilibrium | None]) -> dict[str, Array]:
    """The fraction of examples that did not come to rest in each phase that had a tolerance."""
    return {
        f"unconverged_{name}": jnp.mean(~end.converged)
        for name, end in ends.items()
        if end is not None and end.converged is not None
    }


def _errors(prediction: Array, target: Array) -> dict[str, Array]:
    """The squared error of a prediction, and how often its largest component is the wrong one."""
    wrong = jnp.argmax(prediction, axis=-1) != jnp.argmax(target, axis=-1)
    return {"cost": jnp.mean(squared_error(prediction, target)), "error": jnp.mean(wrong)}
