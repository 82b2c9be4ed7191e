"""Result stores: never the rows of another function, nothing lost, and the same cost for each chunk."""

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import equilibria as eq
from equilibria import files
from equilibria.grids import results, task
from equilibria.grids.cells import cell_at, cells_of, checked_axes
from equilibria.grids.results import ResultStore


def program(source):
    namespace = {"__name__": "a_study"}
    exec(textwrap.dedent(source), namespace)
    return namespace["cell"]


CHANGES = {
    "a constant without source": ("cell = lambda x: 2 * x", "cell = lambda x: 3 * x", "code"),
    "a default": ("def cell(x, n=2): return n * x", "def cell(x, n=3): return n * x", "default arguments"),
    "a module constant": ("N = 2\ndef cell(x): return N * x", "N = 3\ndef cell(x): return N * x", "N"),
    "two lambdas on a line": (
        "cell, other = lambda x: 2 * x, lambda x: 3 * x",
        "other, cell = lambda x: 2 * x, lambda x: 3 * x",
        "code",
    ),
    "a method of another object": (
        "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n * x\ncell = A(2).f",
        "class A:\n    def __init__(self, n): self.n = n\n    def f(self, x): return self.n * x\ncell = A(3).f",
        "configuration",
    ),
    "a function that it calls": (
        "def f(x): return 2 * x\ndef cell(x): return f(x)",
        "def f(x): return 3 * x\ndef cell(x): return f(x)",
        "f",
    ),
    "a closure": (
        "def make(n):\n    return lambda x: n * x\ncell = make(2)",
        "def make(n):\n    return lambda x: n * x\ncell = make(3)",
        "n",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_function_is_refused(tmp_path, change):
    before, after, part = CHANGES[change]
    assert eq.grid(program(before), store=tmp_path, x=[1.0])["value"].item() == 2
    assert eq.grid(program(before), store=tmp_path, x=[1.0, 2.0])["value"].values.tolist() == [2, 4]
    with pytest.raises(ValueError, match=f"holds a grid with another {part} of the function; allowed: the same grid"):
        eq.grid(program(after), store=tmp_path, x=[1.0])


def test_a_changed_function_of_a_one_line_program_is_refused(tmp_path):
    """As `python -c` makes it, in processes of their own."""

    def run(n):
        script = f"import equilibria as eq; print(eq.grid(lambda x: {n} * x, store={str(tmp_path)!r}, x=[1.0])['value'].item())"
        return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert run(2).stdout == run(2).stdout == "2.0\n"
    assert "a grid with another code of the function" in run(3).stderr


def test_a_version_stands_for_the_function(tmp_path):
    before, after = (
        f"import threading\nLOCK = threading.Lock()\ndef cell(x):\n    with LOCK: return {n} * x" for n in "23"
    )
    refused = re.escape(
        "fn: got a function that a store cannot tell from others (LOCK: a _thread.lock, whose value cannot be"
    )
    with pytest.raises(
        ValueError, match=f"{refused}.*version=, a text or number that you change when the function changes"
    ):
        eq.grid(program(before), store=tmp_path, batch=False, x=[1])
    assert not list(tmp_path.iterdir())
    options = {"store": tmp_path, "batch": False, "x": [1]}
    assert eq.grid(program(before), version=1, **options)["value"].item() == 2
    assert eq.grid(program(after), version=1, **options)["value"].item() == 2  # that is what the caller said
    with pytest.raises(ValueError, match="a grid with another version: 1, here 'two'"):
        eq.grid(program(after), version="two", **options)
    with pytest.raises(ValueError, match="version: got True; allowed: a text or a number"):
        eq.grid(program(after), version=True, **options)
    with pytest.raises(ValueError, match=r"version: got \[1\]; allowed: a text or a number"):
        eq.grid(program(after), version=[1], **options)


def test_without_a_store_nothing_need_be_seen():
    source = "import threading\nLOCK = threading.Lock()\ndef cell(x):\n    with LOCK: return 2 * x"
    assert eq.grid(program(source), x=[1.0])["value"].item() == 2


def test_compiled_code_is_that_of_the_function_as_it_is_now():
    """In one process, without a store: a constant that is changed between two grids counts."""
    namespace = {"__name__": "a_study", "N": 2.0}
    exec("def cell(x): return N * x", namespace)
    assert eq.grid(namespace["cell"], x=[1.0, 2.0])["value"].values.tolist() == [2, 4]
    namespace["N"] = 3.0
    assert eq.grid(namespace["cell"], x=[1.0, 2.0])["value"].values.tolist() == [3, 6]


def test_the_same_function_is_compiled_once():
    compiled = task._compiled.cache_info
    before = compiled().misses
    for _ in range(3):  # a new function object each time, with the same code
        eq.grid(program("def cell(x): return 1.25 * x"), batch=True, x=[1.0, 2.0])
    assert compiled().misses == before + 1


def stored_cells(folder, count, store=None):
    cells = cells_of(checked_axes({"x": range(count)}))
    store = store or ResultStore(folder, {"function": "f"}, {"width": 1})
    return store, cells


class Counted:
    """Counts what the store asks the disk for: names that are listed, and files that are looked for by name."""

    def __init__(self, monkeypatch):
        self.names = self.questions = 0
        scandir, exists = os.scandir, results.Path.exists

        def listed(folder):
            for entry in scandir(folder):
                self.names += 1
                yield entry

        def asked(path, **options):
            self.questions += 1
            return exists(path, **options)

        monkeypatch.setattr(results.os, "scandir", listed)
        monkeypatch.setattr(results.Path, "exists", asked)
        monkeypatch.setattr(results.time, "monotonic", lambda: 0.0)


def test_the_cost_of_a_chunk_does_not_grow_with_their_number(tmp_path, monkeypatch):
    def cost(chunks):
        folder = tmp_path / str(chunks)
        with monkeypatch.context() as patched:
            counted = Counted(patched)
            store, cells = stored_cells(folder, chunks)
            for cell in cells:
                assert store.look_for([cell]) == [cell]
                store.keep([cell], [{"value": np.zeros(())}])
            return counted.names + counted.questions

    small, large = cost(150), cost(600)
    assert large <= 4.4 * small  # four times as many chunks; it was sixteen times as much
    assert large <= 20 * 600


def test_a_progress_bar_counts_every_cell_once(tmp_path, monkeypatch):
    """Cells that another client finds, that were there, and that are lost; in all as many as there are."""
    from equilibria.grids import grid as module

    bars = []
    real = module.progress

    def shown(*arguments, **options):
        bars.append(real(*arguments, **options))
        bars[-1].counted = 0
        update = bars[-1].update

        def counting(n=1):
            bars[-1].counted += n
            return update(n)

        bars[-1].update = counting
        return bars[-1]

    monkeypatch.setattr(module, "progress", shown)
    eq.grid(_double, store=tmp_path, batch=False, x=[1, 2])
    eq.grid(_double, store=tmp_path, batch=False, x=[2, 3, 4])
    assert [bar.counted for bar in bars] == [2, 3]


def _double(x):
    return 2 * x


def test_what_others_write_is_found(tmp_path, monkeypatch):
    """In the same chunks at once; in other chunks when all names are looked through, at the latest after ten seconds."""
    now = [0.0]
    monkeypatch.setattr(results.time, "monotonic", lambda: now[0])
    ours, cells = stored_cells(tmp_path, 100)
    for cell in cells[:40]:
        ours.keep([cell], [{"value": np.zeros(())}])
    ours.refresh()
    theirs, _ = stored_cells(tmp_path, 100)
    theirs.keep(cells[50:52], [{"value": np.ones(())}] * 2)
    assert ours.look_for(cells[50:52]) == []
    theirs.keep(cells[60:64], [{"value": np.ones(())}] * 4)
    assert ours.look_for(cells[60:62]) == cells[60:62]  # they have cut it in another way
    now[0] += 10.5
    assert ours.look_for(cells[60:62]) == []
    assert {cell.digest for cell in cells[:40] + cells[50:52] + cells[60:64]} == set(ours.found())
    assert ours.found() == []


def test_leftovers_of_killed_clients_are_swept(tmp_path):
    eq.grid(_double, store=tmp_path, batch=False, x=[1])
    old, young, other = (
        tmp_path / name for name in (".cells-1.safetensors.0123abcd.part", ".grid.json.89abcdef.part", "mine.part")
    )
    for path in (old, young, other):
        path.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    os.utime(other, (0, 0))
    eq.grid(_double, store=tmp_path, batch=False, x=[1])
    assert [path.exists() for path in (old, young, other)] == [False, True, True]


def test_clients_that_start_at_once_agree_on_the_grid(tmp_path):
    """Whoever writes grid.json first decides the choices, and all of them go by these."""
    abouts = []

    def start(width):
        abouts.append(ResultStore(tmp_path, {"function": "f"}, {"width": width}).about)

    for _ in range(20):
        for path in tmp_path.iterdir():
            path.unlink()
        abouts.clear()
        threads = [threading.Thread(target=start, args=(width,)) for width in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(abouts) == 4
        assert all(about == abouts[0] for about in abouts)
        assert [path.name for path in tmp_path.iterdir()] == ["grid.json"]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"width": 2', '"width": 3'), ('"version": null', '"version": 1'), ("sha256", "sha255"), ("{", "[")],
)
def test_an_altered_description_is_refused(tmp_path, old, new):
    eq.grid(_double, store=tmp_path, x=[1.0, 2.0])
    path = tmp_path / "grid.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"grid\.json is not readable"):
        eq.grid(_double, store=tmp_path, x=[1.0, 2.0])
    assert len(list(tmp_path.glob("cells-*"))) == 1


def test_another_python_is_named(tmp_path, monkeypatch):
    eq.grid(_double, store=tmp_path, x=[1.0])
    monkeypatch.setattr(results, "sys", type("sys", (), {"version_info": type("v", (), {"major": 4, "minor": 0})}))
    with pytest.raises(ValueError, match=r"a grid with another Python: '3\.\d+', here '4\.0'"):
        eq.grid(_double, store=tmp_path, x=[1.0])


def test_cells_that_do_not_fit_their_arrays_are_set_aside(tmp_path):
    """A file that is whole, with our digest, but says something else than a chunk does."""
    store, cells = stored_cells(tmp_path, 3)
    store.keep(cells[:1], [{"value": np.zeros(())}])
    good = files.load(next(tmp_path.glob("cells-*")))
    for metadata in (
        {"cells": good.metadata["cells"] * 2},
        {"cells": None},
        {"failures": {"7": "no such cell"}},
        {"failures": {"first": "no number"}},
    ):
        path = tmp_path / f"cells-{'0' * 24}.safetensors"
        files.write(path, good.arrays, good.metadata | metadata)
        with pytest.warns(UserWarning, match="holds no cells of a grid .*; set aside as"):
            again, _ = stored_cells(tmp_path, 3)
        assert set(again.rows) == {cells[0].digest}


def test_a_finished_grid_is_read_from_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    first = eq.grid(_double, store=tmp_path, batch=False, x=[1, 2])

    def closed(folder):
        raise files.StorageError(f"{folder}: could not be written (Read-only file system). Choose another")

    monkeypatch.setattr(files, "check_writable", closed)
    np.testing.assert_array_equal(eq.grid(_double, store=tmp_path, batch=False, x=[1, 2])["value"], first["value"])
    calls = []
    with pytest.raises(files.StorageError, match="Read-only"):  # before any cell is computed
        eq.grid(lambda x: calls.append(x), store=tmp_path / "new", version=1, batch=False, x=[1, 2])
    assert calls == []


def test_numbers_of_other_kinds(tmp_path):
    """Big-endian and complex ones are kept; extended ones, which no file here holds, are failures that say so."""
    axis = np.array([1.0, 2.0], ">f8")
    for store in (None, tmp_path / "a"):
        result = eq.grid(lambda x: np.asarray(x, ">f8"), store=store, batch=False, x=axis)
        assert result["x"].dtype.isnative
        assert result["value"].dtype == np.float64
        assert result["value"].dtype.isnative
    turned = eq.grid(lambda x: np.exp(1j * np.float64(x)), store=tmp_path / "b", batch=False, x=[1.0])
    again = eq.grid(lambda x: np.exp(1j * np.float64(x)), store=tmp_path / "b", batch=False, x=[1.0])
    assert turned["value"].item() == again["value"].item() == np.exp(1j)
    with pytest.warns(UserWarning, match="a function that returned float128; allowed: numbers of up to 64 bits"):
        assert list(eq.grid(lambda x: np.longdouble(x), store=tmp_path / "c", batch=False, x=[1.0])) == ["failure"]
    with pytest.raises(ValueError, match="x: got numbers of type float128; allowed: numbers of up to 64 bits"):
        eq.grid(_double, x=np.array([1.0], np.longdouble))


def test_the_description_can_be_read(tmp_path):
    eq.grid(_double, store=tmp_path, batch=False, x=[1])
    about = json.loads((tmp_path / "grid.json").read_text())["grid"]
    assert about["function"].endswith("test_results._double")
    assert set(about["parts"]) == {"code", "default arguments"}
    assert cell_at({"x": 1}).digest in ResultStore(tmp_path, {}, {"batched": 0, "width": 0}).rows
