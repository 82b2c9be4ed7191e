"""The command line of restricted Boltzmann machines, on files of every kind."""

import json
import os
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import numpy as np
import pytest

import equilibria as eq
from equilibria import files, load_network
from equilibria.app import cli, using, watch

ROWS = np.repeat(np.eye(9), 6, axis=0)
SMALL = ["--hidden", "4", "--batch-size", "18", "--learning-rate", "0.2"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS.astype(np.uint8))
    return str(path)


@pytest.mark.pictures
def test_train_resume_sample_evaluate(tmp_path, table, capsys):
    out = tmp_path / "run"
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL]
    assert cli.main([*train, "--epochs", "2", "--final-rate", "1"]) == 0
    assert cli.main([*train, "--epochs", "4", "--final-rate", "1"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert cli.main([*train, "--epochs", "4", "--final-rate", "1", "--resume"]) == 0
    assert json.loads((out / "run.json").read_text())["epochs"] == 4
    assert load_network(out).layers[1].size == 4
    for picture in ("samples.png", "filters.png", "features.png", "correlations.png", "learning.png"):
        assert (out / picture).stat().st_size > 1000
    assert cli.main(["sample", str(out), "--count", "5", "--sweeps", "20"]) == 0
    draws = np.load(out / "samples.npy")
    assert draws.shape == (5, 9)
    assert np.isin(draws, (0, 1)).all()
    assert cli.main(["evaluate", str(out), "--data", table]) == 0
    assert "nats per example (exact)" in capsys.readouterr().out
    assert json.loads((out / "evaluation.json").read_text())["value"] < -1


def clusters(path, gaps=0.0):
    """Rows near one of two opposite patterns, the second three times in ten."""
    rng = np.random.default_rng(0)
    centres = np.stack([np.arange(30) % 2, 1 - np.arange(30) % 2])
    rows = np.abs(centres[(rng.random(600) < 0.3).astype(int)] - (rng.random((600, 30)) < 0.05))
    np.save(path, np.where(rng.random(rows.shape) < gaps, np.nan, rows))
    return centres


def test_a_start_of_low_rank_is_a_root_that_later_commands_draw(tmp_path, capsys):
    centres = clusters(tmp_path / "clusters.npy", gaps=0.02)
    table = ["--data", str(tmp_path / "clusters.npy"), "--missing", "sum-out"]
    train = ["train", "rbm", *table, "--hidden", "6", "--low-rank", "1", "--epochs", "1", "--final-rate", "0.01"]
    plain, rooted = tmp_path / "plain", tmp_path / "rooted"
    assert cli.main([*train, "--out", str(plain)]) == 0
    assert "begins with 1 principal component learned without chains" in capsys.readouterr().out
    assert not (plain / "trajectory").exists()
    train = [*train, "--recipe", "tempered", "--out", str(rooted)]
    assert cli.main(train) == 0
    first = eq.load_root(rooted / "root.safetensors").network
    assert eqx.tree_equal(first, eq.Trajectory(rooted)[0])
    how = using.walk(rooted, 200, True, 1.0)
    assert isinstance(how, eq.Rooted)
    assert not isinstance(using.walk(rooted, 200, True, 0.5), eq.Rooted)  # it is drawn at temperature 1
    assert how.how.rungs == len(eq.Trajectory(rooted)) + 1
    assert cli.main(["sample", str(rooted), "--tempered", "--count", "400", "--sweeps", "200"]) == 0
    draws = np.load(rooted / "samples.npy")
    share = float(np.mean(np.abs(draws - centres[1]).mean(1) < 0.5))
    assert (
        abs(share - 0.3) < 5 * np.sqrt(0.21 / 400) + 0.03
    )  # five sigma of the draws, and of the 540 rows learned from
    assert json.loads((rooted / "samples.json").read_text())["tempered"]
    assert cli.main(["diagnose", str(rooted), *table[:2], "--tempered", "--sweeps", "1000", "--chains", "20"]) == 0
    assert cli.main([*train[:-1], str(rooted), "--resume", "--epochs", "2"]) == 0
    assert eqx.tree_equal(eq.load_root(rooted / "root.safetensors").network, first)


def test_a_start_of_low_rank_that_ends_before_its_first_checkpoint_begins_again(tmp_path, monkeypatch):
    clusters(tmp_path / "clusters.npy")
    out = tmp_path / "run"
    train = [
        "train",
        "rbm",
        "--data",
        str(tmp_path / "clusters.npy"),
        "--hidden",
        "4",
        "--low-rank",
        "1",
        "--epochs",
        "1",
    ]
    train += ["--recipe", "tempered", "--out", str(out)]

    def interrupt(self, step):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("equilibria.learn.journey.Journey.record", interrupt)
        assert cli.main(train) == 130
    assert (out / "root.safetensors").exists()
    assert len(eq.Trajectory(out)) == 1
    rows = np.load(tmp_path / "clusters.npy")
    np.save(tmp_path / "clusters.npy", 1 - rows)
    assert cli.main(train) == 0
    # The network that the ladder begins with is that of the new run, and so is its root.
    assert eqx.tree_equal(eq.Trajectory(out)[0], eq.load_root(out / "root.safetensors").network)
    eq.save_root(out / "root.safetensors", eq.low_rank_start(rows, 4, components=1, key=3).root)
    assert cli.main(["sample", str(out), "--tempered"]) == 2  # a root of another ladder


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--low-rank", "7"], "--low-rank: got 7; allowed: from 1 to 4"),
        (["--low-rank", "0"], "--low-rank: got 0; allowed: a whole number >= 1"),
        (["--low-rank", "1", "--hidden-units", "relu"], "--hidden-units: got 'relu'; allowed: binary or spin"),
        (
            ["--low-rank", "1", "--visible-units", "gaussian"],
            "--visible-units: got Gaussian units; allowed: sites of some",
        ),
    ],
)
def test_starts_of_low_rank_that_cannot_be_are_refused(tmp_path, table, capsys, wrong, said):
    out = tmp_path / "run"
    assert cli.main(["train", "rbm", "--data", table, "--out", str(out), *SMALL, *wrong]) == 2
    assert said in capsys.readouterr().err
    assert not list(out.glob("*")) if out.exists() else True


