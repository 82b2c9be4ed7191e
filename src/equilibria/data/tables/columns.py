"""Which columns of a table are features: those asked for, without an ID, and all of them numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from equilibria import check
from equilibria.data.tables.raw import Raw

# What people call a column that tells one row from another.
_ID = re.compile(
    r"|(.*[\s_.\-])?(id|ids|uuid|guid)|(id|uuid)[\s_.\-].*|idx|index|row([\s_.\-]?(names?|numbers?|id))?|nr|no\.?|#|unnamed: 0"
    r"|(sample|cell|patient|subject|participant|specimen|record|case)([\s_.\-]?(id|name|number|no))?"
    r"|names?|label|barcodes?|accession",
    re.IGNORECASE,
)
_CAMEL = re.compile(r".*[a-z](ID|Id)")  # PatientID, and not lipid
_FEW = 10  # with fewer rows, whole numbers that differ from row to row say little


class Chosen(NamedTuple):
    """What is kept of a table.

    Attributes:
        kept: the numbers of the columns.
        ids: one for each row, if there are any.
        target: what is to be predicted of each row, if a column says it.
        dropped: the columns that were left out, with the reason.
        notes: sentences about what was decided.
    """

    kept: list[int]
    ids: np.ndarray | None
    target: np.ndarray | None
    dropped: dict[str, str]
    notes: list[str]


def choose(
    raw: Raw,
    names: list[str],
    columns: Sequence[str] | None,
    drop: Sequence[str],
    id_column: str | None,
    target: str | None,
    label: str,
) -> Chosen:
    """The columns that are features.

    Args:
        raw: the table.
        names: of its columns.
        columns: those wanted, by name or as ranges "first:last"; None for all.
        drop: those not wanted, likewise.
        id_column: the one that holds IDs; "auto" looks for it, None says that there is none.
        target: the one that is to be predicted.
        label: whose table it is.

    Returns:
        What is kept and what is not.

    Raises:
        ValueError: if there is no such column, or nothing is left.
    """
    dropped: dict[str, str] = {}
    notes: list[str] = []
    ids = raw.ids
    kept = list(range(len(names))) if columns is None else _found(names, columns, "columns", label)
    for column in _found(names, drop, "drop", label):
        dropped[names[column]] = "not wanted"
    targets = None
    if target is not None:
        place = place_of(names, target, "target", label)
        targets, dropped[names[place]] = cells(raw, place), "the target"
    if id_column not in (None, "auto"):
        place = place_of(names, str(id_column), "id_column", label)
        ids, dropped[names[place]] = cells(raw, place), "the ID"
    elif id_column == "auto" and columns is None:
        left = [place for place in kept if names[place] not in dropped]
        for place in _ids(raw, names, left):
            if len(left) < 2:
                break
            ids = cells(raw, place) if ids is None else ids
            dropped[names[place]] = "an ID"
            left.remove(place)
            notes.append(f"column {_shown(names[place])} is left out: an ID, another value in every row")
        notes += _doubtful(raw, names, left)
    for place in kept:
        if not names[place] and names[place] not in dropped and _all_missing(raw, place):
            dropped[names[place]] = "empty"
    kept = [place for place in kept if names[place] not in dropped]
    if not kept:
        check.refuse("columns", f"none that is left of {label}", "at least one feature")
    return Chosen(kept, ids, targets, dropped, notes)


def _found(names: list[str], wanted: Sequence[str], argument: str, label: str) -> list[int]:
    """The places of columns by name, or of all from one to another."""
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    found: list[int] = []
    for name in map(str, wanted):
        if name in places:
            found.append(places[name])
            continue
        first, colon, last = name.partition(":")
        if colon and (not first or first in places) and (not last or last in places):
            start, stop = places.get(first, 0), places.get(last, len(names) - 1)
            found += range(start, stop + 1)
            continue
        close = difflib.get_close_matches(name, names, 3) or names[:8]
        listed = ", ".join(map(_shown, close)) + (", ..." if len(names) > len(close) else "")
        check.refuse(argument, f"{name!r}, which {label} does not have", f"columns such as {listed}")
    return list(dict.fromkeys(found))


def place_of(names: list[str], name: str, argument: str, label: str) -> int:
    """The place of one column by its name."""
    places = _found(names, [name], argument, label)
    if len(places) != 1:
        check.refuse(argument, f"{name!r}, {len(places)} columns of {label}", "the name of one column")
    return places[0]


def _ids(raw: Raw, names: list[str], places: list[int]) -> list[int]:
    """The columns that look like IDs: words that all differ, distinct values under such a name, or rows counted."""
    found = []
    for place in places:
        values = cells(raw, place)
        if values.dtype.kind in "OUSTM":
            distinct = len(set(map(str, values))) == len(values) and len(values) > 1
            if distinct and not _numeric(values) and (place == places[0] or _named_id(raw, names, place)):
                found.append(place)
        elif raw.names is not None and _named_id(raw, names, place):
            if _whole(values) and len(np.unique(values)) == len(values) > 1 and not _bits(values):
                found.append(place)
        elif place == places[0] and len(values) >= _FEW and _whole(values):
            steps = np.diff(np.asarray(values, float))
            if values[0] in (0, 1) and (steps == 1).all():
                found.append(place)
    return found


def _named_id(raw: Raw, names: list[str], place: int) -> bool:
    name = names[place].strip()
    return raw.names is not None and bool(_ID.fullmatch(name) or _CAMEL.fullmatch(name))


def _doubtful(raw: Raw, names: list[str], places: list[int]) -> list[str]:
    """A sentence where the first column may be an ID and nothing but its numbers says so."""
    if not places:
        return []
    values = cells(raw, places[0])
    if values.dtype.kind not in "iuf" or len(values) < _FEW or len(places) < 2 or not _whole(values):
        return []
    if len(np.unique(values)) < len(values) or np.max(values) < 2 * len(values):
        return []
    name = _shown(names[places[0]])
    return [f"column {name} has another whole number in every row: if it is an ID, say id_column={names[places[0]]}"]


def cells(raw: Raw, place: int) -> np.ndarray:
    """A column as it stands in the table."""
    if isinstance(raw.cells, np.ndarray):
        return raw.cells[:, place]
    return raw.cells.iloc[:, place].to_numpy()


def _all_missing(raw: Raw, place: int) -> bool:
    import pandas as pd

    return bool(pd.isna(cells(raw, place)).all())


def _numeric(values: np.ndarray) -> bool:
    import pandas as pd

    return not np.isnan(_as_numbers(pd.Series(values))).all()


def _whole(values: np.ndarray) -> bool:
    if values.dtype.kind in "iu":
        return True
    if values.dtype.kind != "f":
        return False
    return bool(np.isfinite(values).all() and (values == np.round(values)).all())


def _bits(values: np.ndarray) -> bool:
    return bool(np.isin(values, (-1, 0, 1)).all())


def _shown(name: str) -> str:
    return repr(name) if name else "without a name"


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
    if all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in frame.dtypes):
        return _plain(frame.to_numpy(), label)
    columns = [_of_series(raw, names[place], raw.cells.iloc[:, place], label) for place in kept]
    return _plain(np.column_stack(columns), label)


def _of_series(raw: Raw, name: str, series: Any, label: str) -> np.ndarray:
    """A column of anything as numbers; missing cells are NaN."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
        return series.to_numpy()
    if series.dtype.kind in "fiub":  # pandas' own types, with cells that may be missing
        return series.to_numpy(np.float64, na_value=np.nan)
    cells = series.astype(object)
    values = _as_numbers(cells.map(lambda cell: {"true": 1, "false": 0}.get(str(cell).strip().lower(), cell)))
    wrong = np.flatnonzero(np.isnan(values) & cells.notna().to_numpy())
    if wrong.size:
        place, word = raw.place(int(wrong[0])), str(cells.iloc[int(wrong[0])])
        given = f"{word[:40]!r} in {place}, column {_shown(name)} of {label}"
        check.refuse("data", given, f"numbers; a column of words is left out with drop={name or '...'}")
    return values


def _as_numbers(cells: Any) -> np.ndarray:
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
            where = f"{raw.place(int(row))}, column {_shown(names[kept[column]])} of {label}"
            if np.isinf(values[row, column]):
                check.refuse("data", f"{values[row, column]} in {where}", "finite numbers")
            if missing == "refuse":
                count = int(np.isnan(values).sum())
                cells = f"a missing cell in {where}" + (f" ({count:,} in all)" if count > 1 else "")
                check.refuse("data", cells, "numbers only; missing cells are summed out with missing=sum-out")
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
