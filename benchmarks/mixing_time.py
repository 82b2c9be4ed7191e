"""What mixing buys in time, on the data of `benchmarks.mixing`.

`python -m benchmarks.mixing_time weights [case ...]`: how many products of a state with the matrix it takes until the clusters'
weights that chains from noise tell are those of the machine, which are known by enumeration (12 hidden neurons).
`python -m benchmarks.mixing_time likelihood [case ...]`: the log-likelihood of examples held out after equal times of training,
the start's own included, with a start of low rank and without. Times are those of the processor, on both cores together.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import jax.numpy as jnp
import numpy as np

import equilibria as eq
from benchmarks.mixing import CASES, Case, cluster

HIDDEN, CHAINS, STEPS = 12, 100, 4000
BIAS = 0.03  # a weight is unbiased from where no later estimate is farther off than this
SECONDS = (5.0, 15.0, 45.0)


def told(case: Case, network: eq.Network, how: Any) -> np.ndarray:
    """The share of chains from noise in each cluster at each step: (steps, clusters)."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 2, (CHAINS, case.rows.shape[1])).astype(np.float32)
    centres = jnp.asarray(case.centres)
    seen = eq.trajectory(network, how, noise, observe=lambda state: cluster(state["visible"], centres), key=1)[1]
    labels = np.asarray(seen)
    return np.stack([(labels == number).mean(1) for number in range(len(case.centres))], axis=1)


def unbiased_from(shares: np.ndarray, truth: np.ndarray) -> int | None:
    """The step from which the mean over the second half of all steps so far stays within `BIAS` of the truth; None if never.

    >>> unbiased_from(np.concatenate([np.ones((10, 1)), np.zeros((90, 1))]), np.array([0.0]))
    20
    """
    heaped = np.concatenate([np.zeros((1, shares.shape[1])), np.cumsum(shares, axis=0)])
    ends = np.arange(1, len(shares) + 1)
    means = (heaped[ends] - heaped[ends // 2]) / (ends - ends // 2)[:, None]
    off = np.flatnonzero(np.abs(means - truth).max(1) > BIAS)
    first = 1 if not len(off) else int(off[-1]) + 2
    return first if first <= 0.8 * len(shares) else None  # what is right at the end alone may be so by chance


def weights(name: str) -> None:
    """A row for each machine and way: what the chains tell in the end, and the products it took."""
    case = CASES[name]()._replace(hidden=HIDDEN)
    start = eq.low_rank_start(case.rows, HIDDEN, components=min(max(case.components, 2), 3), key=0)
    climbing = eq.tempered(1, chains=200, along="training", rungs=8, acceptance=0.7)
    begun = {
        "data's fields": (eq.rbm(case.rows.shape[1], HIDDEN, key=0), eq.tempered(1, chains=200, along="training")),
        "low rank": (start.network, start.rooted(climbing)),
    }
    for kind, (network, recipe) in begun.items():
        with tempfile.TemporaryDirectory() as folder:
            run = eq.train(
                network, case.rows, recipe, steps=case.updates, batch_size=min(500, len(case.rows)), learning_rate=case.rate,
                final_rate=0.01, checkpoint=folder, keep=0.5, record=[case.updates], key=1,
            )  # fmt: skip
            ladder = eq.Trajectory(folder)
            rungs = len(ladder) + 1
            hot = max(rungs, 8)
            draws = cluster(
                eq.sample(run.network, eq.Exact(), chains=20_000, key=3)["visible"], jnp.asarray(case.centres)
            )
            truth = np.array([(np.asarray(draws) == number).mean() for number in range(len(case.centres))])
            along = eq.Tempered(STEPS, ladder=ladder)
            ways: dict[str, tuple[Any, float]] = {
                "sweeps": (eq.Sweeps(STEPS), 2.0),
                f"temperatures, {hot} rungs": (eq.Tempered(STEPS, rungs=hot, hottest=5.0), 3.0 * hot),
                f"trajectory, {rungs} rungs": (along, 4.0 * rungs),
            }
            if kind == "low rank":
                ways["trajectory with its root"] = (start.rooted(along), 4.0 * rungs + 2)
            for way, (how, products) in ways.items():
                shares = told(case, run.network, how)
                found = unbiased_from(shares, truth)
                known = " ".join(f"{value:.2f}" for value in shares[len(shares) // 2 :].mean(0))
                wanted = " ".join(f"{value:.2f}" for value in truth)
                cost = f"more than {products * STEPS:,.0f}" if found is None else f"{products * found:,.0f}"
                print(f"| {name} | {kind} | {way} | {wanted} | {known} | {cost} |", flush=True)


class ProcessorLimit(eq.Callback):
    """Ends a run once this process has used so many seconds of the processor more than when it began."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def begin(self) -> None:
        """Start the clock."""
        self.until = time.process_time() + self.seconds

    def chunk(self, step: int) -> None:
        """Stop once the time is over."""
        if time.process_time() >= self.until:
            raise eq.StopRun("enough")


def likelihood(name: str) -> None:
    """A row for each time: the test log-likelihood with a start of low rank and without, exactly."""
    case = CASES[name]()._replace(hidden=HIDDEN)
    order = np.random.default_rng(0).permutation(len(case.rows))
    test, rows = case.rows[order[: len(order) // 5]], case.rows[order[len(order) // 5 :]]

    def learned(network: eq.Network, recipe: eq.Recipe, seconds: float) -> float:
        """The likelihood after so long at a constant rate, compiled before."""
        options: dict[str, Any] = {
            "batch_size": min(500, len(rows)),
            "learning_rate": case.rate,
            "record": [],
            "key": 1,
        }
        eq.train(network, rows, recipe, steps=2, **options)
        if seconds <= 0:
            return eq.log_likelihood(network, test).value
        run = eq.train(network, rows, recipe, steps=10**7, callbacks=[ProcessorLimit(seconds)], **options)
        return eq.log_likelihood(run.network, test).value

    components = min(max(case.components, 2), 3)
    eq.low_rank_start(rows, HIDDEN, components=components, key=0)  # compiled before
    began = time.process_time()
    start = eq.low_rank_start(rows, HIDDEN, components=components, key=0)
    took = time.process_time() - began
    plain = eq.rbm(rows.shape[1], HIDDEN, key=0)
    exchange = eq.tempered(1, chains=200, along="training")
    rooted = start.rooted(eq.tempered(1, chains=200, along="training", rungs=8, acceptance=0.7))
    for seconds in SECONDS:
        values = [
            learned(plain, eq.pcd(10, chains=200), seconds),
            learned(plain, exchange, seconds),
            learned(start.network, eq.pcd(10, chains=200), seconds - took),
            learned(start.network, rooted, seconds - took),
        ]
        told = " | ".join(f"{value:.2f}" for value in values)
        print(f"| {name} | {seconds:.0f} s | {took:.1f} s | {told} |", flush=True)


def main() -> None:
    """The parts and cases that are named, or all."""
    parts = {"weights": weights, "likelihood": likelihood}
    words = sys.argv[1:]
    for part in [word for word in words if word in parts] or list(parts):
        for name in [word for word in words if word in CASES] or list(CASES):
            parts[part](name)


if __name__ == "__main__":
    main()
