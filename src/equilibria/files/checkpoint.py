"""Checkpoints: named arrays in one file, with a digest over all of it.

A checkpoint is one safetensors file: named arrays, a JSON header, and a SHA-256 digest over both. Nothing in it is
executed when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from equilibria import __version__, check
from equilibria.files.atomic import PART, write_atomic
from equilibria.random import generator

FORMAT = 1
_NAME = re.compile(r"checkpoint-(\d{9,})\.safetensors")
_NATIVE = set(map(np.dtype, ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]))


class CheckpointError(ValueError):
    """A checkpoint that cannot be trusted; the message names the file and the reason."""


class Checkpoint(NamedTuple):
    """What `load` gives back."""

    step: int
    arrays: dict[str, Any]  # NumPy arrays; random keys come back as typed JAX keys
    metadata: dict[str, Any]
    path: Path


def save(
    folder: str | Path,
    step: int,
    arrays: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    keep: int = 2,
) -> Path:
    """Write the state of a run at `step` into `folder`, and keep the last `keep` checkpoints there.

    `arrays` holds NumPy or JAX arrays and typed random keys, all returned bit for bit by `load`. `metadata` is
    anything JSON can say (tuples come back as lists). Steps only go forward: a step before the newest good
    checkpoint is refused, so that a fresh run in an old folder cannot overwrite it.

    >>> import numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> path = save(folder, 10, {"weights": np.eye(2)}, {"epoch": 1})
    >>> path.name
    'checkpoint-000000010.safetensors'
    >>> load(folder).metadata
    {'epoch': 1}
    """
    step, keep = check.count("step", step, least=0), check.count("keep", keep)
    folder = Path(folder)
    content = _pack(step, arrays, metadata or {})
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_to_go_back(folder, step)
    path = folder / f"checkpoint-{step:09d}.safetensors"
    write_atomic(path, content)
    for old in _checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    for leftover in folder.glob(f".checkpoint-*{PART}"):
        leftover.unlink(missing_ok=True)
    return path


def load(path: str | Path, *, fallback: bool = False) -> Checkpoint:
    """The checkpoint in a file, or the newest one in a folder.

    A file that is cut short, altered in any bit, or written in a newer format raises `CheckpointError`. With
    `fallback=True` the newest good checkpoint before it is used instead, and a warning says so.

    >>> load("no/such/run")
    Traceback (most recent call last):
    equilibria.files.checkpoint.CheckpointError: no/such/run: no checkpoint here
    """
    path = Path(path)
    candidates = [inside(path, file) for file in _checkpoints(path)] if path.is_dir() else [path] * path.is_file()
    if not candidates:
        raise CheckpointError(f"{path}: no checkpoint here")
    try:
        return _read(candidates[0])
    except CheckpointError as error:
        if not fallback:
            raise
        return _read_an_earlier_one(candidates[0], error)


def latest(folder: str | Path) -> Path | None:
    """The newest checkpoint file in `folder`, if there is one.

    >>> latest("no/such/run") is None
    True
    """
    return next(iter(_checkpoints(Path(folder))), None)


def write(path: str | Path, arrays: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named arrays to a file of their own, in the format of checkpoints; `load` reads it.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "cells.safetensors"
    >>> write(path, {"overlap": np.ones(2)}, {"load": 0.1})
    >>> load(path).metadata
    {'load': 0.1}
    """
    write_atomic(path, _pack(0, arrays, metadata or {}))


def inside(folder: str | Path, path: Path) -> Path:
    """`path`, if it is inside `folder` once every link is followed; nothing of a store is read from elsewhere."""
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise CheckpointError(f"{path}: leads out of {folder}, to {path.resolve()}; refused")
    return path


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoint files of a folder, newest first."""
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted((file for file in files if _NAME.fullmatch(file.name)), key=_step, reverse=True)


def _step(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else -1


def _refuse_to_go_back(folder: Path, step: int) -> None:
    """Refuse a step before a good checkpoint; set aside later ones that cannot be read."""
    for path in _checkpoints(folder):
        if _step(path) <= step:
            return
        try:
            _read(path)
        except CheckpointError:
            path.replace(path.with_name(path.name + ".unreadable"))
        else:
            check.refuse(
                "step", step, f"a step >= {_step(path)}, the newest in {folder}; resume it or use a new folder"
            )


def _read_an_earlier_one(newest: Path, first_error: CheckpointError) -> Checkpoint:
    for path in _checkpoints(newest.parent):
        if _step(path) < _step(newest):
            with contextlib.suppress(CheckpointError):
                checkpoint = _read(path)
                warnings.warn(f"{first_error}; using the earlier {path.name} instead", stacklevel=3)
                return checkpoint
    raise first_error


def _pack(step: int, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> bytes:
    encoded = {name: _encode(name, array) for name, array in arrays.items()}
    stored = {name: array for name, (array, _) in encoded.items()}
    kinds = {name: kind for name, (_, kind) in encoded.items() if kind}
    header = {"format": FORMAT, "equilibria": __version__, "step": step, "kinds": kinds}
    try:
        text = json.dumps(header | {"metadata": dict(metadata)})
    except (TypeError, ValueError) as error:
        check.refuse("metadata", repr(metadata), f"what JSON can hold ({error})")
    return safetensors.numpy.save(stored, {"header": text, "sha256": _digest(text, stored)})


def _read(path: Path) -> Checkpoint:
    header, text, digest, stored = _open(path)
    if header["format"] > FORMAT:
        reason = f"format {header['format']} is newer than format {FORMAT}, the newest that equilibria"
        raise CheckpointError(f"{path}: {reason} {__version__} can read")
    if digest != _digest(text, stored):
        raise CheckpointError(f"{path}: damaged, its content does not match its SHA-256 digest")
    arrays = {name: _decode(array, header["kinds"].get(name)) for name, array in stored.items()}
    return Checkpoint(header["step"], arrays, header["metadata"], path)


def _open(path: Path) -> tuple[dict[str, Any], str, str, dict[str, np.ndarray]]:
    try:
        with safetensors.safe_open(path, framework="np") as file:
            notes = file.metadata() or {}
            if not {"header", "sha256"} <= notes.keys():
                raise CheckpointError(f"{path}: not a checkpoint of equilibria, or damaged")
            header = json.loads(notes["header"])
            newer = header["format"] > FORMAT  # its arrays may be of kinds unknown here
            stored = {} if newer else {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return header, notes["header"], notes["sha256"], stored
    except CheckpointError:
        raise
    except Exception as error:  # damage surfaces as whatever the parsers raise: each of them means unreadable
        raise CheckpointError(f"{path}: truncated or damaged ({error})") from error


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
    if not hasattr(ml_dtypes, plain.dtype.name):
        check.refuse("arrays", f"{name!r} of type {plain.dtype}", "numbers of up to 64 bits, booleans and random keys")
    return plain.view(f"u{plain.dtype.itemsize}"), plain.dtype.name


def _decode(array: np.ndarray, kind: str | None) -> Any:
    if kind is None:
        return array
    if kind.startswith("key "):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=generator(kind.removeprefix("key ")))
    return array.view(getattr(ml_dtypes, kind))
