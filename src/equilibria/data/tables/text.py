"""Tables of text: which separator, which line holds the names, which cells are missing."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equilibria import check
from equilibria.data.tables.raw import MOST_BYTES, Raw, check_size, refusing

if TYPE_CHECKING:
    import pandas as pd

MISSING = (
    "",
    "NA",
    "N/A",
    "n/a",
    "na",
    "#N/A",
    "NaN",
    "nan",
    "-nan",
    "-NaN",
    "NULL",
    "null",
    "None",
    "<NA>",
    "?",
    "-",
    ".",
)
_SEPARATORS = (",", "\t", ";", "|", " ")
_NAMED = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars", " ": "spaces"}
_LOOK = 200  # lines from which a separator is told
_EXCEL = re.compile(r'"?sep=.?"?', re.IGNORECASE)  # how some spreadsheets begin
_ERRORS = ("#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")  # of spreadsheets: cells and no comments
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)


class Layout(NamedTuple):
    """How a text is laid out.

    Attributes:
        separator: between cells.
        columns: how many cells a line has.
        decimal: the sign before the fraction of a number.
    """

    separator: str
    columns: int
    decimal: str = "."


def read_text(file: IO[bytes], label: str, header: bool | None, allow_large: bool) -> Raw:
    """The table in a text file: separated by commas, tabs, semicolons, bars or spaces, with a line of names or without."""
    text, notes = _decoded(_unpacked(file, label, allow_large), label)
    with refusing(label, "a table of numbers as text"):
        return _table(text, notes, label, header)


def _table(text: str, notes: list[str], label: str, header: bool | None) -> Raw:
    numbers, lines, comment, passed_over = _lines(text)
    if not lines:
        check.refuse("data", f"{label}, which is empty", "a table of numbers")
    lines, digits = _apart(lines)
    layout = _layout(lines, label)
    first, names = _names(lines, numbers, comment, layout, header, label)
    body, where = lines[first:], np.array(numbers[first:])
    if not body:
        check.refuse("data", f"{label}, with a line of names and nothing below", "a table of numbers")
    _check_lengths(body, where, layout, label)
    if digits:
        notes.append("each digit is a cell: lines of 0 and 1 without separators")
    if passed_over:
        notes.append(f"{passed_over:,} lines below the first one begin with # and are passed over")
    if layout.separator != ",":
        notes.append(f"cells are separated by {_NAMED[layout.separator]}")
    if layout.decimal == ",":
        notes.append("a comma stands before the fraction of a number")
    frame = _parsed(body, layout)
    if frame.shape != (
        len(body),
        layout.columns,
    ):  # signs that one reading takes for spaces or line ends and another does not
        given = f"{label}, {len(body)} lines of {layout.columns} cells that read as a table of {frame.shape}"
        check.refuse("data", given, "a table of numbers as text, without signs that cannot be seen")
    ids = None
    if names is not None and len(names) == layout.columns - 1:  # R leaves the place above the names of rows empty
        frame, ids = frame.iloc[:, 1:], frame.iloc[:, 0].to_numpy()
    return Raw(frame, names, ids, notes=tuple(notes), lines=where)


def _unpacked(file: IO[bytes], label: str, allow_large: bool) -> bytes:
    start = file.read(2)
    file.seek(0)
    if start != b"\x1f\x8b":
        return file.read()
    with refusing(label, "a whole gzip file"), gzip.GzipFile(fileobj=file) as stream:
        content = stream.read(-1 if allow_large else MOST_BYTES + 1)
    check_size(label, len(content), allow_large)
    return content


def _decoded(content: bytes, label: str) -> tuple[str, list[str]]:
    """The text, without the mark that says how it is encoded."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        with refusing(label, "text in UTF-8 or UTF-16"):
            return content.decode("utf-16"), []
    if b"\0" in content[:4096]:
        check.refuse("data", f"{label}, which is no text", "a table of numbers as text")
    try:
        return content.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ["the text is not UTF-8, and was read as Windows-1252"]


def _lines(text: str) -> tuple[list[int], list[str], str | None, int]:
    """The lines with something in them and their numbers, the last comment before them, and how many are among them."""
    numbers: list[int] = []
    lines: list[str] = []
    comment, passed_over = None, 0
    for number, line in enumerate(_split(text), 1):
        if line.startswith("#") and not line.startswith(_ERRORS):
            comment, passed_over = (comment, passed_over + 1) if lines else (line, 0)
        elif line.strip() and (lines or not _EXCEL.fullmatch(line.strip())):
            numbers.append(number)
            lines.append(line)
    return numbers, lines, comment, passed_over


