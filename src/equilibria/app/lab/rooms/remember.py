"""Remember: a Hopfield network falls from a cue, beside what theory says of a large one.

It is the first room that a visitor sees, so that nothing is imported here that its first sweep does not need.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import equilibria as eq
from equilibria import check
from equilibria.app.lab import code
from equilibria.app.lab.catalogue import NEURONS, REMEMBER
from equilibria.app.lab.rooms import hopfield
from equilibria.app.lab.rooms.room import Room, from_bits
from equilibria.random import fold_in

if TYPE_CHECKING:
    import xarray as xr

_SHOWN = 12  # patterns whose pictures the page gets
_KEPT = 2000  # sweeps that are kept for files


class Remember(Room):
    """One recall, sweep by sweep."""

    plan = REMEMBER

    def run(self) -> Iterator[float | None]:
        """Theory at the point, the network, then a sweep at a time."""
        self.sweep = -1  # how many have been made; the cue is number 0
        self.sweeps: collections.deque[dict[str, Any]] = collections.deque(maxlen=_KEPT)
        self.recent: list[float] = []  # overlaps since the last dial was turned
        self.steered, self.paused, self.steps = False, False, 0
        self._build()
        self._show()
        theory = self._theory()
        if hopfield.prepared(self["sleep"]):
            next(theory)
        yield None
        while True:
            began = time.perf_counter()
            if not self.paused or self.steps:
                self.steps = 0
                if not self._at_rest():
                    self._sweep()
            next(theory, None)  # a part of it between two sweeps, until it is whole
            yield max(0.0, 1 / self["pace"] - (time.perf_counter() - began))

    def _build(self) -> None:
        self.patterns, self.known = stored(self.state)
        built = eq.hopfield(self.patterns, sleep=self["sleep"])
        self.factors = np.asarray(built.couplings[0].factors)  # type: ignore[attr-defined]
        self.own = np.sum(self.factors**2, axis=0)  # the diagonal of F^T F, which is no coupling
        # With as many factors as any load has: one compiled program, hardly slower than one of fewer.
        self.network = hopfield.filled(built, (NEURONS,))
        self.target = min(self["target"], len(self.patterns) - 1)
        self.cue = cue(self.state, self.patterns[self.target])
        self.neurons, self.key = self.cue, eq.key(self["seed"] + 2)

    def _sweep(self) -> None:
        how = eq.Sweeps(1, order=self["order"])
        key = fold_in(self.key, self.sweep)  # that of `jax.random`, with nothing to compile
        rest = eq.equilibrate(
            self.network, how, self.neurons, temperature=self["temperature"], show_progress=False, key=key
        )
        self.moved = not np.array_equal(self.neurons, rest["neurons"])
        self.neurons = np.asarray(rest["neurons"])
        self._frame()

    def _at_rest(self) -> bool:
        return self["temperature"] == 0 and not self.moved

    def _show(self) -> None:
        """What is stored, and the cue."""
        self.moved = True
        self.emit(
            {
                "kind": "network", "count": len(self.patterns), "target": self.target, "known": self.known,
                "patterns": self.patterns[:_SHOWN].astype(np.int8),
                "goal": self.patterns[self.target].astype(np.int8), "cue": self.cue.astype(np.int8),
            }
        )  # fmt: skip
        self._frame()

    def _frame(self) -> None:
        overlaps, energy = self.patterns @ self.neurons / NEURONS, self._energy() / NEURONS
        self.sweep += 1
        here = {"sweep": self.sweep, "overlap": overlaps, "energy": energy, "temperature": self["temperature"]}
        self.sweeps.append(here)
        self.recent = [*self.recent, float(overlaps[self.target])][-_KEPT:]
        rows = self.recent[len(self.recent) // 2 :]
        self.emit(
            {
                "kind": "frame", "sweep": self.sweep, "overlap": overlaps[self.target], "energy": energy,
                "mean": float(np.mean(rows)), "averaged": len(rows), "rest": self.sweep > 0 and self._at_rest(),
                "steered": self.steered, "neurons": self.neurons.astype(np.int8), "overlaps": overlaps,
            }
        )  # fmt: skip

    def _energy(self) -> float:
        """-s^T J s / 2 without the diagonal, J = F^T F / N, as `Network.energy`; in NumPy, which has nothing to compile."""
        whole = np.sum((self.factors @ self.neurons) ** 2) - self.own @ self.neurons**2
        return -float(whole) / (2 * NEURONS)

    def _predict(self) -> None:
        """Where the room is in the diagram, and what theory says there."""
        found = predicted(self._load(), self["temperature"], self["sleep"])
        self.emit({"kind": "theory", "load": self._load(), "temperature": self["temperature"], **found})

    def _load(self) -> float:
        return count(self.state) / NEURONS

    def _theory(self) -> Iterator[None]:
        """What theory says here, then the phase diagram of this sleep, some temperatures at a time."""
        self._predict()
        yield None
        found = yield from hopfield.diagram(self["sleep"])
        self.emit({"kind": "lines", "sleep": self["sleep"], **found})

    @classmethod
    def warm(cls) -> None:
        """The first sweep; theory may come a moment after it."""
        cls._swept()

    @classmethod
    def warm_soon(cls) -> None:
        """Theory of the default sleep and of none, and the other order."""
        hopfield.prepare(cls.plan.dial("sleep").default)
        hopfield.prepare(0)
        cls._swept(order="parallel")

    @classmethod
    def warm_later(cls) -> None:
        """Theory of every other sleep."""
        for sleep, _ in cls.plan.dial("sleep").choices:
            hopfield.prepare(sleep)

    @classmethod
    def _swept(cls, **state: Any) -> None:
        room = cls(cls.plan.state(state), lambda message: None, {})
        next(room.run())
        room._sweep()

    def turn(self, name: str, value: Any) -> None:
        """Temperature and pace change while the network goes on."""
        super().turn(name, value)
        if name == "temperature":
            self.recent, self.steered, self.moved = [], True, True
            self._predict()

    def act(self, what: dict[str, Any]) -> None:
        """Pause, go on, or make one sweep."""
        self.paused = check.choice("action", what.get("act"), ("pause", "go on", "step")) != "go on"
        self.steps = int(what["act"] == "step")

    def dataset(self) -> xr.Dataset:
        """By sweep: overlaps with the patterns, energy for each neuron, temperature."""
        import xarray as xr

        shown = min(len(self.patterns), 64)
        rows: dict[str, Any] = {
            "overlap": (("sweep", "pattern"), np.array([row["overlap"][:shown] for row in self.sweeps])),
            "energy": ("sweep", np.array([row["energy"] for row in self.sweeps])),
            "temperature": ("sweep", np.array([row["temperature"] for row in self.sweeps])),
        }
        theory = predicted(self._load(), self["temperature"], self["sleep"])
        given = {name: value for name, value in self.state.items() if name not in ("mine", "cue", "pace")}
        sweeps = {"sweep": [row["sweep"] for row in self.sweeps]}
        return xr.Dataset(
            rows, sweeps, {**given, "predicted_overlap": theory["m"], "finite_size_error": theory["error"]}
        )

    def code(self) -> str:
        """The recall from the cue, with a public call for each thing."""
        return code.remember(self.state, count(self.state), min(self["target"], count(self.state) - 1))


def count(state: dict[str, Any]) -> int:
    """How many patterns a load means; one's own pictures are all stored."""
    own = len(mine(state)) if state["patterns"] == "mine" else 0
    return max(1, own, round(state["load"] * NEURONS))


