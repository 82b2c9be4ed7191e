r"""Whether chains have forgotten where they began: R-hat, effective samples, and random starts against starts at data.

Half of the chains start at random and half at data, and all make the same steps. What is looked at are a few numbers of
each state: its free energy, its magnetisation, and its projections on the first principal components of the data. R-hat
compares how much chains differ from one another with how much each moves, on ranks (Vehtari et al. 2021, as `arviz-stats`
computes it); it is close to one where all chains tell the same story. A machine that was trained out of equilibrium shows
itself here: chains from data look well and chains from noise do not come to them (Decelle, Furtlehner and Seoane 2021).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.typing import ArrayLike
from matplotlib.figure import Figure

from equilibria import check, plots
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import trajectory
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.sweep import Sweeps
from equilibria.html import table
from equilibria.measure.convergence import Convergence, convergence, nearest_neighbour_accuracy
from equilibria.measure.spectra import principal_components
from equilibria.measure.starts import starts
from equilibria.model.network import Network, State, by_layer
from equilibria.random import as_key, split

# R-hat below which chains are mixed (Vehtari et al. 2021); principal components looked at; rows whose neighbours are sought.
_MIXED, _COMPONENTS, _COMPARED = 1.01, 3, 1000
_COLUMNS = "R-hat", "ESS", "tail", "time", "gap"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; it prints as a verdict with the numbers behind it.

    Attributes:
        mixed: whether chains from all starts tell the same story.
        verdict: the same in a sentence, with what to try.
        r_hat: the largest rank-normalised split R-hat of the numbers looked at.
        ess: the smallest bulk effective sample size, of all draws together.
        ess_tail: the smallest tail effective sample size.
        autocorrelation_time: the largest, in steps of the equilibrator.
        table: R-hat, effective samples and autocorrelation time of each number, and how far the two kinds of starts are
            apart in its standard deviations; a dataset over `observable`.
        draws: the numbers themselves, with dims chain and draw; the coordinate `start` of each chain is "random" or "data".
        data: the same numbers of the data, None without data.
        accuracy: by kind of start, how often the nearest neighbour of data is data and of a draw a draw; 0.5 is ideal, 1
            tells the two apart, 0 has data among the draws. None without data.
        samples: the last states of the first layer, (chain, neuron).
    """

    mixed: bool
    verdict: str
    r_hat: float
    ess: float
    ess_tail: float
    autocorrelation_time: float
    table: xr.Dataset
    draws: xr.Dataset
    data: xr.Dataset | None
    accuracy: dict[str, tuple[float, float]] | None
    samples: np.ndarray

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}",
            f"R-hat {self.r_hat:.3f}, {self.ess:.0f} effective samples ({self.ess_tail:.0f} in the tails), "
            f"autocorrelation time {self.autocorrelation_time:.3g} steps",
            "{:16}{:>8}{:>9}{:>9}{:>9}{:>8}".format("", *_COLUMNS),
            *("{:16}{:>8}{:>9}{:>9}{:>9}{:>8}".format(*row) for row in self._rows()),
            *self._neighbours(),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return table(self.verdict, ("", *_COLUMNS), self._rows(), "; ".join(self._neighbours()))

    def _rows(self) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = []
        for name in self.table.observable.values:
            row = self.table.sel(observable=name)
            numbers = f"{float(row.r_hat):.3f}", f"{float(row.ess):.0f}", f"{float(row.ess_tail):.0f}"
            found.append((str(name), *numbers, f"{float(row.autocorrelation_time):.3g}", f"{float(row.gap):.2f}"))
        return found

    def _neighbours(self) -> list[str]:
        return [
            f"nearest neighbours, {start} starts: {truth:.2f} of data, {drawn:.2f} of draws (0.5 is ideal)"
            for start, (truth, drawn) in (self.accuracy or {}).items()
        ]

    def to_inference_data(self) -> xr.DataTree:
        """The draws as ArviZ takes them: a tree with the group "posterior", and "observed_data" where there are data."""
        groups = {"posterior": self.draws}
        if self.data is not None:
            groups["observed_data"] = self.data
        return xr.DataTree.from_dict(groups)

    def figure(self) -> Figure:
        """Histograms of energy and magnetisation, and the first principal components, of data and of both kinds of starts."""
        with plots.style():
            figure, panels = plots.panels(3, size=(3.6, 3.0))
            groups = {
                f"{start} starts": self.draws.isel(chain=self.draws.start == start) for start in ("data", "random")
            }
            if self.data is not None:
                groups = {"the data": self.data, **groups}
            for colour, (name, values) in zip(plots.PALETTE, groups.items(), strict=False):
                if values.sizes.get("chain", 1) == 0:
                    continue
                for panel, label in zip(panels, ("energy", "magnetisation"), strict=False):
                    # The energy of data is not known where hidden layers are coupled to one another.
                    known = np.ravel(values[label])[np.isfinite(np.ravel(values[label]))]
                    if len(known):
                        panel.hist(known, bins=40, density=True, histtype="step", color=colour, label=name)
                    panel.set(xlabel=label)
                if "pc0" in values and "pc1" in values:
                    last = values.isel(draw=-1) if "draw" in values.dims else values
                    panels[2].plot(last["pc0"], last["pc1"], ".", ms=2, color=colour, label=name)
            panels[2].set(xlabel="first principal component", ylabel="second")
            panels[1].legend()
            return figure


