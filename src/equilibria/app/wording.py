"""Errors of the library in the words of the command line: options in place of arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Arguments of the library that the command line calls otherwise.
_OTHERWISE = {
    "missing=keep": "--missing sum-out",
    "allow_large=True": "--allow-large",
    "resume=True": "--resume",
    "id_column=None": "--id-column none",
    "how=Tempered(...)": "--tempered",
    "train with chains that mix: tempered(...)": "train with chains that mix: --recipe tempered, or with --low-rank 1 too",
}
_OPTIONS = """
allow_large array batch_size binarise chains columns count data divide_by drop epochs final_rate header hidden hidden_units
id_column image_shape labels learning_rate method missing out patience points recipe seed sleep steps sweeps target temperature
time_limit to validation visible_units weights
""".split()  # noqa: SIM905


def otherwise(text: str) -> str:
    """A text of the library with the options that the command line has for its arguments.

    >>> otherwise("try how=Tempered(...), or more steps")
    'try --tempered, or more steps'
    """
    for ours, theirs in _OTHERWISE.items():
        text = text.replace(ours, theirs)
    return text


def in_options(message: str, given: Sequence[str] = ()) -> str:
    """A message in one line, with `--learning-rate` where the library says `learning_rate`.

    Args:
        message: of an error.
        given: the words on the command line; what is neither there nor known is left as it is.

    Returns:
        The message.

    >>> in_options("learning_rate: got -1; allowed: finite and > 0")
    '--learning-rate: got -1; allowed: finite and > 0'
    >>> in_options("key: got -1; allowed: a whole number >= 0"), in_options("steps: got 0", ["sample", "run"])
    ('--seed: got -1; allowed: a whole number >= 0', '--sweeps: got 0')
    >>> in_options("layers: got ''; allowed: a whole number >= 1", ["train", "deep", "--layers="])
    "--layers: got ''; allowed: a whole number >= 1"
    >>> in_options("data: got a missing cell; allowed: missing=keep or drop=dose")
    '--data: got a missing cell; allowed: --missing sum-out or --drop dose'
    """
    line = otherwise(" ".join(message.split()))
    known = {*_OPTIONS, *(_argument(word) for word in given if word.startswith("--"))}
    name, colon, rest = line.partition(": got ")
    name = _of_commands(given).get(name, name)
    if colon and name in known:
        line = f"{_option(name)}{colon}{rest}"
    return re.sub(r"\b(\w+)=(?=[^\s=])", lambda found: f"{_option(found[1])} " if found[1] in known else found[0], line)


def _of_commands(given: Sequence[str]) -> dict[str, str]:
    """What the option is called that the library knows by another name."""
    names = {"checkpoint": "out", "key": "seed", "seconds": "time_limit", "hidden_size": "hidden"}
    names |= {"components": "low_rank", "visible": "visible_units"}
    return names | ({"steps": "sweeps", "chains": "count"} if given and given[0] in ("sample", "recall") else {})


def _argument(word: str) -> str:
    """The name in an option as it was written, `--layers` or `--layers=4`."""
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
