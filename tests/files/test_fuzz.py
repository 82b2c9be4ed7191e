"""Mutated files, 350 over all formats, and 100 with a good digest over wrong content: none is taken for good in silence."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equilibria import files
from equilibria.files import arrays as format_of_arrays
from faults import formats


@pytest.fixture(scope="module", params=formats.FORMATS)
def good(request, tmp_path_factory):
    """A good file of each format with its bytes, how it is read, and what is then read."""
    return formats.written(request.param, tmp_path_factory.mktemp(request.param))


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
    formats.restored(path, others, data.draw(mutations(others[path.name])))
    # What is read as before was changed in nothing that counts: a space in a text, say.
    assert formats.verdict(path, read, before) in ("refused", "read as before")


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
    write, name, read = formats.FORMATS[request.param]
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
