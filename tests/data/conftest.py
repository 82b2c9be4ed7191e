import struct

import numpy as np
import pytest


def _idx_bytes(array):
    codes = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
    code = codes[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture(scope="session")
def idx_bytes():
    """An IDX writer, independent of the parser: array -> bytes."""
    return _idx_bytes


@pytest.fixture(scope="session")
def tiny_mnist():
    """Five training and three test images in the form of MNIST; `shade` marks which copy it is: file name -> array."""

    def make(shade=0):
        files = {}
        for part, count in (("train", 5), ("t10k", 3)):
            images = np.arange(count * 784, dtype=np.uint32).reshape(count, 28, 28) % 251 + shade
            files[f"{part}-images-idx3-ubyte"] = images.astype(np.uint8)
            files[f"{part}-labels-idx1-ubyte"] = np.arange(count, dtype=np.uint8)
        return files

    return make
