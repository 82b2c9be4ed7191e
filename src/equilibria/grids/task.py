"""What is done for a chunk of cells, in whichever process: one compiled call for a block of cells, or cell by cell.

A block has the same width however many cells are left for it (it is filled up with copies), so the numbers of a cell do not
depend on which chunk it came in.
"""

from __future__ import annotations

import functools
import inspect
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equilibria import __version__, check
from equilibria.files import Unseen, fingerprint
from equilibria.grids.cells import Cell, cell_at, key_data

Row = dict[str, np.ndarray] | str  # what a cell gave, or the error it failed with
Fixed = tuple[tuple[str, Any], ...]  # coordinates that one compiled call has in common
_WORD = np.iinfo(np.int32)


@dataclass(frozen=True)
class Task:
    """A function over axes, and how its cells are computed. Equal ones share compiled code.

    Attributes:
        fn: the function.
        batched: the axes along which cells go into one compiled call.
        width: the number of cells in one compiled call.
        keyed: whether the function takes a key.
        x64: whether numbers have 64 bits; whoever computes does it in the caller's precision.
        seen: the fingerprint of the function, or a name of its own where it cannot be seen through. A function whose
            constants have changed is another one, and a copy that a worker got is the same.
        version: of the package, which workers must have too.

    >>> first, second = (Task(np.sin, ("x",), 8, False, False) for _ in range(2))
    >>> first == second, first == Task(np.cos, ("x",), 8, False, False)
    (True, False)
    """

    fn: Callable[..., Any] = field(compare=False)
    batched: tuple[str, ...]
    width: int
    keyed: bool
    x64: bool
    version: str = __version__
    seen: str = ""

    def __post_init__(self) -> None:
        if not self.seen:
            object.__setattr__(self, "seen", _name(self.fn))

    def fixed(self, cell: Cell) -> Fixed:
        """The coordinates that one compiled call has in common."""
        return tuple((name, value) for name, value in cell.values.items() if name not in self.batched)


def _name(fn: Callable[..., Any]) -> str:
    try:
        return fingerprint(fn)
    except Unseen:  # then it is no other one
        return uuid.uuid4().hex


def in_64_bits() -> bool:
    """Whether numbers have 64 bits here, by a setting of the process or of the block around.

    >>> with jax.enable_x64(True):
    ...     in_64_bits()
    True
    """
    return jnp.result_type(float) == np.float64


