"""What every kind of run has in common: the table in two parts, the loop with its console and its ways to stop, the end."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import check, files
from equilibria.app import beside, runs, tables, watch
from equilibria.app.tables import Features
from equilibria.app.watch import say
from equilibria.estimators.passes import usual_passes
from equilibria.learn.stopping import REQUEUE
from equilibria.random import as_key

_LOOKS = 100  # of a run, about


class Split(NamedTuple):
    """A table in two parts.

    Attributes:
        features: the table.
        learned: the numbers of the rows to learn from.
        held: the numbers of the rows held out.
        weights: how much each row of the table counts; None where all count the same.
        seed: of the rows that are drawn by their weights.
    """

    features: Features
    learned: np.ndarray
    held: np.ndarray
    weights: np.ndarray | None = None
    seed: int = 0

    @property
    def rows(self) -> np.ndarray:
        """The rows to learn from."""
        return self.features.rows[self.learned]

    @property
    def unseen(self) -> np.ndarray:
        """The rows held out."""
        return self.features.rows[self.held]

    @property
    def shares(self) -> np.ndarray | None:
        """How much each row to learn from counts."""
        return None if self.weights is None else self.weights[self.learned]

    def counted(self, part: np.ndarray) -> np.ndarray:
        """The rows of a part, each as often as it counts: with weights so many draws. What is measured is measured on these."""
        if self.weights is None or not len(part):
            return self.features.rows[part]
        shares = self.weights[part]
        draws = np.random.default_rng([self.seed % 2**32, 3])
        return self.features.rows[np.sort(draws.choice(part, len(part), p=shares / shares.sum()))]


class Job(NamedTuple):
    """What one kind of machine brings to a run.

    Attributes:
        kind: its name.
        asked: the options that decide the run, where they are not those of the command line.
        network: what learns.
        rule: how.
        data: from what, the examples on the first axis.
        optimiser: from a rate that may fall, the optimiser.
        measure: what "training" and "validation" in the history are.
        metrics: a function of the network that gives them.
        finish: keeps and draws what was learned, and returns the names of the files.
        least: what independent features have of the measure.
        callbacks: what else is called as the run goes on.
        keep: the share of exchanges below which a network of the run is kept, or None to keep none.
    """

    kind: str
    asked: Mapping[str, Any]
    network: Any
    rule: eq.Rule
    data: Any
    optimiser: Callable[[optax.ScalarOrSchedule], optax.GradientTransformation]
    measure: str
    metrics: Callable[[Any], dict[str, Any]]
    finish: Callable[[Any, xr.Dataset], list[str]]
    least: float = -np.inf
    callbacks: Sequence[eq.Callback] = ()
    keep: float | None = None


class Trained(NamedTuple):
    """What a run leaves behind.

    Attributes:
        network: the machine, the best one where there was patience.
        history: the records.
        code: the exit code: 0, or 75 for a run that can go on.
    """

    network: Any
    history: xr.Dataset
    code: int


def checked(options: Any) -> None:
    """Refuse numbers out of their range, and a folder that cannot be written, before anything is read."""
    for name in ("steps", "epochs", "batch_size", "chains", "patience", "sweeps", "nudged_sweeps"):
        if getattr(options, name, None) is not None:
            check.count(name, getattr(options, name))
    if options.learning_rate is not None:
        check.number("learning_rate", options.learning_rate, above=0.0)
    check.number("final_rate", options.final_rate, least=0.0, most=1.0)
    for name in ("l1", "l2"):
        check.number(name, getattr(options, name, 0.0), least=0.0)
    as_key(options.seed)
    if options.time_limit is not None:
        check.number("time_limit", options.time_limit, above=0.0)
    files.check_writable(options.out)


def read(options: Any, units: str, target: str | None = None) -> Split:
    """The table of a run, in two parts; what was decided is told."""
    checked(options)
    given = getattr(options, "weights", None)
    try:
        features = tables.read(options, units, target)
    except ValueError as error:  # a column of weights is left out of the features
        raise ValueError(str(error).replace(f"drop: got {given!r}", f"weights: got {given!r}")) from error
    count = len(features.rows)
    weights = beside.weights(given, options.data, count, options.allow_large)
    # An example that does not count is neither learned from nor held out.
    counting = np.arange(count) if weights is None else np.flatnonzero(weights)
    learned, held = (counting[part] for part in tables.held_out(len(counting), options.validation, options.seed))
    if not options.quiet:
        say(f"{options.data}: {count:,} examples of {len(features.names):,} features")
        for note in features.notes:
            say(f"  {note}")
        if weights is not None:
            effective = weights.sum() ** 2 / np.square(weights).sum()
            say(f"  examples count by {given}, as much as {effective:,.4g} that count the same")
        if len(held):
            say(f"  {len(held):,} examples, drawn at random, are held out")
    _known(features, learned)
    if options.patience is not None and not len(held):
        check.refuse("patience", options.patience, "none without ten examples held out; validation=0.5 holds half out")
    return Split(features, learned, held, weights, options.seed)


def _known(features: Features, learned: np.ndarray) -> None:
    """Refuse a column of which nothing is known in the examples to learn from, by its name in the table."""
    rows = features.rows[learned]
    if rows.dtype.kind != "f" or not (empty := np.isnan(rows).all(0)).any():
        return
    place = int(np.argmax(empty))
    sites = features.sites
    name = sites["names"][place // sites["states"]] if sites else features.names[place]
    given = f"nothing known in column {name!r} of the examples to learn from"
    check.refuse("data", given, f"at least one known value in each column; drop={name} leaves it out")


def learn(options: Any, job: Job, split: Split) -> Trained:
    """Run the loop in the folder `options.out`, and finish what it leaves.

    Args:
        options: those of the kind; where their `learning_rate` is None it follows from the data.
        job: what the kind brings.
        split: the table.

    Returns:
        The machine, its history and the exit code.
    """
    out, count = options.out, len(split.learned)
    if options.epochs is None:
        options = dataclasses.replace(options, epochs=usual_passes(count, min(options.batch_size, count)))
    asked = dataclasses.asdict(options) | dict(job.asked)
    rate = options.learning_rate
    if rate is None:  # a run that goes on keeps what it began with: another machine may find another last digit
        shown = job.rule.prepared(job.network, job.data, probabilities=True)
        rate = runs.described(out).get("rate") or job.rule.rate(job.network, shown)
    began = runs.begin(out, job.kind, asked, split.features.described(), {"rate": rate})
    per_epoch = count // min(check.count("batch_size", options.batch_size), count)
    if not options.quiet:
        fallen = min((runs.step_of(out) or 0) / (began["rate_epochs"] * per_epoch), 1.0)
        now, last = rate * (1 + (options.final_rate - 1) * fallen), options.final_rate * rate
        falls = "" if fallen == 1 or options.final_rate == 1 else f", falling to {last:.3g}"
        told = " (from the data)" if options.learning_rate is None else ""
        say(f"{job.kind}, {options.epochs:,} epochs of {per_epoch:,} updates, rate {now:.3g}{told}{falls}")
    patience = [] if options.patience is None else [eq.Patience("validation", options.patience)]
    limit = [] if options.time_limit is None else [eq.TimeLimit(options.time_limit)]
    console = watch.Console(job.measure, options.epochs, per_epoch, quiet=options.quiet, least=job.least)
    taken_up = runs.TakenUp(out, began, longer=options.epochs * per_epoch > (runs.step_of(out) or 0))
    # Looking at a machine and keeping it takes longer than an epoch of a small table; patience counts every epoch.
    apart = 1 if patience else -(-options.epochs // _LOOKS)
    with going_on(out):
        run = eq.train(
            job.network,
            job.data,
            job.rule,
            epochs=options.epochs,
            batch_size=options.batch_size,
            weights=split.shares,
            optimiser=job.optimiser(falling(rate, options.final_rate, began["rate_epochs"] * per_epoch)),
            metrics=job.metrics,
            record=_records(options.epochs, per_epoch, apart),
            checkpoint_every=apart * per_epoch,
            callbacks=[taken_up, console, *job.callbacks, *patience, eq.OnSignal(), *limit],
            probabilities=True,
            checkpoint=out,
            keep=job.keep,
            resume=options.resume,
            key=options.seed,
        )
        return _finished(out, run, job, patience)


def _records(epochs: int, per_epoch: int, apart: int) -> list[int]:
    """The steps at which a run is looked at: powers of two in the first epoch, the ends of some epochs, and the last.

    >>> _records(7, 5, 3)
    [1, 2, 4, 5, 15, 30, 35]
    """
    powers = {2**power for power in range(per_epoch.bit_length()) if 2**power <= per_epoch}
    ends = {epoch * per_epoch for epoch in range(apart, epochs + 1, apart)}
    return sorted(powers | ends | {per_epoch, epochs * per_epoch})


@contextlib.contextmanager
def going_on(out: Path) -> Iterator[None]:
    """Say how a run goes on that could not be kept or was interrupted; one that diverged is an error of use."""
    try:
        yield
    except files.StorageError as error:
        again = "" if files.latest(out) is None else " The same command with --resume then goes on."
        raise files.StorageError(f"{error}{again}") from error
    except eq.Diverged as error:
        raise ValueError(str(error)) from error
    except KeyboardInterrupt:
        if (step := runs.step_of(out)) is not None:
            say(f"{out}: interrupted; the checkpoint is of step {step}, and the same command with --resume goes on")
        raise


def falling(rate: float, fraction: float, updates: int) -> optax.ScalarOrSchedule:
    """The learning rate: a number, or a line down to a fraction of it, where it then stays."""
    return rate if fraction == 1 else optax.linear_schedule(rate, rate * fraction, updates)


def _finished(out: Path, run: eq.Run, job: Job, patience: list[eq.Patience]) -> Trained:
    """Keep the history, and the best machine; draw, unless the run is to go on."""
    history, network = run.history.assign_attrs(measure=job.measure), run.parameters
    files.save_dataset(out / "history.nc", history)
    network = best_of(out, patience, history, network)
    waited = bool(patience) and run.stopped is not None and run.stopped.startswith("validation")
    if run.stopped is not None and not waited:
        say(f"{out}: stopped, {run.stopped}; checkpoint and history.nc are there, --resume goes on")
        return Trained(network, history, REQUEUE)
    made = job.finish(network, history)
    say(f"{out}: {int(history.step[-1])} steps; checkpoint, {', '.join(['history.nc', *made])}")
    return Trained(network, history, 0)


def best_of(out: Path, patience: list[eq.Patience], history: xr.Dataset, last: Any) -> Any:
    """The machine to go by: the last one or, with patience, the best of the run, also of its parts before it was resumed."""
    if not patience:
        return last
    folder, found = out / "machine", patience[0]
    before = files.latest(folder) is not None
    if found.best is not None and (not before or found.best_value >= float(history["validation"].max())):
        eq.save_network(folder, found.best)
        say(f"the best machine, of step {found.best_step}, is kept in {folder}")
        return found.best
    return eq.load_network(folder) if before else last
