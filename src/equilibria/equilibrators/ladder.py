r"""Ladders: networks of one shape, neighbours alike enough that states can pass from one to the next.

A ladder is a network at rising temperatures, the networks that a training run has passed, or a path from independent
neurons. Two of its rungs with reduced free energies $f_r = F_r/T_r$, one colour of layers summed out, exchange their
states x and y with probability

$$ \min\{1, \exp[f_r(x) + f_q(y) - f_r(y) - f_q(x)]\}, $$

which leaves the joint law of all rungs as it is. The average of this is how much two rungs overlap; from draws of both
also follows the ratio of their partition functions (Bennett 1976).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.sweep import Sweeps
from equilibria.model.network import Network, State
from equilibria.random import as_key


def reduced(system: Conditioned, state: State) -> Array:
    """The free energy over the temperature of each chain, nudges and all, with the integrable layers summed out."""
    nudges = sum((nudge.energy(state[name]) for name, nudge in system.nudges.items()), start=jnp.zeros(()))
    return (system.summed_out(state) + nudges) / system.temperature


def stacked(networks: Sequence[Network]) -> Network:
    """Networks of one shape as one, with a leading axis on every array.

    >>> import equilibria as eq
    >>> stacked([eq.rbm(3, 2, key=0), eq.rbm(3, 2, key=1)]).couplings[0].weights.shape
    (2, 3, 2)
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks)


def check_ladder(network: Network, ladder: Sequence[Network]) -> tuple[Network, ...]:
    """The networks of a ladder, if they have the shape of a network.

    Args:
        network: what is sampled.
        ladder: networks, from the easiest one to the one most like it.

    Returns:
        The same as a tuple.

    Raises:
        ValueError: if there are none, or one is of another shape.

    >>> import equilibria as eq
    >>> check_ladder(eq.rbm(3, 2, key=0), [eq.rbm(4, 2, key=0)])
    Traceback (most recent call last):
    ValueError: ladder: got a network of another shape in place 0; allowed: networks of the shape of the one sampled
    """
    rungs = tuple(ladder)
    if not rungs:
        check.refuse("ladder", "no networks", "at least one")
    shape = _shape(network)
    for place, rung in enumerate(rungs):
        if not isinstance(rung, Network) or _shape(rung) != shape:
            given = f"a network of another shape in place {place}"
            check.refuse("ladder", given, "networks of the shape of the one sampled")
    return rungs


def _shape(network: Network) -> tuple:
    leaves, structure = jax.tree.flatten(network)
    return structure, tuple(np.shape(leaf) for leaf in leaves)


class Crossing(NamedTuple):
    """Draws of two neighbouring rungs, each seen from both: f_other - f_own.

    Attributes:
        up: of the first rung's draws, f_second - f_first.
        down: of the second rung's draws, f_first - f_second.
    """

    up: Array
    down: Array

    def acceptance(self) -> Array:
        """How probable an exchange is, over all pairs of draws at the same place."""
        return jnp.mean(jnp.exp(jnp.minimum(-(self.up + self.down), 0.0)))


@eqx.filter_jit
def crossing(first: Network, second: Network, draws: State, others: State, temperature: ArrayLike = 1.0) -> Crossing:
    """Draws of two networks of one shape, each seen from both.

    Args:
        first: a network.
        second: another.
        draws: of the first, by layer.
        others: of the second.
        temperature: T of both.

    Returns:
        What `Crossing.acceptance` and `bennett` take.

    >>> import equilibria as eq
    >>> net = eq.rbm(3, 2, key=0)
    >>> draws = eq.sample(net, eq.Sweeps(9), chains=5, key=1)
    >>> float(crossing(net, net, draws, draws).acceptance())
    1.0
    """
    systems = [conditioned(network, (), temperature) for network in (first, second)]
    up = reduced(systems[1], draws) - reduced(systems[0], draws)
    return Crossing(up, reduced(systems[0], others) - reduced(systems[1], others))


