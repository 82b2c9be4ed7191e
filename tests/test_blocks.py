"""Every block of Python on a page runs, and every command that a page shows is one.

Cells of notebooks are run by `make docs`; blocks that need other packages are in test_pages.py, the README's in test_readme.py.
"""

import functools
import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import joblib
import numpy as np
import pytest

import equilibria as eq
from equilibria.app import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("[!_]*/*.md"))]
PAGES = [page for page in PAGES if page.parent.name not in ("api", "gallery")]  # these are written by `make docs`
IN_TEST_PAGES = {("howto/other_libraries.md", 0), ("howto/other_libraries.md", 1)}
IN_TEST_PAGES |= {("howto/watching.md", 0), ("howto/watching.md", 1)}
HERE = {("howto/cluster.md", 0), ("howto/cluster.md", 1)} | {("scale.md", place) for place in range(5)}


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def run(page: str, place: int, folder: Path, names: dict | None = None, **smaller: str) -> dict:
    """A block as a script in a folder, with what stands before it on the page, and less work where `smaller` says so."""
    text = blocks(page)[place]
    for word, less in smaller.items():
        text, changed = re.subn(rf"(?<=\b{word}=)(\[.*?\]|[\w.]+\(.*?\)|\w+)", less, text, count=1)
        assert changed == 1, word
    script = folder / "block.py"
    script.write_text(text)
    return runpy.run_path(str(script), names or {}, run_name="__main__")


def test_no_block_of_python_is_left_out():
    there = {
        (str(page.relative_to(DOCS)), place)
        for page in PAGES[2:]
        for place in range(len(blocks(str(page.relative_to(DOCS)))))
    }
    assert there == HERE | IN_TEST_PAGES


# ---- one machine, and many ----


def test_a_grid_is_kept_and_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("scale.md", 0, tmp_path, size="[256]", load="[0.05]", temperature="[0.1, 0.2]", seed="range(2)")[
        "overlaps"
    ]
    assert float(found["value"].min()) > 0.9  # far below capacity
    assert (tmp_path / "runs/retrieval").is_dir()


def twice(x):
    return 2 * x


def test_ray_is_an_engine_of_joblib(tmp_path, monkeypatch):
    """With threads under Ray's name: that package is no dependency."""
    from joblib._parallel_backends import ThreadingBackend

    ray = SimpleNamespace(register_ray=lambda: joblib.register_parallel_backend("ray", ThreadingBackend))
    for name, module in {"ray": SimpleNamespace(), "ray.util": SimpleNamespace(), "ray.util.joblib": ray}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(joblib.parallel, "BACKENDS", dict(joblib.parallel.BACKENDS))
    called = []
    given = SimpleNamespace(grid=lambda fn, rest, **how: called.append(eq.grid(fn, x=[1.0, 2.0], batch=False, **how)))
    run("scale.md", 1, tmp_path, {"eq": given, "joblib": joblib, "fn": twice}, jobs="2")
    assert called[0]["value"].values.tolist() == [2.0, 4.0]


def test_a_cluster_that_asks_slurm_for_workers(tmp_path, monkeypatch):
    """With workers in this process in place of dask-jobqueue's, which would need a queue."""
    distributed = pytest.importorskip("distributed")
    asked, called = [], []

    class Pretended(distributed.LocalCluster):
        def __init__(self, **words):
            asked.append(words)
            super().__init__(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)

        def adapt(self, **words):
            asked.append(words)

    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=Pretended))
    monkeypatch.chdir(tmp_path)
    given = SimpleNamespace(grid=lambda fn, rest, **how: called.append(eq.grid(fn, x=[1.0, 2.0], batch=False, **how)))
    left = run("scale.md", 2, tmp_path, {"eq": given, "fn": twice})
    left["cluster"].close()
    assert called[0]["value"].values.tolist() == [2.0, 4.0]
    assert asked[0]["job_script_prologue"] == ["export NPROC=1"]


def small_training() -> dict:
    return {"eq": eq, "jax": jax, "network": eq.rbm(4, 2, key=0), "data": np.zeros((512, 4), np.uint8)}


def test_training_on_several_devices(tmp_path, monkeypatch):
    """The words of the call; what several devices compute is in tests/learn/test_devices.py."""
    monkeypatch.chdir(tmp_path)
    found = run("scale.md", 3, tmp_path, small_training(), epochs="1", devices="1")["run"]
    assert found.stopped is None
    assert (tmp_path / "runs/b").is_dir()


