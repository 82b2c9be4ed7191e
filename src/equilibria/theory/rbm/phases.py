"""The phases of a restricted Boltzmann machine with one strong mode in noise: paramagnet, ferromagnet, spin glass.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), from the states of `states.py`. With 1/sigma as temperature
and w/sigma as ferromagnetic coupling the diagram looks like that of Sherrington and Kirkpatrick.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.rbm.components import Components
from equilibria.theory.rbm.ensemble import RESIDUAL, Ensemble, describe
from equilibria.theory.rbm.states import States, rest
from equilibria.theory.saddle import root

PHASES = ("paramagnet", "ferromagnet", "spin glass")
ORDERED = 1e-5  # an order parameter below this is zero
TOGETHER = 16  # points are solved so many at a time: one compilation for all, and easy ones do not wait for others
WAVES = 512  # as many serve most diagrams, and then code compiled for one serves the others


def _one_mode(base: Ensemble, strength: jax.Array, noise: jax.Array) -> Ensemble:
    none = jnp.zeros(1)
    return Ensemble(strength[None], noise, base.aspect, none, none, none > 0, base.laws, base.waves)


def _best(ensemble: Ensemble) -> States:
    """The stable state of largest ln Z, out of those reached from full order and from none."""
    begin = jnp.array([[0.9, 0.9], [0.0, 0.9]]).at[0, 0].multiply(jnp.asarray(ensemble.aspect) ** 0.25)
    states = jax.vmap(lambda x: rest(ensemble, x))(begin)
    worth = jnp.where((states.growth < 1.0 + 1e-9) & (states.residual < RESIDUAL), states.log_partition, -jnp.inf)
    chosen = jnp.argmax(worth)
    return jax.tree.map(lambda rows: rows[chosen], states)


@jax.jit
def _points(base: Ensemble, strengths: jax.Array, noises: jax.Array) -> States:
    return jax.vmap(lambda *point: _best(_one_mode(base, *point)))(strengths, noises)


def _solve(base: Ensemble, strengths: np.ndarray, noises: np.ndarray) -> States:
    """`_best` of each point."""
    rows = [np.resize(points, (-(-points.size // TOGETHER), TOGETHER)) for points in (strengths, noises)]
    with jax.enable_x64(True):
        parts = [jax.tree.map(np.asarray, _points(base, *row)) for row in zip(*rows, strict=True)]
    return jax.tree.map(lambda *pieces: np.concatenate(pieces)[: strengths.size], *parts)


def _axis(name: str, given: ArrayLike) -> np.ndarray:
    values = np.atleast_1d(np.asarray(check.number(name, given, least=0), dtype=np.float64))
    if values.ndim != 1:
        check.refuse(name, f"shape {values.shape}", "a list of numbers")
    return values


def _base(strengths: np.ndarray, noises: np.ndarray, aspect: float, components: Components) -> Ensemble:
    highest = [strengths.max(initial=0.0)], noises.max(initial=0.0)
    return describe(*highest, aspect, 0.0, 0.0, components, least=WAVES)


def phase_diagram(
    noise: ArrayLike, strength: ArrayLike, *, aspect: float = 1.0, components: Components = "gaussian"
) -> xr.Dataset:
    """The equilibrium state of a machine with a single mode in noise, on a grid. The paramagnet ends at w = 1 and sigma = 1.

    Args:
        noise: sigma, one axis of the grid.
        strength: w, the other.
        aspect: kappa = N_h / N_v > 0.
        components: what the components are drawn from, as in `fixed_points`.

    Returns:
        A Dataset over (noise, strength): `hidden` m, `visible` mbar, `hidden_overlap` q, `visible_overlap` qbar,
        `log_partition` ln Z / L, `growth`, `replicon` (above 1 replica symmetry is broken: the AT line is its level 1),
        `residual`, `converged` and `phase`: 0 paramagnet (m = q = 0), 1 ferromagnet (m > 0), 2 spin glass (m = 0, q > 0).

    Raises:
        ValueError: if an argument is out of its range.

    >>> phase_diagram([0.5, 2.0], [0.5, 2.0]).phase.values
    array([[0, 1],
           [2, 2]])
    """
    noises, strengths = _axis("noise", noise), _axis("strength", strength)
    sigma, w = (grid.ravel() for grid in np.meshgrid(noises, strengths, indexing="ij"))
    states = _solve(_base(strengths, noises, aspect, components), w, sigma)
    phase = np.where(states.hidden[:, 0] > ORDERED, 1, np.where(states.hidden_overlap > ORDERED, 2, 0))
    table = {
        "hidden": states.hidden[:, 0],
        "visible": states.visible[:, 0],
        "hidden_overlap": states.hidden_overlap,
        "visible_overlap": states.visible_overlap,
        "log_partition": states.log_partition,
        "growth": states.growth,
        "replicon": states.replicon,
        "residual": states.residual,
        "converged": states.residual < RESIDUAL,
        "phase": phase,
    }
    shape = (noises.size, strengths.size)
    data = xr.Dataset(
        {name: (("noise", "strength"), values.reshape(shape)) for name, values in table.items()},
        coords={"noise": noises, "strength": strengths},
        attrs={"aspect": float(aspect), "components": str(components)},
    )
    data.phase.attrs.update(flag_values=[0, 1, 2], flag_meanings=", ".join(PHASES))
    return data


def breaking_line(strength: ArrayLike, *, aspect: float = 1.0, components: Components = "gaussian") -> np.ndarray:
    """The line of de Almeida and Thouless: the noise beyond which replica symmetry is broken.

        sigma^4 E[sech^4 h] E[sech^4 hbar] = 1

    Args:
        strength: w of a single mode, a list.
        aspect: kappa = N_h / N_v > 0.
        components: what the components are drawn from, as in `fixed_points`.

    Returns:
        The noise sigma, for each strength.

    Raises:
        ValueError: if an argument is out of its range.
        RuntimeError: if no line was found.

    >>> breaking_line([0.5, 2.0]).round(3)
    array([1.   , 1.651])
    """
    strengths = _axis("strength", strength)
    highest = strengths + 1.5
    base = _base(strengths, highest, aspect, components)

    def excess(noise: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.asarray(_solve(base, w, noise).replicon) - 1.0

    found = root(excess, np.zeros_like(strengths), highest, strengths, tolerance=1e-9)
    if not found.converged.all():
        raise RuntimeError(f"breaking_line: no line found for strength {strengths[~found.converged]}")
    return found.value


def critical_strength(noise: ArrayLike, *, aspect: float = 1.0) -> np.ndarray:
    """The strength w at which a mode comes out of the noise, whatever the law of its components.

        w^2 E[sech^2 h] E[sech^2 hbar] = 1  at  m = mbar = 0,

    so w = 1 from the paramagnet (sigma < 1), more from the spin glass.

    Args:
        noise: sigma, a list.
        aspect: kappa = N_h / N_v > 0.

    Returns:
        The strength, for each noise.

    Raises:
        ValueError: if an argument is out of its range.

    >>> critical_strength([0.5, 2.0]).round(3)
    array([1.   , 2.129])
    """
    noises = _axis("noise", noise)
    data = phase_diagram(noises, [0.0], aspect=aspect)
    return ((1.0 - data.hidden_overlap) * (1.0 - data.visible_overlap)).values[:, 0] ** -0.5
