"""Several sizes of a machine, compared by how probable they find examples that none of them has seen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import equilibria as eq
from equilibria import check, files, plots
from equilibria.app import machines, pictures
from equilibria.app.options import Rbm
from equilibria.app.training import Split
from equilibria.app.watch import say
from equilibria.measure.likelihood import unnormalised
from equilibria.measure.partition import Method, log_partition, summable

_EXACT = 2**20
_STEPS, _CHAINS = 3000, 100  # of the annealing


class Found(NamedTuple):
    """What one machine says of the examples held out.

    Attributes:
        logs: ln p of each of them, in nats.
        log_z: ln Z with its error.
        shares: how much each of them counts, one in all.
    """

    logs: np.ndarray
    log_z: eq.Estimate
    shares: np.ndarray

    @property
    def value(self) -> float:
        """The mean over examples."""
        return float(self.logs @ self.shares)

    @property
    def error(self) -> float:
        """One standard error of the mean, with that of ln Z."""
        return float(np.hypot(_spread(self.logs, self.shares), self.log_z.error))


def _spread(values: np.ndarray, shares: np.ndarray) -> float:
    """One standard error of a mean in which each value has its share."""
    count = len(values)
    return float(np.sqrt(np.sum(np.square(shares * (values - values @ shares))) * count / (count - 1)))


def judged(network: eq.Network, held: np.ndarray, shares: np.ndarray, seed: int) -> Found:
    """ln p of each example held out: ln Z is summed where it can be, else annealed from the means of the data."""
    method: Method = "exact" if summable(network, _EXACT) else "ais"
    options: dict[str, Any] = {"chains": _CHAINS, "steps": _STEPS, "reverse": False, "key": seed}
    log_z = log_partition(network, method, **({} if method == "exact" else options))
    logs = np.asarray(unnormalised(network, {network.names[0]: held}), np.float64) - log_z.value
    return Found(logs, log_z, shares)


def difference(one: Found, other: Found) -> tuple[float, float]:
    """How much more probable one machine finds the same examples than another, and its standard error.

    The examples are the same, so that what they have in common cancels; the errors of ln Z do not.
    """
    each = one.logs - other.logs
    error = np.sqrt(_spread(each, one.shares) ** 2 + one.log_z.error**2 + other.log_z.error**2)
    return float(each @ one.shares), float(error)


def compare(options: Rbm, sizes: Sequence[int], split: Split) -> int:
    """Train a machine of each size in a folder of its own, and say which one does best on the examples held out."""
    if len(set(sizes)) < len(sizes):
        check.refuse("hidden", options.hidden, "numbers that differ")
    if not len(split.held):
        check.refuse("validation", options.validation, "a share of at least ten examples, to compare several sizes by")
    weights = np.ones(len(split.held)) if split.weights is None else split.weights[split.held]
    found: dict[int, Found] = {}
    for size in sizes:
        here = dataclasses.replace(options, out=options.out / f"hidden-{size}", hidden=str(size))
        run = machines.rbm_of_size(here, size, split)
        if run.code:
            return run.code
        found[size] = judged(run.network, split.unseen, weights / weights.sum(), options.seed)
    best = max(found, key=lambda size: found[size].value)
    rows = []
    say(f"log-likelihood of the {len(split.held):,} examples held out, in nats per example")
    for size, result in found.items():
        less, error = difference(result, found[best])
        rows.append(
            {
                "hidden": size,
                "value": result.value,
                "error": result.error,
                "difference": less,
                "difference_error": error,
            }
        )
        told = "the best" if size == best else f"{less:+.3f} ± {error:.3f} to the best"
        say(f"  {size:>6} hidden  {result.value:.3f} ± {result.error:.3f}  {told}")
    close = [
        row["hidden"] for row in rows if row["hidden"] != best and -row["difference"] < 2 * row["difference_error"]
    ]
    if close:
        say(f"  {', '.join(map(str, close))} cannot be told from the best by these examples")
    files.write_atomic(options.out / "comparison.json", json.dumps({"best": best, "sizes": rows}).encode())
    pictures.save(options.out / "comparison.png", _drawn(rows))
    say(f"{options.out / f'hidden-{best}'} holds the best; comparison.json and comparison.png are in {options.out}")
    return 0


def _drawn(rows: Sequence[dict[str, Any]]) -> plots.Figure:
    with plots.style():
        figure, panel = plots.panels(size=(4.6, 3.4))
        sizes, values, errors = (np.array([row[name] for row in rows]) for name in ("hidden", "value", "error"))
        plots.simulation_points(panel, sizes, values, errors)
        panel.set(xlabel="hidden neurons", ylabel="log-likelihood held out (nats per example)", xscale="log")
        panel.set_xticks(sizes, [str(size) for size in sizes], minor=False)
        panel.minorticks_off()
        return figure
