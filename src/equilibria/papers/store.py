"""The folder of a reproduced figure: whose files are in it, what may be replaced, what can be used again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr

from equilibria import check, files

EARLIER = {"full": "paper"}  # names that presets had
FILES = ("result.nc", "config.json", "figure.png", "figure.pdf", "claims.json")


def remove(checkpoint: Path) -> None:
    """Take away the state of a run.

    Args:
        checkpoint: its folder, which need not be there.
    """
    if checkpoint.is_symlink():
        checkpoint.unlink()  # what it leads to was made by somebody else
    elif checkpoint.is_dir():
        shutil.rmtree(checkpoint)


def kept(write: Callable[[], None]) -> bool:
    """Whether something could be written; what was computed is not lost for want of a disk.

    Args:
        write: writes it.

    Returns:
        False after a warning.

    >>> kept(lambda: None)
    True
    """
    try:
        write()
    except files.StorageError as error:
        warnings.warn(f"{error} The result is shown, but not kept.", stacklevel=3)
        return False
    return True


def refuse_what_is_not_ours(folder: Path, id: str, preset: str, force: bool) -> None:
    """Refuse a folder in which something would be replaced that is not an earlier result of the same figure.

    Args:
        folder: where the result is to be.
        id: "paper/figure".
        preset: of the result.
        force: whether results of other figures may be replaced.

    Raises:
        ValueError: if there is such a thing.
    """
    there = [name for name in FILES if os.path.lexists(folder / name)]
    if not there:
        return
    found = _owner(folder)
    if found is None:
        check.refuse("out", f"{folder}, whose {', '.join(there)} `reproduce` did not write", "another folder")
    if not force and found != (id, preset):
        allowed = "another folder, or force to replace it"
        check.refuse("out", f"{folder}, which holds the {found[1]} result of {found[0]}", allowed)


def cached(path: Path, fingerprint: str) -> xr.Dataset | None:
    """The result on disk, if it is readable and the one wanted.

    Args:
        path: of result.nc.
        fingerprint: of the run that is wanted.

    Returns:
        The result, or None: then it is made again.
    """
    if not path.exists():
        return None
    try:
        dataset = files.load_dataset(path)
    except files.CheckpointError as error:
        warnings.warn(f"{error}; it is made again", stacklevel=3)
        return None
    return dataset if dataset.attrs.get("fingerprint") == fingerprint else None


def _owner(folder: Path) -> tuple[str, str] | None:
    """The experiment and the preset that a folder's files are of, if `reproduce` wrote them."""
    with contextlib.suppress(files.CheckpointError, KeyError):  # damaged, or not there: the configuration says it too
        return _named(files.load_dataset(folder / "result.nc").attrs)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return _named(json.loads((folder / "config.json").read_bytes()))
    return None


def _named(told: dict[str, Any]) -> tuple[str, str] | None:
    preset = told["preset"]
    return (told["experiment"], EARLIER.get(preset, preset)) if "fingerprint" in told else None
