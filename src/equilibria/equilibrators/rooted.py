r"""A ladder whose easiest rung can be drawn without a chain, as a machine of low rank can.

Chains that exchange along a ladder forget where they began only as fast as its last rung does. If that rung's law can be drawn
directly (`learn.low_rank`: projections on a few directions from a mesh, neurons independent of one another given these), it is
drawn anew in every round, and each draw that comes up the ladder is one that depends on nothing before (Béreux et al. 2025
sample their first machine in this way).

The mesh is good to some error. A draw v' from its law q takes the place of a state v with probability

$$ \min\{1, \frac{p(v')\,q(v)}{p(v)\,q(v')}\}, \qquad
   q(v) = \sum_n s_n\, e^{(b + U\mu_n) \cdot v - \sum_i c_i(b_i + (U\mu_n)_i)}, $$

Metropolis' rule for a proposal that does not look at v (Tierney 1994), so that the law of the last rung is the machine's own
whatever the error. Both p and q are known up to a constant: q depends on v through b and the projections alone.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind
from equilibria.equilibrators.ladder import swept
from equilibria.equilibrators.temper import Copies, Tempered
from equilibria.model.network import Network, State

_SWEEPS = 3  # neurons drawn independently at a node spread about it; sweeps take that back, and stay in the cluster


class Root(eqx.Module):
    r"""A machine that knows its visible neurons by a few projections, and draws that need no chain.

    A draw is a node of a mesh, and neurons that are independent of one another in the fields $b + U\mu$ of that node. The
    projections of these spread about the node, beside the spread that the mesh has itself, and clusters have the shares that
    they have on the mesh: `log_ratio` says how much more probable each draw is in the machine.

    Attributes:
        network: the machine.
        fields: (size,), b.
        directions: (components, size), U.
        tilts: (nodes, components), mu of each node.
        heaped: (nodes,), the probabilities s of the nodes, summed up.
        logs: (nodes,), ln s less the logarithm of the sum over all states of independent neurons in the node's fields.
    """

    network: Network
    fields: Array
    directions: Array
    tilts: Array
    heaped: Array
    logs: Array

    def proposed(self, key: Array, chains: int) -> State:
        """Draws of all layers by the mesh, the hidden neurons given the visible ones."""
        node_key, draw_key, hidden_key = jax.random.split(key, 3)
        nodes = jnp.searchsorted(self.heaped, jax.random.uniform(node_key, (chains,)) * self.heaped[-1])
        nodes = jnp.minimum(nodes, len(self.heaped) - 1)
        visible, hidden = self.network.layers
        rows = visible.unit.sample(draw_key, self.fields + self.tilts[nodes] @ self.directions)
        state = {visible.name: rows, hidden.name: jnp.zeros((chains, hidden.size))}
        state[hidden.name] = hidden.unit.sample(hidden_key, self.network.field(state, hidden.name))
        return state

    def log_ratio(self, state: State) -> Array:
        """ln p(v) - ln q(v) of each chain, up to a constant: the machine's law over that of the mesh."""
        visible, hidden = self.network.layers
        rows = state[visible.name]
        own = jnp.sum(hidden.unit.cumulant(self.network.field(state, hidden.name)), axis=-1)
        nodes = self.logs + (rows @ self.directions.T) @ self.tilts.T
        return own + rows @ (visible.bias - self.fields) - jax.nn.logsumexp(nodes, axis=-1)

    @eqx.filter_jit
    def __call__(self, key: Array, chains: int) -> State:
        """Independent draws of all layers: those of the mesh after some sweeps, with the clusters' shares of the mesh."""
        draw_key, sweep_key = jax.random.split(key)
        state = self.proposed(draw_key, chains)
        return swept(self.network, state, jnp.ones(()), jnp.asarray(_SWEEPS), sweep_key)


class Rooted(Equilibrator):
    r"""Parallel tempering with the copies on the last rung drawn anew, independently of all before, in every round.

    The last rung must be the network that `root` draws: the first network of the ladder, or the one a run begins with.
    `LowRank.rooted` makes it. A draw that is less probable in that network than by the mesh is taken by Metropolis' rule, so
    that the mesh's own error, of the order of one over the number of neurons, does not come up the ladder.

    Args:
        how: `Tempered` along networks, or `Climbing`.
        root: of the last rung.

    Raises:
        ValueError: if `how` goes along temperatures, or along a ladder whose first network is not the root's.

    >>> import numpy as np, equilibria as eq
    >>> rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)
    >>> start = eq.low_rank_start(rows, 4, components=1, key=0)
    >>> how = start.rooted(eq.Tempered(100, ladder=[start.network]))
    >>> eq.sample(start.network, how, chains=5, key=1)["visible"].shape
    (5, 6)
    """

    how: Tempered
    root: Root
    steps: Array
    tolerance: None

    def __init__(self, how: Tempered, root: Root):
        if not isinstance(how, Tempered) or (type(how) is Tempered and how.networks is None):
            check.refuse("how", type(how).__name__, "an exchange along networks, Tempered(ladder=...) or Climbing(...)")
        if how.networks is not None:
            last = jax.tree.map(lambda leaf: leaf[-1], how.networks)
            if not eqx.tree_equal(last, root.network):
                check.refuse("how", "a ladder that begins with another network", "one that begins with the root's")
        self.how, self.root, self.steps, self.tolerance = how, root, how.steps, None

    @property
    def kind(self) -> Kind:
        """It draws."""
        return self.how.kind

    def allowed(self, system: Conditioned) -> None:
        """Refuse what `how` does, another temperature than the root's, and a world that the root knows nothing of."""
        self.how.allowed(system)
        known = check.concrete(system.temperature)
        if known is not None and (known != 1).any():
            check.refuse("temperature", system.temperature, "1, at which the root is drawn")
        if system.clamps or system.nudges:
            check.refuse("world", "clamps or nudges", "none: the root is drawn without them")

    def needs_state(self, system: Conditioned) -> bool:
        """As `how` does."""
        return self.how.needs_state(system)

    def clamped(self) -> Equilibrator:
        """As `how` has it: where data are held there is nothing to cross."""
        return self.how.clamped()

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """As `how` has it."""
        return self.how.free_energy(system, state)

    def begin(self, system: Conditioned, state: State) -> Copies:
        """As `how` has it."""
        return self.how.begin(system, state)

    def info(self, carry: Copies) -> dict[str, Array]:
        """As `how` has it."""
        return self.how.info(carry)

    def complaint(self, carry: Copies) -> str | None:
        """As `how` has it."""
        return self.how.complaint(carry)

    def step(self, system: Conditioned, state: State, carry: Copies, key: Any) -> tuple[State, Copies]:
        """Fresh draws on the last rung, by Metropolis' rule, then a round of `how`."""
        draw_key, odds_key, round_key = jax.random.split(key, 3)
        last = {name: layer[-1].reshape(-1, layer.shape[-1]) for name, layer in carry.states.items()}
        drawn = self.root.proposed(draw_key, carry.trips.size)
        odds = jnp.exp(jnp.minimum(self.root.log_ratio(drawn) - self.root.log_ratio(last), 0.0))
        taken = (jax.random.uniform(odds_key, odds.shape) < odds)[:, None]
        copies = {
            name: layer.at[-1].set(jnp.where(taken, drawn[name], last[name]).reshape(layer.shape[1:]))
            for name, layer in carry.states.items()
        }
        return self.how.step(system, state, carry._replace(states=copies), round_key)
