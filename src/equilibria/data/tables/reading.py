"""`read_table`: numbers with the names of their columns, from any file, frame or array that people have."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from equilibria import check
from equilibria.data.tables import columns as choosing
from equilibria.data.tables.kinds import Kind, kind_of, picture_of
from equilibria.data.tables.raw import Raw, check_size, of_array, refuse_shape, refusing
from equilibria.data.tables.values import numbers

_HINTS: dict[str | None, str] = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "; save a spreadsheet as .csv"),
    **dict.fromkeys((".zip", ".bz2", ".xz", ".zst"), "; unpack it first"),
    ".mtx": "; what scipy.io.mmread returns is a table too",
    None: "; say name='table.csv'",
}
_TEXT = (".csv", ".tsv", ".tab", ".txt", ".dat", ".csv.gz", ".tsv.gz", ".txt.gz")


class Table(NamedTuple):
    r"""A table of numbers.

    Attributes:
        values: (examples, features), in 8 or 32 bits or floating point; missing cells, where they are kept, are NaN.
        names: of the features; "1", "2", ... where there are none.
        named: whether the names are the table's own.
        ids: one for each example, where the table has a column of them.
        target: one for each example, where a column of the table is to be predicted.
        dropped: the columns that were left out, each with the reason.
        image_shape: (height, width) where each example is a picture.
        notes: sentences about what was decided on the way.

    >>> import io
    >>> table = read_table(io.BytesIO(b"id;a;b\nx1;0;1\nx2;1;1\n"), name="t.csv")
    >>> table.names, table.values.tolist(), table.dropped, table.kind
    (('a', 'b'), [[0, 1], [1, 1]], {'id': 'an ID'}, 'bits')
    """

    values: np.ndarray
    names: tuple[str, ...]
    named: bool
    ids: np.ndarray | None
    target: np.ndarray | None
    dropped: Mapping[str, str]
    image_shape: tuple[int, int] | None
    notes: tuple[str, ...]

    @property
    def kind(self) -> Kind:
        """What the numbers are: "bits", "spins", "grey" (between 0 and 1), "counts" (whole, from 0) or "real"."""
        return kind_of(self.values)


def read_table(
    source: Any,
    *,
    name: str | None = None,
    array: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = "auto",
    target: str | None = None,
    header: bool | None = None,
    missing: Literal["refuse", "keep"] = "refuse",
    image_shape: tuple[int, int] | None = None,
    allow_large: bool = False,
) -> Table:
    """Read a table of numbers, with the names of its columns.

    Text may be separated by commas, tabs, semicolons, bars or spaces, and packed by gzip. An HDF5 file may be AnnData's,
    whose X is taken, sparse or not. Nothing in a file is executed, and no link out of it is followed.

    Args:
        source: the path of a .csv, .tsv, .txt, .npy, .npz, .h5, .h5ad or .parquet file; an open file; a frame of pandas or
            polars, an AnnData, columns by name; an array, or a sparse matrix of SciPy.
        name: the file's name, for an open file that does not know its own; its ending says what it is.
        array: which of several arrays in a file, such as "layers/counts".
        columns: the features, by name, or as ranges "first:last"; all by default.
        drop: columns to leave out, likewise.
        id_column: the column that tells the rows apart, which is no feature. "auto" looks for one and leaves it out with a
            note; None says that there is none.
        target: a column that is to be predicted: words or numbers, and no feature.
        header: whether the first line of a text holds names; None finds out.
        missing: "refuse" cells without a number, or "keep" them as NaN.
        image_shape: (height, width), where each example is a picture.
        allow_large: whether what is packed may take more than 2 GiB of memory.

    Returns:
        The numbers, their names, what was left out, and notes on what was decided.

    Raises:
        ValueError: if there is no table, or a cell is no number: the message names the row and the column.

    >>> import pandas as pd
    >>> read_table(pd.DataFrame({"dose": [0.5, 1.5], "sex": [0, 1]})).names
    ('dose', 'sex')
    >>> read_table(pd.DataFrame({"dose": [0.5, None]}))
    Traceback (most recent call last):
    ValueError: data: got a missing cell in row 2, column 'dose' of the frame; allowed: numbers only; ...
    """
    check.choice("missing", missing, ("refuse", "keep"))
    if not (header is None or isinstance(header, bool)):
        check.refuse("header", repr(header), "True where the first line holds names, False, or None to find out")
    raw, label = _raw(source, name, array, header, allow_large)
    if raw.flat:
        refuse_shape(label, raw.cells.shape[:1])
    count = raw.cells.shape[1]
    names = [str(place + 1) for place in range(count)] if raw.names is None else raw.names
    found = choosing.choose(raw, names, columns, drop, id_column, target, label)
    values = numbers(raw, names, found.kept, missing, label)
    kept = tuple(names[place] for place in found.kept)
    whole = raw.image_shape if len(kept) == count else None
    shape = picture_of(values, kept, raw.names is not None, image_shape or whole)
    notes = (*raw.notes, *found.notes)
    return Table(values, kept, raw.names is not None, found.ids, found.target, found.dropped, shape, notes)


def read_column(
    source: Any, rows: int, *, array: str | None = None, column: str | None = None, allow_large: bool = False
) -> np.ndarray:
    """Read one number or word for each example of a table: labels, or weights.

    Args:
        source: as for `read_table`, or an array of one axis.
        rows: how many examples there are; a text with one line more has a line of names.
        array: which of several arrays in a file.
        column: which of several columns; one that is alone needs no name.
        allow_large: whether what is packed may take more than 2 GiB of memory.

    Returns:
        (rows,), numbers where all are numbers, else words.

    Raises:
        ValueError: if there is no such column, or it has another length.

    >>> import pandas as pd
    >>> read_column(np.array([1.0, 2.5]), 2), read_column(pd.DataFrame({"x": [1, 2], "kind": ["a", "b"]}), 2, column="kind")
    (array([1. , 2.5]), array(['a', 'b'], dtype='<U1'))
    """
    raw, label = _raw(source, None, array, False if column is None else None, allow_large)
    names = raw.names or [str(place + 1) for place in range(raw.cells.shape[1])]
    if column is None and len(names) > 1:
        check.refuse("data", f"{label} with {len(names)} columns", "one number or word for each example")
    found = choosing.cells(raw, 0 if column is None else choosing.place_of(names, column, "column", label))
    if raw.lines is not None and column is None and len(found) == rows + 1:
        found = found[1:]  # below a line of names
    if len(found) != rows:
        check.refuse("data", f"{label} with {len(found):,} of them", f"one for each of the {rows:,} examples")
    return _words_or_numbers(found, label)


def _words_or_numbers(values: np.ndarray, label: str) -> np.ndarray:
    """The cells of a column as numbers if all are numbers, else as words; none may be missing.

    >>> _words_or_numbers(np.array(["1", "2"], object), "a"), _words_or_numbers(np.array([2, "b"], object), "a")
    (array([1, 2]), array(['2', 'b'], dtype='<U1'))
    """
    import pandas as pd

    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        check.refuse("data", f"a missing cell in row {missing[0] + 1} of {label}", "one value for each example")
    numbers = pd.to_numeric(pd.Series(values), errors="coerce")
    return values.astype(str) if numbers.isna().any() else numbers.to_numpy()


def _raw(source: Any, name: str | None, array: str | None, header: bool | None, allow_large: bool) -> tuple[Raw, str]:
    """The table as it stands in its source, and what to call that."""
    from scipy import sparse

    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        if not path.is_file():
            check.refuse("data", str(source), f"an existing file {_endings()}")
        with path.open("rb") as file:
            return _read(file, path.name if name is None else name, array, header, allow_large), str(path)
    if isinstance(source, (bytes, bytearray)):
        source = io.BytesIO(source)
    if hasattr(source, "read"):
        label = str(name or getattr(source, "name", ""))
        if isinstance(source, io.TextIOBase):
            source = io.BytesIO(source.read().encode())
        return _read(source, label, array, header, allow_large), label
    if hasattr(source, "collect"):  # polars' lazy frame
        source = source.collect()
    if hasattr(source, "var_names") and hasattr(source, "obs_names"):
        return _of_anndata(source, array, allow_large), "the AnnData"
    if isinstance(source, Mapping) or (isinstance(source, list) and source and isinstance(source[0], Mapping)):
        import pandas as pd

        with refusing("a mapping", "columns of one length by name"):
            source = pd.DataFrame(source)
    if hasattr(source, "columns") and hasattr(source, "__getitem__"):
        return _of_frame(source), "the frame"
    if sparse.issparse(source):
        from equilibria.data.tables.arrays import filled

        return of_array(filled(source, "the matrix", allow_large), "the matrix"), "the matrix"
    with refusing("what is no array", "a table of numbers"):
        return of_array(np.asarray(source), "the array"), "the array"


def _of_anndata(source: Any, array: str | None, allow_large: bool) -> Raw:
    """X of an AnnData in memory, or one of its layers, with the names of variables and observations."""
    from scipy import sparse

    from equilibria.data.tables.arrays import filled

    layer = None if array in (None, "X") else str(array).removeprefix("layers/")
    if layer is not None and layer not in source.layers:
        check.refuse("array", f"{array!r}, which the AnnData does not hold", ", ".join(["X", *source.layers]))
    values = source.X if layer is None else source.layers[layer]
    values = filled(values, "the AnnData", allow_large) if sparse.issparse(values) else np.asarray(values)
    raw = of_array(values, "the AnnData")
    return raw._replace(names=[str(name) for name in source.var_names], ids=np.asarray(source.obs_names))


def _read(file: IO[bytes], label: str, array: str | None, header: bool | None, allow_large: bool) -> Raw:
    ending = "".join(Path(label).suffixes[-2:]).lower()
    ending = ending if ending in _readers() or ending in _TEXT else Path(label).suffix.lower()
    if ending in _TEXT:
        from equilibria.data.tables.text import read_text

        if array is not None:
            check.refuse("array", repr(array), f"none, for {label} holds one table")
        return read_text(file, label, header, allow_large)
    reader = _readers().get(ending)
    if reader is None:
        hint = _HINTS.get(ending if label else None, "")
        check.refuse("data", f"{label or 'a file without a name'}", f"a file {_endings()}{hint}")
    return reader(file, label, array, allow_large)


def _readers() -> dict[str, Callable[[IO[bytes], str, str | None, bool], Raw]]:
    from equilibria.data.tables.arrays import read_npy, read_npz

    return {
        ".npy": read_npy,
        ".npz": read_npz,
        **dict.fromkeys((".h5", ".hdf5", ".hdf", ".h5ad", ".he5"), _hdf5),
        **dict.fromkeys((".parquet", ".pq"), _parquet),
    }


def _endings() -> str:
    return ", ".join(("'.csv'", "'.tsv'", "'.txt'", "'.npy'", "'.npz'", "'.h5'", "'.h5ad'")) + " or '.parquet'"


def _hdf5(file: IO[bytes], label: str, array: str | None, allow_large: bool) -> Raw:
    from equilibria.data.tables.hdf5 import read_hdf5

    return read_hdf5(file, label, array, allow_large)


def _parquet(file: IO[bytes], label: str, array: str | None, allow_large: bool) -> Raw:
    try:
        from pyarrow import parquet
    except ImportError:
        check.refuse("data", f"{label}, which needs pyarrow to be read", "pip install 'equilibria[tables]' first")
    if array is not None:
        check.refuse("array", repr(array), f"none, for {label} holds one table")
    with refusing(label, "a Parquet file of numbers"):
        packed = parquet.ParquetFile(file)
        check_size(label, packed.metadata.num_rows * packed.metadata.num_columns * 8, allow_large)
        groups = (packed.metadata.row_group(place).total_byte_size for place in range(packed.num_row_groups))
        check_size(label, sum(groups), allow_large)
        return _of_frame(packed.read().to_pandas())


def _of_frame(frame: Any) -> Raw:
    """A frame of pandas as it is, one of polars column by column; an index that says something are the IDs."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        frame = pd.DataFrame({str(name): _cells(frame[name]) for name in frame.columns})
    if 0 in frame.shape:
        check.refuse("data", f"a frame of shape {frame.shape}", "a table (examples, features), not empty")
    ids = None if isinstance(frame.index, pd.RangeIndex) else frame.index.to_numpy()
    names = [str(name) for name in frame.columns]
    named = not isinstance(frame.columns, pd.RangeIndex)
    return Raw(frame, names if named else None, ids)


def _cells(column: Any) -> Any:
    values = column.to_numpy()
    return values if values.dtype.kind in "fiub" else np.asarray(column.to_list(), object)
