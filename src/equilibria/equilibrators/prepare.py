"""The arguments of the driver, checked and completed: the conditioned network, and a full state to start from."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Equilibrium
from equilibria.model.network import Network, State, without
from equilibria.model.normalisable import unbounded
from equilibria.model.world import World, clamps_and_nudges
from equilibria.random import as_key

Start = Equilibrium | Mapping[str, ArrayLike] | ArrayLike | None


def prepared(
    network: Network,
    how: Equilibrator,
    start: Start,
    temperature: ArrayLike,
    world: World,
    chains: int | None,
    key: Array | int | None,
) -> tuple[Equilibrator, Conditioned, State, Array | None]:
    """Checked and completed arguments of the compiled loops."""
    if not isinstance(how, Equilibrator):
        check.refuse("how", repr(how), "an equilibrator such as Sweeps(100)")
    check.temperature(temperature, zero=True)
    _check_world(network, world)
    zero = check.concrete(temperature)
    if zero is not None and not zero.any():
        how = how.at_zero()
    system = conditioned(network, world, temperature)
    if not system.nudges and (reason := unbounded(without(network, system.clamps))) is not None:
        check.refuse(
            "network", reason, "couplings between Gaussian units weaker than their stiffness, or a clamp on them"
        )
    if not system.free:
        check.refuse("world", "a clamp on every layer", "at least one layer left to move")
    how.allowed(system)
    if key is None and how.needs_key(system):
        check.refuse("key", None, f"a JAX random key: {type(how).__name__} draws random numbers here")
    start_key, run_key = (None, None) if key is None else jax.random.split(as_key(key))
    return how, system, _starting_state(system, start, chains, start_key), run_key


def _check_world(network: Network, world: World) -> None:
    clamps, nudges = clamps_and_nudges(world)
    for name, clamp in clamps.items():
        network.check_values(f"Clamp({name!r}) values", name, clamp.values)
        if clamp.mask is not None:
            check.shape(f"Clamp({name!r}) mask", clamp.mask, (network.layer(name).size,))
    for name, nudge in nudges.items():
        check.finite(f"Nudge({name!r}) target", nudge.target)
        check.shape(f"Nudge({name!r}) target", nudge.target, (network.layer(name).size,))
        network.layer(name).unit.nudged(jnp.zeros(()), nudge.strength, 0.0)  # refuses an energy without a minimum


def _starting_state(system: Conditioned, start: Start, chains: int | None, key: Array | None) -> State:
    """A full state from what the caller gave, drawn at zero field where nothing was given."""
    network = system.network
    if isinstance(start, Equilibrium):
        start = start.state
    given = {} if start is None else dict(start) if isinstance(start, Mapping) else {network.names[0]: start}
    for name, values in given.items():
        # A start may lie between the levels: a neuron at 0 says nothing until it is first updated.
        network.check_values(f"start[{name!r}]", name, values, probabilities=True)
    held = [clamp.values for clamp in system.clamps.values()] + [nudge.target for nudge in system.nudges.values()]
    leading = [np.shape(values)[:-1] for values in [*given.values(), *held]] + [system.temperature.shape]
    batch = np.broadcast_shapes(*leading)
    if chains is not None:
        check.count("chains", chains)
        if batch not in ((), (chains,)):
            check.refuse("chains", chains, f"{batch[0]}, the number of configurations in start, world or temperature")
        batch = (chains,)
    state = {}
    for index, layer in enumerate(network.layers):
        shape = (*batch, layer.size)
        if layer.name in given:
            state[layer.name] = jnp.broadcast_to(jnp.asarray(given[layer.name], float), shape)
        elif key is None:
            state[layer.name] = jnp.broadcast_to(layer.unit.mode(jnp.zeros(layer.size)), shape)
        else:
            state[layer.name] = layer.unit.sample(jax.random.fold_in(key, index), jnp.zeros(shape))
    return {
        # Strongly typed, so that every way to start shares one compiled loop.
        name: jnp.broadcast_to(jnp.asarray(layer, float), (*batch, layer.shape[-1]))
        for name, layer in system.imposed(state).items()
    }
