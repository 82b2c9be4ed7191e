"""How long a machine learns that is not told, and how it is watched: the estimator and the command line alike."""

from __future__ import annotations

import numpy as np

LOOKED = 500  # updates before which nobody looks whether chains mix: a machine that has hardly learned does
_UPDATES, _FEWEST, _MOST = 2000, 5, 300  # of a machine that learns for as long as it is not told


def usual_passes(rows: int, batch_size: int) -> int:
    """As many passes through a table as make about 2,000 updates, from 5 to 300: what a machine's default is.

    Args:
        rows: of the table.
        batch_size: rows in an update.

    Returns:
        The number of passes.

    >>> usual_passes(10_000, 100), usual_passes(300, 100), usual_passes(10**6, 100)
    (20, 300, 5)
    """
    return int(np.clip(-(-_UPDATES // max(rows // batch_size, 1)), _FEWEST, _MOST))
