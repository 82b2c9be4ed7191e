"""A disk that fails: every call of the system in turn, and every length at which it may be full."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import files
from equilibria.files import run as runs
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.saving import load_synapses, save_synapses
from faults import formats
from faults.tally import Tally

REASONS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES, errno.EROFS)
CALLS = ("open", "replace", "rename", "mkdir", "link", "unlink", "fsync", "scandir", "ftruncate", "write")
MOST_CALLS = 60


class _Faulty:
    """The n-th call of the system fails, and with `after` every later one too, as on a disk that stays full."""

    def __init__(self, number: int, reason: int, *, stays: bool):
        self.left, self.reason, self.stays, self.failed = number, reason, stays, False

    def fails(self) -> bool:
        """Whether this call is the one, or one after it."""
        self.left -= 1
        fails = self.left == 0 or (self.stays and self.left < 0)
        self.failed |= fails
        return fails

    def error(self, path) -> OSError:
        """As the system would raise it."""
        named = () if path is None or isinstance(path, int) else (os.fspath(path),)
        return OSError(self.reason, os.strerror(self.reason), *named)

    def call(self, real):
        """A call of the system in place of the real one."""

        def called(path, *arguments, **options):
            if self.fails():
                raise self.error(path)
            return real(path, *arguments, **options)

        return called

    def open(self, file, mode="r", *arguments, **options):
        """A file that takes half of what is written to it, or cannot be opened, if this is the call that fails."""
        if not set(mode) & set("wxa+") or not self.fails():
            return _OPEN(file, mode, *arguments, **options)
        if set(mode) & set("a+"):
            raise self.error(file)
        return _Half(_OPEN(file, mode, *arguments, **options), self.error(file))


class _Half:
    """A file on a disk that is full after half of what is written."""

    def __init__(self, file, error: OSError):
        self.file, self.error = file, error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content):
        self.file.write(content[: len(content) // 2])
        raise self.error


_OPEN = io.open


@contextlib.contextmanager
def _failing(faulty: _Faulty):
    with contextlib.ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(mock.patch.object(os, name, faulty.call(getattr(os, name))))
        stack.enter_context(mock.patch.object(io, "open", faulty.open))
        yield


def full(patch) -> None:
    """From now on the disk is full, by a `MonkeyPatch`: nothing that is written comes to it."""

    def flush(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(os, "fsync", flush)


def _checkpoint(folder, version):
    files.save(folder, version, {"a": np.full(50, version)}, {"version": version})


def _run(folder, version):
    runs.save(folder, version, {"a": np.full(50, version)}, {"loss": np.zeros(version)}, {"rule": "cd"}, {})


def _result(folder, version):
    files.save_dataset(folder / "result.nc", xr.Dataset({"value": ("x", np.full(50, version))}))


def _synapses(folder, version):
    save_synapses(folder / "machine.safetensors", Synapses(np.ones((4, 2)), bias=np.full(4, float(version))))


def _bias(machine):
    return round(float(np.asarray(machine.layers[0].bias).mean()))


def _note(folder, version):
    files.write_atomic(folder / "note", bytes([version]) * 50)


def _grid(folder, version):
    store = formats.open_store(folder / "grid")
    for number in range(version):
        store.keep(formats.CELLS[number : number + 1], formats.ROWS[number : number + 1])


def _locked(folder, version):
    with files.locked(folder):
        _note(folder, version)


WRITERS = {  # how a version is written, and which one can be read
    "checkpoint": (_checkpoint, lambda folder: files.load(folder).metadata["version"]),
    "run": (_run, lambda folder: len(files.load(folder).arrays["history.loss"])),
    "result": (_result, lambda folder: int(files.load_dataset(folder / "result.nc")["value"].values.mean())),
    "synapses": (_synapses, lambda folder: _bias(load_synapses(folder / "machine.safetensors"))),
    "note": (_note, lambda folder: max(set((folder / "note").read_bytes()))),
    "grid": (_grid, lambda folder: len(formats.open_store(folder / "grid").rows)),
    "lock": (_locked, lambda folder: max(set((folder / "note").read_bytes()))),
}  # fmt: skip


def faults(writers=tuple(WRITERS), reasons=REASONS) -> Tally:
    """Let each call of the system fail in turn while version 2 is written over version 1: one of the two is there, whole."""
    attempts, outcomes, broken = 0, Counter(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in writers:
            for reason in reasons:
                for stays in (False, True):
                    for number in range(1, MOST_CALLS):
                        ended = _one(name, _Faulty(number, reason, stays=stays))
                        if ended is None:  # it made fewer calls: no call failed
                            break
                        attempts += 1
                        where = f"{name}, {os.strerror(reason)} at call {number}"
                        broken += [] if ended in ALLOWED else [f"{where}: {ended}"]
                        outcomes.update([ended] if ended in ALLOWED else [])
    return Tally("calls of the system that fail while a file is replaced", attempts, outcomes, broken)


ALLOWED = ("refused, the old version is whole", "done all the same", "refused, the new version is whole")


def _one(name: str, faulty: _Faulty) -> str | None:
    write, read = WRITERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, 1)
        said = None
        try:
            with _failing(faulty):
                write(folder, 2)
        except OSError as error:
            said = str(error)
        if not faulty.failed:
            return None
        try:
            version = read(folder)
        except Exception as error:
            return f"lost: {error!r}"
        if said is None:
            return "done all the same" if version == 2 else f"no error, and version {version}"
        if str(folder) not in said:
            return f"an error that does not name the file: {said}"
        return f"refused, the {['old', 'new'][version - 1]} version is whole"


def fullness(count: int) -> Tally:
    """Train with room for files of so many bytes and no more; with room again the run ends as one that always had it."""
    import resource

    data, outcomes, broken = np.random.default_rng(0).choice([0.0, 1.0], (60, 8)), Counter(), []

    def trained(folder):
        options = {"learning_rate": 0.05, "checkpoint_every": 2, "resume": True, "key": 1}
        run = eq.train(eq.rbm(8, 6, key=0), data, eq.pcd(1), steps=20, batch_size=10, checkpoint=folder, **options)
        files.save_dataset(folder / "history.nc", run.history)
        return np.asarray(run.network.couplings[0].weights).tobytes(), run.history.to_dict()

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.TemporaryDirectory() as place:
        whole = trained(Path(place) / "whole")
        largest = max(path.stat().st_size for path in (Path(place) / "whole").iterdir())
        for number, size in enumerate(np.linspace(1, 1.2 * largest, count).astype(int)):
            folder, said = Path(place) / str(number), None
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), before[1]))
                trained(folder)
            except OSError as error:
                said = str(error)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            if said is not None and not (str(folder) in said and "make room, or choose another folder" in said):
                broken.append(f"room for {size} bytes: {said}")
            if trained(folder) != whole:
                broken.append(f"room for {size} bytes: the run that went on is another one")
            outcomes["stopped in words, and went on" if said else "had room enough"] += 1
    return Tally("training on a disk that is full", count, outcomes, broken)
