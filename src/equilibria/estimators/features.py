"""What kind of neurons a table's features are, and how they are scaled."""

from __future__ import annotations

import warnings

import numpy as np

from equilibria import check
from equilibria.data.tables.kinds import kind_of
from equilibria.model.units import Binary, DoubleReLU, Gaussian, ReLU, Spin, Unit

UNITS: dict[str, type[Unit]] = {"binary": Binary, "spin": Spin, "gaussian": Gaussian}
HIDDEN: dict[str, type[Unit]] = {**UNITS, "relu": ReLU, "double_relu": DoubleReLU}


def unit_of(values: np.ndarray, kind: str) -> Unit:
    """The unit of this name, or with "auto" the one that the values fit.

    Args:
        values: (samples, features).
        kind: "auto", or a name in `UNITS`.

    Returns:
        The unit.

    Raises:
        ValueError: if there is no such kind, or it cannot take the values.

    >>> type(unit_of(np.array([[0.0, 1.0]]), "auto")).__name__
    'Binary'
    """
    if check.choice("visible", kind, ("auto", *UNITS)) == "auto":
        found = kind_of(values)
        kind = {"bits": "binary", "grey": "binary", "spins": "spin"}.get(found, "gaussian")
        if found == "counts":
            told = f"X: whole numbers from {values.min():g} to {values.max():g}: taken as Gaussian features"
            warnings.warn(
                f"{told}; visible='gaussian' says that this is meant; counts, classes and IDs are not", stacklevel=4
            )
    unit = UNITS[kind]()
    unit.check("X", values, probabilities=True)
    return unit


def scale_of(values: np.ndarray, unit: Unit) -> tuple[np.ndarray, np.ndarray]:
    """What is taken off the features and what they are divided by: nothing and one, but for Gaussian features.

    Args:
        values: (samples, features).
        unit: of the features.

    Returns:
        Two arrays (features,).

    >>> scale_of(np.array([[1.0], [3.0]]), Gaussian())
    (array([2.]), array([1.]))
    """
    if unit.normal_stiffness is None:
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    offset, spread = values.mean(0), values.std(0)
    # A feature without spread, up to rounding, keeps its scale: there is nothing to learn about it.
    return offset, np.where(spread > 1e-7 * np.maximum(np.abs(offset), 1e-300), spread, 1.0)
