r"""Maps from network to network: each returns another network and leaves the one given as it was.

`marginalise` sums a layer out, exactly, and `hubbard_stratonovich` is the way back: a Hopfield network as a Boltzmann
machine. `dream` lets couplings sleep. `to_spins` and `to_binary` rename the values of neurons. `independent_site_biases`
takes the biases from data, and `spectrally_scaled` sets how strong couplings are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array, strong
from equilibria.model.couplings import Coupling, Dense, Factored
from equilibria.model.network import Layer, Network, State, by_layer, without
from equilibria.model.units import Binary, Gaussian, Spin, Unit


class Marginal(eqx.Module):
    """A network seen without one of its layers: its free energy.

    Attributes:
        network: the whole network.
        layer: the layer that is summed out.
    """

    network: Network
    layer: str = eqx.field(static=True)

    def energy(self, state: Mapping[str, Array], temperature: ArrayLike = 1.0) -> Array:
        """The free energy of the other layers; e to minus this over the temperature sums to the network's Z."""
        return self.network.free_energy(state, (self.layer,), temperature)


def marginalise(network: Network, layer: str) -> Network | Marginal:
    r"""The exact law of the other layers once one layer is summed out.

    A Gaussian layer of variance v in the field $b + W^T s$ leaves another network behind: couplings $v W W^T$ and biases
    $v W b$. The diagonal of the coupling, a self-energy $-\frac v2 (W W^T)_{ii} s_i^2$, goes into the units: nothing for spins,
    a bias for 0/1 units, the stiffness of the others. With spins around it this is the Hopfield network (Agliari 2024,
    "Hopfield network / Restricted Boltzmann machines equivalence"). What does not depend on the state is left out of the
    energy: $-\frac v2 |b|^2 - \frac T2 \sum \ln 2 \pi v T$, and $-\frac v2 \mathrm{tr}\, W W^T$ for spins. Any other layer
    leaves a free energy (`Marginal`), which depends on the temperature.

    Args:
        network: the whole network.
        layer: the layer to sum out; it must not be coupled to itself.

    Returns:
        A network for a Gaussian layer, a `Marginal` for any other.

    Raises:
        ValueError: if there is no such layer, or it is coupled to itself.

    >>> from equilibria.model.architectures import rbm
    >>> from equilibria.model.units import Spin
    >>> machine = rbm(8, 2, visible=Spin(), hidden=Gaussian(), key=0)
    >>> marginalise(machine, "hidden").couplings[0].shape
    (8, 8)
    """
    gone = network.layer(layer)
    touching = [coupling for coupling in network.couplings if layer in coupling.ends]
    if any(coupling.lateral for coupling in touching):
        check.refuse("layer", repr(layer), "a layer that is not coupled to itself")
    if gone.unit.normal_stiffness is None:
        return Marginal(network, layer)
    rest = without(network, [layer])
    # Weights (size of neighbour, size of the layer), scaled so that the exchanged coupling is a plain product.
    spread = gone.unit.normal_stiffness**-0.5
    arms = {}
    for coupling in touching:
        name = coupling.ends[coupling.ends[0] == layer]
        weights = coupling.matrix()
        arms[name] = (weights if coupling.ends[1] == layer else weights.T) * spread
    layers = [
        _freed(other, arms[other.name], spread * gone.bias) if other.name in arms else other for other in rest.layers
    ]
    couplings = [
        *(Factored((name, name), jnp.sqrt(len(arm)) * arm.T) for name, arm in arms.items()),
        *(Dense((first, second), arms[first] @ arms[second].T) for first, second in combinations(arms, 2)),
    ]
    return Network(layers, [*rest.couplings, *couplings])