def bennett(seen: Crossing) -> tuple[float, float]:
    r"""The difference ln Z_second - ln Z_first from draws of both, and its standard error for independent draws.

    With $\Delta = -\ln(Z_2/Z_1)$ it solves $\sum_1 \sigma(\Delta - u + c) = \sum_2 \sigma(-\Delta - d - c)$, $c =
    \ln(n_1/n_2)$ off u; no other estimate from the same draws has a smaller variance (Bennett 1976; Shirts et al. 2003).

    Args:
        seen: the draws of both, each from both.

    Returns:
        The difference and its error, infinite where the two do not overlap.

    >>> import equilibria as eq
    >>> nets = [eq.rbm(4, 2, scale=scale, key=0) for scale in (0.1, 1.0)]
    >>> draws = [eq.sample(net, eq.Exact(), chains=2000, key=1) for net in nets]
    >>> found, error = bennett(crossing(*nets, *draws))
    >>> truth = eq.log_partition(nets[1]).value - eq.log_partition(nets[0]).value
    >>> abs(found - truth) < 5 * error < 0.5
    True
    """
    up, down = (np.ravel(np.asarray(part, np.float64)) for part in seen)
    shift = np.log(len(up) / len(down))

    def excess(change: float) -> float:
        return float(_fermi(up + shift - change).sum() - _fermi(down - shift + change).sum())

    low, high = min(up.min(), -down.max()) - 10.0, max(up.max(), -down.min()) + 10.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    change = (low + high) / 2
    sides = (_fermi(up + shift - change), _fermi(down - shift + change))
    # Relative variance of the mean on each side; a side that never sees the other says nothing.
    spread = [np.var(side) / np.mean(side) ** 2 / len(side) if np.mean(side) > 1e-12 else np.inf for side in sides]
    return -change, float(np.sqrt(sum(spread)))


def _fermi(value: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, value))


def choose_rungs(
    networks: Sequence[Network],
    acceptance: float = 0.3,
    *,
    most: int | None = None,
    chains: int = 200,
    sweeps: int = 20,
    temperature: float = 1.0,
    key: Array | int,
) -> list[int]:
    """Which networks of a long ladder to keep so that neighbours still exchange states this often, by measurement.

    Chains are taken up the ladder, from the first network on; from each network kept the farthest one that overlaps enough
    comes next. The first and the last are always kept.

    Args:
        networks: of one shape, from the easiest on.
        acceptance: the least share of exchanges between neighbours.
        most: how many networks may be kept at most.
        chains: how many chains measure.
        sweeps: at each network.
        temperature: T.
        key: a random key or a seed.

    Returns:
        Places in `networks`, rising.

    Raises:
        ValueError: if two neighbours as given hardly overlap (fewer than one exchange in a hundred), more rungs are asked for
            than there are networks, or a number is out of its range.

    >>> import equilibria as eq
    >>> nets = [eq.rbm(4, 2, scale=scale, key=0) for scale in np.linspace(0, 1, 9)]
    >>> choose_rungs(nets, 0.1, key=1)
    [0, 8]
    """
    check.number("acceptance", acceptance, above=0.0, most=1.0)
    if len(networks) < 2:
        check.refuse("networks", f"{len(networks)} of them", "at least two")
    rungs = check_ladder(networks[-1], networks)
    if most is not None and check.count("most", most, least=2) > len(rungs):
        check.refuse("most", f"{most} rungs", f"at most the {len(rungs)} networks there are")
    draws = climbed(rungs, chains, sweeps, temperature, as_key(key))

    def overlap(here: int, there: int) -> float:
        return float(crossing(rungs[here], rungs[there], draws[here], draws[there], temperature).acceptance())

    chosen = [0]
    while chosen[-1] < len(rungs) - 1:
        here = chosen[-1]
        reach = next((there for there in range(here + 2, len(rungs)) if overlap(here, there) < acceptance), len(rungs))
        if reach == here + 2 and (share := overlap(here, here + 1)) < 0.01:
            given = f"networks {here} and {here + 1}, which exchange {share:.2g} of their states"
            check.refuse("networks", given, "neighbours that overlap: keep networks more often there")
        chosen.append(reach - 1)
    if most is not None and len(chosen) > most:
        check.refuse(
            "most", f"{most} rungs", f"{len(chosen)}, which an acceptance of {acceptance:g} needs; or a lower one"
        )
    return chosen


def climbed(networks: Sequence[Network], chains: int, sweeps: int, temperature: float, key: Array) -> list[State]:
    """Draws of each network in turn, by chains that start at random and go on from network to network."""
    layers = networks[0].layers
    keys = jax.random.split(key, len(layers) + len(networks))
    state = {
        layer.name: layer.unit.sample(here, jnp.zeros((chains, layer.size)))
        for layer, here in zip(layers, keys, strict=False)
    }
    heat, found = jnp.asarray(temperature, float), []
    for network, here in zip(networks, keys[len(layers) :], strict=True):
        state = swept(network, state, heat, jnp.asarray(sweeps), here)
        found.append(state)
    return found


@eqx.filter_jit
def swept(network: Network, state: State, temperature: Array, sweeps: Array, key: Array) -> State:
    """Chains of a network after some sweeps, compiled once for every number of them."""
    system = conditioned(network, (), temperature)

    def once(step: Array, state: State) -> State:
        return Sweeps(1).step(system, state, None, jax.random.fold_in(key, step))[0]

    return jax.lax.fori_loop(0, sweeps, once, state)
