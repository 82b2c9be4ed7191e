"""`train`, `sample`, `evaluate` and `export` on tables with names: the columns keep them to the end."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import equilibria as eq
from equilibria import files
from equilibria.app import cli, tables
from equilibria.app.wording import in_options

SMALL = ["--hidden", "4", "--batch-size", "20", "--epochs", "2", "--learning-rate", "0.2"]
NAMES = ["age", "dose", "marker", "status", "x", "y"]


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    monkeypatch.setattr("equilibria.compiled.cache", lambda: None)
    monkeypatch.chdir(tmp_path)


def bits(rows=120):
    draws = np.random.default_rng(1)
    group = draws.integers(0, 2, (rows, 1))
    return (draws.random((rows, 6)) < np.where(group, 0.8, 0.2)).astype(int)


def write(path, values, extra=None):
    frame = pd.DataFrame(values, columns=NAMES)
    for place, (name, cells) in enumerate((extra or {}).items()):
        frame.insert(place, name, cells)
    frame.to_csv(path, index=False)


def test_a_table_with_an_id_and_labels_from_one_end_to_the_other(tmp_path, capsys):
    write("t.csv", bits(), {"patient": [f"p{row}" for row in range(120)], "group": ["a", "b"] * 60})
    train = ["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]
    assert cli.main(train) == 2
    assert "'a' in line 2, column 'group' of t.csv; allowed: numbers" in (told := capsys.readouterr().err)
    assert "with --drop group" in told
    assert cli.main([*train, "--drop", "group"]) == 0
    told = capsys.readouterr().out
    assert "t.csv: 120 examples of 6 features" in told
    assert "column 'patient' is left out: an ID" in told
    assert "12 examples, drawn at random, are held out" in told
    assert "epoch 2 of 2  log-likelihood" in told
    history = files.load_dataset(tmp_path / "run/history.nc")
    assert {"training", "validation"} <= set(history)
    assert history.attrs["measure"] == "log-likelihood"
    weights = pd.read_csv("run/filters.csv", index_col=0)
    assert weights.index.tolist() == NAMES
    network = eq.load_network("run")
    np.testing.assert_allclose(weights.to_numpy(), network.couplings[0].matrix(), rtol=1e-6)
    assert cli.main(["sample", "run", "--count", "7", "--sweeps", "5"]) == 0
    draws = pd.read_csv("run/samples.csv")
    assert draws.columns.tolist() == NAMES
    np.testing.assert_array_equal(draws.to_numpy(), np.load("run/samples.npy"))
    # Other columns and another order do no harm: features are found by their names.
    shuffled = pd.read_csv("t.csv")[["y", "group", "x", "status", "marker", "dose", "age"]]
    shuffled.to_csv("other.tsv", sep="\t", index=False)
    assert cli.main(["evaluate", "run", "--data", "other.tsv"]) == 0
    expected = eq.log_likelihood(network, bits()).value
    assert json.loads((tmp_path / "run/evaluation.json").read_text())["value"] == pytest.approx(expected, abs=1e-5)
    shuffled.drop(columns="dose").to_csv("lacking.csv", index=False)
    assert cli.main(["evaluate", "run", "--data", "lacking.csv"]) == 2
    assert (
        "--data: got lacking.csv without the column 'dose'; allowed: the features of training"
        in capsys.readouterr().err
    )


def test_evaluate_takes_grey_data_as_train_does(capsys):
    grey = np.clip(bits() + np.random.default_rng(2).normal(0, 0.2, (120, 6)), 0, 1)
    write("t.csv", grey)
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]) == 0
    assert cli.main(["evaluate", "run", "--data", "t.csv"]) == 0
    assert "Values between 0 and 1 are taken as means." in capsys.readouterr().out
    found = json.loads(Path("run/evaluation.json").read_text())["value"]
    network = eq.load_network("run")
    free = -np.asarray(network.free_energy({"visible": grey.astype(np.float32)}, ["hidden"]))
    assert found == pytest.approx(free.mean() - eq.log_partition(network).value, abs=1e-4)
    with pytest.raises(ValueError, match=r"or with probabilities=True any mean between"):
        eq.log_likelihood(network, grey)


def test_real_numbers_are_standardised_and_come_back(capsys):
    draws = np.random.default_rng(3)
    values = 50 + 10 * draws.normal(size=(200, 1)) + draws.normal(size=(200, 6))
    write("t.csv", values)
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]) == 0
    assert "features are brought to mean 0 and variance 1" in capsys.readouterr().out
    assert cli.main(["sample", "run", "--count", "200", "--sweeps", "20"]) == 0
    assert np.load("run/samples.npy").mean(0) == pytest.approx(50, abs=5)
    assert cli.main(["evaluate", "run", "--data", "t.csv"]) == 0
    # A density of the numbers in the file: independent normal laws of their variances have about this.
    found = json.loads(Path("run/evaluation.json").read_text())["value"]
    assert -6 * (np.log(10) + 1.42) - 5 < found < -6 * (np.log(10) + 1.42) + 15


def test_counts_are_not_taken_for_something_else(capsys):
    write("t.csv", 3 * bits())
    train = ["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]
    assert cli.main(train) == 2
    error = capsys.readouterr().err
    assert "with whole numbers from 0 to 3: counts, classes or an ID" in error
    assert "--binarise 0 for present or absent, --visible-units gaussian" in error
    assert cli.main([*train, "--binarise", "0"]) == 0
    assert cli.main(["evaluate", "run", "--data", "t.csv"]) == 0
    network = eq.load_network("run")
    found = json.loads(Path("run/evaluation.json").read_text())["value"]
    assert found == pytest.approx(eq.log_likelihood(network, bits()).value, abs=1e-5)


def test_missing_cells_are_refused_with_their_place(capsys):
    values = bits().astype(object)
    values[3, 2] = ""
    write("t.csv", values)
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]) == 2
    error = capsys.readouterr().err
    assert "--data: got a missing cell in line 5, column 'marker' of t.csv" in error
    assert "--missing sum-out" in error


def test_missing_cells_are_summed_out_where_that_is_asked(capsys):
    values = bits().astype(object)
    values[np.random.default_rng(3).random(values.shape) < 0.03] = ""
    write("t.csv", values)
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL, "--missing", "sum-out"]) == 0
    assert cli.main(["evaluate", "run", "--data", "t.csv"]) == 0
    network, rows = eq.load_network("run"), pd.read_csv("t.csv").to_numpy(float)
    assert np.isnan(rows).any()
    found = json.loads(Path("run/evaluation.json").read_text())["value"]
    # The same by hand: every way to fill a row's gaps, summed.
    logs = []
    for row in rows:
        gaps = np.flatnonzero(np.isnan(row))
        filled = np.repeat(row[None], 2 ** len(gaps), 0).astype(np.float32)
        filled[:, gaps] = (np.arange(2 ** len(gaps))[:, None] >> np.arange(len(gaps))) & 1
        logs.append(np.logaddexp.reduce(-np.asarray(network.free_energy({"visible": filled}, ["hidden"]), float)))
    assert found == pytest.approx(np.mean(logs) - eq.log_partition(network).value, abs=1e-4)


@pytest.mark.pictures
def test_pictures_of_images_and_of_tables():
    digits = (eq.data.digits().train_images[:200] > 127).astype(np.uint8)
    np.save("t.npy", digits)
    small = ["--hidden", "4", "--batch-size", "90", "--epochs", "1", "--learning-rate", "0.1"]
    assert cli.main(["train", "rbm", "--data", "t.npy", "--out", "run", *small]) == 0
    assert cli.main(["sample", "run", "--count", "3", "--sweeps", "2"]) == 0
    made = {path.name for path in Path("run").iterdir()}
    assert {"samples.png", "filters.png", "correlations.png", "samples.npy"} <= made
    assert not {"features.png", "filters.csv", "samples.csv"} & made


def test_sizes_are_compared_on_what_none_has_seen(tmp_path, capsys):
    write("t.csv", bits(300))
    train = ["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL]
    assert cli.main([*train, "--hidden", "2,4", "--quiet"]) == 0
    told = capsys.readouterr().out
    report = json.loads((tmp_path / "run/comparison.json").read_text())
    assert [row["hidden"] for row in report["sizes"]] == [2, 4]
    assert f"hidden-{report['best']} holds the best" in told
    learned, held = tables.held_out(300, 0.1, 0)
    for row in report["sizes"]:
        network = eq.load_network(tmp_path / f"run/hidden-{row['hidden']}")
        assert row["value"] == pytest.approx(eq.log_likelihood(network, bits(300)[held]).value, abs=1e-5)
        assert 0 < row["error"] < 1
    assert not set(learned) & set(held)
    assert len({*learned, *held}) == 300
    assert cli.main([*train[:-8], "--hidden", "2,4", "--validation", "0", "--out", "other"]) == 2
    assert "--validation: got 0.0; allowed: a share of at least ten examples" in capsys.readouterr().err


def test_patience_keeps_the_best_machine(tmp_path, capsys):
    write("t.csv", bits(300))
    options = ["--hidden", "12", "--batch-size", "20", "--epochs", "60", "--learning-rate", "1.0", "--patience", "3"]
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *options, "--quiet"]) == 0
    history = files.load_dataset(tmp_path / "run/history.nc")
    assert history.sizes["step"] < 60
    best = int(history.step[int(history["validation"].values.argmax())])
    assert f"the best machine, of step {best}, is kept" in capsys.readouterr().out
    assert cli.main(["evaluate", "run", "--data", "t.csv"]) == 0
    found = json.loads((tmp_path / "run/evaluation.json").read_text())["value"]
    assert found == pytest.approx(eq.log_likelihood(eq.load_network("run/machine"), bits(300)).value, abs=1e-5)


def test_the_best_machine_is_that_of_all_parts_of_a_run(tmp_path, capsys):
    write("t.csv", bits(300))
    options = ["--hidden", "12", "--batch-size", "20", "--learning-rate", "1.0", "--patience", "50", "--quiet"]
    for epochs in ("4", "8", "8"):  # the third time there is nothing left to do
        train = ["train", "rbm", "--data", "t.csv", "--out", "run", *options, "--epochs", epochs, "--resume"]
        assert cli.main(train) == 0
    history = files.load_dataset(tmp_path / "run/history.nc")
    held = bits(300)[tables.held_out(300, 0.1, 0)[1]]
    best = eq.log_likelihood(eq.load_network("run/machine"), held).value
    assert best == pytest.approx(float(history["validation"].max()), abs=1e-4)


def test_export(tmp_path, capsys):
    write("t.csv", bits())
    assert cli.main(["train", "rbm", "--data", "t.csv", "--out", "run", *SMALL, "--quiet"]) == 0
    network = eq.load_network("run")
    assert cli.main(["export", "run"]) == 0
    with np.load("run/machine.npz") as machine:
        np.testing.assert_array_equal(machine["visible-hidden.weight"], network.couplings[0].matrix())
        assert machine["names"].tolist() == NAMES
    assert cli.main(["export", "run", "--to", "csv", "--out", "w.csv"]) == 0
    weights = pd.read_csv("w.csv", index_col=0)
    np.testing.assert_allclose(weights.loc[NAMES, "bias"], network.layers[0].bias, rtol=1e-6)
    np.testing.assert_allclose(weights.iloc[-1, 1:].astype(float), network.layers[1].bias, rtol=1e-6)


def test_export_to_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: what it would read cannot be looked at")
    eq.save_network("net", eq.rbm(4, 2, key=0))
    assert cli.main(["export", "net", "--to", "torch"]) == 0
    state = torch.load("net/machine.pt", weights_only=True)
    assert sorted(state) == ["hidden.bias", "visible-hidden.weight", "visible.bias"]
    np.testing.assert_array_equal(state["visible-hidden.weight"].numpy(), eq.load_network("net").couplings[0].matrix())


def test_export_to_torch_is_refused_where_it_is_missing(capsys, monkeypatch):
    eq.save_network("net", eq.rbm(4, 2, key=0))
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    assert cli.main(["export", "net", "--to", "torch"]) == 2
    told = capsys.readouterr().err
    assert "--to: got 'torch', which is not installed here; allowed: npz or csv; or pip install torch first" in told
    assert not Path("net/machine.pt").exists()


def test_errors_speak_of_options():
    assert in_options("batch_size: got 0; allowed: >= 1") == "--batch-size: got 0; allowed: >= 1"
    assert in_options("x=1 and weird_name: got 3") == "x=1 and weird_name: got 3"
