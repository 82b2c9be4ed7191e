"""The gallery: a page for each experiment from its committed result, with picture, claims, code, run time and live room."""

import re
import subprocess
import sys
from pathlib import Path

from pages import keep_only, write_page

from equilibria import papers
from equilibria.app.lab.catalogue import HOME, room_link
from equilibria.app.report import Entry, duration, entries
from equilibria.app.results import verdicts
from equilibria.papers import INDEX, PAPERS
from equilibria.papers.claims import Claim
from equilibria.papers.store import EARLIER

_SIGNS = {"held": "✓", "not held": "✗", "not testable": "–"}


def write(app) -> None:
    """All pages anew; pictures are copied beside them."""
    made = {entry.id: entry for entry in entries(Path(app.srcdir) / "results")}
    made |= small([id for id in INDEX if id not in made], Path(app.srcdir) / "_build" / "small")
    folder = Path(app.srcdir) / "gallery"
    folder.mkdir(exist_ok=True)
    kept = {"index.md"}
    index = [
        "# Gallery",
        "",
        "Every experiment of the package. The pictures and verdicts are those of committed results at the size of the paper, "
        "or, where it says so, of a small version that was made with this page. A result that was made by earlier code is "
        "called stale; a statement that did not hold stays.",
        "",
    ]
    for paper, title in PAPERS.items():
        index += [f"## {title}", "", "::::{grid} 1 2 3 3", ":gutter: 2", ""]
        for id, what in INDEX.items():
            if id.startswith(f"{paper}/"):
                name, entry = id.replace("/", "-"), made[id]
                kept |= {f"{name}.md", f"{name}.png"}
                write_page(folder / f"{name}.png", entry.figure)
                write_page(folder / f"{name}.md", "\n".join(_page(id, what, name, entry)))
                index += _card(id, what, name, entry)
        index += ["::::", ""]
    ordered = sorted(INDEX, key=lambda id: list(PAPERS).index(id.split("/")[0]))  # as the papers stand on the page
    index += ["```{toctree}", ":hidden:", *(f"{id} <{id.replace('/', '-')}>" for id in ordered), "```", ""]
    write_page(folder / "index.md", "\n".join(index))
    keep_only(folder, kept)


def small(lacking: list[str], folder: Path) -> dict[str, Entry]:
    """Small versions of what has not been run at its size yet: made by the first build, kept for the next ones."""
    made = {entry.id: entry for entry in entries(folder) if not entry.stale}
    for id in lacking:
        if id not in made:
            words = [sys.executable, "-m", "equilibria.app.cli", "reproduce", id, "--out", str(folder / id), "--force"]
            run = subprocess.run(words, capture_output=True, text=True)
            if run.returncode not in (0, 1):  # 1: a statement does not hold, which the page will say
                raise RuntimeError(f"{id}: {run.stderr}")
    return {entry.id: entry for entry in entries(folder) if entry.id in lacking}


def _card(id: str, what: str, name: str, entry: Entry) -> list[str]:
    lines = [f":::{{grid-item-card}} {what}", f":link: {name}", ":link-type: doc"]
    found = [f"the paper's: {verdicts(entry, ours=False)}"] * bool(verdicts(entry, ours=False))
    found += [f"ours: {verdicts(entry, ours=True)}"] * bool(verdicts(entry, ours=True))
    return [
        *lines,
        f":img-top: {name}.png",
        "",
        f"`{id}` {'; '.join(found)}{' (stale)' * bool(entry.stale)}{' (small)' * (entry.preset == 'quick')}",
        ":::",
        "",
    ]


def _page(id: str, what: str, name: str, entry: Entry) -> list[str]:
    room = room_link(id, HOME)
    live = f"Live: [its room of the lab]({room}), while `equilibria lab` runs on your machine."
    live = live if room else "No room of the lab shows it live."
    lines = [f"# {what}", "", f"![{what}]({name}.png)", "", " ".join(entry.caption.split()), ""]
    if entry.stale:
        lines += [f":::{{warning}}\nStale: {entry.stale}.\n:::", ""]
    if entry.preset == "quick":
        lines += [":::{note}\nA small version: it has not been run at the size of the paper yet.\n:::", ""]
    day, time = str(entry.made.get("created", ""))[:10], duration(entry.made["seconds"])
    lines += [f"Preset `{entry.preset}`, made {day}, run time {time}.", ""]
    for ours, title in ((False, "What the paper says"), (True, "What we say")):
        lines += _table(title, [claim for claim in entry.claims if claim.ours == ours])
    differs = entry.made.get("differs", ())
    lines += ["## What differs from the paper", "", *(f"- {_cell(each)}" for each in differs), ""] * bool(differs)
    again = f"equilibria reproduce {id} --preset {EARLIER.get(entry.preset, entry.preset)}"
    lines += ["## Make it again", "", "```bash", again, "```", "", live, ""]
    lines += [
        "## The code",
        "",
        f"```{{literalinclude}} ../../src/equilibria/papers/{id}.py",
        ":language: python",
        "```",
        "",
    ]
    for module in _beside(id):
        lines += [f":::{{dropdown}} {module}, which it uses", f"```{{literalinclude}} ../../src/equilibria/{module}"]
        lines += [":language: python", "```", ":::", ""]
    return lines


def _beside(id: str) -> list[str]:
    """Modules that figures of a paper share and this one imports: where its work is done, if its own file is short."""
    paper, figure = id.split("/")
    folder = Path(papers.__file__).parent / paper
    text = (folder / f"{figure}.py").read_text()
    taken = re.findall(rf"^from equilibria\.papers\.{paper}(?:\.(\w+))? import (.*)", text, flags=re.MULTILINE)
    names = {name for inside, given in taken for name in ([inside] if inside else re.findall(r"\w+", given))}
    return [f"papers/{paper}/{name}.py" for name in sorted(names) if (folder / f"{name}.py").exists()]


def _table(title: str, claims: list[Claim]) -> list[str]:
    if not claims:
        return []
    head = ["| verdict | statement | where | expected | measured |", "|---|---|---|---|---|"]
    rows = (
        f"| {_SIGNS[claim.verdict]} {claim.verdict} | {_cell(claim.says)} | {_cell(claim.source)} | {_cell(claim.expectation)} "
        f"| {_cell(claim.finding if claim.tested else claim.reason)} |"
        for claim in claims
    )
    return [f"## {title}", "", *head, *rows, ""]


def _cell(text: str) -> str:
    """Text as it stands: nothing in it is markup."""
    for sign in "\\|*_$`<[":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def setup(app):
    """Written before Sphinx looks for pages."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
