"""Writing: whole or not at all, wherever the disk allows it, with a sentence where it does not."""

import errno
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

import equilibria as eq
from equilibria import files
from equilibria.files import atomic
from equilibria.progress import Pace

DATA = np.random.default_rng(0).integers(0, 2, size=(40, 6))


def failing(code, text, *, folders):
    """An fsync that refuses folders, or files."""
    real = os.fsync

    def fsync(descriptor):
        is_folder = os.path.isdir(f"/proc/self/fd/{descriptor}")
        if is_folder == folders:
            raise OSError(code, text)
        real(descriptor)

    return fsync


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EIO, errno.EACCES, errno.ENOTSUP])
def test_folders_that_cannot_be_flushed_are_written_to_all_the_same(tmp_path, monkeypatch, code):
    monkeypatch.setattr(os, "fsync", failing(code, "cannot", folders=True))
    files.write_atomic(tmp_path / "note.txt", b"whole")
    assert (tmp_path / "note.txt").read_bytes() == b"whole"


def test_folders_that_cannot_be_opened_are_written_to_all_the_same(tmp_path, monkeypatch):
    """As on Windows, which opens no folders, and in drop boxes, which may be written but not read."""
    real = os.open

    def opened(path, *arguments, **options):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opened)
    files.write_atomic(tmp_path / "note.txt", b"whole")
    assert (tmp_path / "note.txt").read_bytes() == b"whole"


def test_a_file_system_that_cannot_flush_at_all_is_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL, "cannot", folders=False))
    files.write_atomic(tmp_path / "note.txt", b"whole")
    assert (tmp_path / "note.txt").read_bytes() == b"whole"


def test_files_are_open_for_writing_when_they_are_flushed(tmp_path, monkeypatch):
    """Windows flushes no other ones."""
    modes = []
    real = os.fsync

    def fsync(descriptor):
        import fcntl

        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            modes.append(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    files.write_atomic(tmp_path / "note.txt", b"whole")
    assert modes == [os.O_RDWR]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "make room, or choose another folder"),
        (errno.EDQUOT, "make room, or choose another folder"),
        (errno.EIO, "look after the disk"),
        (errno.EROFS, "Choose a folder that you may write to"),
    ],
)
def test_a_disk_that_fails_is_said_with_path_and_advice(tmp_path, monkeypatch, code, advice):
    path = tmp_path / "note.txt"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing(code, os.strerror(code), folders=False))
    with pytest.raises(files.StorageError, match=rf"note\.txt: could not be written \({os.strerror(code)}\)") as caught:
        files.write_atomic(path, b"new")
    assert advice in str(caught.value)
    assert caught.value.errno == code
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["note.txt"]


def test_errors_about_other_files_pass_through(tmp_path):
    def go():
        with files.replacing(tmp_path / "note.txt"):
            (tmp_path / "other").read_bytes()

    with pytest.raises(FileNotFoundError, match="other"):
        go()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip(f"mounting a small disk is not permitted here: {mounted and mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk):
    """Checkpoints, results and training itself: the path, the reason, and what was there before is whole."""
    files.save(small_disk, 1, {"a": np.arange(3)})
    result = xr.Dataset({"a": ("x", np.arange(100_000.0))})
    for write in (
        lambda: files.save(small_disk, 2, {"a": np.zeros(100_000)}),
        lambda: files.save_dataset(small_disk / "result.nc", result),
        lambda: files.write_atomic(small_disk / "note", bytes(100_000)),
    ):
        with pytest.raises(
            files.StorageError, match=rf"{small_disk}/\S+: could not be written \(.*No space left"
        ) as told:
            write()
        assert "make room, or choose another folder" in str(told.value)
    assert files.load(small_disk).step == 1
    assert len(list(small_disk.iterdir())) == 1
    network = eq.rbm(6, 4000, key=0)
    with pytest.raises(files.StorageError, match=r"run/checkpoint-\S+: could not be written \(No space left"):
        eq.train(network, DATA, eq.cd(1), epochs=1, batch_size=10, checkpoint=small_disk / "run", key=1)
    assert not list((small_disk / "run").iterdir())


@pytest.fixture
def read_only(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    if os.geteuid():
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a folder that root may not write to cannot be made here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_folder_that_cannot_be_written_is_found_before_the_work(read_only, tmp_path):
    (tmp_path / "file").touch()
    for folder in (read_only, read_only / "new" / "run", tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(files.StorageError, match=f"{folder}: could not be written .* Choose a folder"):
            files.check_writable(folder)

        def never(*arguments):
            raise AssertionError("the work began")

        with pytest.raises(files.StorageError, match="Choose a folder that you may write to"):
            eq.train(eq.rbm(6, 4, key=0), DATA, eq.cd(1), epochs=1, metrics=never, checkpoint=folder, key=1)
    assert not (tmp_path / "file").is_dir()


def test_looking_whether_a_folder_can_be_written_leaves_nothing(tmp_path):
    files.check_writable(tmp_path)
    files.check_writable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_only_ones_own_old_leftovers_are_swept(tmp_path):
    names = {
        ".result.nc.0123abcd.part": True,  # of a writer that was killed
        ".cells-1.safetensors.89abcdef.part": True,
        ".result.nc.XYZ.part": False,  # not named as ours are
        "movie.part": False,
        ".hidden": False,
        "result.nc": False,
    }
    ages = time.time() - 2 * 3600
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (ages, ages))
    (tmp_path / ".result.nc.00000000.part").touch()  # somebody is writing this one
    assert sorted(files.sweep(tmp_path)) == sorted(name for name, goes in names.items() if goes)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {name for name, goes in names.items() if not goes} | {".result.nc.00000000.part"}
    assert files.sweep(tmp_path / "no such folder") == []


@pytest.mark.parametrize("tick", [1 / 64, 2.0])
def test_clocks_that_tick_slowly(tmp_path, monkeypatch, tick):
    """Windows' 15.6 ms and FAT's 2 s: what was written in this tick is not old, and pace is found all the same."""
    now = time.time() // tick * tick
    for number in range(4):
        path = tmp_path / f".a.{number:08d}.part"
        path.touch()
        os.utime(path, (now, now))
    monkeypatch.setattr(atomic, "_now_on_the_disk_of", lambda folder: now)
    assert files.sweep(tmp_path, seconds=tick) == []
    assert len(files.sweep(tmp_path, seconds=0.0)) == 4
    began = time.perf_counter()
    monkeypatch.setattr(time, "perf_counter", lambda: (began + counted[0]) // tick * tick)
    counted, pace, lengths = [0.0], Pace(), []
    for _ in range(12):  # a thousand steps a second
        with pace.measured(pace.length):
            counted[0] += pace.length / 1000
        lengths.append(pace.length)
    assert all(1 <= after <= 8 * before for before, after in zip([1, *lengths], lengths, strict=False))
    assert 200 <= np.median(lengths[6:]) <= 8000


def test_a_writer_that_is_killed_leaves_what_a_later_one_sweeps(tmp_path):
    script = (
        "import os, sys\nfrom equilibria import files\n"
        "with files.replacing(sys.argv[1] + '/note') as temporary:\n"
        "    temporary.write_bytes(b'half')\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert files.sweep(tmp_path) == []
    os.utime(left, (0, 0))
    assert files.sweep(tmp_path) == [left.name]
