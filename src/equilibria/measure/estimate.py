"""A number with how far to trust it."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with how far to trust it.

    Attributes:
        value: the number; `float(estimate)` is it too.
        error: one standard error, NaN where there is no telling.
        bracket: values that are low and high on average (annealing up and down), or None.
        effective: the effective number of chains (Kish), or None.
        note: what went wrong, if anything.

    >>> float(Estimate(-84.3, error=0.2))
    -84.3
    """

    value: float
    error: float = 0.0
    bracket: tuple[float, float] | None = None
    effective: float | None = None
    note: str = ""

    def __float__(self) -> float:
        return self.value
