"""What the numbers of a table are, and whether its examples are pictures."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import numpy as np

from equilibria import check

Kind: TypeAlias = Literal["bits", "spins", "grey", "counts", "real"]
_PIXEL = re.compile(r"(pixel|px|p)[\s_.\-]?\d+([\s_x.\-]\d+)?|\d+x\d+", re.IGNORECASE)
_LEAST_SIDE = 5
_ROWS = 2000  # that are looked at


def kind_of(values: np.ndarray) -> Kind:
    """What the numbers of a table are; missing cells are passed over.

    Args:
        values: (examples, features).

    Returns:
        "bits" (0 and 1), "spins" (-1 and +1), "grey" (between 0 and 1), "counts" (whole numbers from 0) or "real".

    >>> kind_of(np.array([[0, 1]])), kind_of(np.array([[-1, 1]])), kind_of(np.array([[0.2, np.nan]]))
    ('bits', 'spins', 'grey')
    >>> kind_of(np.array([[0, 17]])), kind_of(np.array([[-0.5, 17]]))
    ('counts', 'real')
    """
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not known.size:
        return "real"
    low, high = known.min(), known.max()
    whole = known.dtype.kind in "iub" or bool((known == np.rint(known)).all())
    if whole and low >= 0:
        return "bits" if high <= 1 else "counts"
    if low == -1 and high <= 1 and bool(np.isin(known, (-1, 1)).all()):
        return "spins"
    return "grey" if low >= 0 and high <= 1 else "real"


def picture_of(
    values: np.ndarray, names: tuple[str, ...], named: bool, shape: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The height and width of the pictures that a table's examples are, None where they are none.

    A shape that was given or found in the file is taken. Otherwise columns may be named as pixels are, or have no names and
    depend most on those that would be above and below them in a square.

    Args:
        values: (examples, features).
        names: of the features.
        named: whether the names are the table's own.
        shape: what is known of it.

    Returns:
        (height, width), or None.

    Raises:
        ValueError: if the shape has another number of pixels than there are features.

    >>> picture_of(np.zeros((3, 4)), ("pixel0", "pixel1", "pixel2", "pixel3"), True, None)
    (2, 2)
    """
    size = values.shape[1]
    if shape is not None:
        if len(shape) != 2 or min(shape) < 1 or shape[0] * shape[1] != size:
            check.refuse("image_shape", shape, f"two numbers whose product is {size}, the number of features")
        return (int(shape[0]), int(shape[1]))
    side = round(size**0.5)
    if side**2 != size:
        return None
    if named:
        return (side, side) if side > 1 and all(_PIXEL.fullmatch(name) for name in names) else None
    return (side, side) if side >= _LEAST_SIDE and _smooth(values, side) else None


def _smooth(values: np.ndarray, side: int) -> bool:
    """Whether features a row apart go together more than features half a row apart."""
    rows = np.nan_to_num(np.asarray(values[:_ROWS], np.float64))
    centred = rows - rows.mean(0)
    spread = centred.std(0)
    if len(rows) < 10 or (spread > 0).sum() < 2 * side:
        return False

    def together(distance: int) -> float:
        both = spread[:-distance] * spread[distance:]
        first, second = centred[:, :-distance], centred[:, distance:]
        return float(np.mean((first * second).mean(0)[both > 0] / both[both > 0])) if (both > 0).any() else 0.0

    return together(side) > 0.1 + together(side // 2 + 1)
