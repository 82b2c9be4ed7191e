"""What is done with a trained machine: draw from it, say how probable data are, hand it to other programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.app import beside, classifier, memory, pictures, runs, sequences, tables
from equilibria.app.watch import say
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.measure.partition import Method, summable

_EXACT = 2**20


def walk(folder: Path, sweeps: int, tempered: bool, temperature: float) -> Equilibrator:
    """How chains of a machine go: by sweeps, or exchanging along what its run has kept, else along rising temperatures.

    The root of the networks that were kept is drawn at temperature 1 alone.
    """
    if not tempered:
        return eq.Sweeps(sweeps)
    if not (folder / "trajectory").is_dir():
        return eq.Tempered(sweeps)
    how = eq.Tempered(sweeps, ladder=eq.Trajectory(folder))
    rooted = (folder / runs.ROOT).exists() and temperature == 1
    return eq.Rooted(how, eq.load_root(folder / runs.ROOT)) if rooted else how


def sample(
    folder: Path, count: int, sweeps: int, temperature: float, seed: int, out: Path | None, tempered: bool = False
) -> int:
    """Draw from a trained machine; visible states as .npy, as .csv where features have names, and as a picture."""
    path = Path(out or runs.existing(folder) / "samples.npy")
    if path.suffix != ".npy":
        check.refuse("--out", path, "a file that ends in .npy; a table or a picture is written beside it")
    others = [path.with_suffix(ending) for ending in (".png", ".csv", ".json", ".fasta")]
    theirs = [other.name for other in others if os.path.lexists(other)]
    if out is not None and theirs and not os.path.lexists(path):
        check.refuse("--out", f"{path}, beside whose place is {theirs[0]}", "another name: that would be replaced")
    files.check_writable(path.parent)
    about = runs.described(folder)
    if about.get("kind") == "classifier":
        check.refuse("run", f"{folder}, a classifier, which comes to rest and draws nothing", "another kind of machine")
    network = eq.load_network(runs.machine(folder), fallback=True)
    table = about.get("table", {})
    first = network.names[0]
    how = walk(folder, sweeps, tempered, temperature)
    draws = np.asarray(eq.sample(network, how, chains=count, temperature=temperature, key=seed)[first])
    offset, scale = np.array(table.get("offset", 0.0)), np.array(table.get("scale", 1.0))
    values = (draws * scale + offset).astype(np.float32) if table.get("unit") == "gaussian" else draws
    made = [path.name]
    with files.replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, values)
    shape = table.get("image_shape")
    if table.get("sites"):
        made.append(sequences.write(path, values, table["sites"]).name)
    elif table and shape is None:
        pictures.write_csv(path.with_suffix(".csv"), table["names"], None, values)
        made.append(path.with_suffix(".csv").name)
    elif shape is not None:
        pictures.save(path.with_suffix(".png"), pictures.tiles(values[:64], (int(shape[0]), int(shape[1]))))
        made.append(path.with_suffix(".png").name)
    about = {"step": runs.step_of(folder), "count": count, "sweeps": sweeps, "temperature": temperature, "seed": seed}
    about["tempered"] = tempered
    files.write_atomic(path.with_suffix(".json"), json.dumps(about).encode())
    say(f"{path.parent}: {count} draws after {sweeps} sweeps at temperature {temperature:g}, in {', '.join(made)}")
    return 0


def evaluate(
    folder: Path,
    data: Path,
    array: str | None,
    allow_large: bool,
    method: Method | Literal["auto"],
    steps: int,
    chains: int,
    seed: int,
    labels: str | None = None,
    weights: str | None = None,
) -> int:
    """Print the log-likelihood of data with its error and bracket, and write it as evaluation.json into the folder."""
    files.check_writable(runs.existing(folder))
    about = runs.described(folder)
    if weights is not None and about.get("kind") in ("classifier", "memory"):
        check.refuse("weights", repr(weights), f"none for a {about['kind']}, which has no log-likelihood")
    if about.get("kind") == "classifier":
        return classifier.evaluate(folder, data, array, allow_large, about, labels)
    if labels is not None:
        check.refuse("labels", repr(labels), "none, for this machine is no classifier")
    if about.get("kind") == "memory":
        return memory.evaluate(folder, data, array, allow_large, about, seed)
    network = eq.load_network(runs.machine(folder), fallback=True)
    table = about.get("table", {})
    rows, _ = tables.read_as(data, table, array, allow_large)
    if about.get("kind") == "synapses":
        rows = memory.as_spins(rows)
    if method == "auto":
        method = "exact" if summable(network, _EXACT) else "ais"
    if method == "exact" and not summable(network):
        check.refuse("method", "'exact', for a machine with too many states to be summed", "auto or ais")
    options: dict[str, Any] = {"chains": chains, "steps": steps, "key": seed}
    options["weights"] = beside.weights(weights, data, len(rows), allow_large)
    found = eq.log_likelihood(network, rows, method, probabilities=True, **options)
    if table.get("unit") == "gaussian":  # a density of the numbers in the file, not of those brought to variance 1
        found = shifted(found, -float(np.sum(np.log(table["scale"]))))
    if not np.isfinite(found.value):
        given = f"{folder}, whose log-likelihood is {found.value}"
        check.refuse("run", given, f"a machine that has a law ({found.note})")
    bracket = "" if found.bracket is None else f", bracket {found.bracket[0]:.3f} to {found.bracket[1]:.3f}"
    grey = " Values between 0 and 1 are taken as means." if eq.data.kind_of(rows) == "grey" else ""
    error = f" ± {found.error:.3f}" if np.isfinite(found.error) else ""
    known = "" if found.effective is None else f", {found.effective:.0f} effective samples"
    known += "" if found.r_hat is None else f", R-hat {found.r_hat:.3f}"
    line = f"log-likelihood {found.value:.3f}{error} nats per example ({method}{bracket}{known}) {found.note}"
    say(f"{line.rstrip()}{'.' if grey else ''}{grey}")
    told = {"examples": len(rows), "data": str(data), "method": method, "step": runs.step_of(folder)}
    sure = found.r_hat is not None and np.isfinite(found.r_hat)
    report = told | found._asdict() | {"error": found.error if error else None, "r_hat": found.r_hat if sure else None}
    files.write_atomic(folder / "evaluation.json", json.dumps(report, allow_nan=False).encode())
    return 0


def shifted(found: eq.Estimate, by: float) -> eq.Estimate:
    """An estimate with a number added."""
    bracket = None if found.bracket is None else (found.bracket[0] + by, found.bracket[1] + by)
    return found._replace(value=found.value + by, bracket=bracket)


def export(folder: Path, to: Literal["npz", "csv", "torch"], out: Path | None) -> int:
    """Write the parameters of a machine in a form that other programs read."""
    network = eq.load_network(runs.machine(runs.existing(folder)), fallback=True)
    table = runs.described(folder).get("table", {})
    endings = {"npz": ".npz", "csv": ".csv", "torch": ".pt"}
    path = Path(out or folder / f"machine{endings[to]}")
    arrays: dict[str, Any] = {f"{layer.name}.bias": np.asarray(layer.bias) for layer in network.layers}
    for coupling in network.couplings:
        arrays[f"{'-'.join(coupling.ends)}.weight"] = np.asarray(coupling.matrix())
    if to == "csv":
        _as_csv(path, network, table)
    elif to == "npz":
        extra: dict[str, Any] = {f"{layer.name}.unit": np.array(type(layer.unit).__name__) for layer in network.layers}
        if table:
            extra |= {"names": np.array(table["names"]), "offset": table["offset"], "scale": table["scale"]}
        with files.replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays, **extra)
    else:
        try:
            import torch
        except ImportError:
            check.refuse("to", "'torch', which is not installed here", "npz or csv; or pip install torch first")
        with files.replacing(path) as temporary, temporary.open("wb") as file:
            torch.save({name: torch.from_numpy(value.copy()) for name, value in arrays.items()}, file)
    shapes = ", ".join(f"{name} {'x'.join(map(str, value.shape))}" for name, value in arrays.items())
    say(f"{path}: {shapes}")
    return 0


def _as_csv(path: Path, network: eq.Network, table: dict[str, Any]) -> None:
    """Couplings as a table, features down and hidden units across, with both biases; for two layers."""
    if len(network.layers) != 2:
        check.refuse(
            "to", "'csv' for a network of " + str(len(network.layers)) + " layers", "npz, which holds any number"
        )
    weights = np.asarray(network.couplings[0].matrix())
    visible, hidden = (np.asarray(layer.bias) for layer in network.layers)
    names = table.get("names") or [str(place + 1) for place in range(len(visible))]
    rows = np.vstack([np.column_stack([visible, weights]), np.concatenate([[np.nan], hidden])])
    header = ["feature", "bias", *pictures.hidden_names(weights)]
    pictures.write_csv(path, header, [*names, "bias of hidden units"], rows)
