"""The command that says whether a machine's chains have equilibrated."""

import json

import numpy as np
import pytest

import equilibria as eq
from equilibria.app.cli import main
from equilibria.files import load_dataset
from faults.disk import full


@pytest.mark.pictures
def test_a_verdict_is_printed_and_written(tmp_path, capsys):
    rows = np.random.default_rng(0).integers(0, 2, (30, 12))
    np.save(tmp_path / "rows.npy", rows)
    eq.save_network(tmp_path / "run", eq.rbm(12, 2, key=0))
    arguments = ["diagnose", str(tmp_path / "run"), "--data", str(tmp_path / "rows.npy"), "--sweeps", "600"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("mixed\n")
    told = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    assert told["mixed"]
    assert told["r_hat"] < 1.01
    assert load_dataset(tmp_path / "run" / "diagnosis.nc")["energy"].dims == ("chain", "draw")
    assert (tmp_path / "run" / "diagnosis.png").stat().st_size > 1000


def test_chains_that_stay_give_another_exit_code(tmp_path, capsys):
    stuck = eq.rbm(weights=np.full((12, 2), 3.0), visible_bias=np.full(12, -3.0), hidden_bias=np.full(2, -18.0))
    eq.save_network(tmp_path / "run", stuck)
    assert main(["diagnose", str(tmp_path / "run"), "--sweeps", "600"]) == 1
    told = capsys.readouterr().out
    assert told.startswith("not mixed")
    assert "Tempered(" not in told
    assert "try --tempered" in told
    with pytest.MonkeyPatch.context() as patch:
        full(patch)
        assert main(["diagnose", str(tmp_path / "run"), "--sweeps", "600"]) == 2
    assert capsys.readouterr().out.startswith("not mixed")  # what cannot be kept is still told
    assert main(["diagnose", str(tmp_path / "run"), "--sweeps", "3"]) == 2


def test_memories_start_at_their_patterns_and_tables_of_bits_are_spins(tmp_path, capsys):
    bits = np.random.default_rng(0).integers(0, 2, (3, 60))
    np.save(tmp_path / "bits.npy", bits)
    memory = str(tmp_path / "memory")
    assert main(["train", "memory", "--data", str(tmp_path / "bits.npy"), "--out", memory]) == 0
    # At a low temperature chains stay at the memory they began at; at a high one they forget it.
    for data in ([], ["--data", str(tmp_path / "bits.npy")]):
        capsys.readouterr()
        assert main(["diagnose", memory, "--sweeps", "400", "--temperature", "0.1", *data]) == 1
        assert capsys.readouterr().out.startswith("not mixed: chains")
        draws = load_dataset(tmp_path / "memory" / "diagnosis.nc")
        at_data = draws["magnetisation"].values[draws.start.values == "data"]
        # States of spins: their mean is one of the patterns', here and there a neuron flipped.
        means = (2 * bits - 1).mean(1)
        assert np.abs(at_data[:, 0, None] - means).min(1).max() < 0.15
    assert main(["diagnose", memory, "--sweeps", "2000", "--temperature", "5", *data]) == 0
    assert json.loads((tmp_path / "memory" / "diagnosis.json").read_text())["temperature"] == 5


KINDS = {
    "deep": ["deep", "--data", "bits.npy", "--layers", "3,2"],
    "sequences": ["rbm", "--data", "t.fasta", "--alphabet", "dna", "--hidden", "2"],
    "synapses": ["synapses", "--data", "bits.npy", "--hidden", "2"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_draws_is_diagnosed_and_goes_on(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("bits.npy", rng.integers(0, 2, (40, 12)))
    lines = ["".join(row) for row in rng.choice(list("-ACGT"), (40, 4))]
    (tmp_path / "t.fasta").write_text("".join(f">s{number}\n{line}\n" for number, line in enumerate(lines)))
    data = KINDS[kind][2]
    train = ["train", *KINDS[kind], "--out", "run", "--batch-size", "20", "--quiet"]
    assert main([*train, "--epochs", "1"]) == 0
    capsys.readouterr()
    assert main(["diagnose", "run", "--data", data]) == 0  # of noise nothing was learned that could keep chains apart
    assert capsys.readouterr().out.startswith("mixed\n")
    assert json.loads((tmp_path / "run" / "diagnosis.json").read_text())["mixed"]
    draws = load_dataset(tmp_path / "run" / "diagnosis.nc")
    assert dict(draws.sizes) == {"chain": 100, "draw": 500}
    seen = draws["magnetisation"].values
    wanted = {"deep": 0.5, "sequences": 0.2, "synapses": 0.0}[kind]  # of bits, of one of five letters, of spins
    assert abs(seen.mean() - wanted) < 0.1
    assert main([*train, "--epochs", "2", "--resume"]) == 0
    assert not (tmp_path / "run" / "diagnosis.json").exists()  # of the machine as it was, and renamed so
    assert list((tmp_path / "run").glob("diagnosis.of-step-*.json"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (">s\nAZGT\n>t\nACGT\n", "got 'Z' at site 1 of sequence 's'; allowed: the letters -ACGT"),
        (">s\nACGT\n>t\nACG\n", "got 3 letters in sequence 't', 4 in sequence 's'; allowed: aligned sequences"),
        (">s\nXCGT\n>t\nXCGT\n", "got nothing known in column '1' of the examples to learn from"),
    ],
    ids=["a letter outside", "other lengths", "a site of which nothing is known"],
)
def test_sequences_that_do_not_fit_are_told_and_nothing_is_lost(text, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.fasta").write_text(">s\nACGT\n>t\nCCGT\n" * 5)
    (tmp_path / "bad.fasta").write_text(text * 5)
    options = ["--alphabet", "dna", "--hidden", "2", "--missing", "sum-out", "--quiet", "--epochs", "1"]
    train = ["train", "rbm", *options, "--out"]
    assert main([*train, "run", "--data", "t.fasta"]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for command in ([*train, "run", "--data", "bad.fasta", "--resume"], [*train, "new", "--data", "bad.fasta"]):
        assert main(command) == 2
        assert told in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert not list(tmp_path.glob("new/*"))


def test_a_classifier_is_told_whether_it_comes_to_rest(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 5)).astype(np.float32)
    np.savez(tmp_path / "t.npz", X=rows, y=(rows[:, 0] > 0).astype(int))
    run, table = str(tmp_path / "run"), ["--data", str(tmp_path / "t.npz"), "--array", "X"]
    train = ["train", "classifier", *table, "--labels", "y", "--layers", "4", "--epochs", "2", "--out", run, "--quiet"]
    assert main(train) == 0
    assert main(["diagnose", run]) == 2
    assert "--data: got None; allowed: a table for a classifier" in capsys.readouterr().err
    assert main(["diagnose", run, *table]) == 0
    assert capsys.readouterr().out.startswith("comes to rest, at the same place from every start")
    told = json.loads((tmp_path / "run" / "diagnosis.json").read_text())
    assert (told["rests"], told["resting"], told["same_place"]) == (True, 1.0, 1.0)
    # The same layers with couplings so strong that they have several states of rest, or none in these sweeps.
    network = eq.load_network(run)
    strong = eq.Network(network.layers, [coupling.scaled(30.0) for coupling in network.couplings])
    eq.save_network(tmp_path / "run" / "machine", strong)
    assert main(["diagnose", run, *table]) == 1
    assert not json.loads((tmp_path / "run" / "diagnosis.json").read_text())["rests"]
