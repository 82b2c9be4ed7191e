"""Tables in HDF5 files: plain arrays, and the matrix of an AnnData or a 10x file, sparse or not. Links are not followed out."""

from __future__ import annotations

import math
from typing import IO, Any

import h5py
import numpy as np

from equilibria import check
from equilibria.data.tables.arrays import filled
from equilibria.data.tables.raw import Raw, check_size, chosen, of_array, refusing

_PARTS = {"data", "indices", "indptr"}
_ALLOWED = "an HDF5 file with a table of numbers"


def read_hdf5(file: IO[bytes], label: str, array: str | None, allow_large: bool) -> Raw:
    """The table in an HDF5 file, X where it is AnnData's, with the names of variables and observations."""
    with refusing(label, _ALLOWED), h5py.File(file, "r") as root:
        annotated = "X" in root and {"obs", "var"} <= set(root)
        path = ("X" if annotated else chosen(label, _tables(root), None)) if array is None else array
        values = _values(_followed(root, path, label), f"{label} at {path}", allow_large)
        raw = of_array(values, f"{label} at {path}")
        if annotated:
            names, ids = (_index(root, axis, label, allow_large) for axis in ("var", "obs"))
            names = names if names is not None and len(names) == raw.cells.shape[1] else None
            ids = ids if ids is not None and len(ids) == len(raw.cells) else None
            return raw._replace(names=None if names is None else [str(name) for name in names], ids=ids)
        if "matrix" in path.split("/")[-1:] and _PARTS | {"barcodes"} <= set(_followed(root, path, label)):
            return _named_10x(_followed(root, path, label), raw, label, allow_large)
        return raw


def _tables(root: h5py.Group) -> list[str]:
    """The paths of all arrays and sparse matrices; what is behind links is not looked at."""
    found: list[str] = []

    def look(group: h5py.Group, before: str) -> None:
        for name in group:
            path = f"{before}{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                found.append(path)  # asked for by name it is followed, or refused in a sentence
                continue
            thing = group[name]
            if isinstance(thing, h5py.Dataset) or set(thing) >= _PARTS:
                found.append(path)
            else:
                look(thing, f"{path}/")

    look(root, "")
    return found


def _followed(root: h5py.Group, path: str, label: str) -> Any:
    """What is at a path, if every step of the way stays in the file."""
    here: Any = root
    for step in (part for part in path.split("/") if part):
        link = here.get(step, getlink=True) if isinstance(here, h5py.Group) else None
        if link is None:
            check.refuse("array", f"{path!r}, which {label} does not hold", f"one of {', '.join(_tables(root)[:20])}")
        if isinstance(link, h5py.ExternalLink):
            given = f"{label}, whose {path!r} is a link to another file, {link.filename}"
            check.refuse("data", given, "a table in the file itself: links to other files are not followed")
        if isinstance(link, h5py.SoftLink):
            if link.path.strip("/") == path.strip("/"):
                check.refuse("data", f"{label}, whose {path!r} is a link to itself", _ALLOWED)
            target, whole = f"{here.name}/{link.path}", here.file["/"]
            target = link.path if link.path.startswith("/") else target
            if target not in whole:
                check.refuse("data", f"{label}, whose {path!r} is a link to {link.path}, which is not there", _ALLOWED)
            here = _followed(whole, target, label)
        else:
            here = here[step]
    return here


def _values(thing: Any, label: str, allow_large: bool) -> np.ndarray:
    if isinstance(thing, h5py.Dataset):
        if thing.is_virtual or thing.external:
            check.refuse("data", f"{label}, whose numbers are in another file", "a table in the file itself")
        if thing.shape is None:
            check.refuse("data", f"{label}, which is empty", _ALLOWED)
        check_size(label, math.prod(thing.shape) * thing.dtype.itemsize, allow_large)
        values = np.asarray(thing)
        return values if h5py.check_string_dtype(thing.dtype) is None else _text(values)
    for parts, column in ((("categories", "codes"), _categories), (("values", "mask"), _masked)):
        if isinstance(thing, h5py.Group) and set(thing) >= set(parts):
            return column(*(_array(thing, part, label, allow_large) for part in parts))
    if not isinstance(thing, h5py.Group) or not set(thing) >= _PARTS:
        given = f"{label}, a group with {', '.join(list(thing)[:8]) or 'nothing in it'}"
        check.refuse("array", given, "an array or a sparse matrix")
    return _matrix(thing, label, allow_large)


def _categories(categories: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """A column of words as AnnData keeps it: the words once, and their numbers in each row; -1 where there is none.

    >>> _categories(np.array(["B", "T"]), np.array([1, 0, -1]))
    array(['T', 'B', None], dtype=object)
    """
    return _masked(categories[codes], codes < 0)


def _masked(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A column with cells that are missing, as AnnData keeps it.

    >>> _masked(np.array([3, 0]), np.array([False, True]))
    array([3, None], dtype=object)
    """
    if not mask.any():
        return values
    kept = values.astype(object)
    kept[mask] = None
    return kept


def _matrix(group: h5py.Group, label: str, allow_large: bool) -> np.ndarray:
    """A sparse matrix as AnnData keeps it, or as 10x does (genes by cells, by columns)."""
    from scipy import sparse

    data, indices, indptr = (_array(group, part, label, allow_large) for part in sorted(_PARTS))
    attributes = dict(group.attrs)
    encoding = str(attributes.get("encoding-type", attributes.get("h5sparse_format", "csc")))
    shape = attributes.get("shape", attributes.get("h5sparse_shape"))
    if shape is None and "shape" in set(group):
        shape = _array(group, "shape", label, allow_large)
    if shape is None or len(shape) != 2:
        check.refuse("data", f"{label}, a sparse matrix without its shape", _ALLOWED)
    kind = sparse.csr_array if "csr" in encoding else sparse.csc_array
    matrix = kind((data, indices, indptr), shape=tuple(int(size) for size in shape))
    return filled(matrix.T if "barcodes" in group else matrix, label, allow_large)


def _array(group: h5py.Group, path: str, label: str, allow_large: bool) -> np.ndarray:
    """The numbers or texts at a path, if they are in the file itself."""
    return _values(_followed(group, path, label), label, allow_large)


def _index(root: h5py.Group, axis: str, label: str, allow_large: bool) -> np.ndarray | None:
    """The names along an axis of an AnnData file, old or new."""
    table = _followed(root, axis, label)
    if isinstance(table, h5py.Dataset):  # before 2019: records
        fields = table.dtype.names or ()
        return _text(_array(root, axis, label, allow_large)[fields[0]]) if fields else None
    key = table.attrs.get("_index", "_index" if "_index" in set(table) else "index")
    key = key.decode() if isinstance(key, bytes) else str(key)
    found = _followed(table, key, label) if key in set(table) else None
    return _text(_values(found, label, allow_large)) if isinstance(found, h5py.Dataset) else None


def _named_10x(group: h5py.Group, raw: Raw, label: str, allow_large: bool) -> Raw:
    features = _followed(group, "features", label) if "features" in set(group) else {}
    names = _text(_array(features, "name", label, allow_large)) if "name" in set(features) else None
    ids = _text(_array(group, "barcodes", label, allow_large))
    return raw._replace(names=None if names is None else list(names), ids=ids)


def _text(values: np.ndarray) -> np.ndarray:
    words = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.ravel()]
    return np.array(words, str).reshape(values.shape)
