"""The names that code reads, and whose they are: the caller's own, Python's, or an installed package's."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

_READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_FOLLOWS = {"LOAD_ATTR", "LOAD_METHOD"}
_INSTALLED = {"site-packages", "dist-packages"}
# These read names that stand nowhere in the code.
BLIND = {getattr(builtins, name) for name in ("eval", "exec", "globals", "__import__")}


class Absent:
    """What stands for a name that nothing is bound to yet."""


class Import(NamedTuple):
    """An import inside a function.

    Attributes:
        module: its name, as it is written.
        level: how many dots stand before it.
        names: what is imported from it; nothing if it is imported whole.
    """

    module: str
    level: int
    names: tuple[str, ...]


def names_read(code: types.CodeType) -> set[tuple[str, ...]]:
    """The module-level names that code and the functions inside it look up, each with the attributes read of it.

    >>> sorted(names_read((lambda x: helpers.scale(x) + [OFFSET for _ in x]).__code__))
    [('OFFSET',), ('helpers', 'scale')]
    """
    found: set[tuple[str, ...]] = set()
    path: list[str] = []
    for step in dis.get_instructions(code):
        if path and step.opname in _FOLLOWS:
            path.append(step.argval)
        elif step.opname != "EXTENDED_ARG":
            found.add(tuple(path))
            path = [step.argval] if step.opname in _READS else []
    return found.union(*map(names_read, _inner(code))) - {()}


def imports(code: types.CodeType) -> set[Import]:
    """The imports inside code and the functions inside it.

    >>> def cell(x):
    ...     from numpy import sin
    ...     return sin(x)
    >>> imports(cell.__code__)
    {Import(module='numpy', level=0, names=('sin',))}
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    found = {
        Import(step.argval, steps[place - 2].argval, tuple(steps[place - 1].argval or ()))
        for place, step in enumerate(steps)
        if step.opname == "IMPORT_NAME"
    }
    return found.union(*map(imports, _inner(code)))


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, types.CodeType))


def surroundings(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function closes over, reads of its module and imports, by name; `Absent` for what is not there."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            yield name, Absent
    for path in sorted(names_read(function.__code__)):
        value = function.__globals__.get(path[0], getattr(builtins, path[0], Absent))
        yield _followed(value, path)
    for found in sorted(imports(function.__code__)):
        yield from _imported(found, function.__globals__.get("__package__"))
    if function.__dict__:
        yield "attributes", function.__dict__


def _followed(value: Any, path: tuple[str, ...]) -> tuple[str, Any]:
    """What is read of the caller's own modules, not the modules as a whole."""
    used = 1
    while isinstance(value, types.ModuleType) and is_own(value.__name__) and used < len(path):
        value = getattr(value, path[used], Absent)
        used += 1
    return ".".join(path[:used]), value


def _imported(found: Import, package: str | None) -> Iterator[tuple[str, Any]]:
    name = "." * found.level + found.module
    module: Any = Absent
    with contextlib.suppress(Exception):  # the function, too, will find that it cannot be imported
        name = importlib.util.resolve_name(name, package)
        module = importlib.import_module(name) if is_own(name) else published(name)
    if not isinstance(module, types.ModuleType) or not found.names:
        yield name, module
        return
    for attribute in found.names:
        yield f"{name}.{attribute}", getattr(module, attribute, sys.modules.get(f"{name}.{attribute}", Absent))


@functools.lru_cache(maxsize=4096)
def is_own(module: str | None) -> bool:
    """Whether code of this module is the caller's own: not Python's, not an installed package's, not this one's.

    >>> is_own("__main__"), is_own("numpy.linalg"), is_own("json"), is_own("equilibria.grids.grid")
    (True, False, False, False)
    """
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "equilibria":
        return False
    if not top or top == "__main__":  # whatever program was started: a notebook's is an installed one
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or _origin(top)
    return file is None or not _INSTALLED & set(Path(file).parts)


def _origin(top: str) -> str | None:
    """The file that a package would be imported from."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        return None if spec is None else spec.origin
    return None


@functools.lru_cache(maxsize=4096)
def published(module: str, name: str = "") -> str:
    """`module.name`, with the version of the package it comes from, if that is an installed one.

    >>> published("numpy.linalg", "norm") == f"numpy.linalg.norm of numpy {metadata.version('numpy')}"
    True
    """
    named = f"{module}.{name}" if name else module
    if is_own(module):
        return named
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return f"{named} of Python {sys.version_info.major}.{sys.version_info.minor}"
    return f"{named} of {top} {_version(top)}"


def _version(package: str) -> str:
    known = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(known, str):
        return known
    distributions = metadata.packages_distributions().get(package)
    return metadata.version(distributions[0]) if distributions else "without a version"


def is_public(thing: Any) -> bool:
    """Whether a thing of Python or an installed package is what its name there says: then its name is enough.

    >>> is_public(len), is_public(Path), is_public(lambda x: x)
    (True, True, False)
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or is_own(module):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def standing(thing: Any) -> tuple[str, str] | None:
    """The module and the name under which an object stands in the package that its class comes from, if it does.

    A distribution of SciPy or a table of settings is known by its name, as functions of installed packages are.

    >>> import os
    >>> standing(os.environ), standing(Path("a"))
    (('os', 'environ'), None)
    """
    top = type(thing).__module__.partition(".")[0]
    if is_own(top) or top == "builtins":
        return None
    tops = {top, "scipy"} if top == "numpy" else {top}  # SciPy's functions are of a class of NumPy
    modules = [name for name in list(sys.modules) if name.partition(".")[0] in tops]
    names = ((module, name) for module in modules for name, value in _contents(module) if value is thing)
    return min(names, key=lambda found: ("._" in found[0], len(found[0]), found), default=None)


def _contents(module: str) -> list[tuple[str, Any]]:
    return list(getattr(sys.modules.get(module), "__dict__", {}).items())
