"""Mutated files, 300 over all formats, and 100 with a good digest over wrong content: none is taken for good in silence."""

import json
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import equilibria as eq
from equilibria import files
from equilibria.files import arrays as format_of_arrays
from equilibria.grids.cells import cells_of, checked_axes
from equilibria.grids.results import ResultStore
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.saving import load_synapses, save_synapses

DATASET = xr.Dataset(
    {"m": (("load", "seed"), np.random.default_rng(0).normal(size=(3, 2))), "failure": ("load", ["", "a", "b"])},
    coords={"load": [0.1, 0.2, 0.3], "seed": [0, 1]},
    attrs={"config": "{}", "fingerprint": "0123456789abcdef"},
)
CELLS = cells_of(checked_axes({"x": [1.0, 2.0, 3.0]}))
ROWS = [
    {"value": np.float32(2.0), "more": np.arange(3)},
    "ValueError: no",
    {"value": np.float32(6.0), "more": np.ones(3, int)},
]


def open_store(folder):
    return ResultStore(folder, {"function": "f", "version": None}, {"batched": ["x"], "width": 3})


def read_store(path):
    """What a client takes up; a file that it sets aside, with a warning, is refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = open_store(path.parent).rows
    if not rows:
        (told,) = caught
        raise files.CheckpointError(str(told.message))
    return rows


def write_store(path):
    open_store(path.parent).keep(CELLS, ROWS)


def read_description(path):
    store = open_store(path.parent)
    return store.about, store.rows


FORMATS = {  # how it is written into a folder, which file that is, and how it is read
    "checkpoint": (lambda path: files.save(path.parent, 7, {"a": np.arange(8.0), "key": jax.random.key(0)}, {"epoch": 1}),
                   "checkpoint-000000007.safetensors", files.load),
    "network": (lambda path: eq.save_network(path.parent, eq.rbm(4, 3, visible=eq.Gaussian(), key=0)),
                "checkpoint-000000000.safetensors", eq.load_network),
    "synapses": (lambda path: save_synapses(path, Synapses(np.linspace(-1, 1, 24).reshape(8, 3), bias=np.ones(8))),
                 "machine.safetensors", load_synapses),
    "result": (lambda path: files.save_dataset(path, DATASET), "result.nc", files.load_dataset),
    "cells": (write_store, "cells-", read_store),
    "description": (write_store, "grid.json", read_description),
}  # fmt: skip


def told(thing):
    """All that was read, as text that says every bit."""
    if isinstance(thing, xr.Dataset):
        return told(
            {
                **{name: (value.dims, value.values, value.attrs) for name, value in thing.variables.items()},
                "": thing.attrs,
            }
        )
    if isinstance(thing, eq.Network):
        return told([str(jax.tree.structure(thing)), *jax.tree.leaves(thing)])
    if isinstance(thing, dict):
        return {str(name): told(value) for name, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [told(item) for item in thing]
    if isinstance(thing, jax.Array) and jax.dtypes.issubdtype(thing.dtype, jax.dtypes.prng_key):
        return told(jax.random.key_data(thing))
    if hasattr(thing, "dtype"):
        values = np.asarray(thing)
        return str(values.dtype), values.shape, values.tolist() if values.dtype.hasobject else values.tobytes()
    return repr(thing)


@pytest.fixture(scope="module", params=FORMATS)
def good(request, tmp_path_factory):
    """A good file of each format with its bytes, how it is read, and what is then read."""
    write, name, read = FORMATS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    write(folder / name)
    (path,) = [path for path in folder.iterdir() if path.name.startswith(name)]
    others = {path.name: path.read_bytes() for path in folder.iterdir()}
    return path, others, read, told(read(path))


def pieces(length):
    return st.tuples(st.integers(0, length - 1), st.integers(1, 64)).map(lambda pair: slice(pair[0], pair[0] + pair[1]))


@st.composite
def mutations(draw, content):
    """The content with bits turned, cut short, made longer, or with a piece overwritten, left out, doubled or moved."""
    changed = bytearray(content)
    how = draw(st.sampled_from(["bits", "cut", "longer", "overwritten", "left out", "doubled", "moved", "digits"]))
    if how == "bits":
        for bit in draw(st.sets(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=4)):
            changed[bit // 8] ^= 1 << (bit % 8)
    elif how == "cut":
        del changed[draw(st.integers(0, len(content) - 1)) :]
    elif how == "longer":
        changed += draw(st.binary(min_size=1, max_size=200))
    elif how == "digits":  # numbers in headers, sizes among them
        places = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
        for place in draw(st.sets(st.sampled_from(places), min_size=1, max_size=3)):
            changed[place] = draw(st.integers(48, 57))
    else:
        piece = draw(pieces(len(content)))
        taken = bytes(changed[piece])
        if how == "overwritten":
            changed[piece] = draw(st.binary(min_size=len(taken), max_size=len(taken)))
        elif how == "left out":
            del changed[piece]
        elif how == "doubled":
            changed[piece.start : piece.start] = taken
        else:
            del changed[piece]
            place = draw(st.integers(0, len(changed)))
            changed[place:place] = taken
    return bytes(changed)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_mutated_file_is_taken_for_good(good, data):
    path, others, read, before = good
    for file in path.parent.iterdir():
        file.unlink()
    for name, content in others.items():
        (path.parent / name).write_bytes(content)
    path.write_bytes(data.draw(mutations(others[path.name])))
    found, refusal = attempt(read, path, ValueError)  # CheckpointError is one
    if refusal is None:
        assert told(found) == before  # the mutation changed nothing that counts: a space in a text, say
    else:
        assert path.name in refusal or str(path.parent) in refusal
        assert len(refusal) > len(str(path)) + 10


def attempt(read, path, kind):
    """What is read, or the words in which it is refused; any other error is an error of the test."""
    try:
        return read(path), None
    except kind as error:
        return None, str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


def places(structure, path=()):
    """The ways to every part of a JSON structure."""
    yield path
    steps = (
        structure.items()
        if isinstance(structure, dict)
        else enumerate(structure)
        if isinstance(structure, list)
        else ()
    )
    for step, part in steps:
        yield from places(part, (*path, step))


@st.composite
def wrong_contents(draw, checkpoint):
    """The arrays and the metadata of a file with one part replaced or left out, or another array."""
    arrays, metadata = dict(checkpoint.arrays), json.loads(json.dumps(checkpoint.metadata))
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(arrays)))
        shape = draw(st.tuples(st.integers(0, 5), st.integers(0, 5)) | st.tuples(st.integers(0, 9)) | st.just(()))
        value = draw(st.sampled_from([0.0, -1.0, 1.0, np.nan, np.inf]))
        arrays[name] = np.full(shape, value, draw(st.sampled_from(["f4", "f8", "c8", "?", "u1"])))
        return arrays, metadata
    *way, last = draw(st.sampled_from([place for place in places(metadata) if place]))
    part = metadata
    for step in way:
        part = part[step]
    if draw(st.booleans()) and isinstance(part, dict):
        del part[last]
    else:
        part[last] = draw(JSON)
    return arrays, metadata


@pytest.fixture(scope="module", params=["network", "synapses"])
def whole(request, tmp_path_factory):
    write, name, read = FORMATS[request.param]
    path = tmp_path_factory.mktemp(request.param) / name
    write(path)
    return path, files.load(path), read


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN is cast to whole numbers to make a file of them
def test_wrong_content_with_a_good_digest_is_refused_or_makes_sense(whole, data):
    path, checkpoint, read = whole
    arrays, metadata = data.draw(wrong_contents(checkpoint))
    Path(path).write_bytes(format_of_arrays.pack(0, arrays, metadata))
    network, refusal = attempt(read, path, files.CheckpointError)
    if refusal is not None:
        assert path.name in refusal
        return
    state = {layer.name: np.zeros(layer.size) for layer in network.layers}  # then it is a network like any other
    assert np.isfinite(float(network.energy(state)))
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(network))
