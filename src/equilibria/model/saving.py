"""Networks as named arrays and a description that JSON can say, and back; no code is stored or run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from equilibria import check, files
from equilibria.model.couplings import Coupling
from equilibria.model.network import Layer, Network
from equilibria.model.units import Unit


def save_network(folder: str | Path, network: Network) -> Path:
    """Write a network as the checkpoint of step 0 of a folder; `load_network` reads it.

    Args:
        folder: where to; it is made if it is not there.
        network: what is written, with units and couplings of any kind.

    Returns:
        The path of the file.

    Raises:
        ValueError: if the folder holds a run that has gone further than step 0.

    >>> import tempfile
    >>> from equilibria import rbm
    >>> path = save_network(tempfile.mkdtemp(), rbm(4, 3, key=0))
    >>> path.name
    'checkpoint-000000000.safetensors'
    """
    arrays, structure = describe(network)
    return files.save(folder, 0, arrays, {"model": structure})


def load_network(path: str | Path, *, fallback: bool = False) -> Network:
    """The network in a checkpoint: what `train` left, or `save_network`.

    Units and couplings of one's own must be imported before.

    Args:
        path: a checkpoint file, or a folder, of which the newest checkpoint is taken.
        fallback: takes the newest good checkpoint before a damaged one, with a warning.

    Returns:
        The network.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged, or it holds no network.

    >>> import tempfile
    >>> from equilibria import rbm
    >>> folder = tempfile.mkdtemp()
    >>> path = save_network(folder, rbm(4, 3, key=0))
    >>> load_network(folder).names
    ('visible', 'hidden')
    """
    checkpoint = files.load(path, fallback=fallback)
    found = rebuild(checkpoint.metadata.get("model"), checkpoint.arrays)
    if not isinstance(found, Network):
        raise files.CheckpointError(f"{checkpoint.path}: holds no network")
    return found


def describe(model: Any, path: str = "network") -> tuple[dict[str, Any], Any]:
    """The arrays of a model by name, and its structure with their names in place of them.

    The names are those of the leaves of `path` as JAX writes them, so that whoever stores the leaves stores the model.
    """
    arrays: dict[str, Any] = {}

    def described(part: Any, path: str) -> Any:
        if isinstance(part, eqx.Module):
            fields = dataclasses.fields(part)  # type: ignore[arg-type]  # every Equinox module is a dataclass
            return {
                "kind": type(part).__name__,
                **{field.name: described(getattr(part, field.name), f"{path}.{field.name}") for field in fields},
            }
        if isinstance(part, (jax.Array, np.ndarray)):
            arrays[path] = part
            return {"array": path}
        if isinstance(part, (tuple, list)):
            return [described(item, f"{path}[{index}]") for index, item in enumerate(part)]
        return part if isinstance(part, (str, int, float, bool, type(None))) else None

    return arrays, described(model, path)


def rebuild(structure: Any, arrays: Mapping[str, Any]) -> Any:
    """The network that `describe` took apart."""
    if isinstance(structure, list):
        return tuple(rebuild(item, arrays) for item in structure)
    if not isinstance(structure, dict):
        return structure
    if "array" in structure:
        return jnp.asarray(arrays[structure["array"]])
    fields = dict(structure)
    kinds = {kind.__name__: kind for kind in _kinds()}
    kind = kinds[check.choice("network", fields.pop("kind"), kinds)]
    # Not through __init__, whose arguments may differ from the fields (a Gaussian takes a variance).
    module: Any = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(module, name, rebuild(value, arrays))
    return module


def _kinds() -> Iterator[type]:
    """The classes a network may be made of; one's own units and couplings count once they are imported."""
    families: list[type] = [Network, Layer, Unit, Coupling]
    for family in families:
        families.extend(family.__subclasses__())
        yield family
