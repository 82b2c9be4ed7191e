"""`equilibria diagnose`: whether the chains of a trained machine have equilibrated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.app import classifier, memory, pictures, runs, tables
from equilibria.app.using import walk
from equilibria.app.watch import say
from equilibria.app.wording import otherwise

_DRAWS = 500


def diagnose(
    folder: Path,
    data: Path | None,
    array: str | None,
    sweeps: int,
    chains: int,
    tempered: bool,
    temperature: float,
    seed: int,
) -> int:
    """Print a verdict about the machine in a folder, and write diagnosis.json, diagnosis.nc and diagnosis.png into it."""
    files.check_writable(runs.existing(folder))
    about = runs.described(folder)
    if data is None and array is not None:
        check.refuse("--array", repr(array), "none without --data")
    if about.get("kind") == "classifier":
        return classifier.diagnose(folder, data, array, about, seed)
    network = eq.load_network(runs.machine(folder), fallback=True)
    rows = memory.patterns(folder) if about.get("kind") == "memory" else None
    if data is not None:
        rows, _ = tables.read_as(data, about.get("table", {}), array, False)
        rows = memory.as_spins(rows) if about.get("kind") in ("synapses", "memory") else rows
    if sweeps < 20:
        check.refuse("--sweeps", sweeps, "at least 20")
    how = walk(folder, sweeps, tempered, temperature)
    found = eq.diagnose(
        network, rows, how=how, chains=chains, draws=min(_DRAWS, sweeps // 2), temperature=temperature, key=seed
    )
    numbers = {
        "r_hat": found.r_hat, "ess": found.ess, "ess_tail": found.ess_tail,
        "autocorrelation_time": found.autocorrelation_time,
    }  # fmt: skip
    report = {
        "mixed": found.mixed, "verdict": found.verdict, "nearest_neighbours": found.accuracy,
        "step": runs.step_of(folder), "sweeps": sweeps, "chains": chains, "tempered": tempered, "seed": seed,
        "temperature": temperature,
        **{name: value if np.isfinite(value) else None for name, value in numbers.items()},
    }  # fmt: skip
    say(otherwise(str(found)))  # first: it is not lost where it cannot be written
    files.write_atomic(folder / "diagnosis.json", json.dumps(report, allow_nan=False).encode())
    files.save_dataset(folder / "diagnosis.nc", found.draws)
    pictures.save(folder / "diagnosis.png", found.figure())
    return 0 if found.mixed else 1
