"""One page, in one file, about every figure reproduced so far."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from equilibria import check, files
from equilibria.app.lab.catalogue import HOME, room_link
from equilibria.app.page_style import CSS
from equilibria.papers import INDEX, PAPERS, code, find
from equilibria.papers.claims import Claim, counted, tally
from equilibria.papers.store import EARLIER

_TITLE = "Equilibria: papers reproduced"
_SMALL = "a small version, of another size than the paper's"


class Entry(NamedTuple):
    """One reproduced figure, as its folder holds it.

    Attributes:
        id: "paper/figure".
        title: what it shows.
        claims: what the paper says and what we say, beside what was measured.
        figure: the picture, a PNG file.
        made: what config.json says: preset, seconds, versions, what differs from the paper.
        caption: what is drawn.
        stale: why the result is not of this code; nothing if it is.
    """

    id: str
    title: str
    claims: list[Claim]
    figure: bytes
    made: dict[str, Any]
    caption: str = ""
    stale: str = ""

    @property
    def preset(self) -> str:
        """Which configuration it has."""
        return self.made["preset"]

    @property
    def anchor(self) -> str:
        """Its name inside the page."""
        return f"{self.id}/{self.preset}".replace("/", "-")


def write(folder: str | Path, *, waiting: Sequence[str] = (), lacking: Mapping[str, str] | None = None) -> Path:
    """Write one page, report.html, about every result in a folder. It needs no other file, no script and no network.

    Args:
        folder: the results may be at any depth below it.
        waiting: ids of figures that are still being made; while there are some, the page loads itself again.
        lacking: figures that are left out, and why.

    Returns:
        The path of the page.

    Raises:
        ValueError: if a result is not complete, or the page in the folder is somebody else's.
    """
    folder = Path(folder)
    check_place(folder)
    path = folder / "report.html"
    files.write_atomic(path, render(entries(folder), waiting, lacking or {}).encode())
    return path


def entries(folder: str | Path) -> list[Entry]:
    """Every result in a folder.

    Args:
        folder: the results may be at any depth below it.

    Returns:
        The results, by their paths.

    Raises:
        ValueError: if one is not complete.
    """
    return [_read(path.parent) for path in sorted(Path(folder).rglob("claims.json"))]


def check_place(folder: str | Path) -> None:
    """Refuse a folder whose report.html is not one of these pages.

    Args:
        folder: where the page is to be.

    Raises:
        ValueError: if it would be replaced.
    """
    path = Path(folder) / "report.html"
    if path.is_file() and _TITLE.encode() not in path.read_bytes():
        check.refuse("--out", f"{folder}, whose report.html is another page", "another folder")


def render(entries: Sequence[Entry], waiting: Sequence[str] = (), lacking: Mapping[str, str] | None = None) -> str:
    """The page as HTML.

    Args:
        entries: the figures, in their order.
        waiting: ids of figures that are still being made.
        lacking: figures that are left out, and why.

    Returns:
        The whole page.

    >>> claim = Claim("Below 1 it orders", "Eq. (5)", "close", 1.0, 1.01, 0.05, "grid spacing")
    >>> entry = Entry("paper/figure", "Order & disorder", [claim], b"", {"preset": "quick", "seconds": 2.0})
    >>> "Order &amp; disorder" in render([entry])
    True
    """
    papers = list(dict.fromkeys(entry.id.partition("/")[0] for entry in entries))
    papers.sort(key=lambda paper: [*PAPERS, paper].index(paper))
    groups = {paper: [entry for entry in entries if entry.id.partition("/")[0] == paper] for paper in papers}
    body = "".join(_group(paper, group) for paper, group in groups.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">{'<meta http-equiv="refresh" content="5">' * bool(waiting)}
<title>{_TITLE}</title>
<style>{CSS}</style>
</head>
<body>
<main>
<header>
<h1>Papers reproduced</h1>
{_lead(entries, waiting)}
<p>What each paper says, what <code>equilibria</code> measured, and whether the two agree; what we say, apart from that.
A figure becomes as large as the window when it is clicked.</p>
</header>
{_summary(groups)}{_left_out(lacking or {})}{body}</main>
</body>
</html>
"""


def _read(folder: Path) -> Entry:
    try:
        verdict = json.loads((folder / "claims.json").read_text())
        made = json.loads((folder / "config.json").read_text())
        claims = [Claim.from_json(claim) for claim in verdict["claims"]]
        picture, caption = (folder / "figure.png").read_bytes(), verdict.get("caption", "")
        return Entry(verdict["id"], verdict["title"], claims, picture, made, caption, _stale(verdict["id"], made))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: not a complete result ({error!r}); reproduce it again") from error


def _stale(id: str, made: dict[str, Any]) -> str:
    """Why a result is not of this code."""
    if "code" not in made:
        return f"made by earlier code, as its preset {made['preset']}, before results knew the code that made them"
    if not code.made(id, made):
        return f"made by earlier code ({made['code']})"
    from equilibria.papers.frame import plain  # slow to import

    preset = find(id).presets.get(made["preset"]) if id in INDEX else None
    return "made with other numbers than its preset has" if preset and plain(preset) != made["config"] else ""


def _lead(entries: Sequence[Entry], waiting: Sequence[str]) -> str:
    said = [counted(claim for entry in entries for claim in entry.claims), f"In {_count(len(entries), 'figure')}."]
    if waiting:
        said.append(f"{_count(len(waiting), 'figure')} still to come; the page grows by itself.")
    if small := sum(entry.preset == "quick" for entry in entries):
        said.append(f"{small} marked quick: each {_SMALL}.")
    if stale := sum(bool(entry.stale) for entry in entries):
        said.append(f"{stale} stale: made by earlier code than this.")
    first = " ".join(said) if entries or waiting else "Nothing has been reproduced yet."
    return f'<p class="lead">{escape(first, quote=False)}</p>'


