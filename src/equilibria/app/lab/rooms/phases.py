"""Phase diagram: theory of three kinds of networks, and small ones simulated where a visitor asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import check
from equilibria.app.lab import code
from equilibria.app.lab.catalogue import PHASES
from equilibria.app.lab.rooms import hopfield
from equilibria.app.lab.rooms.room import Room
from equilibria.measure.storage import recall
from equilibria.papers.decelle2017.ensemble import machine, measure

NEURONS = 400
CHAINS, SWEEPS = 8, 40
_ROWS = (NEURONS, 4 * NEURONS)  # of factors that there is compiled code for
_MODE_SWEEPS = 60
_GRID = np.linspace(0.0, 3.0, 31)


class Phases(Room):
    """A diagram, a point in it, and the points of a rectangle as they are simulated."""

    plan = PHASES

    def run(self) -> Iterator[float | None]:
        """The lines, the point, then the rectangle cell by cell."""
        self.cells: list[dict[str, float]] = []
        self._point()
        yield None
        lines = {"hopfield": self._hopfield, "examples": self._examples, "modes": self._modes}[self["model"]]
        yield from lines()
        asked = cells(self["area"], self["points"], self._limits())
        for number, (x, y) in enumerate(asked):
            found = self.simulated(x, y, number)
            self.cells.append(found)
            self.emit({"kind": "cell", "done": number + 1, "of": len(asked), **found})
            yield None

    def _limits(self) -> tuple[float, float]:
        return (3.0, 3.0) if self["model"] == "modes" else (1.0, 2.0)

    def _hopfield(self) -> Iterator[None]:
        found = yield from hopfield.diagram(self["sleep"])
        self.emit({"kind": "lines", "model": "hopfield", **found})

    def _examples(self) -> Iterator[None]:
        rows = []
        for piece in np.array_split(hopfield.TEMPERATURES, 6):
            rows.append(_examples_capacity(tuple(piece), *self._dataset(), self._sleep()))
            yield None
        capacity = np.concatenate(rows)
        self.emit({"kind": "lines", "model": "examples", "temperatures": hopfield.TEMPERATURES, "spinodal": capacity})

    def _modes(self) -> Iterator[None]:
        kept = []
        for piece in np.array_split(_GRID, 2):
            kept.append(_critical(tuple(piece), self["aspect"]))
            yield None
        strengths = _GRID[_GRID > 1.0]
        breaking = _breaking(tuple(strengths), self["aspect"])
        self.emit(
            {
                "kind": "lines", "model": "modes", "noise": _GRID, "critical": np.concatenate(kept),
                "strength": strengths, "breaking": breaking,
            }
        )  # fmt: skip

    def _dataset(self) -> tuple[float, int, bool]:
        return self["quality"], self["examples"], self["supervised"] == "labels"

    def _sleep(self) -> float:
        """Of a network that learns from examples only one with labels has a theory of sleep."""
        return self["sleep"] if self["supervised"] == "labels" or self["model"] == "hopfield" else 0.0

    def _point(self) -> None:
        """What theory says at the point that was clicked."""
        if self["here"]:
            (x, y) = numbers(self["here"], 2)
            found = self.predicted(*_inside(x, y, self._limits()))
            self.emit({"kind": "point", "x": x, "y": y, **found})

    def predicted(self, x: float, y: float) -> dict[str, float]:
        """The order parameter of theory at a point: 0 where its state does not exist."""
        if self["model"] == "modes":
            found = eq.theory.phase_diagram([x], [y], aspect=self["aspect"])
            return {"theory": float(found["hidden"].item()), "q": float(found["hidden_overlap"].item())}
        branch = "retrieval"
        if self["model"] == "hopfield":
            state = eq.theory.hopfield(x, y, self["sleep"], branch=branch)
        else:
            quality, many, labels = self._dataset()
            entropy = eq.theory.dataset_entropy(quality, many)
            state = eq.theory.hopfield_examples(
                x, y, entropy=entropy, examples=many, supervised=labels, sleep=self._sleep(), branch=branch
            )
        return {"theory": float(np.nan_to_num(state.m)), "q": float(np.nan_to_num(state.q))}

    def simulated(self, x: float, y: float, number: int) -> dict[str, float]:
        """One cell of the grid: a network of its own, with a seed of its own."""
        seed = 1000 * self["seed"] + number
        found = self._sampled(x, y, seed) if self["model"] == "modes" else self._recalled(x, y, seed)
        return {"x": x, "y": y, **found, **self.predicted(x, y)}

    def _sampled(self, noise: float, strength: float, seed: int) -> dict[str, float]:
        random = np.random.default_rng(seed)
        here = machine([strength], noise=noise, visible=NEURONS, aspect=self["aspect"], law="gaussian", random=random)
        seen = measure(here, chains=CHAINS, sweeps=_MODE_SWEEPS, key=eq.key(seed))
        return {"value": float(abs(seen.hidden[0])), "error": float((self["aspect"] * NEURONS) ** -0.5)}

    def _recalled(self, load: float, temperature: float, seed: int) -> dict[str, float]:
        network, targets = self.network(load, seed)
        found = np.asarray(recall(network, targets, temperature=temperature, sweeps=SWEEPS, key=eq.key(seed + 1)))
        # Chains share the network, whose own scatter no average over chains takes away: its size is 1/sqrt(N).
        return {"value": float(found.mean()), "error": float(np.hypot(found.std() / CHAINS**0.5, NEURONS**-0.5))}

    def network(self, load: float, seed: int) -> tuple[eq.Network, np.ndarray]:
        """A network at a load, and the patterns that its chains begin in."""
        count = max(1, round(load * NEURONS))
        patterns = np.asarray(eq.data.random_patterns(NEURONS, NEURONS, key=eq.key(seed)))[:count]
        if self["model"] == "hopfield":
            built = eq.hopfield(patterns, sleep=self["sleep"])
        else:
            quality, many, labels = self._dataset()
            if not labels and count * many > _ROWS[-1]:
                check.refuse("load", f"{count * many} examples in all", f"at most {_ROWS[-1]} without labels")
            shown = np.asarray(eq.data.blurred_examples(patterns, many, quality, key=eq.key(seed + 2)))
            built = eq.hopfield_from_examples(shown, supervised=labels, sleep=self._sleep())
        return hopfield.filled(built, _ROWS), patterns[np.arange(CHAINS) % count]

    def dataset(self) -> xr.Dataset:
        """The simulated cells, each with what theory says there."""
        names = ("load", "temperature") if self["model"] != "modes" else ("noise", "strength")
        columns = {"value": "overlap", "error": "error", "theory": "predicted", "x": names[0], "y": names[1]}
        rows = {new: ("cell", np.array([cell[old] for cell in self.cells], float)) for old, new in columns.items()}
        return xr.Dataset(rows, attrs={**self.state, "neurons": NEURONS})

    def code(self) -> str:
        """The same grid with public calls."""
        return code.phases(self.state, cells(self["area"], self["points"], self._limits()), self._sleep())

    @classmethod
    def warm(cls) -> None:
        """A cell of each model, and the lines of the modes."""
        for model, area in (("hopfield", "0.05,0.06,0.1,0.2"), ("modes", "0.5,0.6,1.5,1.6")):
            room = cls(cls.plan.state({"model": model, "area": area, "points": 1}), lambda message: None, {})
            for _ in room.run():
                pass


def numbers(text: str, count: int) -> list[float]:
    """Numbers between commas, as the address has them."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count or not np.isfinite(found).all():
        check.refuse("area", repr(text)[:60], f"{count} numbers between commas")
    return found