def _split(text: str) -> list[str]:
    """Lines, of which one with a quotation may be several of the file."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if '"' not in text:
        return plain
    lines: list[str] = []
    open_quote = False
    for line in plain:
        if open_quote:
            lines[-1] += " " + line
        else:
            lines.append(line)
        open_quote ^= line.count('"') % 2 == 1
    return lines


def _apart(lines: list[str]) -> tuple[list[str], bool]:
    """Lines such as 0110, all of one length, with a comma after each digit; some begin with 0, so that they are no numbers."""
    digits = [line.strip() for line in lines]
    one_length = len(set(map(len, digits))) == 1 and len(digits[0]) > 1
    if not one_length or any(set(line) - {"0", "1"} for line in digits) or not any(line[0] == "0" for line in digits):
        return lines, False
    return [",".join(line) for line in digits], True


def _layout(lines: list[str], label: str) -> Layout:
    """The separator by which the most lines have the same number of cells, the largest such number."""
    shown = lines[:_LOOK]
    best: tuple[float, int, str] | None = None
    for separator in _SEPARATORS:
        cells, share = Counter(map(len, _cells(shown, separator))).most_common(1)[0]
        if cells > 1 and (best is None or (share >= 0.9 * len(shown), cells) > (best[0] >= 0.9 * len(shown), best[1])):
            best = (share, cells, separator)
    if best is None:
        return Layout(",", 1)
    _, columns, separator = best
    decimal = "."
    if separator != ",":
        words = [cell for row in _cells(shown, separator) for cell in row]
        fractions = sum(bool(_DECIMAL_COMMA.fullmatch(word.strip())) for word in words)
        decimal = "," if fractions and not any("." in word and _is_number(word) for word in words) else "."
    return Layout(separator, columns, decimal)


def _cells(lines: list[str], separator: str) -> list[list[str]]:
    if separator == " ":
        return [line.split() for line in lines]
    return list(csv.reader(lines, delimiter=separator, skipinitialspace=True))


def _is_number(cell: str, decimal: str = ".") -> bool:
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return cell.strip().lower() in ("true", "false")
    return True


def _is_word(cell: str, decimal: str) -> bool:
    return cell.strip() not in MISSING and not _is_number(cell.strip(), decimal)


def _names(
    lines: list[str], numbers: list[int], comment: str | None, layout: Layout, header: bool | None, label: str
) -> tuple[int, list[str] | None]:
    """How many lines stand before the numbers, and the names in them."""
    rows = _cells(lines[:_LOOK], layout.separator)
    top, below = [cell.strip() for cell in rows[0]], rows[1:]
    if header is False:
        return 0, None
    if header or _is_header(top, below, layout):
        if len(top) not in (layout.columns, layout.columns - 1):
            given = f"{label}, line {numbers[0]} with {len(top)} names above {layout.columns} columns"
            check.refuse("data", given, "a name for each column")
        ends = len(top) < layout.columns and below and not any(row[-1].strip() for row in below)
        return 1, _distinct([*top, ""] if ends else top)  # a separator at the end of each line, but that of names
    if comment is not None:  # NumPy writes names so
        (told,) = _cells([comment.lstrip("# \t")], layout.separator)
        if len(told) == layout.columns and any(_is_word(cell, layout.decimal) for cell in told):
            return 0, _distinct([cell.strip() for cell in told])
    return 0, None


def _is_header(top: list[str], below: list[list[str]], layout: Layout) -> bool:
    """Whether the first line holds names: a word above numbers, words only, the numbers of columns, or years."""
    if len(top) == layout.columns - 1 and below:
        return True
    words = [_is_word(cell, layout.decimal) for cell in top]
    columns = list(zip(*(row for row in below if len(row) == len(top)), strict=True))
    for is_word, column in zip(words, columns, strict=False):
        if is_word and any(cell.strip() not in MISSING for cell in column):
            below_words = sum(_is_word(cell, layout.decimal) for cell in column)
            if below_words < 0.5 * len(column):
                return True
    if all(words) and len(set(top)) == len(top):
        return True
    given = [cell for cell in top if cell]
    if len(given) < 4 or not all(cell.isdecimal() for cell in given):
        return False
    numbers = [int(cell) for cell in given]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers))) and (
        numbers[0] < 2 or _below(columns, numbers[0])
    )


def _below(columns: list[tuple[str, ...]], least: int) -> bool:
    """Whether all numbers are smaller than this one, as those in a table under years are."""
    return all(_is_number(cell) and float(cell) < least for column in columns for cell in column)


def _distinct(names: list[str]) -> list[str]:
    """The names, with numbers after those that come twice."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name}.{seen[name] - 1}")
    return distinct


def _check_lengths(lines: list[str], where: np.ndarray, layout: Layout, label: str) -> None:
    """Refuse lines with more or fewer cells than the others."""
    separator = layout.separator
    if separator == " ":
        lengths = [len(line.split()) for line in lines]
    elif any('"' in line for line in lines):
        lengths = [len(row) for row in _cells(lines, separator)]
    else:
        lengths = [line.count(separator) + 1 for line in lines]
    wrong = np.flatnonzero(np.array(lengths) != layout.columns)
    if wrong.size:
        given = f"{label}, line {where[wrong[0]]} with {lengths[wrong[0]]} cells"
        check.refuse("data", given, f"{layout.columns} cells in every line, as in most of them")


def _parsed(lines: list[str], layout: Layout) -> pd.DataFrame:
    import pandas as pd

    options: dict[str, Any] = {"sep": r"\s+" if layout.separator == " " else layout.separator}
    return pd.read_csv(
        io.StringIO("\n".join(lines)),
        header=None,
        na_values=list(MISSING),
        keep_default_na=False,
        skipinitialspace=True,
        skip_blank_lines=False,
        decimal=layout.decimal,
        low_memory=False,
        **options,
    )
