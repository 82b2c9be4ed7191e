"""A callback that looks whether the chains of a run still tell the truth about its network."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.ladder import swept
from equilibria.learn.stopping import Callback, Row, StopRun
from equilibria.model.network import Network, State, by_layer
from equilibria.random import as_key

_EARLIEST = 64  # updates before which growth means nothing
_STEADY = (
    0.75,
    1.5,
)  # growth per update in one doubling of the steps over that in the one before: 1 is a straight line
# Standard deviations between chains from noise and from data of which they are told: so many standard errors of chains that
# are independent of one another, of which there are few looks in a run, and never less than what matters.
_ERRORS, _MATTERS = 4.0, 0.5
_COMPONENTS = 3  # principal components of the data that are looked at beside the energy
_ROWS = 1000  # examples that these are found from


class WatchMixing(Callback):
    """Warns, or ends a run, when its chains do not mix: singular values that only grow, or chains that remember their start.

    Where persistent chains do not cross between clusters, the gradient cannot mend the clusters' weights, and the largest
    singular value grows by the same amount in every update; in a machine that learns in equilibrium it slows down. And
    with data at hand, whenever the number of updates has doubled, chains from random starts and from data make some
    sweeps: if their energies stay apart, or their projections on the first principal components of the data, draws of the
    machine depend on where they begin. Clusters of one energy, in other shares, show in the projections alone.

    Args:
        data: (examples, size) for the first layer, or between its unit's values; None looks at singular values only.
        stop: ends the run instead of warning.
        sweeps: of the chains from both kinds of starts.
        chains: of each kind.
        first: the update before which no chains are compared: a machine that has hardly learned mixes.
        coupling: the number of the coupling whose singular values are looked at.
        key: a random key or a seed.

    Attributes:
        found: what was found, by step.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> watch = WatchMixing(np.eye(4), sweeps=20)
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(1), steps=8, callbacks=[watch], key=1)
    >>> watch.found
    {}
    """

    def __init__(
        self,
        data: ArrayLike | None = None,
        *,
        stop: bool = False,
        sweeps: int = 200,
        chains: int = 100,
        first: int = 1,
        coupling: int = 0,
        key: Array | int = 0,
    ):
        self.data, self.stop, self.coupling = None if data is None else np.asarray(data), stop, coupling
        self.sweeps, self.chains, self.key = check.count("sweeps", sweeps), check.count("chains", chains), as_key(key)
        self.first = check.count("first", first)
        self._components: np.ndarray | None = None
        self.begin()

    def begin(self) -> None:
        """Forget an earlier run."""
        self.found: dict[int, str] = {}
        self._values: dict[int, float] = {}
        self._looked = 0
        self._told: set[str] = set()

    def record(self, step: int, parameters: Any, row: Row) -> None:
        """Look at the largest singular value, and now and then at chains from both kinds of starts."""
        weights = np.asarray(parameters.couplings[self.coupling].matrix())
        self._values[step] = float(np.linalg.norm(weights, 2))
        self._tell(step, "growth", self._growth(step))
        if self.data is not None and step >= max(2 * self._looked, self.first):
            self._looked = step
            self._tell(step, "starts", self._starts(step, parameters))

    def _tell(self, step: int, kind: str, reason: str | None) -> None:
        if reason is None or kind in self._told:
            return
        self._told.add(kind)
        self.found[step] = reason
        advice = "start from the data's fields, take a recipe that mixes such as tempered(...), or a smaller rate"
        if self.stop:
            raise StopRun(f"{reason}; {advice}")
        self.tell(f"step {step}: {reason}; {advice}")

    def tell(self, complaint: str) -> None:
        """Say what was found: a warning, unless a subclass has another way."""
        warnings.warn(complaint, stacklevel=4)

    def _growth(self, step: int) -> str | None:
        """Whether the value grows by the same amount in every update, over the last three doublings of the steps."""
        steps = np.array(sorted(self._values))
        if step < _EARLIEST or steps[0] > step / 8:
            return None
        values = np.interp(step / 2.0 ** np.arange(4), steps, [self._values[number] for number in steps])
        gains = -np.diff(values) / (step / 2.0 ** np.arange(1, 4))  # for each update, newest doubling first
        if (gains <= 0).any() or not all(_STEADY[0] < ratio < _STEADY[1] for ratio in gains[:-1] / gains[1:]):
            return None
        told = ", ".join(f"{value:.3g}" for value in values[::-1])
        return f"the largest singular value grows by the same amount in every update ({told} at each doubling of the steps)"

    def _starts(self, step: int, network: Network) -> str | None:
        """Whether chains from noise and from data still differ after the sweeps."""
        rows = np.asarray(by_layer(network, self.data, probabilities=True, missing=True)[network.names[0]], np.float32)  # type: ignore[arg-type]
        pick, draw, run = jax.random.split(jax.random.fold_in(self.key, step), 3)
        keys = jax.random.split(draw, len(network.layers))
        state: State = {
            layer.name: layer.unit.sample(here, jnp.zeros((2 * self.chains, layer.size)))
            for layer, here in zip(network.layers, keys, strict=True)
        }
        chosen = jnp.asarray(rows)[jax.random.choice(pick, len(rows), (self.chains,))]
        first = network.names[0]
        at_random = state[first][self.chains :]
        state[first] = state[first].at[self.chains :].set(jnp.where(jnp.isnan(chosen), at_random, chosen))
        state = swept(network, state, jnp.ones(()), jnp.asarray(self.sweeps), run)
        looked = {"energies": np.asarray(conditioned(network, (), 1.0).summed_out(state), np.float64)}
        along = np.asarray(state[first], np.float64) @ self._directions(rows).T
        looked |= {f"projections on component {place} of the data": part for place, part in enumerate(along.T)}
        gaps = {name: _gap(values[: self.chains], values[self.chains :]) for name, values in looked.items()}
        worst = max(gaps, key=lambda name: gaps[name])
        if gaps[worst] < max(_ERRORS * np.sqrt(2 / self.chains), _MATTERS):
            return None
        return f"{worst} of chains from noise and from data are {gaps[worst]:.1f} deviations apart after {self.sweeps} sweeps"

    def _directions(self, rows: np.ndarray) -> np.ndarray:
        """The first principal components of examples that miss nothing, found once; none where these do not vary."""
        if self._components is None:
            known = rows[~np.isnan(rows).any(1)]
            some = np.asarray(known[:: -(-len(known) // _ROWS) or 1], np.float64)
            _, sizes, components = np.linalg.svd(some - some.mean(0) if len(some) else some, full_matrices=False)
            self._components = components[:_COMPONENTS][sizes[:_COMPONENTS] > 0]
        return self._components


def _gap(first: np.ndarray, second: np.ndarray) -> float:
    """How far two means are apart, in standard deviations within the two."""
    return float(abs(first.mean() - second.mean()) / max(np.sqrt((first.var() + second.var()) / 2), 1e-12))
