"""Errors that name the argument, what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

T = TypeVar("T")

# Of weights, biases and temperatures, and one over it the least temperature above zero: single precision ends at 3e38,
# and fields over a temperature must fit it.
LARGEST = 1e12
STIFF = {"least": 1e-30, "most": 1e30}  # a unit's self-energy, at any of these temperatures


def refuse(argument: str, given: Any, allowed: str) -> NoReturn:
    """Raise the library's one form of `ValueError`.

    Args:
        argument: its name.
        given: what was given, as the message shows it.
        allowed: what is allowed, in words.

    Raises:
        ValueError: always.

    >>> refuse("temperature", -1, "a number >= 0")
    Traceback (most recent call last):
    ValueError: temperature: got -1; allowed: a number >= 0
    """
    first, *more = str(given).split("\n")  # of an array or a network, whose rows help nobody
    raise ValueError(f"{argument}: got {first}{' ...' if more else ''}; allowed: {allowed}")


def choice(argument: str, given: T, allowed: Iterable[Any]) -> T:
    """What was given, if it is one of the values allowed.

    Args:
        argument: its name.
        given: what was given.
        allowed: all values it may have.

    Returns:
        What was given.

    Raises:
        ValueError: if it is none of them.

    >>> choice("order", "parallel", ("random", "parallel"))
    'parallel'
    """
    options = tuple(allowed)
    if given not in options:
        refuse(argument, repr(given), ", ".join(repr(option) for option in options))
    return given


def count(argument: str, given: Any, *, least: int = 1, most: int = 2**31 - 1) -> int:
    """What was given as an int, if it is a whole number, not too small and not too large.

    Args:
        argument: its name.
        given: what was given.
        least: the smallest number allowed.
        most: the largest number allowed; compiled code counts in 32 bits.

    Returns:
        The number.

    Raises:
        ValueError: if it is no whole number, smaller or larger.

    >>> count("steps", np.int64(3))
    3
    """
    whole = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not whole or not least <= given <= most:
        limit = f" and <= {most}" if whole and given > most else ""
        refuse(argument, repr(given), f"a whole number >= {least}{limit}")
    return int(given)


def number(argument: str, given: T, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf) -> T:
    """What was given, if all its numbers are finite and within the limits.

    Values under a JAX transformation cannot be looked at and pass through.

    Args:
        argument: its name.
        given: a number or an array.
        least: the smallest number allowed.
        above: a number that all must be larger than.
        most: the largest number allowed.

    Returns:
        What was given.

    Raises:
        ValueError: if a number is outside, or it holds something else than numbers.

    >>> number("temperature", 0.5, least=0.0)
    0.5
    """
    values = concrete(given)
    if values is None:
        return given
    if values.dtype.kind not in "fiu":
        refuse(argument, repr(values.item() if values.ndim == 0 else given), "numbers")
    limits = {">=": least, ">": above, "<=": most}
    inside = np.isfinite(values) & (values >= least) & (values > above) & (values <= most)
    if not inside.all():
        bounds = [f"{sign} {limit:g}" for sign, limit in limits.items() if np.isfinite(limit)]
        refuse(argument, _brief(values), " and ".join(["finite", *bounds]))
    return given


def weights(given: Any, examples: int) -> np.ndarray:
    """How much each example counts, if there is a number for each, none below zero and not all of them zero.

    Args:
        given: (examples,).
        examples: how many there are.

    Returns:
        The same in double precision.

    Raises:
        ValueError: if they are other numbers, or not as many.

    >>> weights([1, 0.5], 3)
    Traceback (most recent call last):
    ValueError: weights: got shape (2,); allowed: shape (3,), one for each example, not all of them zero
    """
    found = np.asarray(number("weights", given, least=0.0), np.float64)
    if found.shape != (examples,) or not found.astype(np.float32).any():
        refuse("weights", f"shape {found.shape}", f"shape ({examples},), one for each example, not all of them zero")
    return found


def finite(argument: str, given: T, *, most: float = np.inf) -> T:
    """What was given, if it has no NaN and no infinity.

    Args:
        argument: its name.
        given: an array.
        most: the largest size of a number.

    Returns:
        What was given.

    Raises:
        ValueError: if a number is not finite, or larger; the message says where.

    >>> finite("data", [1.0, 2.0])
    [1.0, 2.0]
    """
    values = concrete(given)
    if values is None or values.dtype.kind != "f":
        return given
    fits = np.isfinite(values) if most == np.inf else np.abs(values) <= most
    if not fits.all():
        first = tuple(int(i) for i in np.argwhere(~fits)[0])
        size = "" if most == np.inf else f" of size up to {most:g}"
        refuse(argument, f"{values[first]} at index {first}", f"finite numbers{size}")
    return given


def temperature(given: T, *, zero: bool = False) -> T:
    """What was given, if it is a temperature that fields can be divided by.

    Args:
        given: a number or an array.
        zero: whether exactly 0 is one.

    Returns:
        What was given.

    Raises:
        ValueError: if it is negative, or so small or large that fields over it leave single precision.

    >>> temperature(1e-30)
    Traceback (most recent call last):
    ValueError: temperature: got 1.e-30; allowed: finite and >= 1e-12 and <= 1e+12
    """
    values = concrete(given)
    if values is None:
        return given
    number("temperature", values, least=0.0 if zero else 1 / LARGEST, most=LARGEST)
    if ((values != 0) & (values < 1 / LARGEST)).any():
        refuse("temperature", _brief(values), f"0, or from {1 / LARGEST:g} to {LARGEST:g}")
    return given


def shape(argument: str, given: T, allowed: tuple[int | None, ...]) -> T:
    """What was given, if its last axes have the sizes allowed.

    Args:
        argument: its name.
        given: an array.
        allowed: the sizes of the last axes; None stands for any size.

    Returns:
        What was given.

    Raises:
        ValueError: if it has other axes, rows of several lengths, or words in place of numbers.

    >>> shape("pattern", np.zeros((7, 3)), (3,)).shape
    (7, 3)
    >>> shape("pattern", [[1, 0, 1], [1, 0]], (3,))
    Traceback (most recent call last):
    ValueError: pattern: got rows of several lengths; allowed: shape (..., 3)
    """
    sizes = ", ".join("any" if size is None else str(size) for size in allowed)
    try:
        # A list is made an array once here; arrays, also JAX's, are asked for their shape alone.
        held: Any = given if hasattr(given, "shape") else np.asarray(given)
    except ValueError:
        refuse(argument, "rows of several lengths", f"shape (..., {sizes})")
    if isinstance(given, (str, Path)):
        refuse(argument, repr(str(given)), "numbers; those in a file are eq.data.read_table(file).values")
    if getattr(getattr(held, "dtype", None), "kind", "f") in "SU":
        refuse(argument, f"values of type {held.dtype}", "numbers")
    actual = np.shape(held)
    last = actual[len(actual) - len(allowed) :]
    fits = len(actual) >= len(allowed) and all(want in (None, have) for want, have in zip(allowed, last, strict=True))
    if not fits:
        refuse(argument, f"shape {actual}", f"shape (..., {sizes})")
    return given


def network(argument: str, given: T) -> T:
    """What was given, if it is made of layers and couplings.

    Args:
        argument: its name.
        given: what was given.

    Returns:
        What was given.

    Raises:
        ValueError: if it is something else.

    >>> network("network", "rbm")
    Traceback (most recent call last):
    ValueError: network: got 'rbm'; allowed: a network, such as eq.rbm(784, 500, key=0)
    """
    if not hasattr(given, "layers") or not hasattr(given, "couplings"):
        refuse(argument, repr(given), "a network, such as eq.rbm(784, 500, key=0)")
    return given


def concrete(given: Any) -> np.ndarray | None:
    """The values as NumPy, or None where they are only known once compiled code runs.

    Args:
        given: an array, a number, or what stands for one under a JAX transformation.

    Returns:
        An array, or None.

    >>> concrete(2.0)
    array(2.)
    """
    import jax

    return None if isinstance(given, jax.core.Tracer) else np.asarray(given)


def _brief(values: np.ndarray) -> str:
    return np.array2string(values, threshold=6, edgeitems=3).removesuffix(".")  # -1 for -1.0