def hubbard_stratonovich(network: Network, layer: str = "hidden") -> Network:
    r"""The same network with a Gaussian layer in place of its factored coupling: the inverse of `marginalise`.

    $$ \sum_\sigma e^{\frac{\beta}{2N} \sum_\mu (F^\mu \cdot \sigma)^2} = \sum_\sigma \int dz\;
       e^{-\frac{\beta}{2} z^2 + \frac{\beta}{\sqrt N} \sum_{i\mu} F^\mu_i \sigma_i z_\mu} \Big/ (2\pi/\beta)^{K/2} $$

    (Agliari 2024, "Hopfield network / Restricted Boltzmann machines equivalence"). A Hopfield network of K patterns becomes a
    restricted Boltzmann machine whose K hidden neurons have unit variance and the weights $F^\mu_i / \sqrt N$; sampling either
    samples the other, at every temperature. The partition functions differ by the constant
    $\ln Z_{\text{RBM}} - \ln Z = \frac K2 \ln 2\pi T + \frac{1}{2T} \mathrm{tr}\, J$, the last term from the diagonal of J.

    Args:
        network: has exactly one factored coupling.
        layer: the name of the new layer.

    Returns:
        The network with the new layer last.

    Raises:
        ValueError: if there is not one factored coupling, or the name is taken.

    >>> from equilibria.model.architectures import hopfield
    >>> machine = hubbard_stratonovich(hopfield([[1, -1, 1, -1], [1, 1, -1, -1]]))
    >>> machine.names, machine.couplings[0].weights.shape
    (('neurons', 'hidden'), (4, 2))
    """
    factored = [(coupling, arm) for coupling in network.couplings if (arm := coupling.factor()) is not None]
    if len(factored) != 1:
        check.refuse("network", f"{len(factored)} factored couplings", "exactly one, as in eq.hopfield(patterns)")
    if layer in network.names:
        check.refuse("layer", repr(layer), f"a new name, other than {', '.join(network.names)}")
    ((coupling, arm),) = factored
    name = coupling.ends[0]
    layers = [_stiffened(other, arm) if other.name == name else other for other in network.layers]
    rest = [other for other in network.couplings if other is not coupling]
    hidden = Layer(layer, Gaussian(), np.zeros(arm.shape[1]))
    return Network([*layers, hidden], [*rest, Dense((name, layer), arm)])


def _stiffened(layer: Layer, arm: Array) -> Layer:
    """`layer` with what the Gaussian layer will give back: a neuron's pull on itself, which is no part of the coupling."""
    unit, bias = layer.unit.nudged(layer.bias, jnp.sum(jnp.square(arm), axis=1), 0.0)
    return Layer(layer.name, unit, bias)


def _freed(layer: Layer, arm: Array, centre: Array) -> Layer:
    """`layer` once the Gaussian layer at the end of `arm` is gone: the bias and self-energy that it leaves."""
    unit, bias = layer.unit.nudged(layer.bias + arm @ centre, -jnp.sum(jnp.square(arm), axis=1), 0.0)
    return Layer(layer.name, unit, bias)


