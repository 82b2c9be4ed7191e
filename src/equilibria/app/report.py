"""One page, in one file, about every figure reproduced so far."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from equilibria import check, files
from equilibria.papers.claims import Claim

_TITLE = "Equilibria: papers reproduced"


class Entry(NamedTuple):
    """One reproduced figure, as its folder holds it.

    Attributes:
        id: "paper/figure".
        title: what it shows.
        claims: what the paper says, beside what was measured.
        figure: the picture, a PNG file.
        made: what config.json says: preset, seconds, versions.
    """

    id: str
    title: str
    claims: list[Claim]
    figure: bytes
    made: dict[str, Any]

    @property
    def held(self) -> int:
        """The number of claims that hold."""
        return sum(claim.held for claim in self.claims)

    @property
    def anchor(self) -> str:
        """Its name inside the page."""
        return f"{self.id}/{self.made['preset']}".replace("/", "-")


def write(folder: str | Path) -> Path:
    """Write one page, report.html, about every result in a folder. It needs no other file, no script and no network.

    Args:
        folder: the results may be at any depth below it.

    Returns:
        The path of the page.

    Raises:
        ValueError: if a result is not complete, or the page in the folder is somebody else's.
    """
    folder = Path(folder)
    check_place(folder)
    entries = [_read(path.parent) for path in sorted(folder.rglob("claims.json"))]
    path = folder / "report.html"
    files.write_atomic(path, render(entries).encode())
    return path


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


def render(entries: Sequence[Entry]) -> str:
    """The page as HTML.

    Args:
        entries: the figures, in their order.

    Returns:
        The whole page.

    >>> claim = Claim("Below 1 it orders", "Eq. (5)", "close", 1.0, 1.01, 0.05, "grid spacing")
    >>> entry = Entry("paper/figure", "Order & disorder", [claim], b"", {"preset": "quick", "seconds": 2.0})
    >>> "Order &amp; disorder" in render([entry])
    True
    """
    claims = [claim for entry in entries for claim in entry.claims]
    held = sum(claim.held for claim in claims)
    lead = f"{held} of {_count(len(claims), 'claim')} held, in {_count(len(entries), 'figure')}."
    body = _summary(entries) + "".join(map(_section, entries)) if entries else "<p>Nothing has been reproduced yet.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_TITLE}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<header>
<h1>Papers reproduced</h1>
<p class="lead">{lead}</p>
<p>What each paper says, what <code>equilibria</code> measured, and whether the two agree.</p>
</header>
{body}
</main>
</body>
</html>
"""


def _read(folder: Path) -> Entry:
    try:
        verdict = json.loads((folder / "claims.json").read_text())
        made = json.loads((folder / "config.json").read_text())
        claims = [Claim.from_json(claim) for claim in verdict["claims"]]
        return Entry(verdict["id"], verdict["title"], claims, (folder / "figure.png").read_bytes(), made)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: not a complete result ({error!r}); reproduce it again") from error


def _summary(entries: Sequence[Entry]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{escape(entry.anchor)}">{escape(entry.title)}</a><br><code>{escape(entry.id)}</code></td>'
        f"<td>{escape(entry.made['preset'])}</td><td>{_duration(entry.made['seconds'])}</td>"
        f"<td>{_badge(entry.held == len(entry.claims), f'{entry.held} of {len(entry.claims)}')}</td></tr>\n"
        for entry in entries
    )
    head = "<tr><th>Figure</th><th>Preset</th><th>Time</th><th>Claims held</th></tr>"
    return f'<div class="wide"><table class="summary"><thead>{head}</thead><tbody>\n{rows}</tbody></table></div>\n'


def _section(entry: Entry) -> str:
    made = entry.made
    picture = base64.b64encode(entry.figure).decode()
    command = f"equilibria reproduce {entry.id} --preset {made['preset']}"
    notes = [f"{made['preset']} preset", _duration(made["seconds"])]
    notes += [f"{name} {made[key]}" for name, key in _NOTES.items() if key in made]
    return f"""<section id="{escape(entry.anchor)}">
<h2>{escape(entry.title)}</h2>
<p class="notes">{" · ".join(escape(str(note)) for note in notes)}</p>
<figure><img src="data:image/png;base64,{picture}" alt="{escape(entry.title)}"></figure>
{_claims(entry.claims)}
<pre><code>{escape(command)}</code></pre>
</section>
"""


def _claims(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(claim.says)}<br><small>{escape(claim.source)}</small></td>"
        f'<td data-label="Expected">{escape(claim.expectation)}{_small(claim.reason)}</td>'
        f'<td data-label="Measured">{claim.measured:.4g}</td>'
        f'<td data-label="Verdict">{_badge(claim.held, "held" if claim.held else "not held")}</td></tr>\n'
        for claim in claims
    )
    head = "<tr><th>The paper says</th><th>Expected</th><th>Measured</th><th>Verdict</th></tr>"
    return f'<table class="claims"><thead>{head}</thead><tbody>\n{rows}</tbody></table>'


def _badge(good: bool, text: str) -> str:
    return f'<span class="{"good" if good else "bad"}">{"✓" if good else "✗"} {escape(text)}</span>'


def _small(text: str) -> str:
    return f"<br><small>{escape(text)}</small>" if text else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(2.34), _duration(75), _duration(7320)
    ('2.3 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_NOTES = {"seed": "seed", "equilibria": "equilibria_version", "jax": "jax_version", "made": "created", "on": "device"}

_CSS = """
:root { --text: #1c1e21; --soft: #5f6670; --line: #dfe2e6; --page: #fff; --card: #f6f7f9; --link: #0b5cad;
  --good: #0a6b4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6ea; --soft: #9aa1ab; --line: #343941; --page: #15171a; --card: #1e2126; --link: #7db7f0;
    --good: #5fcfa3; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0; }
.lead { font-size: 1.15rem; margin: 0; }
header p:last-child, .notes, small, th { color: var(--soft); }
header p:last-child { margin: .25rem 0 2rem; }
.notes { font-size: .85rem; margin: .25rem 0 1rem; }
a { color: var(--link); }
section { margin-top: 2rem; padding-top: 2rem; border-top: 1px solid var(--line); }
figure { margin: 0 0 1.25rem; padding: 1rem; background: #fff; border: 1px solid var(--line); border-radius: 8px; }
img { display: block; max-width: 100%; height: auto; max-height: 27rem; margin: 0 auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; font-size: .8rem; font-weight: 600; }
th, td { padding: .55rem .9rem .55rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
.summary td:not(:first-child) { white-space: nowrap; }
small, code { font-size: .85rem; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { margin: 1.25rem 0 0; padding: .75rem 1rem; background: var(--card); border-radius: 8px; white-space: pre-wrap; }
.wide { overflow-x: auto; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
@media (max-width: 36rem) {
  main { padding-top: 1.5rem; }
  figure { padding: .5rem; }
  .claims thead { display: none; }
  .claims tr { display: block; padding: .6rem 0; }
  .claims tr + tr { border-top: 1px solid var(--line); }
  .claims td { display: block; padding: .1rem 0; border: 0; }
  .claims td[data-label]::before { content: attr(data-label) " "; color: var(--soft); font-size: .8rem; } }
@media print {
  :root { --text: #000; --soft: #444; --line: #bbb; --page: #fff; --card: #f4f4f4; --link: #000;
    --good: #000; --bad: #000; }
  main { max-width: none; padding: 0; }
  section { break-inside: avoid; } }
"""
