"""Small networks from every constructor, shared so that they compile once."""

import jax
import numpy as np

import equilibria as eq


def with_biases(network: eq.Network, seed: int, scale: float = 0.5) -> eq.Network:
    """The network with random biases, so that no symmetry hides a mistake."""
    keys = jax.random.split(jax.random.key(seed), len(network.layers))
    layers = [
        eq.Layer(layer.name, layer.unit, scale * jax.random.normal(key, (layer.size,)))
        for layer, key in zip(network.layers, keys, strict=True)
    ]
    return eq.Network(layers, network.couplings)


_PATTERNS = np.array([[1, -1, 1, 1, -1, -1], [1, 1, -1, 1, -1, 1]])

DISCRETE = {
    "hopfield": with_biases(eq.hopfield(_PATTERNS), 0),
    "dreaming": with_biases(eq.hopfield(_PATTERNS, sleep=2.0), 1),
    "rbm binary": with_biases(eq.rbm(4, 3, scale=1.0, key=2), 2),
    "rbm spin-binary": with_biases(eq.rbm(4, 3, visible=eq.Spin(), scale=0.6, key=3), 3),
    "layered": with_biases(eq.layered((3, 2, 2), units=(eq.Binary(), eq.Spin(), eq.Binary()), gain=1.0, key=4), 4),
    "skip": with_biases(eq.layered((3, 2, 2), units=eq.Spin(), skips=[(0, 2)], gain=0.7, key=5), 5),
    "dense": with_biases(eq.dense(6, gain=0.7, key=6), 6),
    "dense layers": with_biases(eq.dense((2, 3, 2), units=eq.Binary(), key=7), 7),
}
