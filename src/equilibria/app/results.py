"""The table of the results that are kept with the source: which claims held, and which results are of earlier code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from equilibria import files
from equilibria.app.report import Entry, duration, entries
from equilibria.papers import INDEX, PAPERS, code
from equilibria.papers.claims import counted, tally

_BEGIN, _END = "<!-- results -->\n", "<!-- end of results -->\n"


def write(folder: str | Path) -> Path:
    """Write README.md about every result in a folder.

    Args:
        folder: holds PAPER/FIGURE/PRESET.

    Returns:
        The path of the table.
    """
    path, found = Path(folder) / "README.md", entries(folder)
    files.write_atomic(path, table(found).encode())
    return path


def write_summary(page: str | Path, folder: str | Path) -> None:
    """Put a row for each paper between the two marks of a page, the project's README.

    Args:
        page: has the lines `<!-- results -->` and `<!-- end of results -->`.
        folder: holds PAPER/FIGURE/PRESET.
    """
    before, _, rest = Path(page).read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    files.write_atomic(Path(page), f"{before}{_BEGIN}{summary(entries(folder))}{_END}{after}".encode())


def summary(entries: list[Entry]) -> str:
    """A row for each paper: how many of its statements held, of ours, and how many results are of earlier code.

    Args:
        entries: the results; those that were made before results knew their code are not counted.

    Returns:
        A table as Markdown.

    >>> summary([]).splitlines()[0]
    "| paper | figures run at its size | the paper's statements | ours | results of earlier code |"
    """
    rows = [
        "| paper | figures run at its size | the paper's statements | ours | results of earlier code |",
        "|---|---|---|---|---|",
    ]
    for paper, title in PAPERS.items():
        here = [entry for entry in entries if entry.id.startswith(f"{paper}/") and "code" in entry.made]
        figures = sum(id.startswith(f"{paper}/") for id in INDEX)
        kinds = (
            tally([claim for entry in here for claim in entry.claims if claim.ours == ours]) for ours in (False, True)
        )
        told = " | ".join(str(kind) if here else "" for kind in kinds)
        stale = sum(bool(entry.stale) for entry in here)
        rows.append(f"| {title} | {len(here)} of {figures} | {told} | {stale if here else ''} |")
    return "\n".join(rows) + "\n"


def table(entries: list[Entry]) -> str:
    """The page as Markdown.

    Args:
        entries: the results.

    Returns:
        The whole page.

    >>> "Nothing" in table([])
    True
    """
    fresh = [entry for entry in entries if "code" in entry.made]
    old = [entry for entry in entries if "code" not in entry.made]
    parts = [
        "# Results at the size of the papers\n\nEach folder was made by `equilibria reproduce PAPER/FIGURE --preset paper "
        "--out docs/results/PAPER/FIGURE/paper`. It holds the data\n(`result.nc`), the configuration with what differs from "
        "the paper, the claims with what was measured, and the figure. What is not listed\nhas not been run at this size "
        "yet. `make results` writes this page; what the papers say and why it holds or not is told in\n"
        "[papers.md](../papers.md).\n"
    ]
    if fresh:
        stale = sum(bool(entry.stale) for entry in fresh)
        note = f" {stale} of {len(fresh)} results are stale: code that they depend on has changed since." * bool(stale)
        parts.append(f"{counted(claim for entry in fresh for claim in entry.claims)}{note}\n")
        parts += [_rows(paper, fresh) for paper in PAPERS]
    if old:
        parts.append(
            "## Of the earlier preset `full`\n\nAll stale: their numbers and claims are those of the code of their day, and "
            "have not been run since. They did not tell the paper's\nclaims from ours, and were run with one seed; some of "
            "their claims had been loosened after a run. They are not counted above.\n"
        )
        parts += [_rows(paper, old) for paper in PAPERS]
    if not entries:
        parts.append("Nothing has been kept yet.\n")
    return "\n".join(part for part in parts if part)


def _rows(paper: str, entries: list[Entry]) -> str:
    here = [entry for entry in entries if entry.id.startswith(f"{paper}/")]
    if not here:
        return ""
    rows = [
        f"| [{entry.id}]({entry.id}/paper/figure.png) | {entry.title} | {verdicts(entry, ours=False)} | "
        f"{verdicts(entry, ours=True)} | {duration(entry.made['seconds'])} | {_made(entry)} |\n"
        for entry in here
    ]
    head = "| figure | | the paper's claims | ours | time | made |\n|---|---|---|---|---|---|\n"
    return f"**{PAPERS[paper]}**\n\n{head}{''.join(rows)}"


def verdicts(entry: Entry, *, ours: bool) -> str:
    """How many claims of one kind held, did not, and could not be tested.

    Args:
        entry: a result.
        ours: our claims, or the paper's.

    Returns:
        The counts in words; nothing where there are no such claims.
    """
    chosen = [claim for claim in entry.claims if claim.ours == ours]
    return str(tally(chosen)) if chosen else ""


def _made(entry: Entry) -> str:
    day = str(entry.made.get("created", ""))[:10]
    same = " (its quick version the same by this)" if "same" in entry.made else ""
    return f"{day}, stale" if entry.stale else f"{day}, code {entry.made['code']}{same}"


def compare(folder: str | Path, before: str | Path, after: str | Path) -> list[str]:
    """Mark results of earlier code whose quick versions by both codes have the same numbers, bit for bit.

    After a change that is to change no number (another arrangement, a faster loop) all figures need not be run again at their
    size. What made them, and when, stays; `same` beside it is the digest of the code that was compared. That the same holds at
    the paper's size is not known, and the table says what was compared.

    Args:
        folder: the kept results, PAPER/FIGURE/PRESET.
        before: quick versions by the code that made them, as `equilibria report --out` leaves them.
        after: quick versions by this code.

    Returns:
        The figures that were marked. One whose numbers differ in any bit is not, nor one that the earlier code did not make.
    """
    earlier, later = (
        {entry.id: entry for entry in entries(place) if entry.preset == "quick"} for place in (before, after)
    )
    marked = []
    for entry in entries(folder):
        id, quick = entry.id, [found[entry.id] for found in (earlier, later) if entry.id in found]
        if len(quick) < 2 or not code.made(id, quick[1].made) or "code" not in entry.made:
            continue
        of_earlier = quick[0].made.get("code") in (entry.made["code"], entry.made.get("same"))
        if of_earlier and not code.made(id, entry.made) and _alike(id, before, after):
            path = Path(folder, *id.split("/"), entry.preset)
            same = {"same": code.digest(id)}
            files.save_dataset(path / "result.nc", files.load_dataset(path / "result.nc").assign_attrs(same))
            files.write_atomic(
                path / "config.json", json.dumps(entry.made | same, indent=2, ensure_ascii=False).encode()
            )
            marked.append(id)
    return marked


def _alike(id: str, *folders: str | Path) -> bool:
    """Whether the quick versions of a figure have the same numbers."""
    first, second = (files.load_dataset(Path(folder, *id.split("/"), "quick", "result.nc")) for folder in folders)
    return first.variables.keys() == second.variables.keys() and all(
        part.dtype == second[name].dtype and part.values.tobytes() == second[name].values.tobytes()
        for name, part in first.variables.items()
    )


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        print("\n".join(compare(*sys.argv[2:])))
    else:
        write(sys.argv[1])
        for page in sys.argv[2:]:
            write_summary(page, sys.argv[1])
