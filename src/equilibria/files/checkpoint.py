"""Checkpoints: the states of a run in a folder, the newest ones kept."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equilibria import check
from equilibria.files.arrays import Checkpoint, CheckpointError, NewerFormatError, pack, read
from equilibria.files.atomic import sweep, write_atomic

_NAME = re.compile(r"checkpoint-(\d{9,})\.safetensors")


def save(
    folder: str | Path,
    step: int,
    arrays: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    keep: int = 2,
) -> Path:
    """Write the state of a run at `step` into `folder`, and keep the last `keep` checkpoints there.

    Args:
        folder: of the run, made if it is not there.
        step: steps only go forward: one before the newest good checkpoint is refused, so that a fresh run in an old folder
            cannot overwrite it.
        arrays: NumPy or JAX arrays and typed random keys, all returned bit for bit by `load`.
        metadata: anything JSON can say (tuples come back as lists).
        keep: how many checkpoints stay.

    Returns:
        The file.

    Raises:
        ValueError: if something cannot be stored, or the step goes back.
        StorageError: if there is no room for it; the checkpoints before are whole.

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
    content = pack(step, arrays, metadata or {})
    _refuse_to_go_back(folder, step)
    path = folder / f"checkpoint-{step:09d}.safetensors"
    write_atomic(path, content)
    for old in _checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    sweep(folder)
    return path


def load(path: str | Path, *, fallback: bool = False) -> Checkpoint:
    """The checkpoint in a file, or the newest one in a folder.

    Args:
        path: the file or the folder.
        fallback: use the newest good checkpoint before one that is damaged; a warning says so.

    Returns:
        The step, the arrays and the metadata.

    Raises:
        CheckpointError: if the file is cut short, altered in any bit, or written in a newer format, or there is none.

    >>> load("no/such/run")
    Traceback (most recent call last):
    equilibria.files.arrays.CheckpointError: no/such/run: no checkpoint here
    """
    path = Path(path)
    candidates = [inside(path, file) for file in _checkpoints(path)] if path.is_dir() else [path] * path.is_file()
    if not candidates:
        raise CheckpointError(f"{path}: no checkpoint here")
    try:
        return read(candidates[0])
    except NewerFormatError:  # it is good: going on from an earlier one would lose what a later version has done
        raise
    except CheckpointError as error:
        if not fallback:
            raise
        return _read_an_earlier_one(candidates[0], error)


def latest(folder: str | Path) -> Path | None:
    """The newest checkpoint file in a folder.

    Args:
        folder: of a run; it need not exist.

    Returns:
        The file, or None where there is none.

    >>> latest("no/such/run") is None
    True
    """
    return next(iter(_checkpoints(Path(folder))), None)


def inside(folder: str | Path, path: Path) -> Path:
    """A path, if it is inside a folder once every link is followed; nothing of a store is read from elsewhere.

    Args:
        folder: where it should be.
        path: what is to be read.

    Returns:
        The path as it was given.

    Raises:
        CheckpointError: if it leads out of the folder.

    >>> inside("runs/a", Path("runs/a/../b"))
    Traceback (most recent call last):
    equilibria.files.arrays.CheckpointError: runs/a/../b: leads out of runs/a, to ...; refused
    """
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise CheckpointError(f"{path}: leads out of {folder}, to {path.resolve()}; refused")
    return path


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be read, so that nothing trips over it and nothing of it is lost.

    Args:
        path: the file; one that is gone already is passed over.

    Returns:
        Its new name, which no other file had.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cells.safetensors"
    >>> path.touch()
    >>> set_aside(path).name
    'cells.safetensors.unreadable'
    """
    names = (path.with_name(f"{path.name}.unreadable{f'-{number}' if number else ''}") for number in range(10**6))
    aside = next(name for name in names if not name.exists())
    with contextlib.suppress(FileNotFoundError):
        path.replace(aside)
    return aside


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
        if _is_damaged(path):
            set_aside(path)
        else:
            check.refuse(
                "step", step, f"a step >= {_step(path)}, the newest in {folder}; resume it or use a new folder"
            )


def _is_damaged(path: Path) -> bool:
    try:
        read(path)
    except NewerFormatError:
        return False
    except CheckpointError:
        return True
    return False


def _read_an_earlier_one(newest: Path, first_error: CheckpointError) -> Checkpoint:
    for path in _checkpoints(newest.parent):
        if _step(path) < _step(newest):
            with contextlib.suppress(CheckpointError):
                checkpoint = read(path)
                warnings.warn(f"{first_error}; using the earlier {path.name} instead", stacklevel=3)
                return checkpoint
    raise first_error
