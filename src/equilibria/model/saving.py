"""Networks as named arrays and a description that JSON can say, and back; no code is stored or run."""

from __future__ import annotations

import dataclasses
import inspect
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

_FILES = (".eqx", ".safetensors")
_OTHER_FORMATS = (".npz", ".npy", ".pt", ".pth", ".pkl", ".pickle", ".joblib", ".h5", ".nc", ".json", ".onnx", ".ckpt")


def save_network(path: str | Path, network: Network) -> Path:
    """Write a network to a file, or as the checkpoint of step 0 of a folder; `load_network` reads it.

    Args:
        path: a file that ends in .eqx or .safetensors, which is replaced whole; anything else is a folder, which is made if
            it is not there.
        network: what is written, with units and couplings of any kind.

    Returns:
        The path of the file.

    Raises:
        ValueError: if the folder holds a run that has gone further than step 0, or another process is at work there, or a
            field is of a kind that a file cannot hold, or the path ends as files of another format do.
        StorageError: if there is no room for it.

    >>> import tempfile
    >>> from equilibria import rbm
    >>> path = save_network(tempfile.mkdtemp(), rbm(4, 3, key=0))
    >>> path.name
    'checkpoint-000000000.safetensors'
    >>> load_network(save_network(tempfile.mkdtemp() + "/net.eqx", rbm(4, 3, key=0))).names
    ('visible', 'hidden')
    """
    if hasattr(path, "couplings"):
        check.refuse("path", "a network", "a file or folder: save_network(path, network)")
    check.network("network", network)
    path = Path(path)
    arrays, structure = describe(network)
    for name, kind in _unknown(structure):
        check.refuse("network", f"a field {name} that is a {kind}", "arrays, numbers, text, and tuples of them")
    if path.suffix.lower() in _OTHER_FORMATS and not path.is_dir():
        check.refuse("path", str(path), "a file that ends in .eqx or .safetensors, or a folder")
    if path.suffix.lower() in _FILES and not path.is_dir():
        files.write(path, arrays, {"model": structure})
        return path
    with files.locked(path, "path"):
        return files.save(path, 0, arrays, {"model": structure})


def load_network(path: str | Path, *, fallback: bool = False) -> Network:
    """The network in a checkpoint: what `train` left, or `save_network`.

    Units and couplings of one's own must be imported before.

    Args:
        path: a checkpoint file, or a folder, of which the newest checkpoint is taken.
        fallback: takes the newest good checkpoint before a damaged one, with a warning.

    Returns:
        The network.

    Raises:
        CheckpointError: if there is no checkpoint, it is damaged, or what it holds is no network: fields that are missing,
            kinds that are not known, shapes that disagree, numbers that are not finite.

    >>> import tempfile
    >>> from equilibria import rbm
    >>> folder = tempfile.mkdtemp()
    >>> path = save_network(folder, rbm(4, 3, key=0))
    >>> load_network(folder).names
    ('visible', 'hidden')
    """
    checkpoint = files.load(path, fallback=fallback)
    try:
        found = rebuild(checkpoint.metadata.get("model"), checkpoint.arrays)
        if not isinstance(found, Network):
            check.refuse("model", type(found).__name__, "a network")
        for network in _each(found):
            check_network(network)
    except Exception as error:  # a file that was made by hand can be wrong in any way
        raise files.CheckpointError(f"{checkpoint.path}: holds no network that can be built ({error})") from error
    return found


def describe(model: Any, path: str = "network") -> tuple[dict[str, Any], Any]:
    """The arrays of a model by name, and its structure with their names in place of them.

    Args:
        model: a network, or any other tree of modules; what no file can hold is named by its type.
        path: what the names begin with. They are those of the leaves of `path` as JAX writes them, so that whoever stores
            the leaves stores the model.

    Returns:
        The arrays, and what JSON can say of the rest.

    >>> from equilibria.model.units import Spin
    >>> describe(Layer("a", Spin(), [0.0]))[1]["fields"]["bias"]
    {'array': 'network.bias'}
    """
    arrays: dict[str, Any] = {}

    def described(part: Any, path: str) -> Any:
        if isinstance(part, eqx.Module):
            fields = {name: described(getattr(part, name), f"{path}.{name}") for name in _fields(type(part))}
            return {"kind": type(part).__name__, "fields": fields}
        if isinstance(part, (jax.Array, np.ndarray)):
            arrays[path] = part
            return {"array": path}
        if isinstance(part, (tuple, list)):
            return [described(item, f"{path}[{index}]") for index, item in enumerate(part)]
        if isinstance(part, (str, int, float, bool, type(None))):
            return part
        return {"unknown": f"{type(part).__module__}.{type(part).__qualname__}", "name": path}

    return arrays, described(model, path)


def rebuild(structure: Any, arrays: Mapping[str, Any]) -> Any:
    """The model that `describe` took apart.

    Args:
        structure: what `describe` said.
        arrays: by the names in it.

    Returns:
        The model, its fields as they were; whether they make sense together is not looked at.

    Raises:
        ValueError: if a kind, a field or an array is not known.

    >>> from equilibria.model.units import Spin
    >>> arrays, structure = describe(Layer("a", Spin(), [0.0, 0.5]))
    >>> rebuild(structure, arrays).size
    2
    """
    if isinstance(structure, list):
        return tuple(rebuild(item, arrays) for item in structure)
    if not isinstance(structure, dict):
        return structure
    if "array" in structure:
        return jnp.asarray(arrays[check.choice("array", structure["array"], arrays)])
    if "unknown" in structure:
        check.refuse(structure["name"], f"a {structure['unknown']}", "arrays, numbers, text, and tuples of them")
    fields = structure["fields"]
    # Not through __init__, whose arguments may differ from the fields (a Gaussian takes a variance).
    module: Any = object.__new__(_kind(structure["kind"], set(fields)))
    for name, value in fields.items():
        object.__setattr__(module, name, rebuild(value, arrays))
    return module