def rates(out):
    """The learning rate that each checkpoint of a run was left with: the schedule, and how many updates were made."""
    return files.load(out).metadata["setup"]["optimiser"], files.load(out).step


def test_a_run_that_gets_more_epochs_keeps_its_rate(tmp_path, table, capsys):
    """The rate falls over the epochs the run began with, and stays where it has come to: it does not jump back up."""
    out = tmp_path / "run"
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL, "--resume"]
    assert cli.main([*train, "--epochs", "2"]) == 0
    before = rates(out)
    assert "rate 0.2, falling to 0.02" in capsys.readouterr().out
    assert cli.main([*train, "--epochs", "4"]) == 0
    assert "rate 0.02\n" in capsys.readouterr().out
    assert rates(out) == (before[0], 12)  # the same schedule, which ends at step 6
    assert json.loads((out / "run.json").read_text())["rate_epochs"] == 2


def test_another_machine_is_no_run_to_go_on_with(tmp_path, table, capsys):
    out = tmp_path / "run"
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL, "--epochs", "1"]
    assert cli.main(train) == 0
    for option, value, before in (("--hidden", "5", "4"), ("--seed", "7", "0"), ("--hidden-units", "spin", "binary")):
        assert cli.main([*train, option, value, "--resume"]) == 2
        error = capsys.readouterr().err
        assert f"{option}: got {value}; allowed: {before}, with which the run in {out} began" in error


