"""Files that are either whole or not there.

Every file is written beside its final place and renamed into it, so that a process killed at any moment leaves the old file
or the new one, never half of one.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

PART = ".part"


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path to write to, which takes the place of `path` when the block ends without an error.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> path.read_text()
    'whole'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PART}")
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(path)
        _flush_to_disk(path.parent)  # the new name, too, must survive a loss of power
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`: after a crash there is the old file or the new one, whole.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> write_atomic(path, b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