def _fields(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _kind(name: str, fields: set[str]) -> type:
    """The class of that name with these fields; of several, the one that was defined last."""
    kinds = [kind for kind in _kinds() if not inspect.isabstract(kind)]
    check.choice("kind", name, dict.fromkeys(kind.__name__ for kind in kinds))
    named = [kind for kind in kinds if kind.__name__ == name]
    fitting = [kind for kind in named if set(_fields(kind)) == fields]
    if not fitting:
        wanted = set(_fields(named[-1]))
        wrong = [*(f"no {field}" for field in sorted(wanted - fields)), *sorted(fields - wanted)]
        check.refuse(name, ", ".join(wrong), f"the fields {', '.join(sorted(wanted))}")
    return fitting[-1]


def _kinds() -> Iterator[type]:
    """The classes a network may be made of; one's own units and couplings count once they are imported."""
    families: list[type] = [Network, Layer, Unit, Coupling]
    for family in families:
        families.extend(family.__subclasses__())
        yield family


def _unknown(structure: Any) -> Iterator[tuple[str, str]]:
    """The names and types of fields that no file can hold."""
    if isinstance(structure, dict) and "unknown" in structure:
        yield structure["name"], structure["unknown"]
    parts = structure.get("fields", {}).values() if isinstance(structure, dict) else structure
    if isinstance(structure, (dict, list)):
        for part in parts:
            yield from _unknown(part)


def _each(network: Network) -> Iterator[Network]:
    """The network, or each of several that were trained side by side and have a leading axis in common."""
    _of("layers", network.layers, Layer)
    lead = np.shape(network.layers[0].bias)[:-1] if network.layers else ()
    if not lead:
        yield network
        return
    if len(lead) > 1 or lead[0] == 0 or any(np.shape(leaf)[:1] != lead for leaf in jax.tree.leaves(network)):
        check.refuse("bias", f"leading axes {lead}", "none, or one that every array has: as many networks side by side")
    for run in range(lead[0]):
        yield jax.tree.map(lambda leaf, run=run: leaf[run], network)


def check_network(network: Network) -> None:
    """Refuse a network that no constructor would make.

    Args:
        network: its fields as a file had them.

    Raises:
        ValueError: if layers, units or couplings are something else, shapes disagree, or numbers are not finite.

    >>> from equilibria import rbm
    >>> check_network(rbm(4, 3, key=0))
    >>> check_network(eqx.tree_at(lambda network: network.layers[0].bias, rbm(4, 3, key=0), jnp.zeros(5)))
    Traceback (most recent call last):
    ValueError: couplings: got (4, 3) between ('visible', 'hidden'); allowed: (5, 3), the layers' sizes
    """
    _of("layers", network.layers, Layer)
    _of("couplings", network.couplings, Coupling)
    for layer in network.layers:
        _check_layer(layer)
    for coupling in network.couplings:
        _of(f"{type(coupling).__name__}.ends", coupling.ends, str)
        if len(coupling.ends) != 2:
            check.refuse(f"{type(coupling).__name__}.ends", coupling.ends, "the names of two layers")
        _check_numbers(type(coupling).__name__, coupling)
        _run_checks(coupling)
    _run_checks(network)


def _check_layer(layer: Layer) -> None:
    _of("name", (layer.name,), str)
    _of("unit", (layer.unit,), Unit)
    _of("bias", (layer.bias,), jax.Array)
    if layer.bias.ndim != 1:
        check.refuse("bias", f"shape {layer.bias.shape}", "one number for each neuron")
    _check_numbers(f"layer {layer.name!r}", layer)
    _run_checks(layer)
    if hasattr(layer.unit, "stiffness"):
        check.number("stiffness", layer.unit.stiffness, above=0.0)
    _run_checks(layer.unit)
    answer = jax.eval_shape(layer.unit.mean, layer.bias)
    if answer.shape != layer.bias.shape:
        given = f"a {type(layer.unit).__name__} that answers {layer.bias.shape} fields by shape {answer.shape}"
        check.refuse(f"layer {layer.name!r}", given, "one answer for each neuron")


def _of(argument: str, given: Any, kind: type) -> None:
    """Refuse what is no tuple of things of a kind."""
    if not isinstance(given, tuple) or not all(isinstance(item, kind) for item in given):
        check.refuse(argument, repr(given), f"{kind.__name__} only")


def _check_numbers(argument: str, part: eqx.Module) -> None:
    """Refuse arrays that are not of finite real numbers, of any precision."""
    for leaf in jax.tree.leaves(eqx.filter(part, eqx.is_array)):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            check.refuse(argument, f"numbers of type {leaf.dtype}", "real numbers")
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not bool(jnp.isfinite(leaf).all()):
            check.refuse(argument, "numbers that are not finite", "finite numbers")


def _run_checks(module: eqx.Module) -> None:
    """What Equinox does when a module is made: the checks of its class and of those it comes from."""
    for kind in type(module).__mro__:
        if "__check_init__" in vars(kind):
            vars(kind)["__check_init__"](module)
