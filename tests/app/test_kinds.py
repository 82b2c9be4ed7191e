"""Every kind of machine is trained, resumed, sampled and evaluated from the command line."""

import json
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import equilibria as eq
from equilibria import files
from equilibria.app import cli

NAMES = ["age", "dose", "marker", "status", "x", "y"]


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.setattr("equilibria.compiled.cache", lambda: None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def table():
    draws = np.random.default_rng(1)
    group = draws.integers(0, 2, 120)
    bits = (draws.random((120, 6)) < np.where(group, 0.85, 0.15)[:, None]).astype(int)
    frame = pd.DataFrame(bits, columns=NAMES)
    frame.to_csv("t.csv", index=False)
    frame.assign(group=np.where(group, "well", "ill")).to_csv("labelled.csv", index=False)
    return bits


def same(first, second):
    for one, other in zip(*(jax.tree.leaves(eq.load_network(path)) for path in (first, second)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_deep_machines(table, capsys):
    train = [
        "train",
        "deep",
        "--data",
        "t.csv",
        "--layers",
        "4,3",
        "--batch-size",
        "54",
        "--steps",
        "2",
        "--final-rate",
        "1",
    ]
    assert cli.main([*train, "--out", "whole", "--epochs", "3"]) == 0
    assert cli.main([*train, "--out", "parts", "--epochs", "2"]) == 0
    assert cli.main([*train, "--out", "parts", "--epochs", "3", "--resume"]) == 0
    same("whole", "parts")
    assert [layer.size for layer in eq.load_network("whole").layers] == [6, 4, 3]
    assert cli.main(["sample", "whole", "--count", "5", "--sweeps", "5"]) == 0
    assert pd.read_csv("whole/samples.csv").columns.tolist() == NAMES
    assert cli.main(["evaluate", "whole", "--data", "t.csv"]) == 0
    found = json.loads(Path("whole/evaluation.json").read_text())["value"]
    assert found == pytest.approx(eq.log_likelihood(eq.load_network("whole"), table).value, abs=1e-5)


def test_potts_machines_of_sequences_and_of_whole_numbers(capsys):
    draws = np.random.default_rng(0)
    letters = np.array(list("-ACGT"))
    states = draws.integers(0, 5, (60, 3))
    states[:, 1] = states[:, 0]
    Path("t.fasta").write_text("".join(f">s{n}\n{''.join(letters[row])}\n" for n, row in enumerate(states)))
    small = ["--hidden", "4", "--batch-size", "30", "--epochs", "2", "--validation", "0"]
    assert cli.main(["train", "rbm", "--data", "t.fasta", "--alphabet", "dna", "--out", "dna", *small]) == 0
    assert "3 sites of 5 states" in capsys.readouterr().out
    assert cli.main(["sample", "dna", "--count", "4", "--sweeps", "3"]) == 0
    assert eq.data.read_fasta("dna/samples.fasta", "dna").states.shape == (4, 3)
    assert cli.main(["evaluate", "dna", "--data", "t.fasta"]) == 0
    found = json.loads(Path("dna/evaluation.json").read_text())["value"]
    network = eq.load_network("dna")
    assert found == pytest.approx(eq.log_likelihood(network, eq.data.one_hot(states, 5)).value, abs=1e-5)
    pd.DataFrame(states, columns=["a", "b", "c"]).to_csv("t.csv", index=False)
    assert cli.main(["train", "rbm", "--data", "t.csv", "--visible-units", "potts", "--out", "whole", *small]) == 0
    for one, other in zip(jax.tree.leaves(network), jax.tree.leaves(eq.load_network("whole")), strict=True):
        np.testing.assert_array_equal(one, other)  # the same states, by another way
    assert cli.main(["sample", "whole", "--count", "4", "--sweeps", "3"]) == 0
    assert pd.read_csv("whole/samples.csv").columns.tolist() == ["a", "b", "c"]
    Path("bad.fasta").write_text(">s\nAXG\n>t\nACG\n")
    assert cli.main(["train", "rbm", "--data", "bad.fasta", "--alphabet", "dna", "--out", "x", *small]) == 2
    assert "a missing letter in sequence 's', site 2" in capsys.readouterr().err


def test_classifiers(table, capsys):
    options = ["--target", "group", "--layers", "8", "--batch-size", "27", "--sweeps", "10", "--nudged-sweeps", "4"]
    train = ["train", "classifier", "--data", "labelled.csv", *options, "--learning-rate", "0.02", "--final-rate", "1"]
    assert cli.main([*train, "--out", "whole", "--epochs", "12"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert cli.main([*train, "--out", "parts", "--epochs", "5"]) == 0
    assert cli.main([*train, "--out", "parts", "--epochs", "12", "--resume"]) == 0
    same("whole", "parts")
    assert {"training", "validation"} <= set(files.load_dataset("whole/history.nc"))
    assert cli.main(["evaluate", "whole", "--data", "labelled.csv"]) == 0
    report = json.loads(Path("whole/evaluation.json").read_text())
    assert report["accuracy"] > 0.9
    answers = pd.read_csv("whole/predictions.csv")["prediction"]
    assert (answers == pd.read_csv("labelled.csv")["group"]).mean() == pytest.approx(report["accuracy"])
    assert cli.main(["evaluate", "whole", "--data", "t.csv"]) == 0  # without the column there are answers alone
    assert "the table has no column 'group'" in capsys.readouterr().out
    assert cli.main(["sample", "whole"]) == 2
    assert "a classifier, which comes to rest and draws nothing" in capsys.readouterr().err
    assert cli.main([*train, "--target", "age:dose", "--out", "x"]) == 2
    assert "--target: got" in capsys.readouterr().err


def test_memories(capsys):
    patterns = np.asarray(eq.data.random_patterns(4, 120, key=0))
    np.save("patterns.npy", patterns)
    assert cli.main(["train", "memory", "--data", "patterns.npy", "--out", "memory", "--sleep", "1"]) == 0
    assert "4 patterns of 120 neurons, load 0.03333; 4 are recalled" in capsys.readouterr().out
    cues = patterns[[2, 0]].copy()
    cues[:, :20] *= -1
    np.save("cues.npy", cues)
    assert cli.main(["evaluate", "memory", "--data", "cues.npy"]) == 0
    assert pd.read_csv("memory/recalled.csv")["pattern"].tolist() == [3, 1]
    assert "2 of 2 cues end at a memory" in capsys.readouterr().out
    assert cli.main(["sample", "memory", "--count", "3", "--sweeps", "5", "--temperature", "0.1"]) == 0
    assert np.load("memory/samples.npy").shape == (3, 120)
    assert cli.main(["train", "memory", "--data", "patterns.npy", "--out", "memory"]) == 2
    assert "a memory is stored at once" in capsys.readouterr().err
    np.save("real.npy", np.linspace(0, 1, 20).reshape(2, 10))
    assert cli.main(["train", "memory", "--data", "real.npy", "--out", "other"]) == 2
    assert "--binarise NUMBER cuts others in two" in capsys.readouterr().err


def test_binary_synapses(table, capsys):
    train = ["train", "synapses", "--data", "t.csv", "--hidden", "2"]
    assert cli.main([*train, "--out", "whole", "--epochs", "12"]) == 0
    assert "12 weights of one bit in" in capsys.readouterr().out
    assert cli.main([*train, "--out", "parts", "--epochs", "5"]) == 0
    assert cli.main([*train, "--out", "parts", "--epochs", "12", "--resume"]) == 0
    same("whole/machine", "parts/machine")
    weights = np.asarray(eq.load_network("whole/machine").couplings[0].matrix())
    assert len(np.unique(np.abs(weights))) == 1
    assert pd.read_csv("whole/filters.csv", index_col=0).index.tolist() == NAMES
    assert cli.main(["sample", "whole", "--count", "5", "--sweeps", "5"]) == 0
    assert np.isin(np.load("whole/samples.npy"), (-1, 1)).all()
    assert cli.main(["evaluate", "whole", "--data", "t.csv"]) == 0
    found = json.loads(Path("whole/evaluation.json").read_text())["value"]
    expected = eq.log_likelihood(eq.load_network("whole/machine"), 2 * table - 1).value
    assert found == pytest.approx(expected, abs=1e-5)
