"""A machine with binary synapses in a file of one bit for each weight."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np

from equilibria import check, files
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.saving import check_network
from equilibria.model.units import Spin
from equilibria.synapses.distribution import Synapses

_LAYERS = ("visible", "hidden")


def save_synapses(path: str | Path, network: Network | Synapses) -> int:
    """Write a machine with binary weights, one bit each, and the biases there are.

    The file is a checkpoint with a digest over all of it, as every other; with an overhead of some 500 bytes, 784 x 100
    weights take about 10 kB, and 314 kB as floats.

    Args:
        path: the file.
        network: a machine whose weights have one size, or the synapses it is decoded from.

    Returns:
        The size of the file in bytes.

    Raises:
        ValueError: if the weights are not binary, or the neurons are no spins.
        StorageError: if there is no room for it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "machine.safetensors"
    >>> save_synapses(path, Synapses(jnp.ones((80, 10)))) < 100 + 600
    True
    >>> load_synapses(path).couplings[0].shape
    (80, 10)
    """
    if isinstance(network, Synapses):
        network = network.network()
    alone = network.names == _LAYERS and len(network.couplings) == 1
    weights = np.asarray(network.couplings[0].matrix()) if alone else np.zeros(0)
    scale = float(np.abs(weights).max(initial=0.0))
    if scale == 0 or (np.abs(weights) != scale).any():
        check.refuse("network", "weights of several sizes, or none", "layers visible and hidden, weights of one size")
    for layer in network.layers:
        if not layer.unit.two_valued or layer.unit.levels != Spin.levels:
            check.refuse("network", f"{type(layer.unit).__name__} units", "spins, which is what load_synapses makes")
    arrays = {"signs": np.packbits(weights > 0)}
    arrays |= {layer.name: np.asarray(layer.bias) for layer in network.layers if np.any(layer.bias)}
    files.write(path, arrays, {"synapses": {"shape": list(weights.shape), "scale": scale}})
    return Path(path).stat().st_size


def load_synapses(path: str | Path) -> Network:
    """The machine in a file of `save_synapses`, an ordinary network at temperature 1.

    Args:
        path: the file.

    Returns:
        The network.

    Raises:
        ValueError: if there is no such file.
        CheckpointError: if the file is damaged, cut short or holds no binary synapses.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "machine.safetensors"
    >>> size = save_synapses(path, Synapses(jnp.ones((4, 2))))
    >>> load_synapses(path).couplings[0].weights[0]
    Array([0.5, 0.5], dtype=float32)
    """
    if not Path(path).is_file():
        check.refuse("path", repr(str(path)), "a file that save_synapses wrote")
    found = files.load(path)
    try:
        return _machine(found)
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError) as error:
        raise files.CheckpointError(f"{path}: holds no binary synapses ({error})") from error


def _machine(found: files.Checkpoint) -> Network:
    """The network that a file describes; what it says of its size is compared with its length first."""
    header = found.metadata["synapses"]
    rows, columns = (check.count("shape", size) for size in header["shape"])
    scale = float(check.number("scale", header["scale"], above=0.0))
    signs = found.arrays.pop("signs")
    if signs.dtype != np.uint8 or signs.shape != (-(-rows * columns // 8),):
        check.refuse(
            "signs", f"shape {signs.shape} of {signs.dtype}", f"one bit for each of {rows} x {columns} weights"
        )
    if unknown := found.arrays.keys() - set(_LAYERS):
        check.refuse("arrays", ", ".join(unknown), "signs, visible and hidden")
    weights = np.where(np.unpackbits(signs, count=rows * columns).reshape(rows, columns), scale, -scale)
    visible, hidden = (found.arrays.get(name) for name in _LAYERS)
    network = rbm(
        weights=jnp.asarray(weights, float), visible_bias=visible, hidden_bias=hidden, visible=Spin(), hidden=Spin()
    )
    check_network(network)
    return network
