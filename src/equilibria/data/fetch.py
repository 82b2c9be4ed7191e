"""The files of a dataset: found in a folder, or downloaded, checked and kept."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import urllib.request
import warnings
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from equilibria.files.atomic import write_atomic

_MOST_BYTES = 2**26  # a mirror that sends more than this is not sending MNIST
_TIMEOUT = 20  # seconds without a byte


class Source(NamedTuple):
    """Where a dataset is published, and the digests its files have there."""

    name: str  # also its sub-folder
    mirrors: tuple[str, ...]
    digests: dict[str, str]  # file name, without .gz: digest
    algorithm: str
    unpacked: bool  # whether the digests are those of the unpacked files


def contents(source: Source, folder: str | Path | None = None) -> dict[str, bytes]:
    """The bytes of each file of a dataset (some gzipped), by name.

    Args:
        source: which dataset.
        folder: where its files are, and then nowhere else. Otherwise they are taken from the first of these that has
            them all: $EQUILIBRIA_DATA, the user's cache, the mirrors (into the cache).

    Returns:
        What each file holds. A warning names files that are not the published ones.

    Raises:
        FileNotFoundError: if the files are neither here nor to be had; the message says where to put them.
    """
    if folder is not None:
        paths = _paths(source, Path(folder))
        if paths is None:
            raise FileNotFoundError(f"{source.name}: folder {str(folder)!r} must hold {_listed(source)}")
    else:
        places = [cache_folder()]
        if os.environ.get("EQUILIBRIA_DATA"):
            places.insert(0, Path(os.environ["EQUILIBRIA_DATA"]))
        found = (_paths(source, place / source.name) for place in places)
        paths = next((paths for paths in found if paths), None) or _downloaded(source)
    read = {file: path.read_bytes() for file, path in paths.items()}
    if others := [str(paths[file]) for file in read if not _is_published(source, file, paths[file], read[file])]:
        warnings.warn(f"{source.name}: not the published data ({source.algorithm}): {', '.join(others)}", stacklevel=4)
    return read


def _is_published(source: Source, file: str, path: Path, content: bytes) -> bool:
    """Whether a file that was found is, by its digest, the one that was published."""
    packed = path.suffix == ".gz"
    if source.unpacked and not packed:
        return hashlib.new(source.algorithm, content).hexdigest() == source.digests[file]
    try:
        return packed and _digest(source, content) == source.digests[file]
    except (OSError, EOFError, zlib.error):  # broken: the reader says how
        return False


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/equilibria, or ~/.cache/equilibria."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equilibria"


def _paths(source: Source, folder: Path) -> dict[str, Path] | None:
    """The path of each file, gzipped or not, or None when one is missing."""
    paths = {}
    for file in source.digests:
        there = [path for path in (folder / f"{file}.gz", folder / file) if path.is_file()]
        if not there:
            return None
        paths[file] = there[0]
    return paths


def _downloaded(source: Source) -> dict[str, Path]:
    folder = cache_folder() / source.name
    paths = {file: folder / f"{file}.gz" for file in source.digests}
    for file, path in paths.items():
        if not path.is_file():
            write_atomic(path, _from_a_mirror(source, file))
    return paths


def _from_a_mirror(source: Source, file: str) -> bytes:
    failures = []
    for mirror in source.mirrors:
        url = f"{mirror}{file}.gz"
        try:
            content = _get(url)
            found = _digest(source, content)
        except (OSError, EOFError, HTTPException, zlib.error) as error:
            failures.append(f"{url}: {error}")
            continue
        if found == source.digests[file]:
            return content
        failures.append(f"{url}: {source.algorithm} digest {found} is not the published {source.digests[file]}")
    raise FileNotFoundError(
        f"{source.name} is not on this machine and could not be downloaded.\n"
        f"Put {_listed(source)} into {str(cache_folder() / source.name)!r}, or into a sub-folder {source.name!r} of a "
        f"folder named by the environment variable EQUILIBRIA_DATA.\nTried: " + "; ".join(failures)
    )


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        content = bytearray()
        title = url.rsplit("/", 1)[-1]
        with tqdm(desc=title, total=response.length, unit="B", unit_scale=True) as progress:
            while chunk := response.read(2**16):
                content += chunk
                progress.update(len(chunk))
                if len(content) > _MOST_BYTES:
                    raise OSError(f"more than {_MOST_BYTES} bytes")
    return bytes(content)


def _digest(source: Source, content: bytes) -> str:
    plain = io.BytesIO(content)
    with gzip.GzipFile(fileobj=plain) if source.unpacked else plain as stream:
        return hashlib.file_digest(stream, source.algorithm).hexdigest()


def _listed(source: Source) -> str:
    return ", ".join(source.digests) + " (each plain or .gz)"