def dream(network: Network, nights: int, *, rate: float = 1.0) -> Network:
    r"""The network after nights of consolidation and removal, one after another.

    $$ J^{(n)} = J^{(n-1)} + \frac{\epsilon}{1 + \epsilon n} \left[J^{(n-1)} - (J^{(n-1)})^2\right] $$

    (Agliari 2024, "Revise Hebb's rule by iterative protocols"). It is Euler's scheme for the flow that
    `hopfield(patterns, sleep=t)` solves exactly, which it approaches as the rate goes to 0 at $t = \epsilon n$. Each eigenvalue
    $\lambda$ of J changes by itself; it stays positive if and only if $\epsilon(\lambda - 2) < 1$ at the beginning, and runs
    away to $-\infty$ otherwise. At rate 1 that takes $\lambda > 3$, which random patterns have at loads above 0.536.

    Args:
        network: has factored couplings within its layers, as `hopfield` and `hopfield_from_examples` make them.
        nights: how many.
        rate: epsilon, 1 in the lecture.

    Returns:
        The network with its factored couplings changed.

    Raises:
        ValueError: if there is no factored coupling, or the iteration would diverge at this rate.

    >>> import equilibria as eq
    >>> patterns = eq.data.random_patterns(20, 100, key=eq.key(0))
    >>> slow, exact = dream(eq.hopfield(patterns), 500, rate=0.01), eq.hopfield(patterns, sleep=5.0)
    >>> bool(abs(slow.couplings[0].factors - exact.couplings[0].factors).max() < 0.01)
    True
    """
    check.count("nights", nights)
    check.number("rate", rate, above=0.0)
    if all(coupling.factor() is None for coupling in network.couplings):
        check.refuse("network", f"couplings {network.couplings}", "a factored coupling, as in eq.hopfield(patterns)")

    def gain(values: np.ndarray) -> np.ndarray:
        largest = values.max()
        if rate * (largest - 2) >= 1:
            bound = 1 / (largest - 2)
            check.refuse(
                "rate",
                f"{rate:g} with a coupling whose largest eigenvalue is {largest:.4g}: the iteration diverges",
                f"a rate below {bound:.4g}, or eq.hopfield(patterns, sleep=...), which is exact and always stable",
            )
        kept = np.ones_like(values)
        for night in range(1, nights + 1):
            kept *= 1 + rate / (1 + rate * night) * (1 - kept * values)
        return kept

    return Network(network.layers, [coupling.filtered(gain) or coupling for coupling in network.couplings])


class Conversion(NamedTuple):
    """A network with other values of its neurons, and what its energies lack.

    Attributes:
        network: the network.
        constant: E(old) = E(new) + this.
    """

    network: Network
    constant: float


def to_spins(network: Network) -> Conversion:
    """The same network with every 0/1 neuron as a spin, s = (1 + sigma)/2: the same probabilities, exactly.

    A coupling between two such layers is divided by 4; biases take up the rest.

    Args:
        network: any; layers of other units stay as they are.

    Returns:
        The network and the constant that its energies lack, E(old) = E(new) + `constant`.

    >>> import equilibria as eq
    >>> machine = eq.rbm(3, 2, key=0)
    >>> float(eq.spectrum(machine).values[0] / eq.spectrum(to_spins(machine).network).values[0]).__round__(5)
    4.0
    """
    return _converted(network, Binary, Spin(), (0.5, 0.5))


def to_binary(network: Network) -> Conversion:
    """The same network with every spin as a 0/1 neuron, sigma = 2 s - 1; the inverse of `to_spins`.

    Args:
        network: any; layers of other units stay as they are.

    Returns:
        The network and the constant that its energies lack, E(old) = E(new) + `constant`.

    >>> import equilibria as eq
    >>> to_binary(eq.rbm(3, 2, visible=eq.Spin(), key=0)).network.layers[0].unit
    Binary()
    """
    return _converted(network, Spin, Binary(), (-1.0, 2.0))


def _converted(network: Network, old: type[Unit], new: Unit, place: tuple[float, float]) -> Conversion:
    """Every layer of `old` units as `new` ones: old value = centre + scale * new value."""
    places = {layer.name: place if isinstance(layer.unit, old) else (0.0, 1.0) for layer in network.layers}
    biases = {layer.name: np.asarray(layer.bias, np.float64) for layer in network.layers}
    constant = -sum(places[name][0] * bias.sum() for name, bias in biases.items())
    biases = {name: places[name][1] * bias for name, bias in biases.items()}
    couplings: list[Coupling] = []
    for coupling in network.couplings:
        weights, (first, second) = np.asarray(coupling.matrix(), np.float64), coupling.ends
        (centre, scale), (other_centre, other_scale) = places[first], places[second]
        biases[first] = biases[first] + scale * other_centre * weights.sum(1)
        if coupling.lateral:
            constant -= centre * other_centre * weights.sum() / 2
        else:
            biases[second] = biases[second] + other_scale * centre * weights.sum(0)
            constant -= centre * other_centre * weights.sum()
        couplings.append(Dense(coupling.ends, jnp.asarray(scale * other_scale * weights, float)))
    layers = [
        Layer(layer.name, new if isinstance(layer.unit, old) else layer.unit, jnp.asarray(biases[layer.name], float))
        for layer in network.layers
    ]
    return Conversion(Network(layers, couplings), float(constant))