def diagnose(
    network: Network,
    data: Mapping[str, ArrayLike] | ArrayLike | None = None,
    *,
    how: Equilibrator | None = None,
    chains: int = 50,
    draws: int = 500,
    temperature: float = 1.0,
    show_progress: bool | None = None,
    key: Array | int,
) -> Diagnosis:
    """Find out whether a network's chains have equilibrated.

    Args:
        network: what is sampled.
        data: (examples, size) for the first layer, or by layer. As many chains start at examples as at random, or at states
            drawn with these means where data lie between a unit's values; without data all start at random.
        how: an equilibrator that draws, such as `Tempered(2000)`; 2,000 sweeps by default. The first half of its steps is left
            out.
        chains: of each kind.
        draws: looked at in each chain, evenly in the second half.
        temperature: T.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The verdict, and what it rests on.

    Raises:
        ValueError: if the data do not fit, `how` draws nothing, or it has fewer steps than twice the draws.

    >>> import equilibria as eq
    >>> found = diagnose(eq.rbm(6, 3, key=0), np.eye(6), how=eq.Sweeps(400), draws=200, key=1)
    >>> found.mixed, found.r_hat < 1.01, found.verdict
    (True, True, 'mixed')
    """
    check.network("network", network)
    how = Sweeps(2000) if how is None else how
    if not isinstance(how, Equilibrator) or how.kind != "draws":
        check.refuse("how", repr(how), "an equilibrator that draws, such as Sweeps(2000)")
    check.count("chains", chains, least=2), check.count("draws", draws, least=10)
    every = int(how.steps) // (2 * draws)
    if every == 0:
        check.refuse("how", f"{int(how.steps)} steps", f"at least {2 * draws}, twice the draws")
    how = eqx.tree_at(lambda here: here.steps, how, jnp.asarray(2 * draws * every))
    found = {} if data is None else by_layer(network, data, probabilities=True, missing=True)
    given = {name: np.asarray(values) for name, values in found.items()}
    pick_key, start_key, run_key = split(as_key(key), 3)
    start, kinds = starts(network, given, chains, pick_key, start_key)
    rows = {name: _known(values) for name, values in given.items()}
    first = network.names[0]
    directions = np.zeros((0, network.layers[0].size))
    if first in rows and len(rows[first]) > 1:
        directions = principal_components(rows[first]).first[:_COMPONENTS]
    observe = _Observe(network, jnp.asarray(temperature, float), jnp.asarray(directions, float))
    end, seen = trajectory(
        network,
        how,
        start,
        observe=observe,
        every=every,
        temperature=temperature,
        show_progress=show_progress,
        key=run_key,
    )
    drawn = _dataset(
        {name: np.asarray(values)[draws + 1 :].T for name, values in seen.items()}, ("chain", "draw"), kinds
    )
    table = _table(drawn, every)
    shown = None
    if first in rows:
        shown = _dataset(
            {n: np.asarray(v) for n, v in observe.of_data(np.asarray(rows[first], float)).items()},
            ("example",),
        )
    samples = np.asarray(end[first])
    worst = float(table.r_hat.max())
    mixed = worst < _MIXED
    return Diagnosis(
        mixed, _verdict(mixed, table, data is not None, every * draws), worst, float(table.ess.min()),
        float(table.ess_tail.min()), float(table.autocorrelation_time.max()), table, drawn, shown,
        _accuracy(rows.get(first), samples, kinds), samples,
    )  # fmt: skip


