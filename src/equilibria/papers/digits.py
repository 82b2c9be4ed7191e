"""Handwritten digits for figures: MNIST, or where it is not to be had the extract that ships with the package."""

from __future__ import annotations

import warnings

import numpy as np

from equilibria.data import mnist, mnist_small
from equilibria.data.images import Images

_SMALL = 10_000  # images: a figure of more is one of MNIST itself


def handwritten(train: int, test: int = 0) -> Images:
    """The first so many images of MNIST. Where it is not to be had, those of `mnist_small`, again and again, with a warning."""
    try:
        images = mnist()
    except FileNotFoundError:
        if max(train, test) > _SMALL:
            raise
        warnings.warn("MNIST is not here: the figure is made from the extract eq.data.mnist_small()", stacklevel=2)
        images = mnist_small()
    parts = zip(images, (train, train, test, test), strict=True)
    return Images(*(rows[np.arange(count) % len(rows)] for rows, count in parts))
