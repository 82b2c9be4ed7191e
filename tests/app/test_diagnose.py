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
    assert capsys.readouterr().out.startswith("not mixed")
    with pytest.MonkeyPatch.context() as patch:
        full(patch)
        assert main(["diagnose", str(tmp_path / "run"), "--sweeps", "600"]) == 2
    assert capsys.readouterr().out.startswith("not mixed")  # what cannot be kept is still told
    assert main(["diagnose", str(tmp_path / "run"), "--sweeps", "3"]) == 2
