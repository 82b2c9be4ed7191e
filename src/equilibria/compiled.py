"""What JAX compiles: programs that are kept from one process to the next, and arrays that do not cause another one.

A first call spends most of its time in the compiler. Outside compiled code even `jnp.zeros` is a program of its own, of some
20 ms; arrays there are made by NumPy and handed over with `array`, which compiles nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Tree = TypeVar("Tree")


def cache(folder: str | Path | None = None) -> Path:
    """Keep everything that JAX compiles in a folder: the next process reads it there, in place of compiling it again.

    Programs are kept however small they are. It is a setting of JAX, so that your own compiled functions are kept too; call
    it once, at the top of a script or a notebook. A library does not write into the home of those who import it: without
    this call nothing is kept. The command line makes it. The folder may be deleted at any time.

    Args:
        folder: where; by default where JAX has been told to (JAX_COMPILATION_CACHE_DIR), else equilibria/compiled under
            XDG_CACHE_HOME or ~/.cache.

    Returns:
        The folder.

    >>> import tempfile, equilibria as eq
    >>> before = jax.config.jax_compilation_cache_dir
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = eq.cache(folder)
    ...     _ = jax.jit(lambda x: 3 * x)(2.0)
    ...     kept = len(list(eq.cache(folder).iterdir()))
    ...     _ = before and eq.cache(before)
    >>> kept > 0
    True
    """
    from jax.experimental.compilation_cache import compilation_cache

    told = jax.config.values["jax_compilation_cache_dir"]
    if folder is None and told is None:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equilibria" / "compiled"
    place = Path(told if folder is None else folder)
    settings = {
        "jax_compilation_cache_dir": str(place),
        # A program is read in a millisecond or two, and none is compiled in less than ten.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    changed = {name: value for name, value in settings.items() if _may_set(name) and jax.config.values[name] != value}
    for name, value in changed.items():
        jax.config.update(name, value)
    if changed:  # whether and where programs are kept is otherwise decided at the first compilation
        compilation_cache.reset_cache()
    return place


def _may_set(name: str) -> bool:
    """Whether the user has not said in the environment what the setting is to be; the folder is settled before."""
    return name == "jax_compilation_cache_dir" or name.upper() not in os.environ


def array(values: Any, kind: Any = float) -> Array:
    """Values as a JAX array of strong type, with nothing compiled where they are known.

    Args:
        values: an array, a number, nested lists, or what stands for an array inside compiled code.
        kind: float, int or bool, in JAX's present precision; or a dtype.

    Returns:
        The array.

    >>> array([1, 2]), array(np.ones(2), int)
    (Array([1., 2.], dtype=float32), Array([1, 1], dtype=int32))
    """
    if isinstance(values, jax.core.Tracer) or (isinstance(values, jax.Array) and not values.is_fully_addressable):
        return jnp.asarray(values, kind)
    if isinstance(values, jax.Array) and values.dtype == jax.dtypes.canonicalize_dtype(kind) and not values.weak_type:
        return values
    try:
        known = np.asarray(values)
    except jax.errors.TracerArrayConversionError:  # a list that holds traced numbers
        return jnp.asarray(values, kind)
    return jax.device_put(known.astype(jax.dtypes.canonicalize_dtype(kind), copy=False))


def strong(tree: Tree) -> Tree:
    """The tree with no weakly typed array in it: a program is compiled again where it meets another type.

    Args:
        tree: any pytree.

    Returns:
        The same numbers.

    >>> strong(jnp.asarray(1.0)).weak_type
    False
    """

    def leaf(value: Any) -> Any:
        return array(value, value.dtype) if getattr(value, "weak_type", False) else value

    return jax.tree.map(leaf, tree)
