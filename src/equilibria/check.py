"""Errors that name the argument, what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np


def refuse(argument: str, given: Any, allowed: str) -> NoReturn:
    """Raise the library's one form of `ValueError`.

    >>> refuse("temperature", -1, "a number >= 0")
    Traceback (most recent call last):
    ValueError: temperature: got -1; allowed: a number >= 0
    """
    raise ValueError(f"{argument}: got {given}; allowed: {allowed}")


def choice(argument: str, given: Any, allowed: Iterable[Any]) -> Any:
    """`given`, if it is one of `allowed`."""
    options = tuple(allowed)
    if given not in options:
        refuse(argument, repr(given), ", ".join(repr(option) for option in options))
    return given


def count(argument: str, given: Any, *, least: int = 1) -> int:
    """`given` as an int, if it is a whole number of at least `least`."""
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not whole or given < least:
        refuse(argument, repr(given), f"a whole number >= {least}")
    return int(given)


def number(argument: str, given: Any, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf) -> Any:
    """`given`, if it is finite with least <= given <= most and given > above, element by element.

    Values under a JAX transformation cannot be looked at and pass through.
    """
    values = concrete(given)
    if values is None:
        return given
    if values.dtype.kind not in "fiu":
        refuse(argument, repr(given), "numbers")
    limits = {">=": least, ">": above, "<=": most}
    inside = np.isfinite(values) & (values >= least) & (values > above) & (values <= most)
    if not inside.all():
        bounds = [f"{sign} {limit:g}" for sign, limit in limits.items() if np.isfinite(limit)]
        refuse(argument, _brief(values), " and ".join(["finite", *bounds]))
    return given


def finite(argument: str, given: Any) -> Any:
    """`given`, if it has no NaN and no infinity."""
    values = concrete(given)
    if values is not None and values.dtype.kind == "f" and not np.isfinite(values).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        refuse(argument, f"{values[first]} at index {first}", "finite numbers")
    return given


def shape(argument: str, given: Any, allowed: tuple[int | None, ...]) -> Any:
    """`given`, if its last axes have the sizes `allowed` (None: any size)."""
    actual = np.shape(given)
    last = actual[len(actual) - len(allowed) :]
    fits = len(actual) >= len(allowed) and all(want in (None, have) for want, have in zip(allowed, last, strict=True))
    if not fits:
        sizes = ", ".join("any" if size is None else str(size) for size in allowed)
        refuse(argument, f"shape {actual}", f"shape (..., {sizes})")
    return given


def concrete(given: Any) -> np.ndarray | None:
    """The values as NumPy, or None where they are only known once compiled code runs."""
    import jax

    return None if isinstance(given, jax.core.Tracer) else np.asarray(given)


def _brief(values: np.ndarray) -> str:
    return np.array2string(values, threshold=6, edgeitems=3)
