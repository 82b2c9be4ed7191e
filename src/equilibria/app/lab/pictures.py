"""Pictures of 28 x 28 neurons from what a visitor drops on the page."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, UnidentifiedImageError

from equilibria import check
from equilibria.app.lab.catalogue import NEURONS, SIDE

MOST_PIXELS = 16_000_000  # of a picture that is dropped on the page, before it is made small


def picture(content: bytes) -> np.ndarray:
    """A picture that was dropped on the page, as neurons: bright ones are on, or dark ones on a bright ground.

    Args:
        content: of a file that Pillow can read.

    Returns:
        (784,), -1 and +1.

    Raises:
        ValueError: if it is no picture, or too large a one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as image:
                if image.width * image.height > MOST_PIXELS:
                    check.refuse("picture", f"{image.width} x {image.height} pixels", f"at most {MOST_PIXELS:,} pixels")
                grey = image.convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        check.refuse("picture", "a file that is no picture, or a damaged one", "a picture that Pillow can read")
    shades = np.asarray(grey)
    middle = (int(shades.min()) + int(shades.max())) / 2
    edge = np.concatenate([shades[0], shades[-1], shades[:, 0], shades[:, -1]])
    ink = shades > middle if np.median(edge) <= middle else shades < middle
    return np.where(ink, 1, -1).astype(np.int8).reshape(NEURONS)
