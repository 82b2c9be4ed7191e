"""What `equilibria train synapses` does: a machine whose weights are -1 or +1."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import equilibria as eq
from equilibria import check, files
from equilibria.app import pictures, runs, watch
from equilibria.app.machines import checked
from equilibria.app.memory import as_spins
from equilibria.app.options import Synapses
from equilibria.app.training import Split, going_on, read
from equilibria.app.watch import say
from equilibria.learn.stopping import REQUEUE

_LOOKS = 100  # of a run, about
_BEST = "best.json"  # how good the machine is that patience has kept


def train(options: Synapses) -> int:
    """Learn the distribution of binary weights, and leave the decoded machine in `out`/machine and in machine.safetensors."""
    split = read(options, "two-valued")
    split = split._replace(features=split.features._replace(rows=as_spins(split.features.rows)))
    out, hidden = options.out, check.count("hidden", options.hidden)
    began = runs.begin(out, "synapses", dataclasses.asdict(options), split.features.described())
    limit = [] if options.time_limit is None else [eq.TimeLimit(options.time_limit)]
    patience = [] if options.patience is None else [eq.Patience("validation", options.patience)]
    count = len(split.learned)
    batch = None if options.batch_size >= count else check.count("batch_size", options.batch_size)
    per_epoch = 1 if batch is None else count // batch
    steps = options.epochs * per_epoch
    taken_up = runs.TakenUp(out, began, longer=steps > (runs.step_of(out) or 0))
    watched = _Watched(split, hidden, options.seed)
    console = watch.Console(watched.measure, options.epochs, per_epoch, quiet=options.quiet)
    with going_on(out):
        run = eq.learn_synapses(
            split.rows,
            hidden,
            steps=steps,
            how=None if options.e_step == "auto" else options.e_step,
            batch_size=batch,
            weights=split.shares,
            learning_rate=options.learning_rate,
            metrics=watched,
            every=per_epoch if patience else max(steps // _LOOKS, 1),  # patience counts every epoch
            callbacks=[taken_up, console, *patience, eq.OnSignal(), *limit],
            checkpoint=out,
            resume=options.resume,
            key=options.seed,
        )
    files.save_dataset(out / "history.nc", run.history.assign_attrs(measure=watched.measure))
    waited = run.stopped is not None and run.stopped.startswith("validation")
    best = _best(out, watched, run.synapses, bool(patience))
    if best is not None and (patience or run.stopped is None):
        _keep(out, best, split.features.names)
    if (
        best is not None and patience
    ):  # after the machine: a note of something better than what is there would keep it out
        files.write_atomic(out / _BEST, json.dumps({"validation": watched.best_value}).encode())
    if run.stopped is not None and not waited:
        say(f"{out}: stopped, {run.stopped}; checkpoint and history.nc are there, --resume goes on")
        return REQUEUE
    network, counted = eq.load_network(out / "machine"), split.counted(split.learned)
    checked(network, counted, options.seed, options.quiet, split.counted(split.held))
    bound = f"bound {float(run.history['bound'][-1]):.2f}, " if "bound" in run.history else ""
    stored = out / "machine.safetensors"
    weights = f"{network.couplings[0].matrix().size:,} weights of one bit in {stored.stat().st_size:,} bytes"
    say(f"{out}: {int(run.history.step[-1])} steps, {bound}{weights} ({stored.name})")
    return 0


class _Watched:
    """Metrics of a run: how probable the decoded machine finds examples of both parts; with the best synapses so far.

    The history's callbacks are called after the step that reports on a row, and no longer have what the row is about.
    """

    def __init__(self, split: Split, hidden: int, seed: int):
        rows, held = split.counted(split.learned), split.counted(split.held)
        shape = eq.rbm(rows.shape[1], hidden, visible=eq.Spin(), hidden=eq.Spin(), key=0)
        self.measure, self._measured = watch.measure_of(shape, rows), watch.watching(shape, rows, held, seed)
        self.best: eq.Synapses | None = None
        self.best_value = -np.inf

    def __call__(self, synapses: eq.Synapses) -> dict[str, Any]:
        found = self._measured(synapses.network())
        if found.get("validation", -np.inf) > self.best_value:
            self.best, self.best_value = jax.tree.map(jnp.copy, synapses), float(found["validation"])
        return {name: found[name] for name in ("training", "validation") if name in found}


def _best(out: Path, watched: _Watched, last: eq.Synapses, patience: bool) -> eq.Synapses | None:
    """The synapses to keep: the last or, with patience, the best; None where an earlier part of the run kept better ones."""
    note = out / _BEST
    if not patience:
        note.unlink(missing_ok=True)
        return last
    try:
        before = float(json.loads(note.read_text())["validation"])
    except (OSError, ValueError, KeyError, TypeError):
        before = -np.inf
    if watched.best is None or watched.best_value <= before:
        return None
    say(f"the best machine is kept in {out / 'machine'}: {watched.measure} {watched.best_value:.4g} held out")
    return watched.best


def _keep(out: Path, synapses: eq.Synapses, names: tuple[str, ...]) -> None:
    """Write the decoded machine in both forms, and the means of the weights as a table."""
    eq.save_network(out / "machine", synapses.network())
    eq.save_synapses(out / "machine.safetensors", synapses)
    weights = np.asarray(synapses.mean)
    pictures.write_csv(out / "filters.csv", ["feature", *pictures.hidden_names(weights)], names, weights)
