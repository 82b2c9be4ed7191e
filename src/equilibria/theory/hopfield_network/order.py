"""What a large Hopfield network remembers: order parameters, and how many patterns it can hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.hopfield_network.observables import Observables, observables
from equilibria.theory.hopfield_network.replica import (
    LONGEST,
    ControlParameters,
    SaddlePoint,
    disordered,
    edge,
    retrieval,
)

BRANCHES = ("retrieval", "spin glass", "paramagnet")


class OrderParameters(NamedTuple):
    """One branch of the theory of a Hopfield network; where `exists` is False the branch is absent, its values NaN.

    >>> branch = hopfield(load=[0.05, 0.2])
    >>> branch.exists, branch.m.round(6)
    (array([ True, False]), array([0.999992,      nan]))
    """

    m: np.ndarray  # overlap with the retrieved pattern
    q: np.ndarray  # overlap of two replicas, E[<sigma>^2]
    free_energy: np.ndarray  # per spin, self-couplings removed
    stability: np.ndarray  # of de Almeida and Thouless: the replica-symmetric state is stable where it is positive
    exists: np.ndarray
    converged: np.ndarray  # of the values where the branch exists, of its absence where it does not


def hopfield(
    load: ArrayLike, temperature: ArrayLike = 0.0, sleep: ArrayLike = 0.0, *, branch: str = "retrieval"
) -> OrderParameters:
    """Order parameters of a Hopfield network of N spins and K patterns, N -> infinity at a load alpha = K/N.

    Replica-symmetric theory at any temperature T >= 0, for couplings that have slept for a time t,

        J = (1/N) sum_{mu nu} xi^mu [(1+t) / (1 + t C)]_{mu nu} xi^nu,   C_{mu nu} = xi^mu . xi^nu / N

    so that 0 is Hebb's rule and infinity the pseudo-inverse. Without sleep (Amit, Gutfreund, Sompolinsky 1987)

        m = E tanh((m + sqrt(alpha r) z) / T),  q = E tanh^2(same),  r = q / (1 - (1-q)/T)^2

    and with it the equations in `replica.py` (Fachechi, Agliari, Barra 2019; E. Agliari, lecture at Frascati 2024).

    The branches are

    - "retrieval": m > 0; it exists up to the spinodal, `hopfield_capacity`;
    - "spin glass": m = 0 < q; given below the temperature `hopfield_glass`. There q starts from 0, but after long sleep
      at small loads it starts with a jump, and its continuation to higher temperatures is not followed;
    - "paramagnet": m = q = 0; given where it is stable, from that temperature on.

    Args:
        load: alpha >= 0. A load of 0 is a finite number of patterns: retrieval is the Curie-Weiss ferromagnet.
        temperature: T >= 0. At 0 the stability is minus infinity for every load above 0.
        sleep: t, from 0 to 10^4; the first three arguments broadcast.
        branch: one of the three above.

    Returns:
        Overlaps, free energy and stability of the branch, where it exists, and whether they converged.

    Raises:
        ValueError: if an argument is out of its range.

    >>> hopfield(load=[0.05, 0.1, 0.2], temperature=0.2).m.round(6)
    array([0.998878, 0.989085,      nan])
    """
    check.choice("branch", branch, BRANCHES)
    return solve(branch, load, *_checked(temperature, sleep, load))


def hopfield_capacity(temperature: ArrayLike = 0.0, sleep: ArrayLike = 0.0) -> np.ndarray:
    """The largest load alpha = K/N at which patterns are retrieved: the spinodal of the retrieval branch.

    It is 0 at T >= 1. With `temperature` it need not fall: the replica-symmetric line is re-entrant near T = 0. Nor need
    it rise with `sleep`: long sleep brings it to 1 for T -> 0, the most that the pseudo-inverse can hold, but at exactly
    T = 0 it passes 1 (1.068), because the energies that hold the patterns at alpha > 1, of order 1/sleep, are then
    compared with no temperature at all.

    Args:
        temperature: T >= 0.
        sleep: t, from 0 to 10^4; the two broadcast.

    Returns:
        The load.

    Raises:
        ValueError: if an argument is out of its range.
        RuntimeError: if the spinodal was not found.

    >>> hopfield_capacity(sleep=[0.0, 1.0]).round(6)
    array([0.137906, 0.386596])
    """
    return spinodal(*_checked(temperature, sleep))[()]


def hopfield_glass(load: ArrayLike, sleep: ArrayLike = 0.0) -> np.ndarray:
    """The temperature below which the spins freeze, with or without a pattern: T = 1 + sqrt(alpha) under Hebb's rule.

    After sleep, with a = alpha,

        T = (1+t) (1 + sqrt a) / {[1 + t sqrt a (1 + sqrt a)] [1 + t (1 + sqrt a)^2]}

    Args:
        load: alpha >= 0.
        sleep: t >= 0; the two broadcast.

    Returns:
        The temperature.

    Raises:
        ValueError: if an argument is negative or not finite.

    >>> hopfield_glass(0.1, sleep=[0.0, 1.0]).round(6)
    array([1.316228, 0.68026 ])
    """
    t = np.asarray(check.number("sleep", sleep, least=0), float)
    b = np.sqrt(np.asarray(check.number("load", load, least=0), float))
    return (1 + t) * (1 + b) / ((1 + t * b * (1 + b)) * (1 + t * (1 + b) ** 2))


def solve(branch: str, load: ArrayLike, *given: ArrayLike) -> OrderParameters:
    """One branch at the ControlParameters `given`."""
    alpha, *controls = (np.array(x, float) for x in np.broadcast_arrays(load, *given))
    if branch != "retrieval":
        return without_retrieval(alpha, *controls)[BRANCHES.index(branch) - 1]
    end = edge(*controls)
    exists = (alpha <= end.load) & (controls[0] < 1)
    state = retrieval(alpha[exists], end.ratio[exists], *(x[exists] for x in controls))
    return _fill(state, exists, end.converged, *controls)


def without_retrieval(load: np.ndarray, *given: np.ndarray) -> tuple[OrderParameters, OrderParameters]:
    """The spin glass and the paramagnet; the arrays have one shape."""
    state = disordered(load, *given)
    frozen = state.noise > 0
    # without patterns nothing freezes, but below T = 1 the one that is there is retrieved
    thawed = ~frozen & ((load > 0) | (given[0] >= 1))
    glass, paramagnet = (
        _fill(SaddlePoint(*(x[exists] for x in state)), exists, state.converged, *given) for exists in (frozen, thawed)
    )
    return glass, paramagnet


def spinodal(*given: np.ndarray) -> np.ndarray:
    """The load of the spinodal at the ControlParameters `given`, or an error if it was not found."""
    end = edge(*given)
    if not end.converged.all():
        raise RuntimeError(
            f"the spinodal was not found at {int((~end.converged).sum())} of {end.converged.size} points"
        )
    return end.load


def _fill(state: SaddlePoint, exists: np.ndarray, converged: np.ndarray, *given: np.ndarray) -> OrderParameters:
    """The order parameters of `state`, which holds the points where the branch exists, among all points."""
    values = observables(state, ControlParameters(*(x[exists] for x in given)))
    filled = [np.full(exists.shape, np.nan) for _ in Observables._fields]
    for whole, part in zip(filled, values, strict=True):
        whole[exists] = part
    converged = np.array(converged)
    converged[exists] &= state.converged
    return OrderParameters(*(x[()] for x in (*filled, exists, converged)))


def _checked(temperature: ArrayLike, sleep: ArrayLike, load: ArrayLike = 0.0) -> tuple[np.ndarray, np.ndarray]:
    check.number("load", load, least=0)
    check.number("temperature", temperature, least=0)
    return np.asarray(temperature, float), np.asarray(check.number("sleep", sleep, least=0, most=LONGEST), float)
