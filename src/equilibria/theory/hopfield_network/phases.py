"""The phase diagram of a Hopfield network: what it does at each load and temperature, and the lines in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.hopfield_network.observables import observables
from equilibria.theory.hopfield_network.order import (
    BRANCHES,
    OrderParameters,
    hopfield,
    hopfield_glass,
    without_retrieval,
)
from equilibria.theory.hopfield_network.replica import LONGEST, ControlParameters, at_ratio, disordered, edge
from equilibria.theory.saddle import root

PHASES = ("paramagnet", "spin glass", "metastable retrieval", "retrieval")


class Lines(NamedTuple):
    """Loads at which something happens to the retrieval state, at given temperatures.

    >>> hopfield_lines([0.3, 1.2]).spinodal.round(4)
    array([0.1033, 0.    ])
    """

    spinodal: np.ndarray  # it disappears above
    first_order: np.ndarray  # it is the state of lowest free energy below
    almeida_thouless: np.ndarray  # it is stable against replica symmetry breaking below
    converged: np.ndarray


def hopfield_lines(temperature: ArrayLike, sleep: ArrayLike = 0.0) -> Lines:
    """The lines of the phase diagram, as loads; a state that nothing happens to before it ends has all three equal.

    As functions of the temperature they are single-valued, while the spinodal is re-entrant in the load. All are 0 for
    T >= 1, and the last is 0 at T = 0. The fourth line, where spins freeze, is `hopfield_glass`. The sources are those of
    `hopfield`.

    Args:
        temperature: T >= 0.
        sleep: t, from 0 to 10^4; the two broadcast.

    Returns:
        The three lines, and whether they converged.

    Raises:
        ValueError: if an argument is out of its range.

    >>> lines = hopfield_lines(0.0)
    >>> lines.spinodal.round(5), lines.first_order.round(5)
    (np.float64(0.13791), np.float64(0.05185))
    """
    check.number("temperature", temperature, least=0)
    check.number("sleep", sleep, least=0, most=LONGEST)
    return lines_at(temperature, sleep)


def lines_at(*controls: ArrayLike) -> Lines:
    """The lines at these ControlParameters."""
    given = [np.array(x, float) for x in np.broadcast_arrays(*controls)]
    end = edge(*given)
    first, found = _crossing(_advantage, end.ratio, end.load, *given)
    replica, found_too = _crossing(_stability, end.ratio, np.where(given[0] > 0, end.load, 0.0), *given)
    return Lines(*(x[()] for x in (end.load, first, replica, end.converged & found & found_too)))


def hopfield_phases(loads: ArrayLike, temperatures: ArrayLike, sleep: float = 0.0) -> xr.Dataset:
    """The phase diagram of a Hopfield network on a grid of loads and temperatures.

    Args:
        loads: alpha, one axis of the grid.
        temperatures: T, the other.
        sleep: t, from 0 to 10^4.

    Returns:
        A Dataset. Its `phase` (temperature, load) is an index into its attribute `names`; retrieval is "metastable"
        where the spin glass, or the paramagnet, has a lower free energy. `m`, `q`, `free_energy`, `stability`, `exists`
        and `converged` (branch, temperature, load) are as given by `hopfield`; `spinodal`, `first_order` and
        `almeida_thouless` (temperature) by `hopfield_lines`, and `glass` (load) by `hopfield_glass`. The coordinate is
        `phases["load"]`: the attribute of that name is a method of xarray.

    Raises:
        ValueError: if an argument is out of its range.

    >>> phases = hopfield_phases([0.02, 0.1, 0.2], [0.1, 1.5])
    >>> [phases.phase.names[i] for i in phases.phase.sel(temperature=0.1).values]
    ['retrieval', 'metastable retrieval', 'spin glass']
    """
    load, temperature = (np.atleast_1d(np.asarray(x, float)) for x in (loads, temperatures))
    retrieval = hopfield(load, temperature[:, None], sleep)
    everywhere = (np.array(x) for x in np.broadcast_arrays(load, temperature[:, None], float(sleep)))
    branches = (retrieval, *without_retrieval(*everywhere))
    lines = hopfield_lines(temperature, sleep)
    grid = ("branch", "temperature", "load")
    return xr.Dataset(
        {
            "phase": (grid[1:], _phase(*branches), {"names": PHASES}),
            **{name: (grid, np.stack([getattr(x, name) for x in branches])) for name in OrderParameters._fields},
            **{name: ("temperature", getattr(lines, name)) for name in Lines._fields if name != "converged"},
            "glass": ("load", hopfield_glass(load, sleep)),
        },
        coords={"branch": list(BRANCHES), "temperature": temperature, "load": load},
        attrs={"sleep": float(sleep)},
    )


def _phase(retrieval: OrderParameters, glass: OrderParameters, paramagnet: OrderParameters) -> np.ndarray:
    rival = np.where(glass.exists, glass.free_energy, paramagnet.free_energy)
    beaten = retrieval.exists & (rival < retrieval.free_energy)
    return np.select([beaten, retrieval.exists, glass.exists], [2, 3, 1], 0)


def _crossing(
    sign: Callable[..., np.ndarray], ratio: np.ndarray, load: np.ndarray, *given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The load where `sign`, positive at small ratios, vanishes along the retrieval branch; else the branch's end."""
    crossing, converged, inside = np.array(load), np.ones(load.shape, bool), np.array(load > 0)
    inside[inside] = sign(ratio[inside], *(x[inside] for x in given)) < 0
    there = [x[inside] for x in given]
    found = root(sign, 0.02 * ratio[inside], ratio[inside], *there)
    crossing[inside], converged[inside] = at_ratio(found.value, *there).load, found.converged
    return crossing, converged


def _advantage(ratio: np.ndarray, *given: np.ndarray) -> np.ndarray:
    """By how much the free energy of retrieval is below that of the state without."""
    state = at_ratio(ratio, *given)
    rival = disordered(state.load, *given)
    return (
        observables(rival, ControlParameters(*given)).free_energy
        - observables(state, ControlParameters(*given)).free_energy
    )


def _stability(ratio: np.ndarray, *given: np.ndarray) -> np.ndarray:
    return np.tanh(
        observables(at_ratio(ratio, *given), ControlParameters(*given)).stability
    )  # a wide range, made narrow
