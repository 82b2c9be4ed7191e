"""One message to the page: a line of JSON, and arrays behind it as they lie in memory.

    4 bytes: length of the JSON, little endian | JSON, filled up with spaces to a multiple of 4 | arrays, each filled up to 4

The JSON's `arrays` lists (name, type, shape) in the order in which the bytes follow.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

_TYPES = {"b": "int8", "B": "uint8", "i": "int32", "f": "float32"}


def pack(message: dict[str, Any]) -> bytes:
    """A message as bytes; arrays go as float32, int32, int8 or uint8.

    Args:
        message: what JSON can hold, and NumPy arrays at its top.

    Returns:
        The bytes.

    >>> unpack(pack({"kind": "frame", "spins": np.array([1, -1], np.int8)}))
    {'kind': 'frame', 'spins': array([ 1, -1], dtype=int8)}
    """
    plain, arrays, parts = {}, [], []
    for name, value in message.items():
        if isinstance(value, np.ndarray):
            array = _narrow(value)
            arrays.append([name, _TYPES[array.dtype.char], list(array.shape)])
            content = array.tobytes()
            parts.append(content + bytes(-len(content) % 4))
        else:
            plain[name] = _plain(value)
    head = json.dumps(plain | ({"arrays": arrays} if arrays else {}), separators=(",", ":"), allow_nan=False).encode()
    head += b" " * (-len(head) % 4)
    return struct.pack("<I", len(head)) + head + b"".join(parts)


def unpack(content: bytes) -> dict[str, Any]:
    """The message in the bytes, as the page reads it.

    Args:
        content: what `pack` made.

    Returns:
        The message.
    """
    (length,) = struct.unpack_from("<I", content)
    message = json.loads(content[4 : 4 + length])
    place = 4 + length
    for name, kind, shape in message.pop("arrays", []):
        count = int(np.prod(shape, dtype=int))
        message[name] = np.frombuffer(content, kind, count, place).reshape(shape)
        place += -(-message[name].nbytes // 4) * 4
    return message


def _narrow(array: np.ndarray) -> np.ndarray:
    kind = "float32" if array.dtype.kind == "f" else "uint8" if array.dtype.kind == "b" else array.dtype
    kind = "int32" if array.dtype.kind in "iu" and array.dtype.itemsize > 1 else kind
    return np.ascontiguousarray(array, kind)


def _plain(value: Any) -> Any:
    """Numbers that JSON knows; those that are not finite are null, which the page shows as none."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value if value is None or isinstance(value, str) else str(value)
