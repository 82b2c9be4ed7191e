"""Whether chains mix: jumps between clusters by sweeps, by tempering along temperatures and along the networks of a run.

Three kinds of data: MNIST's zeros and ones; planted clusters in one, two and three dimensions; and a table of the shape of
population genetics (a tree of populations, sites that drift apart along its branches). A machine is trained on each with chains
that exchange along the ladder of the run itself, from a start of low rank or from the data's fields, and then sampled in three
ways. Each row says how often a chain changes its cluster in 10^4 sweeps, the same for 10^4 products of a state with the matrix,
R-hat over chains from noise and from data, and how far the clusters' weights are from the data's in standard errors.
`python -m benchmarks.mixing sampling planted-1` runs one part of one case; without words all of them are run.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

import equilibria as eq
from equilibria.measure.convergence import convergence
from equilibria.measure.spectra import principal_components

CHAINS, SWEEPS = 40, 4000
RUNGS = 8
MOST = 24  # rungs of a ladder that is sampled along


class Case(NamedTuple):
    """Data with clusters: rows, the centres, and how the machine is trained."""

    rows: np.ndarray
    centres: np.ndarray
    hidden: int
    components: int
    updates: int
    rate: float


def planted(dimensions: int, seed: int = 0) -> Case:
    """Clusters at the corners of a simplex in some dimensions: 200 neurons, a tenth of them flipped, unequal weights."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(0, 2, (dimensions + 1, 200))
    shares = np.arange(1, dimensions + 2) / np.arange(1, dimensions + 2).sum()
    which = rng.choice(dimensions + 1, 4000, p=shares)
    rows = np.abs(centres[which] - (rng.random((4000, 200)) < 0.1)).astype(np.float32)
    return Case(rows, centres.astype(np.float32), 20, dimensions, 1000, 0.05)


def populations(seed: int = 0) -> Case:
    """A tree of populations: 4 founders drift from one root (Balding and Nichols, F = 0.4), 1,000 haplotypes at 400 sites."""
    rng = np.random.default_rng(seed)
    root = rng.uniform(0.1, 0.9, 400)
    drift = (1 - 0.4) / 0.4
    frequencies = rng.beta(drift * root, drift * (1 - root), (4, 400))
    which = rng.choice(4, 1000, p=[0.4, 0.3, 0.2, 0.1])
    rows = (rng.random((1000, 400)) < frequencies[which]).astype(np.float32)
    return Case(rows, frequencies.astype(np.float32), 30, 3, 1000, 0.05)


def zeros_and_ones() -> Case:
    """MNIST's zeros and ones cut at one half, with the means of both as centres."""
    images = eq.data.mnist()
    chosen = np.isin(images.train_labels, (0, 1))
    labels = images.train_labels[chosen]
    rows = (images.train_images[chosen].reshape(chosen.sum(), -1) > 127).astype(np.float32)
    return Case(rows, np.stack([rows[labels == digit].mean(0) for digit in (0, 1)]), 64, 1, 2000, 0.02)


CASES: dict[str, Callable[[], Case]] = {
    "planted-1": lambda: planted(1),
    "planted-2": lambda: planted(2),
    "planted-3": lambda: planted(3),
    "populations": populations,
    "mnist01": zeros_and_ones,
}


def cluster(rows: Any, centres: Any) -> Any:
    """The number of the nearest centre, -1 where the second nearest is hardly farther."""
    distances = jnp.square(rows[..., None, :] - centres).sum(-1)
    order = jnp.sort(distances, axis=-1)
    return jnp.where(order[..., 0] < 0.8 * order[..., 1], jnp.argmin(distances, axis=-1), -1)


def jumps(labels: np.ndarray) -> np.ndarray:
    """How often each chain (steps, chains) was last seen in another cluster than now."""
    count, last = np.zeros(labels.shape[1]), labels[0].copy()
    for row in labels[1:]:
        known = row >= 0
        count += known & (last >= 0) & (row != last)
        last = np.where(known, row, last)
    return count


