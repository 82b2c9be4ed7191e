"""What is looked at while a machine learns: the likelihood of what it learns from and of what was held out, and the console."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import equilibria as eq
from equilibria.estimators.passes import LOOKED
from equilibria.learn.stopping import Row
from equilibria.measure.partition import summable
from equilibria.measure.verdict import independent_sites

_EXACT = 2**14  # states of a sum that is done at every record
_WORK = 3e7  # cumulants at every record
MOST_ROWS = 500
_FEWEST = 10  # rows that miss nothing
_ROUNDS = 10  # in which the means of several hidden layers settle
_LINES = 20  # on the console, about
_MARGIN = 0.1  # a machine that is so much worse than independent features is going wrong


def complete(rows: np.ndarray) -> np.ndarray:
    """Which rows miss nothing."""
    return ~np.isnan(rows).any(1) if rows.dtype.kind == "f" else np.ones(len(rows), bool)


def measure_of(network: eq.Network, rows: np.ndarray) -> str:
    """What can be had at every record without slowing learning down; sums over what is missing would do that."""
    if complete(rows).sum() < _FEWEST:
        return "reconstruction"
    if summable(network, _EXACT):
        return "log-likelihood"
    shallow = not any(set(coupling.ends) <= set(network.names[1:]) for coupling in network.couplings)
    return "pseudo-likelihood" if network.layers[0].unit.two_valued and shallow else "reconstruction"


def likelihood(network: eq.Network, rows: np.ndarray, measure: str) -> float:
    """The mean over rows of what `measure_of` named, in nats per example; for "reconstruction" minus the squared error."""
    if measure == "log-likelihood":
        return eq.log_likelihood(network, rows, "exact", probabilities=True).value
    if measure == "pseudo-likelihood":
        return eq.pseudo_likelihood(network, rows, probabilities=True)
    return -float(np.nanmean((rows - _reconstructed(network, rows)) ** 2))


def independent(network: eq.Network, rows: np.ndarray, measure: str) -> float:
    """What independent features with the means of the rows have of the same measure."""
    if measure == "reconstruction":
        return -float(np.nanmean((rows - np.nanmean(rows, 0)) ** 2))
    return independent_sites(network, rows)  # of independent features the pseudo-likelihood is the likelihood


def _reconstructed(network: eq.Network, rows: np.ndarray) -> np.ndarray:
    """The means of the features given those of the hidden layers, which settle among themselves under each row."""
    first, *others = network.names
    rows = np.where(np.isnan(rows), np.nanmean(rows, 0), rows) if rows.dtype.kind == "f" else rows
    state = {first: jnp.asarray(rows, float)}
    for name in others:
        layer = network.layer(name)
        state[name] = jnp.broadcast_to(layer.unit.mean(layer.bias), (len(rows), layer.size))
    for _ in range(1 if len(others) == 1 else _ROUNDS):
        for name in others:
            state[name] = network.layer(name).unit.mean(network.field(state, name))
    return np.asarray(network.layer(first).unit.mean(network.field(state, first)))


def watching(
    network: eq.Network, learned: np.ndarray, held: np.ndarray, seed: int
) -> Callable[[eq.Network], dict[str, Any]]:
    """Metrics for `train`: the singular values, and how probable some examples of both parts are."""
    measure = measure_of(network, learned)
    work = learned.shape[1] * network.layers[1].size
    most = int(np.clip(_WORK / work, 50, MOST_ROWS))
    chosen = np.random.default_rng([seed % 2**32, 2])
    parts = {"training": learned, "validation": held}
    if measure != "reconstruction":
        parts = {name: rows[complete(rows)] for name, rows in parts.items()}
    shown = {name: rows[np.sort(chosen.permutation(len(rows))[:most])] for name, rows in parts.items() if len(rows)}
    spectrum = eq.watch_spectrum()

    def measured(network: eq.Network) -> dict[str, Any]:
        found = {name: likelihood(network, rows, measure) for name, rows in shown.items()}
        return {**found, **spectrum(network)}

    return measured


class Console(eq.Callback):
    """Tells a person how learning goes, in some twenty lines."""

    def __init__(self, measure: str, epochs: int, per_epoch: int, *, quiet: bool = False, least: float = -np.inf):
        self.least = least  # of a machine that knows anything
        self.measure, self.epochs, self.per_epoch, self.quiet = measure, epochs, per_epoch, quiet
        self.every, self.told = max(1, -(-epochs // _LINES)), 0
        self.began = time.monotonic()

    def begin(self) -> None:
        """Start the clock."""
        self.began = time.monotonic()

    def record(self, step: int, parameters: Any, row: Row) -> None:
        """One line, at the ends of some epochs."""
        epoch, rest = divmod(step, self.per_epoch)
        if not rest and float(row.get("training", 0.0)) < self.least - _MARGIN * abs(self.least):
            theirs = f"{float(row['training']):.4g} where independent features have {self.least:.4g}"
            say(f"WARNING: {self.measure} {theirs} after epoch {epoch}: lower --learning-rate")
            self.least = -np.inf  # said once
        if self.quiet or rest or (epoch < self.told + self.every and epoch not in (1, self.epochs)):
            return
        self.told = epoch if epoch > 1 else 0
        names = {"training": "training", "validation": "held out"}
        found = ", ".join(f"{float(row[name]):.4g} {told}" for name, told in names.items() if name in row)
        seconds = time.monotonic() - self.began
        say(f"epoch {epoch:>{len(str(self.epochs))}} of {self.epochs}  {self.measure} {found}  ({seconds:.0f} s)")


class Mixing(eq.WatchMixing):
    """Says on the console when singular values only grow, or chains from noise and from data stay apart."""

    def __init__(self, rows: np.ndarray, seed: int):
        # Whenever the updates have doubled: three times in 2,000, by 18,000 sweeps of a chain beside the 200,000 that learn.
        super().__init__(rows, sweeps=100, chains=30, first=LOOKED, key=seed)

    def tell(self, complaint: str) -> None:
        """What was found, and what can be done about it here."""
        found = complaint.partition(";")[0]
        say(
            f"WARNING: {found}; try --recipe tempered or reweighted, or a lower --learning-rate; see equilibria diagnose"
        )


def say(line: str) -> None:
    """A line on the console, clear of progress bars."""
    tqdm.write(line, file=sys.stdout)
    sys.stdout.flush()
