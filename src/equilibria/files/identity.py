"""Whether two things are the same, by everything that can be seen of them: functions, modules, arrays, numbers.

A run that goes on and a grid that is taken up must be what they were. A value is known by its type and what it holds (what
`pickle` would store of it, without storing it). A function is known by its compiled code, the values of its default arguments,
what it closes over and the names of its module that it reads: functions and classes of the caller's own modules are looked
into, those of installed packages are known by their names and the package's version. What cannot be seen (a lock, an open
file, code made from text) is refused, never passed over. What lies outside of the process, the content of files and the
environment, is not looked at.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equilibria.files.names import BLIND, is_own, is_public, published, standing, surroundings

_PLAIN = (type(None), bool, int, float, complex, str, bytes, types.EllipsisType, types.NotImplementedType)
_WITH_SELF = (types.BuiltinMethodType, types.MethodWrapperType)
_OF_A_CLASS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
_AROUND_FUNCTIONS = (staticmethod, classmethod, property, functools.cached_property)


class Unseen(ValueError):
    """Something whose value cannot be told from another's."""


def fingerprint(thing: Any) -> str:
    """A short name for a value: equal values have equal names, other values other ones.

    Args:
        thing: arrays, numbers, text, containers, objects, modules, functions, or anything made of them.

    Returns:
        Sixteen hexadecimal digits, the same in every process with this version of Python.

    Raises:
        Unseen: if some part of it cannot be seen.

    >>> fingerprint({"data": np.zeros(3)}) == fingerprint({"data": np.zeros((3, 1))})
    False
    >>> scale = 2.0
    >>> fingerprint(lambda x: scale * x) == fingerprint(lambda x: 2.0 * x)
    False
    """
    reader = _Reader()
    try:
        reader.read(thing)
    except RecursionError:
        raise Unseen("something that is nested too deeply to be looked through") from None
    return reader.digest.hexdigest()[:16]


def seen(function: Callable[..., Any]) -> dict[str, str]:
    """The fingerprints of what makes a function, part by part, so that an error can say which part has changed.

    Args:
        function: any callable.

    Returns:
        Fingerprints by the name of the part: the code, its default arguments, each name that it closes over or reads, and
        the configuration that `functools.partial` or a bound object gives it.

    Raises:
        Unseen: if some part of it cannot be seen.

    >>> sorted(seen(functools.partial(np.power, 2)))
    ['code', 'configuration']
    """
    parts: dict[str, list[Any]] = {}
    while isinstance(function, (functools.partial, types.MethodType)):
        if isinstance(function, types.MethodType):
            parts.setdefault("configuration", []).append(function.__self__)
            function = function.__func__
        else:
            parts.setdefault("configuration", []).append((function.args, function.keywords))
            function = function.func
    if isinstance(function, types.FunctionType) and (is_own(function.__module__) or _is_ours(function.__module__)):
        parts["code"] = [function.__code__]
        parts["default arguments"] = [function.__defaults__, function.__kwdefaults__]
        for name, value in surroundings(function):
            parts.setdefault(name, []).append(value)
    else:
        parts["code"] = [function]
    return {name: _explained(name, fingerprint, values) for name, values in parts.items()}


def _explained(name: str, look: Callable[[Any], Any], value: Any) -> Any:
    """Look at what a name stands for; an error says that it was by this name."""
    try:
        return look(value)
    except Unseen as error:
        raise Unseen(f"{name}: {error}") from None


