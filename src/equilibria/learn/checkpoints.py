"""What training loops keep on disk: everything that changes from step to step, with the history so far, to go on from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check, store

Carry = TypeVar("Carry")
Columns = dict[str, np.ndarray]


def fingerprint(arrays: Mapping[str, Any]) -> str:
    """A short name for arrays and random keys, by their names, types, shapes and values.

    >>> fingerprint({"data": np.zeros(3)}) == fingerprint({"data": np.zeros((3, 1))})
    False
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        values = jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
        digest.update(f"{name}{array.dtype}{values.shape}".encode() + np.asarray(values).tobytes())
    return digest.hexdigest()[:16]


def save(
    folder: Path,
    step: int,
    carry: Any,
    columns: Mapping[str, np.ndarray],
    setup: Mapping[str, Any],
    arrays: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write the carry and the history's columns, under a `setup` that says whose they are; more arrays may join them."""
    histories = {f"history.{name}": values for name, values in columns.items()}
    everything = {**(arrays or {}), **_leaves(carry), **histories}
    store.save(folder, step, everything, {**(metadata or {}), "setup": dict(setup)})


def take_up(folder: Path, resume: bool, carry: Carry, setup: Mapping[str, Any]) -> tuple[Carry, Columns]:
    """The carry and the columns that a run in `folder` was left with, if there is one and the caller wants to go on.

    `carry` is that of a run that begins: it is returned where there is nothing, and gives the shapes where there is.
    """
    if store.latest(folder) is None:
        return carry, {}
    if not resume:
        check.refuse(
            "checkpoint", f"{folder}, which holds a run", "another folder, or resume=True to go on with that run"
        )
    found = store.load(folder, fallback=True)
    for name, value in setup.items():
        if found.metadata["setup"].get(name) != value:
            check.refuse("checkpoint", f"{folder}, a run with another {name}", f"the same {', '.join(setup)}")
    wanted = _leaves(carry)
    for name, leaf in wanted.items():
        stored = found.arrays.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            check.refuse("checkpoint", f"{folder}, whose {name} does not fit", "the same network, recipe and optimiser")
    leaves = [jnp.asarray(found.arrays[name]) for name in wanted]
    moving, still = eqx.partition(carry, eqx.is_array)
    columns = {name.removeprefix("history."): v for name, v in found.arrays.items() if name.startswith("history.")}
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(moving), leaves), still), columns


def _leaves(carry: Any) -> dict[str, Array]:
    paths, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(carry, eqx.is_array))
    return {f"carry{jax.tree_util.keystr(path)}": leaf for path, leaf in paths}
