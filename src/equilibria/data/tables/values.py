"""The cells of a table as numbers; a cell that is none is refused with its row and column."""

from __future__ import annotations

from typing import Any

import numpy as np

from equilibria import check
from equilibria.data.tables.raw import Raw
from equilibria.data.tables.text import MISSING

_FALSE_TRUE = {"false": 0, "true": 1}


def numbers(raw: Raw, names: list[str], kept: list[int], missing: str, label: str) -> np.ndarray:
    """The cells of some columns as numbers.

    Args:
        raw: the table.
        names: of its columns.
        kept: which of them.
        missing: "refuse" or "keep" cells that are missing; kept ones are NaN.
        label: whose table it is.

    Returns:
        (rows, columns), of the smallest type that holds all numbers: 8 bits, 32 bits, or floating point.

    Raises:
        ValueError: if a cell is no number, is missing, or is infinite; the message names row and column.
    """
    if isinstance(raw.cells, np.ndarray):
        values = _plain(raw.cells if len(kept) == raw.cells.shape[1] else raw.cells[:, kept], label)
    else:
        values = _of_frame(raw, names, kept, label)
    if values.dtype.kind == "f":
        _check_finite(values, raw, names, kept, missing, label)
    return _small(values)


def _plain(values: np.ndarray, label: str) -> np.ndarray:
    if values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        check.refuse("data", f"{label} with values of type {values.dtype}", "numbers of up to 64 bits")
    return values.astype(values.dtype.newbyteorder("="), copy=False)  # JAX takes no other machine's order


def _of_frame(raw: Raw, names: list[str], kept: list[int], label: str) -> np.ndarray:
    frame = raw.cells.iloc[:, kept]
    if all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in frame.dtypes):
        return _plain(frame.to_numpy(), label)
    columns = [_of_series(raw, names[place], raw.cells.iloc[:, place], label) for place in kept]
    return _plain(np.column_stack(columns), label)


def _of_series(raw: Raw, name: str, series: Any, label: str) -> np.ndarray:
    """A column of anything as numbers; missing cells are NaN."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
        return series.to_numpy()
    if series.dtype.kind in "fiub":  # pandas' own types, with cells that may be missing
        return series.to_numpy(np.float64, na_value=np.nan)
    if series.dtype.kind in "mM":  # pandas would count nanoseconds
        check.refuse(
            "data",
            f"dates or times in column {shown(name)} of {label}",
            f"numbers; the column is left out with drop={name or '...'}",
        )
    cells = series.astype(object).map(_without_spaces)
    cells = cells.mask(cells.isin(MISSING))
    values = as_numbers(cells.map(lambda cell: _FALSE_TRUE.get(str(cell).lower(), cell)))
    given = cells.notna().to_numpy()
    wrong = np.flatnonzero(np.isnan(values) & given)
    if wrong.size:
        place, word = raw.place(int(wrong[0])), str(cells.iloc[int(wrong[0])])
        allowed = f"numbers; a column of words is left out with drop={name or '...'}"
        if 4 * len(wrong) <= given.sum():  # a word among numbers often stands for what is missing
            allowed = "numbers, and an empty cell or NA where one is missing"
        check.refuse("data", f"{word[:40]!r} in {place}, column {shown(name)} of {label}", allowed)
    return values


def _without_spaces(cell: Any) -> Any:
    return cell.strip() if isinstance(cell, str) else cell


def shown(name: str) -> str:
    """A column's name as errors and notes show it."""
    return repr(name) if name else "without a name"


def as_numbers(cells: Any) -> np.ndarray:
    """Each cell as a number, NaN where it is none; whole numbers that are too large for one are infinite."""
    import pandas as pd

    try:
        values = np.array(pd.to_numeric(cells, errors="coerce"), np.float64)
    except OverflowError:  # of some versions; others take such a cell for a word
        values = np.full(len(cells), np.nan)
    values[np.isnan(values)] = [_as_number(str(cell)) for cell in cells[np.isnan(values)]]
    return values


def _as_number(cell: str) -> float:
    try:
        return np.nan if "_" in cell else float(cell)  # Python reads 1_0 as ten
    except ValueError:
        return np.nan


def _check_finite(values: np.ndarray, raw: Raw, names: list[str], kept: list[int], missing: str, label: str) -> None:
    for row in np.flatnonzero(~np.isfinite(values).all(axis=1)):
        for column in np.flatnonzero(~np.isfinite(values[row])):
            where = f"{raw.place(int(row))}, column {shown(names[kept[column]])} of {label}"
            if np.isinf(values[row, column]):
                check.refuse("data", f"{values[row, column]} in {where}", "finite numbers")
            if missing == "refuse":
                count = int(np.isnan(values).sum())
                cells = f"a missing cell in {where}" + (f" ({count:,} in all)" if count > 1 else "")
                check.refuse("data", cells, "numbers only; missing cells are summed out with missing=keep")
        if missing != "refuse" and not np.isinf(values).any():
            return


def _small(values: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest of three types: JAX has no others, and would wrap what is beyond 32 bits."""
    if values.dtype.kind == "b":
        return values.astype(np.uint8)
    whole = values.dtype.kind in "iu" or bool(np.isfinite(values).all() and (values == np.rint(values)).all())
    if not whole:
        return values
    low, high = values.min(), values.max()
    for kind in (np.uint8, np.int8, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return values.astype(kind)
    return values.astype(np.float64)