class _Reader:
    """Goes through a thing and takes down what it sees.

    Functions, classes and modules are taken down once and later named by when that was, so that functions which call one
    another come to an end. Values are taken down each time they are met, because two equal lists and one list twice are the
    same value; inside itself a value is named by its depth.
    """

    def __init__(self, around: Iterable[int] = ()):
        self.digest = hashlib.sha256()
        self.met: dict[int, int] = {}
        self.kept: list[Any] = []  # what was met, so that no address is used again meanwhile
        self.around = list(around)

    def note(self, piece: str | bytes) -> None:
        """Take down a piece, with its length before it: pieces cannot run into one another."""
        content = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        self.digest.update(len(content).to_bytes(8, "little") + content)

    def read(self, thing: Any) -> None:
        """Take down a thing."""
        if type(thing) in _PLAIN:
            self.note(f"{type(thing).__name__} {hex(thing) if type(thing) is int else repr(thing)}")
        elif isinstance(thing, (jax.Array, np.generic)) or type(thing) is np.ndarray:
            self._array(thing)
        elif is_public(thing):
            self._public(thing)
        elif isinstance(thing, (types.FunctionType, types.ModuleType, type)):
            self._once(thing)
        elif id(thing) in self.around:
            self.note(f"around {self.around.index(id(thing))}")
        else:
            self._inside(thing)

    def _public(self, thing: Any) -> None:
        if isinstance(thing, types.BuiltinFunctionType) and thing in BLIND:
            raise Unseen(f"{thing.__name__}(), which can read anything")
        self.note(published(thing.__module__, thing.__qualname__))

    def _inside(self, thing: Any) -> None:
        self.around.append(id(thing))
        self.note(f"{type(thing).__module__}.{type(thing).__qualname__}")
        self._value(thing)
        self.note("end")
        self.around.pop()

    def _once(self, thing: Any) -> None:
        if id(thing) in self.met:
            self.note(f"met {self.met[id(thing)]}")
            return
        self.met[id(thing)] = len(self.met)
        self.kept.append(thing)
        if isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            self._class(thing)
        else:
            self._module(thing)

    def _all(self, things: Iterable[Any]) -> None:
        items = list(things)
        self.note(f"{len(items)} items")
        for item in items:
            self.read(item)

    def _alone(self, thing: Any) -> str:
        """The name of a thing by itself, by which to sort what has no order."""
        reader = _Reader(self.around)
        reader.read(thing)
        return reader.digest.hexdigest()

    def _array(self, thing: Any) -> None:
        if isinstance(thing, jax.core.Tracer):
            raise Unseen("an array inside a JAX transformation, whose values are not known yet")
        if isinstance(thing, jax.Array) and jax.dtypes.issubdtype(thing.dtype, jax.dtypes.prng_key):
            self.note(f"key {jax.random.key_impl(thing)}")
            thing = jax.random.key_data(thing)
        values = np.asarray(thing)
        self.note(f"array {values.dtype!r} {values.shape}")
        if values.dtype.hasobject:
            self._all(values.ravel().tolist())
        else:
            self.note(values.tobytes())

    def _value(self, thing: Any) -> None:
        kind = type(thing)
        if kind in (list, tuple):
            self._all(thing)
        elif kind in (set, frozenset):
            self._all(sorted(map(self._alone, thing)))
        elif kind in (dict, types.MappingProxyType):
            self._all(pair for key in sorted(thing, key=self._alone) for pair in (key, thing[key]))
        elif kind is types.MethodType:
            self._all((thing.__self__, thing.__func__))
        elif kind is types.CodeType:
            self._code(thing)
        elif isinstance(thing, _WITH_SELF) and not isinstance(thing.__self__, (types.ModuleType, type(None))):
            self._all((thing.__name__, thing.__self__))
        elif isinstance(thing, types.BuiltinFunctionType):
            self._all((thing.__name__, sys.modules.get(thing.__module__ or "")))
        elif isinstance(thing, _OF_A_CLASS):
            self._all((thing.__name__, thing.__objclass__))
        elif isinstance(thing, _AROUND_FUNCTIONS):
            self._all(getattr(thing, name, None) for name in ("__func__", "func", "fget", "fset", "fdel"))
        elif hasattr(thing, "__wrapped__") and not is_own(
            type(thing).__module__
        ):  # what jit and its like make of a function
            rest = {name: value for name, value in getattr(thing, "__dict__", {}).items() if not name.startswith("_")}
            self._all((thing.__wrapped__, rest))
        else:
            self._object(thing)

    def _object(self, thing: Any) -> None:
        """Any other object: how it would be made again, and what it would then be given."""
        name = standing(thing)
        if name is not None:
            self.note(published(*name))
            return
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            found = reduce(thing) if reduce else thing.__reduce_ex__(4)
        except RecursionError:
            raise
        except Exception:  # each class refuses in its own words
            found = ""
        if isinstance(found, str):  # a name, but not one under which it is to be found
            raise Unseen(f"a {type(thing).__module__}.{type(thing).__qualname__}, whose value cannot be seen")
        self._all(list(part) if isinstance(part, Iterator) else part for part in found)

    def _function(self, function: types.FunctionType) -> None:
        name = f"{function.__module__}.{function.__qualname__}"
        if not is_own(function.__module__):
            self.note(published(function.__module__, function.__qualname__))
        self._code(function.__code__)
        self._all((function.__defaults__, function.__kwdefaults__))
        # Of another package's closure the caller's numbers are what it closes over: a schedule, an optimiser.
        around = surroundings(function)
        for what, value in around if is_own(function.__module__) else _closure(function):
            self.note(what)
            _explained(f"{name} reads {what}", self.read, value)

    def _code(self, code: types.CodeType) -> None:
        self.note(code.co_code)
        self.note(code.co_exceptiontable)
        self.note(repr((code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)))
        self._all((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_consts))

    def _class(self, kind: type) -> None:
        self.note(published(kind.__module__, kind.__qualname__))
        if not is_own(kind.__module__):
            return
        self._all((type(kind), kind.__bases__))
        for name, value in sorted(vars(kind).items()):
            made_by_python = name == "_abc_impl" or (name.startswith("__") and not _is_code(value))
            if not made_by_python:
                self.note(name)
                _explained(f"{kind.__qualname__}.{name}", self.read, value)

    def _module(self, module: types.ModuleType) -> None:
        self.note(published(module.__name__))
        if not is_own(module.__name__):
            return
        names = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("__")}
        if getattr(module, "__file__", None) is None:
            self.read(names)
            return
        self.note(Path(module.__file__ or "").read_bytes())
        for value in names.values():  # its source says all but what it takes from the caller's other modules
            source = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
            if isinstance(source, str) and source in sys.modules and is_own(source):
                self.read(sys.modules[source])


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    names = function.__code__.co_freevars
    return (part for part in surroundings(function) if part[0] in names)


def _is_ours(module: str | None) -> bool:
    """Whether it is a module of this package: a figure's own function is looked at, since its code may be under work."""
    return (module or "").partition(".")[0] == __name__.partition(".")[0]


def _is_code(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, *_AROUND_FUNCTIONS))
