"""Parallel tempering along the networks that training has passed, for a network that is being trained."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.ladder import stacked
from equilibria.equilibrators.temper import Copies, Tempered
from equilibria.model.network import State


class Climbing(Tempered):
    r"""Tempering along the networks that training has passed (Béreux et al. 2025), for the free phase of a recipe.

    The ladder grows with the network: it begins as copies of the first one, and whenever the network has moved so far from the
    rung next to it that fewer states than `acceptance` are exchanged, it is kept as a rung of its own. The rung that is
    missed least then goes: the one whose neighbours would still exchange most, never the first network. All of this happens
    inside the compiled step, from what is carried along, so that a run goes on bit for bit.

    Args:
        steps: rounds of one exchange and one sweep.
        rungs: copies of each chain.
        acceptance: the share of exchanges with the next rung below which the network is kept.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> net = eq.rbm(6, 3, scale=2.0, key=0)
    >>> eq.equilibrate(net, Climbing(9, rungs=4), chains=10, key=1).info["exchange_rates"].shape
    (3,)
    """

    acceptance: Array
    newest: ClassVar[float] = 0.3  # hundreds of chains measure a rate well in a few rounds, and the network moves on

    def __init__(self, steps: int | Array, rungs: int = 8, acceptance: ArrayLike = 0.5):
        super().__init__(steps, check.count("rungs", rungs, least=3))
        self.acceptance = jnp.asarray(check.number("acceptance", acceptance, above=0.0, most=1.0), float)

    def begin(self, system: Conditioned, state: State) -> Copies:
        """A copy of every chain at each rung, all of them the network as it is."""
        carry = super().begin(system, state)
        networks = stacked([system.network] * (self.rungs - 1))
        return carry._replace(temperatures=jnp.ones(self.rungs), networks=networks)

    def _moved(self, system: Conditioned, carry: Copies) -> Copies:
        carry = carry._replace(step=carry.step + 1)
        return jax.lax.cond(carry.rates[0] < self.acceptance, lambda: self._kept(system, carry), lambda: carry)

    def _kept(self, system: Conditioned, carry: Copies) -> Copies:
        """The ladder with the network as its next rung, and without the rung that is missed least."""
        rates, rung = carry.rates, jnp.arange(self.rungs)
        # Rung k between 1 and the last but one: its neighbours exchange about as often as both pairs together.
        gone = 1 + jnp.argmax(rates[:-1] * rates[1:])
        source = jnp.where(rung <= gone, jnp.maximum(rung - 1, 0), rung)
        merged = rates[gone - 1] * rates[gone]
        pair = jnp.arange(self.rungs - 1)
        moved = jnp.where(pair < gone, rates[jnp.maximum(pair - 1, 0)], jnp.where(pair == gone, merged, rates))
        _, everything = self._parts(system, carry)
        return carry._replace(
            networks=jax.tree.map(lambda leaf: leaf[source[1:]], everything),
            rates=moved.at[0].set(1.0),
            states={name: layer[source] for name, layer in carry.states.items()},
            returning=carry.returning[source].at[0].set(False),
        )
