r"""As many modes as hidden neurons, along random orthogonal directions: what the average over the orthogonal group gives.

The paper has a finite number K of modes, and says of K extensive that one "should instead average over the orthogonal group".
In the phase without order that average is short. For given spins $s$ and $\sigma$, of $W = U \Sigma V^T$ with $U$ and $V$ of
the group, $E\,e^{s^T W \sigma}$ depends on their lengths alone, so that $s$ and $\sigma$ may as well be any vectors of squared
lengths $N_v$ and $N_h$. Two multipliers, A and B, hold these lengths; what is left is Gaussian, and gives

    <s_a sigma_a> = w_a / (A B - w_a^2),   A = 1 + S / N_v,   B = 1 + S / N_h,   S = sum_a w_a <s_a sigma_a>.

With K finite S is small beside N_v and N_h, so that A = B = 1: that is the response w / (1 - w^2) of the paper's linear regime.
For the noise of (10), A = 1 + kappa^(1/2) sigma^2 and B = 1 + kappa^(-1/2) sigma^2. A mode condenses where w^2 reaches A B;
modes that are many and of like strength never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.optimize import brentq

import equilibria as eq
from equilibria import plots
from equilibria.model.network import State
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
from equilibria.papers.sweep import sweep

SPECTRA = {"weak": (0.0, 0.9), "strong": (1.4, 1.5)}  # singular values between these, all of them below or above 1


@dataclass(frozen=True)
class Config:
    """Machines with one mode for each hidden neuron; responses are means over `groups` of modes of like strength."""

    visible: int = 400
    aspect: float = 0.5
    groups: int = 5
    chains: int = 16
    sweeps: int = 300
    seeds: int = 2
    seed: int = 0

    @property
    def hidden(self) -> int:
        """N_h, and the number of modes."""
        return round(self.aspect * self.visible)


class Invariant(NamedTuple):
    """What the average over the orthogonal group gives.

    Attributes:
        correlations: <s_a sigma_a>.
        visible: the multiplier A.
        hidden: the multiplier B.
    """

    correlations: np.ndarray
    visible: float
    hidden: float


def invariant(strengths: ArrayLike, visible: int, hidden: int) -> Invariant:
    """The response of modes along random orthogonal directions, in the phase without order.

    Args:
        strengths: w_a, one for each mode.
        visible: N_v.
        hidden: N_h.

    Returns:
        The correlations along the modes and the multipliers.

    >>> invariant([0.5], 10**6, 10**6).correlations.round(4)  # one mode of a large machine: w / (1 - w^2)
    array([0.6667])
    >>> invariant(np.full(100, 1.5), 200, 100).visible.__round__(4)  # all alike: A (A - 1) = kappa w^2
    1.6726
    """
    squares = np.asarray(strengths, np.float64) ** 2

    def product(total: float) -> float:
        return (1 + total / visible) * (1 + total / hidden)

    def excess(total: float) -> float:
        return float((squares / (product(total) - squares)).sum() - total)

    # A B must exceed all squares; there the sum diverges, and far out it is nothing.
    top = float(squares.max())
    least = 0.0 if top < 1 else brentq(lambda total: product(total) - top, 0.0, hidden * top)
    most = least + 10 * (len(squares) + visible + hidden) * (1 + top)
    total = brentq(excess, least * (1 + 1e-12) + 1e-12, most, xtol=1e-13, rtol=1e-13)
    return Invariant(np.sqrt(squares) / (product(total) - squares), 1 + total / visible, 1 + total / hidden)


def spectrum(config: Config, name: str) -> np.ndarray:
    """The singular values, evenly between the ends, the strongest first."""
    low, high = SPECTRA[name]
    return high - (high - low) * np.arange(config.hidden) / config.hidden


class Along(eqx.Module):
    """Mean correlations of groups of modes, and the visible and hidden components along the strongest."""

    left: Array  # (modes, visible)
    right: Array  # (modes, hidden)
    groups: int = eqx.field(static=True)

    def __call__(self, state: State) -> tuple[Array, Array]:
        s, sigma = state["visible"] @ self.left.T, state["hidden"] @ self.right.T
        products = (s * sigma).reshape(*s.shape[:-1], self.groups, -1).mean(axis=-1)
        return products, jnp.stack([s[..., 0], sigma[..., 0]], axis=-1)


def sampled(spectra: str, machine: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a machine sampled from the state of its strongest mode; the first third is left out of the response."""
    random = np.random.default_rng([config.seed, machine, list(SPECTRA).index(spectra)])
    left, right = (
        np.linalg.qr(random.standard_normal((size, config.hidden)))[0].T for size in (config.visible, config.hidden)
    )
    network = eq.rbm(weights=(left.T * spectrum(config, spectra)) @ right, visible=eq.Spin(), hidden=eq.Spin())
    begin = {"visible": np.where(left[0] >= 0, 1.0, -1.0), "hidden": np.where(right[0] >= 0, 1.0, -1.0)}
    _, (products, strongest) = eq.trajectory(
        network, eq.Sweeps(config.sweeps), begin, observe=Along(jnp.asarray(left), jnp.asarray(right), config.groups),
        chains=config.chains, show_progress=False, key=jax.random.key(config.seed + machine),
    )  # fmt: skip
    chains = np.asarray(products, np.float64)[config.sweeps // 3 :].mean(axis=0)
    return {
        "response": chains.mean(axis=0),
        "error": chains.std(axis=0, ddof=1) / np.sqrt(config.chains),
        "strongest": np.asarray(strongest, np.float64).mean(axis=1) / (config.visible * config.hidden) ** 0.25,
    }


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Machines of both spectra, beside the average over the orthogonal group and the equations for K finite."""
    cells = sweep(sampled, config, checkpoint, spectra=list(SPECTRA), machine=range(config.seeds))
    strengths = {name: spectrum(config, name) for name in SPECTRA}
    grouped = {name: one.reshape(config.groups, -1) for name, one in strengths.items()}
    theory = {name: invariant(one, config.visible, config.hidden) for name, one in strengths.items()}
    below = grouped["weak"]
    finite = eq.theory.fixed_points([SPECTRA["strong"][1]], aspect=config.aspect)
    return xr.Dataset(
        {
            **{name: (("spectrum", "machine", "group"), cells[name].values) for name in ("response", "error")},
            "strongest": (("spectrum", "machine", "sweep", "layer"), cells["strongest"].values),
            "strength": (("spectrum", "group"), [one.mean(axis=1) for one in grouped.values()]),
            "invariant": (
                ("spectrum", "group"), [theory[name].correlations.reshape(config.groups, -1).mean(1) for name in SPECTRA],
            ),
            "linear": ("group", (below / (1 - below**2)).mean(axis=1)),
            "threshold": ("spectrum", [np.sqrt(one.visible * one.hidden) for one in theory.values()]),
            "condensed": ("layer", [finite.visible[0, 0], finite.hidden[0, 0]]),
        },
        {"spectrum": list(SPECTRA), "layer": ["visible", "hidden"]},
        {"visible": config.visible, "hidden": config.hidden},
    )  # fmt: skip


def plot(dataset: xr.Dataset) -> Figure:
    """Left: correlations along the modes of machines with as many modes as hidden neurons, all weaker than 1, and the two
    theories. Right: machines whose modes are all stronger than 1, begun along the strongest; dashed: where the equations
    for K finite say that they stay."""
    figure, (left, right) = plots.panels(2, size=(4.6, 3.4))
    weak, strong = dataset.sel(spectrum="weak"), dataset.sel(spectrum="strong")
    for machine in range(dataset.sizes["machine"]):
        plots.simulation_points(
            left, weak["strength"], weak["response"].isel(machine=machine), colour=plots.PALETTE[0],
            label=None if machine else f"{dataset.sizes['machine']} machines",
        )  # fmt: skip
        along = strong["strongest"].isel(machine=machine).sel(layer="visible")
        label = None if machine else "machines begun along a mode"
        right.plot(np.arange(len(along)) + 1, along, color=plots.PALETTE[0], linewidth=0.9, label=label)
    plots.theory_line(
        left, weak["strength"], weak["invariant"], colour="black", label="average over the orthogonal group"
    )
    plots.theory_line(
        left, weak["strength"], weak["linear"], colour=plots.PALETTE[1], linestyle="--", label="$K$ finite: $w/(1-w^2)$"
    )
    left.set(xlabel="singular value $w_α$", ylabel=r"$\langle s_α σ_α\rangle$", ylim=(0, None))
    left.set_title("all modes weaker than 1")
    left.legend(loc="upper left")
    right.axhline(
        float(strong["condensed"].sel(layer="visible")), color=plots.PALETTE[1], linestyle="--", label="$K$ finite"
    )
    right.axhline(0, color="black", linewidth=0.8, label="average over the orthogonal group")
    right.set(xlabel="sweep + 1", xscale="log", ylabel=r"visible overlap $\bar m$")
    right.set_title("all modes stronger than 1: along the strongest")
    right.legend(loc="center right")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The average over the orthogonal group is the theory of such machines, and another one than that of finite K."""
    measured, error = dataset["response"], np.hypot(dataset["error"], dataset["invariant"] / dataset.attrs["hidden"])
    away = (abs(measured - dataset["invariant"]) / error).transpose("machine", "spectrum", "group").values
    finite = (abs(measured - dataset["linear"]) / error).sel(spectrum="weak").transpose("machine", "group").values
    late = dataset["strongest"].sel(spectrum="strong").transpose("machine", "layer", "sweep").values
    late = np.abs(late[..., late.shape[-1] // 3 :].mean(-1))
    size = float(dataset.attrs["visible"] * dataset.attrs["hidden"]) ** -0.25  # L^(-1/2)
    told = {"every": True, "over": "machine"}
    return [
        at_most(
            "With as many modes as hidden neurons the average over the orthogonal group is the theory: largest distance of the "
            "correlations along the modes, of all groups of modes below and above strength 1, in standard errors",
            source="text after (10)", expected=0, measured=away, tolerance=4,
            reason="a standard error is that between chains, and the finite size, relatively 1/N_h; one in some thousand "
            "passes four", quote="For K extensive we should instead average over the orthogonal group", **told,
        ),
        at_least(
            "... and it is another theory than that for K finite: least distance of w / (1 - w^2) from machines, in standard "
            "errors", source="text after (10)", expected=4, measured=finite, reason="what is allowed of the other theory",
            quote="which would lead to a slightly different mean-field theory", **told,
        ),
        not_testable(
            "... but only slightly", source="text after (10)",
            reason="by how much depends on the strengths, which the paper does not give; the figure shows one choice",
            quote="which would lead to a slightly different mean-field theory",
        ),
        at_most(
            f"Modes stronger than 1 do not condense where they are many: m and mbar of machines begun along the strongest, for "
            f"which the equations for K finite have {float(dataset['condensed'].min()):.2f} or more",
            source="average over the orthogonal group", expected=0, tolerance=size, measured=late, ours=True,
            reason="the overlap 1/sqrt(L) of one random state", **told,
        ),
    ]  # fmt: skip


DIFFERS = {
    "quick": ("beyond the paper, which limits itself to finite K; 400 x 200 units, two machines",),
    "paper": ("beyond the paper, which limits itself to finite K: spectra and sizes are ours",),
}
PRESETS = {
    "quick": Config(),
    "paper": Config(visible=2000, groups=10, chains=32, sweeps=1500, seeds=5),
}
