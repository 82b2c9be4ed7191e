"""What the rooms with Hopfield networks share: the lines of their diagram, and networks of one shape."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import equilibria as eq

if TYPE_CHECKING:  # at run time it is imported after the first sweep, which does not need it
    from equilibria.theory.hopfield_network.replica import SaddlePoint

TEMPERATURES = np.concatenate([np.linspace(0, 0.9, 19), [0.925, 0.95, 0.97, 0.985, 1.0]])
_PIECES = tuple(np.split(TEMPERATURES, 3))
_ALONG = np.linspace(0.04, 1.0, 13)  # parts of the way to the branch's end at which its states are kept


def diagram(sleep: float) -> Generator[None, None, dict[str, np.ndarray]]:
    """The lines of the phase diagram, found at some temperatures at a time; the whole is returned."""
    parts = []
    for piece in range(len(_PIECES)):
        parts.append(_lines(sleep, piece))
        yield None
    return {**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, **_glass(sleep)}


@lru_cache(maxsize=128)
def _lines(sleep: float, piece: int) -> dict[str, np.ndarray]:
    found = eq.theory.hopfield_lines(_PIECES[piece], sleep)
    return {
        "temperatures": _PIECES[piece], "spinodal": np.asarray(found.spinodal), "first": np.asarray(found.first_order),
        "breaking": np.asarray(found.almeida_thouless),
    }  # fmt: skip


@lru_cache(maxsize=32)
def _glass(sleep: float) -> dict[str, np.ndarray]:
    loads = 1.3 * np.linspace(0, 1, 64) ** 2
    return {"loads": loads, "glass": np.asarray(eq.theory.hopfield_glass(loads, sleep))}


_KEPT: dict[float, tuple[np.ndarray, SaddlePoint]] = {}  # by sleep; the choices of a dial, so that there are few


def _branch(sleep: float) -> tuple[np.ndarray, SaddlePoint]:
    """States of the retrieval branch at every temperature below 1, from near its beginning to its end."""
    from equilibria.theory.hopfield_network.replica import at_ratio, edge

    cold = TEMPERATURES[TEMPERATURES < 1]
    end = edge(cold, np.full(cold.shape, float(sleep)))
    given = [np.broadcast_to(each[:, None], (len(cold), len(_ALONG))) for each in (cold, np.full(cold.shape, sleep))]
    return cold, at_ratio(end.ratio[:, None] * _ALONG, *given)


def prepare(sleep: float) -> None:
    """Keep what dials ask for, so that it is found at once when they do."""
    if not prepared(sleep):
        for _ in diagram(sleep):
            pass
        _KEPT[sleep] = _branch(sleep)


def prepared(sleep: float) -> bool:
    """Whether theory of this sleep is found at once."""
    return sleep in _KEPT


def disordered_phase(load: float, temperature: float, sleep: float) -> str:
    """The phase where no pattern is retrieved."""
    return "spin glass" if temperature < eq.theory.hopfield_glass(load, sleep) else "paramagnet"


def overlap_at(load: float, temperature: float, sleep: float) -> float:
    """The overlap of the retrieval branch, as `eq.theory.hopfield` gives it; NaN where there is none.

    That takes a tenth of a second, most of it to make sure where the branch ends. Here the states of the branch are kept, and
    the same equations are solved from the nearest ones; where that fails, or nothing is kept yet, theory is asked.
    """
    found = _near(load, temperature, sleep) if prepared(sleep) and load > 0 and temperature < TEMPERATURES[-2] else None
    return float(eq.theory.hopfield(load, temperature, sleep).m) if found is None else found


def _near(load: float, temperature: float, sleep: float) -> float | None:
    """The overlap from the states of the branch that are kept; None near its end, or where no solution is found."""
    from scipy.optimize import fsolve

    from equilibria.theory.hopfield_network.replica import ControlParameters, balance, site

    cold, states = _KEPT[sleep]
    row = max(1, int(np.searchsorted(cold, temperature)))
    part = (temperature - cold[row - 1]) / (cold[row] - cold[row - 1])
    if load > 0.97 * min(states.load[row - 1].max(), states.load[row].max()):
        return None
    rows = [(np.interp(load, states.load[each], column[each])) for each in (row - 1, row) for column in states[:2]]
    signal, noise = (1 - part) * np.array(rows[:2]) + part * np.array(rows[2:])
    given = np.array(temperature), np.array(float(sleep))

    def missing(point: np.ndarray) -> list[float]:
        mismatch, _, reached = balance(point[0], point[1], *given)
        return [float(mismatch), float(np.sign(reached) * np.sqrt(abs(reached)) - np.sqrt(load))]

    found, seen, success, _ = fsolve(missing, [signal, noise / signal], xtol=1e-12, full_output=True)
    if success != 1 or max(map(abs, seen["fvec"])) > 1e-9 or not found.min() > 0:
        return None
    return float(site(found[0], found[0] * found[1], ControlParameters(*given)).m)


def filled(network: eq.Network, tiers: Sequence[int]) -> eq.Network:
    """The same network with its factors filled up with zeros to one of a few numbers, for which there is compiled code.

    In NumPy: `Coupling.padded` would compile for every number of patterns.

    >>> filled(eq.hopfield([[1, -1]]), (4, 8)).couplings[0].factors.shape
    (4, 2)
    """
    (coupling,) = network.couplings
    factors = np.asarray(coupling.factors)  # type: ignore[attr-defined]
    rows = next(tier for tier in tiers if tier >= len(factors))
    whole = np.zeros((rows, factors.shape[1]), np.float32)
    whole[: len(factors)] = factors
    return eq.Network(network.layers, [eq.Factored(("neurons", "neurons"), whole)])
