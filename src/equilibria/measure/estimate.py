"""A number with how far to trust it."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A number with how far to trust it; it prints as value ± error, with what else is known.

    Attributes:
        value: the number; `float(estimate)` is it too.
        error: one standard error, NaN where there is no telling.
        bracket: values that are low and high on average (annealing up and down), or None.
        effective: the effective number of chains (Kish) or samples, or None.
        note: what went wrong, if anything.
        r_hat: of the chains behind it, where it was measured: of the energies of those that anneal back down, while they
            come to equilibrium.
        by_rung: the effective number of chains at each rung of a ladder, the last one included; none without one.
        acceptance: how often neighbours on that ladder would exchange their states, the network itself the last of them, as
            the weighted chains tell it; few of them tell little.

    >>> float(Estimate(-84.3, error=0.2))
    -84.3
    >>> print(Estimate(-84.3, 0.2, (-84.6, -84.0), 55.2, r_hat=1.004))
    -84.30 ± 0.20 (bracket -84.60 to -84.00, 55 effective samples, R-hat 1.004)
    """

    value: float
    error: float = 0.0
    bracket: tuple[float, float] | None = None
    effective: float | None = None
    note: str = ""
    r_hat: float | None = None
    by_rung: tuple[float, ...] = ()
    acceptance: tuple[float, ...] = ()

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        return f"<b>Estimate</b> {escape(str(self))}"

    def __str__(self) -> str:
        # Two digits of the error say how many of the value mean something.
        known = np.isfinite(self.error) and self.error > 0
        digits = int(np.clip(1 - np.floor(np.log10(self.error)), 0, 8)) if known else 4
        parts = []
        if self.bracket is not None:
            parts.append(f"bracket {self.bracket[0]:.{digits}f} to {self.bracket[1]:.{digits}f}")
        if self.effective is not None:
            parts.append(f"{self.effective:.0f} effective samples")
        if self.r_hat is not None:
            parts.append(f"R-hat {self.r_hat:.3f}")
        parts += [self.note] if self.note else []
        error = f" ± {self.error:.{digits}f}" if known else "" if self.error == 0 else " ± ?"
        return f"{self.value:.{digits}f}{error}" + (f" ({', '.join(parts)})" if parts else "")
