"""Commands never replace what they did not write."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.app.cli import main


@pytest.fixture
def table(tmp_path):
    np.save(tmp_path / "data.npy", np.random.default_rng(0).integers(0, 2, size=(20, 4)))
    return tmp_path / "data.npy"


def trained(table, out, *more):
    options = ["--hidden", "2", "--epochs", "1", "--batch-size", "10"]
    return main(["train", "rbm", "--data", str(table), "--out", str(out), *options, *more])


@pytest.mark.parametrize("name", ["run.json", "history.nc", "samples.png", "filters.png", "learning.png"])
def test_train_leaves_what_is_not_its_own(tmp_path, table, capsys, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("[1]")
    assert trained(table, tmp_path / "out") == 2
    assert f"with {name} and no run; allowed: another folder" in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in (tmp_path / "out").iterdir()] == [(name, "[1]")]


def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_again(tmp_path, table):
    assert trained(table, tmp_path / "first") == 0
    (tmp_path / "out").mkdir()
    (tmp_path / "first" / "run.json").rename(tmp_path / "out" / "run.json")
    assert trained(table, tmp_path / "out") == 0


def test_sample_leaves_a_picture_that_is_not_its_own(tmp_path, capsys):
    eq.save_network(tmp_path / "run", eq.rbm(4, 2, key=0))
    picture, draws = tmp_path / "mine.png", tmp_path / "mine.npy"
    picture.write_bytes(b"mine")
    command = ["sample", str(tmp_path / "run"), "--count", "3", "--sweeps", "1", "--out", str(draws)]
    assert main(command) == 2
    assert "beside whose place is mine.png; allowed: another name: that would be replaced" in capsys.readouterr().err
    assert picture.read_bytes() == b"mine"
    picture.unlink()
    assert main(command) == main(command) == 0  # its own, with the draws beside it, it may replace


def test_report_leaves_a_page_that_is_not_its_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.html").write_text("<html>mine</html>")
    monkeypatch.setattr("equilibria.papers.frame.reproduce", lambda *arguments: pytest.fail("the work began"))
    assert main(["report", "--out", str(tmp_path)]) == 2
    assert "whose report.html is another page; allowed: another folder" in capsys.readouterr().err
    assert (tmp_path / "report.html").read_text() == "<html>mine</html>"
