"""Every kind of machine is trained, resumed, sampled and evaluated from the command line."""

import json
from dataclasses import fields
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import equilibria as eq
from equilibria import files
from equilibria.app import cli, tables
from equilibria.app.classifier import _GAIN, _learning
from equilibria.app.options import Classifier
from equilibria.estimators import EquilibriumClassifier
from faults.disk import full

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


def test_deep_machines_that_nobody_can_sum_are_watched_too(capsys):
    """By how well they give features back; the first hidden layer is in the field of the second."""
    rows = np.repeat(np.random.default_rng(0).integers(0, 2, (4, 30)), 30, axis=0)
    np.save("wide.npy", rows)
    options = ["--layers", "40,20", "--batch-size", "54", "--steps", "2", "--epochs", "3"]
    assert cli.main(["train", "deep", "--data", "wide.npy", "--out", "wide", *options]) == 0
    assert "epoch 3 of 3  reconstruction -" in capsys.readouterr().out
    history = files.load_dataset("wide/history.nc")
    assert (history["training"] < 0).all()
    assert history["training"][0] == pytest.approx(-np.var(rows, axis=0).mean(), abs=0.05)  # it begins at the means


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
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        full(patch)
        assert cli.main(["evaluate", "whole", "--data", "labelled.csv"]) == 2
    assert capsys.readouterr().out.startswith(f"accuracy {report['accuracy']:.4f}")
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
    np.save("twice.npy", np.concatenate([patterns, patterns[:2], np.ones((1, 120))]))
    assert cli.main(["train", "memory", "--data", "twice.npy", "--out", "twice", "--sleep", "1"]) == 0
    assert "7 patterns of 120 neurons, load 0.05833; 7 are recalled" in capsys.readouterr().out
    cues = patterns[[2, 0]].copy()
    cues[:, :20] *= -1
    np.save("cues.npy", cues)
    assert cli.main(["evaluate", "memory", "--data", "cues.npy"]) == 0
    assert pd.read_csv("memory/recalled.csv")["pattern"].tolist() == [3, 1]
    assert "2 of 2 cues end at a memory" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        full(patch)
        assert cli.main(["evaluate", "memory", "--data", "cues.npy"]) == 2
    assert "2 of 2 cues end at a memory" in capsys.readouterr().out
    stored = Path("memory/patterns.safetensors")
    content = stored.read_bytes()
    stored.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert cli.main(["evaluate", "memory", "--data", "cues.npy"]) == 2
    assert "patterns.safetensors: damaged" in capsys.readouterr().err
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


def test_binary_synapses_are_watched_on_what_was_held_out(capsys):
    """Patience ends a run and keeps its best machine; a run that is at its end, taken up again, leaves that alone."""
    rows = np.random.default_rng(0).integers(0, 2, (60, 8))  # noise: whatever is learned of it is worse than nothing
    pd.DataFrame(rows, columns=list("abcdefgh")).to_csv("noise.csv", index=False)
    train = ["train", "synapses", "--data", "noise.csv", "--hidden", "5", "--out", "run", "--validation", "0.5"]
    train += ["--learning-rate", "0.2"]
    assert cli.main([*train, "--epochs", "40", "--patience", "3"]) == 0
    told = capsys.readouterr().out
    assert "epoch  1 of 40  log-likelihood " in told
    assert " held out" in told
    history = files.load_dataset("run/history.nc")
    best = history["validation"].values.argmax()
    assert history.sizes["step"] == best + 4 < 41  # three more than the best
    kept = json.loads(Path("run/best.json").read_text())
    assert kept == {"validation": pytest.approx(float(history["validation"][best]))}
    held = 2 * rows[tables.held_out(60, 0.5, 0)[1]] - 1
    value = eq.log_likelihood(eq.load_network("run/machine"), held).value
    assert value == pytest.approx(kept["validation"], abs=1e-4)
    assert value > float(history["validation"][-1])
    before = {name: Path("run", name).read_bytes() for name in ("machine.safetensors", "filters.csv", "best.json")}
    steps = str(int(history.step[-1]))
    assert cli.main([*train, "--epochs", steps, "--patience", "3", "--resume"]) == 0
    assert {name: Path("run", name).read_bytes() for name in before} == before
    assert eq.log_likelihood(eq.load_network("run/machine"), held).value == value
    assert cli.main([*train, "--epochs", "40", "--patience", "3", "--validation", "0"]) == 2
    assert (
        "--patience: got 3; allowed: none without ten examples held out; --validation 0.5 holds half out"
        in capsys.readouterr().err
    )


