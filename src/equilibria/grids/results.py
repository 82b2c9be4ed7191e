"""Where the rows of a grid are kept: one whole file for each finished chunk, and one that says what the grid is.

Any number of clients may write to one result store. It needs no locks: a file appears whole or not at all, and says itself
which cells of which grid it holds.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equilibria import check, files
from equilibria.files.identity import Unseen, seen
from equilibria.grids.cells import Cell, cell_at, name_of
from equilibria.grids.task import Row

_ABOUT = "grid.json"
_FIRST, _LAST = "cells-", ".safetensors"
# A client looks at no more than so many names for each chunk it computes, on average, and not less often than every so many
# seconds: its work then grows as the number of chunks, and it still sees what others have done.
_NAMES_A_CHUNK = 16
_SECONDS = 10.0


class ResultStore:
    """The rows that are known, by the digests of their cells, and the folder they are kept in, if there is one.

    Attributes:
        folder: where they are kept; None keeps them in memory alone.
        about: what the grid is: the identity, and the choices that were made when the folder was first used.
        rows: what the cells gave.

    >>> store = ResultStore(None, {"function": "numpy.sin"}, {"width": 8})
    >>> store.keep([cell_at({"x": 0})], [{"value": np.zeros(())}])
    >>> len(store.rows), store.about["width"]
    (1, 8)
    """

    def __init__(self, folder: str | Path | None, identity: Mapping[str, Any], choices: Mapping[str, Any]):
        """Open a store.

        Args:
            folder: made when something is first written; None keeps the rows in memory alone.
            identity: must be that of the grid in the folder.
            choices: free, but made once: `about` has those of the folder.

        Raises:
            ValueError: if the folder holds another grid.
            StorageError: if it cannot be written.
        """
        self.folder = None if folder is None else Path(folder)
        self.about: dict[str, Any] = json.loads(json.dumps({**identity, **choices}))
        self.rows: dict[str, Row] = {}
        self._found: deque[str] = deque()  # digests of the rows that came since somebody last asked
        self._read_files: set[str] = set()
        self._chunks, self._looked = 0, -np.inf  # chunks since the last look at all names, and when that was
        if self.folder is not None:
            self._settle(self.folder, identity)
            files.sweep(self.folder)
            self.refresh()

    def _settle(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Take up what the folder says about its grid, or write it there; refuse another grid's folder."""
        path = files.inside(folder, folder / _ABOUT)
        if not path.exists():
            content = {"grid": self.about, "sha256": _digest(self.about)}
            files.write_once(path, json.dumps(content, indent=2).encode())
        try:
            found = json.loads(path.read_bytes())
            about, whole = found["grid"], found["sha256"] == _digest(found["grid"])
            if not whole:
                raise ValueError("its content does not match its SHA-256 digest")
            for name in set(self.about) - set(identity):
                about[name]
        except (ValueError, KeyError, TypeError, OSError) as error:
            check.refuse("store", f"{folder}, whose {_ABOUT} is not readable ({error})", "another folder")
        if changed := _changed(about, self.about, identity):
            check.refuse(
                "store", f"{folder}, which holds a grid with another {changed}", "the same grid, or another folder"
            )
        self.about = about

    def refresh(self, *, strict: bool = True) -> None:
        """Take up everything that anyone has written since the last look.

        Args:
            strict: refuse cells of another grid, instead of passing over them.

        Raises:
            ValueError: if there are cells of another grid.
        """
        if self.folder is None:
            return
        names = [entry.name for entry in os.scandir(self.folder) if _is_chunk(entry.name)]
        for name in sorted(set(names) - self._read_files):
            self._take_up(self.folder / name, strict)
        self._chunks, self._looked = 0, time.monotonic()

    def look_for(self, cells: Sequence[Cell]) -> list[Cell]:
        """Which of these cells nobody has computed yet, as far as can be known without looking through the whole folder.

        Clients with the same chunks give their files the same names, which is one question to the disk. What others have
        cut in another way is found by going through all names now and then.

        Args:
            cells: a chunk.

        Returns:
            Those that are missing.
        """
        if self.folder is not None:
            self._chunks += 1
            rare = self._chunks * _NAMES_A_CHUNK < len(self._read_files)
            if not rare or time.monotonic() - self._looked > _SECONDS:
                self.refresh(strict=False)
            elif (path := self._path(self.folder, cells)).name not in self._read_files and path.exists():
                self._take_up(path, strict=False)
        return [cell for cell in cells if cell.digest not in self.rows]

    def found(self) -> list[str]:
        """The digests of the cells that have become known since this was last asked."""
        return [self._found.popleft() for _ in range(len(self._found))]

    @staticmethod
    def _path(folder: Path, cells: Sequence[Cell]) -> Path:
        return folder / f"{_FIRST}{name_of(cells)}{_LAST}"

    def _take_up(self, path: Path, strict: bool) -> None:
        self._read_files.add(path.name)
        try:
            found = files.load(files.inside(path.parent, path))
            of_this_grid = found.metadata.get("grid") == _digest(self.about)
            rows = _rows(found) if of_this_grid else {}
        except files.CheckpointError as error:
            if path.is_symlink() or path.exists():  # else another client was quicker
                aside = files.set_aside(path)
                warnings.warn(f"{error}; set aside as {aside.name}, its cells are computed again", stacklevel=2)
            return
        if strict and not of_this_grid:
            check.refuse("store", f"{path}, the cells of another grid", "the same grid, or another folder")
        self._add(rows)

    def _add(self, rows: Mapping[str, Row]) -> None:
        self.rows.update(rows)
        self._found.extend(rows)

    def keep(self, cells: Sequence[Cell], rows: Sequence[Row]) -> None:
        """Write the rows of a chunk, whole or not at all.

        Args:
            cells: of the chunk.
            rows: what they gave.

        Raises:
            StorageError: if there is no room for them; it says how many cells are stored.
        """
        known = len(self.rows)
        self._add(dict(zip((cell.digest for cell in cells), rows, strict=True)))
        if self.folder is None:
            return
        good = [row for row in rows if not isinstance(row, str)]
        arrays = {name: np.stack([row[name] for row in good]) for name in (good[0] if good else ())}
        metadata = {
            "grid": _digest(self.about),
            "cells": [cell.values for cell in cells],
            "failures": {str(index): row for index, row in enumerate(rows) if isinstance(row, str)},
        }
        path = self._path(self.folder, cells)
        try:
            files.write(path, arrays, metadata)
        except files.StorageError as error:
            raise files.StorageError(
                f"store: {error} The {known} cells stored before are whole: start the grid again, and only the others are "
                "computed."
            ) from error
        self._read_files.add(path.name)

    def forget_failures(self) -> None:
        """Let failed cells count as missing, so that they are tried again."""
        self.rows = {digest: row for digest, row in self.rows.items() if not isinstance(row, str)}


