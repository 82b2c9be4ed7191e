"""What `equilibria train rbm` and `train deep` do: machines that learn the distribution of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optax

import equilibria as eq
from equilibria import check
from equilibria.app import pictures, runs, tables, watch
from equilibria.app.options import Deep, Rbm
from equilibria.app.training import Job, Split, Trained, learn, read
from equilibria.app.watch import say
from equilibria.equilibrators.rooted import Root
from equilibria.estimators.features import HIDDEN
from equilibria.estimators.passes import LOOKED
from equilibria.learn.recipes import likelihood_recipe
from equilibria.learn.roots import rooted
from equilibria.measure.partition import Method, summable
from equilibria.measure.verdict import verdict

_FEW = 2**16  # over up to this many states ln Z is summed exactly
_ACCEPTANCE = 0.7  # of exchange along a run, between its rungs as it learns
_KEPT = 0.5  # and between the networks that it keeps


def sizes_of(given: str, argument: str) -> list[int]:
    """Whole numbers with commas between.

    >>> sizes_of("50,100", "hidden")
    [50, 100]
    """
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        check.refuse(argument, repr(given), "a whole number >= 1, or several with commas between")
    return [int(part) for part in parts]


def train_rbm(options: Rbm) -> int:
    """Train one machine, or several sizes of it, and leave checkpoints, history.nc, pictures and tables in `out`."""
    sizes = sizes_of(options.hidden, "hidden")
    split = read(options, options.visible_units)
    if len(sizes) > 1:
        from equilibria.app import choosing

        return choosing.compare(options, sizes, split)
    return rbm_of_size(options, sizes[0], split).code


def rbm_of_size(options: Rbm, hidden: int, split: Split) -> Trained:
    """Train a restricted machine of one size in the folder `options.out`."""
    features, rows = split.features, split.rows
    other = HIDDEN[check.choice("hidden_units", options.hidden_units, HIDDEN)]()
    if options.low_rank is None:
        network = eq.rbm(rows.shape[1], hidden, visible=features.visible, hidden=other, key=options.seed)
        return _learned(options, "rbm", {"hidden": hidden}, network, split)
    if options.resume and (options.out / runs.ROOT).exists():
        root = eq.load_root(options.out / runs.ROOT)
        if (before := root.network.layers[0].size) != rows.shape[1]:
            check.refuse(
                "data", f"{rows.shape[1]} neurons", f"{before}, as many as the run in {options.out} began with"
            )
    else:
        if not other.two_valued:
            check.refuse("hidden_units", repr(options.hidden_units), "binary or spin, with low_rank")
        kinds: dict[str, Any] = {"visible": features.visible, "hidden": other}
        known = split.counted(split.learned)
        start = eq.low_rank_start(known, hidden, components=options.low_rank, key=options.seed, **kinds)
        root = start.root
        if not options.quiet:
            say(
                f"begins with {options.low_rank} principal component{'s' * (options.low_rank > 1)} learned without chains"
            )
    return _learned(options, "rbm", {"hidden": hidden}, root.network, split, root)


def train_deep(options: Deep) -> int:
    """Train a machine with several hidden layers."""
    hidden = sizes_of(options.layers, "layers")
    split = read(options, options.visible_units)
    visible = tables.UNITS[split.features.unit]()
    sizes = [split.features.rows.shape[1], *hidden]
    units = [visible, *[eq.Binary()] * len(hidden)]
    network = eq.layered(sizes, units=units, gain=0.1, key=options.seed)
    return _learned(options, "deep", {}, network, split).code


class _Root(eq.Callback):
    """Keeps the machine that a run begins with, for those who go on with it or sample along it."""

    def __init__(self, out: Path, root: Root):
        self.out, self.root = out, root

    def begin(self) -> None:
        """Write it, once the loop has taken the run up."""
        eq.save_root(self.out / runs.ROOT, self.root)


def _learned(
    options: Rbm | Deep, kind: str, asked: dict, network: eq.Network, split: Split, root: Root | None = None
) -> Trained:
    rows = split.counted(split.learned)
    if root is None:
        network = eq.independent_site_biases(network, rows, probabilities=True)
    measure = watch.measure_of(network, rows)
    how: dict[str, Any] = {"steps": options.steps, "chains": options.chains, "l1": options.l1, "l2": options.l2}
    last = root if options.recipe == "tempered" else None  # of the ladder that the chains exchange along
    if last is not None:
        how |= {"along": "training", "acceptance": _ACCEPTANCE}
    recipe = likelihood_recipe(options.recipe, **how)

    def finish(network: eq.Network, history: pictures.xr.Dataset) -> list[str]:
        known = rows[watch.complete(rows)]
        if kind == "rbm" and len(known):
            held = split.counted(split.held)
            long = int(history["step"][-1]) >= LOOKED
            checked(network, known, options.seed, options.quiet, held[watch.complete(held)], mixes=long)
        elif kind == "deep":
            _compared(network, rows[: watch.MOST_ROWS], measure)
        return pictures.write_all(options.out, network, history, split.features, rows, options.seed)

    job = Job(
        kind=kind,
        asked=asked,
        network=network,
        rule=recipe if last is None else rooted(recipe, last),
        keep=None if last is None else _KEPT,
        data=split.rows,
        optimiser=optax.sgd,
        measure=measure,
        metrics=watch.watching(network, rows, split.counted(split.held), options.seed),
        finish=finish,
        least=watch.independent(network, rows if measure == "reconstruction" else rows[watch.complete(rows)], measure),
        callbacks=[watch.Mixing(rows, options.seed), *([] if root is None else [_Root(options.out, root)])],
    )
    return learn(options, job, split)


def checked(
    network: eq.Network, rows: np.ndarray, seed: int, quiet: bool, held: np.ndarray | None = None, mixes: bool = False
) -> None:
    """Say how probable examples are, and loudly where a machine is worse than independent neurons, or nobody can tell.

    With `mixes` also where chains from noise and from data tell different stories of it.
    """
    method: Method = "exact" if summable(network, _FEW) else "ais"
    log_z = eq.log_partition(network, method, data=rows, steps=1000, reverse=False, key=seed)
    found = verdict(network, rows, log_z, key=seed if mixes else None)
    error = f" ± {found.machine.error:.2g}" if found.machine.error else ""
    if not quiet:
        told = f"log-likelihood {found.machine.value:.4g}{error} nats per example learned from"
        if held is not None and len(held):
            told += f", {verdict(network, held, log_z).machine.value:.4g} held out"
        say(f"{told}; independent features {found.independent:.4g}")
    for complaint in found.complaints:
        say(f"WARNING: {complaint}")


def _compared(network: eq.Network, rows: np.ndarray, measure: str) -> None:
    """Say it loudly where a machine is worse than independent features by the measure it was watched with."""
    rows = rows if measure == "reconstruction" else rows[watch.complete(rows)]
    found, alone = watch.likelihood(network, rows, measure), watch.independent(network, rows, measure)
    if not found >= alone - 1e-3 * abs(alone):
        told = f"worse than independent features: {measure} {found:.4g}, theirs {alone:.4g}"
        say(f"WARNING: {told}; lower the learning rate, or use more chains")
