"""A conditioned network: a network under what the world imposes, ready to be stepped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.network import Network, State, without
from equilibria.model.units import Unit
from equilibria.model.world import Clamp, Nudge, World, clamps_and_nudges


class Conditioned(eqx.Module):
    """A network under what the world imposes: a `model.energy.System`.

    `free` names the layers that move; the fields that held layers exert on them are computed once, into `external`, and
    couplings made ready for loops: `completed` does both, in compiled code. Before that `external` is empty.
    """

    network: Network
    inner: Network  # the free layers with what couples them to one another
    external: State
    clamps: dict[str, Clamp]
    nudges: dict[str, Nudge]
    temperature: Array  # one number, or one for each chain

    @property
    def free(self) -> tuple[str, ...]:
        """The layers that are not held."""
        return self.inner.names

    @property
    def column(self) -> Array:
        """The temperature with an axis for the neurons."""
        return self.temperature[..., None]

    def energy(self, state: Mapping[str, Array]) -> Array:
        """The total energy of each configuration: the network's and the nudges'."""
        return self.network.energy(state) + sum(nudge.energy(state[name]) for name, nudge in self.nudges.items())

    def force(self, state: Mapping[str, Array]) -> State:
        """Of each free layer: the field, the unit's own restoring force and the nudge."""
        return {name: self._force(state, name) for name in self.free}

    def _force(self, state: Mapping[str, Array], name: str) -> Array:
        unit = self.inner.layer(name).unit
        restoring = -jax.grad(lambda layer: jnp.sum(unit.self_energy(layer)))(state[name])
        nudge = self.nudges[name].pull(state[name]) if name in self.nudges else 0.0
        return self.field(state, name) + restoring + nudge

    def imposed(self, state: State) -> State:
        """`state` with the clamped values in place."""
        return {
            name: self.clamps[name].imposed(layer) if name in self.clamps else layer for name, layer in state.items()
        }

    def held(self, name: str) -> Array | bool:
        """Which neurons of a free layer a partial clamp holds."""
        mask = self.clamps[name].mask if name in self.clamps else None
        return False if mask is None else mask

    def bounds(self, name: str) -> tuple[float, float]:
        """The interval of a layer's values."""
        return self.network.layer(name).unit.bounds

    def check_continuous(self) -> None:
        """Refuse layers of discrete units."""
        for layer in self.inner.layers:
            if layer.unit.levels is not None:
                kind = f"{type(layer.unit).__name__} units in layer {layer.name!r}"
                check.refuse("network", kind, "continuous units in a flow")

    def field(self, state: Mapping[str, Array], name: str, *, lateral: bool = True) -> Array:
        """The field on a free layer, with or without the pull of the layer on itself."""
        network = self.inner
        if not lateral:
            network = Network(network.layers, [coupling for coupling in network.couplings if not coupling.lateral])
        return jnp.broadcast_to(network.field(state, name) + self.external[name], state[name].shape)

    def effective(self, state: Mapping[str, Array], name: str, field: Array) -> tuple[Unit, Array]:
        """The unit and the effective field of a layer once its nudge, if any, is taken into account."""
        unit = self.inner.layer(name).unit
        return self.nudges[name].applied(unit, field, state[name]) if name in self.nudges else (unit, field)

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

    def summed_out(self, state: Mapping[str, Array]) -> Array:
        """The energy of each chain with the integrable layers summed out: the same average gradient, and less noise."""
        return self.network.free_energy(state, self.integrable, self.temperature)

    def free_energy(self, state: Mapping[str, Array], integrate: Sequence[str]) -> Array:
        """The network's energy with these layers summed out, of a layer that is held in part the neurons that are free."""
        total = self.network.free_energy(state, integrate, self.temperature)
        for name in integrate:
            if name in self.clamps:
                unit, values = self.network.layer(name).unit, self.clamps[name].values
                field = self.network.field(state, name)
                summed = self.column * unit.heated(self.column).cumulant(field / self.column)
                single = unit.self_energy(values) - field * values
                total += jnp.sum(jnp.where(self.held(name), summed + single, 0.0), axis=-1)
        return total

    def completed(self) -> Conditioned:
        """The same with the fields of held layers computed and the couplings between free layers made ready for loops."""
        if self.external:
            return self
        held = {name: clamp.values for name, clamp in self.clamps.items() if clamp.mask is None}
        external = {}
        for layer in self.inner.layers:
            pulls = (
                coupling.pull(held[other], toward=layer.name)
                for coupling in self.network.couplings
                for other in set(coupling.ends) & set(held)
                if layer.name in coupling.ends
            )
            external[layer.name] = sum(pulls, start=array(np.zeros(layer.size)))
        inner = Network(self.inner.layers, [coupling.prepacked() for coupling in self.inner.couplings])
        return Conditioned(self.network, inner, external, self.clamps, self.nudges, self.temperature)

    def at(self, temperature: Array) -> Conditioned:
        """The same at another temperature."""
        return eqx.tree_at(lambda here: here.temperature, self, jnp.asarray(temperature, float))

    def of(self, network: Network) -> Conditioned:
        """Another network of the same shape in the same world."""
        return conditioned(network, [*self.clamps.values(), *self.nudges.values()], self.temperature)


def conditioned(network: Network, world: World, temperature: ArrayLike) -> Conditioned:
    """The network in `world`; the fields of held layers are computed here, once, and couplings made ready for loops."""
    return outlined(network, world, temperature).completed()


def outlined(network: Network, world: World, temperature: ArrayLike) -> Conditioned:
    """The network in `world`, with nothing computed yet: what is outside compiled code before it is handed over."""
    clamps, nudges = clamps_and_nudges(world)
    rest = without(network, [name for name, clamp in clamps.items() if clamp.mask is None])
    return Conditioned(network, rest, {}, clamps, nudges, array(temperature))
