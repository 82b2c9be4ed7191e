"""Tables whose features are sites of several states: sequences in a .fasta file, or whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.data.sequences import ALPHABETS as LETTERS

_ENDINGS = (".fasta", ".fa", ".faa", ".fna", ".fas")


def is_fasta(path: Path) -> bool:
    """Whether a file is one of sequences, by its name."""
    return Path(path).suffix.lower() in _ENDINGS


def read(path: Path, alphabet: str, missing: str) -> tuple[np.ndarray, tuple[str, ...], bool, tuple[str, ...]]:
    """The states of the sites of aligned sequences, -1 where one is missing; sites are called by their numbers."""
    if not Path(path).is_file():
        check.refuse("data", str(path), "an existing .fasta file")
    found = eq.data.read_fasta(path, alphabet)
    gaps = np.argwhere(found.states < 0)
    if len(gaps) and missing == "refuse":
        row, site = (int(place) for place in gaps[0])
        given = f"a missing letter in sequence {found.names[row]!r}, site {site + 1} of {path}"
        check.refuse("data", given, "letters of the alphabet; missing ones are summed out with missing=keep")
    return found.states, tuple(str(site + 1) for site in range(found.states.shape[1])), False, ()


def described(states: np.ndarray, names: Sequence[str], alphabet: str | None) -> dict[str, Any]:
    """What is to be known of the sites later, as JSON says it."""
    count = int(states.max()) + 1 if alphabet is None else len(LETTERS[alphabet])
    return {"names": list(names), "states": max(count, 2), "alphabet": alphabet}


def neuron_names(about: Mapping[str, Any]) -> tuple[str, ...]:
    """A name for each neuron: that of its site, and the state it stands for."""
    letters = range(about["states"]) if about["alphabet"] is None else LETTERS[about["alphabet"]]
    return tuple(f"{name}={letter}" for name in about["names"] for letter in letters)


def write(path: Path, draws: np.ndarray, about: Mapping[str, Any]) -> Path:
    """Write drawn sites as sequences where they have letters, else as a table of whole numbers."""
    states = eq.data.states_of(draws, about["states"])
    if about["alphabet"] is not None:
        names = tuple(f"sample {row + 1}" for row in range(len(states)))
        return eq.data.write_fasta(
            path.with_suffix(".fasta"), eq.data.Sequences(states, names, LETTERS[about["alphabet"]])
        )
    lines = [",".join(about["names"]), *(",".join(map(str, row)) for row in states.tolist())]
    files.write_atomic(path.with_suffix(".csv"), ("\n".join(lines) + "\n").encode())
    return path.with_suffix(".csv")
