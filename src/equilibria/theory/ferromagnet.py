"""The Curie-Weiss ferromagnet: one pattern, so that every spin pulls on every other with the same strength."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equilibria.check import number
from equilibria.theory.neuron import TINY, thermodynamics
from equilibria.theory.saddle import root


class Magnet(NamedTuple):
    """The stable state of a Curie-Weiss ferromagnet.

    >>> curie_weiss(0.5).converged
    np.True_
    """

    m: np.ndarray  # magnetisation, >= 0
    free_energy: np.ndarray  # per spin
    converged: np.ndarray


def curie_weiss(temperature: ArrayLike, field: ArrayLike = 0.0) -> Magnet:
    """Magnetisation and free energy of the Curie-Weiss model, J_ij = 1/N, in the limit of many spins.

    m = tanh((m + h) / T) and f = m^2/2 - T ln 2cosh((m + h) / T); the solution given is the stable one, largest in m.
    Without a field, m > 0 below the critical temperature T = 1. This is also the Hopfield network of a single pattern,
    m being the overlap with it (E. Agliari, lecture at the school "Bruno Touschek", Frascati 2024).

    Args:
        temperature: T >= 0.
        field: h >= 0; the two broadcast.

    Returns:
        The magnetisation, the free energy per spin, and whether they converged.

    Raises:
        ValueError: if temperature or field is negative or not finite.

    >>> curie_weiss([0.0, 0.5, 1.5]).m.round(6)
    array([1.      , 0.957504, 0.      ])
    """
    number("temperature", temperature, least=0)
    number("field", field, least=0)
    warmth, h = (np.asarray(x, float) for x in np.broadcast_arrays(temperature, field))
    # m = 0 is a root too without a field: tanh x > x - x^3/3 puts the other one above sqrt(3 (1 - T)) T
    low = np.where(h > 0, 0.0, np.sqrt(np.maximum(3 * (1 - warmth), 0)) * warmth)
    found = root(lambda m, T, h: np.tanh((m + h) / np.maximum(T, TINY)) - m, low, 1.0, warmth, h)
    trivial = (warmth == 0) | ((h == 0) & (warmth >= 1))
    m = np.where(trivial, np.where(warmth == 0, 1.0, 0.0), found.value)
    return Magnet(m[()], m * m / 2 - thermodynamics(m + h, 0.0, warmth).pressure, found.converged | trivial)
