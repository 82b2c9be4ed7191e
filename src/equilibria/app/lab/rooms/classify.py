"""Learn to classify: equilibrium propagation on small digits, its two phases layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import check
from equilibria.app.lab import code
from equilibria.app.lab.catalogue import CLASSIFY
from equilibria.app.lab.rooms.room import FRAME, Room
from equilibria.app.lab.rooms.stepwise import stepwise

WIDTH = 64
BATCH = 32
FREE = 30  # sweeps of a free phase
EVERY = 11  # updates between two records: four in an epoch
LEAST = 0.2  # what the smallest spread of a pixel counts as
_COMPARED = 64  # examples whose gradient is compared with the exact one


class Classify(Room):
    """A training, and what the network does with one digit meanwhile."""

    plan = CLASSIFY

    def run(self) -> Iterator[float | None]:
        """The training, record by record; afterwards what is drawn."""
        self.rows: list[dict[str, float]] = []
        self.drawn: np.ndarray | None = None
        self.hardest = 0
        self.images = images()
        self.network = untrained(self["layers"], self["seed"])
        self._phases()
        yield None
        for step in stepwise(self._train):
            self._record(step)
            yield None
            self._phases()
            yield FRAME
        self.emit({"kind": "trained"})
        while True:
            self._phases()
            yield 0.5

    def _train(self, pause: Callable[[Any], None]) -> None:
        inputs, targets = self.images.inputs, self.images.targets
        steps = self["epochs"] * (len(inputs) // BATCH)

        def record(step: int, network: eq.Network, row: Any) -> None:
            self.network = network
            pause(step)

        eq.train(
            self.network, (inputs, targets), recipe(self["nudge"], self["sweeps"]), epochs=self["epochs"],
            batch_size=BATCH, optimiser=optax.adam(self["rate"]), record=[1, *range(EVERY, steps + 1, EVERY)],
            callbacks=[record], show_progress=False, key=eq.key(self["seed"] + 1),
        )  # fmt: skip

    def _record(self, step: int) -> None:
        """How the network does on digits it has not learned from, and how its gradient lies to the exact one."""
        per_epoch = len(self.images.inputs) // BATCH
        outputs = answers(self.network, self.images.standardised(self.images.shades))
        wrong = np.argmax(np.asarray(outputs), axis=1) != self.images.labels
        ones = np.eye(10)[self.images.labels]
        self.hardest = int(np.argmax(np.sum((np.asarray(outputs) - ones) ** 2, axis=1)))
        compared = self.images.inputs[:_COMPARED], self.images.targets[:_COMPARED]
        cosines = angles(self.network, self["nudge"], self["sweeps"], *compared)
        row = {"step": step, "epoch": step / per_epoch, "error": float(wrong.mean())}
        row |= {f"cosine{number + 1}": float(value) for number, value in enumerate(cosines)}
        self.rows.append(row)
        self.emit({"kind": "record", **row, "cosines": [float(value) for value in cosines]})

    def _phases(self) -> None:
        """One digit shown: the free phase from rest, then the nudged one from there, sweep by sweep."""
        number = self.hardest if self["which"] == "hardest" else self["shown"]
        shades = self.images.shades[number] if self.drawn is None else self.drawn
        shown, label = self.images.standardised(shades), int(self.images.labels[number])
        free = settled(self.network, shown)
        message: dict[str, Any] = {"kind": "phases", "drawn": self.drawn is not None, "label": label}
        message |= {f"free_{name}": np.asarray(states) for name, states in free.items()}
        if self.drawn is None:
            last = {name: states[-1] for name, states in free.items()}
            pushed = nudged(self.network, shown, np.eye(10, dtype=np.float32)[label], self["nudge"], last)
            message |= {f"nudged_{name}": np.asarray(states) for name, states in pushed.items()}
        output = np.asarray(free["output"][-1])
        self.emit({**message, "input": shades, "answer": int(np.argmax(output)), "output": output})

    def turn(self, name: str, value: Any) -> None:
        """Another digit is shown."""
        super().turn(name, value)
        self.drawn = None
        self._phases()

    def act(self, what: dict[str, Any]) -> None:
        """Show a digit that was drawn, 8 x 8 grey values from 0 to 1."""
        check.choice("action", what.get("act"), ("draw",))
        try:
            given = np.asarray(what.get("pixels"), np.float32)
        except (TypeError, ValueError):
            given = np.zeros(0, np.float32)
        if given.shape != (64,) or not ((given >= 0) & (given <= 1)).all():
            check.refuse("pixels", f"shape {given.shape}", "64 numbers from 0 to 1")
        self.drawn = given
        self._phases()

    def dataset(self) -> xr.Dataset:
        """By record: the test error, and the cosine with the exact gradient for each coupling."""
        names = list(self.rows[0]) if self.rows else ["step", "epoch", "error"]
        columns = {name: ("record", np.array([row[name] for row in self.rows])) for name in names}
        return xr.Dataset(columns, attrs=dict(self.state))

    def code(self) -> str:
        """The training with public calls."""
        return code.classify(self.state)

    @classmethod
    def warm(cls) -> None:
        """Some updates of the default network."""
        room = cls(cls.plan.state({"epochs": 1}), lambda message: None, {})
        for _ in zip(range(8), room.run(), strict=False):
            pass


class Digits(NamedTuple):
    """Digits to learn from and others to test with."""

    inputs: np.ndarray  # standardised, (examples, 64)
    targets: np.ndarray  # one-hot, (examples, 10)
    shades: np.ndarray  # of the others, from 0 to 1
    labels: np.ndarray  # of the others
    mean: np.ndarray
    scale: np.ndarray

    def standardised(self, shades: np.ndarray) -> np.ndarray:
        """Grey values as the network sees them."""
        return ((shades - self.mean) / self.scale).astype(np.float32)


@lru_cache(maxsize=1)
def images() -> Digits:
    """The digits, the last fifth of them for testing. Pixels that hardly vary are not blown up: one may draw there."""
    found = eq.data.digits()
    shades = eq.data.grey(found.train_images)
    mean, scale = shades.mean(axis=0), np.maximum(shades.std(axis=0), LEAST)
    ones = np.eye(10, dtype=np.float32)
    inputs = ((shades - mean) / scale).astype(np.float32)
    return Digits(inputs, ones[found.train_labels], eq.data.grey(found.test_images), found.test_labels, mean, scale)


def untrained(layers: int, seed: int) -> eq.Network:
    """The network before it has learned anything."""
    sizes, units = (64, *[WIDTH] * layers, 10), [eq.Gaussian(), *[eq.Clipped()] * (layers + 1)]
    return eq.layered(sizes, units=units, gain=0.5, key=eq.key(seed))


def recipe(nudge: float, sweeps: int) -> eq.Recipe:
    """Equilibrium propagation with phases of fixed length."""
    return eq.equilibrium_propagation(nudge, free=eq.Descent(FREE), nudged=eq.Descent(sweeps))


def answers(network: eq.Network, inputs: np.ndarray) -> jax.Array:
    """Outputs at rest."""
    return eq.equilibrate(
        network, eq.Descent(FREE), world=eq.Clamp("input", inputs), temperature=0.0, show_progress=False
    )["output"]


def angles(network: eq.Network, nudge: float, sweeps: int, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """For each coupling the cosine of the angle between the contrast and the exact gradient."""
    return np.asarray(
        _cosines(network, recipe(nudge, sweeps), {"input": jnp.asarray(inputs), "output": jnp.asarray(targets)})
    )


@eqx.filter_jit
def _cosines(network: eq.Network, rule: eq.Recipe, data: dict[str, jax.Array]) -> jax.Array:
    found = eq.contrast(network, rule, data, key=eq.key(0)).gradient
    exact = (
        eq.recurrent_backprop(free=eq.Descent(FREE), steps=FREE)
        .step(network, data, carry=None, index=jnp.arange(_COMPARED), key=eq.key(0))
        .gradient
    )
    pairs = zip(found.couplings, exact.couplings, strict=True)
    return jnp.stack([_cosine(first.weights, second.weights) for first, second in pairs])


def _cosine(first: jax.Array, second: jax.Array) -> jax.Array:
    return jnp.vdot(first, second) / jnp.maximum(jnp.linalg.norm(first) * jnp.linalg.norm(second), 1e-20)


def _all(state: Any) -> Any:
    return state


def settled(network: eq.Network, shown: np.ndarray) -> dict[str, np.ndarray]:
    """Every layer but the input, sweep by sweep, from rest."""
    _, path = eq.trajectory(
        network, eq.Descent(FREE), world=eq.Clamp("input", shown), temperature=0.0, observe=_all, show_progress=False
    )
    return {name: np.asarray(states) for name, states in path.items() if name != "input"}


def nudged(
    network: eq.Network, shown: np.ndarray, target: np.ndarray, nudge: float, start: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The same from the free rest on, with the output nudged; plain block descent, one layer a sweep."""
    world: Any = [eq.Clamp("input", shown), eq.Nudge("output", target, nudge)]
    how = eq.Descent(10, 0.0)
    _, path = eq.trajectory(
        network, how, {**start, "input": shown}, world=world, temperature=0.0, observe=_all, show_progress=False
    )
    return {name: np.asarray(states) for name, states in path.items() if name != "input"}


ROOM = Classify