def mine(state: dict[str, Any]) -> np.ndarray:
    """The pictures that the visitor has drawn or dropped."""
    texts = [text for text in state["mine"].split(".") if text]
    return np.array([from_bits(text) for text in texts], np.float32).reshape(-1, NEURONS)


def digits(count: int) -> np.ndarray:
    """The first handwritten digits of the library, (count, 784); the first ten are one of each."""
    return eq.data.binarise(eq.data.mnist_small().train_images[:count])


def stored(state: dict[str, Any]) -> tuple[np.ndarray, int]:
    """The patterns (K, 784), and how many of them are pictures; random ones fill up the load."""
    total, kind = count(state), state["patterns"]
    pictures = digits(total) if kind == "digits" else mine(state) if kind == "mine" else np.empty((0, NEURONS))
    rest = total - len(pictures)
    if rest == 0:
        return pictures, len(pictures)
    return np.concatenate([pictures, _random(state["seed"])[:rest]]).astype(np.float32), len(pictures)


@lru_cache(maxsize=4)
def _random(seed: int) -> np.ndarray:
    """As many random patterns as a load can ask for: another load has more or fewer of the same."""
    return np.asarray(eq.data.random_patterns(NEURONS, NEURONS, key=eq.key(seed)))


def cue(state: dict[str, Any], pattern: np.ndarray) -> np.ndarray:
    """Where the network begins: what was drawn, or the pattern with neurons flipped and missing."""
    if state["cue"]:
        return from_bits(state["cue"]).astype(np.float32)
    return np.asarray(
        eq.data.corrupt(pattern, flips=state["flips"], masked=state["masked"], key=eq.key(state["seed"] + 1))
    )


def predicted(load: float, temperature: float, sleep: float) -> dict[str, Any]:
    """The phase at a point, the overlap there, and by how much one state of 784 neurons scatters about it.

    N neurons that agree with the pattern independently, on average m, scatter by sqrt((1 - m^2) / N). That leaves out how they
    pull on one another, which makes it larger near the end of the phase.
    """
    m = hopfield.overlap_at(load, temperature, sleep)
    phase = "retrieval" if np.isfinite(m) else hopfield.disordered_phase(load, temperature, sleep)
    return {"m": m, "error": float(np.sqrt((1 - m * m) / NEURONS)), "phase": phase}


ROOM = Remember
