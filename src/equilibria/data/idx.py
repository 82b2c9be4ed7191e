"""The IDX format of the MNIST files: a typed array of any number of axes, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from typing import BinaryIO

import numpy as np

from equilibria import check

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 8
_MOST_BYTES = 2**30  # far above any known IDX file, and small enough to refuse a bomb before it is unpacked


def parse_idx(content: bytes, name: str = "content") -> np.ndarray:
    """The array in the bytes of an IDX file.

    The format (Y. LeCun, with the MNIST files): two zero bytes, a type code, the number of axes, the length of each
    axis as a big-endian 32-bit integer, then the values in big-endian C order and nothing after them. A gzipped file is
    known by its first two bytes and unpacked no further than its header promises.

    Args:
        content: the bytes of the file, gzipped or not.
        name: what an error calls the file.

    Returns:
        The array, in the byte order of this machine and writeable.

    Raises:
        ValueError: if these are not the bytes of a whole IDX file of at most 2^30 bytes; the message says what is wrong.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7]))
    array([5, 6, 7], dtype=uint8)
    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6]), name="labels")
    Traceback (most recent call last):
    ValueError: labels: got only 2 of 3 bytes of values; allowed: an IDX file
    """
    if not content.startswith(b"\x1f\x8b"):
        return _read(io.BytesIO(content), name)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            return _read(stream, name)
    except (OSError, EOFError, zlib.error) as error:
        check.refuse(name, f"broken gzip ({error})", "a whole gzip file")


def _read(stream: BinaryIO | gzip.GzipFile, name: str) -> np.ndarray:
    start = stream.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
        known = ", ".join(f"{code:02x}" for code in _TYPES)
        check.refuse(name, f"first bytes {start.hex(' ') or '(none)'}", f"an IDX file: 00 00, one of {known}, axes")
    dtype = np.dtype(_TYPES[start[2]])
    shape = _shape(stream, start[3], dtype.itemsize, name)
    length = math.prod(shape) * dtype.itemsize
    # One byte more than promised shows what should not be there, and brings gzip to the checksum at its end.
    values = stream.read(length + 1)
    if len(values) < length:
        check.refuse(name, f"only {len(values)} of {length} bytes of values", "an IDX file")
    if len(values) > length:
        check.refuse(name, f"bytes after the {length} bytes of values", "an IDX file")
    return np.frombuffer(values, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _shape(stream: BinaryIO | gzip.GzipFile, axes: int, itemsize: int, name: str) -> tuple[int, ...]:
    if not 1 <= axes <= _MOST_AXES:
        check.refuse(name, f"{axes} axes", f"1 to {_MOST_AXES} axes")
    lengths = stream.read(4 * axes)
    if len(lengths) < 4 * axes:
        check.refuse(name, f"only {len(lengths)} of {4 * axes} bytes of axis lengths", "an IDX file")
    shape = tuple(int(length) for length in np.frombuffer(lengths, ">u4"))
    # An empty axis must not hide absurd ones.
    if math.prod(max(length, 1) for length in shape) * itemsize > _MOST_BYTES:
        check.refuse(name, f"shape {shape}", f"at most {_MOST_BYTES} bytes of values")
    return shape
