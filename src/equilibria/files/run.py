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
    """Write the state of a run.

    Args:
        folder: of the run.
        step: how far it has come.
        carry: everything that changes from step to step, a tree of arrays.
        columns: of the history.
        setup: whose they are: what must be the same when the run goes on.
        metadata: anything else that JSON can say.

    Raises:
        ValueError: if something cannot be stored.
        StorageError: if there is no room for it; the checkpoints before are whole.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> save(folder, 3, jnp.ones(2), {"loss": np.zeros(1)}, {"rule": "cd"}, {})
    >>> take_up(folder, True, jnp.zeros(2), {"rule": "cd"})
    (Array([1., 1.], dtype=float32), {'loss': array([0.])})
    """
    histories = {f"{_HISTORY}{name}": values for name, values in columns.items()}
    checkpoint.save(folder, step, {**_leaves(carry), **histories}, {**metadata, "setup": dict(setup)})


def take_up(folder: Path, resume: bool, carry: Carry, setup: Mapping[str, str]) -> tuple[Carry, dict[str, np.ndarray]]:
    """What a run in a folder was left with, if there is one and the caller wants to go on.

    Args:
        folder: of the run; it need not exist.
        resume: whether to go on with the run that is there.
        carry: that of a run that begins: it is returned where there is nothing, and gives the shapes where there is.
        setup: every entry must be what it was; the error names both values.

    Returns:
        The carry, and the columns of the history so far.

    Raises:
        ValueError: if there is a run and `resume` is not set, or it is another run.
        CheckpointError: if no checkpoint can be read.

    >>> take_up(Path("no/such/run"), True, jnp.zeros(2), {})[1]
    {}
    """
    if checkpoint.latest(folder) is None:
        return carry, {}
    if not resume:
        allowed = "another folder, or resume=True to go on with that run"
        check.refuse("checkpoint", f"{folder}, which holds a run", allowed)
    found = checkpoint.load(folder, fallback=True)
    before = found.metadata.get("setup")
    if not isinstance(before, dict):
        check.refuse("checkpoint", f"{folder}, which holds a network and no run", "a folder that a run has written")
    _refuse_another_setup(folder, before, setup)
    wanted = _leaves(carry)
    _refuse_other_shapes(folder, found.arrays, wanted)
    leaves = [jnp.asarray(found.arrays[name]) for name in wanted]
    moving, still = eqx.partition(carry, eqx.is_array)
    columns = {name.removeprefix(_HISTORY): v for name, v in found.arrays.items() if name.startswith(_HISTORY)}
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(moving), leaves), still), columns


def _refuse_another_setup(folder: Path, before: Mapping[str, Any], setup: Mapping[str, str]) -> None:
    for name, value in setup.items():
        if before.get(name) != value:
            what = f"a run with another {name}: {before.get(name)!r}, here {value!r}"
            check.refuse("checkpoint", f"{folder}, {what}", f"the same {', '.join(setup)}; or another folder")


def _refuse_other_shapes(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Array]) -> None:
    for name, leaf in wanted.items():
        found = stored.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            have = "nothing" if found is None else f"{found.dtype} {found.shape}"
            what = f"whose {name} does not fit: {have}, here {leaf.dtype} {leaf.shape}"
            check.refuse("checkpoint", f"{folder}, {what}", "the same parameters, rule and optimiser")


def _leaves(carry: Any) -> dict[str, Array]:
    paths, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(carry, eqx.is_array))
    return {f"{PREFIX}{jax.tree_util.keystr(path)}": leaf for path, leaf in paths}
