"""The networks that a run keeps on its way, as a ladder, and the likelihood along them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check, files
from equilibria.equilibrators import anneal
from equilibria.equilibrators.ladder import bennett, choose_rungs, crossing, swept
from equilibria.learn.examples import Examples, coupled
from equilibria.model.network import Network, State
from equilibria.model.saving import describe, load_network

if TYPE_CHECKING:
    from equilibria.learn.loop import Loop

_FOLDER, _BEFORE = "trajectory", "before"
_FIRST_STEPS, _FIRST_SWEEPS = 200, 50  # of the annealing to the first network, and of the chains there


class Trajectory(Sequence[Network]):
    """The networks that `train(checkpoint=folder, keep=...)` has kept, from the first on: a ladder.

    Its ln Z trusts the run's chains: where these do not mix, which `diagnose` and `WatchMixing` find out, it can be far
    off. It is a sequence of networks, for `Tempered(ladder=...)` and `log_partition(ladder=...)`. They are read when they
    are asked for.

    Args:
        folder: of the run.

    Attributes:
        steps: the update after which each was kept.
        log_partition: ln Z of each as it was found during training, NaN where the recipe has no chains.
        error: its standard error.

    Raises:
        ValueError: if the run has kept no networks.

    >>> import equilibria as eq, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(1), steps=8, checkpoint=folder, keep=[0, 2, 8], key=1)
    >>> Trajectory(folder).steps, len(Trajectory(folder))
    ((0, 2, 8), 3)
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder) / _FOLDER
        self._paths = sorted(self.folder.glob("checkpoint-*.safetensors")) if self.folder.is_dir() else []
        if not self._paths:
            check.refuse(
                "folder", str(folder), "the folder of a run that kept networks: train(checkpoint=..., keep=...)"
            )
        self._known: dict[int, Network] = {}
        self.steps = tuple(int(path.stem.rpartition("-")[2]) for path in self._paths)
        notes = [files.load(path).metadata for path in self._paths]
        self.log_partition = np.array([_number(note.get("log_partition")) for note in notes])
        self.error = np.array([_number(note.get("error")) for note in notes])

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, place: int) -> Network: ...
    @overload
    def __getitem__(self, place: slice) -> list[Network]: ...
    def __getitem__(self, place: int | slice) -> Network | list[Network]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        if number not in self._known:
            self._known[number] = load_network(self._paths[number])
        return self._known[number]

    def chosen(self, acceptance: float = 0.3, *, most: int | None = None, key: Array | int) -> list[Network]:
        """Fewer of them, as few as still exchange this share of their states with the next one (see `choose_rungs`)."""
        return [self[place] for place in choose_rungs(self[:], acceptance, most=most, key=key)]


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


class _Place(NamedTuple):
    """Where a run was: its network and draws of it."""

    step: int
    network: Network
    chains: State | None
    log_partition: float = float("nan")
    error: float = float("nan")


