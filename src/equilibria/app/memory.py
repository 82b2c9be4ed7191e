"""What `equilibria train memory` does: the rows of a table as memories of a Hopfield network."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.app import runs, tables
from equilibria.app.options import Memory
from equilibria.app.watch import say

_PATTERNS = "patterns.safetensors"


def train(options: Memory) -> int:
    """Store every row, and say how many of them the network holds still."""
    files.check_writable(options.out)
    features = tables.read(options, "two-valued")
    spins = as_spins(features.rows)
    if files.latest(options.out) is not None:
        check.refuse("--out", f"{options.out}, which holds a run", "another folder: a memory is stored at once")
    network = eq.hopfield(spins, sleep=options.sleep)
    found = eq.retrieve(network, spins, spins, key=options.seed)
    asked = dataclasses.asdict(options) | {"resume": False}
    runs.keep(options.out, runs.begin(options.out, "memory", asked, features.described()))
    files.write(options.out / _PATTERNS, {"patterns": spins})  # before the network, with which the folder is whole
    eq.save_network(options.out, network)
    for note in features.notes:
        say(f"  {note}")
    alike = (spins[np.asarray(found.pattern)] == spins).all(1)  # of rows that are there twice the first is named
    recalled = int(np.sum(alike & ~np.asarray(found.spurious)))
    capacity = float(eq.theory.hopfield_capacity(0.0, options.sleep))
    load = len(spins) / spins.shape[1]
    say(f"{options.out}: {len(spins)} patterns of {spins.shape[1]} neurons, load {load:.4g}; {recalled} are recalled")
    say(f"  random patterns of many neurons are recalled up to a load of {capacity:.4g}")
    return 0


def patterns(folder: Path) -> np.ndarray:
    """The patterns that the memory in a folder has stored."""
    return files.load(folder / _PATTERNS).arrays["patterns"]


def as_spins(values: np.ndarray) -> np.ndarray:
    """Two values as -1 and +1."""
    kind = eq.data.kind_of(values)
    if kind not in ("bits", "spins"):
        check.refuse("data", f"a table of {kind} values", "0 and 1, or -1 and +1; binarise=NUMBER cuts others in two")
    return (2.0 * values - 1 if kind == "bits" else values).astype(np.float32)


def evaluate(
    folder: Path, data: Path, array: str | None, allow_large: bool, about: Mapping[str, Any], seed: int
) -> int:
    """Let the network fall from every row of a table, and write which memory it came to as recalled.csv."""
    network = eq.load_network(folder, fallback=True)
    stored = patterns(folder)
    rows, _ = tables.read_as(data, about["table"], array, allow_large)
    found = eq.retrieve(network, stored, as_spins(rows), key=seed)
    overlaps, numbers = np.asarray(found.overlap), np.asarray(found.pattern)
    known = int(np.sum(~np.asarray(found.spurious)))
    say(f"{known} of {len(rows)} cues end at a memory, mean overlap {overlaps.mean():.4f}")
    lines = [f"{number + 1},{overlap:.6g}" for number, overlap in zip(numbers, overlaps, strict=True)]
    files.write_atomic(folder / "recalled.csv", ("\n".join(["pattern,overlap", *lines]) + "\n").encode())
    report = {"examples": len(rows), "data": str(data), "recalled": known, "overlap": float(overlaps.mean())}
    files.write_atomic(folder / "evaluation.json", json.dumps(report).encode())
    say(f"  each of them is in {folder / 'recalled.csv'}")
    return 0
