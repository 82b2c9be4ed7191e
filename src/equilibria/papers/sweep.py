"""Sweeps of a figure: its points are cells of a grid, kept as they are finished, and computed on a cluster if there is one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax import Array

from equilibria.grids.grid import grid
from equilibria.random import generator


def sweep(cell: Callable[..., Any], config: Any, checkpoint: Path | None, **axes: Any) -> xr.Dataset:
    """Every cell of a figure's grid, computed one by one; a figure has no use for a grid with holes.

    A cell's numbers come from its coordinates alone: they are the same on a cluster, in another order, or after a stop.

    Args:
        cell: computes one of them, from its coordinates, a random `key` if it asks for one, and `config`, all by name.
        config: the figure's configuration.
        checkpoint: a folder that keeps finished cells, under the name of the function; None keeps nothing.
        axes: the axes by name. A `seed` is one number, and is no axis of what is returned.

    Returns:
        What `cell` returned, along the axes.

    Raises:
        RuntimeError: if a cell failed; it says how many did, and why the first.

    >>> sweep(lambda load, seed, config: config * load, 2.0, None, load=[0.1, 0.2], seed=0)["value"].values
    array([0.2, 0.4])
    """
    store = None if checkpoint is None else checkpoint / cell.__name__
    result = grid(partial(cell, config=config), store=store, batch=False, retry=True, **axes)
    if "failure" in result:  # a warning of the grid has said where
        errors = result["failure"].values.ravel()
        first = errors[errors != ""][0]
        raise RuntimeError(f"{np.count_nonzero(errors)} of {errors.size} cells failed, the first with {first}")
    return (result.isel(seed=0, drop=True) if "seed" in axes else result).drop_attrs(deep=False)


def fast(key: Array) -> Array:
    """The same key for our own generator: simulations draw more numbers than they multiply.

    Args:
        key: a cell's random key.

    Returns:
        A key with the same words.

    >>> jax.random.key_impl(fast(jax.random.key(0)))
    PRNGSpec('equilibria_fast')
    """
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=generator("fast"))