def _known(values: np.ndarray) -> np.ndarray:
    """The examples that miss nothing."""
    return values if values.dtype.kind != "f" else values[~np.isnan(values).any(1)]


class _Observe(eqx.Module):
    """The numbers that are looked at in a state."""

    network: Network
    temperature: Array
    directions: Array

    def __call__(self, state: State) -> dict[str, Array]:
        energy = conditioned(self.network, (), self.temperature).summed_out(state) / self.temperature
        return {"energy": energy, **self._of_rows(state[self.network.names[0]])}

    def _of_rows(self, rows: Array) -> dict[str, Array]:
        projections = rows @ self.directions.T
        seen = {f"pc{place}": projections[..., place] for place in range(projections.shape[-1])}
        return {"magnetisation": jnp.mean(rows, axis=-1), **seen}

    @eqx.filter_jit
    def of_data(self, values: ArrayLike) -> dict[str, Array]:
        """The same of data, whose energy is known where the other layers can be summed out."""
        rows, first = jnp.asarray(values), self.network.names[0]
        hidden = [name for name in self.network.names if name != first]
        alone = not any(set(coupling.ends) <= set(hidden) for coupling in self.network.couplings)
        energy = jnp.full(len(rows), jnp.nan)
        if alone:
            energy = self.network.free_energy({first: rows}, hidden, self.temperature) / self.temperature
        return {"energy": energy, **self._of_rows(rows)}


def _dataset(values: Mapping[str, np.ndarray], dims: tuple[str, ...], starts: list[str] | None = None) -> xr.Dataset:
    coordinates = {} if starts is None else {"start": ("chain", np.array(starts))}
    return xr.Dataset({name: (dims, array) for name, array in values.items()}, coordinates)


def _table(draws: xr.Dataset, every: int) -> xr.Dataset:
    """R-hat and its like of each number, and how far its means from the two kinds of starts are apart."""
    rows: dict[str, Convergence] = {str(name): convergence(draws[name].values) for name in draws}
    random = draws.start.values == "random"
    gaps = []
    for name in draws:
        values = draws[name].values
        spread = values.std()
        apart = abs(values[random].mean() - values[~random].mean()) if not random.all() else 0.0
        gaps.append(apart / spread if spread > 0 else 0.0)
    columns = {
        "r_hat": [row.r_hat for row in rows.values()],
        "ess": [row.ess for row in rows.values()],
        "ess_tail": [row.ess_tail for row in rows.values()],
        "autocorrelation_time": [row.autocorrelation_time * every for row in rows.values()],
        "gap": gaps,
    }
    return xr.Dataset({name: ("observable", values) for name, values in columns.items()}, {"observable": list(rows)})


def _verdict(mixed: bool, table: xr.Dataset, with_data: bool, steps: int) -> str:
    if mixed:
        return "mixed"
    worst = str(table.observable.values[int(table.r_hat.values.argmax())])
    time = float(table.autocorrelation_time.max())
    if with_data and float(table.gap.max()) > 0.5:
        apart = str(table.observable.values[int(table.gap.values.argmax())])
        why = f"chains started at data stay there (their {apart} is {float(table.gap.max()):.1f} deviations off)"
        return f"not mixed: {why}; try how=Tempered(...), or train with chains that mix: tempered(...), or more steps"
    if float(table.r_hat.max()) > 1.1 or time > steps / 10:
        why = f"chains stay where they began (R-hat {float(table.r_hat.max()):.2f} of the {worst})"
        return f"not mixed: {why}; try how=Tempered(...), or more steps"
    longer = max(2, int(np.ceil(50 * time / steps)))
    return f"not mixed yet: R-hat {float(table.r_hat.max()):.3f} of the {worst}; try {longer} times the steps"


def _accuracy(rows: np.ndarray | None, samples: np.ndarray, starts: list[str]) -> dict[str, tuple[float, float]] | None:
    if rows is None or len(rows) < 2:
        return None
    kinds = np.array(starts)
    return {
        start: nearest_neighbour_accuracy(rows[:_COMPARED], samples[kinds == start][:_COMPARED])
        for start in dict.fromkeys(starts)
    }
