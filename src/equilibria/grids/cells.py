"""Cells: the points of a grid, known by their coordinates alone.

A cell's name in the store and its random key come from a hash of the names and values of its coordinates. Neither depends on
the order of the axes, on the other cells, or on where and when the cell is computed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from equilibria import check

Values = dict[str, Any]  # by axis: a plain number, bool or text


class Cell(NamedTuple):
    """One point of a grid.

    Attributes:
        values: its coordinates by axis.
        digest: its name in the store; its random key begins it.
    """

    values: Values
    digest: str


def checked_axes(axes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Each axis as a one-dimensional array of different numbers or texts.

    Args:
        axes: as they are given; a scalar is an axis of length one.

    Returns:
        The arrays, in the byte order of this machine.

    Raises:
        ValueError: if there is none, or one cannot be an axis.

    >>> checked_axes({"load": 0.1, "seed": range(3)})
    {'load': array([0.1]), 'seed': array([0, 1, 2])}
    """
    if not axes:
        check.refuse("axes", "none", "at least one, such as load=[0.05, 0.1]")
    if "key" in axes:
        check.refuse("key", "an axis", "any other name: each cell's key is made from its coordinates; use `seed`")
    return {name: _checked_axis(name, given) for name, given in axes.items()}


def _checked_axis(name: str, given: Any) -> np.ndarray:
    scalar = isinstance(given, str) or not hasattr(given, "__iter__") or getattr(given, "ndim", 1) == 0
    items = [given] if scalar else list(given)
    kinds = {"text" if isinstance(item, str) else "numbers" for item in items}
    if len(kinds) > 1:
        check.refuse(name, repr(items), "all numbers or all texts")
    try:
        values = np.asarray(items)
    except ValueError:
        check.refuse(name, "items of different shapes", "one number or text for each point of the axis")
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "biufU":
        allowed = "a number, a text, or a sequence of them that is not empty"
        check.refuse(name, f"shape {values.shape} of {values.dtype}", allowed)
    if values.dtype == np.longdouble:
        check.refuse(name, f"numbers of type {values.dtype}", "numbers of up to 64 bits")
    if values.dtype.kind == "f" and np.isnan(values).any():
        check.refuse(name, "nan", "coordinates that can be compared")
    if len(set(values.tolist())) < values.size:
        seen = values.tolist()
        check.refuse(name, f"{next(v for v in seen if seen.count(v) > 1)!r} more than once", "different coordinates")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def cells_of(axes: Mapping[str, np.ndarray]) -> list[Cell]:
    """Every cell, the last axis fastest.

    Args:
        axes: as `checked_axes` gives them.

    Returns:
        The cells.

    >>> [cell.values for cell in cells_of({"load": np.array([0.1, 0.2]), "seed": np.array([0])})]
    [{'load': 0.1, 'seed': 0}, {'load': 0.2, 'seed': 0}]
    """
    points = itertools.product(*(values.tolist() for values in axes.values()))
    return [cell_at(dict(zip(axes, point, strict=True))) for point in points]


def cell_at(values: Values) -> Cell:
    """The cell with these coordinates.

    Args:
        values: the coordinates by axis. Equal numbers are the same coordinate: 1, 1.0 and True.

    Returns:
        The cell.

    >>> cell_at({"load": 1.0, "seed": 2}).digest == cell_at({"seed": 2, "load": 1}).digest
    True
    """
    text = json.dumps({name: _canonical(value) for name, value in values.items()}, sort_keys=True)
    return Cell(values, hashlib.sha256(text.encode()).hexdigest()[:32])


def _canonical(value: Any) -> Any:
    whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole else value


def key_data(cells: Iterable[Cell]) -> np.ndarray:
    """The raw random key of each cell.

    Args:
        cells: any number of them.

    Returns:
        Two words of 32 bits for each, from the start of its digest.

    >>> key_data([cell_at({"seed": 0}), cell_at({"seed": 1})]).shape
    (2, 2)
    """
    words = [[int(cell.digest[:8], 16), int(cell.digest[8:16], 16)] for cell in cells]
    return np.array(words, np.uint32).reshape(-1, 2)


def name_of(cells: Iterable[Cell]) -> str:
    """A name for a set of cells, whatever their order.

    Args:
        cells: the set.

    Returns:
        Twenty-four hexadecimal digits.

    >>> name_of([cell_at({"seed": 0})])
    '499c2775b44c1c8e7d8f3bf5'
    """
    return hashlib.sha256("".join(sorted(cell.digest for cell in cells)).encode()).hexdigest()[:24]


def written(values: Values) -> str:
    """Coordinates as a reader writes them.

    Args:
        values: the coordinates by axis.

    Returns:
        One line.

    >>> written({"load": 0.1, "seed": 3})
    'load=0.1, seed=3'
    """
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
