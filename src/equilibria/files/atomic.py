"""Files that are either whole or not there.

Every file is written beside its final place and renamed into it, so that a process killed at any moment leaves the old file
or the new one, never half of one. What such a process leaves behind, a file `.name.12345678.part`, is swept once it is old.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

# Some network and FUSE file systems cannot flush: what they write is as safe as they make it.
_CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR}
_PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")
_LEFT_BEHIND = 3600.0  # seconds without a byte: nobody is writing this any more


class StorageError(OSError):
    """Something could not be written; the message names the path, the reason and what to do about it."""


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to, which takes the place of `path` when the block ends without an error.

    Args:
        path: the file; folders on the way to it are made.

    Yields:
        The path to write to, in the same folder.

    Raises:
        StorageError: if there is no room for it, or it may not be written; what was at `path` is as it was.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with explained(path, temporary):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            _flush_to_disk(temporary)
            temporary.replace(path)
            _flush_to_disk(path.parent)  # the new name, too, must survive a loss of power
    finally:
        with contextlib.suppress(OSError):  # the error that is under way says more
            temporary.unlink(missing_ok=True)


def write_atomic(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`: after a crash there is the old file or the new one, whole.

    Args:
        path: the file; folders on the way to it are made.
        content: all of it.

    Raises:
        StorageError: if there is no room for it, or it may not be written; what was at `path` is as it was.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_atomic(path, b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_once(path: str | Path, content: bytes) -> bool:
    """Write a file that several may want to write at the same time: the first one does, and nobody replaces it.

    Args:
        path: the file; folders on the way to it are made.
        content: all of it.

    Returns:
        Whether this was the first.

    Raises:
        StorageError: if there is no room for it, or it may not be written.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_once(path, b"first"), write_once(path, b"second"), path.read_bytes()
    (True, False, b'first')
    """
    path = Path(path)
    whole = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    write_atomic(whole, content)
    try:
        os.link(whole, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links: the last one does it, then
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)
    return True


def check_writable(folder: str | Path) -> None:
    """Find out before the work whether its results can be written; nothing is left behind.

    Args:
        folder: where files are to go. It need not exist: then it is the folder that it would be made in that is tried.

    Raises:
        StorageError: if no file can be made there.

    >>> import tempfile
    >>> check_writable(tempfile.mkdtemp() + "/new/folder")
    """
    folder = Path(folder).absolute()
    there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    trial = there / f".trial.{uuid.uuid4().hex[:8]}.part"
    with explained(folder, trial):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there} is not a folder", str(trial))
        try:
            trial.write_bytes(b"x")
        finally:
            with contextlib.suppress(OSError):
                trial.unlink(missing_ok=True)


def sweep(folder: str | Path, *, of: str = "", seconds: float = _LEFT_BEHIND) -> list[str]:
    """Remove what writers that were killed left behind: files named as `replacing` names them that nobody has touched lately.

    Args:
        folder: looked through, not what is in folders inside.
        of: how the names of the files they were to become begin.
        seconds: how long a file must have been left alone, by the clock of the disk it is on.

    Returns:
        The names of the files that were removed.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / ".note.txt.0123abcd.part").touch()
    >>> sweep(folder), sweep(folder, seconds=0.0)
    ([], ['.note.txt.0123abcd.part'])
    """
    try:
        entries = (entry for entry in os.scandir(folder) if entry.name.startswith(f".{of}"))
        parts = [Path(entry.path) for entry in entries if _PART.fullmatch(entry.name)]
        before = _now_on_the_disk_of(Path(folder)) - seconds if parts else 0.0
    except OSError:  # nothing is there, or nothing that is ours to change
        return []
    return [path.name for path in parts if _removed(path, before)]


def _removed(path: Path, before: float) -> bool:
    """Remove a file if it was last written before some time; whether it was."""
    try:
        if path.stat().st_mtime > before:
            return False
        path.unlink()
    except OSError:  # another process has swept it, or it is not ours to remove
        return False
    return True


def _now_on_the_disk_of(folder: Path) -> float:
    """The time by the clock that dates the files there, which on a network is another machine's."""
    trial = folder / f".trial.{uuid.uuid4().hex[:8]}.part"
    try:
        trial.touch()
        return trial.stat().st_mtime
    finally:
        trial.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(path: Path, temporary: Path) -> Iterator[None]:
    """Turn an error of the disk into a sentence; errors that are about other files pass through.

    Args:
        path: what is to be written, named in the sentence.
        temporary: what is written on the way there.

    Yields:
        Nothing.

    Raises:
        StorageError: in place of the error of the disk.

    >>> import errno
    >>> with explained(Path("result.nc"), Path("result.nc")):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    equilibria.files.atomic.StorageError: result.nc: could not be written (No space left on device). What was written
    before is whole; make room, or choose another folder.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError) or not _is_about(error, path, temporary):
            raise
        told = StorageError(f"{path}: could not be written ({_reason(error)}). {_advice(error)}")
        told.errno = error.errno
        raise told from error


def _is_about(error: OSError, path: Path, temporary: Path) -> bool:
    if error.filename is None:  # some libraries do not say
        return error.errno is not None
    return Path(os.fsdecode(error.filename)) in (temporary, path, *path.parents)


def _reason(error: OSError) -> str:
    """In the words of the system; libraries that do not name the file say much else instead."""
    told = error.strerror if error.filename is not None or error.errno is None else os.strerror(error.errno)
    return told or str(error)


def _advice(error: OSError) -> str:
    if error.errno in _NO_ROOM:
        return "What was written before is whole; make room, or choose another folder."
    if error.errno in _NOT_OURS:
        return "Choose a folder that you may write to."
    if error.errno == errno.ENOENT:
        return "Its folder is gone, or none in which files can be made; choose another folder."
    return "What was written before is whole; look after the disk, or choose another folder."


def _flush_to_disk(path: Path) -> None:
    """Wait until it is on the disk, as far as the file system offers that."""
    if path.is_dir():
        with contextlib.suppress(
            OSError
        ):  # not every folder can be opened or flushed; what is in it is whole all the same
            _flush(path, os.O_RDONLY)
        return
    try:
        _flush(path, os.O_RDWR)  # Windows flushes only what is open for writing
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def _flush(path: Path, mode: int) -> None:
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
