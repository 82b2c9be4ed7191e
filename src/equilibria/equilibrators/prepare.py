"""The arguments of the driver, checked and completed: the conditioned network, and a full state to start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned, outlined
from equilibria.equilibrators.equilibrator import Equilibrator, Equilibrium
from equilibria.model.network import Layer, Network, State, without
from equilibria.model.normalisable import unbounded
from equilibria.model.world import World, clamps_and_nudges
from equilibria.random import as_key, split

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
    """Checked arguments of the compiled loops; nothing is compiled here unless a start has to be drawn."""
    if not isinstance(how, Equilibrator):
        check.refuse("how", repr(how), "an equilibrator such as Sweeps(100)")
    check.network("network", network)
    check.temperature(temperature, zero=True)
    _check_world(network, world)
    zero = check.concrete(temperature)
    if zero is not None and not zero.any():
        how = how.at_zero()
    system = outlined(network, world, temperature)
    if not system.nudges and (reason := unbounded(without(network, system.clamps))) is not None:
        check.refuse(
            "network", reason, "couplings between Gaussian units weaker than their stiffness, or a clamp on them"
        )
    if not system.free:
        check.refuse("world", "a clamp on every layer", "at least one layer left to move")
    how.allowed(system)
    if key is None and how.needs_key(system):
        check.refuse("key", None, f"a JAX random key: {type(how).__name__} draws random numbers here")
    start_key, run_key = (None, None) if key is None else split(as_key(key))
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
        strength = check.concrete(nudge.strength)
        if strength is not None:
            # Refuses an energy without a minimum.
            network.layer(name).unit.nudged(np.zeros(()), strength, 0.0)  # type: ignore[arg-type]


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
    missing = {index: layer for index, layer in enumerate(network.layers) if layer.name not in given}
    state: State = {} if not missing else _begun(missing, batch, key)
    known = all(check.concrete(leaf) is not None for leaf in jax.tree.leaves((given, system.clamps, state)))
    library: Any = np if known else jnp  # where the numbers are known, nothing is compiled for the sake of their shape
    for name in network.names:
        values = library.asarray(given[name] if name in given else state[name], jnp.result_type(float))
        clamp = system.clamps.get(name)
        if clamp is not None:
            values = clamp.values if clamp.mask is None else library.where(clamp.mask, clamp.values, values)
        state[name] = array(library.broadcast_to(values, (*batch, values.shape[-1])))
    return {name: state[name] for name in network.names}


@eqx.filter_jit
def _begun(layers: dict[int, Layer], batch: tuple[int, ...], key: Array | None) -> State:
    """Layers drawn at zero field, or without a key at their modes there."""
    return {
        layer.name: layer.unit.mode(jnp.zeros((*batch, layer.size)))
        if key is None
        else layer.unit.sample(jax.random.fold_in(key, index), jnp.zeros((*batch, layer.size)))
        for index, layer in layers.items()
    }
