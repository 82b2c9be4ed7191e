"""Binary synapses: weights of ±1 learned from the data that planted ones have made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

import equilibria as eq
from equilibria.app.lab import code
from equilibria.app.lab.catalogue import SYNAPSES
from equilibria.app.lab.rooms.room import FRAME, Room
from equilibria.app.lab.rooms.stepwise import stepwise

NEURONS = 100
EVERY = 4
DENSITIES = (0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0)


class BinarySynapses(Room):
    """One run of learning after another, each at a density of data."""

    plan = SYNAPSES

    def run(self) -> Iterator[float | None]:
        """The threshold, then a run at the density of the dial, or at each of several."""
        self.rows: list[dict[str, float]] = []
        self.ends: list[dict[str, float]] = []
        threshold = float(eq.theory.synapse_threshold(self["correlation"], 1.0, self["fields"]))
        informed = float(eq.theory.synapse_threshold(self["correlation"], 1.0, self["fields"], informed=True))
        self.emit({"kind": "threshold", "learner": threshold, "informed": informed})
        yield None
        densities = DENSITIES if self["sweep"] == "all" else (self["density"],)
        for density in densities:
            self.density = density
            self.fields, self.data = planted(density, self["fields"], self["correlation"], self["seed"])
            self.emit(
                {
                    "kind": "planted",
                    "density": density,
                    "examples": len(self.data),
                    "fields": self.fields.astype(np.int8),
                }
            )
            yield None
            for row in stepwise(self._learn):
                self.rows.append(row)
                self.emit({"kind": "step", **row, "means": np.asarray(self.means.T), "order": self.order})
                yield FRAME if self["sweep"] == "one" else None
            last = {"density": density, "overlap": self.rows[-1]["overlap"], "bound": self.rows[-1]["bound"]}
            self.ends.append(last)
            self.emit({"kind": "end", **last})
            yield None

    def _learn(self, pause: Callable[[Any], None]) -> None:
        def record(step: int, synapses: Any, row: Any) -> None:
            self.means = np.asarray(synapses.mean)
            match = eq.match_fields(np.asarray(synapses.decoded).T, self.fields)
            self.order = [int(index) for index in match.order]
            pause(
                {
                    "density": self.density, "step": step, "bound": float(row["bound"]) / len(self.data),
                    "overlap": float(match.overlaps.mean()),
                }
            )  # fmt: skip

        eq.learn_synapses(
            self.data, self["fields"], steps=self["steps"], every=EVERY, callbacks=[record], show_progress=False,
            key=eq.key(self["seed"] + 2),
        )  # fmt: skip

    def dataset(self) -> xr.Dataset:
        """By record: the bound for each example and the overlap with the planted fields."""
        names = ("density", "step", "bound", "overlap")
        rows = {name: ("record", np.array([row[name] for row in self.rows], float)) for name in names}
        return xr.Dataset(rows, attrs={**self.state, "neurons": NEURONS})

    def code(self) -> str:
        """The run with public calls."""
        return code.synapses(self.state)

    @classmethod
    def warm(cls) -> None:
        """A few steps at the default density."""
        cls._warmed(2.0)

    @classmethod
    def warm_later(cls) -> None:
        """The same with each other number of examples that steps are compiled for."""
        for density in (1.2, 0.6, 2.5, 3.2, 4.0, 5.0, 6.0):
            cls._warmed(density)

    @classmethod
    def _warmed(cls, density: float) -> None:
        room = cls(cls.plan.state({"density": density, "steps": 20}), lambda message: None, {})
        for _ in zip(range(4), room.run(), strict=False):
            pass


def planted(density: float, count: int, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields that are to be found, and the data that they have made: the first M of the same 600 for every density."""
    fields = eq.data.planted_receptive_fields(count, NEURONS, correlation, key=eq.key(seed))
    data = eq.data.planted_data(fields, 6 * NEURONS, key=eq.key(seed + 1))
    return np.asarray(fields), np.asarray(data)[: max(2, round(density * NEURONS))]


ROOM = BinarySynapses