def sampled(case: Case, network: eq.Network, how: Any, products: float, seed: int = 0) -> str:
    """One row of the table: chains from noise and from data, and what is counted along the second half of their steps."""
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 2, (CHAINS, case.rows.shape[1])).astype(np.float32)
    start = np.concatenate([noise, case.rows[rng.choice(len(case.rows), CHAINS)]])
    centres = jnp.asarray(case.centres)

    def observe(state: Any) -> Any:
        return cluster(state["visible"], centres), state["visible"] @ (centres[0] - centres[-1])

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rest, seen = eq.trajectory(network, how, start, observe=observe, key=seed + 1)
    labels, along = (np.asarray(part)[SWEEPS // 2 :] for part in seen)
    trips = f"{float(rest.info['round_trips']):.2f}" if "round_trips" in rest.info else "-"
    rates = f"{float(rest.info['exchange_rates'].min()):.2f}" if "exchange_rates" in rest.info else "-"
    told = "; ".join(str(item.message).partition(":")[0] for item in caught)
    return f"{counted(case, labels, along, products)} | {trips} | {rates} |{f' {told}' if told else ''}"


def counted(case: Case, labels: np.ndarray, along: np.ndarray, products: float) -> str:
    """Jumps in 10^4 sweeps and in 10^4 products, R-hat and effective samples, and the clusters' shares (steps, chains)."""
    moved = jumps(labels).mean() * 1e4 / len(labels)
    worst = convergence(along.T)
    # Shares by chain means, which are independent of one another, against the data's.
    data = np.asarray(cluster(jnp.asarray(case.rows[:4000]), jnp.asarray(case.centres)))
    scores = []
    for number in range(len(case.centres)):
        each = (labels == number).mean(0)
        wanted = (data == number).mean()
        error = np.hypot(each.std(ddof=1) / np.sqrt(len(each)), np.sqrt(wanted * (1 - wanted) / len(data)))
        scores.append(abs(each.mean() - wanted) / max(error, 1e-9))
    shares = " ".join(f"{(labels == number).mean():.2f}" for number in range(len(case.centres)))
    return f"{moved:.2f} | {moved / products:.3f} | {worst.r_hat:.3f} | {worst.ess:.0f} | {shares} | {max(scores):.1f}"


def trained(case: Case, kind: str, folder: str, seed: int = 0) -> tuple[eq.Network, Any, float]:
    """A machine trained in one of the ways: what it is, its history, seconds."""
    start = eq.rbm(case.rows.shape[1], case.hidden, key=seed)
    if kind.startswith("low rank"):
        start = eq.low_rank_start(case.rows, case.hidden, components=min(case.components, 2), key=seed).network
    recipe = eq.pcd(10, chains=500, opening="network" if kind.startswith("zero fields") else "data")
    if kind.endswith("along training"):
        recipe = eq.tempered(1, chains=200, along="training", rungs=RUNGS)
    if kind.endswith("reweighted"):
        recipe = eq.reweighted(10, chains=500)
    began = time.perf_counter()
    run = eq.train(
        start, case.rows, recipe, steps=case.updates, batch_size=min(500, len(case.rows)), learning_rate=case.rate,
        metrics=eq.watch_spectrum(), checkpoint=folder, keep=0.3, key=seed + 1,
        record=[step for step in eq.log_spaced_steps(case.updates, 12)],
    )  # fmt: skip
    return run.network, run, time.perf_counter() - began


KINDS = (
    "zero fields, pcd",
    "data's fields, pcd",
    "data's fields, along training",
    "data's fields, reweighted",
    "low rank, pcd",
    "low rank, along training",
    "low rank, reweighted",
)
SAMPLED = ("data's fields, along training", "data's fields, reweighted")  # whose machines are sampled in three ways


def report(name: str) -> None:
    """What each way of training leaves: singular values along the run, and the log-likelihood."""
    case = CASES[name]()
    print(
        f"\n{titled(name, case)}\n\n| training | largest singular value along the run | log-likelihood |\n|---|---|---|"
    )
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            network, run, _ = trained(case, kind, folder)
            values = run.history["singular_values"].values[:, 0][[3, 6, 8, 10, -1]]
            found = eq.log_likelihood(network, case.rows[:4000], "ais", steps=2000, chains=100, burn_in=200, key=5)
            print(f"| {kind} | {' '.join(f'{value:.1f}' for value in values)} | {found} |", flush=True)


def titled(name: str, case: Case) -> str:
    """A line about the data of a case."""
    data = np.asarray(cluster(jnp.asarray(case.rows[:4000]), jnp.asarray(case.centres)))
    shares = " ".join(f"{(data == number).mean():.2f}" for number in range(len(case.centres)))
    return f"### {name}: {case.rows.shape[0]} rows of {case.rows.shape[1]}, {case.hidden} hidden; clusters {shares}"


def sampling(name: str) -> None:
    """A machine sampled in three ways. Products with the matrix: two in a sweep, one more for each free energy looked at."""
    case = CASES[name]()
    print(f"\n{titled(name, case)}")
    columns = (
        "way | jumps in 1e4 sweeps | in 1e4 products | R-hat | effective | clusters | sigmas off | trips | least rate |"
    )
    for kind in SAMPLED:
        with tempfile.TemporaryDirectory() as folder:
            network, _, _ = trained(case, kind, folder)
            ladder = eq.Trajectory(folder)
            chosen, note = ladder[:], ""
            if len(ladder) > MOST:
                try:
                    chosen = ladder.chosen(0.3, key=0)
                except ValueError as error:
                    note = f"; a gap in it: {error}"
            # A long ladder of a run is thinned out: its rungs must fit the time there is.
            rungs = min(len(chosen) + 1, MOST)
            print(f"\n{kind}: {len(ladder)} networks kept, {len(chosen)} chosen, {rungs} rungs{note}\n")
            print(f"| {columns}\n|{'---|' * 9}", flush=True)
            ways: dict[str, tuple[Any, float]] = {
                "sweeps": (eq.Sweeps(SWEEPS), 2.0),
                f"temperatures, {rungs} rungs": (eq.Tempered(SWEEPS, rungs=rungs, hottest=5.0), 3.0 * rungs),
                f"trajectory, {rungs} rungs": (eq.Tempered(SWEEPS, rungs=rungs, ladder=chosen), 4.0 * rungs),
            }
            for way, (how, products) in ways.items():
                print(f"| {way} | {sampled(case, network, how, products)}", flush=True)


def partition(name: str) -> None:
    """ln Z of a machine with 20 hidden neurons, exactly, by annealing, by annealing along its run, and as the run told it."""
    case = CASES[name]()._replace(hidden=20)
    for kind in SAMPLED:
        with tempfile.TemporaryDirectory() as folder:
            network, run, _ = trained(case, kind, folder)
            truth = eq.log_partition(network).value
            ladder = eq.Trajectory(folder)
            places = np.unique(np.linspace(0, len(ladder) - 1, min(len(ladder), MOST)).astype(int))
            options: dict[str, Any] = {"steps": 3000, "chains": 100, "burn_in": 200, "key": 5}
            found = {
                "annealed": eq.log_partition(network, "ais", data=case.rows, **options),
                "along the run": eq.log_partition(network, "ais", ladder=[ladder[int(n)] for n in places], **options),
            }
            last = run.history.isel(step=-1)
            told = f"{float(last.log_partition):.2f} ± {float(last.log_partition_error):.2f}"
            numbers = " | ".join(f"{value} ({value.value - truth:+.2f})" for value in found.values())
            print(f"| {name}, {kind} | {truth:.2f} | {numbers} | {told} |", flush=True)


def exact(name: str = "mnist01") -> None:
    """Cluster weights that are known exactly: 12 hidden neurons, draws by enumeration."""
    case = CASES[name]()._replace(hidden=12)
    centres = jnp.asarray(case.centres)
    data = np.asarray(cluster(jnp.asarray(case.rows), centres))
    wanted = np.array([(data == number).mean() for number in range(len(centres))])
    print(f"\n### {name} with 12 hidden neurons, exactly: clusters {wanted.round(3)} in the data")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            network, run, seconds = trained(case, kind, folder)
            draws = np.asarray(cluster(eq.sample(network, eq.Exact(), chains=5000, key=1)["visible"], centres))
            found = np.array([(draws == number).mean() for number in range(len(centres))])
            likelihood = eq.log_likelihood(network, case.rows[:4000]).value
            told = run.history["train_log_likelihood"].values[-1]
            error = run.history["log_partition_error"].values[-1]
            largest = run.history["singular_values"].values[-1, 0]
            print(
                f"{kind:32} largest value {largest:7.1f}, clusters {found.round(3)}, log-likelihood {likelihood:8.2f} exactly, "
                f"{told:8.2f} ± {error:.2f} along the run, {seconds:.0f} s",
                flush=True,
            )


def remedy(name: str, steps: int | None = None, chains: int = 500, rounds: int = 12_000) -> None:
    """What the how-to advises: a start of low rank, chains that a root supplies or that have weights, a rate that falls.

    With 12 hidden neurons shares and likelihood are by enumeration, else by chains along the networks of the run.
    """
    case = CASES[name]()
    columns = "hidden | training | largest value at 1/4, 1/2, the end | clusters | errors off | log-likelihood"
    print(f"\n### {name}\n\n| {columns} | least rate | R-hat | ESS |\n|{'---|' * 9}", flush=True)
    for hidden in (12, case.hidden):
        start = eq.low_rank_start(case.rows, hidden, components=min(max(case.components, 2), 3), key=0)
        climbing = eq.tempered(1, chains=chains, along="training", rungs=8 if hidden < 20 else 12, acceptance=0.7)
        recipes = {"root": start.rooted(climbing), "weights": eq.reweighted(10, chains=2 * chains)}
        for kind, recipe in recipes.items():
            with tempfile.TemporaryDirectory() as folder:
                last = steps or 3 * case.updates // 2
                run = eq.train(
                    start.network, case.rows, recipe, steps=last, batch_size=min(500, len(case.rows)), learning_rate=0.02,
                    final_rate=0.01, metrics=eq.watch_spectrum(), checkpoint=folder, keep=0.5,
                    record=[last // 4, last // 2, last], key=1,
                )  # fmt: skip
                row = remedied(case, start, run, eq.Trajectory(folder), rounds)
                print(f"| {hidden} | {kind} | {row} |", flush=True)


def remedied(case: Case, start: Any, run: eq.Run, ladder: eq.Trajectory, rounds: int, test: Any = None) -> str:
    """What a machine is like: its spectrum, its clusters beside the data's, its likelihood, and R-hat from both starts.

    A state belongs to the cluster whose mean is nearest to it among the first three principal components; none is left out.
    Without a start of low rank the ladder has no root. The likelihood is of test examples where there are some.
    """
    shown = case.rows[:4000] if test is None else test

    def along(steps: int) -> Any:
        how = eq.Tempered(steps, ladder=ladder)
        return how if start is None else start.rooted(how)

    found = eq.diagnose(run.network, case.rows, how=along(rounds), chains=20, draws=min(1000, rounds // 2), key=7)
    short = along(min(500, rounds))
    rates = eq.equilibrate(run.network, short, case.rows[:40], key=8).info["exchange_rates"]
    directions = principal_components(case.rows).first[:3]
    nearest = np.argmin(np.square(case.rows[:, None] - case.centres).sum(-1), axis=1)
    data = case.rows @ directions.T
    middles = np.stack([data[nearest == number].mean(0) for number in range(len(case.centres))])

    def shares(points: np.ndarray) -> np.ndarray:
        """Of points (..., 3) in each cluster, over the last but one axis."""
        own = np.argmin(np.square(points[..., None, :] - middles).sum(-1), axis=-1)
        return np.stack([(own == number).mean(-1) for number in range(len(middles))], axis=-1)

    wanted = shares(data)
    if len(run.network.layers[1].bias) < 20:
        draws = np.asarray(eq.sample(run.network, eq.Exact(), chains=20_000, key=3)["visible"]) @ directions.T
        here, error = shares(draws), np.sqrt(wanted * (1 - wanted) / len(draws))
        likelihood = f"{eq.log_likelihood(run.network, shown).value:.2f} exactly"
    else:
        each = shares(np.stack([found.draws[f"pc{place}"].values for place in range(3)], axis=-1))  # of each chain
        here, error = each.mean(0), each.std(0, ddof=1) / np.sqrt(len(each))
        options: dict[str, Any] = {"steps": 10_000, "chains": 100, "burn_in": 200, "key": 5}
        likelihood = str(eq.log_likelihood(run.network, shown, "ais", ladder=ladder, **options))
    off = np.abs(here - wanted) / np.hypot(error, np.sqrt(wanted * (1 - wanted) / len(data)))
    values = " ".join(f"{value:.1f}" for value in run.history["singular_values"].values[:, 0])
    clusters = " ".join(f"{value:.3f}" for value in here) + " (" + " ".join(f"{value:.3f}" for value in wanted) + ")"
    numbers = f"{float(rates.min()):.2f} | {found.r_hat:.4f} | {found.ess:.0f}"
    return f"{values} | {clusters} | {off.max():.1f} | {likelihood} | {numbers}"


class Clock:
    """Processor seconds of some functions of a class, all calls together; a run waits for its chunks before it looks."""

    def __init__(self, owner: type, *names: str):
        self.seconds, self.owner, self.before = 0.0, owner, {name: getattr(owner, name) for name in names}

    def __enter__(self) -> Clock:
        for name, function in self.before.items():
            setattr(self.owner, name, self._timed(function))
        return self

    def __exit__(self, *error: object) -> None:
        for name, function in self.before.items():
            setattr(self.owner, name, function)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            began = time.process_time()
            try:
                return function(*given)
            finally:
                self.seconds += time.process_time() - began

        return timed


# The machine that plain chains fail on: hidden neurons, rungs, and whether it starts at low rank.
EXAMPLE = {
    "12, low rank": (12, 8, True),
    "64, low rank": (64, 12, True),
    "64, data's fields": (64, 12, False),
}


def settling(steps: int) -> optax.GradientTransformation:
    """Gradient descent at a rate that falls in a line from 0.02 to 0.002, and in the last third by a factor in each update.

    A cluster's share follows what the chains say of it at a pace in proportion to the rate, and 500 chains say it to 0.022. In
    the last third a hundredth of the rate is left at the end: an e-fold takes 217 of 1,000 updates, and so long is the time
    over which the chains' shares are averaged. A line to the same end would leave some 60 updates.
    """
    last = steps // 3
    line = optax.linear_schedule(0.02, 0.002, steps - last)
    return optax.sgd(optax.join_schedules([line, optax.exponential_decay(0.002, last, 0.01)], [steps - last]))


def example(rows: Sequence[str] = tuple(EXAMPLE), steps: int = 3000, rounds: int = 24_000, seed: int = 10) -> None:
    """Zeros and ones of MNIST, with and without the start of low rank: the same updates, and what they took.

    With 12 hidden neurons shares and likelihood are by enumeration. The likelihood is that of MNIST's test images. Seconds are
    of the processor; "looking" is the share of them that a run's likelihoods and the networks that it keeps take.
    """
    from equilibria.learn.trajectory import Keeper

    case, images, chains = CASES["mnist01"](), eq.data.mnist(), 500
    test = (images.test_images[np.isin(images.test_labels, (0, 1))].reshape(-1, 784) > 127).astype(np.float32)
    columns = (
        "hidden, start | largest value at 1/4, 1/2, the end | clusters | errors off | test log-likelihood | least rate"
    )
    print(f"\n| {columns} | R-hat | ESS | along the run | seconds | looking |\n|{'---|' * 11}", flush=True)
    for label in rows:
        hidden, rungs, low = EXAMPLE[label]
        began = time.process_time()
        start = eq.low_rank_start(case.rows, hidden, components=2, key=seed) if low else None
        network = start.network if start else eq.rbm(784, hidden, key=seed)
        recipe = eq.tempered(1, chains=chains, along="training", rungs=rungs, acceptance=0.7)
        with tempfile.TemporaryDirectory() as folder, Clock(Keeper, "look", "row") as looking:
            run = eq.train(
                network, case.rows, start.rooted(recipe) if start else recipe, steps=steps, batch_size=500,
                optimiser=settling(steps), metrics=eq.watch_spectrum(), checkpoint=folder, keep=0.5, validation=test,
                record=[steps // 4, steps // 2, steps], key=seed + 1,
            )  # fmt: skip
            seconds, kept = time.process_time() - began, len(eq.Trajectory(folder))
            last = run.history.isel(step=-1)
            told = f"{float(last.validation_log_likelihood):.2f} ± {float(last.log_partition_error):.2f}"
            note = f"{label}: trained in {seconds:.0f} s, {kept} networks kept, {told} along the run"
            print(note, file=sys.stderr, flush=True)
            row = remedied(case, start, run, eq.Trajectory(folder), rounds, test)
        print(f"| {label} | {row} | {told} | {seconds:.0f} | {looking.seconds / seconds:.1%} |", flush=True)


def large(folder: str, hours: float = 2.0, *, hidden: int = 500, epochs: int = 200, rows: int | None = None) -> None:
    """The 784 x 500 machine on all of MNIST for some hours at most, and its test log-likelihood.

    A folder that has part of the run goes on, for as many hours again; after the end the same command tells the likelihood.
    Not among the cases: it takes the time that it is given. The goal is a low end of the bracket above -84.0 nats.
    """
    images = eq.data.mnist()
    train, test = (
        (part.reshape(len(part), -1) > 127).astype(np.uint8)[:rows]
        for part in (images.train_images, images.test_images)
    )
    run = eq.train(
        eq.rbm(784, hidden, key=0), train, eq.tempered(5, chains=200, along="training", rungs=12, acceptance=0.7),
        epochs=epochs, batch_size=500, learning_rate=0.02, final_rate=0.01, checkpoint=folder, resume=True,
        keep=0.3, validation=test, callbacks=[eq.TimeLimit(3600 * hours), eq.WatchMixing(train[:5000])], key=1,
    )  # fmt: skip
    last = run.history.isel(step=-1)
    told = f"{float(last.validation_log_likelihood):.2f} ± {float(last.log_partition_error):.2f} along the run"
    print(f"step {int(last.step)}, {run.stopped or 'to its end'}: {told}", flush=True)
    ladder = eq.Trajectory(folder)
    steps = max(14_500, 2 * len(ladder))
    print(eq.log_likelihood(run.network, test, "ais", ladder=ladder, steps=steps, chains=100, key=2), flush=True)


PARTS: dict[str, Callable[[str], None]] = {
    "training": report,
    "sampling": sampling,
    "partition": partition,
    "exact": lambda name: exact(name) if name == "mnist01" else None,
    "remedy": remedy,
    "example": lambda name: example() if name == "mnist01" else None,
}


def main(*words: str) -> None:
    """All parts of all cases, or those named; `large FOLDER` by itself."""
    if "large" in words:
        large(words[words.index("large") + 1])
        return
    for part in [word for word in words if word in PARTS] or PARTS:
        for name in [word for word in words if word in CASES] or CASES:
            PARTS[part](name)


if __name__ == "__main__":
    main(*sys.argv[1:])
