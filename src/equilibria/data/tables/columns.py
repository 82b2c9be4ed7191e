"""Which columns of a table are features: those asked for, without an ID, and all of them numbers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equilibria import check
from equilibria.data.tables.raw import Raw
from equilibria.data.tables.values import as_numbers, shown

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
            notes.append(f"column {shown(names[place])} is left out: an ID, another value in every row")
        notes += _doubtful(raw, names, left)
    for place in kept:
        nameless = not names[place] or (raw.names is None and raw.lines is not None and place == len(names) - 1)
        if nameless and names[place] not in dropped and _all_missing(raw, place):  # a separator at the end of each line
            dropped[names[place]] = "empty"
    kept = [place for place in kept if names[place] not in dropped]
    if not kept:
        check.refuse("columns", f"none that is left of {label}", "at least one feature")
    return Chosen(kept, ids, targets, dropped, notes)


def _found(names: list[str], wanted: Sequence[str], argument: str, label: str) -> list[int]:
    """The places of columns by name, or of all from one to another; a single name need not stand in a list."""
    wanted = [wanted] if isinstance(wanted, str) else wanted
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
        listed = ", ".join(map(shown, close)) + (", ..." if len(names) > len(close) else "")
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
        if values.dtype.kind in "OUSTMm":
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
    name = shown(names[places[0]])
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

    if values.dtype.kind in "Mm":  # pandas would count nanoseconds
        return False
    shares = [str(cell).removesuffix("%") for cell in values]
    return not np.isnan(as_numbers(pd.Series(shares))).all()


def _whole(values: np.ndarray) -> bool:
    if values.dtype.kind in "iu":
        return True
    if values.dtype.kind != "f":
        return False
    return bool(np.isfinite(values).all() and (values == np.round(values)).all())


def _bits(values: np.ndarray) -> bool:
    return bool(np.isin(values, (-1, 0, 1)).all())
