"""What a solution of the replica-symmetric equations means: order parameters, free energy and stability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from equilibria.theory.hopfield_network.replica import (
    ControlParameters,
    SaddlePoint,
    differing,
    entry_distribution,
    fields,
    others,
    site,
    unlinked,
)
from equilibria.theory.neuron import thermodynamics


class Observables(NamedTuple):
    """Order parameters, free energy and stability of a saddle point."""

    m: np.ndarray
    q: np.ndarray
    free_energy: np.ndarray
    stability: np.ndarray


def observables(state: SaddlePoint, control: ControlParameters) -> Observables:
    """What a solution of the equations means.

    The free energy is per spin, of the network without self-couplings:

        f = A^2 Delta (Delta+t) / (2(1+t)) + alpha S (1+t) (Q - q - 1/Delta) / 2 + X^2 Delta^2 (Q-q) / (2T)
            + alpha T [ln D + (M-1) ln D_w] / 2 + T ln(Delta) / 2 + kappa Delta X^2 / 2 - T E[ln 2cosh(h/T)]
            + Tr J / (2N) - T ln det(1 + t C) / (2N)

    the last two from `bare`, and the terms with M - 1 only for unlabelled examples. The stability is that of de Almeida
    and Thouless, 1 - alpha G E[(sech^2(h/T) / (T Delta) - kappa)^2].
    """
    signal, noise, delta, load, _ = state
    t, temperature = control.sleep, control.temperature
    kappa = t / (1 + t)
    entries, here = entry_distribution(control), site(signal, noise, control)
    rest = others(here, signal, noise, delta, control)
    each = thermodynamics(*fields(signal, noise, entries), np.asarray(temperature)[..., None])
    pressure, slope_square = (entries.mean(average) for average in each)
    fluctuation = slope_square / delta**2 - 2 * kappa * here.slope / delta + kappa**2
    # without patterns the others do not count, and may be anything
    count = (rest.stiffness, rest.softness, rest.reaction, fluctuation)
    stiffness, softness, reaction, fluctuation = (np.where(load > 0, x, 1.0) for x in count)
    self_coupling, log_determinant = bare(load, control)
    change = here.slope / delta**2 - kappa / delta  # (Q - q) / T
    free_energy = (
        signal**2 * delta * (delta + t) / (2 * (1 + t))
        + load * (1 + t) * (temperature * change - 1 / delta) * reaction / (2 * stiffness)
        + noise**2 * delta**2 * change / 2
        + temperature * (load * _log_stiffness(stiffness, control) + np.log(delta)) / 2
        + kappa * delta * noise**2 / 2
        - pressure
        + (self_coupling - temperature * log_determinant) / 2
    )
    m = np.where(signal > 0, here.m, 0.0)  # not a rounding error
    return Observables(m, here.square, free_energy, 1 - load * fluctuation / softness)


def bare(load: np.ndarray, control: ControlParameters) -> tuple[np.ndarray, np.ndarray]:
    """The self-coupling J_ii and ln det(1 + t C) / N of the couplings alone.

    By the law of Marchenko and Pastur for patterns of several strengths, from Delta and D at infinite temperature:
    D = 1 + t/Delta, Delta - 1 = alpha t S.
    """
    load, t, *_ = np.broadcast_arrays(load, *(control.sleep, control.unlabelled, control.entropy))
    delta = unlinked(np.zeros_like(load), load, control)
    stiffness = 1 + t / delta
    reaction = 1 + control.unlabelled * differing(stiffness, control)
    logs = load * _log_stiffness(stiffness, control)
    return load * (1 + t) * reaction / (delta * stiffness), logs + np.log(delta) - 1 + 1 / delta


def _log_stiffness(stiffness: np.ndarray, control: ControlParameters) -> np.ndarray:
    """ln D + (M-1) ln D_w."""
    return np.log(stiffness) + control.unlabelled * np.log1p(control.blur * (stiffness - 1))
