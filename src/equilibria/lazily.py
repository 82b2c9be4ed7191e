"""Public names, loaded when they are first used; one that does not exist is answered by those that look like it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from typing import Any

import lazy_loader

_ROOMS = ("estimators", "theory", "data")


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package has for `__getattr__`, `__dir__` and `__all__`, from the stub beside it.

    Args:
        package: its name.
        file: of its `__init__`.

    Returns:
        The three.
    """
    load, listed, names = lazy_loader.attach_stub(package, file)

    def found(name: str) -> Any:
        if name in names or name.startswith("_"):
            return load(name)
        raise AttributeError(_Unknown(package, name))

    return found, listed, names


class _Unknown:
    """What an error says of a name; looked for once someone reads it, since imports ask for names that are not there."""

    def __init__(self, package: str, name: str):
        self.package, self.name = package, name

    def __repr__(self) -> str:
        places: dict[str, list[str]] = {}
        for room in (self.package, *(f"equilibria.{room}" for room in _ROOMS)):
            for name in dir(importlib.import_module(room)):
                places.setdefault(name.lower(), []).append(f"{room}.{name}".replace("equilibria.", "eq.", 1))
        close = difflib.get_close_matches(self.name.lower(), places, 3)
        meant = " or ".join(place for name in close for place in dict.fromkeys(places[name]))
        return f"{self.package} has no {self.name!r}" + (f"; did you mean {meant}?" if meant else "")
