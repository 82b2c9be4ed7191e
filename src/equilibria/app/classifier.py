"""What `equilibria train classifier` does: layers that predict a column of a table by coming to rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import check, files, plots
from equilibria.app import beside, pictures, runs, tables
from equilibria.app.machines import sizes_of
from equilibria.app.options import Classifier
from equilibria.app.training import Job, learn, read
from equilibria.app.watch import say
from equilibria.estimators.nudged import TOLERANCE, direction, nudged_rule, restless, softmax_cost

_SHOWN = 500  # examples whose accuracy is looked at while learning
_GAIN = 0.5
_ROWS = 500
_MOST = 0.99  # of the rows, to say that it comes to rest
_APART = 10 * TOLERANCE  # of outputs at different places: at one, what is left to move is a few tolerances


def train(options: Classifier) -> int:
    """Train a classifier by equilibrium propagation, and leave checkpoints, history.nc and a picture in `out`."""
    hidden = sizes_of(options.layers, "layers")
    if (options.target is None) == (options.labels is None):
        given = "nothing, nor labels" if options.target is None else "both a column and labels"
        check.refuse("target", given, "target=NAME for a column of the table, or labels=FILE for what is no column")
    split = read(options, "scaled", options.target)
    if np.isnan(split.features.rows).any():
        check.refuse("missing", options.missing, "refuse for a classifier: what is clamped must be known")
    labels = split.features.target
    if options.labels is not None:
        labels = beside.labels(options.labels, options.data, len(split.features.rows), options.allow_large)
    assert labels is not None  # the table was read with a target
    labels = beside.as_words(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if not 2 <= len(classes) <= 1000:
        argument = "labels" if options.target is None else "target"
        given = f"{options.target or options.labels!r}, with {len(classes)} different values"
        check.refuse(argument, given, "a column of classes: 2 to 1,000 different words or numbers")
    targets = np.eye(len(classes), dtype=np.float32)[numbers]
    sizes = [split.features.rows.shape[1], *hidden, len(classes)]
    units = [eq.Gaussian(), *[eq.Clipped()] * len(hidden), eq.Gaussian()]
    network = eq.layered(sizes, units=units, gain=_GAIN, key=options.seed)
    rule = nudged_rule(
        "equilibrium_propagation",
        softmax_cost,
        nudge=options.nudge,
        sweeps=options.sweeps,
        nudged_sweeps=options.nudged_sweeps,
        inputs=sizes[0],
    )
    commonest = float(targets[split.learned].mean(axis=0).max())

    def finish(network: eq.Network, history: xr.Dataset) -> list[str]:
        right, complaints = float(history["training"][-1]), restless(history)
        if right < commonest - 2 * np.sqrt(commonest * (1 - commonest) / _SHOWN):
            told = f"{right:.0%} of the training data are told right, always naming the commonest class {commonest:.0%}"
            complaints.append(f"learned nothing: {told}; lower the learning rate")
        for complaint in complaints:
            say(f"WARNING: {complaint}")
        pictures.save(options.out / "learning.png", _learning(history))
        return ["learning.png"]

    job = Job(
        kind="classifier",
        asked={"classes": [str(name) for name in classes]},
        network=network,
        rule=rule,
        data=(split.rows, targets[split.learned]),
        optimiser=lambda rate: optax.chain(direction(len(sizes) - 1), optax.scale_by_learning_rate(rate)),
        measure="accuracy",
        metrics=_watching(options, split.rows, numbers[split.learned], split.unseen, numbers[split.held]),
        finish=finish,
    )
    return learn(options, job, split).code


def predicted(network: eq.Network, rows: np.ndarray, sweeps: int) -> np.ndarray:
    """The number of the class whose output is largest at rest, for each row."""
    found = []
    for start in range(0, len(rows), _ROWS):
        block = jnp.asarray(rows[start : start + _ROWS], float)
        rest = eq.equilibrate(network, eq.Descent(2 * sweeps), world=[eq.Clamp("input", block)], show_progress=False)
        found.append(np.argmax(np.asarray(rest["output"]), axis=1))
    return np.concatenate(found)


def _watching(
    options: Classifier, rows: np.ndarray, labels: np.ndarray, unseen: np.ndarray, others: np.ndarray
) -> Callable[[eq.Network], dict[str, Any]]:
    parts = {"training": (rows[:_SHOWN], labels[:_SHOWN])}
    if len(unseen):
        parts["validation"] = (unseen, others)

    def measured(network: eq.Network) -> dict[str, Any]:
        return {
            name: float(np.mean(predicted(network, rows, options.sweeps) == labels))
            for name, (rows, labels) in parts.items()
        }

    return measured


_PARTS = {"training": "training", "validation": "held out"}  # as the picture calls them


def _learning(history: xr.Dataset) -> plots.Figure:
    with plots.style():
        figure, panel = plots.panels(size=(4.6, 3.4))
        wrong = {told: 1 - history[name].values for name, told in _PARTS.items() if name in history}
        for place, (told, shares) in enumerate(wrong.items()):
            panel.plot(history.step, shares, color=plots.PALETTE[place], label=told)
        panel.set(xlabel="step", ylabel="share of wrong answers", xscale="log")
        some = np.concatenate(list(wrong.values()))
        if (some > 0).any():  # a logarithmic axis that has zero as well
            panel.set_yscale("symlog", linthresh=float(some[some > 0].min()))
        panel.set_ylim(bottom=0)
        panel.legend()
        return figure


def evaluate(
    folder: Path, data: Path, array: str | None, allow_large: bool, about: Mapping[str, Any], given: str | None
) -> int:
    """Say how many of a table's rows are told right, and write the answers as predictions.csv."""
    network = eq.load_network(runs.machine(folder), fallback=True)
    target = about.get("target") if given is None else None
    rows, labels = tables.read_as(data, about["table"], array, allow_large, target=target)
    if given is not None:
        labels = beside.labels(given, data, len(rows), allow_large)
    classes = np.array(about["classes"])
    answers = predicted(network, rows, about["sweeps"])
    text = "\n".join(["prediction", *classes[answers]]) + "\n"
    if labels is None:
        files.write_atomic(folder / "predictions.csv", text.encode())
        lacking = "no labels were given" if target is None else f"the table has no column {target!r}"
        say(f"{folder / 'predictions.csv'}: {len(rows):,} answers; {lacking}")
        return 0
    right = classes[answers] == beside.as_words(labels)
    share = float(right.mean())
    error = float(np.sqrt(share * (1 - share) / len(right)))
    report = {"examples": len(rows), "data": str(data), "step": runs.step_of(folder), "accuracy": share, "error": error}
    say(f"accuracy {share:.4f} ± {error:.4f} on {len(rows):,} examples")
    files.write_atomic(folder / "predictions.csv", text.encode())
    files.write_atomic(folder / "evaluation.json", json.dumps(report).encode())
    say(f"  the answers are in {folder / 'predictions.csv'}")
    return 0


