r"""The modes of a coupling: its singular value decomposition $W = U\, \mathrm{diag}(w)\, V^T$.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), follow the learning of a restricted Boltzmann machine by it.
Singular values depend on the values of the neurons: W between 0/1 neurons is 4 times W between the same neurons as
-1/+1, and so is the threshold at which a mode orders (1 for spins). What noise alone would show is
`theory.marchenko_pastur`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from equilibria import check
from equilibria.couplings import Coupling, Dense
from equilibria.network import Layer, Network
from equilibria.units import Binary, Spin, Unit


class Spectrum(NamedTuple):
    """The modes of a coupling, strongest first."""

    values: np.ndarray  # (modes,)
    first: np.ndarray  # (modes, size of the coupling's first layer): the rows of U^T
    second: np.ndarray  # (modes, size of its second layer): the rows of V^T


def spectrum(network: Network, coupling: int = 0) -> Spectrum:
    """Singular values and vectors of one coupling of a network, in float64; the sign of each mode makes its first sum >= 0.

    >>> import equilibria as eq
    >>> spectrum(eq.rbm(6, 4, key=0)).values.shape
    (4,)
    """
    weights = _weights(network, coupling)
    left, values, right = np.linalg.svd(weights, full_matrices=False)
    signs = np.where(left.sum(0) < 0, -1.0, 1.0)
    return Spectrum(values, (left * signs).T, right * signs[:, None])


def principal_components(data: ArrayLike, *, centred: bool = True) -> Spectrum:
    """The principal directions of data and the standard deviation along each, as a `Spectrum`.

    `data` is (M, size); without `centred` the mean counts as a direction as well, as the modes of a machine without
    biases see it.

    >>> principal_components(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).values.round(3)
    array([2.121, 0.707])
    """
    rows = np.asarray(check.finite("data", data), np.float64)
    check.shape("data", rows, (None, None))
    rows = rows - rows.mean(0) if centred else rows
    moments, directions = np.linalg.eigh(rows.T @ rows / len(rows))
    directions = directions.T[::-1]
    signs = np.where(directions.sum(1) < 0, -1.0, 1.0)[:, None]
    values = np.sqrt(moments[::-1].clip(min=0))
    return Spectrum(values, signs * directions, np.zeros((len(values), 0)))


def alignment(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """|u_a . e_b| between two lists of directions, (modes, size) each and normalised here: (modes, modes).

    >>> alignment([[1.0, 0.0]], [[2.0, 0.0], [0.0, -1.0]])
    array([[1., 0.]])
    """
    left, right = (np.atleast_2d(np.asarray(rows, np.float64)) for rows in (first, second))
    check.shape("second", right, (None, left.shape[1]))
    left, right = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right))
    return np.abs(left @ right.T)


def captured(directions: ArrayLike, subspace: ArrayLike) -> np.ndarray:
    """How much of each direction lies in the span of orthonormal rows, from 0 to 1: the root of the summed squares.

    >>> captured([[3.0, 4.0]], [[1.0, 0.0]])
    array([0.6])
    """
    return np.sqrt((alignment(directions, subspace) ** 2).sum(1)).clip(max=1.0)


def watch_spectrum(data: ArrayLike | None = None, *, modes: int = 10, coupling: int = 0) -> Callable[[Network], dict]:
    """A function for `train(metrics=...)` that records the singular values, and with `data` the alignment of the first `modes`.

    >>> import equilibria as eq
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), epochs=2, batch_size=2, key=1, metrics=watch_spectrum())
    >>> run.history["singular_values"].shape
    (3, 2)
    """
    directions = None if data is None else principal_components(data).first[:modes]

    def measured(network: Network) -> dict[str, np.ndarray]:
        found = spectrum(network, coupling)
        if directions is None:
            return {"singular_values": found.values}
        return {"singular_values": found.values, "alignment": alignment(found.first[:modes], directions)}

    return measured


def log_spaced_steps(last: int, count: int = 30) -> list[int]:
    """At most `count` steps from 1 to `last`, evenly spaced in the logarithm; for `train(record=...)`.

    >>> log_spaced_steps(1000, 7)
    [1, 3, 10, 32, 100, 316, 1000]
    """
    last, count = check.count("last", last), check.count("count", count, least=2)
    return sorted({round(step) for step in np.geomspace(1, last, count)})


class Conversion(NamedTuple):
    """A network with other values of its neurons, and what its energies lack: E(old) = E(new) + `constant`."""

    network: Network
    constant: float


def to_spins(network: Network) -> Conversion:
    """The same network with every 0/1 neuron as a spin, s = (1 + sigma)/2: the same probabilities, exactly.

    A coupling between two such layers is divided by 4; biases take up the rest.

    >>> import equilibria as eq
    >>> machine = eq.rbm(3, 2, key=0)
    >>> float(spectrum(machine).values[0] / spectrum(to_spins(machine).network).values[0]).__round__(5)
    4.0
    """
    return _converted(network, Binary, Spin(), (0.5, 0.5))


def to_binary(network: Network) -> Conversion:
    """The same network with every spin as a 0/1 neuron, sigma = 2 s - 1; the inverse of `to_spins`.

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
    for index, coupling in enumerate(network.couplings):
        weights, (first, second) = _weights(network, index), coupling.ends
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


def _weights(network: Network, coupling: int) -> np.ndarray:
    """The matrix of one coupling, whatever it is made of, in float64."""
    if not 0 <= check.count("coupling", coupling, least=0) < len(network.couplings):
        check.refuse("coupling", coupling, f"a number below {len(network.couplings)}, the number of couplings")
    found = network.couplings[coupling]
    if isinstance(found, Dense):
        return np.asarray(found.weights, np.float64)
    return np.asarray(found.pull(jnp.eye(found.shape[0]), toward=found.ends[1]), np.float64)
