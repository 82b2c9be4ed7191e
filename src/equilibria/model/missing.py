"""Data in which entries are missing: NaN where nothing is known, summed out wherever the data are used, never filled in."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units import Unit
from equilibria.model.world import Clamp


class Partial(eqx.Module):
    """Rows of data of which only some entries are known.

    Attributes:
        values: (examples, size), zero where nothing is known.
        known: (examples, size), one where something is.

    >>> len(Partial(jnp.zeros((3, 2)), jnp.ones((3, 2))))
    3
    """

    values: Array
    known: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Partial:
        """Some of the examples."""
        return Partial(self.values[index], self.known[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The rows as they were given, NaN where nothing is known."""
        return np.where(np.asarray(self.known) > 0, np.asarray(self.values), np.nan).astype(dtype or np.float32)


def parted(values: ArrayLike) -> Array | Partial:
    """Data as arrays, parted into what is known and where, if anything is missing.

    Args:
        values: (examples, size), NaN where nothing is known.

    Returns:
        The array as it is, in its own type, or its parts.

    >>> parted(np.array([[1.0, np.nan]])).known
    Array([[1., 0.]], dtype=float32)
    """
    given = check.concrete(values)
    if given is None or given.dtype.kind != "f" or not np.isnan(given).any():
        return jnp.asarray(values)
    known = ~np.isnan(given)
    return Partial(jnp.asarray(np.where(known, given, 0.0), float), jnp.asarray(known, float))


def held(layer: str, shown: Array | Partial) -> Clamp:
    """A clamp on what is known: neurons without data stay free.

    Args:
        layer: its name.
        shown: data for it.

    Returns:
        The clamp.

    >>> held("visible", parted(np.array([[1.0, np.nan]]))).mask
    Array([[ True, False]], dtype=bool)
    """
    if isinstance(shown, Partial):
        return Clamp(layer, shown.values, shown.known)
    return Clamp(layer, shown)


def completed(shown: Any, otherwise: Array) -> Array:
    """Data with other values where nothing is known: a state to start from, not data.

    Args:
        shown: data of a layer.
        otherwise: of the same shape.

    Returns:
        One value for every neuron.

    >>> completed(parted(np.array([[1.0, np.nan]])), jnp.full((1, 2), 0.5))
    Array([[1. , 0.5]], dtype=float32)
    """
    return jnp.where(shown.known > 0, shown.values, otherwise) if isinstance(shown, Partial) else shown


def check_columns(argument: str, values: ArrayLike) -> None:
    """Refuse data to learn from that say nothing at all about a neuron.

    Args:
        argument: what an error calls the data.
        values: (examples, size), NaN where nothing is known.

    Raises:
        ValueError: if a column is missing in every example.

    >>> check_columns("data", np.array([[1.0, np.nan], [0.0, np.nan]]))
    Traceback (most recent call last):
    ValueError: data: got nothing known in column 1; allowed: at least one known value in each column
    """
    given = check.concrete(values)
    if given is not None and given.dtype.kind == "f" and np.isnan(given).all(0).any():
        column = int(np.argmax(np.isnan(given).all(0)))
        check.refuse(argument, f"nothing known in column {column}", "at least one known value in each column")


def check_known(argument: str, unit: Unit, values: ArrayLike, *, probabilities: bool = False) -> None:
    """Refuse data whose known values the unit cannot take, or that miss a site in part.

    Args:
        argument: what an error calls the data.
        unit: of the layer they are for.
        values: (examples, size), NaN where nothing is known.
        probabilities: lets values lie between a unit's levels.

    Raises:
        ValueError: if a value is none of the unit's, or some neurons of a site are known and others not.

    >>> from equilibria.model.units import Binary
    >>> check_known("data", Binary(), np.array([[1.0, np.nan], [0.5, np.nan]]))
    Traceback (most recent call last):
    ValueError: data: got 0.5 among the values; allowed: only (0.0, 1.0), or with probabilities=True any mean between, ...
    """
    given = check.concrete(values)
    if given is None or given.dtype.kind != "f" or given.ndim != 2 or not np.isnan(given).any():
        unit.check(argument, values, probabilities=probabilities)
        return
    missing, size = np.isnan(given), given.shape[1]
    choices = unit.choices(size)
    width = 1 if choices is None else choices.shape[1]
    sites = missing.reshape(len(given), -1, width)
    if (sites.any(-1) & ~sites.all(-1)).any():
        row, site = (int(i) for i in np.argwhere(sites.any(-1) & ~sites.all(-1))[0])
        check.refuse(argument, f"site {site} of row {row} missing in part", "all neurons of a site known, or none")
    rest = np.asarray(unit.mode(jnp.zeros(size)))
    unit.check(argument, np.where(missing, rest, given), probabilities=probabilities)
