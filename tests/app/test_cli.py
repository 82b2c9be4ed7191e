"""The command line: quick to answer, honest in its exit code, one line for an error."""

import dataclasses
import os
import subprocess
import sys

import pytest

import tiny
from equilibria import __version__, papers
from equilibria.app.cli import main


@pytest.fixture(autouse=True)
def tiny_papers(monkeypatch, tmp_path):
    """Only the tiny experiments are known, and the working folder is empty."""
    tiny.RUNS.clear()
    known = {"tiny/line": tiny.experiment, "tiny/wrong": tiny.wrong}
    for id in list(papers.INDEX):
        monkeypatch.delitem(papers.INDEX, id)
    for id, experiment in known.items():
        monkeypatch.setitem(papers.INDEX, id, experiment.title)
        monkeypatch.setitem(sys.modules, f"equilibria.papers.{id.replace('/', '.')}", tiny.as_module(experiment))
    monkeypatch.setattr("equilibria.compiled.cache", lambda: None)  # leave the test process as it is
    monkeypatch.chdir(tmp_path)


def python(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return result.stdout.split()


def test_the_version_is_told_and_help_says_how(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"equilibria {__version__}\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "equilibria --version" in capsys.readouterr().out


def test_help_and_list_import_nothing_heavy():
    code = """
import sys, equilibria.app.cli
equilibria.app.cli.main(["list"])
try: equilibria.app.cli.main(["--help"])
except SystemExit: pass
print("heavy", *{"jax", "matplotlib", "xarray", "scipy", "sklearn", "equinox"} & set(sys.modules))
"""
    assert python(code)[-1] == "heavy"


def test_list_shows_ids_and_titles(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "tiny/line   A straight <line>\ntiny/wrong  A wrong slope\n"


def test_reproduce_writes_into_the_default_folder_and_reuses_it(capsys, tmp_path):
    assert main(["reproduce", "tiny/line"]) == 0
    assert (tmp_path / "results/tiny/line/quick/result.nc").exists()
    assert main(["reproduce", "tiny/line"]) == 0
    assert len(tiny.RUNS) == 1
    assert "--force runs it again" in capsys.readouterr().out
    assert main(["reproduce", "tiny/line", "--force"]) == 0
    assert len(tiny.RUNS) == 2


def test_reproduce_takes_preset_and_folder(tmp_path):
    assert main(["reproduce", "tiny/line", "--preset", "paper", "--out", "elsewhere"]) == 0
    assert (tmp_path / "elsewhere/result.nc").exists()
    assert len(tiny.RUNS[0].points) == 20


def test_a_claim_that_does_not_hold_is_exit_code_1(capsys):
    assert main(["reproduce", "tiny/wrong"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["NOT", "held", "untested", "1"]
    assert "quick: a small version" in lines[0]


def test_report_runs_what_is_missing_and_writes_one_page(capsys, tmp_path):
    assert main(["reproduce", "tiny/line", "--out", "pages/tiny/line/quick"]) == 0
    assert main(["report", "--out", "pages", "--jobs", "1"]) == 0  # tiny/wrong does not hold, and the page says so
    assert len(tiny.RUNS) == 2
    page = (tmp_path / "pages/report.html").read_text()
    assert page.count("<section") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["reproduce", "tiny/lime"],
            "experiment: got 'tiny/lime'; allowed: what `equilibria list` shows; close: tiny/line",
        ),
        (["reproduce", "elephants"], "experiment: got 'elephants'; allowed: what `equilibria list` shows"),
        (["reproduce", "line"], "experiment: got 'line'; allowed: what `equilibria list` shows; close: tiny/line"),
        (["reproduce", "tiny/wrong", "--preset", "paper"], "preset: got 'paper'; allowed: 'quick'"),
        (["reproduce", "tiny/line", "--out", "occupied"], "occupied"),
        (
            ["reproduce", "tiny/line", "--cluster", "nowhere"],
            "cluster: got 'nowhere'",
        ),
    ],
)
def test_an_error_of_use_is_one_line_and_exit_code_2(arguments, message, capsys, tmp_path):
    (tmp_path / "occupied").write_text("a file, not a folder")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("equilibria: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_the_traceback_is_there_for_those_who_ask(monkeypatch):
    monkeypatch.setenv("EQUILIBRIA_DEBUG", "1")
    with pytest.raises(ValueError, match="experiment: got"):
        main(["reproduce", "tiny/lime"])


def test_interruption_is_quiet(monkeypatch, capsys):
    def interrupt(config, progress):
        raise KeyboardInterrupt

    endless = dataclasses.replace(tiny.wrong, run=interrupt)
    monkeypatch.setitem(sys.modules, "equilibria.papers.tiny.wrong", tiny.as_module(endless))
    assert main(["reproduce", "tiny/wrong"]) == 130
    assert capsys.readouterr().err == "equilibria: interrupted\n"


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["reproduce"], ["reproduce", "tiny/line", "--preset", "huge"]])
def test_wrong_arguments_are_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2


COMPILE = """
import jax, equilibria.compiled
equilibria.compiled.cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: x + 1)(1.0)
print(jax.config.jax_compilation_cache_dir)
"""


def test_compiled_code_goes_to_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    assert python(COMPILE, XDG_CACHE_HOME=str(tmp_path)) == [str(tmp_path / "equilibria/compiled")]
    assert list((tmp_path / "equilibria/compiled").iterdir())


def test_the_users_own_cache_folder_is_respected(tmp_path):
    own = str(tmp_path / "own")
    assert python(COMPILE, JAX_COMPILATION_CACHE_DIR=own, XDG_CACHE_HOME=str(tmp_path)) == [own]
    assert not (tmp_path / "equilibria").exists()


def test_report_leaves_out_figures_whose_data_are_missing(capsys, monkeypatch, tmp_path):
    def missing(config, progress):
        raise FileNotFoundError("mnist: set EQUILIBRIA_DATA")

    lacking = dataclasses.replace(tiny.wrong, run=missing)
    monkeypatch.setitem(sys.modules, "equilibria.papers.tiny.wrong", tiny.as_module(lacking))
    assert main(["report", "--out", "pages", "--jobs", "1"]) == 0
    assert capsys.readouterr().err == "Left out: tiny/wrong.\nmnist: set EQUILIBRIA_DATA\n"
    page = (tmp_path / "pages/report.html").read_text()
    assert "straight" in page
    assert "tiny/wrong</code> A wrong slope: mnist: set EQUILIBRIA_DATA" in page


def test_a_figure_that_fails_does_not_end_the_report(capsys, monkeypatch, tmp_path):
    def fail(config, progress):
        raise ZeroDivisionError("a bug")

    broken = dataclasses.replace(tiny.experiment, run=fail)
    monkeypatch.setitem(sys.modules, "equilibria.papers.tiny.line", tiny.as_module(broken))
    assert main(["report", "--out", "pages", "--jobs", "1"]) == 1
    assert "tiny/line could not be made: ZeroDivisionError: a bug" in capsys.readouterr().err
    assert "A wrong slope" in (tmp_path / "pages/report.html").read_text()


def test_the_page_is_there_after_the_first_figure(monkeypatch, tmp_path, capsys):
    seen = []

    def look(config, progress):
        seen.append((tmp_path / "pages/report.html").exists())
        return tiny.run(config, progress)

    for name, experiment in (("line", tiny.experiment), ("wrong", tiny.wrong)):
        looking = tiny.as_module(dataclasses.replace(experiment, run=look))
        monkeypatch.setitem(sys.modules, f"equilibria.papers.tiny.{name}", looking)
    assert main(["report", "--out", "pages", "--jobs", "1"]) == 0
    assert seen == [False, True]
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("2 of 2 figures to make on 1 core, about")
    seen.clear()
    assert main(["report", "--out", "pages", "--kept"]) == 0
    assert seen == []


@pytest.mark.slow
def test_figures_are_made_in_processes_side_by_side(tmp_path):
    code = """
import sys
from equilibria import papers
from equilibria.app.cli import main
if __name__ == "__main__":
    for id in list(papers.INDEX):
        if id not in ("scellier2017/theorem", "scellier2017/stdp"):
            del papers.INDEX[id]
    sys.exit(main(["report", "--out", sys.argv[1], "--jobs", "2"]))
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    subprocess.run([sys.executable, script, tmp_path / "pages"], check=True, capture_output=True)
    assert (tmp_path / "pages/report.html").read_text().count("<section") == 2


def test_a_reader_that_has_enough_is_no_error():
    """As in `equilibria list | head -1`, with a pipe that nobody reads any more."""
    script = "import sys; from equilibria.app.cli import main; sys.exit(main(['list']))"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
