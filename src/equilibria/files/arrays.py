"""Named arrays in one file, with a digest over all of it.

A file is in the safetensors format: named arrays, a JSON header, and a SHA-256 digest over both. Nothing in it is executed when
it is read, and what it says of its sizes is compared with its length before memory is taken.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from equilibria import __version__, check
from equilibria.files.atomic import write_atomic
from equilibria.random import generator

FORMAT = 1
_NATIVE = set(map(np.dtype, ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]))


class CheckpointError(ValueError):
    """A file that cannot be trusted; the message names the file and the reason."""


class NewerFormatError(CheckpointError):
    """A file that a later version of the package wrote: whole, but not for this one."""


class Checkpoint(NamedTuple):
    """What a file holds.

    Attributes:
        step: of the run, 0 where there is none.
        arrays: NumPy arrays by name; random keys come back as typed JAX keys.
        metadata: what was said about them.
        path: the file.
    """

    step: int
    arrays: dict[str, Any]
    metadata: dict[str, Any]
    path: Path


def write(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named arrays to a file of their own, in the format of checkpoints; `load` reads it.

    Args:
        path: the file; it is replaced whole.
        arrays: NumPy or JAX arrays and typed random keys, by name.
        metadata: anything that JSON can say.

    Raises:
        ValueError: if something cannot be stored.
        StorageError: if there is no room for it.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cells.safetensors"
    >>> write(path, {"overlap": np.ones(2)}, {"load": 0.1})
    >>> read(path).metadata
    {'load': 0.1}
    """
    write_atomic(path, pack(0, arrays, metadata or {}))


def pack(step: int, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> bytes:
    """The content of a file.

    >>> len(pack(3, {"weights": np.eye(2)}, {})) > 32
    True
    """
    encoded = {name: _encode(name, array) for name, array in arrays.items()}
    stored = {name: array for name, (array, _) in encoded.items()}
    kinds = {name: kind for name, (_, kind) in encoded.items() if kind}
    header = {"format": FORMAT, "equilibria": __version__, "step": step, "kinds": kinds}
    try:
        text = json.dumps(header | {"metadata": dict(metadata)})
    except (TypeError, ValueError) as error:
        check.refuse("metadata", repr(metadata), f"what JSON can hold ({error})")
    return safetensors.numpy.save(stored, {"header": text, "sha256": _digest(text, stored)})


def read(path: Path) -> Checkpoint:
    """What a file holds, if all of it is as it was written.

    Args:
        path: the file.

    Returns:
        Its arrays and what was said about them.

    Raises:
        CheckpointError: if it is cut short, altered in any bit, of a newer format, or no such file.

    >>> read(Path("no/such/file"))
    Traceback (most recent call last):
    equilibria.files.arrays.CheckpointError: no/such/file: cannot be read (No such file or directory...
    """
    try:
        header, text, digest, stored = _open(path)
        if digest != _digest(text, stored):
            raise CheckpointError(f"{path}: damaged, its content does not match its SHA-256 digest")
        arrays = {name: _decode(array, header["kinds"].get(name)) for name, array in stored.items()}
        return Checkpoint(int(header["step"]), arrays, dict(header["metadata"]), path)
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # damage surfaces as whatever the parsers raise: each of them means unreadable
        raise CheckpointError(f"{path}: truncated or damaged ({error})") from error


def _open(path: Path) -> tuple[dict[str, Any], str, str, dict[str, np.ndarray]]:
    with safetensors.safe_open(path, framework="np") as file:
        notes = file.metadata() or {}
        if not {"header", "sha256"} <= notes.keys():
            raise CheckpointError(f"{path}: not a checkpoint of equilibria, or damaged")
        header = json.loads(notes["header"])
        if header["format"] > FORMAT:  # its arrays may be of kinds unknown here
            reason = f"format {header['format']} is newer than format {FORMAT}, the newest that equilibria"
            raise NewerFormatError(f"{path}: {reason} {__version__} can read")
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return header, notes["header"], notes["sha256"], stored


def _digest(text: str, stored: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(stored):
        array = stored[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _encode(name: str, array: Any) -> tuple[np.ndarray, str | None]:
    """The array in a type safetensors has, and what it really is when that differs."""
    if name == "__metadata__":
        check.refuse("arrays", f"the name {name!r}", "any other name; the file format keeps this one")
    if jax.dtypes.issubdtype(getattr(array, "dtype", None), jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(array)), f"key {jax.random.key_impl(array)}"
    plain = np.asarray(array, order="C")
    plain = plain.astype(plain.dtype.newbyteorder("="), copy=False)
    if plain.dtype in _NATIVE:
        return plain, None
    if plain.dtype == np.complex128:
        return plain[..., None].view(np.float64), "complex128"
    if not hasattr(ml_dtypes, plain.dtype.name):
        check.refuse("arrays", f"{name!r} of type {plain.dtype}", "numbers of up to 64 bits, booleans and random keys")
    return plain.view(f"u{plain.dtype.itemsize}"), plain.dtype.name


def _decode(array: np.ndarray, kind: str | None) -> Any:
    if kind is None:
        return array
    if kind.startswith("key "):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=generator(kind.removeprefix("key ")))
    if kind == "complex128":
        return array.view(np.complex128)[..., 0]
    return array.view(np.dtype(getattr(ml_dtypes, kind)))
