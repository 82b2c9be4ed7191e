"""What every room is: a state set by dials, a job in chunks, numbers to take away, and the code that gives them."""

from __future__ import annotations

import base64
import binascii
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equilibria import check
from equilibria.app.lab.catalogue import NEURONS, PLANS
from equilibria.app.lab.dials import Plan

if TYPE_CHECKING:
    import xarray as xr

Emit = Callable[[dict[str, Any]], None]
FRAME = 1 / 30  # seconds between two pictures of a room that moves as fast as it can


class Room(ABC):
    """A room that one tab is in; everything happens on the worker's thread.

    Args:
        state: a value for every dial.
        emit: sends a message to the page.
        tables: the tables that were dropped on pages, by name.
    """

    plan: ClassVar[Plan]

    def __init__(self, state: dict[str, Any], emit: Emit, tables: dict[str, np.ndarray]):
        self.state, self.emit, self.tables = state, emit, tables

    def __getitem__(self, dial: str) -> Any:
        return self.state[dial]

    @abstractmethod
    def run(self) -> Iterator[float | None]:
        """What the room does, in chunks; yields None to go on, or seconds to wait."""

    @abstractmethod
    def dataset(self) -> xr.Dataset:
        """The numbers of the room as they stand, for files."""

    @abstractmethod
    def code(self) -> str:
        """Ten lines of Python that do the same, with the values of the dials."""

    def turn(self, name: str, value: Any) -> None:
        """Take up a dial that is turned while the room runs."""
        if not self.plan.dial(name).live:
            check.refuse("dial", name, "a dial that can be turned while the room runs")
        self.state[name] = self.plan.dial(name).read(value)

    def act(self, what: dict[str, Any]) -> None:
        """Do what a visitor did on the page besides turning dials."""
        check.refuse("action", str(what.get("act"))[:40], "an action of this room")

    @classmethod
    def warm(cls) -> None:
        """Compile what the room needs, by running its default for a few frames."""
        room = cls(cls.plan.state({}), lambda message: None, {})
        for _, _ in zip(range(cls.warm_chunks), room.run(), strict=False):
            pass

    warm_chunks: ClassVar[int] = 3

    @classmethod
    def warm_soon(cls) -> None:
        """What can wait until the room can be entered, but not until the next one can."""
        return None

    @classmethod
    def warm_later(cls) -> None:
        """What can wait until every room is warm: in most rooms nothing."""
        return None


def room_class(name: str) -> type[Room]:
    """The class of a room; its module, and with it JAX, is imported now.

    Args:
        name: of the room.

    Returns:
        The class.

    Raises:
        ValueError: if there is no such room.
    """
    check.choice("room", name, PLANS)
    return importlib.import_module(f"equilibria.app.lab.rooms.{name}").ROOM


def from_bits(text: str) -> np.ndarray:
    """A picture of 28 x 28 that the page has written into the address: -1 and +1, eight to a byte, in base64.

    Args:
        text: base64 with - and _, without =.

    Returns:
        (784,), int8.

    Raises:
        ValueError: if it is no such text.

    >>> from_bits(to_bits(np.ones(784))).sum()
    np.int64(784)
    """
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        check.refuse("picture", "a text that is no base64", "784 bits in base64")
    if len(content) != NEURONS // 8:
        check.refuse("picture", f"{8 * len(content)} bits", f"{NEURONS} bits in base64")
    return 2 * np.unpackbits(np.frombuffer(content, np.uint8)).astype(np.int8) - 1


def to_bits(picture: np.ndarray) -> str:
    """The text for `from_bits`."""
    return base64.urlsafe_b64encode(np.packbits(picture > 0).tobytes()).decode().rstrip("=")
