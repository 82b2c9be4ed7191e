"""Whatever is loaded is what was saved, bit for bit; anything else is an error."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from equilibria import files
from equilibria.files import arrays as format_of_arrays

DTYPES = ["bool", "uint8", "int32", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
ANY_ARRAY = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def same_bits(left, right) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@settings(max_examples=50, deadline=None)
@given(arrays=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), ANY_ARRAY, max_size=4))
def test_arrays_come_back_bit_for_bit(arrays, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    files.save(folder, 1, arrays)
    loaded = files.load(folder).arrays
    assert loaded.keys() == arrays.keys()
    assert all(same_bits(loaded[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_short_floats_come_back_bit_for_bit(tmp_path, dtype, shape):
    array = np.random.default_rng(0).normal(size=shape).astype(dtype)
    files.save(tmp_path, 0, {"a": array})
    assert same_bits(files.load(tmp_path).arrays["a"], array)


def test_memory_layout_and_byte_order_do_not_matter(tmp_path):
    square = np.arange(12.0).reshape(3, 4)
    files.save(tmp_path, 0, {"fortran": square.T, "strided": square[:, ::2], "big": square.astype(">f8")})
    arrays = files.load(tmp_path).arrays
    np.testing.assert_array_equal(arrays["fortran"], square.T)
    np.testing.assert_array_equal(arrays["strided"], square[:, ::2])
    np.testing.assert_array_equal(arrays["big"], square)


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg"])
def test_random_keys_continue_the_same_stream(tmp_path, implementation):
    keys = jax.random.split(jax.random.key(3, impl=implementation), 2)
    files.save(tmp_path, 0, {"keys": keys, "jax": jnp.ones(2, jnp.bfloat16)})
    loaded = files.load(tmp_path).arrays["keys"]
    assert loaded.dtype == keys.dtype
    np.testing.assert_array_equal(jax.random.key_data(loaded), jax.random.key_data(keys))


def test_metadata_and_step_come_back(tmp_path):
    metadata = {"epoch": 3, "loss": [0.1, 1e-300], "note": "Δ < 1", "nested": {"none": None}}
    path = files.save(tmp_path / "deep" / "run", 123, {}, metadata)
    assert files.load(path) == (123, {}, metadata, path)
    assert files.latest(path.parent) == path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": -1}, "step: got -1"),
        ({"keep": 0}, "keep: got 0"),
        ({"arrays": {"a": np.array(["text"])}}, "arrays: got 'a' of type <U4"),
        ({"arrays": {"a": np.array([None])}}, "arrays: got 'a' of type object"),
        ({"arrays": {"a": np.zeros(2, np.clongdouble)}}, "arrays: got 'a' of type complex256"),
        (
            {"arrays": {"a": np.zeros(2, np.longdouble)}},
            "arrays: got 'a' of type float128; allowed: numbers of up to 64",
        ),
        ({"arrays": {"__metadata__": np.zeros(2)}}, "arrays: got the name"),
        ({"metadata": {"a": object()}}, "metadata: got"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        files.save(**({"folder": tmp_path / "run", "step": 0, "arrays": {}} | change))
    assert not (tmp_path / "run").exists()


CONTENT = {"weights": np.arange(8, dtype=np.float32), "flags": np.array([True, False]), "empty": np.zeros(0)}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of one small checkpoint, and a place to put a damaged copy."""
    folder = tmp_path_factory.mktemp("damage")
    path = files.save(folder, 7, CONTENT | {"key": jax.random.key(0)}, {"epoch": 1})
    return path.read_bytes(), path


