"""Which code made a result: a digest of what a figure runs, so that one knows when its numbers are of earlier code."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_NOT_NUMBERS = {
    "check",
    "citations",
    "html",
    "papers/claims",
    "plots",
    "progress",
}  # what a result's numbers do not depend on
_DRAWING = {"plot", "claims"}  # made anew from the numbers whenever they are looked at
_PRESETS = {
    "PRESETS",
    "QUICK",
    "PAPER",
    "DIFFERS",
    "presets",
}  # the values of the one that was run are in the result's identity


def digest(id: str) -> str:
    """A digest of the code that the run of a figure depends on, in this package.

    That is its module without `plot` and `claims`, and every module that one imports, and so on; comments, docstrings and
    empty lines do not count, nor do tables for notebooks (`_repr_html_`), nor modules called `statements`, which have what
    figures of a paper say, nor the values of presets and defaults of a `Config`: those that a result was made with are in its
    own configuration. Nor do statements that only refuse what was given: a run that has come to its end met none of them.

    Args:
        id: "paper/figure".

    Returns:
        Sixteen hexadecimal digits; nothing for a figure that is not of this package.

    >>> len(digest("agliari2024/retrieval")), digest("agliari2024/retrieval") == digest("agliari2024/ags")
    (16, False)
    """
    figure = f"papers/{id}"
    if not _path(figure).is_file():
        return ""
    total = hashlib.sha256()
    for name in sorted(modules(id)):
        total.update(f"{name}\n{_bare(_path(name).read_text(), name.startswith('papers/'), name == figure)}\n".encode())
    return total.hexdigest()[:16]


def made(id: str, told: Mapping[str, Any]) -> bool:
    """Whether a result is of this code: made by it, or by code whose quick version has the same numbers, bit for bit.

    Args:
        id: "paper/figure".
        told: what the result tells of itself; "code" is the digest that made it, "same" that of later code which was compared.

    Returns:
        Whether it is.

    >>> made("agliari2024/ags", {"code": "of earlier days"})
    False
    """
    return digest(id) in (told.get("code"), told.get("same"))


def modules(id: str) -> frozenset[str]:
    """The modules that the run of a figure depends on.

    Args:
        id: "paper/figure".

    Returns:
        Their paths inside the package, without ".py".

    >>> "equilibrators/sweep" in modules("agliari2024/retrieval"), "app/cli" in modules("agliari2024/retrieval")
    (True, False)
    """
    found: set[str] = set()
    waiting = [f"papers/{id}"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _uses(name)
    return frozenset(found)


def _path(name: str) -> Path:
    return ROOT / f"{name}.py"


@cache
def _uses(name: str) -> tuple[str, ...]:
    """The modules that one imports, wherever the imports stand; of the public names those that it takes."""
    tree = ast.parse(_path(name).read_text())
    found = {name for name in _imported(tree) if name not in _NOT_NUMBERS and not name.endswith("/statements")}
    return tuple(sorted(found))


def _imported(tree: ast.AST) -> Iterator[str]:
    stubs = {}  # local names of packages whose names come from a stub file
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "equilibria":
                    inside = alias.name.split(".")[1:]
                    if _path("/".join(inside)).is_file():
                        yield "/".join(inside)
                    elif (ROOT.joinpath(*inside) / "__init__.pyi").is_file():
                        stubs[alias.asname or alias.name] = inside
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "equilibria":
            inside = (node.module or "").split(".")[1:]
            if inside and _path("/".join(inside)).is_file():
                yield "/".join(inside)
                continue
            for alias in node.names:
                yield from _named(inside, alias.name)
                stubs[alias.asname or alias.name] = [*inside, alias.name]
    for node in nodes:
        if isinstance(node, ast.Attribute):
            parts = ast.unparse(node).split(".")
            if parts[0] in stubs and len(parts) > 1:
                yield from _named(stubs[parts[0]] + parts[1:-1], parts[-1])


def _named(package: list[str], name: str) -> Iterator[str]:
    """The module that a name of a package is from: its own file, or what the package's stub or `__init__` says."""
    folder = ROOT.joinpath(*package)
    if (folder / f"{name}.py").is_file():
        yield "/".join([*package, name])
        return
    for suffix in ("pyi", "py"):
        if (folder / f"__init__.{suffix}").is_file():
            yield from _from_index(tuple(package), suffix, name)


def _from_index(package: tuple[str, ...], suffix: str, name: str) -> Iterator[str]:
    index = ROOT.joinpath(*package) / f"__init__.{suffix}"
    for node in ast.parse(index.read_text()).body:
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and name in [alias.asname or alias.name for alias in node.names]
        ):
            inside = node.module.split(".")
            target = [*package, *inside] if node.level else inside[1:]
            if _path("/".join(target)).is_file():
                yield "/".join(target)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name and suffix == "py":
            yield "/".join([*package, "__init__"])


@cache
def _bare(text: str, paper: bool, figure: bool) -> str:
    """The text of a module without what does not change its numbers."""
    tree = ast.parse(text)
    dropped = {
        number
        for node in _uncounted(tree, paper, figure)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    kept = (line.rstrip() for number, line in enumerate(lines, 1) if number not in dropped)
    return "\n".join(line for line in kept if line)


def _uncounted(tree: ast.Module, paper: bool, figure: bool) -> Iterator[ast.stmt]:
    """Docstrings, refusals, tables for notebooks; in modules of papers presets; in a figure's own what draws and says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and _refuses(node):
            yield node
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first
        match node:
            case ast.FunctionDef(name="_repr_html_") | ast.ImportFrom(module="equilibria.html"):
                yield node
    functions = _PRESETS | _DRAWING if figure else _PRESETS
    for node in tree.body if paper else []:
        match node:
            case ast.ClassDef(name="Config"):
                yield from (each for each in node.body if isinstance(each, ast.AnnAssign))
            case ast.Assign(targets=[ast.Name(id=name)]) if name in _PRESETS:
                yield node
            case ast.FunctionDef(name=name) if name in functions:
                yield node
            case ast.ImportFrom(module=str(name)) if figure and name.endswith(".statements"):
                yield node


def _refuses(statement: ast.stmt) -> bool:
    """Whether it is `check.this(...)`, or that under a condition, and nothing that later lines could use."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("check")))):
            return True
        case ast.If(test=test, body=[only], orelse=[]):
            return _refuses(only) and not any(isinstance(node, ast.NamedExpr) for node in ast.walk(test))
    return False
