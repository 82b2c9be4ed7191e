"""Learn a distribution: a machine of spins learns, its modes beside the noise and beside the theory's learning curve."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import check
from equilibria.app.lab import code
from equilibria.app.lab.catalogue import DISTRIBUTION
from equilibria.app.lab.rooms.room import FRAME, Room
from equilibria.app.lab.rooms.stepwise import stepwise
from equilibria.papers.decelle2017.curve import excited, without_fields

SCALE = 0.01  # of the first weights
EXAMPLES = 400  # that are learned from, all of them in every update
CHAINS = 400
MODES = 4  # that theory follows
SHOWN = 10  # modes that are drawn
DRAWN = 36  # samples that are shown
# Cluster centres are -1 and +1, and so are the modes they make; the hidden components begin normal and flatten while learning.
CLUSTER_LAWS: dict[str, Any] = {"normal": ("bernoulli", "gaussian"), "two-valued": "bernoulli"}
LAWS: dict[str, Any] = {"normal": "gaussian"}
_TIMES = np.geomspace(0.02, 2.0, 24)  # rate times updates, at which theory is asked
# Chains of each kind of start, and how long they run: R-hat below 1.01 needs chains that are long, not many.
_DIAGNOSED: dict[str, Any] = {"how": eq.Sweeps(800), "chains": 8, "draws": 200}
_ANNEAL, _ANNEALED = 300, 64  # temperatures and chains
_EVERY = 20  # records between two looks at the likelihood


class Table(NamedTuple):
    """What is learned: spins, and where they stand in a picture."""

    spins: np.ndarray  # (examples, columns), -1 and +1
    kept: np.ndarray  # which columns of the whole table these are
    shape: tuple[int, int]  # of the picture that a whole row makes
    laws: dict[str, Any]  # of the components, in theory


class Distribution(Room):
    """A training, and what theory says it will do."""

    plan = DISTRIBUTION

    def run(self) -> Iterator[float | None]:
        """The data, then training with theory's curve growing beside it."""
        self.rows: list[dict[str, Any]] = []
        self.scores: list[dict[str, float]] = []
        self.table = chosen(self["data"], self["seed"], self.tables.get(self["table"]))
        self.weights = first_weights(self.table.spins.shape[1], self["hidden"], self["seed"])
        edge = eq.theory.marchenko_pastur_edges(*self.weights.shape, variance=SCALE**2)[1]
        height, width = self.table.shape
        self.emit(
            {
                "kind": "data", "examples": len(self.table.spins), "visible": self.weights.shape[0],
                "hidden": self.weights.shape[1], "edge": edge, "rate": self["rate"], "height": height, "width": width,
                "pictures": self._pictures(self.table.spins[:DRAWN]),
            }
        )  # fmt: skip
        yield None
        curve = itertools.chain.from_iterable(itertools.zip_longest(*map(self._curve, self.table.laws)))
        for number, step in enumerate(stepwise(self._train)):
            self._record(step)
            yield None
            self._samples()
            yield None
            next(curve, None)
            yield None
            if number % _EVERY == _EVERY - 1:
                yield from self._score(step)
            yield FRAME
        yield from curve
        yield from self._score(self["steps"])

    def _train(self, pause: Callable[[Any], None]) -> None:
        network = eq.rbm(weights=self.weights, visible=eq.Spin(), hidden=eq.Spin())
        steps = sorted({*eq.log_spaced_steps(self["steps"], 120), *range(25, self["steps"], 25)})

        def record(step: int, network: eq.Network, row: Any) -> None:
            self.network, self.values = network, row["singular_values"]
            pause(step)

        eq.train(
            network, self.table.spins, eq.pcd(self["sweeps"], CHAINS, centered_gradient=False), steps=self["steps"],
            batch_size=len(self.table.spins), optimiser=without_fields(self["rate"]), record=steps,
            metrics=eq.watch_spectrum(), callbacks=[record], show_progress=False, key=eq.key(self["seed"] + 2),
        )  # fmt: skip

    def _record(self, step: int) -> None:
        """The singular values, and how many of them noise does not explain."""
        weights = np.asarray(self.network.couplings[0].matrix())
        noise = eq.theory.marchenko_pastur_fit(weights)
        row = {"step": step, "time": step * self["rate"], "values": np.asarray(self.values), "edge": noise.edge,
               "outliers": noise.outliers}  # fmt: skip
        self.rows.append(row)
        strongest = np.argsort(-np.linalg.norm(weights, axis=0))[:DRAWN]
        self.emit({"kind": "record", **row, "filters": self._pictures(weights[:, strongest].T)})

    def _samples(self) -> None:
        """Chains of the room's own, which go on from record to record."""
        count = len(self.rows)
        start = getattr(self, "draws", None)
        key = eq.key(1000 * self["seed"] + count)
        self.draws = eq.sample(self.network, eq.Sweeps(10), chains=DRAWN, start=start, show_progress=False, key=key)
        self.emit({"kind": "samples", "pictures": self._pictures(np.asarray(self.draws["visible"]))})

    def _score(self, step: int) -> Iterator[None]:
        """The likelihood between its brackets, and whether chains forget where they began."""
        options: Any = {"chains": _ANNEALED, "steps": _ANNEAL, "key": eq.key(self["seed"] + step)}
        found = eq.log_likelihood(self.network, self.table.spins, "ais", **options)
        low, high = found.bracket or (found.value, found.value)
        yield None
        mixing = eq.diagnose(self.network, self.table.spins, **_DIAGNOSED, show_progress=False, key=options["key"])
        score = {"step": step, "time": step * self["rate"], "value": found.value, "low": low, "high": high,
                 "mixed": mixing.mixed, "r_hat": mixing.r_hat, "verdict": mixing.verdict}  # fmt: skip
        self.scores.append(score)
        self.emit({"kind": "score", **score})
        yield None

    def _curve(self, law: str) -> Iterator[None]:
        """Theory's curve, a stretch of time at each step: where one stretch ends the next begins."""
        modes = min(MODES, *self.weights.shape)
        here, before = excited(self.table.spins, self.weights, modes), 0.0
        right = np.linalg.svd(here, full_matrices=False)[2][:modes]
        for time in _TIMES:
            if time > self["steps"] * self["rate"] * 1.05:
                return
            options: Any = {"modes": modes, "components": self.table.laws[law], "tolerance": 1e-2}
            try:
                found = eq.theory.learning_curve(self.table.spins, here, [time - before], **options)
            except RuntimeError as error:
                self.emit({"kind": "curve ends", "text": str(error)})
                return
            # Only the left vectors and the strengths matter: the hidden components stand for their law.
            here, before = (found.vectors[-1] * found.strengths[-1]) @ right, float(time)
            self.emit({"kind": "curve", "law": law, "time": before, "strengths": found.strengths[-1]})
            yield None

    def _pictures(self, rows: np.ndarray) -> np.ndarray:
        """Rows as whole pictures, with 0 where the table has a column that is not learned."""
        whole = np.zeros((len(rows), int(np.prod(self.table.shape))), np.float32)
        whole[:, self.table.kept] = rows
        return whole

    def dataset(self) -> xr.Dataset:
        """By record: singular values, the edge of noise and how many modes lie beyond."""
        values = np.array([row["values"][:SHOWN] for row in self.rows]).reshape(len(self.rows), -1)
        columns = {
            "singular_values": (("step", "mode"), values),
            "edge": ("step", np.array([row["edge"] for row in self.rows])),
            "outliers": ("step", np.array([row["outliers"] for row in self.rows])),
        }
        return xr.Dataset(columns, {"step": [row["step"] for row in self.rows]}, dict(self.state))

    def code(self) -> str:
        """The training with public calls."""
        return code.distribution(self.state)

    @classmethod
    def warm(cls) -> None:
        """Some records, with theory and a likelihood."""
        room = cls(cls.plan.state({"steps": 200}), lambda message: None, {})
        for _ in zip(range(8), room.run(), strict=False):
            pass
        for _ in room._score(1):
            pass


