"""The dials of a room: what a visitor can set, and what may be set. The page makes its controls from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from equilibria import check


class Dial(NamedTuple):
    """One thing that can be set.

    Attributes:
        name: in the address and in messages.
        label: what a visitor reads.
        default: its value in a room that is entered without it.
        kind: a "number", a "whole" number, one of several "choice"s, or a "text" that the page makes.
        least: the smallest number.
        most: the largest number, or the longest text.
        step: of a slider.
        choices: of a choice: values and what they are called.
        scale: of a slider: "linear" or "sqrt", finer at small values.
        live: whether it can be turned while the room runs on; otherwise the room begins anew.
        about: a sentence on it.
    """

    name: str
    label: str
    default: Any
    kind: Literal["number", "whole", "choice", "text"] = "number"
    least: float = 0.0
    most: float = 1.0
    step: float = 0.01
    choices: tuple[tuple[Any, str], ...] = ()
    scale: Literal["linear", "sqrt"] = "linear"
    live: bool = False
    about: str = ""

    def read(self, given: Any) -> Any:
        """A value from an address or a message, checked.

        Args:
            given: text or a number.

        Returns:
            The value.

        Raises:
            ValueError: if it is none of the values allowed.

        >>> Dial("sweeps", "sweeps", 10, "whole", 1, 100).read("20")
        20
        """
        if self.kind == "text":
            if not isinstance(given, str) or len(given) > self.most:
                check.refuse(self.name, f"a text of {len(str(given))} characters", f"at most {self.most:g} characters")
            return given
        if self.kind == "choice":
            values = {str(value): value for value, _ in self.choices}
            return values[check.choice(self.name, str(given), values)]
        try:
            number = float(given)
        except (TypeError, ValueError):
            check.refuse(self.name, repr(given)[:40], "a number")
        if not math.isfinite(number) or not self.least <= number <= self.most:
            check.refuse(self.name, f"{number:g}", f"from {self.least:g} to {self.most:g}")
        if self.kind == "number":
            return number
        if number != round(number):
            check.refuse(self.name, f"{number:g}", "a whole number")
        return int(number)

    def told(self) -> dict[str, Any]:
        """What the page is told of it."""
        return self._asdict()


SEED = Dial("seed", "Seed", 1, "whole", 0, 999_999, 1, about="Every random number of the room comes from it.")


class Plan(NamedTuple):
    """What is known of a room before anything heavy is imported.

    Attributes:
        name: in the address; rooms/NAME.py has its class.
        title: what a visitor reads.
        about: a sentence on it.
        dials: what can be set.
        experiments: figures of papers that the room shows live.
    """

    name: str
    title: str
    about: str
    dials: tuple[Dial, ...]
    experiments: tuple[str, ...] = ()

    def state(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every dial, those that are given checked.

        Args:
            given: by name.

        Returns:
            All values by name.

        Raises:
            ValueError: if there is no such dial, or a value is not allowed.

        >>> Plan("a", "A", "", (SEED,)).state({"seed": "3"})
        {'seed': 3}
        """
        for name in given:
            check.choice("dial", name, [dial.name for dial in self.dials])
        return {dial.name: dial.read(given[dial.name]) if dial.name in given else dial.default for dial in self.dials}

    def dial(self, name: str) -> Dial:
        """The dial of that name."""
        names = [dial.name for dial in self.dials]
        return self.dials[names.index(check.choice("dial", name, names))]

    def told(self) -> dict[str, Any]:
        """What the page is told of it."""
        dials = [dial.told() for dial in self.dials]
        return {"name": self.name, "title": self.title, "about": self.about, "dials": dials}


def named(*values: Any) -> tuple[tuple[Any, str], ...]:
    """Choices that are called as they are.

    >>> named(0, 0.5)
    ((0, '0'), (0.5, '0.5'))
    """
    return tuple((value, f"{value:g}" if isinstance(value, (int, float)) else str(value)) for value in values)
