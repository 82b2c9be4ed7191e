"""One process at a time in a folder.

The lock is the operating system's, on a small file in the folder that says who holds it. The system gives it back when the
process ends, however it ends: a lock cannot outlive who took it, and nobody has to clean up after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equilibria import check
from equilibria.files.atomic import check_writable, explained, sweep

NAME = ".lock"
_BEYOND = 1 << 20  # Windows locks bytes: one that is not there, so that the others can be read
_TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


@contextlib.contextmanager
def locked(folder: str | Path | None, argument: str = "checkpoint") -> Iterator[None]:
    """Be the only one at work in a folder while the block runs.

    Args:
        folder: made if it is not there; None locks nothing.
        argument: whose folder it is, for the error.

    Yields:
        Nothing.

    Raises:
        ValueError: if another process, or another run of this one, is at work there; it names the process.
        StorageError: if the folder cannot be written.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with locked(folder), locked(folder):
    ...     pass
    Traceback (most recent call last):
    ValueError: checkpoint: got ..., where process ... is at work; allowed: another folder, or wait until that one has ended
    """
    if folder is None:
        yield
        return
    path = Path(folder) / NAME
    check_writable(folder)
    with explained(path, path):
        path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _taken(path, argument)
    sweep(folder, of="checkpoint-", seconds=0.0)  # nobody else writes one now, so these are of those who were killed
    try:
        yield
    finally:
        _given_back(descriptor, path)


def _taken(path: Path, argument: str) -> int:
    """The open lock file, locked and with our name in it."""
    while True:
        with explained(path, path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN:
                _warn(path, error)
                return descriptor
            os.close(descriptor)
            allowed = "another folder, or wait until that one has ended"
            check.refuse(argument, f"{path.parent}, where {_holder(path)} is at work", allowed)
        if _is_still_there(descriptor, path):
            try:
                with explained(path, path):
                    _sign(descriptor)
            except OSError:  # on a full disk: nobody is to be kept out by a lock that nobody holds
                _given_back(descriptor, path)
                raise
            return descriptor
        os.close(descriptor)  # whoever had it removed the file on leaving: try the new one


def _lock(descriptor: int) -> None:
    """Take the system's lock, or raise at once."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, _BEYOND, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _warn(path: Path, error: OSError) -> None:
    reason = f"this file system has no locks ({error.strerror})"
    warnings.warn(f"{path.parent}: {reason}; see to it that no other run uses the folder", stacklevel=5)


def _is_still_there(descriptor: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, json.dumps({"process": os.getpid(), "machine": socket.gethostname()}).encode())


def _holder(path: Path) -> str:
    """Who is at work, as far as the lock file says."""
    try:
        told: dict[str, Any] = json.loads(path.read_text())
        here = " of this machine" if told["machine"] == socket.gethostname() else f" of {told['machine']}"
        return f"process {told['process']}{here}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _given_back(descriptor: int, path: Path) -> None:
    """Remove the file and close it, which gives the lock back."""
    if sys.platform == "win32":  # no open file can be removed there, and one that another has opened stays
        os.close(descriptor)
    with contextlib.suppress(OSError):
        # Elsewhere it is removed while it is locked: who opened it in between finds it gone, and makes a new one.
        path.unlink()
    if sys.platform != "win32":
        os.close(descriptor)