class Keeper:
    """Keeps networks of a run: at given steps, or where states are no longer exchanged often enough with the last one kept.

    Looking is done between compiled chunks and changes nothing in the run: after a quarter of the distance between the
    last two that were kept, and then at distances that grow by half. That, and what was seen at the last look, stands in
    the files, so that a run that goes on keeps what it would have kept.
    """

    def __init__(self, loop: Loop, keep: float | Sequence[int], validation: Any, folder: Path):
        self.loop, self.folder = loop, folder / _FOLDER
        self.acceptance = None if np.ndim(keep) else float(check.number("keep", keep, above=0.0, most=1.0))  # type: ignore[arg-type]
        self.steps = (
            [check.count("keep", step, least=0) for step in np.atleast_1d(np.asarray(keep)).tolist()]
            if np.ndim(keep)
            else []
        )
        self.data = {"train": loop.data} if validation is None else {"train": loop.data, "validation": validation}
        self.examples: dict[str, Examples] = {}
        self.key = jax.random.fold_in(loop.step_keys, np.uint32(2**32 - 1))
        self.last: _Place | None = None
        self.before: _Place | None = None
        self.interval = 1

    def begin(self, carry: Any) -> None:
        """Take up what an earlier part of the run has kept, or keep the network it begins with."""
        step = int(carry.step)
        if self.acceptance is not None and self.loop.rule.persistent(carry.rule) is None:
            check.refuse(
                "keep", f"{self.acceptance:g}, a share of exchanges", "steps, for a recipe without persistent chains"
            )
        reason = self._untold(carry)
        if "validation" in self.data and reason is not None:
            check.refuse("validation", f"data, with {reason}", "None: nobody knows their likelihood along such a run")
        if reason is None:
            self.examples = {name: Examples(name, carry.parameters, rows) for name, rows in self.data.items()}
        for path in [*self.folder.glob("checkpoint-*"), *(self.folder / _BEFORE).glob("checkpoint-*")]:
            if int(path.stem.rpartition("-")[2]) > step:
                path.unlink()  # the run went on from before that, and will come by again
        if files.latest(self.folder.parent) is None:  # what is there is of a run that ended before its first checkpoint
            for path in self.folder.glob("**/checkpoint-*"):
                path.unlink(missing_ok=True)
        if (newest := files.latest(self.folder)) is not None:
            self.last, self.interval = _read(newest)
            waiting = files.latest(self.folder / _BEFORE)
            seen = None if waiting is None else _read(waiting)[0]
            self.before = None if seen is None or seen.step <= self.last.step else seen
        elif step == 0 and (self.acceptance is not None or 0 in self.steps):
            self._keep(self._first(self._here(carry)))

    def next(self, now: int) -> int | None:
        """The next step at which to look."""
        if self.acceptance is None:
            return min((step for step in self.steps if step > now), default=None)
        since = 0 if self.last is None else self.last.step
        distance = self.interval
        while since + distance <= now:
            distance = max(distance + 1, int(1.5 * distance))
        return since + distance

    def look(self, carry: Any) -> None:
        """Keep the network, or the one before, if this is the time."""
        step = int(carry.step)
        if self.acceptance is None:
            if step in self.steps:
                self._keep(self._here(carry))
            return
        if self.next(step - 1) != step:
            return
        here = self._here(carry)
        if self.last is None:
            self._keep(here)
            return
        if self._overlap(self.last, here) < self.acceptance and self.before is not None:
            self._keep(self.before)
        if self._overlap(self.last, here) < self.acceptance:
            self._keep(here)
        else:
            self.before = here

    def row(self, carry: Any) -> dict[str, float]:
        """ln Z of the network as it is, by way of the last one kept, and the likelihoods that follow."""
        here = self._here(carry)
        if here.chains is None or self.last is None or not np.isfinite(self.last.log_partition):
            return {}
        now = self._measured(here)
        row = {"log_partition": now.log_partition, "log_partition_error": now.error}
        for name, examples in self.examples.items():
            if len(examples):
                mean = examples.mean_weight(here.network, self._temperature())
                row[f"{name}_log_likelihood"] = mean - now.log_partition
        return row

    def _untold(self, carry: Any) -> str | None:
        """Why the history of this run has no likelihoods, or None."""
        if self.loop.rule.persistent(carry.rule) is None:
            return "a recipe without persistent chains"
        if coupled(carry.parameters, self.loop.data):
            return "hidden layers that are coupled to one another"
        if self.acceptance is None and 0 not in self.steps:
            return "steps in keep that leave out 0, where ln Z is known"
        begun = int(carry.step) > 0 and files.latest(self.folder) is None
        return "a run that began without keep" if begun else None

    def _temperature(self) -> Array:
        return self.loop.rule.law_temperature

    def _here(self, carry: Any) -> _Place:
        """Where the run is; its chains, which lag behind by an update, make a sweep of their own here."""
        whole = self.loop.layout.gathered(carry)
        step, chains = int(whole.step), self.loop.rule.persistent(whole.rule)
        if chains is not None:
            here = jax.random.fold_in(self.key, step)
            chains = swept(whole.parameters, dict(chains), self._temperature(), jnp.asarray(1), here)
        kept = None if chains is None else dict(chains)
        return _Place(step, jax.tree.map(jnp.copy, whole.parameters), kept)

    def _first(self, here: _Place) -> _Place:
        """The network that a run begins with, whose ln Z annealing finds: its couplings are weak."""
        if here.chains is None:
            return here
        heat, keys = self._temperature(), jax.random.split(self.key, 3)
        alone = anneal.uncoupled(here.network, {layer.name: layer.bias for layer in here.network.layers})
        chains = len(next(iter(here.chains.values())))
        start = anneal.drawn_uncoupled(alone, heat, chains, keys[0])
        end = anneal.anneal(alone, here.network, heat, jnp.linspace(0, 1, _FIRST_STEPS + 1), start, keys[1])
        logs = np.asarray(end.log_weights, np.float64)
        weights = np.exp(logs - logs.max())
        value = float(anneal.log_partition_uncoupled(alone, heat)) + logs.max() + np.log(weights.mean())
        error = float(weights.std() / weights.mean() / np.sqrt(len(weights)))
        state = swept(here.network, end.state, heat, jnp.asarray(_FIRST_SWEEPS), keys[2])
        return here._replace(chains=state, log_partition=float(value), error=error)

    def _measured(self, here: _Place) -> _Place:
        """A place with its ln Z, by way of the last one kept."""
        if self.last is None or self.last.chains is None or here.chains is None:
            return here
        seen = crossing(self.last.network, here.network, self.last.chains, here.chains, self._temperature())
        change, error = bennett(seen)
        return here._replace(
            log_partition=self.last.log_partition + change, error=float(np.hypot(self.last.error, error))
        )

    def _overlap(self, first: _Place, second: _Place) -> float:
        if first.chains is None or second.chains is None:  # a share was only accepted with chains
            return 1.0
        seen = crossing(first.network, second.network, first.chains, second.chains, self._temperature())
        return float(seen.acceptance())

    def _keep(self, here: _Place) -> None:
        here = here if np.isfinite(here.log_partition) else self._measured(here)
        if self.last is not None:
            self.interval = max(1, (here.step - self.last.step) // 4)
        self.last, self.before = here, None
        if not self.loop.layout.writes:
            return
        self._write(self.folder, here, keep=10**9)

    def save(self) -> None:
        """Write what the next look would need, with the run's own checkpoint."""
        if self.before is not None and self.loop.layout.writes:
            self._write(self.folder / _BEFORE, self.before, keep=1)

    def _write(self, folder: Path, here: _Place, keep: int) -> None:
        arrays, structure = describe(here.network)
        chains = {f"chains.{name}": layer for name, layer in (here.chains or {}).items()}
        note: dict[str, Any] = {"model": structure, "interval": self.interval}
        if np.isfinite(here.log_partition):
            note |= {"log_partition": here.log_partition, "error": here.error if np.isfinite(here.error) else None}
        files.save(folder, here.step, {**arrays, **chains}, note, keep=keep)


def _read(path: Path) -> tuple[_Place, int]:
    """A place as it was written, and how often it was looked then."""
    found = files.load(path)
    chains = {n.removeprefix("chains."): jnp.asarray(v) for n, v in found.arrays.items() if n.startswith("chains.")}
    numbers = (_number(found.metadata.get(name)) for name in ("log_partition", "error"))
    return _Place(found.step, load_network(path), chains or None, *numbers), int(found.metadata.get("interval", 1))
