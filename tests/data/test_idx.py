import gzip
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from equilibria.data import parse_idx

DTYPES = ["u1", "i1", "i2", "i4", "f4", "f8"]
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=1, min_side=0)))
PACKINGS = st.sampled_from([bytes, lambda content: gzip.compress(content, mtime=0)])


def outcome(content):
    """The array, or None if it was refused as it should be; anything else is an error."""
    try:
        return parse_idx(content, name="the-file")
    except ValueError as error:
        assert str(error).startswith("the-file: got ")  # noqa: PT017 - both outcomes are legitimate
        return None


@settings(deadline=None)
@given(ARRAYS, PACKINGS)
def test_round_trip(idx_bytes, array, pack):
    parsed = parse_idx(pack(idx_bytes(array)))
    assert parsed.dtype == array.dtype
    assert parsed.shape == array.shape
    assert parsed.tobytes() == array.tobytes()  # NaN payloads too
    assert parsed.flags.writeable
    assert parsed.dtype.isnative


@settings(deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"\0\0" + tail))
def test_random_bytes_are_refused_or_mean_what_they_say(idx_bytes, content):
    array = outcome(content)
    assert array is None or idx_bytes(array) == content


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_after_the_gzip_signature_are_refused(content):
    assert outcome(b"\x1f\x8b" + content) is None


@settings(deadline=None)
@given(ARRAYS, PACKINGS, st.data())
def test_every_truncation_is_refused(idx_bytes, array, pack, data):
    content = pack(idx_bytes(array))
    assert outcome(content[: data.draw(st.integers(0, len(content) - 1))]) is None


@settings(deadline=None)
@given(ARRAYS, PACKINGS, st.binary(min_size=1, max_size=20).filter(any))
def test_trailing_bytes_are_refused(idx_bytes, array, pack, garbage):
    assert outcome(pack(idx_bytes(array)) + garbage) is None


@settings(deadline=None)
@given(ARRAYS, st.data())
def test_a_changed_byte_is_refused_or_changes_the_array(idx_bytes, array, data):
    content = bytearray(idx_bytes(array))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    parsed = outcome(bytes(content))
    assert parsed is None or idx_bytes(parsed) == content


@settings(deadline=None)
@given(ARRAYS, st.data())
def test_a_changed_byte_in_a_gzip_is_refused_or_harmless(idx_bytes, array, data):
    content = bytearray(gzip.compress(idx_bytes(array), mtime=0))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    parsed = outcome(bytes(content))
    # The checksum covers what is unpacked. Some bytes mean nothing (time, padding), some values have two codes.
    assert parsed is None or (parsed.dtype == array.dtype and parsed.tobytes() == array.tobytes())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "first bytes (none)"),
        (b"\0\0\x08", "first bytes 00 00 08"),
        (b"\0\1\x08\1\0\0\0\0", "first bytes 00 01 08 01"),
        (b"\0\0\x0a\1\0\0\0\0", "08, 09, 0b, 0c, 0d, 0e"),
        (b"\0\0\x08\0", "0 axes"),
        (b"\0\0\x08\xff", "255 axes"),
        (b"\0\0\x08\2\0\0\0\1", "only 4 of 8 bytes of axis lengths"),
        (b"\0\0\x08\1\0\0\0\2\7", "only 1 of 2 bytes of values"),
        (b"\0\0\x08\1\0\0\0\1\7\7", "bytes after the 1 bytes"),
        (b"\0\0\x08\2\xff\xff\xff\xff\xff\xff\xff\xff", "shape (4294967295, 4294967295)"),
        (b"\0\0\x08\3\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "shape (0, 4294967295, 4294967295)"),
        (gzip.compress(b"\0\0\x08\1\0\0\0\1\7", mtime=0)[:-3], "broken gzip"),
    ],
)
def test_the_reason_is_given(content, reason):
    with pytest.raises(ValueError, match=r"^labels: got ") as error:
        parse_idx(content, name="labels")
    assert reason in str(error.value)


def test_a_bad_checksum_is_refused(idx_bytes):
    content = bytearray(gzip.compress(idx_bytes(np.arange(100, dtype=np.uint8)), mtime=0))
    content[-8] ^= 1
    with pytest.raises(ValueError, match=r"broken gzip .*CRC"):
        parse_idx(bytes(content))


def test_a_gzip_bomb_is_not_unpacked():
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 10)) + packer.compress(bytes(2**27)) + packer.flush()
    tracemalloc.start()
    with pytest.raises(ValueError, match="bytes after the 10 bytes"):
        parse_idx(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22  # of the 2**27 bytes it holds: what gzip reads ahead, and no more
