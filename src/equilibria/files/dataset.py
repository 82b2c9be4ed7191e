"""Labelled results as netCDF files, each with a digest over all its bytes.

A digest stands at the end of the file, behind what netCDF reads: any tool opens the file as ever, and here it is compared
before anything in the file is believed.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equilibria import check
from equilibria.files.arrays import CheckpointError
from equilibria.files.atomic import write_atomic

if TYPE_CHECKING:
    import xarray as xr

_END = re.compile(rb"\nequilibria sha256 ([0-9a-f]{64})\n")
_LENGTH = len("\nequilibria sha256 \n") + 64


def save_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write labelled results as netCDF, atomically, with a digest.

    Args:
        path: the file; it is replaced whole.
        dataset: the results.

    Raises:
        ValueError: if it holds numbers that netCDF has not.
        StorageError: if there is no room for it; what was at `path` is as it was.

    >>> import pathlib, tempfile, xarray as xr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "result.nc"
    >>> save_dataset(path, xr.Dataset({"overlap": ("load", [1.0, 0.5])}))
    >>> float(load_dataset(path)["overlap"][1])
    0.5
    """
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "fc" and variable.dtype.itemsize > 8 * (1 + (variable.dtype.kind == "c")):
            check.refuse("dataset", f"{name!r} of type {variable.dtype}", "numbers of up to 64 bits")
    content = _as_bytes(_in_native_order(dataset))
    write_atomic(path, content + f"\nequilibria sha256 {hashlib.sha256(content).hexdigest()}\n".encode())


def _as_bytes(dataset: xr.Dataset) -> bytes:
    """The dataset as netCDF, made in memory: HDF5 that meets a full disk leaves files open that end the process later."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file))
    return buffer.getvalue()


def load_dataset(path: str | Path) -> xr.Dataset:
    """Read what `save_dataset` wrote, all of it into memory.

    Args:
        path: the file.

    Returns:
        The results.

    Raises:
        CheckpointError: if the file is cut short, altered in any bit, or not one of ours.

    >>> load_dataset("no/such/result.nc")
    Traceback (most recent call last):
    equilibria.files.arrays.CheckpointError: no/such/result.nc: cannot be read (No such file or directory)
    """
    import xarray as xr

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    end = _END.fullmatch(content[-_LENGTH:])
    if end is None:
        raise CheckpointError(f"{path}: cut short, or not written by equilibria: there is no digest at its end")
    if hashlib.sha256(memoryview(content)[:-_LENGTH]).hexdigest().encode() != end[1]:
        raise CheckpointError(f"{path}: damaged, its content does not match its SHA-256 digest")
    try:
        return xr.load_dataset(io.BytesIO(content), engine="h5netcdf")
    except (
        Exception
    ) as error:  # h5py reports what it cannot read as OSError, KeyError or RuntimeError, by where it lies
        raise CheckpointError(f"{path}: not a readable netCDF file ({error})") from error


def _in_native_order(dataset: xr.Dataset) -> xr.Dataset:
    """The same with every number in the byte order of this machine: arrays of another one compute slowly or not at all."""
    other = [name for name, variable in dataset.variables.items() if not variable.dtype.isnative]
    return dataset.assign({name: dataset[name].astype(_native(dataset[name].dtype)) for name in other})


def _native(dtype: np.dtype) -> np.dtype:
    return dtype.newbyteorder("=")
