"""Labelled results as netCDF files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from equilibria.files.atomic import replacing

if TYPE_CHECKING:
    import xarray as xr


def save_dataset(path: str | Path, dataset: xr.Dataset) -> None:
    """Write labelled results as netCDF, atomically.

    >>> import pathlib, tempfile, xarray as xr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "result.nc"
    >>> save_dataset(path, xr.Dataset({"overlap": ("load", [1.0, 0.5])}))
    >>> float(load_dataset(path)["overlap"][1])
    0.5
    """
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")


def load_dataset(path: str | Path) -> xr.Dataset:
    """Read what `save_dataset` wrote, all of it into memory."""
    import xarray as xr

    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except Exception as error:  # h5py reports damage as OSError, KeyError or RuntimeError, by where it lies
        raise ValueError(f"{path}: not a readable netCDF file ({error})") from error
