"""What the command line says when something fails: one line that says what to do, and nothing lost."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import equilibria as eq
from equilibria import files
from equilibria.app import cli

ROWS = np.repeat(np.eye(9), 6, axis=0)
SMALL = ["--hidden", "4", "--batch-size", "18", "--learning-rate", "0.2"]


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("equilibria.compiled.cache", lambda: None)
    path = tmp_path / "rows.npy"
    np.save(path, ROWS.astype(np.uint8))
    return str(path)


def test_what_cannot_be_known_is_not_written_as_nan(tmp_path, capsys):
    """The Bethe approximation has no error bar, which JSON has no word for."""
    np.save(tmp_path / "rows.npy", np.eye(2))
    eq.save_network(tmp_path / "run", eq.rbm(weights=[[18.0, 0.5], [0.3, 18.0]]))
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "rows.npy"), "--method", "bethe"]) == 0
    written = (tmp_path / "run" / "evaluation.json").read_text()
    assert "NaN" not in written
    found = json.loads(written)
    assert found["error"] is None
    assert -37 < found["value"] < -15
    assert "nan" not in capsys.readouterr().out


def test_a_machine_without_a_likelihood_is_an_error(tmp_path, monkeypatch, capsys, table):
    eq.save_network(tmp_path / "run", eq.rbm(9, 2, key=0))
    monkeypatch.setattr(eq, "log_likelihood", lambda *_, **__: eq.Estimate(-np.inf, note="no law"))
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", table]) == 2
    assert "whose log-likelihood is -inf" in capsys.readouterr().err
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_a_value_that_cannot_be_stored_is_printed(tmp_path, monkeypatch, capsys, table):
    def full(path, content):
        raise files.StorageError(f"{path}: could not be written (No space left on device). make room")

    eq.save_network(tmp_path / "run", eq.rbm(9, 2, key=0))
    monkeypatch.setattr(files, "write_atomic", full)
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", table]) == 2
    told = capsys.readouterr()
    assert told.out.startswith("log-likelihood -")
    assert "No space left" in told.err


def test_a_full_disk_says_how_to_go_on(tmp_path, table, monkeypatch, capsys):
    out = tmp_path / "run"
    real, writes = files.checkpoint.write_atomic, []

    def full(path, content):
        writes.append(path)
        if len(writes) > 2:
            raise files.StorageError(f"{path}: could not be written (No space left on device). make room")
        real(path, content)

    monkeypatch.setattr(files.checkpoint, "write_atomic", full)
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL, "--epochs", "5"]
    assert cli.main(train) == 2
    error = capsys.readouterr().err
    assert str(out) in error
    assert "make room The same command with --resume then goes on." in error
    monkeypatch.setattr(files.checkpoint, "write_atomic", real)
    assert cli.main([*train, "--resume"]) == 0


def test_a_folder_with_a_network_alone_is_not_resumed_and_left_as_it_is(tmp_path, table, capsys):
    eq.save_network(tmp_path / "run", eq.rbm(9, 4, key=0))
    assert cli.main(["train", "rbm", "--data", table, "--out", str(tmp_path / "run"), *SMALL, "--resume"]) == 2
    assert "--out: got" in (error := capsys.readouterr().err)
    assert "which holds a network and no run" in error
    assert len(list((tmp_path / "run").iterdir())) == 1


def test_a_terminal_without_our_letters(tmp_path, table):
    """ASCII alone, as in many containers and batch queues: help, lists and results are written in letters it has."""
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}

    def run(*arguments):
        command = [sys.executable, "-m", "equilibria.app.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, check=False)

    eq.save_network(tmp_path / "run", eq.rbm(9, 2, key=0))
    done = run("evaluate", str(tmp_path / "run"), "--data", table, "--method", "ais", "--steps", "9", "--chains", "4")
    assert done.returncode == 0, done.stderr.decode()
    assert b" +- " in done.stdout
    for arguments in (["list"], ["train", "--help"]):
        done = run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.isascii()


def test_a_sum_that_is_too_long_is_refused_with_the_way_out(tmp_path, capsys):
    eq.save_network(tmp_path / "run", eq.rbm(40, 30, key=0))
    np.save(tmp_path / "rows.npy", np.zeros((3, 40), np.uint8))
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "rows.npy"), "--method", "exact"]) == 2
    assert (
        "--method: got 'exact', for a machine with too many states to be summed; allowed: auto or ais"
        in capsys.readouterr().err
    )
