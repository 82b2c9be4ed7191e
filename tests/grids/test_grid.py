"""Grids: the same numbers however they are computed, nothing computed twice, clear answers to bad input."""

import functools
import json
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from joblib import parallel_config

import equilibria as eq
import gridcells
from equilibria import __version__, files
from equilibria.grids.cells import cell_at, cells_of, checked_axes, key_data
from equilibria.grids.task import Task, compute

AXES = {"size": [16, 24], "temperature": [0.1, 0.5, 1.0], "seed": range(5)}


@pytest.fixture(scope="module")
def reference():
    return eq.grid(gridcells.retrieval, **AXES)


def same_numbers(first, second):
    """Bit for bit, wherever the coordinates agree and whatever the order of the axes."""
    xr.testing.assert_equal(first, second.transpose(*first.dims))
    assert [first[name].dtype for name in first] == [second[name].dtype for name in first]


def test_result_is_labelled(reference):
    assert dict(reference.sizes) == {"size": 2, "temperature": 3, "seed": 5, "overlaps_0": 4}
    assert reference["overlap"].dims == ("size", "temperature", "seed")
    assert reference["temperature"].values.tolist() == AXES["temperature"]
    attributes = reference.attrs
    assert attributes["function"] == "gridcells.retrieval"
    assert attributes["batched"] == "seed, temperature; 15 cells in a call"  # size decides shapes: it is looped over
    assert (attributes["equilibria_version"], attributes["jax_version"]) == (__version__, jax.__version__)


def test_batching_only_changes_rounding(reference):
    """The same random numbers cell by cell; sums may be taken in another order."""
    alone = eq.grid(gridcells.retrieval, batch=False, size=16, temperature=0.5, seed=[0, 3])
    assert alone.attrs["batched"] == "no axis; cell by cell"
    batched = reference.sel(size=[16], temperature=[0.5], seed=[0, 3])
    for name in alone:
        np.testing.assert_allclose(alone[name], batched[name], rtol=2e-6)


@pytest.mark.parametrize("chunk", [1, 4, 15])
def test_any_chunking_gives_the_same_bits(reference, chunk):
    same_numbers(reference, eq.grid(gridcells.retrieval, chunk=chunk, **AXES))


def test_any_order_of_axes_and_values_gives_the_same_bits(reference):
    turned = eq.grid(gridcells.retrieval, seed=range(4, -1, -1), temperature=[0.5, 1.0, 0.1], size=[24, 16])
    same_numbers(reference, turned.sortby(["seed", "temperature", "size"]))


@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_any_engine_gives_the_same_bits(reference, engine):
    with parallel_config(engine):
        same_numbers(reference, eq.grid(gridcells.retrieval, jobs=2, chunk=4, **AXES))


def test_a_grid_begun_in_parts_gives_the_same_bits(reference, tmp_path):
    """A first run leaves holes in every block; a second one, with other chunks, fills them."""
    eq.grid(gridcells.retrieval, store=tmp_path, chunk=7, width=15, **(AXES | {"seed": [1, 2, 4]}))
    same_numbers(reference, eq.grid(gridcells.retrieval, store=tmp_path, chunk=2, width=15, **AXES))


def test_the_scope_of_64_bits_reaches_the_workers():
    with jax.enable_x64(True):
        result = eq.grid(lambda x: x / 3, x=[1.0, 2.0], jobs=2, chunk=1)
    assert result["value"].values.tolist() == [1 / 3, 2 / 3]
    assert result.attrs["precision"] == "64 bits"


def test_keys_depend_on_coordinates_alone():
    """These words were computed by hand from SHA-256 of {"load": 0.1, "seed": 1}: stored grids rely on them."""
    cell = cell_at({"seed": 1.0, "load": 0.1})
    assert key_data([cell]).tolist() == [[3996114409, 925332465]]
    keys = key_data(cells_of(checked_axes({"x": np.linspace(0, 1, 500), "seed": range(20)})))
    assert len(np.unique(keys, axis=0)) == 10_000


def test_a_restart_computes_only_what_is_missing(tmp_path):
    log = tmp_path / "log"
    cell = functools.partial(gridcells.logged, log=str(log))
    first = eq.grid(cell, store=tmp_path / "grid", batch=False, x=[1, 2], seed=[0, 1])
    assert len(gridcells.lines(log)) == 4
    again = eq.grid(cell, store=tmp_path / "grid", batch=False, x=[1, 2], seed=[0, 1])
    assert len(gridcells.lines(log)) == 4
    same_numbers(first, again)
    grown = eq.grid(cell, store=tmp_path / "grid", batch=False, x=[1, 2, 3], seed=[0, 1], chunk=5)
    assert sorted(gridcells.lines(log)[4:]) == ["3 0", "3 1"]
    assert grown["value"].values.tolist() == [[10, 11], [20, 21], [30, 31]]


