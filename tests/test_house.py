"""The rules of the house, read off its own source: who imports whom, who asks for types, how long a file may be."""

import ast
from functools import cache
from pathlib import Path

import pytest

import equilibria

SOURCE = Path(equilibria.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
ROOT = {"check", "random", "compiled", "progress", "plots", "html", "lazily", "citations", "__version__"}

# Which rooms each room may use, besides itself and the root files.
MAY_USE = {
    "model": {"files"},
    "equilibrators": {"model"},
    "data": {"files", "model", "equilibrators"},
    "measure": {"model", "equilibrators", "data"},
    "learn": {"files", "model", "equilibrators"},
    "energies": {"model", "equilibrators", "learn"},
    "synapses": {"files", "model", "equilibrators", "learn"},
    "theory": set(),
    "grids": {"files"},
    "estimators": {"model", "equilibrators", "data", "measure", "learn", "energies", "synapses"},
}
SIMULATION = {*MAY_USE}
MAY_USE["papers"] = {*SIMULATION, "files", "theory", "equilibria"} - {"estimators"}
MAY_USE["app"] = {*MAY_USE["papers"], "estimators", "papers"}
ROOT_OF = {"files": {"check", "random", "__version__"}}  # a room that may not use every root file

# A class of these kinds is asked what it can do, never which one it is.
CONTRACTS = {"equilibrators": "Equilibrator", "model/couplings": "Coupling", "model/units": "Unit"}

MOST_LINES = 300
LONGER = {  # each is one thing, and a good third of it says what its arguments are
    "equilibrators/driver.py": "the one loop, and the ways to call it",
    "learn/contrast.py": "a recipe and the contrast it describes",
    "learn/recipes.py": "every famous name, one beside the other",
    "model/transforms.py": "all maps from network to network are in one file",
}


@cache
def tree(path):
    return ast.parse(path.read_text())


def room(path):
    """The folder of a file, or for a file of the root its own name."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path):
    """The rooms and root files that a module names in its imports, wherever they stand; "equilibria" is all of it."""
    for node in ast.walk(tree(path)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            modules = (
                [f"equilibria.{alias.name}" for alias in node.names] if node.module == "equilibria" else [node.module]
            )
        for parts in (module.split(".") for module in modules):
            if parts[0] == "equilibria":
                yield parts[1] if len(parts) > 1 else "equilibria"


def test_every_room_is_known():
    assert {room(path) for path in FILES} - {"__init__"} == {*MAY_USE, "files", *ROOT} - {"__version__"}


@pytest.mark.parametrize("here", [*MAY_USE, "files"])
def test_imports_point_one_way(here):
    allowed = {here} | MAY_USE.get(here, set()) | ROOT_OF.get(here, ROOT)
    found = {(str(path.relative_to(SOURCE)), used) for path in FILES if room(path) == here for used in imported(path)}
    assert {pair for pair in found if pair[1] not in allowed} == set()


def test_root_files_use_nothing_above_them():
    found = {(path.name, used) for path in FILES if path.parent == SOURCE for used in imported(path)}
    assert {pair for pair in found if pair[1] not in ROOT} == set()


def kinds(folder, base):
    """The classes of a room that are one of its kind, by what they are derived from; the contract is one of them."""
    classes = [node for path in FILES if path.is_relative_to(SOURCE / folder) for node in ast.walk(tree(path))]
    found = {base}
    while True:
        more = {
            node.name
            for node in classes
            if isinstance(node, ast.ClassDef) and {ast.unparse(parent) for parent in node.bases} & found
        }
        if more <= found:
            return found
        found |= more


def asked(path):
    """The names of classes that a module asks for: isinstance, issubclass, `type(x) is`, and patterns of match."""
    for node in ast.walk(tree(path)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from (part for part in ast.walk(node.args[1]) if isinstance(part, (ast.Name, ast.Attribute)))
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            yield from (part for right in node.comparators for part in ast.walk(right))
        elif isinstance(node, ast.MatchClass):
            yield node.cls


@pytest.mark.parametrize("folder", CONTRACTS)
def test_nobody_asks_for_the_type(folder):
    """Outside its room only whether something keeps a contract at all may be asked, to refuse an argument that does not."""
    base = CONTRACTS[folder]
    classes = kinds(folder, base)
    assert len(classes) > 2
    found = [
        f"{path.relative_to(SOURCE)}:{part.lineno} {ast.unparse(part)}"
        for path in FILES
        if room(path) != folder.partition("/")[0]
        for part in asked(path)
        if isinstance(part, (ast.Name, ast.Attribute)) and ast.unparse(part).rpartition(".")[2] in classes - {base}
    ]
    assert found == []


def test_only_the_application_prints():
    """Everything else speaks by logging, warnings and progress bars, which whoever calls it can turn off."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        if room(path) != "app"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert found == []


def test_files_can_be_read_in_one_sitting():
    """Longer ones are listed with a reason; figures of papers are what their papers need."""
    long = {
        str(path.relative_to(SOURCE)): lines
        for path in FILES
        if room(path) != "papers" and (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert {name: lines for name, lines in long.items() if name not in LONGER} == {}
    assert set(LONGER) <= set(long), "listed as long, and is not"
