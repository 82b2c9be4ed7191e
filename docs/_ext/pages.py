"""Pages that are written at each build: those that would not change keep their time, so that they are not read again."""

from pathlib import Path


def write_page(path: Path, content: str | bytes) -> None:
    """Write a file unless it holds that already."""
    data = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def keep_only(folder: Path, names: set[str]) -> None:
    """Remove what an earlier build wrote and this one did not."""
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()
