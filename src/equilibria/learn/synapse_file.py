"""A machine with binary synapses in a file of one bit for each weight."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from equilibria import check, store
from equilibria.learn.synapses import Synapses, machine
from equilibria.network import Network

FORMAT = 1
_LAYERS = ("visible", "hidden")


def save_synapses(path: str | Path, network: Network | Synapses) -> int:
    """Write a machine with binary weights, one bit each, and the biases there are; returns the file's size in bytes.

    A safetensors file; with an overhead of some 300 bytes, 784 x 100 weights take about 10 kB, and 314 kB as floats.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "machine.safetensors"
    >>> save_synapses(path, Synapses(jnp.ones((80, 10)))) < 100 + 400
    True
    >>> load_synapses(path).couplings[0].shape
    (80, 10)
    """
    if isinstance(network, Synapses):
        network = network.network()
    weights = np.asarray(getattr(network.couplings[0], "weights", np.zeros(0)))
    scale = float(np.abs(weights).max(initial=0.0))
    if network.names != _LAYERS or scale == 0 or not np.allclose(np.abs(weights), scale):
        check.refuse("network", "weights of several sizes, or none", "layers visible and hidden, weights of one size")
    arrays: dict[str, np.ndarray] = {"signs": np.packbits(weights > 0)}
    arrays |= {layer.name: np.asarray(layer.bias, np.float32) for layer in network.layers if np.any(layer.bias)}
    header = {"format": FORMAT, "shape": list(weights.shape), "scale": scale}
    content = safetensors.numpy.save(arrays, {"synapses": json.dumps(header)})
    store.write_atomic(path, content)
    return len(content)


def load_synapses(path: str | Path) -> Network:
    """The machine in a file of `save_synapses`, an ordinary network at temperature 1."""
    path = Path(path)
    if not path.is_file():
        check.refuse("path", repr(str(path)), "a file that save_synapses wrote")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            header = json.loads((file.metadata() or {})["synapses"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        shape = tuple(header["shape"])
        bits = np.unpackbits(arrays["signs"], count=shape[0] * shape[1])
        if header["format"] > FORMAT or len(bits) != shape[0] * shape[1]:
            raise ValueError("written in a newer format, or cut short")
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        check.refuse("path", f"{path} ({error})", "a whole file that save_synapses wrote")
    signs = 2.0 * bits.reshape(shape) - 1
    biases = [jnp.asarray(arrays.get(name, np.zeros(size))) for name, size in zip(_LAYERS, shape, strict=True)]
    return machine(header["scale"] * signs, *biases)
