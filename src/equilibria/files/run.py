"""What a run keeps on disk: everything that changes from step to step, with the history so far, to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.files import checkpoint

Carry = TypeVar("Carry")
PREFIX = "carry"
_HISTORY = "history."


def save(
    folder: Path,
    step: int,
    carry: Any,
    columns: Mapping[str, np.ndarray],
    setup: Mapping[str, str],
    metadata: Mapping[str, Any],
) -> None:
    """Write the carry and the history's columns, under a `setup` that says whose they are."""
    histories = {f"{_HISTORY}{name}": values for name, values in columns.items()}
    checkpoint.save(folder, step, {**_leaves(carry), **histories}, {**metadata, "setup": dict(setup)})


def take_up(folder: Path, resume: bool, carry: Carry, setup: Mapping[str, str]) -> tuple[Carry, dict[str, np.ndarray]]:
    """The carry and the columns that a run in `folder` was left with, if there is one and the caller wants to go on.

    `carry` is that of a run that begins: it is returned where there is nothing, and gives the shapes where there is. Every
    entry of `setup` must be what it was; the error names both values.
    """
    if checkpoint.latest(folder) is None:
        return carry, {}
    if not resume:
        allowed = "another folder, or resume=True to go on with that run"
        check.refuse("checkpoint", f"{folder}, which holds a run", allowed)
    found = checkpoint.load(folder, fallback=True)
    if "setup" not in found.metadata:
        check.refuse("checkpoint", f"{folder}, which holds a network and no run", "a folder that a run has written")
    before = found.metadata["setup"]
    for name, value in setup.items():
        if before.get(name) != value:
            what = f"a run with another {name}: {before.get(name)!r}, here {value!r}"
            check.refuse("checkpoint", f"{folder}, {what}", f"the same {', '.join(setup)}; or another folder")
    wanted = _leaves(carry)
    for name, leaf in wanted.items():
        stored = found.arrays.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            have = "nothing" if stored is None else f"{stored.dtype} {stored.shape}"
            what = f"whose {name} does not fit: {have}, here {leaf.dtype} {leaf.shape}"
            check.refuse("checkpoint", f"{folder}, {what}", "the same parameters, rule and optimiser")
    leaves = [jnp.asarray(found.arrays[name]) for name in wanted]
    moving, still = eqx.partition(carry, eqx.is_array)
    columns = {name.removeprefix(_HISTORY): v for name, v in found.arrays.items() if name.startswith(_HISTORY)}
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(moving), leaves), still), columns


def _leaves(carry: Any) -> dict[str, Array]:
    paths, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(carry, eqx.is_array))
    return {f"{PREFIX}{jax.tree_util.keystr(path)}": leaf for path, leaf in paths}