def _summary(groups: Mapping[str, Sequence[Entry]]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{escape(entry.anchor)}">{escape(entry.title)}</a><br><code>{escape(entry.id)}</code></td>'
        f"<td>{_marks(entry)}</td><td>{duration(entry.made['seconds'])}</td>"
        f"<td>{_verdicts([claim for claim in entry.claims if not claim.ours])}</td>"
        f"<td>{_verdicts([claim for claim in entry.claims if claim.ours])}</td></tr>\n"
        for group in groups.values()
        for entry in group
    )
    head = "<tr><th>Figure</th><th>Preset</th><th>Time</th><th>The paper's claims</th><th>Ours</th></tr>"
    table = f'<table class="summary"><thead>{head}</thead><tbody>\n{rows}</tbody></table>'
    return f'<div class="wide">{table}</div>\n' if groups else ""


def _left_out(lacking: Mapping[str, str]) -> str:
    """What the page does not show, and why."""
    items = "".join(
        f"<li><code>{escape(id)}</code> {escape(INDEX.get(id, ''))}: {escape(why)}</li>\n"
        for id, why in lacking.items()
    )
    return f"<h2>Left out</h2>\n<ul>\n{items}</ul>\n" if lacking else ""


def _group(paper: str, group: Sequence[Entry]) -> str:
    lead = counted(claim for entry in group for claim in entry.claims)
    title = f"<h2>{escape(PAPERS.get(paper, paper))}</h2>\n<p>{escape(lead, quote=False)}</p>\n"
    return title + "".join(map(_section, group))


def _section(entry: Entry) -> str:
    made = entry.made
    picture = base64.b64encode(entry.figure).decode()
    command = f"equilibria reproduce {entry.id} --preset {EARLIER.get(entry.preset, entry.preset)}"
    notes = [duration(made["seconds"])]
    notes += [f"{name} {made[key]}" for name, key in _NOTES.items() if made.get(key, "") != ""]
    image = f'<img src="data:image/png;base64,{picture}" alt="{escape(entry.title)}">'
    kinds = {"The paper says": False, "We say": True}
    tables = [_claims(head, [claim for claim in entry.claims if claim.ours == ours]) for head, ours in kinds.items()]
    stale = f'<p class="bad">Stale: {escape(entry.stale)}.</p>\n' * bool(entry.stale)
    return f"""<section id="{escape(entry.anchor)}">
<h3>{escape(entry.title)}</h3>
<p class="notes">{_marks(entry)} {" · ".join(escape(str(note)) for note in notes)}{_live(entry.id)}</p>
{stale}<figure><label><input type="checkbox" aria-label="enlarge">{image}</label>
<figcaption>{escape(" ".join(entry.caption.split()))}{f" Quick: {_SMALL}." * (entry.preset == "quick")}</figcaption></figure>
{"".join(tables)}{_differs(made.get("differs", ()))}<pre><code>{escape(command)}</code></pre>
</section>
"""


def _live(id: str) -> str:
    """The room of the lab that shows a figure live, at the lab's usual place on this machine."""
    link = room_link(id, HOME) if id in INDEX else None
    return f' · <a href="{escape(link)}">live in the lab</a>, while <code>equilibria lab</code> runs' if link else ""


def _claims(head: str, claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(claim.says)}{_under('q', claim.quote)}<br><small>{escape(claim.source)}</small></td>"
        f'<td data-label="Expected">{escape(claim.expectation)}{_under("small", claim.reason)}</td>'
        f'<td data-label="Measured">{escape(claim.finding)}</td>'
        f'<td data-label="Verdict">{_verdict(claim)}</td></tr>\n'
        for claim in claims
    )
    top = f"<tr><th>{head}</th><th>Expected</th><th>Measured</th><th>Verdict</th></tr>"
    return f'<table class="claims"><thead>{top}</thead><tbody>\n{rows}</tbody></table>\n' if claims else ""


def _differs(names: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(name)}</li>\n" for name in names)
    return f"<h4>What differs from the paper</h4>\n<ul>\n{items}</ul>\n" if names else ""


def _marks(entry: Entry) -> str:
    said = {"quick": "quick: a small version"}.get(entry.preset, entry.preset)
    marks = f'<span class="mark">{escape(said)}</span>'
    return marks + ' <span class="mark bad">stale</span>' * bool(entry.stale)


def _verdict(claim: Claim) -> str:
    kind, sign = {"held": ("good", "✓"), "not held": ("bad", "✗"), "not testable": ("open", "–")}[claim.verdict]
    return f'<span class="{kind}">{sign} {claim.verdict}</span>'


def _verdicts(claims: Sequence[Claim]) -> str:
    counts = tally(claims)
    if not claims:
        return ""
    return f'<span class="{"bad" if counts.failed else "good" if counts.held else "open"}">{counts}</span>'


def _under(tag: str, text: str) -> str:
    return f"<br><{tag}>{escape(text)}</{tag}>" if text else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def duration(seconds: float) -> str:
    """A time as people say it.

    Args:
        seconds: of it.

    Returns:
        Two parts of it at most.

    >>> duration(2.34), duration(75), duration(7320)
    ('2.3 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_NOTES = {"seed": "seed", "equilibria": "equilibria_version", "jax": "jax_version", "made": "created", "on": "device"}