def chosen(kind: str, seed: int, table: np.ndarray | None) -> Table:
    """The spins that are learned, each column about its own median: a machine without fields cannot learn a mean."""
    if kind == "clusters":
        spins = clusters(eq.key(seed))
        return Table(spins, np.arange(100), (10, 10), CLUSTER_LAWS)
    if kind == "digits":
        return about_medians(eq.data.grey(eq.data.digits().train_images[:EXAMPLES]), (8, 8), 0.5)
    if table is None:
        check.refuse("table", "none that is here", "a file dropped on this page while this lab runs")
    side = round(table.shape[1] ** 0.5)
    shape = (side, side) if side**2 == table.shape[1] else (1, table.shape[1])
    return about_medians(table[:EXAMPLES], shape, 0.9)


def about_medians(values: np.ndarray, shape: tuple[int, int], most: float) -> Table:
    """Whether each value is above its column's median; columns that are nearly always on one side are left out."""
    low, middle, high = np.percentile(values, [0, 50, 100], axis=0)
    cut = np.where(middle == high, (low + high) / 2, middle)  # most values may be the highest: no value is above that
    spins = np.where(values > cut, 1.0, -1.0)
    kept = np.flatnonzero(np.abs(spins.mean(axis=0)) < most)
    if len(kept) < 2:
        check.refuse(
            "table", f"{len(kept)} columns that vary", "at least 2 columns with values on both sides of their medians"
        )
    return Table(spins[:, kept], kept, shape, LAWS)


def clusters(key: Any) -> np.ndarray:
    """Noisy copies of three random centres, of both signs, half, a third and a sixth of them."""
    centre_key, sign_key, noise_key = jax.random.split(key, 3)
    centres = np.asarray(eq.data.random_patterns(3, 100, key=centre_key))
    whose = np.repeat(np.arange(3), [200, 133, 67])
    signs = np.asarray(eq.data.random_patterns(1, EXAMPLES, key=sign_key))[0]
    return np.asarray(eq.data.blurred_examples(centres[whose], 1, 0.8, key=noise_key))[:, 0] * signs[:, None]


def first_weights(visible: int, hidden: int, seed: int) -> np.ndarray:
    """The weights before learning."""
    return SCALE * np.random.default_rng(seed).normal(size=(visible, hidden))


ROOM = Distribution