def test_binary_synapses_of_weighed_examples(table):
    kept = table.sum(1) >= 3
    pd.read_csv("t.csv").assign(times=kept.astype(int)).to_csv("weighed.csv", index=False)
    pd.read_csv("t.csv")[kept].to_csv("kept.csv", index=False)
    train = ["train", "synapses", "--hidden", "2", "--epochs", "12", "--validation", "0"]
    assert cli.main([*train, "--data", "kept.csv", "--out", "without"]) == 0
    assert cli.main([*train, "--data", "weighed.csv", "--weights", "times", "--out", "column"]) == 0
    same("without/machine", "column/machine")
    means = [pd.read_csv(f"{name}/filters.csv", index_col=0) for name in ("without", "column")]
    np.testing.assert_allclose(*means, atol=1e-4)


def test_labels_may_stand_in_an_array_or_a_file_of_their_own(table, capsys):
    """The same classifier as from a column; words or numbers, with a line of names or without."""
    words = pd.read_csv("labelled.csv")["group"]
    np.savez("all.npz", X=table, y=words.to_numpy(str))
    words.to_csv("with-name.csv", index=False)
    words.to_csv("bare.csv", index=False, header=False)
    options = ["--layers", "8", "--batch-size", "27", "--sweeps", "10", "--nudged-sweeps", "4", "--epochs", "2"]
    train = ["train", "classifier", *options, "--quiet"]
    assert cli.main([*train, "--data", "labelled.csv", "--target", "group", "--out", "column"]) == 0
    for name, given in {
        "array": ["--data", "all.npz", "--array", "X", "--labels", "y"],
        "with-name": ["--data", "t.csv", "--labels", "with-name.csv"],
        "bare": ["--data", "t.csv", "--labels", "bare.csv"],
    }.items():
        assert cli.main([*train, *given, "--out", name]) == 0
        same("column", name)
    found = {}
    for name, given in {
        "column": ["--data", "labelled.csv"],
        "bare": ["--data", "t.csv", "--labels", "bare.csv"],
    }.items():
        assert cli.main(["evaluate", name, *given]) == 0
        found[name] = json.loads(Path(name, "evaluation.json").read_text())["accuracy"]
    assert found["column"] == found["bare"]
    capsys.readouterr()
    assert cli.main(["evaluate", "bare", "--data", "t.csv"]) == 0
    assert "120 answers; no labels were given" in capsys.readouterr().out
    np.save("short.npy", np.arange(7))
    for given, message in {
        ("--data", "t.csv"): "--target: got nothing, nor labels; allowed: --target NAME",
        ("--data", "labelled.csv", "--target", "group", "--labels", "bare.csv"): "got both a column and labels",
        (
            "--data",
            "t.csv",
            "--labels",
            "short.npy",
        ): "--labels: got short.npy with 7 of them; allowed: one for each of",
        ("--data", "t.csv", "--labels", "group"): "--labels: got 'group'; allowed: a file",
        ("--data", "all.npz", "--array", "X", "--labels", "z"): "--labels: got 'z', which all.npz does not hold",
        ("--data", "t.csv", "--labels", "labelled.csv"): "--labels: got labelled.csv with 7 columns",
    }.items():
        assert cli.main([*train, *given, "--out", "x"]) == 2
        assert message in capsys.readouterr().err


def test_examples_count_by_their_weights(table, capsys):
    """Those of weight zero are as if they were not there; a column of weights is no feature."""
    kept = table.sum(1) >= 3
    frame = pd.read_csv("t.csv")
    frame.assign(times=kept.astype(int)).to_csv("weighed.csv", index=False)
    np.savetxt("weights.txt", kept)
    frame[kept].to_csv("kept.csv", index=False)
    options = ["--hidden", "4", "--batch-size", "9", "--epochs", "2", "--validation", "0.2"]
    train = ["train", "rbm", *options]
    assert cli.main([*train, "--data", "kept.csv", "--out", "without"]) == 0
    assert cli.main([*train, "--data", "weighed.csv", "--weights", "times", "--out", "column"]) == 0
    assert f"examples count by times, as much as {kept.sum()} that count the same" in capsys.readouterr().out
    assert cli.main([*train, "--data", "t.csv", "--weights", "weights.txt", "--out", "file"]) == 0
    same("column", "file")
    found = [eq.load_network(name) for name in ("column", "without")]
    assert [network.layers[0].size for network in found] == [6, 6]
    # Both know only the examples that count, by other draws.
    likelihoods = [eq.log_likelihood(network, table[kept]).value for network in found]
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=0.3)
    assert eq.log_likelihood(found[0], table[~kept]).value < likelihoods[0] - 1
    assert cli.main(["evaluate", "column", "--data", "weighed.csv", "--weights", "times"]) == 0
    assert json.loads(Path("column/evaluation.json").read_text())["value"] == pytest.approx(likelihoods[0], abs=1e-5)
    capsys.readouterr()
    assert cli.main([*train, "--data", "t.csv", "--weights", "weights.txt", "--out", "column", "--resume"]) == 2
    assert "--weights: got weights.txt; allowed: times, with which" in capsys.readouterr().err
    for weights, message in {"none": "--weights: got 'none', which t.csv does not have", "bad.txt": "'much'"}.items():
        Path("bad.txt").write_text("\n".join(["much"] * 120))
        assert cli.main([*train, "--data", "t.csv", "--weights", weights, "--out", "x"]) == 2
        assert message in capsys.readouterr().err
    pd.DataFrame({"w": -np.ones(120)}).to_csv("negative.csv", index=False)
    assert cli.main([*train, "--data", "t.csv", "--weights", "negative.csv", "--out", "x"]) == 2
    assert "--weights: got -1" in capsys.readouterr().err


