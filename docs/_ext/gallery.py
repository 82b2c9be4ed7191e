"""The gallery: a page for each experiment from its committed result, with picture, claims, code, run time."""

import json
import shutil
from pathlib import Path

from equilibria.papers import INDEX
from equilibria.papers.claims import Claim

PAPERS = {
    "huang2019": "Huang 2019: binary synapses",
    "decelle2017": "Decelle, Fissore and Furtlehner 2017: spectral dynamics",
    "agliari2024": "Agliari 2024: Hopfield networks",
    "scellier2017": "Scellier and Bengio: equilibrium propagation",
}


def write(app) -> None:
    """All pages anew; pictures are copied beside them."""
    source, folder = Path(app.srcdir) / "results", Path(app.srcdir) / "gallery"
    folder.mkdir(exist_ok=True)
    index = ["# Gallery", "", "Every experiment, `equilibria reproduce PAPER/FIGURE` makes it again.", ""]
    pages = []
    for paper, title in PAPERS.items():
        index += [f"## {title}", "", "::::{grid} 1 2 3 3", ":gutter: 2", ""]
        for id, what in sorted(INDEX.items()):
            if not id.startswith(f"{paper}/"):
                continue
            name = id.replace("/", "-")
            made = sorted((source / id).glob("*/claims.json"))
            pages.append(name)
            picture = made[-1].with_name("figure.png") if made else None
            if picture is not None and picture.exists():
                shutil.copy(picture, folder / f"{name}.png")
            _write(folder / f"{name}.md", _page(id, what, name, made[-1] if made else None))
            index += [f":::{{grid-item-card}} {id}", f":link: {name}", ":link-type: doc"]
            index += [f":img-top: {name}.png"] * (picture is not None and picture.exists())
            index += ["", what, ":::", ""]
        index += ["::::", ""]
    index += ["```{toctree}", ":hidden:", *pages, "```", ""]
    _write(folder / "index.md", "\n".join(index))


def _page(id: str, what: str, name: str, made: Path | None) -> str:
    lines = [f"# {id}", "", f"{what}.", ""]
    if made is None:
        lines += [
            "There is no committed result of this experiment at the size of the paper yet; make the small one:",
            "",
        ]
    else:
        told = json.loads((made.parent / "config.json").read_text())
        lines += [f"![{what}]({name}.png)", ""]
        lines += [
            f"Preset `{told.get('preset', made.parent.name)}`, made {told.get('created', '')} in {_time(told.get('seconds'))}.",
            "",
        ]
        lines += _table([Claim.from_json(each) for each in json.loads(made.read_text())["claims"]])
    lines += ["```bash", f"equilibria reproduce {id}", "```", ""]
    module = f"../../src/equilibria/papers/{id}.py"
    lines += ["## The code", "", f"```{{literalinclude}} {module}", ":language: python", "```", ""]
    return "\n".join(lines)


def _table(claims: list[Claim]) -> list[str]:
    rows = []
    for ours, title in ((False, "What the paper says"), (True, "What we say")):
        chosen = [claim for claim in claims if claim.ours == ours]
        if chosen:
            rows += [
                f"## {title}",
                "",
                "| verdict | statement | where | expected | measured |",
                "|---|---|---|---|---|",
            ]
            rows += [
                f"| {claim.verdict} | {_cell(claim.says)} | {_cell(claim.source)} | {_cell(claim.expectation)} "
                f"| {_cell(claim.finding if claim.tested else claim.reason)} |"
                for claim in chosen
            ]
            rows.append("")
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("_", "\\_").replace("$", "\\$")


def _time(seconds) -> str:
    return "an unknown time" if seconds is None else f"{float(seconds) / 60:.1f} minutes"


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app):
    """Written before Sphinx looks for pages."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
