"""Sequences of letters: FASTA files, the whole numbers and the blocks of neurons that stand for them, and their weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equilibria import check, files

ALPHABETS = {"protein": "-ACDEFGHIKLMNPQRSTVWY", "dna": "-ACGT", "rna": "-ACGU"}
_MOST_BYTES = 2**31
_TOGETHER = 2**26  # letters that are compared at a time
_LINE = 80  # letters in a line of a file that is written


class Sequences(NamedTuple):
    r"""Aligned sequences.

    Attributes:
        states: (sequences, sites), the number of each letter in the alphabet; -1 where it is not known.
        names: what stands after ">" of each.
        alphabet: the letters, the gap among them.

    >>> found = parse_fasta(">a\nAC-\n>b\nAXG\n", "dna", unknown="X")
    >>> found.states
    array([[ 1,  2,  0],
           [ 1, -1,  3]])
    >>> found.one_hot().shape
    (2, 15)
    """

    states: np.ndarray
    names: tuple[str, ...]
    alphabet: str

    def one_hot(self) -> np.ndarray:
        """Rows for a layer of `Potts(len(alphabet))`; sites that are not known are NaN, and summed out in training."""
        return one_hot(self.states, len(self.alphabet))

    def letters(self, unknown: str = "X") -> list[str]:
        """The sequences as text."""
        table = np.array([*self.alphabet, unknown])
        return ["".join(row) for row in table[np.asarray(self.states)]]


def one_hot(states: ArrayLike, count: int) -> np.ndarray:
    """Whole numbers as blocks of neurons of which one is on, as `Potts` units hold them.

    Args:
        states: (..., sites) from 0 to `count` - 1; -1 and NaN are missing.
        count: the number of states of a site.

    Returns:
        (..., sites * count) of 0 and 1 in float32, NaN where a site is missing.

    Raises:
        ValueError: if a state is none of these.

    >>> one_hot([[2, 0]], 3)
    array([[0., 0., 1., 1., 0., 0.]], dtype=float32)
    """
    check.count("count", count, least=2)
    given = np.asarray(states)
    if given.dtype.kind not in "iuf" or given.ndim == 0:
        check.refuse("states", f"{given.dtype} of shape {given.shape}", "an array of whole numbers")
    missing = np.isnan(given) | (given == -1) if given.dtype.kind == "f" else given == -1
    numbers = np.where(missing, 0, given)
    wrong = numbers[(numbers < 0) | (numbers >= count) | (numbers != np.floor(numbers))]
    if wrong.size:
        check.refuse("states", f"{wrong.flat[0]:g}", f"whole numbers from 0 to {count - 1}, -1 where one is missing")
    blocks = np.eye(count, dtype=np.float32)[numbers.astype(int)]
    blocks[missing] = np.nan
    return blocks.reshape(*given.shape[:-1], -1)


def states_of(rows: ArrayLike, count: int) -> np.ndarray:
    """The whole numbers that rows of blocks stand for; the inverse of `one_hot`.

    Args:
        rows: (..., sites * count), with one 1 in each block, or the probability of each state.
        count: the number of states of a site.

    Returns:
        (..., sites): the most probable state of each, -1 where it is missing.

    Raises:
        ValueError: if the rows are not a whole number of blocks.

    >>> states_of([[0, 0, 1, 1, 0, 0]], 3)
    array([[2, 0]])
    """
    given = np.asarray(rows, float)
    if given.ndim == 0 or given.shape[-1] % check.count("count", count, least=2):
        check.refuse("rows", f"shape {given.shape}", f"rows of a multiple of {count} numbers")
    blocks = given.reshape(*given.shape[:-1], -1, count)
    missing = np.isnan(blocks).any(-1)
    return np.where(missing, -1, np.argmax(np.where(np.isnan(blocks), -np.inf, blocks), axis=-1))


def as_states(sequences: Sequence[str], alphabet: str = "protein", *, unknown: str = "") -> np.ndarray:
    """Texts of one length as whole numbers.

    Args:
        sequences: the texts; small letters count as capitals, "." as "-".
        alphabet: "protein", "dna" or "rna", each with "-" for the gap as its first letter, or the letters in the order of
            their numbers.
        unknown: letters that say that something is there and not what: such a site is missing, -1.

    Returns:
        (sequences, sites).

    Raises:
        ValueError: if there are none, they are of different lengths, or a letter is not in the alphabet.

    >>> as_states(["AC", "-G"], "dna")
    array([[1, 2],
           [0, 3]])
    >>> as_states(["AC", "AB"], "dna")
    Traceback (most recent call last):
    ValueError: sequences: got 'B' at site 1 of sequence 1; allowed: the letters -ACGT
    """
    return _states(sequences, [str(number) for number in range(len(sequences))], alphabet, unknown)


def _states(sequences: Sequence[str], names: Sequence[str], alphabet: str, unknown: str) -> np.ndarray:
    alphabet = ALPHABETS.get(alphabet, alphabet)
    if len(set(alphabet)) != len(alphabet) or len(alphabet) < 2 or not alphabet.isascii():
        check.refuse("alphabet", repr(alphabet), "at least two different letters")
    if not sequences or not sequences[0]:
        check.refuse("sequences", "none", "at least one sequence with a letter")
    lengths = [len(text) for text in sequences]
    if len(set(lengths)) > 1:
        odd = next(number for number, length in enumerate(lengths) if length != lengths[0])
        given = f"{lengths[odd]} letters in sequence {names[odd]}, {lengths[0]} in sequence {names[0]}"
        check.refuse("sequences", given, "aligned sequences, all of one length")
    table = np.full(256, -2, np.int64)
    for letters, numbers in ((unknown, [-1] * len(unknown)), (alphabet, range(len(alphabet)))):
        for letter, number in zip(letters, numbers, strict=True):
            table[[ord(letter.upper()), ord(letter.lower())]] = number
    table[ord(".")] = table[ord("-")]
    text = "".join(sequences).encode("latin-1", "replace")
    found = table[np.frombuffer(text, np.uint8)].reshape(len(sequences), -1)
    if (found == -2).any():
        row, site = (int(i) for i in np.argwhere(found == -2)[0])
        extra = f", or {unknown} where it is not known" if unknown else ""
        given = f"{sequences[row][site]!r} at site {site} of sequence {names[row]}"
        check.refuse("sequences", given, f"the letters {alphabet}{extra}")
    return found


def parse_fasta(text: str, alphabet: str = "protein", *, unknown: str = "X") -> Sequences:
    r"""The sequences in the text of a FASTA file.

    A line that begins with ">" names a sequence, the lines up to the next one are its letters; blank lines and what comes after
    ";" at the beginning of a line are passed over.

    Args:
        text: of the file.
        alphabet: "protein", "dna", "rna", or the letters in the order of their numbers.
        unknown: letters of sites that are missing.

    Returns:
        The sequences, all of one length.

    Raises:
        ValueError: if there are none, one has no name, they are of different lengths, or a letter is not in the alphabet.

    >>> parse_fasta(">one\nAC\nDE\n").letters()
    ['ACDE']
    """
    names: list[str] = []
    parts: list[list[str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith(">"):
            names.append(line[1:].strip())
            parts.append([])
        elif line and not line.startswith(";"):
            if not parts:
                check.refuse(
                    "text", f"letters before any name, in line {number}", "a FASTA file: '>' and a name, then letters"
                )
            parts[-1].append(re.sub(r"\s", "", line))
    if not parts:
        check.refuse("text", "no sequence", "a FASTA file: '>' and a name, then letters")
    joined = ["".join(part) for part in parts]
    return Sequences(
        _states(joined, [repr(name) for name in names], alphabet, unknown),
        tuple(names),
        ALPHABETS.get(alphabet, alphabet),
    )


def read_fasta(path: str | Path, alphabet: str = "protein", *, unknown: str = "X") -> Sequences:
    r"""The sequences of a FASTA file.

    Args:
        path: the file, at most 2 GB.
        alphabet: "protein", "dna" or "rna", each with "-" for the gap as its first letter, or the letters in the order of
            their numbers.
        unknown: letters of sites that are missing.

    Returns:
        The sequences, all of one length.

    Raises:
        ValueError: if it is no FASTA file of aligned sequences in these letters.
        OSError: if it cannot be read.

    >>> import tempfile
    >>> path = write_fasta(Path(tempfile.mkdtemp()) / "a.fasta", parse_fasta(">one\nACDE\n"))
    >>> read_fasta(path).names
    ('one',)
    """
    path = Path(path)
    if path.stat().st_size > _MOST_BYTES:
        check.refuse(str(path), f"{path.stat().st_size} bytes", f"at most {_MOST_BYTES}")
    try:
        text = path.read_text("ascii")
    except UnicodeDecodeError as error:
        check.refuse(str(path), f"a byte that is no letter, at {error.start}", "a FASTA file in plain text")
    try:
        return parse_fasta(text, alphabet, unknown=unknown)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_fasta(path: str | Path, sequences: Sequences, *, unknown: str = "X") -> Path:
    r"""Write sequences as a FASTA file; the file is whole or not there.

    Args:
        path: the file.
        sequences: such as `Sequences(states_of(draws, 21), names, "-ACDEFGHIKLMNPQRSTVWY")`.
        unknown: what is written for a missing site.

    Returns:
        The path.

    Raises:
        ValueError: if there is another number of names, or one has a line break in it.
        StorageError: if it cannot be written.

    >>> import tempfile
    >>> path = write_fasta(Path(tempfile.mkdtemp()) / "a.fasta", Sequences(np.array([[1, 0]]), ("x",), "-ACGT"))
    >>> path.read_text()
    '>x\nA-\n'
    """
    if len(sequences.names) != len(sequences.states) or any(len(name.splitlines()) > 1 for name in sequences.names):
        given = f"{len(sequences.names)} names of {len(sequences.states)} sequences"
        check.refuse("sequences", given, "a name of one line for each")
    lines = []
    for name, letters in zip(sequences.names, sequences.letters(unknown), strict=True):
        lines += [f">{name}", *(letters[start : start + _LINE] for start in range(0, len(letters), _LINE))]
    files.write_atomic(path, ("\n".join(lines) + "\n").encode())
    return Path(path)


def sequence_weights(states: ArrayLike, identity: float = 0.8) -> np.ndarray:
    """One over the number of sequences that are alike, itself among them: relatives count together as about one.

    Args:
        states: (sequences, sites) of whole numbers; sites that are missing, -1, agree with nothing.
        identity: the share of sites from which on two sequences count as alike.

    Returns:
        (sequences,) weights from 0 to 1; their sum is the effective number of sequences.

    Raises:
        ValueError: if the states have another shape, or the share is not from 0 to 1.

    >>> sequence_weights([[1, 1, 1, 1, 1], [1, 1, 1, 1, 2], [3, 3, 3, 3, 3]])
    array([0.5, 0.5, 1. ])
    """
    given = np.asarray(states)
    check.shape("states", given, (None, None))
    check.number("identity", identity, above=0.0, most=1.0)
    count = np.ones(len(given))
    table = given.astype(np.int16)
    rows = max(1, _TOGETHER // max(table.size, 1))
    for start in range(0, len(table), rows):
        block = table[start : start + rows]
        same = ((block[:, None] == table[None]) & (block[:, None] >= 0)).sum(-1)
        alike = same >= identity * given.shape[1] - 1e-9
        alike[np.arange(len(block)), start + np.arange(len(block))] = True
        count[start : start + rows] = alike.sum(1)
    return 1 / count
