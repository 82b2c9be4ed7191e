"""A network under what the world imposes, ready to be stepped."""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria.equilibrators.swift import swift
from equilibria.network import Network, State, without
from equilibria.units import Unit
from equilibria.world import Clamp, Nudge, World, clamps_and_nudges


class Setting(eqx.Module):
    """A network under what the world imposes, ready to be stepped.

    `free` names the layers that move; the fields that held layers exert on them are computed once, into `drives`.
    """

    network: Network
    inner: Network  # the free layers with what couples them to one another
    drives: State
    clamps: dict[str, Clamp]
    nudges: dict[str, Nudge]
    temperature: Array  # one number, or one for each chain

    @property
    def free(self) -> tuple[str, ...]:
        """The layers that are not held."""
        return self.inner.names

    def field(self, state: Mapping[str, Array], name: str, *, lateral: bool = True) -> Array:
        """The field on a free layer, with or without the pull of the layer on itself."""
        network = self.inner
        if not lateral:
            network = Network(network.layers, [coupling for coupling in network.couplings if not coupling.lateral])
        return jnp.broadcast_to(network.field(state, name) + self.drives[name], state[name].shape)

    def felt(self, state: Mapping[str, Array], name: str, field: Array) -> tuple[Unit, Array]:
        """The unit and field of a layer once its nudge, if any, is taken into account."""
        unit = self.inner.layer(name).unit
        return self.nudges[name].applied(unit, field, state[name]) if name in self.nudges else (unit, field)

    def energy(self, state: Mapping[str, Array]) -> Array:
        """The total energy of each configuration: the network's and the nudges'."""
        return self.network.energy(state) + sum(nudge.energy(state[name]) for name, nudge in self.nudges.items())

    def imposed(self, state: State) -> State:
        """`state` with the clamped values in place."""
        return {
            name: self.clamps[name].imposed(layer) if name in self.clamps else layer for name, layer in state.items()
        }

    @property
    def independent(self) -> bool:
        """Whether the free layers are not coupled to one another, so that their law given the rest is known."""
        return not self.inner.couplings and not {*self.clamps, *self.nudges} & set(self.free)

    @property
    def integrable(self) -> tuple[str, ...]:
        """Free layers that can be summed out at once, given all others.

        All of them if they are independent; else those of the second colour, which a sweep updates before the first.
        """
        if self.independent:
            return self.free
        second = self.network.colours[1] if len(self.network.colours) > 1 else ()
        busy = {*self.network.lateral, *self.clamps, *self.nudges}
        return tuple(name for name in self.free if name in second and name not in busy)

    @property
    def column(self) -> Array:
        """The temperature with an axis for the neurons."""
        return self.temperature[..., None]


def setting(network: Network, world: World, temperature: ArrayLike) -> Setting:
    """The setting of `network` in `world`; the drives of held layers are computed here, once."""
    clamps, nudges = clamps_and_nudges(world)
    held = {name: clamp.values for name, clamp in clamps.items() if clamp.mask is None}
    inner = swift(without(network, held))
    drives = {}
    for layer in inner.layers:
        pulls = (
            coupling.pull(held[other], toward=layer.name)
            for coupling in network.couplings
            for other in set(coupling.ends) & set(held)
            if layer.name in coupling.ends
        )
        drives[layer.name] = sum(pulls, start=jnp.zeros(layer.size))
    return Setting(network, inner, drives, clamps, nudges, jnp.asarray(temperature, float))
