"""Whether two things are the same, by everything that can be seen of them: functions, modules, arrays, numbers.

A run that goes on and a grid that is taken up must be what they were. A function is known by its compiled code, the values
of its default arguments, what it closes over, and the module-level names it reads: functions of the same top package are
looked into, those of other packages are known by their names and the package's version. What cannot be seen (an object of
C code without a value, an open file) is refused by `fingerprint`, never passed over.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

import jax
import numpy as np

_HEAP = 1 << 9  # the flag of a class that was defined in Python


class Unseen(ValueError):
    """Something whose value cannot be told from another's."""


def fingerprint(thing: Any, *, unseen: Callable[[Any], str] | None = None) -> str:
    """A short name for a value: equal values have equal names, other values other ones.

    Args:
        thing: arrays, numbers, text, containers, dataclasses, modules, functions, or anything made of them.
        unseen: what to take for a thing whose value cannot be seen; without it, such a thing is refused.

    Returns:
        Sixteen hexadecimal digits.

    Raises:
        Unseen: if some part of it cannot be seen and `unseen` is not given.

    >>> fingerprint({"data": np.zeros(3)}) == fingerprint({"data": np.zeros((3, 1))})
    False
    >>> scale = 2.0
    >>> fingerprint(lambda x: scale * x) == fingerprint(lambda x: 2.0 * x)
    False
    """
    digest = hashlib.sha256()
    for piece in _Reader(unseen).pieces(thing):
        digest.update(piece)
    return digest.hexdigest()[:16]


