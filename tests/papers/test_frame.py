"""Results are kept, named, and judged by computation."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import xarray as xr

import equilibria as eq
import tiny
from equilibria import __version__, files, papers
from equilibria.papers.claims import Claim, at_least, at_most, close, not_testable
from equilibria.papers.frame import reproduce
from equilibria.papers.sweep import sweep

FILES = ["claims.json", "config.json", "figure.pdf", "figure.png", "result.nc"]
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture
def runs():
    tiny.RUNS.clear()
    return tiny.RUNS


@pytest.mark.parametrize(
    ("make", "measured", "held"),
    [
        (close, 1.5, True),
        (close, 1.6, False),
        (close, 0.5, True),
        (close, 0.4, False),
        (close, NAN, False),
        (close, INFINITY, False),
        (at_least, 0.5, True),
        (at_least, 9.0, True),
        (at_least, 0.4, False),
        (at_least, NAN, False),
        (at_most, 1.5, True),
        (at_most, -9.0, True),
        (at_most, 1.6, False),
        (at_most, NAN, False),
    ],
)
def test_a_claim_holds_by_its_numbers_alone(make, measured, held):
    claim = make("says", source="p. 1", expected=1, measured=measured, tolerance=0.5)
    assert claim.held is held
    again = Claim.from_json(json.loads(json.dumps(claim.to_json(), allow_nan=False)))
    assert repr(again) == repr(claim)
    assert again.held is held


@pytest.mark.parametrize(("field", "value"), [("expected", NAN), ("tolerance", -1), ("tolerance", INFINITY)])
def test_a_claim_that_could_not_fail_or_hold_is_refused(field, value):
    numbers = {"expected": 1, "measured": 1, "tolerance": 0.1} | {field: value}
    with pytest.raises(ValueError, match=f"{field}: got"):
        close("says", source="p. 1", **numbers)


@pytest.mark.parametrize(
    ("make", "values", "every", "value", "finding"),
    [
        (at_least, [1.2, 0.4, 1.1], False, 0.9, "0.9 ± 0.44; 2 of 3 seeds"),
        (at_least, [1.2, 0.4, 1.1], True, 0.4, "0.9 ± 0.44; worst 0.4; 2 of 3 seeds"),
        (at_most, [1.2, 1.6], True, 1.6, "1.4 ± 0.28; worst 1.6; 1 of 2 seeds"),
        (close, [1.1, 0.8, 1.05], True, 0.8, "0.9833 ± 0.16; worst 0.8; 3 of 3 seeds"),
        (at_least, [[1.0, 0.2], [2.0, 1.2]], False, 1.1, "1.1 ± 0.71; 2 of 2 seeds"),
        (at_least, [[1.0, 0.2], [2.0, 1.2]], True, 0.2, "0.7 ± 0.71; worst 0.2; 1 of 2 seeds"),
    ],
)
def test_over_seeds_the_mean_is_judged_or_the_worst(make, values, every, value, finding):
    claim = make("says", source="p. 1", expected=1, measured=values, tolerance=0.5, every=every)
    assert claim.value == pytest.approx(value)
    assert claim.held is (value >= 0.5 if make is at_least else abs(value - 1) <= 0.5)
    assert claim.finding == finding
    assert Claim.from_json(claim.to_json()) == claim


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("make", [close, at_least, at_most])
def test_one_seed_that_is_no_number_fails_the_claim(make, every):
    assert not make("says", source="", expected=1, measured=[1.0, NAN], tolerance=9, every=every).held


def test_what_cannot_be_tested_is_neither_held_nor_not():
    claim = not_testable("So it is", source="p. 1", reason="no number is given", quote="it is so")
    assert (claim.verdict, claim.held, claim.finding) == ("not testable", False, "")
    assert Claim.from_json(json.loads(json.dumps(claim.to_json(), allow_nan=False))) == claim
    with pytest.raises(ValueError, match="measured: got nothing"):
        at_least("says", source="", expected=1, measured=[])


def test_claims_of_earlier_versions_can_be_read():
    old = {"says": "a", "source": "b", "relation": "at most", "expected": 1.0, "measured": "nan", "tolerance": 0.0,
           "reason": "", "held": False}  # fmt: skip
    claim = Claim.from_json(old)
    assert (claim.verdict, claim.ours, len(claim.measured)) == ("not held", False, 1)


def test_reproduce_writes_everything_with_its_provenance(tmp_path, runs):
    result = reproduce(tiny.experiment, "quick", tmp_path / "out")
    assert sorted(path.name for path in result.folder.iterdir()) == FILES
    attributes = files.load_dataset(result.folder / "result.nc").attrs
    assert json.loads(attributes["config"]) == {"points": [0.0, 0.5, 1.0], "noise": 0.01, "slope": 2.0, "seed": 3}
    assert (attributes["experiment"], attributes["seed"]) == ("tiny/line", 3)
    assert attributes["equilibria_version"] == __version__
    assert {"jax_version", "device", "created", "seconds", "fingerprint"} <= attributes.keys()
    config = json.loads((result.folder / "config.json").read_text())
    assert config["fingerprint"] == attributes["fingerprint"]
    assert (config["preset"], config["config"]["slope"]) == ("quick", 2.0)
    verdict = json.loads((result.folder / "claims.json").read_text())
    assert verdict["held"] is result.held is True
    assert [claim["verdict"] for claim in verdict["claims"]] == ["held", "held", "not testable"]
    assert verdict["tally"] == {"held": 2, "failed": 0, "untested": 1}
    assert config["differs"] == json.loads(attributes["differs"]) == ["3 points, not 20"]
    assert (result.folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (result.folder / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_a_run_that_was_stopped_goes_on_from_its_checkpoint(tmp_path):
    seen = []

    def run(config, progress, checkpoint):
        """Stops at its first call, after it has left a mark."""
        seen.append(sorted(path.name for path in checkpoint.glob("*")))
        if not seen[-1]:
            checkpoint.mkdir(parents=True)
            (checkpoint / "mark").touch()
            raise KeyboardInterrupt
        return tiny.run(config, progress)

    stopping = replace(tiny.experiment, run=run)
    with pytest.raises(KeyboardInterrupt):
        reproduce(stopping, "quick", tmp_path)
    result = reproduce(stopping, "quick", tmp_path)
    assert seen == [[], ["mark"]]
    assert sorted(path.name for path in result.folder.iterdir()) == FILES  # the checkpoint is gone
    with pytest.raises(KeyboardInterrupt):
        reproduce(stopping, "quick", tmp_path, force=True)  # from the beginning


def test_a_run_is_repeated_only_when_something_that_matters_changed(tmp_path, runs, monkeypatch):
    first = reproduce(tiny.experiment, "quick", tmp_path)
    again = reproduce(tiny.experiment, "quick", tmp_path)
    assert (first.cached, again.cached, len(runs)) == (False, True, 1)
    xr.testing.assert_identical(first.dataset, again.dataset)
    assert not reproduce(tiny.experiment, "quick", tmp_path, force=True).cached
    longer = {"quick": replace(tiny.Config(), points=(0.0, 1.0, 2.0))}
    assert not reproduce(replace(tiny.experiment, presets=longer), "quick", tmp_path).cached
    assert not reproduce(tiny.experiment, "quick", tmp_path).cached
    monkeypatch.setattr("equilibria.papers.frame.__version__", "0.0.0")  # a release is no other result
    assert reproduce(tiny.experiment, "quick", tmp_path).cached
    assert len(runs) == 4


def test_a_result_of_other_code_is_kept_and_said_to_be_stale(tmp_path, runs, monkeypatch):
    digests = iter(["a", "a", "b", "b"])
    monkeypatch.setattr("equilibria.papers.frame.code.digest", lambda id: next(digests))
    assert not reproduce(tiny.experiment, "quick", tmp_path).stale
    assert not reproduce(tiny.experiment, "quick", tmp_path).stale
    old = reproduce(tiny.experiment, "quick", tmp_path)
    assert (old.cached, old.stale) == (True, True)
    assert json.loads((tmp_path / "config.json").read_text())["code"] == "a"
    assert not reproduce(tiny.experiment, "quick", tmp_path, force=True).stale
    assert len(runs) == 2


def test_other_code_does_not_go_on_from_a_checkpoint(tmp_path, monkeypatch):
    folders = []

    def run(config, progress, checkpoint):
        folders.append(checkpoint)
        raise KeyboardInterrupt

    for digest in "aab":
        monkeypatch.setattr("equilibria.papers.frame.code.digest", lambda id, digest=digest: digest)
        with pytest.raises(KeyboardInterrupt):
            reproduce(replace(tiny.experiment, run=run), "quick", tmp_path)
    assert folders[0] == folders[1] != folders[2]


def test_the_result_of_another_figure_is_replaced_only_by_force(tmp_path, runs):
    reproduce(tiny.experiment, "paper", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        ValueError, match=r"out: got .*, which holds the paper result of tiny/line; allowed: another folder"
    ):
        reproduce(tiny.experiment, "quick", tmp_path)
    with pytest.raises(ValueError, match="which holds the paper result of tiny/line"):
        reproduce(tiny.wrong, "quick", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(runs) == 1
    assert reproduce(tiny.experiment, "quick", tmp_path, force=True).dataset.sizes["x"] == 3


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_files_of_someone_else_are_never_replaced(tmp_path, runs, name, force):
    (tmp_path / name).write_text('{"mine": true}')
    with pytest.raises(ValueError, match=f"whose {name} `reproduce` did not write; allowed: another folder"):
        reproduce(tiny.experiment, "quick", tmp_path, force=force)
    assert (tmp_path / name).read_text() == '{"mine": true}'
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not runs


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_one_did_not_make_is_never_removed(tmp_path, runs, force):
    """A trained machine in `checkpoint`, and `reproduce --out .` beside it."""
    eq.save_network(tmp_path / "checkpoint", eq.rbm(3, 2, key=0))
    (tmp_path / "checkpoint" / "empty").mkdir()
    reproduce(tiny.experiment, "quick", tmp_path, force=force)
    assert eq.load_network(tmp_path / "checkpoint").names == ("visible", "hidden")
    assert (tmp_path / "checkpoint" / "empty").is_dir()
    (tmp_path / "checkpoint").rename(tmp_path / "kept")
    (tmp_path / "checkpoint").mkdir()
    reproduce(tiny.experiment, "quick", tmp_path, force=True)
    assert (tmp_path / "checkpoint").is_dir()


def test_the_state_of_another_run_is_not_removed(tmp_path):
    def stop(config, progress, checkpoint):
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "mark").touch()
        raise KeyboardInterrupt

    longer = {"quick": replace(tiny.Config(), points=(0.0, 1.0, 2.0))}
    with pytest.raises(KeyboardInterrupt):
        reproduce(replace(tiny.experiment, presets=longer, run=stop), "quick", tmp_path)
    (state,) = tmp_path.iterdir()
    reproduce(tiny.experiment, "quick", tmp_path)
    assert (state / "mark").exists()
    reproduce(replace(tiny.experiment, presets=longer), "quick", tmp_path)
    assert not state.exists()  # its own run is over


def test_a_link_to_a_folder_is_taken_away_but_not_the_folder(tmp_path):
    def stop(config, progress, checkpoint):
        assert not checkpoint.exists()
        checkpoint.mkdir(parents=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(replace(tiny.experiment, run=stop), "quick", tmp_path / "out")
    (state,) = (tmp_path / "out").iterdir()
    state.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "mark").touch()
    state.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(KeyboardInterrupt):
        reproduce(replace(tiny.experiment, run=stop), "quick", tmp_path / "out", force=True)
    assert (tmp_path / "elsewhere" / "mark").exists()


def test_a_folder_that_cannot_be_written_is_found_before_the_run(tmp_path, runs):
    (tmp_path / "file").touch()
    with pytest.raises(files.StorageError, match="file/out: could not be written"):
        reproduce(tiny.experiment, "quick", tmp_path / "file" / "out")
    assert not runs


@pytest.mark.parametrize("write", ["save_dataset", "write_atomic"])
def test_a_result_that_cannot_be_stored_is_still_there(tmp_path, monkeypatch, write):
    def full(path, *arguments):
        raise files.StorageError(f"{path}: could not be written (No space left on device). Make room.")

    def run(config, progress, checkpoint):
        checkpoint.mkdir(parents=True, exist_ok=True)
        return tiny.run(config, progress)

    with monkeypatch.context() as patched:
        patched.setattr(files, write, full)
        with pytest.warns(UserWarning, match="No space left on device.*The result is shown, but not kept"):
            result = reproduce(replace(tiny.experiment, run=run), "quick", tmp_path)
    assert (result.stored, result.held, len(result.claims)) == (False, True, 3)
    assert len(list(tmp_path.glob("checkpoint-*"))) == (
        write == "save_dataset"
    )  # to go on from, while there is no result
    again = reproduce(replace(tiny.experiment, run=run), "quick", tmp_path)
    assert (again.stored, again.cached) == (True, write == "write_atomic")
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


def test_claims_that_fail_do_not_lose_the_result(tmp_path, runs):
    def wrong(dataset):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reproduce(replace(tiny.experiment, claims=wrong), "quick", tmp_path)
    assert reproduce(tiny.experiment, "quick", tmp_path).cached
    assert len(runs) == 1


@pytest.mark.parametrize("damage", ["half", "bit", "empty"])
def test_a_damaged_result_is_said_and_made_again(tmp_path, runs, damage):
    first = reproduce(tiny.experiment, "quick", tmp_path)
    content = bytearray((tmp_path / "result.nc").read_bytes())
    at = content.index(first.dataset["y"].values.tobytes())
    content[at] ^= 1  # the last digit of a number
    broken = {"half": content[: len(content) // 2], "bit": content, "empty": b""}[damage]
    (tmp_path / "result.nc").write_bytes(broken)
    with pytest.warns(UserWarning, match=r"result\.nc: (damaged|cut short).*; it is made again"):
        again = reproduce(tiny.experiment, "quick", tmp_path)
    assert not again.cached
    xr.testing.assert_equal(again.dataset, first.dataset)
    assert reproduce(tiny.experiment, "quick", tmp_path).cached


def test_a_wrong_result_is_written_and_does_not_hold(tmp_path):
    result = reproduce(tiny.wrong, "quick", tmp_path)
    assert result.tally == (1, 1, 1)
    assert not result.held
    assert json.loads((tmp_path / "claims.json").read_text())["held"] is False


def test_an_error_in_the_run_leaves_the_old_result(tmp_path, runs):
    def fail(config, progress):
        raise ValueError("diverged")

    reproduce(tiny.experiment, "quick", tmp_path)
    with pytest.raises(ValueError, match="diverged"):
        reproduce(replace(tiny.experiment, run=fail), "quick", tmp_path, force=True)
    assert reproduce(tiny.experiment, "quick", tmp_path).cached


def test_unknown_presets_and_configurations_are_refused(tmp_path):
    @dataclass(frozen=True)
    class Opaque:
        value: object

    with pytest.raises(ValueError, match="preset: got 'huge'; allowed: 'quick', 'paper'"):
        reproduce(tiny.experiment, "huge", tmp_path)
    for value in (object(), NAN):
        with pytest.raises(ValueError, match=re.escape("config: got")):
            reproduce(replace(tiny.experiment, presets={"quick": Opaque(value)}), "quick", tmp_path)


@pytest.mark.parametrize("id", papers.INDEX)
def test_every_figure_of_the_index_is_there(id):
    experiment = papers.find(id)
    assert (experiment.id, experiment.title) == (id, papers.INDEX[id])
    assert set(experiment.presets) == {"quick", "paper"}
    assert experiment.presets["quick"] != experiment.presets["paper"]


def test_every_figure_is_in_the_index():
    root = Path(papers.__file__).parent
    figures = {path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*.py")}
    assert {id for id in figures if "PRESETS = " in (root / f"{id}.py").read_text()} == set(papers.INDEX)


def test_a_run_gets_what_it_asks_for(tmp_path):
    def run(config, checkpoint):
        return xr.Dataset({"known": checkpoint == tmp_path})

    assert replace(tiny.experiment, run=run).computed(tiny.Config(), checkpoint=tmp_path)["known"]


def test_a_sweep_with_a_failed_cell_is_an_error_and_the_cell_is_tried_again(tmp_path):
    mended = tmp_path / "mended"

    def cell(x, config):
        if x == 2 and not mended.exists():
            raise ValueError(f"no {x}")
        return config * x

    with (
        pytest.warns(UserWarning, match="1 of 3 cells failed, the first at x=2"),
        pytest.raises(RuntimeError, match="1 of 3 cells failed, the first with ValueError: no 2"),
    ):
        sweep(cell, 10, tmp_path, x=[1, 2, 3])
    mended.touch()
    assert sweep(cell, 10, tmp_path, x=[1, 2, 3])["value"].values.tolist() == [10, 20, 30]


def test_the_command_line_prints_what_it_cannot_keep_and_says_so(tmp_path, monkeypatch, capsys):
    from equilibria.app import figures

    def full(path, *arguments):
        raise files.StorageError(f"{path}: could not be written (No space left on device). Make room.")

    monkeypatch.setattr(files, "save_dataset", full)
    monkeypatch.setattr("equilibria.papers.frame.find", lambda id: tiny.experiment)
    with pytest.warns(UserWarning, match="The result is shown, but not kept"):
        assert figures.reproduce("tiny/line", "quick", tmp_path, force=False, cluster=None) == 2
    assert "held      The slope is <2>" in capsys.readouterr().out
