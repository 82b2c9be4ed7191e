r"""Parallel tempering: copies of every chain on the rungs of a ladder, which exchange their states.

The copies are swept, each at its own rung, and neighbours exchange their states x and y with probability

$$ \min\{1, \exp[f_r(x) + f_q(y) - f_r(y) - f_q(x)]\}, $$

f the free energy over the temperature with one colour of layers summed out (`equilibrators.ladder`), even and odd pairs
in turn, which leaves the joint law of all copies as it is (Swendsen and Wang 1986; Geyer 1991) and carries states along
the ladder without turning back at random (Okabe et al. 2001; Syed et al. 2022). What is seen is the first copy. The rungs
are temperatures, which move until all pairs exchange equally often; or networks of one shape (Béreux et al. 2025); or
those that training has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, whole
from equilibria.equilibrators.ladder import check_ladder, reduced, stacked
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import Network, State

_LEAST_PACE = 0.02  # the temperatures go on following a network that is being trained
_TOLD = 4  # rounds after which each pair has been tried in states of its own
_ENOUGH, _NEVER = 20, 1e-3  # rounds after which a pair that exchanges so rarely is told


class Copies(NamedTuple):
    """What parallel tempering carries along.

    Attributes:
        temperatures: (rungs,), the first is 1: multiples of the temperature asked for.
        networks: the rungs' networks after the first, with a leading axis; None where all are the one sampled.
        rates: (rungs - 1,): how often each pair of neighbours exchanges, a mean and later a running average.
        states: all copies, (rungs, ..., size).
        returning: (rungs, ...), whether a copy has been at the last rung since it was at the first.
        trips: (...), how often each chain's first copy came back from the last rung.
        step: how many rounds were made.
    """

    temperatures: Array
    networks: Network | None
    rates: Array
    states: State
    returning: Array
    trips: Array
    step: Array


class Tempered(Equilibrator):
    r"""Parallel tempering: rounds of one exchange between neighbouring rungs of a ladder and one sweep of every copy.

    $$ \min\{1, \exp[f_r(x) + f_q(y) - f_r(y) - f_q(x)]\} $$

    is the probability that rungs r and q exchange their states, f the free energy over the temperature. Without a ladder
    the rungs are temperatures; their movement dies down as the steps go on, to one fiftieth. `Equilibrium.info` holds
    "temperatures", "exchange_rates" and "round_trips", the mean number of times that a chain has come back from the last
    rung; in training they are in the history. A rate is measured from a pair's second try on: the copies begin in one
    state, and one state is exchanged surely. A warning tells of neighbours that never exchange.

    Args:
        steps: how many rounds.
        rungs: the number of copies of each chain; 8 without a ladder, with one all of its networks and the one sampled.
        hottest: the temperature of the last copy in multiples of that of the first.
        adapt: how fast the temperatures between move at first; 0 keeps them where they are (spaced evenly in ln T).
        ladder: networks of the shape of the one sampled, from the easiest on, such as `Trajectory(folder)`; in place of
            temperatures.

    Raises:
        ValueError: if a number is out of its range, there are fewer networks than rungs, or one is of another shape.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(6, 3, scale=2.0, key=0), Tempered(200, rungs=4), chains=10, key=1)
    >>> rest["visible"].shape, rest.info["exchange_rates"].shape
    ((10, 6), (3,))
    >>> ladder = [eq.rbm(6, 3, scale=scale, key=0) for scale in (0.1, 1.0)]
    >>> how = Tempered(9, ladder=ladder)
    >>> eq.equilibrate(eq.rbm(6, 3, scale=2.0, key=0), how, chains=10, key=1).info["exchange_rates"].shape
    (2,)
    """

    steps: Array
    rungs: int = eqx.field(static=True)
    hottest: Array
    adapt: Array
    networks: Network | None
    tolerance: None
    newest: ClassVar[float] = 0.02  # weight of the newest step in the running averages of exchange rates

    def __init__(
        self,
        steps: int | Array,
        rungs: int | None = None,
        hottest: ArrayLike = 10.0,
        adapt: ArrayLike = 1.0,
        ladder: Sequence[Network] | None = None,
    ):
        self.steps, self.tolerance, self.networks = whole("steps", steps), None, None
        if ladder is not None:
            networks = check_ladder(ladder[-1], ladder) if len(ladder) else check_ladder(None, ())  # type: ignore[arg-type]
            rungs = len(networks) + 1 if rungs is None else check.count("rungs", rungs, least=2)
            if rungs > len(networks) + 1:
                given = f"{rungs} with a ladder of {len(networks)} networks"
                check.refuse("rungs", given, f"at most {len(networks) + 1}, the networks and the one sampled")
            # Evenly from the easiest on; the rung after the network sampled is the one most like it.
            places = [round(place * (len(networks) - 1) / max(rungs - 2, 1)) for place in range(rungs - 1)]
            self.networks = stacked([networks[-1 - place] for place in places])
        self.rungs = check.count("rungs", 8 if rungs is None else rungs, least=2)
        self.hottest = array(check.number("hottest", hottest, above=1.0))
        self.adapt = array(check.number("adapt", adapt, least=0.0))

    @property
    def kind(self) -> Kind:
        """It draws."""
        return "draws"

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero, and a ladder of networks of another shape."""
        check.number("temperature", system.temperature, above=0.0)
        if self.networks is not None:
            check_ladder(system.network, [jax.tree.map(lambda leaf: leaf[0], self.networks)])

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent, whose averages are known."""
        return not system.independent

    def clamped(self) -> Sweeps:
        """Plain sweeps: where data are held there is nothing to cross."""
        return Sweeps(self.steps)

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """The energy of each chain with one colour summed out: the same mean gradient, and less noise."""
        return system.summed_out(state)

    def begin(self, system: Conditioned, state: State) -> Copies:
        """A copy of every chain at each rung, and temperatures spaced evenly in ln T where these are the rungs."""
        copies = {name: jnp.broadcast_to(layer, (self.rungs, *layer.shape)) for name, layer in state.items()}
        batch = next(iter(state.values())).shape[:-1]
        places = jnp.arange(self.rungs) / (self.rungs - 1)
        temperatures = self.hottest**places if self.networks is None else jnp.ones(self.rungs)
        rates, none = jnp.ones(self.rungs - 1), jnp.zeros((self.rungs, *batch), bool)
        return Copies(temperatures, self.networks, rates, copies, none, jnp.zeros(batch), jnp.zeros((), int))

    def info(self, carry: Copies) -> dict[str, Array]:
        """The "temperatures", how often neighbours exchange ("exchange_rates"), and "round_trips"."""
        return {
            "temperatures": carry.temperatures,
            "exchange_rates": carry.rates,
            "round_trips": jnp.mean(carry.trips),
        }

    def complaint(self, carry: Copies) -> str | None:
        """Which neighbours never exchange, once there were enough rounds to tell."""
        rates = np.asarray(carry.rates)
        if int(carry.step) < _ENOUGH or rates.min() >= _NEVER:
            return None
        rung, share = int(rates.argmin()), float(rates.min())
        between = "networks" if carry.networks is not None else "temperatures"
        what = f"rungs {rung} and {rung + 1} of {self.rungs}, counted from the one sampled, exchange {share:.1g} of their draws"
        return f"{what}: what lies beyond does not reach the draws; put more {between} between them"

    def step(self, system: Conditioned, state: State, carry: Copies, key: Any) -> tuple[State, Copies]:
        """One round of exchanges, one sweep of every copy, and a small move of the rungs."""
        sweep_key, swap_key = jax.random.split(key)
        copies = {name: carry.states[name].at[0].set(layer) for name, layer in state.items()}
        carry = self._exchanged(system, carry._replace(states=copies), swap_key)
        copies = self._everywhere(system, carry, _swept, carry.states, jax.random.split(sweep_key, self.rungs))
        carry = self._moved(system, carry._replace(states=copies))
        return {name: layer[0] for name, layer in copies.items()}, carry

    def _parts(self, system: Conditioned, carry: Copies) -> tuple[Array, Network | None]:
        """What sets the rungs apart, with a leading axis: temperatures, and networks if they differ."""
        if carry.networks is None:
            return carry.temperatures, None
        first = system.network
        networks = jax.tree.map(lambda own, rest: jnp.concatenate([own[None], rest]), first, carry.networks)
        return carry.temperatures, networks

    def _everywhere(self, system: Conditioned, carry: Copies, function: Any, *each: Any, order: Any = None) -> Any:
        """A function of the system at a rung and of something with a leading axis of rungs; `order` puts other rungs there."""
        parts = self._parts(system, carry)
        parts = parts if order is None else jax.tree.map(lambda leaf: leaf[order], parts)

        def at(part: tuple[Array, Network | None], *here: Any) -> Any:
            temperature, network = part
            there = system if network is None else system.of(network)
            return function(there.at(temperature * system.temperature), *here)

        return jax.vmap(at)(parts, *each)

    def _exchanged(self, system: Conditioned, carry: Copies, key: Array) -> Copies:
        """The copies after one round of exchanges: each rung has a partner, itself if it has none in this round."""
        rung = jnp.arange(self.rungs)
        upper = (rung % 2) != (carry.step % 2)  # the upper one of its pair
        partner = jnp.where(upper, rung - 1, rung + 1)
        partner = jnp.where((partner < 0) | (partner >= self.rungs), rung, partner)
        own = self._everywhere(system, carry, reduced, carry.states)
        other = self._everywhere(system, carry, reduced, carry.states, order=partner)
        gain = own - other
        odds = jnp.exp(jnp.minimum(gain + gain[partner], 0.0))
        draw = jax.random.uniform(key, odds.shape)
        lower = jnp.minimum(rung, partner)
        paired = (partner != rung).reshape(-1, *[1] * (odds.ndim - 1))
        swap = paired & (draw[lower] < odds)

        def exchanged(layer: Array) -> Array:
            mask = swap.reshape(*swap.shape, *[1] * (layer.ndim - swap.ndim))
            return jnp.where(mask, layer[partner], layer)

        returning = exchanged(carry.returning).at[-1].set(True)
        trips = carry.trips + returning[0]
        tried = (partner == rung + 1)[:-1]
        means = jnp.mean(odds.reshape(self.rungs, -1), axis=1)[:-1]
        # A mean at first, then a running average. Each pair's first try says nothing: the copies begin in one state.
        newest = jnp.maximum(self.newest, 1 / jnp.maximum(carry.step // 2, 1))
        rates = jnp.where(tried, (1 - newest) * carry.rates + newest * means, carry.rates)
        states = {name: exchanged(layer) for name, layer in carry.states.items()}
        return carry._replace(states=states, rates=rates, returning=returning.at[0].set(False), trips=trips)

    def _moved(self, system: Conditioned, carry: Copies) -> Copies:
        """The temperatures after a small step towards equal exchange rates: gaps in 1/T that exchange often widen."""
        step = carry.step + 1
        if carry.networks is not None:
            return carry._replace(step=step)
        cold = 1 / carry.temperatures
        gaps = cold[:-1] - cold[1:]
        pace = self.adapt * jnp.maximum((1.0 + carry.step) ** -0.6, _LEAST_PACE) * (step >= _TOLD)
        wider = gaps * jnp.exp(pace * (carry.rates - jnp.mean(carry.rates)))
        wider *= jnp.sum(gaps) / jnp.sum(wider)
        between = 1 / (1 - jnp.cumsum(wider[:-1]))
        temperatures = jnp.concatenate([carry.temperatures[:1], between, carry.temperatures[-1:]])
        return carry._replace(temperatures=temperatures, step=step)


def _swept(system: Conditioned, state: State, key: Array) -> State:
    return system.imposed(Sweeps(1).step(system, state, None, key)[0])
