"""A number with how far to trust it."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with how far to trust it.

    `error` is one standard error, NaN where there is no telling; `bracket` holds values that are low and high on average
    (annealing up and down); `effective` is the effective number of chains (Kish); `note` says what went wrong, if anything.
    """

    value: float
    error: float = 0.0
    bracket: tuple[float, float] | None = None
    effective: float | None = None
    note: str = ""

    def __float__(self) -> float:
        return self.value
