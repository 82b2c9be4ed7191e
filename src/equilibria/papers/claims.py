"""What a paper says, what was measured, and whether the two agree."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from equilibria import check


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that a measurement can contradict. Make it with `close`, `at_least` or `at_most`.

    Args:
        says: the statement.
        source: where the paper says it: equation, figure, page.
        relation: how the measurement must compare with what is expected.
        expected: what the paper gives.
        measured: what was found.
        tolerance: by how much they may differ.
        reason: where the tolerance comes from.

    Raises:
        ValueError: if the expectation or the tolerance is not a finite number, or the tolerance is negative.

    >>> claim = close("Critical temperature", source="Eq. (5)", expected=1, measured=1.02, tolerance=0.05,
    ...               reason="spacing of the temperatures")
    >>> claim.held, claim.expectation
    (True, '1 ± 0.05')
    """

    says: str
    source: str
    relation: Literal["close", "at least", "at most"]
    expected: float
    measured: float
    tolerance: float
    reason: str

    def __post_init__(self) -> None:
        check.choice("relation", self.relation, ("close", "at least", "at most"))
        check.number("expected", self.expected)
        check.number("tolerance", self.tolerance, least=0)
        for field in ("expected", "measured", "tolerance"):  # plain floats, whatever array library they came from
            object.__setattr__(self, field, float(getattr(self, field)))

    @property
    def held(self) -> bool:
        """Whether the measurement agrees. A measurement that is not a number never does."""
        if self.relation == "at least":
            return self.measured >= self.expected - self.tolerance
        if self.relation == "at most":
            return self.measured <= self.expected + self.tolerance
        return abs(self.measured - self.expected) <= self.tolerance

    @property
    def expectation(self) -> str:
        """What was expected, in figures."""
        sign = {"close": ("", "±"), "at least": ("≥ ", "−"), "at most": ("≤ ", "+")}[self.relation]
        return f"{sign[0]}{self.expected:.4g}" + f" {sign[1]} {self.tolerance:.2g}" * bool(self.tolerance)

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold, the verdict included; NaN and infinity are given as text."""
        measured = self.measured if math.isfinite(self.measured) else str(self.measured)
        return asdict(self) | {"measured": measured, "held": self.held}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Claim:
        """The claim that `to_json` described; the verdict is computed again.

        Args:
            given: what `to_json` returned.

        Returns:
            The claim.

        >>> claim = at_most("Error", source="p. 3", expected=0.1, measured=float("nan"))
        >>> Claim.from_json(claim.to_json()).held
        False
        """
        return cls(**{name: value for name, value in given.items() if name != "held"})


def close(says: str, *, source: str, expected: Any, measured: Any, tolerance: Any, reason: str = "") -> Claim:
    """The paper gives a value: |measured - expected| <= tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the value.
        measured: what was found.
        tolerance: by how much they may differ.
        reason: where the tolerance comes from.

    Returns:
        The claim.

    >>> close("It orders at T = 1", source="Eq. (5)", expected=1, measured=1.02, tolerance=0.05).held
    True
    """
    return Claim(says, source, "close", expected, measured, tolerance, reason)


def at_least(says: str, *, source: str, expected: Any, measured: Any, tolerance: Any = 0, reason: str = "") -> Claim:
    """The paper gives a lower bound: measured >= expected - tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the bound.
        measured: what was found.
        tolerance: by how much it may be missed.
        reason: where the tolerance comes from.

    Returns:
        The claim.

    >>> at_least("It is retrieved", source="p. 3", expected=0.9, measured=0.8).held
    False
    """
    return Claim(says, source, "at least", expected, measured, tolerance, reason)


def at_most(says: str, *, source: str, expected: Any, measured: Any, tolerance: Any = 0, reason: str = "") -> Claim:
    """The paper gives an upper bound: measured <= expected + tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the bound.
        measured: what was found.
        tolerance: by how much it may be passed.
        reason: where the tolerance comes from.

    Returns:
        The claim.

    >>> at_most("Errors are few", source="p. 3", expected=0.1, measured=float("nan")).held
    False
    """
    return Claim(says, source, "at most", expected, measured, tolerance, reason)
