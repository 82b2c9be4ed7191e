"""The records of a run, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from jax.typing import ArrayLike


class History:
    """Columns of one length. A column that begins later, or is missing from a row, is NaN there.

    >>> history = History()
    >>> row = history.add({"step": 1, "loss": 2.0})
    >>> row = history.add({"step": 2, "loss": 1.0, "error": 0.5})
    >>> history.arrays()["error"]
    array([nan, 0.5])
    """

    def __init__(self, columns: Mapping[str, np.ndarray] | None = None):
        self.columns = {name: list(values) for name, values in (columns or {}).items()}

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def add(self, row: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Append a row, and return it as arrays."""
        count, arrays = len(self), {name: np.asarray(value) for name, value in row.items()}
        for name, value in arrays.items():
            self.columns.setdefault(name, [_missing(value)] * count).append(value)
        for values in self.columns.values():
            if len(values) == count:
                values.append(_missing(values[0]))
        return arrays

    def arrays(self) -> dict[str, np.ndarray]:
        """Each column, the rows on its first axis."""
        return {name: np.stack(values) for name, values in self.columns.items()}

    def dataset(self, lead: Sequence[str] = ()) -> xr.Dataset:
        """The same labelled; `lead` names axes that every column but step and epoch has after that of the steps."""
        columns = self.arrays()
        coordinates = {name: ("step", columns.pop(name)) for name in ("step", "epoch") if name in columns}
        variables = {}
        for name, values in columns.items():
            inner = (f"{name}_{axis}" for axis in range(values.ndim - 1 - len(lead)))
            variables[name] = (("step", *lead[: values.ndim - 1], *inner), values)
        return xr.Dataset(variables, coordinates)


def _missing(value: np.ndarray) -> np.ndarray:
    return np.full(value.shape, np.nan, np.result_type(value, np.float32))
