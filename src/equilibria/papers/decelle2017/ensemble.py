"""Machines with modes in noise: drawn from the ensemble (10), sampled, and what they scatter by at finite size."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import equilibria as eq


class Machine(NamedTuple):
    """One machine of the ensemble (10)."""

    network: eq.Network
    visible: np.ndarray  # u, rescaled to components of order 1 (modes, visible)
    hidden: np.ndarray  # v, likewise

    @property
    def units(self) -> float:
        """L = sqrt(N_v N_h)."""
        return float(np.sqrt(self.visible.shape[1] * self.hidden.shape[1]))


def machine(strengths, *, noise: float, visible: int, aspect: float, law: str, random: np.random.Generator) -> Machine:
    """A machine with modes in noise, (10): w_ij = sum_a w_a u_i^a v_j^a / L + r_ij with r ~ N(0, noise^2 / L).

    Args:
        strengths: w_a, one for each mode.
        noise: sigma.
        visible: N_v.
        aspect: kappa = N_h / N_v.
        law: of the components u and v, which are independent and have unit variance: "gaussian", "uniform" or "bernoulli".
        random: draws them.

    Returns:
        The machine and its modes.
    """
    hidden = round(aspect * visible)
    draws: dict[str, Callable[[tuple[int, int]], np.ndarray]] = {
        "gaussian": random.standard_normal,
        "uniform": lambda size: random.uniform(-(3**0.5), 3**0.5, size),
        "bernoulli": lambda size: random.choice([-1.0, 1.0], size),
    }
    draw = draws[law]
    u, v = draw((len(strengths), visible)), draw((len(strengths), hidden))
    units = np.sqrt(visible * hidden)
    weights = (u.T * strengths) @ v / units + noise / np.sqrt(units) * random.standard_normal((visible, hidden))
    return Machine(eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Spin()), u, v)


def _everything(state):
    return state


class Measured(NamedTuple):
    """Order parameters of a sampled machine."""

    hidden: np.ndarray  # m_a = <sigma_a> / sqrt(L)
    visible: np.ndarray  # mbar_a
    hidden_overlap: float  # q, between the two halves of a chain's time
    visible_overlap: float


def measure(sampled: Machine, *, mode: int = 0, chains: int, sweeps: int, key) -> Measured:
    """Gibbs sampling from the state of a mode; the first third of the sweeps is left out.

    Args:
        sampled: the machine.
        mode: in whose state the chains begin.
        chains: how many.
        sweeps: of each chain.
        key: a random key or a seed.

    Returns:
        The order parameters.
    """
    begin = {"visible": np.sign(sampled.visible[mode]), "hidden": np.sign(sampled.hidden[mode])}
    how = eq.Sweeps(sweeps)
    _, states = eq.trajectory(
        sampled.network, how, begin, observe=_everything, chains=chains, show_progress=False, key=key
    )
    root = np.sqrt(sampled.units)
    found = []
    for name, components in (("hidden", sampled.hidden), ("visible", sampled.visible)):
        kept = np.asarray(states[name])[sweeps // 3 :]
        first, second = (half.mean(axis=0) for half in np.array_split(kept, 2))
        along = components @ kept.mean(axis=(0, 1)) / (np.sqrt(components.shape[1]) * root)
        found.append((along, float(np.mean(first * second))))
    (m, q), (mbar, qbar) = found
    return Measured(m, mbar, q, qbar)


def finite_size_error(states, strength: float, *, aspect: float, visible: int) -> np.ndarray:
    """By how much (m, mbar) of one machine of this size scatters about the first of `states`, to leading order.

    The averages E[v tanh] of (11)-(12) are means over N_h (or N_v) independent draws, and what they miss by goes around
    the equations: dm = (xi + w C xibar) / (1 - w^2 C Cbar), with the curvatures C = E[v^2 sech^2] and
    Var(v tanh) = 1 - C - E[v tanh]^2.

    Args:
        states: what `theory.fixed_points` found for one mode.
        strength: of the mode.
        aspect: kappa = N_h / N_v.
        visible: N_v.

    Returns:
        One standard deviation of m and of mbar.
    """
    root = aspect**0.25
    curve, curvebar = float(states.hidden_curvature[0, 0, 0]), float(states.visible_curvature[0, 0, 0])
    m, mbar = float(states.hidden[0, 0]), float(states.visible[0, 0])
    own = root**2 * (1 - curve - (m / root) ** 2) / (aspect * visible)
    ownbar = root**-2 * (1 - curvebar - (mbar * root) ** 2) / visible
    loop = 1 - strength**2 * curve * curvebar
    return np.sqrt([own + (strength * curve) ** 2 * ownbar, ownbar + (strength * curvebar) ** 2 * own]) / loop
