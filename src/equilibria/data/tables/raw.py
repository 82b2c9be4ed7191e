"""A table as a file has it, before columns are chosen and cells are numbers; and what all readers refuse alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from equilibria import check

MOST_BYTES = 2**31  # what is packed in a file may take so much memory, unless `allow_large` says otherwise


class Raw(NamedTuple):
    """A table as it was found.

    Attributes:
        cells: (rows, columns), a NumPy array of numbers or a pandas frame of anything.
        names: of the columns; None where the file has none.
        ids: one for each row, where the file keeps them apart from the columns.
        image_shape: (height, width) where an example was a picture.
        notes: sentences about what was decided on the way.
        lines: the line of the file that each row stands in, for text.
        flat: whether it was one number or word for each row, and no table.
    """

    cells: Any
    names: list[str] | None = None
    ids: np.ndarray | None = None
    image_shape: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()
    lines: np.ndarray | None = None
    flat: bool = False

    def place(self, row: int) -> str:
        """Where a row is, as a person would look for it: lines and rows are counted from one."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def check_size(label: str, size: int, allow_large: bool) -> None:
    """Refuse what would take more memory than a table should, before it is unpacked.

    Args:
        label: whose table it is.
        size: in bytes, once unpacked.
        allow_large: whether any size is fine.

    Raises:
        ValueError: if it is too large.

    >>> check_size("bomb.npz", 2**40, False)
    Traceback (most recent call last):
    ValueError: data: got bomb.npz, whose table takes 1,024.0 GiB unpacked; allowed: up to 2 GiB, more with allow_large=True
    """
    if size > MOST_BYTES and not allow_large:
        given = f"{label}, whose table takes {size / 2**30:,.1f} GiB unpacked"
        check.refuse("data", given, f"up to {MOST_BYTES // 2**30} GiB, more with allow_large=True")


@contextlib.contextmanager
def refusing(label: str, allowed: str) -> Iterator[None]:
    """Turn whatever a parser raises over a file that it cannot read into one sentence.

    Args:
        label: the file.
        allowed: what it should have been.

    Yields:
        Nothing: errors inside the block are turned.

    >>> with refusing("a.npy", "a .npy file"):
    ...     raise EOFError("No data left")
    Traceback (most recent call last):
    ValueError: data: got a.npy, which cannot be read (No data left); allowed: a .npy file
    """
    try:
        yield
    except MemoryError as error:
        raise ValueError(f"data: got {label}, for which there is not enough memory; allowed: {allowed}") from error
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(("data: got", "array: got")):
            raise  # said already
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        given = f"{label}, which cannot be read ({reason.strip()})"
        raise ValueError(f"data: got {given}; allowed: {allowed}") from error


def chosen(label: str, names: list[str], name: str | None) -> str:
    """The array that is meant, of those in a file.

    Args:
        label: the file.
        names: of the arrays in it.
        name: the one asked for, None for the only one.

    Returns:
        Its name.

    Raises:
        ValueError: if there is no such array, or several and none was named.

    >>> chosen("a.npz", ["rows"], None)
    'rows'
    """
    listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    if not names:
        check.refuse("data", f"{label}, which holds no array", "a file with one")
    if name is None and len(names) > 1:
        check.refuse("array", f"none, for {label} with several", f"array=NAME, one of {listed}")
    if name is not None and name not in names:
        check.refuse("array", f"{name!r}, which {label} does not hold", listed)
    return names[0] if name is None else name


def of_array(values: np.ndarray, label: str) -> Raw:
    """A table from an array of any number of axes, the examples on the first.

    Args:
        values: numbers, or records with named fields.
        label: whose they are.

    Returns:
        The table; an array of one axis is a column.

    Raises:
        ValueError: if the array holds no numbers or words for several examples.

    >>> of_array(np.zeros((5, 2, 3)), "a").cells.shape, of_array(np.zeros((5, 2, 3)), "a").image_shape
    ((5, 6), (2, 3))
    """
    if values.dtype.names is not None:
        import pandas as pd

        return Raw(pd.DataFrame({name: values[name] for name in values.dtype.names}), list(values.dtype.names))
    if values.ndim < 1 or 0 in values.shape:
        refuse_shape(label, values.shape)
    picture = values.shape[1:] if values.ndim == 3 else None
    return Raw(values.reshape(len(values), -1), image_shape=picture, flat=values.ndim == 1)


def refuse_shape(label: str, shape: tuple[int, ...]) -> NoReturn:
    """Say that an array of this shape is no table."""
    check.refuse("data", f"{label} with shape {shape}", "a table (examples, features), not empty")