class _Reader:
    """Goes through a thing; what it has met already it names by when that was, so that cycles end."""

    def __init__(self, unseen: Callable[[Any], str] | None):
        self.unseen = unseen
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id is used again meanwhile

    def pieces(self, thing: Any) -> Iterable[bytes]:
        if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, enum.Enum, PurePath)):
            yield f"{type(thing).__qualname__}:{thing!r};".encode()
        elif isinstance(thing, (jax.Array, np.ndarray, np.generic)):
            yield from self._array(thing)
        elif id(thing) in self.met:
            yield f"met:{self.met[id(thing)]};".encode()
        else:
            self.met[id(thing)] = len(self.met)
            self.kept.append(thing)
            yield f"{type(thing).__module__}.{type(thing).__qualname__}(".encode()
            yield from self._parts(thing)
            yield b")"

    def _array(self, thing: Any) -> Iterable[bytes]:
        if isinstance(thing, jax.Array) and jax.dtypes.issubdtype(thing.dtype, jax.dtypes.prng_key):
            yield f"key {jax.random.key_impl(thing)}".encode()
            thing = jax.random.key_data(thing)
        values = np.asarray(thing)
        if values.dtype.kind == "O":
            yield from self.pieces(values.tolist())
            return
        yield f"array {values.dtype.str} {values.shape}".encode()
        yield values.tobytes()

    def _parts(self, thing: Any) -> Iterable[bytes]:
        if isinstance(thing, Mapping):
            for name in sorted(thing, key=repr):
                yield from self.pieces(name)
                yield from self.pieces(thing[name])
        elif isinstance(thing, (list, tuple)):
            for item in thing:
                yield from self.pieces(item)
        elif isinstance(thing, (set, frozenset)):
            for item in sorted(thing, key=repr):
                yield from self.pieces(item)
        elif isinstance(thing, range | slice | np.dtype | types.EllipsisType):
            yield repr(thing).encode()
        elif isinstance(thing, functools.partial):
            for item in (thing.func, thing.args, thing.keywords):
                yield from self.pieces(item)
        elif isinstance(thing, types.MethodType):
            yield from self.pieces(thing.__self__)
            yield from self.pieces(thing.__func__)
        elif isinstance(thing, types.FunctionType):
            yield from self._function(thing)
        elif isinstance(thing, types.CodeType):
            yield from self._code(thing)
        elif isinstance(thing, type):
            yield from self._class(thing)
        elif isinstance(thing, types.ModuleType):
            yield _published(thing.__name__).encode()
            if _looked_into(thing.__name__) and getattr(thing, "__file__", None):
                yield Path(thing.__file__ or "").read_bytes()
        elif hasattr(thing, "__wrapped__"):  # what jit and its like make of a function
            yield from self.pieces(thing.__wrapped__)
        elif dataclasses.is_dataclass(thing):
            yield from self.pieces(type(thing))
            for field in dataclasses.fields(thing):
                yield field.name.encode()
                yield from self.pieces(getattr(thing, field.name, None))
        elif inspect.isroutine(thing) or isinstance(thing, np.ufunc):
            yield _published(getattr(thing, "__module__", None) or "builtins", _name(thing)).encode()
        else:
            yield from self._object(thing)

    def _object(self, thing: Any) -> Iterable[bytes]:
        """Any other object: its class and what it holds."""
        held = dict(getattr(thing, "__dict__", {}))
        for base in type(thing).__mro__:
            for name in _names(getattr(base, "__slots__", ())):
                if hasattr(thing, name):
                    held[name] = getattr(thing, name)
        made_in_python = bool(type(thing).__flags__ & _HEAP)
        if not held and not made_in_python and type(thing).__repr__ is object.__repr__:
            if self.unseen is None:
                raise Unseen(f"a {type(thing).__module__}.{type(thing).__qualname__}, whose value cannot be seen")
            yield self.unseen(thing).encode()
            return
        if not held and type(thing).__repr__ is not object.__repr__:
            yield repr(thing).encode()
        yield from self.pieces(type(thing))
        yield from self.pieces(held)

    def _function(self, function: types.FunctionType) -> Iterable[bytes]:
        if not _looked_into(function.__module__):
            yield _published(function.__module__, function.__qualname__).encode()
            # Another package's closure still holds the caller's numbers: a schedule, an optimiser.
            yield from self._closure(function)
            return
        yield from self._code(function.__code__)
        yield from self.pieces(function.__defaults__)
        yield from self.pieces(function.__kwdefaults__)
        yield from self._closure(function)
        for name in sorted(_globals_read(function.__code__)):
            if name in function.__globals__:
                yield name.encode()
                yield from self.pieces(function.__globals__[name])

    def _closure(self, function: types.FunctionType) -> Iterable[bytes]:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield name.encode()
            try:
                yield from self.pieces(cell.cell_contents)
            except ValueError as error:
                if isinstance(error, Unseen):
                    raise
                yield b"empty"  # a name that is not yet bound

    def _code(self, code: types.CodeType) -> Iterable[bytes]:
        yield code.co_code
        yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
        for constant in code.co_consts:
            yield from self.pieces(constant)

    def _class(self, kind: type) -> Iterable[bytes]:
        yield _published(kind.__module__, kind.__qualname__).encode()
        if _looked_into(kind.__module__):
            for name, value in sorted(vars(kind).items()):
                if isinstance(value, (types.FunctionType, staticmethod, classmethod, property)):
                    yield name.encode()
                    for part in (value, *(getattr(value, accessor, None) for accessor in ("fget", "__func__"))):
                        if isinstance(part, types.FunctionType):
                            yield from self.pieces(part)


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _name(thing: Any) -> str:
    return getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None) or type(thing).__qualname__


def _globals_read(code: types.CodeType) -> set[str]:
    """The names that a function, and the functions inside it, may look up in its module."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_globals_read(constant) for constant in inner))


@functools.lru_cache(maxsize=1024)
def _looked_into(module: str | None) -> bool:
    """Whether code of this module is the caller's own: not Python's, not an installed package's, not this one's."""
    top = (module or "").partition(".")[0]
    if module is None or top in sys.stdlib_module_names or top in ("builtins", "equilibria"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not {"site-packages", "dist-packages"} & set(Path(file).parts)


@functools.lru_cache(maxsize=1024)
def _published(module: str, name: str = "") -> str:
    """`module.name`, with the version of the package it comes from, if that is an installed one."""
    named = f"{module}.{name}" if name else module
    if _looked_into(module):
        return named
    packages = _distributions().get(module.partition(".")[0])
    version = metadata.version(packages[0]) if packages else f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{named} of {packages[0] if packages else 'Python'} {version}"


@functools.lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()