def test_a_run_that_is_refused_is_left_as_it_was(tmp_path, table, capsys):
    """Data with other features, or other rows: what is known of the run's own, and what was made of it, stays."""
    out = tmp_path / "run"
    train = ["train", "rbm", "--out", str(out), *SMALL, "--epochs", "1"]
    assert cli.main([*train, "--data", table]) == 0
    assert cli.main(["evaluate", str(out), "--data", table]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    np.save(tmp_path / "real.npy", np.random.default_rng(0).standard_normal((54, 5)))
    np.save(tmp_path / "others.npy", 1 - ROWS)
    for other in ("real.npy", "others.npy"):
        assert cli.main([*train, "--data", str(tmp_path / other), "--resume", "--epochs", "3"]) == 2
        assert f"--out: got {out}, a run with another" in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert cli.main(["sample", str(out), "--count", "2", "--sweeps", "2"]) == 0


def test_an_interrupted_run_says_how_it_goes_on(tmp_path, table, capsys, monkeypatch):
    def interrupt(self, step, parameters, row):
        if step >= 6:
            raise KeyboardInterrupt

    train = ["train", "rbm", "--data", table, "--out", str(tmp_path / "run"), *SMALL, "--epochs", "4"]
    with monkeypatch.context() as patch:
        patch.setattr(watch.Console, "record", interrupt)
        assert cli.main(train) == 130
    told = capsys.readouterr()
    assert "interrupted; the checkpoint is of step 3, and the same command with --resume goes on" in told.out
    assert told.err.endswith("equilibria: interrupted\n")
    assert cli.main([*train, "--resume"]) == 0
    assert files.load(tmp_path / "run").step == 12


def test_a_rate_may_be_left_to_the_data_in_a_word(tmp_path, table, capsys):
    train = ["train", "rbm", "--data", table, "--hidden", "4", "--batch-size", "18", "--epochs", "1"]
    assert cli.main([*train, "--out", str(tmp_path / "a"), "--learning-rate", "auto"]) == 0
    assert "(from the data)" in capsys.readouterr().out
    assert cli.main([*train, "--out", str(tmp_path / "a"), "--resume"]) == 0  # the same as when nothing is said
    for option, given, allowed in (
        ("--learning-rate", "fast", "a number > 0, or auto"),
        ("--epochs", "ten", "a whole number >= 1"),
        ("--patience", "1.5", "a whole number >= 1"),
        ("--time-limit", "1h", "a number"),
    ):
        with pytest.raises(SystemExit):
            cli.main([*train, "--out", str(tmp_path / "b"), option, given])
        told = " ".join(capsys.readouterr().err.split())
        assert f"Error parsing {option}: got {given!r}; allowed: {allowed}" in told
        assert "NoneType" not in told


def test_what_is_no_folder_of_a_run(tmp_path, table, capsys):
    for command in ("evaluate", "sample", "diagnose", "export"):
        for run in (table, str(tmp_path / "nothing")):
            assert cli.main([command, run, *(["--data", table] if command == "evaluate" else [])]) == 2
            assert f"run: got {run}; allowed: the folder of a run" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    assert cli.main(["sample", str(tmp_path), "--out", str(tmp_path / "draws.csv")]) == 2
    assert "draws.csv; allowed: a file that ends in .npy" in capsys.readouterr().err


def test_what_was_made_of_an_earlier_machine_is_renamed(tmp_path, table, capsys):
    out = tmp_path / "run"
    train = ["train", "rbm", "--data", table, "--out", str(out), *SMALL]
    assert cli.main([*train, "--epochs", "1"]) == 0
    assert cli.main(["evaluate", str(out), "--data", table]) == 0
    assert cli.main(["sample", str(out), "--count", "5", "--sweeps", "5"]) == 0
    assert cli.main(["export", str(out)]) == 0
    assert json.loads((out / "evaluation.json").read_text())["step"] == 3
    assert cli.main([*train, "--epochs", "1", "--resume"]) == 0  # nothing to do, nothing out of date
    assert (out / "evaluation.json").exists()
    assert cli.main([*train, "--epochs", "2", "--resume"]) == 0
    left = {path.name for path in out.iterdir() if path.name.startswith(("evaluation", "samples", "machine"))}
    assert {"evaluation.of-step-3.json", "samples.of-step-3.npy", "samples.of-step-3.csv"} <= left
    assert "machine.of-an-earlier-step.npz" in left
    assert not {"evaluation.json", "samples.npy", "machine.npz"} & left


def signalled(arguments, number, out, after):
    """Start the command in a process of its own, and send it a signal when a checkpoint newer than `after` is there."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", "equilibria.app.cli", *arguments]
    process = subprocess.Popen(
        command, env=os.environ | cache, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while files.latest(out) in (None, after) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    told, error = process.communicate(timeout=120)
    return process.returncode, told, error


def test_a_run_that_is_told_to_stop_goes_on_as_if_it_had_not_been(tmp_path, table, capsys):
    """Stopped by SIGUSR1, resumed, stopped by SIGTERM, resumed, stopped by its time limit, resumed: the same bits."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"

    def train(out, *options):
        return ["train", "rbm", "--data", table, "--out", str(out), *SMALL, "--epochs", "100", "--resume", *options]

    after = None
    for number in (signal.SIGUSR1, signal.SIGTERM):
        code, told, error = signalled(train(parts), number, parts, after)
        assert (code, error) == (75, "")
        assert told.splitlines()[-1] == (
            f"{parts}: stopped, the system asked for it ({number.name}); "
            "checkpoint and history.nc are there, --resume goes on"
        )
        after = files.latest(parts)
        assert not (parts / "samples.png").exists()
    assert cli.main(train(parts, "--time-limit", "0.001")) == 75
    assert "stopped, the time limit of 0.001 s is reached" in capsys.readouterr().out
    assert files.latest(parts) not in (None, after)
    assert cli.main(train(parts)) == 0
    assert cli.main(train(whole)) == 0
    for first, second in zip(*(jax.tree.leaves(load_network(out)) for out in (whole, parts)), strict=True):
        np.testing.assert_array_equal(first, second)
    histories = [files.load_dataset(out / "history.nc") for out in (whole, parts)]
    assert histories[0].identical(histories[1])
    assert histories[0].sizes["step"] == 102  # steps 1 and 2, and the ends of 100 epochs


def test_bad_files_are_one_line(tmp_path, capsys):
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    np.save(tmp_path / "large.npy", np.full((4, 2), 7.0))
    np.savez(tmp_path / "two.npz", a=ROWS, b=ROWS)
    (tmp_path / "rows.odt").write_text("1 2")
    for name, message in {
        "none.npy": "an existing",
        "words.npy": "shape (2,)",
        "flat.npy": "a table",
        "nan.npy": "--data: got a missing cell in row 1, column '1' of",
        "large.npy": "whole numbers from 7 to 7: counts, classes or an ID; allowed: --divide-by 255",
        "two.npz": "allowed: --array NAME, one of a, b",
        "rows.odt": "'.npy'",
    }.items():
        assert cli.main(["train", "rbm", "--data", str(tmp_path / name), "--out", str(tmp_path / "x"), *SMALL]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def two_clusters(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.stack([np.r_[np.ones(20), np.zeros(20)], np.r_[np.zeros(20), np.ones(20)]])
    which = (rng.random(rows) < 0.3).astype(int)
    return np.abs(centres[which] - (rng.random((rows, 40)) < 0.03)).astype(np.uint8)


def test_chains_that_do_not_mix_are_told_without_being_asked_for(tmp_path, capsys):
    np.save(tmp_path / "clusters.npy", two_clusters())
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).integers(0, 2, (600, 40)))
    options = ["--hidden", "8", "--batch-size", "54", "--epochs", "60", "--quiet"]
    told = {}
    for name in ("clusters", "noise"):
        arguments = ["train", "rbm", "--data", str(tmp_path / f"{name}.npy"), "--out", str(tmp_path / name), *options]
        assert cli.main(arguments) == 0
        told[name] = capsys.readouterr().out
    assert "WARNING: not mixed: chains" in told["clusters"]
    assert "after 400 sweeps; draws need a ladder" in told["clusters"]
    assert "mixed" not in told["noise"]
    assert "WARNING: step" not in told["noise"]


def test_chains_that_fall_apart_are_told_while_a_run_goes_on(capsys):
    """At the step where it is seen, and with what the command line can do about it."""
    watching = watch.Mixing(np.ones((5, 12), np.uint8), 0)
    weights = np.full((12, 2), 4.0)
    stuck = eq.rbm(weights=weights, visible_bias=np.full(12, -4.0), hidden_bias=np.full(2, -32.0))
    watching.record(499, stuck, {})
    assert capsys.readouterr().out == ""
    watching.record(500, stuck, {})
    told = capsys.readouterr().out
    assert told.startswith("WARNING: step 500: energies of chains from noise and from data are")
    assert "try --recipe tempered or reweighted" in told


@pytest.mark.parametrize("units", ["relu", "double_relu"])
def test_rectified_hidden_units(tmp_path, capsys, units):
    np.save(tmp_path / "t.npy", two_clusters(100)[:, ::4])
    options = ["--hidden", "3", "--hidden-units", units, "--epochs", "3", "--batch-size", "45"]
    assert cli.main(["train", "rbm", "--data", str(tmp_path / "t.npy"), "--out", str(tmp_path / "run"), *options]) == 0
    network = eq.load_network(tmp_path / "run")
    assert type(network.layers[1].unit) is {"relu": eq.ReLU, "double_relu": eq.DoubleReLU}[units]
    assert cli.main(["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "t.npy")]) == 0


def test_a_column_of_which_nothing_is_known_is_called_by_its_name(tmp_path, capsys):
    lines = ["age,dose,marker", *["1,,0", "0,,1"] * 10]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    options = [
        "--data",
        str(tmp_path / "t.csv"),
        "--missing",
        "sum-out",
        "--hidden",
        "2",
        "--out",
        str(tmp_path / "run"),
    ]
    assert cli.main(["train", "rbm", *options]) == 2
    error = capsys.readouterr().err
    assert "--data: got nothing known in column 'dose' of the examples to learn from" in error
    assert "--drop dose leaves it out" in error
