"""Tables in NumPy's own files, and in those that SciPy keeps sparse matrices in."""

from __future__ import annotations

import math
import zipfile
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from equilibria import check
from equilibria.data.tables.raw import Raw, check_size, chosen, of_array, refusing

_SPARSE = {"data", "format", "shape"}


def read_npy(file: IO[bytes], label: str, array: str | None, allow_large: bool) -> Raw:
    """The table in a .npy file; what it says of its size is compared with its length before memory is taken."""
    if array is not None:
        check.refuse("array", repr(array), f"none, for {label} holds one array without a name")
    with refusing(label, "a .npy file of numbers"):
        length = file.seek(0, 2)
        file.seek(0)
        if not length:
            check.refuse("data", f"{label}, which is empty", "a .npy file of numbers")
        return of_array(_loaded(file, length, label), label)


def read_npz(file: IO[bytes], label: str, array: str | None, allow_large: bool) -> Raw:
    """The table in a .npz file; a sparse matrix, as `scipy.sparse.save_npz` writes it, is filled up with zeros."""
    with refusing(label, "a .npz file of numbers"), zipfile.ZipFile(file) as packed:
        members = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}
        if array is None and members.keys() >= _SPARSE:
            return _sparse(file, label, sum(info.file_size for info in members.values()), allow_large)
        member = members[chosen(label, list(members), array)]
        check_size(label, member.file_size, allow_large)
        with packed.open(member) as stream:
            return of_array(_loaded(stream, member.file_size, label), label)


def _loaded(stream: IO[bytes], length: int, label: str) -> np.ndarray:
    version = npy.read_magic(stream)
    reader: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = reader(stream)
    size = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and size > length:
        given = f"{label}, whose header speaks of {size:,} bytes where there are {length:,}"
        check.refuse("data", given, "a whole file")
    stream.seek(0)
    return npy.read_array(stream, allow_pickle=False)


def _sparse(file: IO[bytes], label: str, packed: int, allow_large: bool) -> Raw:
    from scipy import sparse

    check_size(label, packed, allow_large)
    file.seek(0)
    matrix = sparse.load_npz(file)
    return of_array(filled(matrix, label, allow_large), label)


def filled(matrix: Any, label: str, allow_large: bool) -> np.ndarray:
    """A sparse matrix with its zeros; its size and its indices are looked at first.

    Args:
        matrix: one of SciPy's.
        label: whose it is.
        allow_large: whether any size is fine.

    Returns:
        (rows, columns).

    >>> from scipy import sparse
    >>> filled(sparse.csr_array([[0, 2]]), "a", False)
    array([[0, 2]])
    """
    check_size(label, math.prod(matrix.shape) * matrix.dtype.itemsize, allow_large)
    if hasattr(matrix, "check_format"):  # indices beyond the shape would be written to wherever they lead
        matrix.check_format(full_check=True)
    return matrix.toarray()
