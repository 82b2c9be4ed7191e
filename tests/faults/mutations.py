"""Files of every format, changed at random: each is refused in words, or nothing that counts was changed."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from faults import formats
from faults.tally import Tally


def mutations(count: int, seed: int = 0) -> Tally:
    """Change `count` files, in turn of all formats and in all ways, and read them."""
    draw, outcomes, broken = np.random.default_rng(seed), Counter(), []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a store says as a warning what it sets aside; it is a refusal here
        good = {name: formats.written(name, _made(Path(folder) / name)) for name in formats.FORMATS}
        for number in range(count):
            name, how = list(good)[number % len(good)], list(WAYS)[draw.integers(len(WAYS))]
            path, others, read, before = good[name]
            changed = WAYS[how](draw, others[path.name])
            formats.restored(path, others, changed)
            ended = "read as before" if changed == others[path.name] else formats.verdict(path, read, before)
            if ended in ("refused", "read as before"):
                outcomes[ended] += 1
            else:
                broken.append(f"{name}, {how}, number {number}: {ended}")
    return Tally(f"files of {len(good)} formats, changed at random", count, outcomes, broken)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _bits(draw, content: bytes) -> bytes:
    changed = bytearray(content)
    for bit in draw.integers(8 * len(content), size=draw.integers(1, 5)):
        changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def _cut(draw, content: bytes) -> bytes:
    return content[: draw.integers(len(content))]


def _longer(draw, content: bytes) -> bytes:
    return content + draw.bytes(draw.integers(1, 200))


def _piece(draw, content: bytes) -> slice:
    start = int(draw.integers(len(content)))
    return slice(start, min(len(content), start + int(draw.integers(1, 65))))


def _overwritten(draw, content: bytes) -> bytes:
    piece = _piece(draw, content)
    return content[: piece.start] + draw.bytes(piece.stop - piece.start) + content[piece.stop :]


def _zeroed(draw, content: bytes) -> bytes:
    """As a file system does to blocks that it had not written when the power went."""
    piece = _piece(draw, content)
    return content[: piece.start] + bytes(piece.stop - piece.start) + content[piece.stop :]


def _left_out(draw, content: bytes) -> bytes:
    piece = _piece(draw, content)
    return content[: piece.start] + content[piece.stop :]


def _doubled(draw, content: bytes) -> bytes:
    piece = _piece(draw, content)
    return content[: piece.stop] + content[piece] + content[piece.stop :]


def _digits(draw, content: bytes) -> bytes:
    """Numbers in headers, sizes among them."""
    changed = bytearray(content)
    places = [place for place, byte in enumerate(content) if 48 <= byte <= 57]
    for place in draw.choice(places, size=draw.integers(1, 4)):
        changed[place] = draw.integers(48, 58)
    return bytes(changed)


WAYS = {
    "bits turned": _bits,
    "cut short": _cut,
    "made longer": _longer,
    "a piece overwritten": _overwritten,
    "a piece zeroed": _zeroed,
    "a piece left out": _left_out,
    "a piece doubled": _doubled,
    "digits changed": _digits,
}
