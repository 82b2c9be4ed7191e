"""Where the rows of a grid are kept: one whole file for each finished chunk, and one that says what the grid is.

Any number of clients may write to one shelf. There are no locks that could outlive who took them: a file appears whole or
not at all, and says itself which cells of which grid it holds.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import inspect
import json
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from equilibria import check, files
from equilibria.grids.cells import Cell, cell_at, name_of
from equilibria.grids.task import Row

_ABOUT = "grid.json"
_PARTS = {"function": "function", "code": "code of the function", "config": "configuration of the function"}


class StorageError(OSError):
    """The rows of a grid could not be written; what was written before is whole."""


class ResultStore:
    """The rows that are known, by the digests of their cells, and the folder they are kept in, if there is one.

    `identity` must be that of the grid in the folder. `choices` are free, but made once: `about` has those of the folder.
    """

    def __init__(self, folder: str | Path | None, identity: Mapping[str, Any], choices: Mapping[str, Any]):
        self.folder = None if folder is None else Path(folder)
        self.about = json.loads(json.dumps({**identity, **choices}))
        self.rows: dict[str, Row] = {}
        self._seen: set[str] = set()
        if self.folder is not None:
            self._settle(self.folder, identity)
            self.refresh()

    def _settle(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Take up what the folder says about its grid, or write it there; refuse another grid's folder."""
        path = files.inside(folder, folder / _ABOUT)
        if not path.exists():
            with _writing(folder, 0):
                files.write_atomic(path, json.dumps(self.about, indent=2).encode())
        try:
            found = json.loads(path.read_text())
            found = {name: found[name] for name in self.about}
        except (ValueError, KeyError, TypeError) as error:
            check.refuse("store", f"{folder}, whose {_ABOUT} is not readable ({error})", "another folder")
        for name in identity:
            if self.about[name] != found[name]:
                what = f"a grid with another {_PARTS.get(name, name)}: {found[name]!r}, here {self.about[name]!r}"
                check.refuse("store", f"{folder}, which holds {what}", "the same grid, or another folder")
        self.about = found

    def refresh(self, *, strict: bool = True) -> int:
        """Take up what anyone has written since the last look; how many new cells that gave."""
        if self.folder is None:
            return 0
        before = len(self.rows)
        for path in sorted(self.folder.glob("cells-*.safetensors")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                self.rows.update(self._read(path, strict))
        return len(self.rows) - before

    def _read(self, path: Path, strict: bool) -> dict[str, Row]:
        try:
            found = files.load(files.inside(path.parent, path))
        except files.CheckpointError as error:
            aside = path.with_name(path.name + ".unreadable")
            warnings.warn(f"{error}; set aside as {aside.name}, its cells are computed again", stacklevel=2)
            with contextlib.suppress(FileNotFoundError):
                path.replace(aside)
            return {}
        if found.metadata.get("grid") != self.about:
            if strict:
                check.refuse("store", f"{path}, the cells of another grid", "the same grid, or another folder")
            return {}
        failures = {int(index): text for index, text in found.metadata["failures"].items()}
        rows: dict[str, Row] = {}
        position = 0
        for index, values in enumerate(found.metadata["cells"]):
            digest = cell_at(values).digest
            if index in failures:
                rows[digest] = failures[index]
            else:
                rows[digest] = {name: array[position] for name, array in found.arrays.items()}
                position += 1
        return rows

    def keep(self, cells: Sequence[Cell], rows: Sequence[Row]) -> None:
        """Write the rows of a chunk, whole or not at all."""
        self.rows.update(zip((cell.digest for cell in cells), rows, strict=True))
        if self.folder is None:
            return
        good = [row for row in rows if not isinstance(row, str)]
        arrays = {name: np.stack([row[name] for row in good]) for name in (good[0] if good else ())}
        metadata = {
            "grid": self.about,
            "cells": [cell.values for cell in cells],
            "failures": {str(index): row for index, row in enumerate(rows) if isinstance(row, str)},
        }
        path = self.folder / f"cells-{name_of(cells)}.safetensors"
        with _writing(self.folder, len(self.rows) - len(cells)):
            files.write(path, arrays, metadata)
        self._seen.add(path.name)

    def forget_failures(self) -> None:
        """Let failed cells count as missing, so that they are tried again."""
        self.rows = {digest: row for digest, row in self.rows.items() if not isinstance(row, str)}


@contextlib.contextmanager
def _writing(folder: Path, stored: int):
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"store: could not write to {folder} ({error.strerror or error}). The {stored} cells stored before are whole; "
            "make room and start the grid again, and only the others are computed."
        ) from error


def identity_of(fn: Callable[..., Any]) -> dict[str, str]:
    """The name, code and configuration of a function: what must not change between the runs of a stored grid.

    The code is compared without comments and spacing. Functions that it calls are not looked into.

    >>> identity_of(functools.partial(np.power, 2))["function"]
    'numpy.power'
    """
    config: list[Any] = []
    while isinstance(fn, functools.partial):
        config = [*fn.args, fn.keywords, *config]
        fn = fn.func
    fn = inspect.unwrap(fn)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    closure = [cell.cell_contents for cell in getattr(fn, "__closure__", None) or ()]
    config += closure if named is fn else [fn]
    return {
        "function": f"{getattr(named, '__module__', None) or type(fn).__module__}.{named.__qualname__}",
        "code": _code(named),
        "config": _digest(config) if config else "",
    }


def _code(fn: Any) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        code = getattr(fn, "__code__", None)
        return "" if code is None else hashlib.sha256(code.co_code + repr(code.co_names).encode()).hexdigest()[:16]
    with contextlib.suppress(SyntaxError):  # a lambda's source can be a piece of a line
        source = ast.dump(ast.parse(source))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _digest(config: Any) -> str:
    if inspect.isroutine(config):
        return f"{config.__qualname__}{_code(config)}"
    if isinstance(config, (list, tuple)):
        return hashlib.sha256("".join(_digest(item) for item in config).encode()).hexdigest()[:16]
    try:
        return joblib.hash(config)
    except Exception:  # what cannot be pickled is known by its kind alone
        return type(config).__qualname__
