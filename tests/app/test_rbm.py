"""The command line of restricted Boltzmann machines, on files of every kind."""

import json

import numpy as np
import pytest

from equilibria import load_network
from equilibria.app import cli, rbm

ROWS = np.repeat(np.eye(9), 6, axis=0)
SMALL = ["--hidden", "4", "--batch-size", "18", "--learning-rate", "0.2"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS.astype(np.uint8))
    return str(path)


def test_train_resume_sample_evaluate(tmp_path, table, capsys):
    out = tmp_path / "run"
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL]
    assert cli.main([*train, "--epochs", "2"]) == 0
    assert cli.main([*train, "--epochs", "4"]) == 2
    assert "resume" in capsys.readouterr().err
    assert cli.main([*train, "--epochs", "4", "--resume"]) == 0
    assert load_network(out).layers[1].size == 4
    for picture in ("samples.png", "filters.png", "learning.png"):
        assert (out / picture).stat().st_size > 1000
    assert cli.main(["sample", str(out), "--count", "5", "--sweeps", "20"]) == 0
    draws = np.load(out / "samples.npy")
    assert draws.shape == (5, 9)
    assert np.isin(draws, (0, 1)).all()
    assert cli.main(["evaluate", str(out), "--data", table]) == 0
    assert "nats per example (exact)" in capsys.readouterr().out
    assert json.loads((out / "evaluation.json").read_text())["value"] < -1


def test_tables_of_every_kind(tmp_path):
    import h5py

    np.savez(tmp_path / "two.npz", rows=ROWS, other=np.ones(3))
    np.savetxt(tmp_path / "plain.csv", ROWS, delimiter=",")
    (tmp_path / "named.csv").write_text("a,b\n1,0\n0,1\n")
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file["rows"] = ROWS.reshape(54, 3, 3)
    np.testing.assert_array_equal(rbm.read(tmp_path / "two.npz", "rows"), ROWS)
    np.testing.assert_array_equal(rbm.read(tmp_path / "plain.csv"), ROWS)
    np.testing.assert_array_equal(rbm.read(tmp_path / "named.csv"), np.eye(2))
    np.testing.assert_array_equal(rbm.read(tmp_path / "deep.h5"), ROWS)


def test_bad_files_are_one_line(tmp_path, capsys):
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    np.save(tmp_path / "large.npy", np.full((4, 2), 7.0))
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    (tmp_path / "rows.txt").write_text("1 2")
    for name, message in {
        "none.npy": "an existing",
        "words.npy": "allowed: numbers",
        "flat.npy": "a table",
        "nan.npy": "finite",
        "large.npy": "got 7 among",
        "two.npz": "one of the arrays in the file: a, b",
        "rows.txt": "'.npy'",
    }.items():
        assert cli.main(["train", "rbm", "--data", str(tmp_path / name), "--out", str(tmp_path / "x"), *SMALL]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
