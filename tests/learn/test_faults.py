"""What training says when it fails: where the last good state is, if there is one, and what to do about a full disk."""

import errno
import os
import time

import numpy as np
import optax
import pytest

import equilibria as eq
from equilibria import files

LARGE = np.full((6, 1), 9.0)
MACHINE = eq.rbm(visible=eq.Gaussian(), hidden=eq.Gaussian(), weights=[[0.5]])


def trained(steps, good=10**6, **options):
    """At a rate that is small for `good` steps, and then so large that the machine has no law."""
    optimiser = optax.sgd(optax.piecewise_constant_schedule(1e-4, {good: 1e5}))
    return eq.train(MACHINE, LARGE, eq.cd(1), steps=steps, optimiser=optimiser, key=1, show_progress=False, **options)


def test_a_last_good_state_is_named_only_where_there_is_one(tmp_path):
    for folder in (None, tmp_path / "empty"):
        with pytest.raises(eq.Diverged) as told:
            trained(4, good=0, checkpoint=folder, checkpoint_every=4)
        assert "last good state" not in str(told.value)
        assert folder is None or files.latest(folder) is None


def test_the_last_good_state_is_named_and_can_be_loaded(tmp_path):
    """Also by a run that goes on and diverges before it has written anything itself."""
    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(eq.Diverged, match=f"smaller learning rate. The last good state is in {first}"):
        trained(20, good=6, checkpoint=first, checkpoint_every=1)
    reached = files.load(first).step
    assert 6 <= reached < 20
    trained(reached, good=6, checkpoint=second)
    with pytest.raises(eq.Diverged, match=f"The last good state is in {second}"):
        trained(20, good=6, checkpoint=second, checkpoint_every=20, resume=True)
    for folder in (first, second):
        assert np.isfinite(np.asarray(eq.load_network(folder).couplings[0].weights)).all()


def test_a_full_disk_names_the_file_and_what_to_do_and_the_run_goes_on(tmp_path, monkeypatch):
    options = {"steps": 8, "batch_size": 10, "checkpoint_every": 2, "checkpoint": tmp_path, "key": 1, "resume": True}
    machine, data = eq.rbm(5, 3, key=0), np.random.default_rng(0).choice([0.0, 1.0], (40, 5))
    whole = eq.train(machine, data, eq.pcd(1), **{**options, "checkpoint": None, "resume": False})
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        files.StorageError, match=rf"^{tmp_path}/checkpoint-\d+.safetensors: .*No space left.*make room"
    ):
        eq.train(machine, data, eq.pcd(1), **options)
    monkeypatch.setattr(os, "fsync", real)
    assert files.latest(tmp_path) is not None
    again = eq.train(machine, data, eq.pcd(1), **options)
    np.testing.assert_array_equal(again.network.couplings[0].weights, whole.network.couplings[0].weights)


@pytest.mark.parametrize("every", [-1, 0, 1.5])
def test_checkpoints_are_a_whole_number_of_steps_apart(tmp_path, every):
    with pytest.raises(ValueError, match=f"^checkpoint_every: got {every}; allowed: a whole number >= 1"):
        trained(4, checkpoint=tmp_path, checkpoint_every=every)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_only_a_network_is_no_run(tmp_path):
    eq.save_network(tmp_path, MACHINE)
    with pytest.raises(ValueError, match="which holds a network and no run; allowed: a folder that a run has written"):
        trained(4, checkpoint=tmp_path, resume=True)


def test_a_time_limit_by_a_clock_that_ticks_slowly(monkeypatch):
    """15.6 ms at a time, as Windows has them: the run ends at the first chunk after the limit."""
    now = [100.0]

    def clock():
        now[0] += 0.004
        return now[0] // (1 / 64) / 64

    monkeypatch.setattr(time, "perf_counter", clock)
    run = trained(10**4, callbacks=[eq.TimeLimit(0.05)], record=[1])
    assert run.stopped == "the time limit of 0.05 s is reached"


def test_a_history_may_gain_and_lose_columns_at_every_resumption(tmp_path):
    columns = [{"a": 1.0}, {}, {"b": [1.0, 2.0]}, {"a": 2.0, "b": [3.0, 4.0]}]
    for place, values in enumerate(columns):
        steps = 2 * (place + 1)
        run = trained(steps, metrics=lambda _, v=values: v, record=range(2, 9, 2), checkpoint=tmp_path, resume=True)
        assert run.history["step"].values.tolist() == list(range(2, steps + 1, 2))
    np.testing.assert_array_equal(run.history["a"], [1.0, np.nan, np.nan, 2.0])
    np.testing.assert_array_equal(run.history["b"][:, 0], [np.nan, np.nan, 1.0, 3.0])
