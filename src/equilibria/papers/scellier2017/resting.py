"""How states come to rest: iterations of each kind of phase, and the energy on the way."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

import equilibria as eq
from equilibria.equilibrators.descent import Descent
from equilibria.papers.scellier2017.training import CLASSES, READINGS, STOP, TABLE, Schedule, table_schedule

READING = "code of 2016"  # with which two hidden layers begin to learn, see scellier2017/table2

BLOCKS = Descent(
    200, tolerance=3 * STOP
)  # moves by 3/2 of the force, an Euler step of 0.5 by half of it: as small a force


def block_schedule(depth: int, reading: str) -> Schedule:
    """Table 2 with a 0-phase by block descent, to where forces are as small as where Euler steps are stopped.

    The ξ-phase, which the paper ends before it is at rest, is by the table's Euler steps.

    Args:
        depth: the number of hidden layers.
        reading: a name in `READINGS`.

    Returns:
        The schedule.
    """
    how, nudged = READINGS[reading], eq.GradientFlow(TABLE[depth].nudged)
    recipe = eq.equilibrium_propagation(
        how.nudges[depth - 1], free=BLOCKS, nudged=nudged, symmetric=False, random_sign=how.random_sign, particles=True,
        watch_changes=True,
    )  # fmt: skip
    return table_schedule(depth, reading)._replace(recipe=recipe, predict=BLOCKS)


def phases(network: eq.Network, depth: int, inputs: np.ndarray, rest, longest: int) -> np.ndarray:
    """Mean iterations until no neuron moves by `STOP`, in four kinds of phase.

    Args:
        network: which relaxes.
        depth: the number of its hidden layers.
        inputs: images.
        rest: its 0-fixed points.
        longest: the most iterations.

    Returns:
        Of the 0-phase from 0, of the ξ-phase from its fixed point, towards another class than the one predicted, and of the
        0-phase after the weights have grown by a thousandth, from 0 and from the fixed point that was stored.
    """
    world, how = eq.Clamp("input", inputs), eq.GradientFlow(longest, tolerance=STOP)
    target = np.eye(CLASSES, dtype=np.float32)[np.argmax(rest["output"], axis=-1) - 1]  # never what is predicted
    nudge = eq.Nudge("output", target, READINGS[READING].nudges[depth - 1])
    moved = eqx.tree_at(
        lambda n: [coupling.weights for coupling in n.couplings],
        network,
        [coupling.weights * 1.001 for coupling in network.couplings],  # type: ignore[attr-defined]
    )
    begun = {name: np.asarray(rest[name]) for name in network.names if name != "input"}
    runs = (
        eq.equilibrate(network, how, world=world),
        eq.equilibrate(network, how, begun, world=[world, nudge]),
        eq.equilibrate(moved, how, world=world),
        eq.equilibrate(moved, how, begun, world=world),
    )
    return np.array([float(np.mean(found.steps)) for found in runs])


def descent(network: eq.Network, inputs: np.ndarray) -> np.ndarray:
    """What happens along relaxations from 0: by small clipped steps, and by the paper's step without clipping (53).

    Args:
        network: which relaxes.
        inputs: images.

    Returns:
        The largest rise of the energy of any image in forty steps of 0.05, and by how much a neuron leaves [0, 1] in twenty
        steps of 0.5 that nothing clips, where ρ' is 1 from 0 to 1 and 0 elsewhere.
    """
    world = eq.Clamp("input", inputs)
    layers = [name for name in network.names if name != "input"]
    rises, before, state = -np.inf, None, None
    known: Any = network
    for _ in range(40):
        found = eq.equilibrate(network, eq.GradientFlow(1, 0.05), state, world=world)
        state = {name: np.asarray(found[name]) for name in layers}
        energy = np.asarray(known.energy(state | {"input": inputs}), float)
        rises = max(rises, -np.inf if before is None else float((energy - before).max()))
        before = energy
    free = {name: np.zeros_like(layer) for name, layer in state.items()} if state else {}
    outside = 0.0
    for _ in range(20):
        active = {name: layer.clip(0, 1) for name, layer in free.items()} | {"input": inputs}
        pulls = {name: np.asarray(known.field(active, name)) for name in layers}
        free = {name: s + 0.5 * (((s >= 0) & (s <= 1)) * pulls[name] - s) for name, s in free.items()}
        outside = max(outside, *(float(np.maximum(layer - 1, -layer).max()) for layer in free.values()))
    return np.array([rises, outside])
