r"""The contrast between two equilibria, which changes the weights.

$$ \Delta\theta \propto -\frac{1}{\xi}\left( \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{plus}}
   - \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{minus}} \right) $$

Each phase gives a number, its free energy, whose gradient in the parameters is its average of $\partial
E/\partial\theta$; the contrast is the gradient of their difference. $\xi$ is the difference of the two nudges, or 1
where nothing is nudged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.driver import relax
from equilibria.equilibrators.equilibrator import Equilibrium
from equilibria.learn import feasible
from equilibria.learn.devices import spread
from equilibria.learn.opening import chains_at, natural_rate, with_fields
from equilibria.learn.phase import NetworkRule, Phase, at_rest, drawn, errors, target_layer
from equilibria.learn.rates import relative_changes
from equilibria.learn.rule import PyTree, Step
from equilibria.model.missing import Partial, completed
from equilibria.model.network import Network, State

Opening: TypeAlias = Literal["data", "network"]


class Recipe(NetworkRule):
    r"""A learning rule: the contrast of a plus and a minus phase.

    $$ \Delta\theta \propto -\frac{1}{\xi}\left( \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{plus}}
       - \left\langle \frac{\partial E}{\partial\theta} \right\rangle_{\text{minus}} \right) $$

    Scellier and Bengio, equation (11); Decelle 2017, equation (4), where nothing is nudged and $\xi = 1$.

    Args:
        plus: the phase whose averages are raised.
        minus: the phase whose averages are lowered; None takes the base's equilibrium itself.
        base: a phase that runs first, from whose end others may start.
        chains: how many persistent chains the phases that start there have; as many as examples in a batch by default.
        opening: "data" begins the fields of layers with data, where they are all zero, and the chains at the data; "network"
            leaves all fields as they are and draws the chains at random. Only without a base and nudges.
        random_sign: flips the sign of the nudges at random from step to step.
        centered_gradient: takes the couplings' gradient about the means of both ends (`about_means`).
        l1: adds the penalty l1 |W| on every coupling.
        l2: adds the penalty l2 W^2 / 2.
        precision: the type in which particles are kept.
        watch_changes: puts the relative change of each coupling in a step, |dW| / |W|, into the history.

    Raises:
        ValueError: if there is neither a minus nor a base phase, or a number is out of its range.

    >>> import equilibria as eq
    >>> by_hand = Recipe(Phase(eq.Sweeps(1), hold="all"), Phase(eq.Sweeps(10), start="chains"), chains=50)
    >>> [phase.start for phase in by_hand.phases], [phase.start for phase in eq.pcd(10, chains=50).phases]
    (['data', 'chains'], ['data', 'chains'])
    """

    plus: Phase
    minus: Phase | None
    base: Phase | None
    chains: int | None = eqx.field(static=True)
    opening: Opening = eqx.field(static=True)
    random_sign: bool = eqx.field(static=True)
    centered_gradient: bool = eqx.field(static=True)
    l1: Array
    l2: Array
    precision: str = eqx.field(static=True)
    watch_changes: bool = eqx.field(static=True)

    def __init__(
        self,
        plus: Phase,
        minus: Phase | None,
        base: Phase | None = None,
        *,
        chains: int | None = None,
        opening: Opening = "data",
        random_sign: bool = False,
        centered_gradient: bool = False,
        l1: ArrayLike = 0.0,
        l2: ArrayLike = 0.0,
        precision: str = "float32",
        watch_changes: bool = False,
    ):
        if minus is None and base is None:
            check.refuse("minus", None, "a phase, or None with a base phase")
        self.plus, self.minus, self.base = plus, minus, base
        self.chains = None if chains is None else check.count("chains", chains)
        self.opening = check.choice("opening", opening, ("data", "network"))
        self.random_sign, self.centered_gradient = random_sign, centered_gradient
        self.l1, self.l2 = (array(check.number(name, value, least=0.0)) for name, value in (("l1", l1), ("l2", l2)))
        self.precision, self.watch_changes = precision, watch_changes

    @property
    def phases(self) -> list[Phase]:
        """The phases there are."""
        return [phase for phase in (self.base, self.plus, self.minus) if phase is not None]

    @property
    def likelihood(self) -> bool:
        """Whether it climbs the likelihood of the data: they are held in one phase, and nothing is nudged."""
        return self.base is None and all(phase.nudge is None for phase in self.phases)

    def opened(self, parameters: Network, data: State) -> Network:
        """With the fields of the data, unless the network has its own."""
        return with_fields(parameters, data) if self.likelihood and self.opening == "data" else parameters

    def rate(self, parameters: Network, data: State) -> float | None:
        """What the largest variance of the data allows."""
        return natural_rate(parameters, data) if self.likelihood else None

    @property
    def remembers(self) -> bool:
        """A particle for each example, where phases start there."""
        return any(phase.start == "particles" for phase in self.phases)

    @property
    def counts(self) -> Mapping[str, int | None]:
        """The persistent chains, where there are any."""
        return {"chains": self.chains}

    def begin(self, parameters: Network, data: State, batch_size: int, key: Array) -> dict[str, Any]:
        """Persistent chains and what carries them, or a particle for every example."""
        network, target = parameters, target_layer(parameters, data)
        if isinstance(data[target], Partial) and any(phase.hold != "all" for phase in (self.plus, self.base) if phase):
            check.refuse(
                "data", f"missing entries in {target!r}", "none in what the network is nudged or shown to predict"
            )
        feasible.check_nudges(network, self.phases, target, both=self.random_sign)
        starts: set[str] = {phase.start for phase in self.phases}
        carry: dict[str, Any] = {}
        if "chains" in starts:
            count = self.chains or batch_size
            at_data = self.likelihood and self.opening == "data"
            carry["chains"] = chains_at(network, data, count, key) if at_data else drawn(network, (count,), key)
            (phase,) = (phase for phase in self.phases if phase.start == "chains")
            carry["carried"] = _begun(phase, network, carry["chains"]) if phase.how.carries else None
        if "particles" in starts:
            examples = len(next(iter(data.values())))
            moving = [name for name in network.names if name not in data or name == target]
            feasible.check_room(network, moving, examples, self.precision)
            carry["particles"] = {
                name: layer.astype(self.precision) for name, layer in at_rest(network, (examples,), moving).items()
            }
        return carry

    def persistent(self, carry: dict[str, Any]) -> State | None:
        """The persistent chains, where there are any."""
        return carry.get("chains")

    @property
    def law_temperature(self) -> Array:
        """That of the phase which has the chains."""
        return next((phase.temperature for phase in self.phases if phase.start == "chains"), jnp.ones(()))

    def shared(self, carry: dict[str, Any]) -> dict[str, Any]:
        """Persistent chains, and no more."""
        return {name: jax.tree.map(lambda leaf: name == "chains", part) for name, part in carry.items()}  # noqa: B023

    def watched(self, parameters: Network, updates: Network) -> dict[str, Array]:
        """The relative change of each coupling, where it was asked for."""
        return {"change": relative_changes(parameters, updates)} if self.watch_changes else {}

    def step(self, parameters: Network, batch: State, *, carry: Any = None, index: Any = None, key: Array) -> Step:
        """The contrast on a batch."""
        return contrast(parameters, self, batch, carry=carry, index=index, key=key)


@eqx.filter_jit
def _begun(phase: Phase, network: Network, chains: State) -> Any:
    return phase.how.begin(conditioned(network, (), phase.temperature), chains)


def contrast(
    network: Network,
    recipe: Recipe,
    data: Mapping[str, Array],
    *,
    carry: Mapping[str, Any] | None = None,
    index: Array | None = None,
    key: Array,
) -> Step:
    """The contrast of a recipe on a batch of data.

    Args:
        network: what learns.
        recipe: the phases to contrast.
        data: by layer, (batch, size).
        carry: what `recipe.begin` or the last contrast returned.
        index: which examples these are, for particles.
        key: a random key.

    Returns:
        The gradient to descend, what the recipe carries on, and numbers worth watching.

    >>> import equilibria as eq
    >>> net = eq.rbm(6, 3, key=0)
    >>> found = contrast(net, eq.cd(steps=1), {"visible": jnp.ones((4, 6))}, key=jax.random.key(1))
    >>> found.gradient.couplings[0].weights.shape
    (6, 3)
    """
    return _contrast(network, recipe, dict(data), dict(carry or {}), index, key)


class _Reached(NamedTuple):
    """A phase that has come to rest, and how its free energy depends on the network."""

    phase: Phase
    end: Equilibrium | None  # None where no step was needed
    state: State
    condition: Callable[[Network], Conditioned]

    def averaged(self, network: Network) -> tuple[Array, Network]:
        """The mean free energy, and its gradient: the average of dE/dtheta.

        Through `condition` again, which costs nothing once compiled: a gradient in the conditioned network, pulled back
        from there, would multiply the data by the zeros of what the free energy does not look at.
        """

        def free_energy(network: Network) -> Array:
            return jnp.mean(self.phase.how.free_energy(self.condition(network), self.state))

        return eqx.filter_value_and_grad(free_energy)(network)


@eqx.filter_jit
def _contrast(
    network: Network, recipe: Recipe, data: dict[str, Array], carry: dict[str, Any], index: Array | None, key: Array
) -> Step:
    shown = _Shown(network, data, carry, index, key)
    sign = jnp.where(recipe.random_sign & jax.random.bernoulli(next(shown.keys)), -1.0, 1.0)
    ends: dict[str, _Reached] = {}
    for name, phase in (("base", recipe.base), ("plus", recipe.plus), ("minus", recipe.minus)):
        if phase is not None:
            ends[name] = shown.reached(phase, sign, ends["base"].state if "base" in ends else {})
    plus, minus = ends["plus"], ends["minus" if "minus" in ends else "base"]
    nudges = [jnp.zeros(()) if end.phase.nudge is None else end.phase.nudge for end in (plus, minus)]
    distance = jnp.ones(()) if plus.phase.nudge is None else nudges[0] - nudges[1]
    (high, pushed), (low, pulled) = plus.averaged(network), minus.averaged(network)
    gradient = difference(pushed, pulled, distance)
    if recipe.centered_gradient:
        gradient = about_means(gradient, jax.tree.map(lambda first, second: -(first + second) / 2, pushed, pulled))
    report = {"contrast": (high - low) / distance, **_unsettled(ends)}
    if minus.end is not None:
        report |= minus.end.info
    if recipe.base is not None:
        report |= errors(recipe.plus.cost, ends["base"].state[shown.target], data[shown.target])
    return Step(_penalised(gradient, network, recipe), shown.carried(ends), report)


class _Shown:
    """A batch shown to a network, and where its phases begin."""

    def __init__(self, network: Network, data: State, carry: dict[str, Any], index: Array | None, key: Array):
        self.network, self.data, self.carry, self.index = network, data, carry, index
        self.batch, self.target = (len(next(iter(data.values()))),), target_layer(network, data)
        self.keys: Iterator[Array] = iter(jax.random.split(key, 8))
        self.filled: State = {}

    def beginning(self, phase: Phase, base: State) -> State:
        random = drawn(self.network, self.batch, next(self.keys)) if phase.start in ("random", "data") else {}
        rest = at_rest(self.network, self.batch, [name for name in self.network.names if name not in random])
        stored = self.carry.get("particles", {})
        sources: dict[str, Any] = {
            "data": self.data,
            "rest": {},
            "random": {},
            "chains": self.carry.get("chains"),
            "particles": {name: jnp.asarray(layer[self.index], float) for name, layer in stored.items()},
            "base": base,
        }
        begun = {**rest, **random, **sources[phase.start]}
        return {name: completed(layer, {**begun, **random, **self.filled}[name]) for name, layer in begun.items()}

    def reached(self, phase: Phase, sign: Array, base: State) -> _Reached:
        """A phase come to rest."""
        if phase.nudge is not None:
            phase = eqx.tree_at(lambda here: here.nudge, phase, sign * phase.nudge)

        def condition(network: Network) -> Conditioned:
            return conditioned(network, phase.world(self.data, self.target), phase.temperature)

        system = condition(self.network)
        start = spread(system.imposed(self.beginning(phase, base)))
        if not phase.how.needs_state(system):
            return _Reached(phase, None, start, condition)
        carried = self.carry.get("carried") if phase.start == "chains" else None
        end = relax(phase.how, system, start, next(self.keys), carried)
        if phase.hold == "all":  # what is missing in the data has now been drawn given the rest of them
            self.filled = end.state
        return _Reached(phase, end, end.state, condition)

    def carried(self, ends: Mapping[str, _Reached]) -> dict[str, Any]:
        """What the next step goes on from."""
        carry = dict(self.carry)
        for reached in ends.values():
            if reached.phase.start == "chains":
                kept = carry["carried"] if reached.end is None else reached.end.carry
                carry["chains"], carry["carried"] = reached.state, kept
            if reached.phase.start == "particles":
                stored = carry["particles"]
                carry["particles"] = {
                    name: stored[name].at[self.index].set(reached.state[name].astype(stored[name].dtype))
                    for name in stored
                }
        return carry


def difference(high: PyTree, low: PyTree, distance: Array) -> PyTree:
    """What two phases differ by, over the difference of their nudges: the contrast of every rule."""
    return jax.tree.map(lambda first, second: (first - second) / distance, high, low)


def about_means(gradient: Network, means: Network) -> Network:
    r"""The gradient of the couplings about the means $\mu$ of both ends, and of the biases with them held there.

    $$ \Delta W = \langle (s_a - \mu_a)(s_b - \mu_b)^T \rangle_{\text{plus}} - \langle \cdot \rangle_{\text{minus}}, \qquad
       \Delta b_a = \langle s_a \rangle_{\text{plus}} - \langle s_a \rangle_{\text{minus}} - \Delta W \mu_b $$

    (Cho, Raiko and Ilin 2013; Montavon and Müller 2012.) It is linear in the plain `gradient`, points downhill as well,
    and does not change when the two values of a neuron exchange their names. Couplings that do not say how
    (`Coupling.about`) keep their gradient.

    Args:
        gradient: the plain gradient, in the shape of a network.
        means: holds the means as its biases.

    Returns:
        The gradient about the means.

    >>> import equilibria as eq
    >>> gradient = eq.rbm(2, 1, key=0)
    >>> jnp.array_equal(about_means(gradient, gradient).couplings[0].weights, gradient.couplings[0].weights)
    Array(True, dtype=bool)
    """
    slopes = {layer.name: layer.bias for layer in gradient.layers}
    offsets = {layer.name: layer.bias for layer in means.layers}
    biases, couplings = dict(slopes), []
    for coupling in gradient.couplings:
        first, second = coupling.ends
        centred, shifts = coupling.about((offsets[first], offsets[second]), (slopes[first], slopes[second]))
        biases[first] += shifts[0]
        biases[second] += shifts[1]
        couplings.append(centred)
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


def _unsettled(ends: Mapping[str, _Reached]) -> dict[str, Array]:
    """The fraction of examples that did not come to rest in each phase that had a tolerance."""
    settled = {name: reached.end.converged for name, reached in ends.items() if reached.end is not None}
    return {f"unconverged_{name}": jnp.mean(~rested) for name, rested in settled.items() if rested is not None}
