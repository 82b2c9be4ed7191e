"""The Curie-Weiss ferromagnet: one pattern, so that every spin pulls on every other with the same strength."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..check import number
from .saddle import bracketed_root, pointwise


class Magnet(NamedTuple):
    """The stable state of a Curie-Weiss ferromagnet."""

    m: np.ndarray  # magnetisation, >= 0 (and +0.0 above the critical temperature, where there is none)
    free_energy: np.ndarray  # per spin
    converged: np.ndarray


def curie_weiss(temperature: ArrayLike, field: ArrayLike = 0.0) -> Magnet:
    """Magnetisation and free energy of the Curie-Weiss model, J_ij = 1/N, in the limit of many spins.

    m = tanh((m + h) / T) and f = m^2/2 - T ln 2cosh((m + h) / T), with T the `temperature` and h >= 0 the `field`; the
    solution given is the stable one, largest in m. Without a field, m > 0 below the critical temperature T = 1. This is
    also the Hopfield network of a single pattern, m being the overlap with it (E. Agliari, lecture at the school
    "Bruno Touschek", Frascati 2024).

    >>> curie_weiss([0.0, 0.5, 1.5]).m.round(6)
    array([1.      , 0.957504, 0.      ])
    """
    return Magnet(*_solve(number("temperature", temperature, least=0), number("field", field, least=0)))


@pointwise
def _solve(temperature, field):
    def pull(m):
        return jnp.tanh((m + field) / jnp.maximum(temperature, 1e-300)) - m

    # m = 0 is a root too: tanh x > x - x^3/3 puts the other one above sqrt(3 (1 - T)) T
    small = jnp.sqrt(jnp.maximum(3 * (1 - temperature), 0)) * temperature
    low = jnp.where(field > 0, 0.0, small)
    root = bracketed_root(pull, low, 1.0)
    none = (field == 0) & (temperature >= 1)
    m = jnp.where(temperature == 0, 1.0, jnp.where(none, 0.0, root.value))
    local = jnp.abs(m + field)
    entropy = temperature * jnp.log1p(jnp.exp(-2 * local / jnp.maximum(temperature, 1e-300)))
    return m, m * m / 2 - local - entropy, root.converged | none | (temperature == 0)
