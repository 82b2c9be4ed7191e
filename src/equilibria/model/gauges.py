r"""Gauges: networks that differ in their numbers and not in their law, so that couplings of two machines can be compared.

One of several states is always on at a site, so that a constant over its states says nothing: a field $b_{ik}$ may lose its
mean over k, and a coupling $W_{ik,a}$ may give its mean over k to the field of neuron a (the zero-sum gauge of sequence
models). A continuous neuron that nobody sees has no unit of length: $h = \sigma h'$ with $W' = W\sigma$ is the same law of
all others. What is called the centred gauge, couplings that act on deviations from means, is a matter of learning:
`centered_gradient`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.couplings import Dense
from equilibria.model.network import Layer, Network, by_layer
from equilibria.model.transforms import Conversion
from equilibria.model.units import DoubleReLU, Gaussian, ReLU, Unit

# The unit of h' = h / scale, and no other: what has values of its own, or an end, has a unit of length.
_SCALED: dict[type[Unit], Callable[..., Unit]] = {
    Gaussian: lambda unit, scale: Gaussian(1 / (np.asarray(unit.stiffness) * scale**2)),
    ReLU: lambda unit, scale: ReLU(np.asarray(unit.stiffness) * scale**2),
    DoubleReLU: lambda unit, scale: DoubleReLU(
        *(
            np.asarray(part) * scale**power
            for part, power in ((unit.stiffness, 2), (unit.below, 2), (unit.threshold, 1))
        )
    ),
}


def zero_sum(network: Network) -> Conversion:
    r"""The same network with fields and couplings that sum to zero over the states of every site.

    $$ \sum_k b_{ik} = 0, \qquad \sum_k W_{ik,a} = 0 $$

    Args:
        network: any; layers of other units than `Potts` and `OneHot` stay as they are, but for the fields that they get.

    Returns:
        The network and the constant that its energies lack, E(old) = E(new) + `constant`.

    >>> import equilibria as eq
    >>> found = zero_sum(eq.rbm(6, 2, visible=eq.Potts(3), key=0))
    >>> found.network.couplings[0].weights.reshape(2, 3, 2).sum(1).round(5) + 0.0
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    fields = {layer.name: np.asarray(layer.bias, np.float64) for layer in network.layers}
    couplings, constant = [], 0.0
    for coupling in network.couplings:
        (first, second), weights = coupling.ends, np.asarray(coupling.matrix(), np.float64)
        if coupling.lateral:  # sites of several states are not coupled to themselves
            couplings.append(coupling)
            continue
        width, other = _width(network.layer(first)), _width(network.layer(second))
        if width > 1:
            weights, means = _without_means(weights, width)
            fields[second] = fields[second] + means.sum(0)
        if other > 1:
            turned, means = _without_means(weights.T, other)
            weights, fields[first] = turned.T, fields[first] + means.sum(0)
        couplings.append(Dense(coupling.ends, weights.astype(np.float32)))
    for layer in network.layers:
        if (width := _width(layer)) > 1:
            rest, means = _without_means(fields[layer.name][:, None], width)
            fields[layer.name], constant = rest[:, 0], constant - float(means.sum())
    layers = [Layer(layer.name, layer.unit, array(fields[layer.name])) for layer in network.layers]
    return Conversion(Network(layers, couplings), constant)


def _width(layer: Layer) -> int:
    """How many neurons make a site."""
    choices = layer.unit.choices(layer.size)
    return 1 if choices is None else choices.shape[1]


def _without_means(values: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (neurons, ...) without their means over each site, and these (sites, ...)."""
    sites = values.reshape(-1, width, *values.shape[1:])
    means = sites.mean(1)
    return (sites - means[:, None]).reshape(values.shape), means


def standardised(network: Network, data: Mapping[str, ArrayLike] | ArrayLike, *, temperature: float = 1.0) -> Network:
    r"""The same network with continuous hidden neurons of variance one where data are shown.

    $$ h = \sigma h', \qquad W' = W \sigma, \quad b' = b \sigma, \quad \sigma^2 = \langle \mathrm{var}(h | v) \rangle +
       \mathrm{var} \langle h | v \rangle $$

    The law of all other layers is the same; energies differ by no constant, and ln Z by the sum of $\ln \sigma$.

    Args:
        network: any; only layers of `Gaussian`, `ReLU` and `DoubleReLU` units without data change, those coupled to data.
        data: as in `train`: one array, or by layer.
        temperature: T.

    Returns:
        The network.

    Raises:
        ValueError: if the data do not fit, or no layer can be scaled.

    >>> import equilibria as eq
    >>> rows = np.random.default_rng(0).normal(size=(500, 4))
    >>> machine = eq.rbm(visible=eq.Gaussian(), hidden=eq.Gaussian(4.0), weights=np.full((4, 1), 0.2))
    >>> float(standardised(machine, rows).layers[1].unit.stiffness[0]).__round__(1)
    1.7
    """
    check.number("temperature", temperature, above=0.0)
    shown = {name: np.asarray(rows, np.float32) for name, rows in by_layer(network, data, probabilities=True).items()}
    scales: dict[str, np.ndarray] = {}
    for layer in network.layers:
        near = {name for part in network.couplings for name in part.ends if layer.name in part.ends} - {layer.name}
        if type(layer.unit) not in _SCALED or layer.name in shown or not near or not near <= set(shown):
            continue
        fields = network.field({name: array(shown[name]) for name in near}, layer.name) / temperature
        unit = layer.unit.heated(temperature)
        mean, variance = (np.asarray(part, np.float64) for part in (unit.mean(fields), unit.variance(fields)))
        scales[layer.name] = np.sqrt(variance.mean(0) + mean.var(0))
    if not scales:
        allowed = "one of Gaussian, ReLU or DoubleReLU units that only data are coupled to"
        check.refuse("network", "no layer to scale", allowed)
    ones = {layer.name: scales.get(layer.name, np.ones(layer.size)) for layer in network.layers}
    layers = [
        Layer(
            layer.name,
            _SCALED[type(layer.unit)](layer.unit, ones[layer.name]) if layer.name in scales else layer.unit,
            array(np.asarray(layer.bias) * ones[layer.name]),
        )
        for layer in network.layers
    ]
    couplings = [
        Dense(part.ends, array(ones[part.ends[0]][:, None] * np.asarray(part.matrix()) * ones[part.ends[1]]))
        if set(part.ends) & set(scales)
        else part
        for part in network.couplings
    ]
    return Network(layers, couplings)
