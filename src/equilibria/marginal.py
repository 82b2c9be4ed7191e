r"""Summing a layer out of a network, exactly, and the way back: a Hopfield network as a Boltzmann machine."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.couplings import Dense, Factored
from equilibria.network import Layer, Network, without
from equilibria.units import Gaussian


class Marginal(eqx.Module):
    """A network seen without one of its layers: its free energy."""

    network: Network
    layer: str = eqx.field(static=True)

    def energy(self, state: Mapping[str, Array], temperature: ArrayLike = 1.0) -> Array:
        """The free energy of the other layers; e to minus this over the temperature sums to the network's Z."""
        return self.network.free_energy(state, (self.layer,), temperature)


def integrate_out(network: Network, layer: str) -> Network | Marginal:
    r"""The exact law of the other layers once `layer` is summed out.

    A Gaussian layer of variance v in the field $b + W^T s$ leaves another network behind: couplings $v W W^T$ and biases
    $v W b$. The diagonal of the coupling, a self-energy $-\frac v2 (W W^T)_{ii} s_i^2$, goes into the units: nothing for spins,
    a bias for 0/1 units, the stiffness of the others. With spins around it this is the Hopfield network (Agliari 2024,
    "equivalence"). What does not depend on the state is left out of the energy:
    $-\frac v2 |b|^2 - \frac T2 \sum \ln 2 \pi v T$, and $-\frac v2 \mathrm{tr}\, W W^T$ for spins. Any other layer leaves a
    free energy (`Marginal`), which depends on the temperature.

    >>> from equilibria.architectures import rbm
    >>> from equilibria.units import Spin
    >>> machine = rbm(8, 2, visible=Spin(), hidden=Gaussian(), key=0)
    >>> integrate_out(machine, "hidden").couplings[0].shape
    (8, 8)
    """
    gone = network.layer(layer)
    touching = [coupling for coupling in network.couplings if layer in coupling.ends]
    if any(coupling.lateral for coupling in touching):
        check.refuse("layer", repr(layer), "a layer that is not coupled to itself")
    if not isinstance(gone.unit, Gaussian):
        return Marginal(network, layer)
    rest = without(network, [layer])
    # Weights (size of neighbour, size of the layer), scaled so that the exchanged coupling is a plain product.
    spread = gone.unit.stiffness**-0.5
    arms = {}
    for coupling in touching:
        name = coupling.ends[coupling.ends[0] == layer]
        arms[name] = (coupling.weights if coupling.ends[1] == layer else coupling.weights.T) * spread
    layers = [
        _freed(other, arms[other.name], spread * gone.bias) if other.name in arms else other for other in rest.layers
    ]
    couplings = [
        *(Factored((name, name), jnp.sqrt(len(arm)) * arm.T) for name, arm in arms.items()),
        *(Dense((first, second), arms[first] @ arms[second].T) for first, second in combinations(arms, 2)),
    ]
    return Network(layers, [*rest.couplings, *couplings])


def integrate_in(network: Network, layer: str = "hidden") -> Network:
    r"""The same network with a Gaussian layer in place of its factored coupling: the inverse of `integrate_out`.

    $$ \sum_\sigma e^{\frac{\beta}{2N} \sum_\mu (F^\mu \cdot \sigma)^2} = \sum_\sigma \int dz\;
       e^{-\frac{\beta}{2} z^2 + \frac{\beta}{\sqrt N} \sum_{i\mu} F^\mu_i \sigma_i z_\mu} \Big/ (2\pi/\beta)^{K/2} $$

    (Agliari 2024, "equivalence": Hubbard and Stratonovich). A Hopfield network of K patterns becomes a restricted Boltzmann
    machine whose K hidden neurons, in the new `layer`, have unit variance and the weights $F^\mu_i / \sqrt N$; sampling either
    samples the other, at every temperature. The partition functions differ by the constant
    $\ln Z_{\text{RBM}} - \ln Z = \frac K2 \ln 2\pi T + \frac{1}{2T} \mathrm{tr}\, J$, the last term from the diagonal of J.

    >>> from equilibria.architectures import hopfield
    >>> machine = integrate_in(hopfield([[1, -1, 1, -1], [1, 1, -1, -1]]))
    >>> machine.names, machine.couplings[0].weights.shape
    (('neurons', 'hidden'), (4, 2))
    """
    factored = [coupling for coupling in network.couplings if isinstance(coupling, Factored)]
    if len(factored) != 1:
        check.refuse("network", f"{len(factored)} factored couplings", "exactly one, as in eq.hopfield(patterns)")
    if layer in network.names:
        check.refuse("layer", repr(layer), f"a new name, other than {', '.join(network.names)}")
    (coupling,) = factored
    name, size = coupling.ends[0], coupling.shape[0]
    arm = coupling.factors.T / jnp.sqrt(size)
    layers = [_stiffened(other, arm) if other.name == name else other for other in network.layers]
    rest = [other for other in network.couplings if other is not coupling]
    hidden = Layer(layer, Gaussian(), jnp.zeros(arm.shape[1]))
    return Network([*layers, hidden], [*rest, Dense((name, layer), arm)])


def _stiffened(layer: Layer, arm: Array) -> Layer:
    """`layer` with what the Gaussian layer will give back: a neuron's pull on itself, which is no part of the coupling."""
    unit, bias = layer.unit.nudged(layer.bias, jnp.sum(jnp.square(arm), axis=1), 0.0)
    return Layer(layer.name, unit, bias)


def _freed(layer: Layer, arm: Array, centre: Array) -> Layer:
    """`layer` once the Gaussian layer at the end of `arm` is gone: the bias and self-energy that it leaves."""
    unit, bias = layer.unit.nudged(layer.bias + arm @ centre, -jnp.sum(jnp.square(arm), axis=1), 0.0)
    return Layer(layer.name, unit, bias)
