"""Ladders that end at a machine drawn without a chain: ways to sample and to learn along them, and that machine in files."""

from __future__ import annotations

from pathlib import Path
from typing import overload

import equinox as eqx
import jax.numpy as jnp

from equilibria import check, files
from equilibria.equilibrators.rooted import Root, Rooted
from equilibria.equilibrators.temper import Tempered
from equilibria.learn.contrast import Recipe
from equilibria.model.saving import describe, load_network

_PARTS = ("fields", "directions", "tilts", "heaped", "logs")


@overload
def rooted(how: Tempered, root: Root) -> Rooted: ...
@overload
def rooted(how: Recipe, root: Root) -> Recipe: ...
def rooted(how: Tempered | Recipe, root: Root) -> Rooted | Recipe:
    """A way to sample, or a recipe, whose chains exchange along networks that begin at the root's.

    Args:
        how: `Tempered(ladder=...)` along a ladder whose first network is the root's, or `tempered(along="training")`.
        root: what is drawn on the last rung.

    Returns:
        The same with the root's draws on the last rung.

    Raises:
        ValueError: if it is neither, or the first network of the ladder is another one.
    """
    if isinstance(how, Recipe):
        if how.minus is None:
            check.refuse("how", "a recipe without a minus phase", 'tempered(along="training")')
        minus = eqx.tree_at(lambda phase: phase.how, how.minus, Rooted(how.minus.how, root))  # type: ignore[arg-type]
        return eqx.tree_at(lambda recipe: recipe.minus, how, minus)
    return Rooted(how, root)


def save_root(path: str | Path, root: Root) -> Path:
    """Write the root of a ladder, `low_rank_start(...).root`, to a file; `load_root` reads it.

    Args:
        path: a file that ends in .safetensors, which is replaced whole.
        root: what is written.

    Returns:
        The path.

    Raises:
        ValueError: if the path ends otherwise, or it is no root.
        StorageError: if there is no room for it.

    >>> import numpy as np, tempfile, equilibria as eq
    >>> start = eq.low_rank_start(np.repeat(np.eye(2), 3, axis=1), 4, components=1, key=0)
    >>> path = save_root(tempfile.mkdtemp() + "/root.safetensors", start.root)
    >>> how = eq.Rooted(eq.Tempered(9, ladder=[start.network]), load_root(path))
    >>> eq.sample(start.network, how, chains=5, key=1)["visible"].shape
    (5, 6)
    """
    path = Path(path)
    if not isinstance(root, Root):
        check.refuse("root", type(root).__name__, "low_rank_start(...).root")
    if path.suffix != ".safetensors":
        check.refuse("path", str(path), "a file that ends in .safetensors")
    arrays, structure = describe(root.network)
    files.write(path, arrays | {name: getattr(root, name) for name in _PARTS}, {"model": structure})
    return path


def load_root(path: str | Path) -> Root:
    """The root of a ladder that `save_root` has written, for `Rooted`.

    Args:
        path: the file.

    Returns:
        The root.

    Raises:
        CheckpointError: if there is no such file, it is damaged, or it holds no root.

    >>> load_root("no/such/root.safetensors")
    Traceback (most recent call last):
    equilibria.files.arrays.CheckpointError: no/such/root.safetensors: ...
    """
    network, arrays = load_network(path), files.load(path).arrays
    if missing := [name for name in _PARTS if name not in arrays]:
        raise files.CheckpointError(f"{path}: holds no root of a ladder ({', '.join(missing)} not there)")
    parts = (jnp.asarray(arrays[name]) for name in _PARTS)
    root = Root(network, *parts)
    visible, (nodes, components) = network.layers[0].size, root.tilts.shape
    shapes = {"fields": (visible,), "directions": (components, visible), "heaped": (nodes,), "logs": (nodes,)}
    for name, shape in shapes.items():
        if getattr(root, name).shape != shape:
            raise files.CheckpointError(f"{path}: holds no root of a ladder ({name} of another shape than {shape})")
    return root