def independent_site_biases(
    network: Network, data: Mapping[str, ArrayLike] | ArrayLike, *, probabilities: bool = False
) -> Network:
    """The network with biases that reproduce the data's means by themselves, as if its neurons were independent.

    The means are those of the data and one further example at the unit's mean in zero field, so that constant features have
    finite biases. Decelle 2017 starts the visible field so ("Tests on the MNIST dataset").

    Args:
        network: the network.
        data: as in `train`: one array, a pair, or by layer; layers without data keep their biases, and entries that are
            missing (NaN) count for nothing.
        probabilities: lets data lie between a unit's values.

    Returns:
        The network with those biases.

    Raises:
        ValueError: if the data do not fit the network.

    >>> import equilibria as eq
    >>> independent_site_biases(eq.rbm(2, 1, key=0), np.array([[1, 0], [1, 1], [1, 0]])).layers[0].bias
    Array([ 1.9459..., -0.5108...], dtype=float32)
    """
    biases = site_biases(network, by_layer(network, data, probabilities=probabilities, missing=True))
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], network, [biases[n] for n in network.names])


def site_biases(network: Network, data: Mapping[str, ArrayLike]) -> State:
    """A bias for every neuron: that of the data's mean where there are data, else its own."""
    biases = {layer.name: layer.bias for layer in network.layers}
    for name, values in data.items():
        unit, size = network.layer(name).unit, network.layer(name).size
        rest, values = np.asarray(_at_rest(unit, size)), np.asarray(values)
        known = np.sum(values == values, axis=0)  # what is missing is NaN, and counts for nothing
        biases[name] = _biased(unit, array((np.nansum(values, axis=0, dtype=np.float64) + rest) / (known + 1)))
    return biases


@eqx.filter_jit
def _at_rest(unit: Unit, size: int) -> Array:
    return unit.mean(jnp.zeros(size))


@eqx.filter_jit
def _biased(unit: Unit, mean: Array) -> Array:
    """The biases in which neurons by themselves have these means."""
    return strong(unit.inverse(mean).astype(float))


def spectrally_scaled(network: Network, norms: float | Sequence[float] = 1.0) -> Network:
    r"""The network with each coupling scaled to a given largest singular value.

    Where it starts decides whether a network learns. With clipped units the free energy $\frac12 s^2 - \frac12 s^T J s$ has one
    minimum while the largest eigenvalue of J is below one, and the chain of couplings with singular values $\sigma$ has at
    most $2\sigma$; beyond, hidden units sit at 0 or 1 in one of many minima, as spins below their critical temperature do, and
    neither a nudge nor its gradient gets through. Glorot's weights have $\sigma \approx 2$ between layers of equal size.

    Args:
        network: the network.
        norms: the largest singular value, one for all couplings or one for each.

    Returns:
        The network with its couplings scaled; one of zeros stays as it is.

    Raises:
        ValueError: if there is another number of norms, or one is below zero.

    >>> import equilibria as eq
    >>> net = spectrally_scaled(eq.layered((50, 40, 10), key=0), [1.5, 0.5])
    >>> [round(float(np.linalg.norm(coupling.weights, 2)), 3) for coupling in net.couplings]
    [1.5, 0.5]
    """
    wanted = list(np.broadcast_to(norms, len(network.couplings)) if np.ndim(norms) == 0 else np.asarray(norms))
    if len(wanted) != len(network.couplings):
        check.refuse("norms", f"{len(wanted)} numbers", f"one, or one for each of {len(network.couplings)} couplings")
    couplings = []
    for coupling, norm in zip(network.couplings, wanted, strict=True):
        largest = float(np.linalg.norm(np.asarray(coupling.matrix()), 2))
        factor = check.number("norms", norm, least=0.0) / largest if largest else 1.0
        couplings.append(coupling.scaled(factor))
    return Network(network.layers, couplings)