def test_training_on_several_machines(tmp_path, monkeypatch):
    connected = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda *where, **words: connected.append((where, words)))
    monkeypatch.setattr(jax, "devices", lambda: [jax.local_devices()[0]])
    assert run("scale.md", 4, tmp_path, small_training() | {"rank": 0}, epochs="1")["run"].stopped is None
    assert connected == [(("host:1234",), {"num_processes": 2, "process_id": 0})]


# ---- batch queues ----


def test_a_training_that_ends_by_itself_ends_with_0(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run("howto/cluster.md", 0, tmp_path, small_training() | {"sys": sys}, epochs="1")
    assert ended.value.code == 0


def test_the_script_of_the_grid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "model.py").write_text("def retrieval(size, load, temperature, seed, key):\n    return size * load\n")
    found = run("howto/cluster.md", 1, tmp_path, size="[8]", load="[0.25, 0.5]", temperature="[0.0]", seed="range(2)")[
        "found"
    ]
    assert found["value"].mean("seed").values.ravel().tolist() == [2.0, 4.0]
    assert (tmp_path / "scan.nc").exists()


# ---- commands ----


def shown() -> list[str]:
    """Each command of ours on a page, in a block, a sentence or a script, that has options or all that it needs."""
    text = "\n".join(page.read_text() for page in PAGES)
    lines = re.findall(r"^(?:srun )?(equilibria .*)$", text, flags=re.MULTILINE)
    lines += re.findall(r"`(equilibria [^`\n]*)`", text)
    bare = (re.split(r"\|\||>|  ", line)[0].strip() for line in lines)
    return sorted({line for line in bare if re.match(r"equilibria (-|list$|lab$|.*( --|/))", line)})


def pretended(command):
    @functools.wraps(command)
    def does_nothing(*given, **words):
        return 0

    return does_nothing


@pytest.mark.parametrize("line", shown())
def test_a_command_on_a_page_is_one(line, monkeypatch):
    monkeypatch.setattr(cli, "COMMANDS", {name: pretended(command) for name, command in cli.COMMANDS.items()})
    words = shlex.split(line.replace("$size", "2").replace("$seed", "3"))
    try:
        code = cli.main(words[1:])
    except SystemExit as ended:  # of --help, and of the completion that is printed
        code = ended.code or 0
    assert code == 0


def test_what_pages_tell_to_make_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    told = {
        name for page in PAGES for name in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), flags=re.MULTILINE)
    }
    assert len(told) > 5
    assert told <= targets


# ---- the theory, the paper ----


def test_every_name_of_the_theory_is_on_its_pages():
    pages = "\n".join(page.read_text() for page in DOCS.glob("theory/*.md"))
    assert [
        name for name in dir(eq.theory) if callable(getattr(eq.theory, name)) and not re.search(rf"\b{name}\b", pages)
    ] == []


def test_the_paper_cites_what_its_list_has_and_shows_pictures_that_are_there():
    text, listed = (ROOT / "paper/paper.md").read_text(), (ROOT / "paper/paper.bib").read_text()
    assert set(re.findall(r"@(\w+)", text)) == set(re.findall(r"@\w+\{(\w+),", listed))
    pictures = re.findall(r"\]\((.*?\.png)\)", text)
    assert pictures
    assert all((ROOT / "paper" / picture).exists() for picture in pictures)


def test_one_description_everywhere():
    """In the package's metadata, in the citation and in codemeta."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    codemeta, cited = json.loads((ROOT / "codemeta.json").read_text()), (ROOT / "CITATION.cff").read_text()
    assert codemeta["description"] == project["description"]
    assert (
        set(codemeta["keywords"])
        == set(project["keywords"])
        >= set(re.findall(r"^  - (\w.*[a-z])$", cited, flags=re.M))
        > set()
    )
    assert f"\nlicense: {project['license']}\n" in cited
    assert codemeta["license"].endswith(f"/{project['license']}")
    assert codemeta["runtimePlatform"] == f"Python {project['requires-python'][2:]} or newer"
    assert project["name"] == codemeta["name"] == re.search(r'^title: "(\w+)', cited, flags=re.M)[1]
    assert codemeta["version"] in (ROOT / "CHANGELOG.md").read_text()