def takes_key(fn: Callable[..., Any], axes: Mapping[str, np.ndarray]) -> bool:
    """Whether a function takes a key.

    Args:
        fn: the function.
        axes: what it is to be called with.

    Returns:
        Whether it has an argument `key`.

    Raises:
        ValueError: if it does not take these axes.

    >>> takes_key(lambda load, key: load, {"load": np.array([0.1])})
    True
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        check.refuse("fn", repr(fn), "a function of the axes, by keyword")
    keyed = "key" in signature.parameters
    try:
        signature.bind(**dict.fromkeys(axes), **({"key": None} if keyed else {}))
    except TypeError as error:
        check.refuse("axes", ", ".join(axes), f"the arguments of fn{signature}: {error}")
    return keyed


def batched_axes(
    fn: Callable[..., Any], axes: Mapping[str, np.ndarray], batch: bool | Sequence[str] | None, keyed: bool
) -> tuple[str, ...]:
    """The axes to batch.

    Args:
        fn: the function.
        axes: all of them.
        batch: those that are asked for; True for every axis of numbers, False for none; with None those along which JAX can
            trace the function.
        keyed: whether it takes a key.

    Returns:
        Their names.

    Raises:
        ValueError: if an axis that is asked for cannot be batched.

    >>> axes = {"load": np.array([0.1, 0.2]), "size": np.array([10, 20])}
    >>> batched_axes(lambda load, size: load * jnp.ones(size).sum(), axes, None, keyed=False)
    ('load',)
    """
    numeric = tuple(name for name, values in axes.items() if _fits(values))
    if batch is True or batch is False:
        return numeric if batch else ()
    if batch is not None:
        names = (batch,) if isinstance(batch, str) else tuple(batch)
        for name in names:
            check.choice("batch", name, numeric)
        return tuple(name for name in axes if name in names)
    candidates = tuple(name for name in numeric if axes[name].size > 1)
    if _traces(fn, axes, candidates, keyed):
        return candidates
    found: tuple[str, ...] = ()
    for name in candidates:
        if _traces(fn, axes, (*found, name), keyed):
            found = (*found, name)
    return found


def _fits(values: np.ndarray) -> bool:
    """Whether compiled code can hold the values: numbers, and whole ones within 32 bits unless 64 are enabled."""
    if values.dtype.kind not in "iu" or in_64_bits():
        return values.dtype.kind in "biuf"
    return bool(values.min() >= _WORD.min and values.max() <= _WORD.max)


def _traces(fn: Callable[..., Any], axes: Mapping[str, np.ndarray], names: tuple[str, ...], keyed: bool) -> bool:
    if not names:
        return True
    first = cell_at({name: values[0].item() for name, values in axes.items()})
    task = Task(fn, names, 1, keyed, in_64_bits())
    try:
        _jitted(task, task.fixed(first)).trace(*_stacked(task, [first]))
    except Exception:  # a function that is not JAX's can fail in any way when it is handed a tracer
        return False
    return True


def compute(task: Task, cells: Sequence[Cell]) -> list[Row]:
    """The rows of cells that have their fixed coordinates in common.

    Args:
        task: what is computed.
        cells: where.

    Returns:
        A row for each cell: what the function returned, or the error it raised.

    Raises:
        RuntimeError: if the task comes from another version of the package.

    >>> compute(Task(np.sqrt, (), 1, False, False), [])
    []
    """
    if task.version != __version__:
        raise RuntimeError(f"this worker has equilibria {__version__}, the client {task.version}: install the same")
    with jax.enable_x64(task.x64):
        if not task.batched:
            return [_attempted(functools.partial(_alone, task, cell)) for cell in cells]
        blocks = [cells[start : start + task.width] for start in range(0, len(cells), task.width)]
        return [row for block in blocks for row in _block_rows(task, block)]


def _alone(task: Task, cell: Cell) -> dict[str, np.ndarray]:
    key = {"key": _as_keys(key_data([cell]))[0]} if task.keyed else {}
    return _named(task.fn(**cell.values, **key))


def _block_rows(task: Task, block: Sequence[Cell]) -> list[Row]:
    """A block in one call; if that fails while it runs, each of its cells alone, to find out which one it is."""
    arguments = _stacked(task, block)
    fixed = task.fixed(block[0])
    try:
        with _compiling(task, fixed):  # a thread that wants the same function waits for it
            compiled = _compiled(task, fixed, tuple(values.dtype for values in arguments[0].values()))
    except Exception as error:  # tracing looks at no value of a batched axis: all cells fail alike
        return [_described(error)] * len(block)

    try:
        found = _named(compiled(*arguments))
        return [_slice(found, index) for index in range(len(block))]
    except Exception:  # whatever the user's function raised belongs to one cell, not to the block
        return [_attempted(lambda cell=cell: _slice(_named(compiled(*_stacked(task, [cell]))), 0)) for cell in block]


def _slice(found: Mapping[str, np.ndarray], index: int) -> dict[str, np.ndarray]:
    # A copy, so that a cell that is kept does not keep its whole block.
    return {name: values[index].copy() for name, values in found.items()}


def _stacked(task: Task, block: Sequence[Cell]) -> tuple[dict[str, jax.Array], jax.Array]:
    """The coordinates that differ, and the raw keys, filled up to the width of a block with copies of the last cell."""
    filled = [*block, *[block[-1]] * (task.width - len(block))]
    values = {name: jnp.asarray([cell.values[name] for cell in filled]) for name in task.batched}
    return values, jnp.asarray(key_data(filled))


@functools.lru_cache(maxsize=64)
def _compiling(task: Task, fixed: Fixed) -> threading.Lock:
    return threading.Lock()


@functools.lru_cache(maxsize=64)
def _compiled(task: Task, fixed: Fixed, dtypes: tuple[np.dtype, ...]) -> Callable[..., Any]:
    shapes = {
        name: jax.ShapeDtypeStruct((task.width,), dtype) for name, dtype in zip(task.batched, dtypes, strict=True)
    }
    return _jitted(task, fixed).lower(shapes, jax.ShapeDtypeStruct((task.width, 2), np.uint32)).compile()


def _jitted(task: Task, fixed: Fixed) -> Any:
    def cell(values: dict[str, jax.Array], key: jax.Array) -> Any:
        given = {"key": _as_keys(key)} if task.keyed else {}
        return task.fn(**dict(fixed), **values, **given)

    return jax.jit(jax.vmap(cell))


def _as_keys(data: Any) -> jax.Array:
    # The generator is named, so that no process's default changes the numbers.
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def _named(result: Any) -> dict[str, np.ndarray]:
    """What a function returned, by name; a number or an array alone is called "value"."""
    named = dict(result) if isinstance(result, Mapping) else {"value": result}
    arrays = {str(name): np.asarray(value) for name, value in named.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc" and not hasattr(named[name], "dtype"):
            check.refuse("fn", f"a function that returned {named[name]!r}", "numbers, arrays, or a dict of them")
        if array.dtype in (np.longdouble, np.clongdouble):
            check.refuse("fn", f"a function that returned {array.dtype}", "numbers of up to 64 bits")
    return {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}


def _attempted(call: Callable[..., dict[str, np.ndarray]]) -> Row:
    try:
        return call()
    except Exception as error:  # a failed cell is recorded and the rest of the grid goes on
        return _described(error)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip()