def _is_chunk(name: str) -> bool:
    return name.startswith(_FIRST) and name.endswith(_LAST)


def _rows(found: files.Checkpoint) -> dict[str, Row]:
    """The rows in a file, by the digests of their cells."""
    try:
        failures = {int(index): str(text) for index, text in found.metadata["failures"].items()}
        cells = [cell_at(values).digest for values in found.metadata["cells"]]
        good = [digest for index, digest in enumerate(cells) if index not in failures]
        if {len(array) for array in found.arrays.values()} - {len(good)}:
            raise ValueError(f"{len(good)} cells, but arrays of other lengths")
        rows: dict[str, Row] = {cells[index]: text for index, text in failures.items()}
        for place, digest in enumerate(good):
            rows[digest] = {name: array[place] for name, array in found.arrays.items()}
        return rows
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise files.CheckpointError(f"{found.path}: holds no cells of a grid ({error})") from error


def _digest(about: Any) -> str:
    """A name for what a grid is, the same for the same content in any order."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _changed(before: Mapping[str, Any], now: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """What is not as it was, in words; nothing if all is."""
    for name in names:
        then, here = before.get(name), now[name]
        if then == here:
            continue
        if name == "parts" and isinstance(then, dict):
            parts = [part for part in {**then, **here} if then.get(part) != here.get(part)]
            return f"{', '.join(sorted(parts))} of the function"
        return f"{name}: {then!r}, here {here!r}"
    return ""


def identity_of(fn: Callable[..., Any], version: str | int | float | None = None) -> dict[str, Any]:
    """What must not change of a function between the runs of a stored grid.

    Args:
        fn: the function.
        version: a text or number that is changed when the function changes; then only this and its name are compared.

    Returns:
        Its name and version, or its name and the fingerprints of its code, its default arguments, everything that it closes
        over or reads, and the arguments and the object that it is bound to.

    Raises:
        ValueError: if it cannot be seen through and there is no version.

    >>> identity_of(functools.partial(np.power, 2), version=3)
    {'function': 'numpy.power', 'version': 3}
    """
    name = {"function": function_name(fn), "version": version}
    if version is not None:
        if isinstance(version, bool) or not isinstance(version, (str, int, float)):
            check.refuse("version", repr(version), "a text or a number")
        return name
    try:
        parts = seen(fn)
    except Unseen as error:
        check.refuse(
            "fn", f"a function that a store cannot tell from others ({error})",
            "one of values that can be seen; or version=, a text or number that you change when the function changes",
        )  # fmt: skip
    return name | {"Python": f"{sys.version_info.major}.{sys.version_info.minor}", "parts": parts}


def function_name(fn: Callable[..., Any]) -> str:
    """The name of a function, or of the class of a callable object, under what binds and wraps it.

    >>> function_name(functools.partial(np.power, 2))
    'numpy.power'
    """
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{getattr(named, '__module__', None) or type(fn).__module__}.{named.__qualname__}"
