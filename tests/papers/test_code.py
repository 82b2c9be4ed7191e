"""A result is stale when code that its numbers depend on has changed, and only then."""

import shutil

import pytest

from equilibria import papers
from equilibria.papers import code

FIGURE = "agliari2024/ags"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's source, in which anything may be changed."""
    copy = tmp_path / "equilibria"
    shutil.copytree(code.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "ROOT", copy)
    forget()
    yield copy
    forget()


def forget():
    code._uses.cache_clear()


def changed(package, name, edit):
    """Whether the digest of the figure changes with an edit of a file."""
    path = package / name
    before, text = code.digest(FIGURE), path.read_text()
    assert edit(text) != text
    path.write_text(edit(text))
    forget()
    after = code.digest(FIGURE)
    path.write_text(text)
    forget()
    return after != before


@pytest.mark.parametrize(
    "name",
    [
        "papers/agliari2024/ags.py",
        "papers/agliari2024/common.py",  # imported by it
        "model/units/spin.py",  # imported by what it imports
        "equilibrators/sweep.py",  # taken from the package as a public name
        "theory/saddle.py",
    ],
)
def test_code_that_the_run_uses_counts(package, name):
    assert changed(package, name, lambda text: text + "\nMORE = 1\n")


@pytest.mark.parametrize("name", ["app/cli.py", "plots.py", "estimators/rbm.py", "papers/huang2019/fig2a.py"])
def test_code_that_it_does_not_use_does_not(package, name):
    assert not changed(package, name, lambda text: text + "\nMORE = 1\n")


def test_words_do_not_count(package):
    name = "papers/agliari2024/ags.py"
    assert not changed(package, name, lambda text: text.replace('"""', '"""Indeed. ', 1) + "\n\n# a word\n")


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ('check.number("load", load, above=0)', False),
        ('if load < 0:\n        check.refuse("load", load, "a number above 0")', False),
        ('load = check.number("load", load, above=0)', True),  # what it returns is used
        ('if (load := load / 2) < 0:\n        check.refuse("load", load, "a number above 0")', True),
        ('if load < 0:\n        check.refuse("load", load, "a number above 0")\n    else:\n        load = 1', True),
        ('if load < 0:\n        load = check.number("load", load, above=0)', True),
    ],
)
def test_what_only_refuses_does_not_count(package, line, counts):
    before = "\n\ndef inside(load):\n    return load\n"
    path = package / "equilibrators/sweep.py"
    path.write_text(path.read_text() + before)
    forget()
    more = before.replace("    return", f"    {line}\n    return")
    assert changed(package, "equilibrators/sweep.py", lambda text: text.replace(before, more)) == counts


def test_tables_for_notebooks_do_not_count(package):
    start = "    def _repr_html_(self) -> str:\n"
    assert not changed(package, "model/network.py", lambda text: text.replace(start, start + "        more = 1\n"))
    assert not changed(package, "html.py", lambda text: text + "\nMORE = 1\n")


@pytest.mark.parametrize("function", ["plot", "claims"])
def test_what_is_made_from_the_numbers_does_not_count(package, function):
    start = f"def {function}(dataset: xr.Dataset)"
    name = "papers/agliari2024/ags.py"

    def edit(text):
        head, body = text.split(start)
        return head + start + body.replace('"""\n', '"""\n    more = 1\n', 1)

    assert not changed(package, name, edit)
    assert changed(package, name, lambda text: text.replace("def run(", "def run (", 1))


@pytest.mark.parametrize(
    ("old", "new"), [('"quick": Config(size=600', '"quick": Config(size=500'), ("seed: int = 0", "seed: int = 1")]
)
def test_the_values_of_presets_do_not_count(package, old, new):
    """Those of the preset that was run are in the configuration of the result."""
    assert not changed(package, "papers/agliari2024/ags.py", lambda text: text.replace(old, new))


@pytest.mark.parametrize("id", papers.INDEX)
def test_every_figure_reaches_the_machinery(id):
    found = code.modules(id)
    assert all((code.ROOT / f"{name}.py").is_file() for name in found)
    assert not {name for name in found if name.startswith("app/")}
    assert len(found) > 1


def test_a_figure_of_ones_own_has_no_digest():
    assert code.digest("mine/line") == ""
