"""Bytes that a fuzzer makes, given to every reader of foreign files: each is read, or refused in a sentence.

Where atheris is installed it makes the bytes, led by the lines of our readers that they reach; each reader is then a process of
its own, so that one that ends is counted too. Elsewhere hypothesis makes them.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from faults.tally import Tally

TESTS = Path(__file__).parents[1]
ROWS = np.random.default_rng(0).integers(0, 2, (6, 3))
CODE = (
    "data.tables.text",
    "data.tables.arrays",
    "data.tables.hdf5",
    "data.tables.reading",
    "data.idx",
    "data.sequences",
)
_SENTENCE = re.compile(r".+: got .+; allowed: .+", re.DOTALL)
_MOST_TOLD = 20


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, ROWS)
    return file.getvalue()


def _npz() -> bytes:
    from scipy import sparse

    file = io.BytesIO()
    sparse.save_npz(file, sparse.csr_array(ROWS))
    return file.getvalue()


def _hdf5() -> bytes:
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as root:
        root["rows"] = ROWS
    return file.getvalue()


def _parquet() -> bytes:
    import pandas as pd

    file = io.BytesIO()
    pd.DataFrame(ROWS, columns=list("abc")).to_parquet(file)
    return file.getvalue()


TEXT = b'id,"a",b,c\nx1,0,1.5,NA\nx2,1,-2e3,true\n'
GOOD = {  # a good file of each kind, from which a fuzzer begins; for tables the name is the file's
    "t.csv": lambda: TEXT,
    "t.csv.gz": lambda: gzip.compress(TEXT, mtime=0),
    "t.npy": _npy,
    "t.npz": _npz,
    "t.h5": _hdf5,
    "t.parquet": _parquet,
    "idx": lambda: bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 5, 6, 7, 8, 9, 0]),
    "fasta": lambda: b">one\nAC-DE\n>two\nACXYE\n",
}


def _read(name: str, content: bytes) -> None:
    from equilibria import data

    if name == "idx":
        data.parse_idx(content)
    elif name == "fasta":
        data.parse_fasta(content.decode("latin-1"))
    else:
        data.read_table(io.BytesIO(content), name=name, missing="keep")


def ended(name: str, content: bytes) -> str:
    """How reading ended: read, or refused; any other words say what went wrong."""
    try:
        _read(name, content)
    except ValueError as error:
        return "refused" if _SENTENCE.fullmatch(str(error)) else f"refused without a reason: {error!r}"
    except Exception as error:
        return repr(error)
    return "read"


def parsers(count: int, seed: int = 1) -> Tally:
    """So many inputs for each reader, by atheris where it is to be had."""
    led = importlib.util.find_spec("atheris") is not None
    outcomes, broken = Counter(), []
    for name in GOOD:
        found, wrong = (_fuzzed if led else drawn)(name, count, seed)
        outcomes += found
        broken += [f"{name}: {sentence}" for sentence in wrong]
    by = "atheris, led by the lines it reaches" if led else "hypothesis"
    return Tally(f"bytes made by {by}, for {len(GOOD)} readers", sum(outcomes.values()), outcomes, broken)


def drawn(name: str, count: int, seed: int = 1) -> tuple[Counter, list[str]]:
    """With hypothesis: a good file with pieces replaced and its end cut off, or any bytes at all."""
    import hypothesis
    from hypothesis import strategies as st

    good, ends = GOOD[name](), Counter()
    pieces = st.lists(st.tuples(st.integers(0, len(good)), st.integers(0, 8), st.binary(max_size=8)), max_size=4)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(pieces, st.integers(0, 2 * len(good)), st.binary(max_size=100))
    def attempt(pieces, length, anything):
        content = good[:length] if pieces else anything
        for start, replaced, piece in pieces:
            content = content[:start] + piece + content[start + replaced :]
        ends[ended(name, content)] += 1

    attempt()
    return _told(ends)


def _fuzzed(name: str, count: int, seed: int) -> tuple[Counter, list[str]]:
    """With atheris, in another process, which writes down how each input ended."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "corpus").mkdir()
        (folder / "corpus" / "good").write_bytes(GOOD[name]())
        command = [sys.executable, "-m", "faults.parsers", name, str(count), str(seed), place]
        done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
        ends = Counter((folder / "ends").read_text().split("\n")[:-1] if (folder / "ends").exists() else [])
        found, wrong = _told(ends)
        return found, wrong + (
            [f"the process ended with {done.returncode}: {done.stderr[-300:]}"] if done.returncode else []
        )


def _told(ends: Counter) -> tuple[Counter, list[str]]:
    allowed = ("read", "refused")
    return Counter({end: ends[end] for end in allowed if ends[end]}), [end for end in ends if end not in allowed]


def fuzz(name: str, count: int, seed: int, folder: Path) -> None:
    """The process that atheris runs in; it does not come back from it."""
    import atheris

    with atheris.instrument_imports(include=["equilibria.data"]):
        for module in CODE:
            importlib.import_module(f"equilibria.{module}")
    notes, told = (folder / "ends").open("a", buffering=1), set()

    def attempt(content: bytes) -> None:
        end = " ".join(ended(name, content)[:500].split())
        if end in ("read", "refused") or (end not in told and len(told) < _MOST_TOLD):
            told.add(end)
            notes.write(f"{end}\n")

    limits = ["-max_len=4096", "-rss_limit_mb=6000", "-timeout=60", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], f"-runs={count}", f"-seed={seed}", *limits, str(folder / "corpus")], attempt)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
