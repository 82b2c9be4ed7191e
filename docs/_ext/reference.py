"""One page for each public name, written from the stub files that the package itself loads its names from."""

import ast
import re
from pathlib import Path

from pages import keep_only, write_page

import equilibria

SOURCE = Path(equilibria.__file__).parent
TITLES = {
    "model": "What a system is", "equilibrators": "Coming to rest", "learn": "Learning", "energies": "A user's own energy",
    "synapses": "Binary synapses", "measure": "Measurement", "theory": "Theory", "data": "Data", "grids": "Grids",
    "estimators": "scikit-learn's interface", "random": "Random keys", "citations": "Citations",
}  # fmt: skip


def public() -> dict[str, list[str]]:
    """Public names by room: those of the package itself, and those of `theory`, `data` and `estimators`."""
    found: dict[str, list[str]] = {}
    for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            room = node.module.split(".")[0]
            found.setdefault(room, []).extend(f"equilibria.{alias.name}" for alias in node.names)
    for room in ("theory", "data", "estimators"):
        for node in ast.parse((SOURCE / room / "__init__.pyi").read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(room, []).extend(f"equilibria.{room}.{alias.name}" for alias in node.names)
    return found


def write(app) -> None:
    """The pages of the reference, anew at each build; files that would not change keep their time."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    index = ["# Reference", "", "One page for each public name; `import equilibria as eq` is assumed throughout.", ""]
    pages, kept = [], {"index.md"}
    for room, names in sorted(
        public().items(), key=lambda item: list(TITLES).index(item[0]) if item[0] in TITLES else 99
    ):
        index += [f"## {TITLES.get(room, room)}", ""]
        for name in sorted(set(names)):
            thing = _found(name)
            if not callable(thing):
                continue
            first = (thing.__doc__ or "").strip().split("\n")[0].strip()
            first = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"`\1`", first)
            short = name.replace("equilibria.", "eq.")
            index.append(f"- [`{short}`]({name}.md): {first}")
            kind = "autoclass" if isinstance(thing, type) else "autofunction"
            more = "\n   :members:" if kind == "autoclass" else ""
            write_page(folder / f"{name}.md", f"# {short}\n\n```{{eval-rst}}\n.. {kind}:: {name}{more}\n```\n")
            pages.append(name)
            kept.add(f"{name}.md")
        index.append("")
    index += ["```{toctree}", ":hidden:", *pages, "```", ""]
    write_page(folder / "index.md", "\n".join(index))
    keep_only(folder, kept)


def _found(name: str):
    thing = equilibria
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def mathematics(app, what, name, thing, options, lines) -> None:
    """`$$ ... $$` and `$ ... $` of docstrings, as reStructuredText has them."""
    text = re.sub(r"\$\$(.+?)\$\$", _displayed, "\n".join(lines), flags=re.DOTALL)
    text = re.sub(
        r"(?<![\\$`])\$([^$\n]+(?:\n[^$\n]+)?)\$", lambda found: f":math:`{' '.join(found[1].split())}`", text
    )
    lines[:] = [line if line.lstrip().startswith(">>>") else _prose(line) for line in text.split("\n")]


def _prose(line: str) -> str:
    """Outside mathematics and code a bar is a size and no substitution, `history_` and `k_+` are no references."""
    parts = re.split(r"(``.*?``|`[^`]*`|\.\. math::.*)", line)
    for place in range(0, len(parts), 2):
        bars = re.sub(r"(?<![\\|])\|(?!\|)", r"\\|", parts[place])
        parts[place] = re.sub(r"(\w)_(?=[\s+-])", r"\1\\_", bars)
    return re.sub(r"^(\s*\w+)_(?=:)", r"\1\\_", "".join(parts))  # the name of an attribute


def inherited(app, what, name, thing, skip, options):
    """What scikit-learn writes into estimators by itself has labels of its own pages."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def _displayed(found: re.Match) -> str:
    return "\n\n.. math:: " + " ".join(found[1].split()) + "\n\n"


def setup(app):
    """The reference is written before Sphinx looks for pages."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", mathematics, priority=400)
    app.connect("autodoc-skip-member", inherited)
    return {"parallel_read_safe": True}
