"""What a command is told of each example besides its features: weights and labels, from a file, an array, a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from equilibria import check
from equilibria.data.tables.reading import read_column

_SEVERAL = (".npz", ".h5", ".hdf5", ".hdf", ".h5ad", ".he5")  # files that hold several arrays


def is_column(given: str | None, data: Path) -> bool:
    """Whether a name can only be that of a column: there is no such file, and the table's file holds no other arrays.

    >>> is_column("dose", Path("t.csv")), is_column("dose", Path("t.npz")), is_column(None, Path("t.csv"))
    (True, False, False)
    """
    return given is not None and not Path(given).is_file() and data.suffix.lower() not in _SEVERAL


def one_for_each(argument: str, given: str, data: Path, rows: int, allow_large: bool) -> np.ndarray:
    """A number or word for each example.

    Args:
        argument: what it is for.
        given: a file; else an array in the table's file; else a column of the table.
        data: the table's file.
        rows: how many examples there are.
        allow_large: whether what is packed may take more than 2 GiB of memory.

    Returns:
        (rows,), numbers or words.

    Raises:
        ValueError: if there is no such thing, or it has another length.
    """
    where: dict[str, Any] = {"column": given} if is_column(given, data) else {"array": given}
    try:
        if Path(given).is_file():
            return read_column(Path(given), rows, allow_large=allow_large)
        return read_column(data, rows, allow_large=allow_large, **where)
    except ValueError as error:
        told = str(error)
        for name in ("data", "array", "column"):
            told = told.replace(f"{name}: got ", f"{argument}: got ", 1) if told.startswith(f"{name}: got ") else told
        raise ValueError(told) from error


def weights(given: str | None, data: Path, rows: int, allow_large: bool) -> np.ndarray | None:
    """How much each example counts; None where all count the same."""
    if given is None:
        return None
    found = one_for_each("weights", given, data, rows, allow_large)
    if found.dtype.kind not in "fiub":
        word = next(word for word in found.tolist() if not word.replace(".", "", 1).isdigit())
        check.refuse("weights", repr(word), "numbers >= 0, one for each example")
    numbers = np.asarray(found, np.float64)
    if (wrong := numbers[~(np.isfinite(numbers) & (numbers >= 0))]).size:
        check.refuse("weights", f"{wrong[0]:g}", "numbers >= 0, one for each example")
    if not numbers.any():
        check.refuse("weights", "no weight above zero", "at least one")
    return numbers


def labels(given: str, data: Path, rows: int, allow_large: bool) -> np.ndarray:
    """What is to be predicted of each example, from an array or file of its own."""
    if is_column(given, data):
        allowed = "a file, or an array in the table's own file; a column of the table is target=NAME"
        check.refuse("labels", repr(given), allowed)
    return one_for_each("labels", given, data, rows, allow_large)


def as_words(values: np.ndarray) -> np.ndarray:
    """Labels as words, whole numbers alike whatever file they came from.

    >>> as_words(np.array([1.0, 2.0])).tolist(), as_words(np.array(["a", "b"])).tolist()
    (['1', '2'], ['a', 'b'])
    """
    if values.dtype.kind == "f" and (values == np.round(values)).all():
        values = values.astype(np.int64)
    return values.astype(str)
