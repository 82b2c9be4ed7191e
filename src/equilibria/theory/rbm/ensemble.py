"""Restricted Boltzmann machines with a few strong modes in noise: the equations of their equilibrium at large size.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equations (10)-(12). The weights are

    w_ij = sum_a w_a u_i^a v_j^a + r_ij,   r_ij ~ N(0, sigma^2 / L),   L = sqrt(N_v N_h),   kappa = N_h / N_v,

with i.i.d. components u, v (see `components.py`). A state is told by m_a = <sigma_a>/sqrt(L), mbar_a = <s_a>/sqrt(L)
and the overlaps q, qbar between replicas of the hidden and of the visible layer. Fields add in the energy and enter with
a plus sign; the paper's minus signs in (11)-(12) contradict its (1).
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.rbm.components import Components, Law, LayerAverages, Values, laws, layer_averages, waves

RESIDUAL = 1e-8  # a fixed point is one if the equations hold to this


class Ensemble(eqx.Module):
    """The parameters of (10), with the quadrature that suits them."""

    strengths: Values  # w_a
    noise: Values  # sigma
    aspect: Values  # kappa
    visible_field: Values  # eta_a / sqrt(L)
    hidden_field: Values  # theta_a / sqrt(L)
    pulled: Values  # which modes have a field: the others come with both signs
    laws: tuple[Law, Law]
    waves: Values

    def visible(self, x: jax.Array) -> LayerAverages:
        """The visible layer in the fields of a hidden layer with x = (m_1 .. m_K, q)."""
        return self._layer(self.laws[0], self.visible_field, x, jnp.asarray(self.aspect) ** 0.25)

    def hidden(self, xbar: jax.Array) -> LayerAverages:
        """The hidden layer in the fields of a visible layer with xbar = (mbar_1 .. mbar_K, qbar)."""
        return self._layer(self.laws[1], self.hidden_field, xbar, jnp.asarray(self.aspect) ** -0.25)

    def _layer(self, law: Law, field: Values, x: jax.Array, scale: jax.Array) -> LayerAverages:
        slopes = scale * (self.strengths * x[:-1] + field)
        return layer_averages(law, slopes, (scale * self.noise) ** 2 * x[-1], self.waves)


def describe(
    strengths: ArrayLike,
    noise: ArrayLike,
    aspect: ArrayLike,
    visible_field: ArrayLike,
    hidden_field: ArrayLike,
    components: Components,
    *,
    precision: float = 1e-15,
    least: int = 256,
) -> Ensemble:
    """Checked parameters as an `Ensemble` of float64 NumPy arrays.

    Args:
        strengths: w_a; leading axes of the parameters are a batch.
        noise: sigma.
        aspect: kappa.
        visible_field: eta_a / sqrt(L).
        hidden_field: theta_a / sqrt(L).
        components: the laws of the components, as in `laws`.
        precision: of the quadrature.
        least: the smallest number of wavenumbers.

    Returns:
        The ensemble.

    Raises:
        ValueError: if a parameter is out of its range.
    """
    w = np.atleast_1d(np.asarray(check.number("strengths", strengths, least=0), dtype=np.float64))
    sigma = np.asarray(check.number("noise", noise, least=0), dtype=np.float64)
    kappa = np.asarray(check.number("aspect", aspect, above=0), dtype=np.float64)
    eta, theta = (
        np.broadcast_to(np.asarray(check.number(name, given), dtype=np.float64), w.shape)
        for name, given in (("visible_field", visible_field), ("hidden_field", hidden_field))
    )
    pair = laws(components)
    # |m| <= kappa^(1/4) and |mbar| <= kappa^(-1/4), because the components are orthonormal and |tanh| < 1
    reach = max(
        law.reach() * (np.linalg.norm(w, axis=-1).max() * root**2 + root * np.abs(field).sum(axis=-1).max())
        + 9.0 * root * sigma.max()
        for law, field, root in ((pair[0], eta, kappa.max() ** 0.25), (pair[1], theta, kappa.min() ** -0.25))
    )
    rule = waves(reach, precision=precision, least=least)
    return Ensemble(w, sigma, kappa, eta, theta, (eta != 0) | (theta != 0), pair, rule)


class Turn(NamedTuple):
    """Once around (11)-(12) from x = (m_1 .. m_K, q): the visible layer from x, then the hidden layer from that."""

    visible_order: jax.Array  # xbar = (mbar_1 .. mbar_K, qbar)
    hidden_order: jax.Array  # where x goes
    visible: LayerAverages
    hidden: LayerAverages


def turn(ensemble: Ensemble, x: jax.Array) -> Turn:
    """(11)-(12) once around, with all averages on the way."""
    root = jnp.asarray(ensemble.aspect) ** 0.25
    visible = ensemble.visible(x)
    xbar = jnp.append(visible.along / root, visible.square)
    hidden = ensemble.hidden(xbar)
    return Turn(xbar, jnp.append(root * hidden.along, hidden.square), visible, hidden)


def turn_slope(ensemble: Ensemble, once: Turn) -> jax.Array:
    """The derivative of where x goes by x (K+1, K+1)."""

    def half(layer: LayerAverages, scale: jax.Array) -> jax.Array:
        square, w = (scale * ensemble.noise) ** 2, ensemble.strengths
        upper = jnp.column_stack([layer.curvature * w, 0.5 * square / scale * layer.tilt])
        return jnp.vstack([upper, jnp.append(-scale * layer.tilt * w, square * layer.heat)])

    root = jnp.asarray(ensemble.aspect) ** 0.25
    return half(once.hidden, 1.0 / root) @ half(once.visible, root)


def log_partition(ensemble: Ensemble, x: jax.Array, xbar: jax.Array) -> jax.Array:
    """ln Z / L of x = (m_1 .. m_K, q) and xbar = (mbar_1 .. mbar_K, qbar); (11)-(12) are where it is stationary.

    -sum_a w_a m_a mbar_a + sigma^2 (1-q)(1-qbar)/2 + E ln 2cosh(h)/sqrt(kappa) + sqrt(kappa) E ln 2cosh(hbar)
    """
    return collect(ensemble, x, xbar, ensemble.visible(x).log_cosh, ensemble.hidden(xbar).log_cosh)


def collect(ensemble: Ensemble, x: jax.Array, xbar: jax.Array, visible: jax.Array, hidden: jax.Array) -> jax.Array:
    """`log_partition`, the averages E ln 2cosh of both layers given."""
    pairs = 0.5 * (1.0 - x[-1]) * (1.0 - xbar[-1]) * ensemble.noise**2
    root = jnp.asarray(ensemble.aspect) ** 0.5
    return pairs - jnp.sum(x[:-1] * xbar[:-1] * ensemble.strengths) + visible / root + hidden * root