def test_a_function_that_cannot_be_traced_is_called_cell_by_cell(tmp_path):
    result = eq.grid(lambda x, word: len(word) * float(x), x=[1.0, 2.0], word=["a", "bcd"])
    assert result.attrs["batched"] == "no axis; cell by cell"
    assert result["value"].values.tolist() == [[1, 3], [2, 6]]


def test_whole_numbers_beyond_32_bits_are_not_cut():
    assert eq.grid(lambda x: x + 1, x=[0, 2**40])["value"].values.tolist() == [1, 2**40 + 1]


def test_failed_cells_are_recorded_and_the_rest_goes_on(tmp_path):
    log = tmp_path / "log"
    cell = functools.partial(gridcells.odd_ones_fail, log=str(log))
    options = {"store": tmp_path / "grid", "batch": False, "x": [1], "seed": range(4)}
    with pytest.warns(UserWarning, match="2 of 4 cells failed, the first at x=1, seed=1: ValueError: seed 1 is odd"):
        result = eq.grid(cell, **options)
    np.testing.assert_array_equal(result["value"], [[1, np.nan, 3, np.nan]])
    assert result["failure"].values.tolist() == [["", "ValueError: seed 1 is odd", "", "ValueError: seed 3 is odd"]]
    files.save_dataset(tmp_path / "result.nc", result)  # labels, errors and attributes are all netCDF can hold
    same_numbers(result, files.load_dataset(tmp_path / "result.nc"))
    with pytest.warns(UserWarning, match="2 of 4 cells failed"):
        eq.grid(cell, **options)
    assert len(gridcells.lines(log)) == 4
    with pytest.warns(UserWarning, match="2 of 4 cells failed"):
        eq.grid(cell, retry=True, **options)
    assert sorted(gridcells.lines(log)[4:]) == ["1 1", "1 3"]


def test_a_cell_that_fails_inside_compiled_code_does_not_take_its_block_with_it():
    def root(x):
        return jnp.sqrt(eqx.error_if(x, x < 0, "x is negative"))

    with pytest.warns(UserWarning, match="1 of 4 cells failed, the first at x=-1.0"):
        result = eq.grid(root, x=[4.0, 9.0, -1.0, 16.0])
    assert result.attrs["batched"].startswith("x;")
    np.testing.assert_array_equal(result["value"], [2, 3, np.nan, 4])


def test_a_fixed_value_that_cannot_be_traced_fails_alone():
    def ones(x, size):
        return x * jnp.ones(size).sum()

    with pytest.warns(UserWarning, match="2 of 4 cells failed, the first at x=1.0, size=-2"):
        result = eq.grid(ones, batch="x", x=[1.0, 2.0], size=[3, -2])
    np.testing.assert_array_equal(result["value"], [[3, np.nan], [6, np.nan]])


