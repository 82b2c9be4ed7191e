"""What an attack counts: attempts, and the few that got through. Zero of these is the promise."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Tally(NamedTuple):
    """The outcome of one kind of attack."""

    attack: str
    attempts: int
    outcomes: Counter  # how many ended in each way that is allowed
    broken: list[str]  # what was lost, or passed in silence: a sentence each

    @property
    def row(self) -> str:
        """The same as a row of a Markdown table."""
        ways = ", ".join(f"{count:,} {way}" for way, count in sorted(self.outcomes.items()))
        return f"| {self.attack} | {self.attempts:,} | {ways} | {len(self.broken)} |"
