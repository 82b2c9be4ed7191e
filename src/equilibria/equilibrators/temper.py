r"""Parallel tempering: copies of every chain at higher temperatures, which exchange their states.

Copies at temperatures $T_0 < T_1 < \dots$ are swept, and neighbours exchange their states with probability

$$ \min\{1, \exp[(1/T_r - 1/T_{r+1})(E_r - E_{r+1})]\}, $$

even and odd pairs in turn, which leaves the joint law of all copies as it is (Swendsen and Wang 1986; Geyer 1991). What is
seen is the coldest copy. The temperatures between the ends move until all pairs exchange equally often.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, whole
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import State

_NEWEST = 0.02  # weight of the newest step in the running averages of exchange rates
_LEAST_PACE = 0.02  # the temperatures go on following a network that is being trained


class Ladder(NamedTuple):
    """What parallel tempering carries along.

    Attributes:
        temperatures: (rungs,), the first is 1: multiples of the temperature asked for.
        rates: (rungs - 1,): how often each pair of neighbours exchanges, a running average.
        states: all copies, (rungs, ..., size).
        step: how many rounds were made.
    """

    temperatures: Array  # (rungs,), the first is 1: multiples of the temperature asked for
    rates: Array  # (rungs - 1,): how often each pair of neighbours exchanges, a running average
    states: State  # all copies, (rungs, ..., size)
    step: Array


class Tempered(Equilibrator):
    r"""Parallel tempering: rounds of one sweep of every copy and one exchange between neighbouring temperatures.

    $$ \min\{1, \exp[(1/T_r - 1/T_{r+1})(E_r - E_{r+1})]\} $$

    is the probability of an exchange. The movement of the temperatures dies down as the steps go on, to one fiftieth.
    `Equilibrium.info` holds "temperatures" and "exchange_rates"; in training they are in the history.

    Args:
        steps: how many rounds.
        rungs: the number of copies of each chain.
        hottest: the temperature of the last copy in multiples of that of the first.
        adapt: how fast the temperatures between move at first; 0 keeps them where they are (spaced evenly in ln T).

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(6, 3, scale=2.0, key=0), Tempered(200, rungs=4), chains=10, key=1)
    >>> rest["visible"].shape, rest.info["exchange_rates"].shape
    ((10, 6), (3,))
    """

    steps: Array
    rungs: int = eqx.field(static=True)
    hottest: Array
    adapt: Array
    tolerance: None

    def __init__(self, steps: int | Array, rungs: int = 8, hottest: ArrayLike = 10.0, adapt: ArrayLike = 1.0):
        self.steps, self.rungs, self.tolerance = whole("steps", steps), check.count("rungs", rungs, least=2), None
        self.hottest = jnp.asarray(check.number("hottest", hottest, above=1.0), float)
        self.adapt = jnp.asarray(check.number("adapt", adapt, least=0.0), float)

    @property
    def kind(self) -> Kind:
        """It draws."""
        return "draws"

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero."""
        check.number("temperature", system.temperature, above=0.0)

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent, whose averages are known."""
        return not system.independent

    def clamped(self) -> Sweeps:
        """Plain sweeps: where data are held there is nothing to cross."""
        return Sweeps(self.steps)

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """The energy of each chain with one colour summed out: the same mean gradient, and less noise."""
        return system.summed_out(state)

    def begin(self, system: Conditioned, state: State) -> Ladder:
        """A copy of every chain at each rung, and temperatures spaced evenly in ln T."""
        copies = {name: jnp.broadcast_to(layer, (self.rungs, *layer.shape)) for name, layer in state.items()}
        temperatures = self.hottest ** (jnp.arange(self.rungs) / (self.rungs - 1))
        return Ladder(temperatures, jnp.full(self.rungs - 1, 0.5), copies, jnp.zeros((), int))

    def info(self, carry: Ladder) -> dict[str, Array]:
        """The temperatures and how often neighbours exchange, as "temperatures" and "exchange_rates"."""
        return {"temperatures": carry.temperatures, "exchange_rates": carry.rates}

    def step(self, system: Conditioned, state: State, carry: Ladder, key: Any) -> tuple[State, Ladder]:
        """One sweep of every copy, one round of exchanges, and a small move of the temperatures."""
        sweep_key, swap_key = jax.random.split(key)
        batch = next(iter(state.values())).shape[:-1]
        everywhere = system.at(carry.temperatures.reshape(-1, *[1] * len(batch)) * system.temperature)
        copies = {name: carry.states[name].at[0].set(layer) for name, layer in state.items()}
        copies = everywhere.imposed(Sweeps(1).step(everywhere, copies, None, sweep_key)[0])
        copies, odds, tried = self._exchanged(everywhere, copies, carry.step, swap_key)
        rates = jnp.where(tried, (1 - _NEWEST) * carry.rates + _NEWEST * odds, carry.rates)
        ladder = Ladder(self._moved(carry, rates), rates, copies, carry.step + 1)
        return {name: layer[0] for name, layer in copies.items()}, ladder

    def _exchanged(self, everywhere: Conditioned, copies: State, step: Array, key: Array) -> tuple[State, Array, Array]:
        """The copies after one round of exchanges, how probable each was on average, and which were tried."""
        energies = everywhere.energy(copies)
        cold = 1 / jnp.broadcast_to(everywhere.temperature, energies.shape)
        odds = jnp.exp(jnp.minimum((cold[:-1] - cold[1:]) * (energies[:-1] - energies[1:]), 0.0))
        tried = jnp.arange(self.rungs - 1) % 2 == step % 2
        column = tried.reshape(-1, *[1] * (odds.ndim - 1))
        swap = (jax.random.uniform(key, odds.shape) < odds) & column
        none = jnp.zeros((1, *odds.shape[1:]), bool)
        up, down = jnp.concatenate([swap, none]), jnp.concatenate([none, swap])
        moved = {}
        for name, layer in copies.items():
            above, below = jnp.roll(layer, -1, axis=0), jnp.roll(layer, 1, axis=0)
            moved[name] = jnp.where(up[..., None], above, jnp.where(down[..., None], below, layer))
        return moved, jnp.mean(odds.reshape(self.rungs - 1, -1), axis=1), tried

    def _moved(self, ladder: Ladder, rates: Array) -> Array:
        """The temperatures after a small step towards equal exchange rates: gaps in 1/T that exchange often widen."""
        cold = 1 / ladder.temperatures
        gaps = cold[:-1] - cold[1:]
        pace = self.adapt * jnp.maximum((1.0 + ladder.step) ** -0.6, _LEAST_PACE)
        wider = gaps * jnp.exp(pace * (rates - jnp.mean(rates)))
        wider *= jnp.sum(gaps) / jnp.sum(wider)
        between = 1 / (1 - jnp.cumsum(wider[:-1]))
        return jnp.concatenate([ladder.temperatures[:1], between, ladder.temperatures[-1:]])
