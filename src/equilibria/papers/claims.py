"""What a paper says and what we say, what was measured, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from equilibria import check

Relation = Literal["close", "at least", "at most", "not testable"]


@dataclass(frozen=True)
class Claim:
    """One statement that a measurement can contradict. Make it with `close`, `at_least`, `at_most` or `not_testable`.

    Args:
        says: the statement.
        source: where it stands: equation, figure, page.
        relation: how the measurement must compare with what is expected.
        expected: the value, or the bound.
        measured: what was found, in each seed. Of an array with more axes the first is over seeds, and a seed counts with
            its mean along the others, or with its worst value where the statement is about every one.
        tolerance: by how much they may differ.
        reason: where the tolerance comes from, or why a statement cannot be tested.
        ours: whether it is our statement, not the paper's.
        every: whether the statement is about every one: then the worst of the values is judged, not their mean.
        over: what the values are of, in the singular.
        quote: the paper's own words.

    Raises:
        ValueError: if the expectation or the tolerance is not a finite number, the tolerance is negative, or nothing was
            measured.

    >>> claim = close("Critical temperature", source="Eq. (5)", expected=1, measured=[1.02, 1.08, 0.96], tolerance=0.05,
    ...               reason="spacing of the temperatures")
    >>> claim.held, claim.expectation, claim.finding
    (True, '1 ± 0.05', '1.02 ± 0.06; 2 of 3 seeds')
    """

    says: str
    source: str
    relation: Relation
    expected: float
    measured: Any
    tolerance: float
    reason: str
    ours: bool = False
    every: bool = False
    over: str = "seed"
    quote: str = ""

    def __post_init__(self) -> None:
        check.choice("relation", self.relation, ("close", "at least", "at most", "not testable"))
        check.number("expected", self.expected)
        check.number("tolerance", self.tolerance, least=0)
        values = np.atleast_1d(np.asarray(self.measured, np.float64))
        if not values.size and self.tested:
            check.refuse("measured", "nothing", "a number, or one for each seed")
        if values.ndim > 1:
            rest = values.reshape(len(values), -1)
            values = np.array([self._judged(row) for row in rest])
        object.__setattr__(self, "measured", tuple(map(float, values)))
        for field in ("expected", "tolerance"):  # plain floats, whatever array library they came from
            object.__setattr__(self, field, float(getattr(self, field)))

    @property
    def tested(self) -> bool:
        """Whether there is a measurement."""
        return self.relation != "not testable"

    @property
    def value(self) -> float:
        """What is judged: the mean over seeds, or the worst where the statement is about every one."""
        return self._judged(np.array(self.measured)) if self.tested else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 of one."""
        return float(np.std(self.measured, ddof=1)) if len(self.measured) > 1 else 0.0

    @property
    def held(self) -> bool:
        """Whether the measurement agrees. One that is not a number never does, nor does what cannot be tested."""
        return self._agrees(self.value)

    @property
    def verdict(self) -> Literal["held", "not held", "not testable"]:
        """The one of three."""
        return "not testable" if not self.tested else "held" if self.held else "not held"

    @property
    def expectation(self) -> str:
        """What was expected, in figures."""
        if not self.tested:
            return ""
        sign = {"close": ("", "±"), "at least": ("≥ ", "−"), "at most": ("≤ ", "+")}[self.relation]
        return f"{sign[0]}{self.expected:.4g}" + f" {sign[1]} {self.tolerance:.2g}" * bool(self.tolerance)

    @property
    def finding(self) -> str:
        """What was measured, in figures: the mean with the standard deviation, the worst, and in how many seeds it held."""
        if not self.tested:
            return ""
        if len(self.measured) == 1:
            return f"{self.value:.4g}"
        mean = f"{np.mean(self.measured):.4g} ± {self.spread:.2g}"
        worst = f"; worst {self.value:.4g}" * self.every
        return f"{mean}{worst}; {sum(map(self._agrees, self.measured))} of {len(self.measured)} {self.over}s"

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold, the verdict included; NaN and infinity are given as text."""
        measured = [value if math.isfinite(value) else str(value) for value in self.measured]
        return asdict(self) | {"measured": measured, "verdict": self.verdict, "held": self.held}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Claim:
        """The claim that `to_json` described; the verdict is computed again.

        Args:
            given: what `to_json` returned, also that of earlier versions.

        Returns:
            The claim.

        >>> claim = at_most("Error", source="p. 3", expected=0.1, measured=float("nan"))
        >>> Claim.from_json(claim.to_json()).held
        False
        """
        return cls(**{name: value for name, value in given.items() if name not in ("held", "verdict")})

    def _judged(self, values: np.ndarray) -> float:
        if not self.every:
            return float(np.mean(values))
        if self.relation == "close":
            return float(values[np.argmax(np.abs(values - self.expected))])
        return float(np.min(values) if self.relation == "at least" else np.max(values))

    def _agrees(self, value: float) -> bool:
        if self.relation == "at least":
            return value >= self.expected - self.tolerance
        if self.relation == "at most":
            return value <= self.expected + self.tolerance
        return abs(value - self.expected) <= self.tolerance


def close(
    says: str, *, source: str, expected: Any, measured: Any, tolerance: Any, reason: str = "", **told: Any
) -> Claim:
    """A value is given: |measured - expected| <= tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the value.
        measured: what was found: a number, or one for each seed.
        tolerance: by how much they may differ.
        reason: where the tolerance comes from.
        **told: what `Claim` takes besides: ours, every, over, quote.

    Returns:
        The claim.

    >>> close("It orders at T = 1", source="Eq. (5)", expected=1, measured=1.02, tolerance=0.05).held
    True
    """
    return Claim(says, source, "close", expected, measured, tolerance, reason, **told)


def at_least(
    says: str, *, source: str, expected: Any, measured: Any, tolerance: Any = 0, reason: str = "", **told: Any
) -> Claim:
    """A lower bound is given: measured >= expected - tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the bound.
        measured: what was found: a number, or one for each seed.
        tolerance: by how much it may be missed.
        reason: where the tolerance comes from.
        **told: what `Claim` takes besides: ours, every, over, quote.

    Returns:
        The claim.

    >>> at_least("Each is retrieved", source="p. 3", expected=0.9, measured=[0.99, 0.8], every=True).held
    False
    """
    return Claim(says, source, "at least", expected, measured, tolerance, reason, **told)


def at_most(
    says: str, *, source: str, expected: Any, measured: Any, tolerance: Any = 0, reason: str = "", **told: Any
) -> Claim:
    """An upper bound is given: measured <= expected + tolerance.

    Args:
        says: the statement.
        source: where the paper says it.
        expected: the bound.
        measured: what was found: a number, or one for each seed.
        tolerance: by how much it may be passed.
        reason: where the tolerance comes from.
        **told: what `Claim` takes besides: ours, every, over, quote.

    Returns:
        The claim.

    >>> at_most("Errors are few", source="p. 3", expected=0.1, measured=float("nan")).held
    False
    """
    return Claim(says, source, "at most", expected, measured, tolerance, reason, **told)


def not_testable(says: str, *, source: str, reason: str, **told: Any) -> Claim:
    """A statement that no measurement here can contradict; it is listed with the others.

    Args:
        says: the statement.
        source: where the paper says it.
        reason: why it cannot be tested.
        **told: what `Claim` takes besides: ours, quote.

    Returns:
        The claim.

    >>> not_testable("The brain does it", source="Abstract", reason="no brain at hand").verdict
    'not testable'
    """
    return Claim(says, source, "not testable", 0, (), 0, reason, **told)


class Tally(NamedTuple):
    """How many claims held, did not hold, and could not be tested.

    >>> str(Tally(5, 1, 2)), str(Tally(0, 0, 0))
    ('5 held, 1 not held, 2 not testable', 'no claims')
    """

    held: int
    failed: int
    untested: int

    def __str__(self) -> str:
        words = zip(self, ("held", "not held", "not testable"), strict=True)
        return ", ".join(f"{count} {word}" for count, word in words if count) or "no claims"


def tally(claims: Iterable[Claim]) -> Tally:
    """Count claims by their verdict.

    Args:
        claims: of one figure, or of many.

    Returns:
        The three counts.

    >>> tally([not_testable("It is so", source="p. 1", reason="nobody knows")])
    Tally(held=0, failed=0, untested=1)
    """
    verdicts: list[str] = [claim.verdict for claim in claims]
    return Tally(*map(verdicts.count, ("held", "not held", "not testable")))


def counted(claims: Iterable[Claim]) -> str:
    """How many claims held, did not hold and could not be tested, the papers' and ours apart.

    Args:
        claims: of one figure, or of many.

    Returns:
        One sentence.

    >>> counted([Claim("It is so", "p. 1", "at least", 1, 2, 0, ""), Claim("It is", "", "at least", 3, 2, 0, "", ours=True)])
    "The papers' claims: 1 held. Ours: 1 not held."
    """
    kinds: dict[bool, list[Claim]] = {False: [], True: []}
    for claim in claims:
        kinds[claim.ours].append(claim)
    return f"The papers' claims: {tally(kinds[False])}. Ours: {tally(kinds[True])}."