def test_units_and_configuration_are_kept():
    power = functools.partial(lambda x, exponent: x**exponent, exponent=2)
    result = eq.grid(power, x=[1.0, 2.0], units={"x": "m", "value": "m2"})
    assert (result["x"].attrs["units"], result["value"].attrs["units"]) == ("m", "m2")
    assert json.loads(result.attrs["config"]) == {"exponent": 2}
    with pytest.warns(UserWarning, match="units: got 'y'; allowed: value, x"):
        eq.grid(power, x=[1.0], units={"y": "m"})


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, "axes: got none; allowed: at least one"),
        ({"x": [1, 2, 1]}, "x: got 1 more than once; allowed: different coordinates"),
        ({"x": [1.0, float("nan")]}, "x: got nan; allowed: coordinates that can be compared"),
        ({"x": []}, "x: got shape (0,)"),
        ({"x": [[1, 2], [3, 4]]}, "x: got shape (2, 2)"),
        ({"x": [[1, 2], [3]]}, "x: got items of different shapes"),
        ({"x": [1, "one"]}, "x: got [1, 'one']; allowed: all numbers or all texts"),
        ({"x": [None]}, "x: got shape (1,) of object"),
        ({"key": [1]}, "key: got an axis; allowed: any other name"),
        ({"y": [1]}, "axes: got y; allowed: the arguments of fn(x)"),
    ],
)
def test_bad_axes_are_refused(axes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        eq.grid(lambda x: x, **axes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": "y"}, "batch: got 'y'; allowed: 'x'"),
        ({"width": 0}, "width: got 0; allowed: a whole number >= 1"),
        ({"chunk": 2.5}, "chunk: got 2.5; allowed: a whole number >= 1"),
        ({"cluster": 8786}, "cluster: got 8786; allowed: an address such as tcp://host:8786"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        eq.grid(lambda x: x, x=[1.0, 2.0], **options)


def test_a_function_that_is_none_is_refused():
    with pytest.raises(ValueError, match="fn: got None"):
        eq.grid(None, x=[1])


def test_shapes_that_differ_between_cells_are_refused():
    with pytest.raises(ValueError, match=r"returned shapes \{'value': \(1,\)\} at x=1 but \{'value': \(2,\)\} at x=2"):
        eq.grid(lambda x: np.ones(x), x=[1, 2])
    with pytest.raises(ValueError, match="the same names and shapes in every cell"):
        eq.grid(lambda x: {"a": 1} if x == 1 else {"b": 1}, x=[1, 2])
    with pytest.raises(ValueError, match=r"returned \['x'\]; allowed: names that no axis has"):
        eq.grid(lambda x: {"x": x}, x=[1, 2])


def test_what_is_not_a_number_is_a_failure():
    with pytest.warns(UserWarning, match="fn: got a function that returned None; allowed: numbers"):
        assert list(eq.grid(lambda x: None, x=[1])) == ["failure"]


def test_another_grids_folder_is_refused(tmp_path):
    def line(x, y=1):
        return 2 * x

    eq.grid(line, store=tmp_path, x=[1.0, 2.0])

    def line(x, y=1):
        # Only this comment was added.
        return 2 * x

    eq.grid(line, store=tmp_path, x=[1.0, 2.0])

    def line(x, y=1):
        return 3 * x

    with pytest.raises(ValueError, match=r"holds a grid with another code of the function"):
        eq.grid(line, store=tmp_path, x=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"another function: '.*line', here 'gridcells.logged'"):
        eq.grid(functools.partial(gridcells.logged, log="log"), store=tmp_path, x=[1], seed=[1])
    eq.grid(functools.partial(gridcells.logged, log=str(tmp_path / "log")), store=tmp_path / "b", x=[1], seed=[1])
    with pytest.raises(ValueError, match="another configuration of the function"):
        eq.grid(functools.partial(gridcells.logged, log="other"), store=tmp_path / "b", x=[1], seed=[1])


def test_a_store_keeps_its_batching(tmp_path):
    options = {"store": tmp_path, "x": [1.0, 2.0, 3.0]}
    assert eq.grid(jnp_double, **options).attrs["batched"] == "x; 3 cells in a call"
    assert eq.grid(jnp_double, **(options | {"x": [4.0]})).attrs["batched"] == "x; 3 cells in a call"
    with pytest.raises(ValueError, match=r"another batched: \['x'\], here \[\]"):
        eq.grid(jnp_double, batch=False, **options)
    with pytest.raises(ValueError, match="another width: 3, here 2"):
        eq.grid(jnp_double, width=2, **options)


def jnp_double(x):
    return 2 * jnp.asarray(x)


def test_a_damaged_file_is_set_aside_and_its_cells_computed_again(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "grid"
    cell = functools.partial(gridcells.logged, log=str(log))
    eq.grid(cell, store=folder, batch=False, x=[1, 2, 3], seed=0)
    files = sorted(folder.glob("cells-*.safetensors"))
    assert len(files) == 3
    files[1].write_bytes(files[1].read_bytes()[:-1])
    with pytest.warns(UserWarning, match="set aside as .*unreadable, its cells are computed again"):
        result = eq.grid(cell, store=folder, batch=False, x=[1, 2, 3], seed=0)
    assert result["value"].values.ravel().tolist() == [10, 20, 30]
    assert len(gridcells.lines(log)) == 4
    (folder / "grid.json").write_text("{")
    with pytest.raises(ValueError, match=r"grid.json is not readable"):
        eq.grid(cell, store=folder, batch=False, x=[1, 2, 3], seed=0)


def test_links_that_lead_out_of_a_store_are_not_followed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    eq.grid(jnp_double, store=outside, x=[1.0])
    eq.grid(jnp_double, store=inside, x=[2.0])
    (file,) = outside.glob("cells-*.safetensors")
    (inside / file.name).symlink_to(file)
    with pytest.warns(UserWarning, match="leads out of .*refused"):
        eq.grid(jnp_double, store=inside, x=[1.0, 2.0])
    (inside / "grid.json").unlink()
    (inside / "grid.json").symlink_to(outside / "grid.json")
    with pytest.raises(files.CheckpointError, match="leads out of"):
        eq.grid(jnp_double, store=inside, x=[1.0])


def test_a_worker_with_another_version_is_told_so():
    task = Task(jnp_double, (), 1, False, False, version="0.0.0")
    with pytest.raises(RuntimeError, match=f"this worker has equilibria {re.escape(__version__)}, the client 0.0.0"):
        compute(task, [])
