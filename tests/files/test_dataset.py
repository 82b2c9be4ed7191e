"""Labelled results: what is read is what was written, or an error; other tools read it too."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

from equilibria import files

DATASET = xr.Dataset(
    {
        "m": (("load", "seed"), np.random.default_rng(0).normal(size=(2, 3)), {"units": "1"}),
        "failure": (("load",), np.array(["", "ValueError: Δ < 1"])),
        "held": (("load",), np.array([True, False])),
        "empty": (("none",), np.zeros(0)),
    },
    coords={"load": [0.1, 0.2], "seed": [0, 1, 2]},
    attrs={"config": "{}", "seed": 3},
)


def test_datasets_come_back_with_labels_and_attributes(tmp_path):
    files.save_dataset(tmp_path / "new" / "result.nc", DATASET)
    loaded = files.load_dataset(tmp_path / "new" / "result.nc")
    xr.testing.assert_identical(loaded, DATASET)
    assert [loaded[name].dtype.kind for name in ("m", "held")] == ["f", "b"]


def test_other_tools_read_them(tmp_path):
    """The digest stands behind what they look at; a file that was opened for writing by h5py is still netCDF."""
    path = tmp_path / "result.nc"
    files.save_dataset(path, DATASET)
    with xr.open_dataset(path, engine="h5netcdf") as loaded:
        xr.testing.assert_identical(loaded.load(), DATASET)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["m"], DATASET["m"])
    with h5py.File(path, "a") as file:
        file["m"][0, 0] = 7.0
    with pytest.raises(files.CheckpointError, match=r"damaged, its content|no digest"):
        files.load_dataset(path)
    with xr.open_dataset(path, engine="h5netcdf") as loaded:
        assert loaded["m"][0, 0] == 7


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "cut short, or not written by equilibria"),
        (b"not netCDF", "cut short, or not written by equilibria"),
    ],
)
def test_an_unreadable_dataset_is_named(tmp_path, content, message):
    path = tmp_path / "result.nc"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(files.CheckpointError, match=rf"result\.nc: {message}"):
        files.load_dataset(path)


def test_a_netcdf_file_of_someone_else_says_so(tmp_path):
    DATASET.to_netcdf(tmp_path / "theirs.nc", engine="h5netcdf")
    with pytest.raises(files.CheckpointError, match="not written by equilibria: there is no digest"):
        files.load_dataset(tmp_path / "theirs.nc")


def test_numbers_of_other_machines(tmp_path):
    """Big-endian ones come back as numbers of this machine; extended ones, which netCDF has not, are refused."""
    path = tmp_path / "result.nc"
    files.save_dataset(path, xr.Dataset({"a": ("x", np.arange(3, dtype=">f8"))}, {"x": np.arange(3, dtype=">i4")}))
    loaded = files.load_dataset(path)
    assert loaded["a"].dtype.isnative
    assert loaded["x"].dtype.isnative
    np.testing.assert_array_equal(loaded["a"], [0, 1, 2])
    content = path.read_bytes()
    with pytest.raises(ValueError, match=r"dataset: got 'a' of type float128; allowed: numbers of up to 64 bits"):
        files.save_dataset(path, xr.Dataset({"a": ("x", np.zeros(3, np.longdouble))}))
    assert path.read_bytes() == content


CLAIM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
from equilibria import files
try:
    files.load_dataset(sys.argv[1])
except files.CheckpointError as error:
    print(error)
"""


def test_a_claim_of_absurd_size_is_refused_before_memory_is_taken(tmp_path):
    """A tiny file whose dataset says that it has 2^40 numbers, without our digest and with a digest of other content."""
    path = tmp_path / "bomb.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("m", (2**40,), "f8", chunks=(2**10,))
    content = path.read_bytes()
    for end in (b"", b"\nequilibria sha256 " + b"0" * 64 + b"\n"):
        path.write_bytes(content + end)
        command = [sys.executable, "-c", CLAIM, str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "bomb.nc: cut short, or not" in told or "bomb.nc: damaged" in told
