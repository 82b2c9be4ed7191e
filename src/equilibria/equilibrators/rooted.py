r"""A ladder whose easiest rung can be drawn without a chain, as a machine of low rank can.

Chains that exchange along a ladder forget where they began only as fast as its last rung does. If that rung's law can be drawn
directly (`learn.low_rank`: projections on a few directions from a mesh, neurons independent of one another given these), it is
drawn anew in every round, and each draw that comes up the ladder is one that depends on nothing before (Béreux et al. 2025
sample their first machine in this way).
"""

from __future__ import annotations

from collections.abc import Callable
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
    r"""Draws of a machine that knows its visible neurons by a few projections: a node of a mesh each, then some sweeps.

    Given a node the visible neurons are drawn in the fields $b + U\mu$. Their projections spread about the node, beside the
    spread that the mesh has itself; a few sweeps of the machine put that right, and leave each draw in its cluster.

    Attributes:
        network: the machine.
        fields: (size,), b.
        directions: (components, size), U.
        tilts: (nodes, components), mu of each node.
        heaped: (nodes,), the probabilities of the nodes, summed up.
    """

    network: Network
    fields: Array
    directions: Array
    tilts: Array
    heaped: Array

    @eqx.filter_jit
    def __call__(self, key: Array, chains: int) -> State:
        """Independent draws of all layers."""
        node_key, draw_key, hidden_key, sweep_key = jax.random.split(key, 4)
        nodes = jnp.searchsorted(self.heaped, jax.random.uniform(node_key, (chains,)) * self.heaped[-1])
        nodes = jnp.minimum(nodes, len(self.heaped) - 1)
        visible, hidden = self.network.layers
        rows = visible.unit.sample(draw_key, self.fields + self.tilts[nodes] @ self.directions)
        state = {visible.name: rows, hidden.name: jnp.zeros((chains, hidden.size))}
        state[hidden.name] = hidden.unit.sample(hidden_key, self.network.field(state, hidden.name))
        return swept(self.network, state, jnp.ones(()), jnp.asarray(_SWEEPS), sweep_key)


class Rooted(Equilibrator):
    r"""Parallel tempering with the copies on the last rung drawn anew, independently of all before, in every round.

    The last rung must be the network that `root` draws: the first network of the ladder, or the one a run begins with.
    `LowRank.rooted` makes it. Where the root's draws are good to some error (the mesh has one of the order of one over the
    number of neurons), so are those of the network above it.

    Args:
        how: `Tempered` along networks, or `Climbing`.
        root: a function of a key and a number of chains that returns draws of the last rung by layer; a module.

    Raises:
        ValueError: if `how` goes along temperatures.

    >>> import numpy as np, equilibria as eq
    >>> rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)
    >>> start = eq.low_rank_start(rows, 4, components=1, key=0)
    >>> how = start.rooted(eq.Tempered(100, ladder=[start.network]))
    >>> eq.sample(start.network, how, chains=5, key=1)["visible"].shape
    (5, 6)
    """

    how: Tempered
    root: Callable[[Array, int], State]
    steps: Array
    tolerance: None

    def __init__(self, how: Tempered, root: Callable[[Array, int], State]):
        if not isinstance(how, Tempered) or (type(how) is Tempered and how.networks is None):
            check.refuse("how", type(how).__name__, "an exchange along networks, Tempered(ladder=...) or Climbing(...)")
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
        """Fresh draws on the last rung, then a round of `how`."""
        root_key, round_key = jax.random.split(key)
        batch = carry.trips.shape
        drawn = self.root(root_key, carry.trips.size)
        copies = {
            name: layer.at[-1].set(drawn[name].reshape(*batch, layer.shape[-1])) for name, layer in carry.states.items()
        }
        return self.how.step(system, state, carry._replace(states=copies), round_key)