def test_every_single_bit_counts(good):
    content, path = good
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(files.CheckpointError, match=path.name):
            files.load(path)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_random_damage_never_loads(good, data):
    content, path = good
    damaged = bytearray(content)
    for bit in data.draw(st.sets(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=6)):
        damaged[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(damaged)
    with pytest.raises(files.CheckpointError, match=path.name):
        files.load(path)


def test_every_truncation_and_extension_is_noticed(good):
    content, path = good
    for wrong in [content[:length] for length in range(len(content))] + [content + b"\0"]:
        path.write_bytes(wrong)
        with pytest.raises(files.CheckpointError, match=path.name):
            files.load(path)


def test_a_newer_format_says_so(tmp_path, monkeypatch):
    with monkeypatch.context() as future:
        future.setattr(format_of_arrays, "FORMAT", 2)
        path = files.save(tmp_path, 0, CONTENT)
    with pytest.raises(files.CheckpointError, match="format 2 is newer than format 1"):
        files.load(path)


def test_what_a_newer_version_wrote_is_neither_passed_over_nor_put_aside(tmp_path, monkeypatch):
    files.save(tmp_path, 1, CONTENT)
    with monkeypatch.context() as future:
        future.setattr(format_of_arrays, "FORMAT", 2)
        newer = files.save(tmp_path, 5, CONTENT)
    with pytest.raises(files.NewerFormatError):
        files.load(tmp_path, fallback=True)
    with pytest.raises(ValueError, match="step: got 2; allowed: a step >= 5"):
        files.save(tmp_path, 2, CONTENT)
    assert newer.exists()


def test_a_file_of_someone_else_says_so(tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(CONTENT, path)
    with pytest.raises(files.CheckpointError, match="not a checkpoint of equilibria"):
        files.load(path)


def test_the_last_two_are_kept_and_old_leftovers_are_cleaned(tmp_path):
    old = tmp_path / ".checkpoint-000000001.safetensors.0123abcd.part"
    young = tmp_path / ".checkpoint-000000002.safetensors.0123abcd.part"
    for path in (old, young):
        path.write_bytes(b"half")
    hour_ago = time.time() - 3700
    os.utime(old, (hour_ago, hour_ago))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".notes.part").write_text("mine")
    os.utime(tmp_path / ".notes.part", (hour_ago, hour_ago))
    for step in (9, 10, 100, 1_000_000_000):
        files.save(tmp_path, step, {})
    names = sorted(path.name for path in tmp_path.iterdir())
    kept = ["checkpoint-000000100.safetensors", "checkpoint-1000000000.safetensors", "notes.txt"]
    assert names == sorted([young.name, ".notes.part", *kept])  # what is young may be another's who writes it now
    assert files.load(tmp_path).step == 1_000_000_000


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("by_file", [False, True])
def test_fallback_uses_the_previous_good_one_and_warns(tmp_path, by_file):
    for step in (1, 2, 3):
        newest = files.save(tmp_path, step, CONTENT, keep=3)
    damage(newest)
    damage(tmp_path / "checkpoint-000000002.safetensors")
    where = newest if by_file else tmp_path
    with pytest.raises(files.CheckpointError):
        files.load(where)
    with pytest.warns(UserWarning, match=r"000000003.*damaged.*using the earlier checkpoint-000000001") as caught:
        assert files.load(where, fallback=True).step == 1
    assert caught[0].filename == __file__


def test_fallback_without_a_good_one_raises_the_first_error(tmp_path):
    damage(files.save(tmp_path, 1, CONTENT))
    damage(files.save(tmp_path, 2, CONTENT))
    with pytest.raises(files.CheckpointError, match="000000002"):
        files.load(tmp_path, fallback=True)


def test_a_fresh_run_cannot_overwrite_an_old_one(tmp_path):
    files.save(tmp_path, 100, CONTENT)
    with pytest.raises(ValueError, match=r"step: got 1; allowed: a step >= 100"):
        files.save(tmp_path, 1, CONTENT)
    assert files.load(tmp_path).step == 100


def test_a_run_goes_on_after_a_fallback(tmp_path):
    files.save(tmp_path, 1, CONTENT)
    damage(files.save(tmp_path, 9, CONTENT))
    files.save(tmp_path, 2, CONTENT, keep=1)
    assert files.load(tmp_path).step == 2
    assert (tmp_path / "checkpoint-000000009.safetensors.unreadable").exists()
    damage(files.save(tmp_path, 9, CONTENT))
    files.save(tmp_path, 3, CONTENT, keep=1)
    assert (tmp_path / "checkpoint-000000009.safetensors.unreadable-1").exists()  # nothing that was put aside is lost


SAVE_FOREVER = """
    import sys, numpy as np
    from equilibria import files
    folder, step = sys.argv[1], int(sys.argv[2])
    while True:
        files.save(folder, step, {"a": np.full(1_000_000, step)}, {"step": step})
        print(step, flush=True)
        step += 1
"""


def test_a_killed_run_leaves_its_last_checkpoint_whole(tmp_path):
    moments = np.random.default_rng(1).uniform(0, 0.05, size=4)
    step = 0
    for moment in [*moments, None, None, None]:  # None: as soon as the folder changes, which is inside a write
        command = [sys.executable, "-c", textwrap.dedent(SAVE_FOREVER), str(tmp_path), str(step)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        first = int(child.stdout.readline())
        before = os.listdir(tmp_path)
        while moment is None and child.poll() is None and os.listdir(tmp_path) == before:
            pass
        time.sleep(moment or 0)
        os.kill(child.pid, signal.SIGKILL)
        reported = [first, *(int(line) for line in child.communicate()[0].split())]
        checkpoint = files.load(tmp_path)  # no fallback: the newest itself is whole
        assert checkpoint.step in (reported[-1], reported[-1] + 1)
        assert checkpoint.metadata == {"step": checkpoint.step}
        np.testing.assert_array_equal(checkpoint.arrays["a"], np.full(1_000_000, checkpoint.step))
        step = checkpoint.step + 1
    files.save(tmp_path, step, {})
    files.sweep(tmp_path, seconds=0)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_error_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.txt"
    files.write_atomic(path, b"old")

    def fail_half_way():
        with files.replacing(path) as temporary:
            temporary.write_bytes(b"half of the n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert [file.name for file in tmp_path.iterdir()] == ["result.txt"]
    assert path.read_bytes() == b"old"
