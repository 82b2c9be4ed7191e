"""Training on several devices: each has its share of the chains and of every minibatch, and all of the rest.

The compiled program is the same for any number of devices; where its arrays lie is all that differs, and XLA inserts the sums
over devices. So the numbers are those of one device up to the order of floating-point sums.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from equilibria import check

Tree = TypeVar("Tree")
_AXIS = "chains"
_WHOLE, _SHARED = PartitionSpec(), PartitionSpec(_AXIS)


class Devices:
    """The devices a run uses. Without any, arrays stay where JAX puts them and nothing here does anything."""

    def __init__(self, devices: int | Sequence[jax.Device] | None, **counts: int | None):
        """`counts` are what is shared out, by the name of the argument that decides it: multiples of the devices."""
        self.mesh: Mesh | None = None
        if devices is None:
            return
        here = jax.devices()
        if isinstance(devices, (int, np.integer)):
            if not 1 <= check.count("devices", devices) <= len(here):
                check.refuse("devices", devices, f"at most {len(here)}, the devices there are")
            devices = here[:devices]
        for argument, count in counts.items():
            if count is not None and count % len(devices):
                check.refuse(argument, count, f"a multiple of {len(devices)}, the number of devices")
        self.mesh = Mesh(np.array(devices), (_AXIS,), axis_types=(AxisType.Auto,))

    @property
    def many_processes(self) -> bool:
        """Whether some of the devices belong to other processes."""
        return self.mesh is not None and self.mesh.is_multi_process

    @property
    def writes(self) -> bool:
        """Whether this process is the one that writes checkpoints."""
        return not self.many_processes or jax.process_index() == 0

    def in_use(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which `spread` and `arranged` know these devices."""
        return contextlib.nullcontext() if self.mesh is None else jax.set_mesh(self.mesh)

    def place(self, tree: Tree, shared: Any = None) -> Tree:
        """The arrays of a tree on the devices: leaves that `shared` marks shared out, all else everywhere."""
        mesh = self.mesh
        if mesh is None:
            return tree
        return _each(lambda leaf, where: _put(leaf, NamedSharding(mesh, where)), tree, shared)

    def gathered(self, tree: Tree) -> Tree:
        """The arrays of a tree as one device has them."""
        if self.mesh is None:
            return tree
        return jax.tree.map(lambda leaf: _gathered(leaf) if eqx.is_array(leaf) else leaf, tree)

    def agreed(self, number: int) -> int:
        """The first process's number, in every process: compiled loops must be equally long in all of them."""
        return int(multihost_utils.broadcast_one_to_all(np.int32(number))) if self.many_processes else number


def spread(tree: Tree) -> Tree:
    """Inside compiled code, each device's share of arrays whose first axis counts chains or examples."""
    mesh = jax.sharding.get_abstract_mesh()
    if _AXIS not in mesh.axis_names:
        return tree

    def share(leaf: Any) -> Any:
        divisible = jnp.ndim(leaf) > 1 and leaf.shape[0] % mesh.size == 0
        return jax.lax.with_sharding_constraint(leaf, _SHARED) if divisible else leaf

    return jax.tree.map(share, tree)


def arranged(tree: Tree, shared: Any = None) -> Tree:
    """Inside compiled code, the arrays of a tree where `place` puts them, so that the next step finds them there."""
    if _AXIS not in jax.sharding.get_abstract_mesh().axis_names:
        return tree
    return _each(jax.lax.with_sharding_constraint, tree, shared)


def _each(move: Callable[[Any, PartitionSpec], Any], tree: Tree, shared: Any) -> Tree:
    arrays, rest = eqx.partition(tree, eqx.is_array)
    marks = jax.tree.map(lambda leaf: False, tree) if shared is None else shared
    moved = jax.tree.map(
        lambda mark, leaf: leaf if leaf is None else move(leaf, _SHARED if mark else _WHOLE), marks, arrays
    )
    return eqx.combine(moved, rest)


def _put(leaf: jax.Array | np.ndarray, where: NamedSharding) -> jax.Array:
    """An array that every process has, as one array over all of their devices."""
    if isinstance(leaf, jax.Array) and (leaf.sharding == where or not leaf.is_fully_addressable):
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_put(jax.random.key_data(leaf), where), impl=jax.random.key_impl(leaf))
    values = np.asarray(leaf)
    return jax.make_array_from_callback(values.shape, where, lambda index: values[index])


def _gathered(leaf: jax.Array) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_gathered(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    local = leaf.is_fully_addressable or leaf.is_fully_replicated
    return jnp.asarray(np.asarray(leaf if local else multihost_utils.process_allgather(leaf, tiled=True)))
