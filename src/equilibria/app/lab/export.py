"""The numbers of a room as a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import xarray as xr

from equilibria import check, files


def written(dataset: xr.Dataset, form: str) -> bytes:
    """A dataset as the content of a file.

    Args:
        dataset: the numbers.
        form: "nc" for netCDF, or "csv": a comment for each attribute, then a row for each cell.

    Returns:
        The bytes.

    Raises:
        ValueError: if there is no such form.

    >>> print(written(xr.Dataset({"m": ("sweep", [0.5, 1.0])}, attrs={"seed": 1}), "csv").decode())
    # seed: 1
    sweep,m
    0,0.5
    1,1.0
    """
    check.choice("form", form, ("nc", "csv"))
    if form == "csv":
        notes = "".join(f"# {name}: {_line(value)}\n" for name, value in dataset.attrs.items())
        return (notes + dataset.to_dataframe().to_csv(lineterminator="\n")).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "room.nc"
        files.save_dataset(path, dataset)
        return path.read_bytes()


def _line(value: object) -> str:
    return " ".join(str(value).split())
