"""What can be refused before training starts: particles that do not fit, nudges that leave no minimum."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from equilibria import check
from equilibria.model.network import Network
from equilibria.model.world import squared_error

if TYPE_CHECKING:
    from equilibria.learn.phase import Phase


def particle_bytes(network: Network, moving: Sequence[str], examples: int, precision: str = "float32") -> int:
    """The memory that one particle for every example takes: a number for each neuron of the `moving` layers.

    >>> import equilibria as eq
    >>> net = eq.layered((784, 500, 500, 500, 10), key=0)
    >>> particle_bytes(net, net.names[1:], 50_000) / 1e6
    302.0
    """
    return examples * sum(network.layer(name).size for name in moving) * jnp.dtype(precision).itemsize


def check_room(network: Network, moving: Sequence[str], examples: int, precision: str) -> None:
    """Refuse particles that are larger than the memory that is free."""
    wanted, free = particle_bytes(network, moving, examples, precision), free_memory()
    if free is not None and wanted > free:
        check.refuse(
            "particles",
            f"{examples} examples, which take {wanted / 1e9:.3g} GB in {precision}",
            f'at most the {free / 1e9:.3g} GB that are free; particles="float16" halves them, False does without',
        )


def free_memory() -> int | None:
    """Bytes that are free where arrays go, None where that is not known."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        known = device.memory_stats() or {}
        return known["bytes_limit"] - known["bytes_in_use"] if "bytes_limit" in known else None
    table = Path("/proc/meminfo")
    if not table.exists():
        return None
    lines = dict(line.split(":", 1) for line in table.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def check_nudges(network: Network, phases: Sequence[Phase], target: str, *, both: bool) -> None:
    """Refuse a nudge under which the target layer's energy has no minimum that the phase could come to rest in.

    A gradient flow of units in bounds is let through: the paper nudges with -1 and stops long before the edge.
    """
    unit = network.layer(target).unit
    for phase in phases:
        if phase.nudge is None or phase.cost is not squared_error or check.concrete(phase.nudge) is None:
            continue
        if phase.how.stops_at_bounds and np.isfinite(unit.bounds).all():
            continue
        for sign in (1, -1) if both else (1,):
            strength = sign * float(phase.nudge)
            try:
                unit.nudged(jnp.zeros(()), strength, 0.0)
            except ValueError as error:
                check.refuse(
                    "nudge",
                    f"{strength:g}",
                    f"more than {-float(np.min(unit.least_curvature)):g}, or the energy has no minimum ({error})",
                )
