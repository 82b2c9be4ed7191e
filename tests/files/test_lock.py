"""One run in a folder at a time; a lock does not outlive who took it."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import equilibria as eq
from equilibria.files import StorageError, lock, locked

HOLD = """
import sys, time
from equilibria.files import locked
with locked(sys.argv[1]):
    print("in", flush=True)
    time.sleep(600)
"""


def holder(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "in\n"
    return process


def test_another_process_is_named_and_a_killed_one_leaves_no_lock(tmp_path):
    process = holder(tmp_path)
    try:
        refused = (
            rf"checkpoint: got .*, where process {process.pid} of this machine is at work; allowed: another folder"
        )
        with pytest.raises(ValueError, match=refused), locked(tmp_path):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / lock.NAME).exists()  # the file is there, but nobody holds it
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_two_runs_of_one_process_are_told_apart(tmp_path):
    with locked(tmp_path / "run"):
        with (
            pytest.raises(ValueError, match=f"where process {os.getpid()} of this machine is at work"),
            locked(tmp_path / "run"),
        ):
            pass
        with locked(tmp_path / "other"):
            pass
    with locked(tmp_path / "run"):
        pass


def test_no_two_are_ever_in_at_once(tmp_path):
    """The file is removed on leaving: who opened it just before must not take a lock on what is gone."""
    inside, most = [0], [0]

    def go():
        entered = 0
        while entered < 50:  # however the others are scheduled: who is refused tries again
            with contextlib.suppress(ValueError), locked(tmp_path):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                entered += 1
                inside[0] -= 1

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_file_system_without_locks_is_warned_of(tmp_path, monkeypatch):
    def none(descriptor):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "_lock", none)
    with pytest.warns(UserWarning, match=r"has no locks \(No locks available\); see to it"), locked(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": 1}'])
def test_a_lock_file_that_says_nothing_is_still_a_lock(tmp_path, content):
    with locked(tmp_path):
        (tmp_path / lock.NAME).write_text(content)
        with pytest.raises(ValueError, match="where another process is at work"), locked(tmp_path):
            pass


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(StorageError, match=r"file/run: could not be written .*is not a folder"),
        locked(tmp_path / "file" / "run"),
    ):
        pass


TRAIN = """
import sys, numpy as np
import equilibria as eq
data = np.random.default_rng(0).integers(0, 2, size=(40, 6))
def say(step, network, row):
    print(step, flush=True)
eq.train(eq.rbm(6, 4, key=0), data, eq.cd(1), epochs=100_000, batch_size=10, checkpoint=sys.argv[1], callbacks=[say],
         record=range(1, 100_000), key=1)
"""


def test_two_runs_in_one_folder(tmp_path):
    """The second is told who is there, and touches nothing; after a kill the folder is free, and the run goes on."""
    data = np.random.default_rng(0).integers(0, 2, size=(40, 6))
    options = {"batch_size": 10, "checkpoint": tmp_path, "key": 1}
    first = subprocess.Popen([sys.executable, "-c", TRAIN, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        for line in first.stdout:
            if int(line) >= 8:
                break
        for resume in (False, True):
            with pytest.raises(ValueError, match=f"where process {first.pid} of this machine is at work"):
                eq.train(eq.rbm(6, 4, key=0), data, eq.cd(1), epochs=10, resume=resume, **options)
    finally:
        first.kill()
        first.wait()
    run = eq.train(eq.rbm(6, 4, key=0), data, eq.cd(1), epochs=200_000, steps=None, resume=True,
                   callbacks=[eq.TimeLimit(1e-3)], **options)  # fmt: skip
    assert run.stopped is not None
    assert not [path.name for path in tmp_path.iterdir() if not path.name.startswith("checkpoint-")]
