"""How the command line speaks: in letters that the terminal has, and of what went wrong in one line."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence

from equilibria.app.wording import in_options

_LETTERS = {"±": "+-", "·": "*", "×": "x", "→": "->", "≤": "<=", "≥": ">=", "–": "-", "—": "-", "’": "'", "²": "^2"}
_NO_MEMORY = "RESOURCE_EXHAUSTED"  # as JAX says it


def spell() -> None:
    """Write what a terminal has no letters for in letters that it has, in place of failing on them."""
    codecs.register_error("equilibria.spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="equilibria.spelled")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_LETTERS.get(letter, "?") for letter in letters), error.end


def explains_itself(error: Exception) -> bool:
    """Whether a sentence explains an error, one of use or of the machine; any other is ours, and keeps its traceback."""
    return not isinstance(error, RuntimeError) or _NO_MEMORY in str(error)


def explained(error: Exception, given: Sequence[str]) -> str:
    """An error in one line, in the words of the command line.

    Args:
        error: what was raised.
        given: the words on the command line.

    Returns:
        The line.

    >>> explained(MemoryError("Unable to allocate 8 TiB"), ["train"])
    'not enough memory: Unable to allocate 8 TiB'
    """
    if isinstance(error, MemoryError) or _NO_MEMORY in str(error):
        return " ".join(f"not enough memory: {error}".split())
    return in_options(str(error), given)