def cells(area: str, points: int, limits: tuple[float, float]) -> list[tuple[float, float]]:
    """The points of a rectangle x0,x1,y0,y1, in an order that covers it evenly from the start.

    >>> cells("0,1,0,1", 2, (1.0, 1.0))
    [(0.25, 0.25), (0.75, 0.75), (0.25, 0.75), (0.75, 0.25)]
    """
    if not area:
        return []
    x0, x1, y0, y1 = numbers(area, 4)
    (low, bottom), (high, top) = _inside(x0, y0, limits), _inside(x1, y1, limits)
    middles = (np.arange(points) + 0.5) / points
    xs, ys = low + (high - low) * middles, bottom + (top - bottom) * middles
    order = [(i, (i + shift) % points) for shift in range(points) for i in range(points)]
    return [(round(float(xs[i]), 6), round(float(ys[j]), 6)) for i, j in order]


def _inside(x: float, y: float, limits: tuple[float, float]) -> tuple[float, float]:
    return min(max(x, 0.0), limits[0]), min(max(y, 0.0), limits[1])


@lru_cache(maxsize=256)
def _examples_capacity(
    temperatures: tuple[float, ...], quality: float, examples: int, labels: bool, sleep: float
) -> np.ndarray:
    entropy = eq.theory.dataset_entropy(quality, examples)
    return np.asarray(
        eq.theory.hopfield_examples_capacity(
            np.array(temperatures), entropy=entropy, examples=examples, supervised=labels, sleep=sleep
        )
    )


@lru_cache(maxsize=64)
def _critical(noise: tuple[float, ...], aspect: float) -> np.ndarray:
    return eq.theory.critical_strength(np.array(noise), aspect=aspect)


@lru_cache(maxsize=64)
def _breaking(strengths: tuple[float, ...], aspect: float) -> np.ndarray:
    return eq.theory.breaking_line(np.array(strengths), aspect=aspect)


ROOM = Phases