def diagnose(folder: Path, data: Path | None, array: str | None, about: Mapping[str, Any], seed: int) -> int:
    """Say whether a classifier comes to rest under the rows of a table, with the same outputs from wherever it starts.

    It has twice the sweeps of the free phase it learned with, as when it predicts.
    """
    if data is None:
        check.refuse("data", None, "a table for a classifier, which comes to rest under what is clamped")
    network = eq.load_network(runs.machine(folder), fallback=True)
    rows, _ = tables.read_as(data, about["table"], array, False, target=about.get("target"))
    how = eq.Descent(2 * about["sweeps"], tolerance=TOLERANCE)
    resting, outputs = [], []
    for options in ({}, {"key": seed}):  # from rest, and from random starts
        ends = [
            eq.equilibrate(network, how, world=[eq.Clamp("input", block)], show_progress=False, **options)
            for block in np.array_split(np.asarray(rows, np.float32), -(-len(rows) // _ROWS))
        ]
        resting.append(np.concatenate([np.asarray(end.converged) for end in ends]))
        outputs.append(np.concatenate([np.asarray(end["output"]) for end in ends]))
    rests, apart = float(np.mean(resting)), np.abs(outputs[0] - outputs[1]).max(axis=1)
    agree = float(np.mean(apart < _APART))
    if rests < _MOST:
        verdict = f"does not come to rest under {1 - rests:.1%} of the rows; train with more sweeps, or at a lower rate"
    elif agree < _MOST:
        verdict = f"comes to rest elsewhere from other starts under {1 - agree:.1%} of the rows; train at a lower rate"
    else:
        verdict = "comes to rest, at the same place from every start"
    say(
        f"{verdict}\n{rests:.4f} of {len(rows):,} rows come to rest in {how.steps} sweeps, {agree:.4f} at the same place"
    )
    report = {"rests": rests >= _MOST and agree >= _MOST, "verdict": verdict, "resting": rests, "same_place": agree}
    told = {"examples": len(rows), "data": str(data), "step": runs.step_of(folder), "sweeps": 2 * about["sweeps"]}
    files.write_atomic(folder / "diagnosis.json", json.dumps(report | told | {"seed": seed}).encode())
    return 0 if report["rests"] else 1