def test_a_classifier_learns_as_the_estimator_does():
    asked, params = {field.name: field.default for field in fields(Classifier)}, EquilibriumClassifier().get_params()
    for option, parameter in {
        "nudge": "nudge", "sweeps": "sweeps", "nudged_sweeps": "nudged_sweeps", "learning_rate": "learning_rate",
        "final_rate": "final_rate", "epochs": "max_iter", "batch_size": "batch_size",
    }.items():  # fmt: skip
        assert asked[option] == params[parameter]
    assert tuple(map(int, asked["layers"].split(","))) == params["hidden_layer_sizes"]
    assert params["gain"] == _GAIN


@pytest.mark.parametrize("training", [[0.5, 0.9, 1.0], [1.0, 1.0, 1.0]])
def test_the_curve_of_a_classifier_without_errors_ends_at_zero(training):
    parts = {"training": training, "validation": [0.5, 0.9, 0.9]}
    history = xr.Dataset({name: ("step", values) for name, values in parts.items()}, {"step": [1, 10, 100]})
    for shown in (history, history.drop_vars("validation")):
        figure = _learning(shown)
        figure.canvas.draw()
        panel = figure.axes[0]
        (_, low), (_, high) = panel.transData.transform([(1, 0), (1, 0.5)])
        assert np.isfinite([low, high]).all()
        assert low < high
        assert panel.get_ylim()[0] == 0
        np.testing.assert_allclose(panel.lines[0].get_ydata(), 1 - np.array(training))


@pytest.mark.parametrize("kind", ["rbm", "deep", "classifier"])
def test_a_rate_that_is_too_high_is_said(table, capsys, kind):
    """Either the run diverges, which is an error of use, or what it left is worse than knowing nothing, which is said."""
    more = {
        "rbm": ["--data", "t.csv", "--hidden", "4", "--learning-rate", "50"],
        "deep": ["--data", "t.csv", "--layers", "4,3", "--steps", "2", "--learning-rate", "50"],
        "classifier": ["--data", "labelled.csv", "--target", "group", "--layers", "4", "--learning-rate", "1e6"],
    }[kind]
    code = cli.main(["train", kind, *more, "--batch-size", "27", "--epochs", "10", "--out", kind, "--quiet"])
    told = capsys.readouterr()
    if kind == "rbm":  # at once, and not only at the end
        assert " where independent features have " in told.out
        assert "after epoch 1: lower --learning-rate" in told.out
    if code == 0:
        assert "WARNING: " in told.out
        assert "lower the learning rate" in told.out
    else:
        assert code == 2
        assert "learning rate" in told.err
    assert cli.main(["train", kind, *more, "--learning-rate", "-1", "--out", "x"]) == 2
    assert "--learning-rate: got -1" in capsys.readouterr().err


def test_the_machine_of_binary_synapses_is_compared_with_independent_features(table, capsys):
    """Bits that are mostly on are out of reach for weights of -1 and +1 without fields: the machine says so itself."""
    pd.DataFrame((np.random.default_rng(0).random((120, 6)) < 0.97).astype(int), columns=NAMES).to_csv(
        "on.csv", index=False
    )
    assert cli.main(["train", "synapses", "--data", "on.csv", "--hidden", "2", "--epochs", "5", "--out", "run"]) == 0
    assert "WARNING: worse than independent neurons" in capsys.readouterr().out
