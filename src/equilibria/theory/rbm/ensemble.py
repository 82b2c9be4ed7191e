"""Restricted Boltzmann machines with a few strong modes in noise: their equilibrium states at large size.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equations (10)-(12). The weights are

    w_ij = sum_a w_a u_i^a v_j^a + r_ij,   r_ij ~ N(0, sigma^2 / L),   L = sqrt(N_v N_h),   kappa = N_h / N_v,

with i.i.d. components u, v (see `components.py`). A state is told by m_a = <sigma_a>/sqrt(L), mbar_a = <s_a>/sqrt(L)
and the overlaps q, qbar between replicas of the hidden and of the visible layer. Fields add in the energy and enter with
a plus sign; the paper's minus signs in (11)-(12) contradict its (1).
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.rbm import components as layers

RESIDUAL = 1e-8  # a fixed point is one if the equations hold to this


Values = Any  # arrays: NumPy's outside, JAX's inside compiled code


class Ensemble(eqx.Module):
    """The parameters of (10), with the quadrature that suits them."""

    strengths: Values  # w_a
    noise: Values  # sigma
    aspect: Values  # kappa
    visible_field: Values  # eta_a / sqrt(L)
    hidden_field: Values  # theta_a / sqrt(L)
    pulled: Values  # which modes have a field: the others come with both signs
    laws: tuple[layers.Law, layers.Law]
    waves: Values

    def visible(self, x: jax.Array) -> layers.Layer:
        """The visible layer in the fields of a hidden layer with x = (m_1 .. m_K, q)."""
        return self._layer(self.laws[0], self.visible_field, x, self.aspect**0.25)

    def hidden(self, xbar: jax.Array) -> layers.Layer:
        """The hidden layer in the fields of a visible layer with xbar = (mbar_1 .. mbar_K, qbar)."""
        return self._layer(self.laws[1], self.hidden_field, xbar, self.aspect**-0.25)

    def _layer(self, law, field, x, scale):
        slopes = scale * (self.strengths * x[:-1] + field)
        return layers.layer(law, slopes, (scale * self.noise) ** 2 * x[-1], self.waves)


def describe(
    strengths: ArrayLike,
    noise: ArrayLike,
    aspect: ArrayLike,
    visible_field: ArrayLike,
    hidden_field: ArrayLike,
    components: Any,
    *,
    precision: float = 1e-15,
) -> Ensemble:
    """Checked parameters as an `Ensemble` of float64 NumPy arrays; leading axes of the parameters are a batch."""
    w = np.atleast_1d(np.asarray(check.number("strengths", strengths, least=0), dtype=np.float64))
    sigma = np.asarray(check.number("noise", noise, least=0), dtype=np.float64)
    kappa = np.asarray(check.number("aspect", aspect, above=0), dtype=np.float64)
    eta, theta = (
        np.broadcast_to(np.asarray(check.number(name, given), dtype=np.float64), w.shape)
        for name, given in (("visible_field", visible_field), ("hidden_field", hidden_field))
    )
    pair = layers.laws(components)
    # |m| <= kappa^(1/4) and |mbar| <= kappa^(-1/4), because the components are orthonormal and |tanh| < 1
    reach = max(
        law.reach() * (np.linalg.norm(w, axis=-1).max() * root**2 + root * np.abs(field).sum(axis=-1).max())
        + 9.0 * root * sigma.max()
        for law, field, root in ((pair[0], eta, kappa.max() ** 0.25), (pair[1], theta, kappa.min() ** -0.25))
    )
    return Ensemble(
        w, sigma, kappa, eta, theta, (eta != 0) | (theta != 0), pair, layers.waves(reach, precision=precision)
    )


def visible_order(ensemble: Ensemble, x: jax.Array) -> jax.Array:
    """(11)-(12), visible half: (mbar_1 .. mbar_K, qbar) from x = (m_1 .. m_K, q)."""
    layer = ensemble.visible(x)
    return jnp.append(ensemble.aspect**-0.25 * layer.along, layer.square)


def sweep(ensemble: Ensemble, x: jax.Array) -> jax.Array:
    """(11)-(12) once around: the visible layer from x = (m_1 .. m_K, q), then the hidden layer from that."""
    layer = ensemble.hidden(visible_order(ensemble, x))
    return jnp.append(ensemble.aspect**0.25 * layer.along, layer.square)


def sweep_slope(ensemble: Ensemble, x: jax.Array) -> jax.Array:
    """The derivative of `sweep` (K+1, K+1)."""

    def half(layer: layers.Layer, scale: jax.Array) -> jax.Array:
        square, w = (scale * ensemble.noise) ** 2, ensemble.strengths
        upper = jnp.column_stack([layer.curvature * w, 0.5 * square / scale * layer.tilt])
        return jnp.vstack([upper, jnp.append(-scale * layer.tilt * w, square * layer.heat)])

    visible, hidden = ensemble.visible(x), ensemble.hidden(visible_order(ensemble, x))
    return half(hidden, ensemble.aspect**-0.25) @ half(visible, ensemble.aspect**0.25)


def settle(ensemble: Ensemble, x: jax.Array, *, sweeps: int = 300, newtons: int = 40) -> jax.Array:
    """The fixed point of `sweep` that the iteration from x leads to: sweeps until close, then Newton's method."""

    def far(carry):
        _, step, residual = carry
        return (residual > 1e-3) & (step < sweeps)

    def near(carry):
        _, step, residual = carry
        return (residual > 1e-14) & (step < newtons)

    def iterate(carry):
        x, step, _ = carry
        new = sweep(ensemble, x)
        return new, step + 1, jnp.abs(new - x).max()

    def newton(carry):
        x, step, _ = carry
        image = sweep(ensemble, x)
        jump = x + jnp.linalg.solve(jnp.eye(x.size) - sweep_slope(ensemble, x), image - x)
        jump = jump.at[-1].set(jnp.clip(jump[-1], 0.0, 1.0))
        # Where Newton gains nothing, the equations themselves are the safer step.
        bad = ~(jnp.abs(sweep(ensemble, jump) - jump).max() <= jnp.abs(image - x).max())
        new = jnp.where(bad, image, jump)
        return new, step + 1, jnp.abs(image - x).max()

    x, _, _ = jax.lax.while_loop(far, iterate, (x, 0, jnp.asarray(1.0)))
    return jax.lax.while_loop(near, newton, (x, 0, jnp.asarray(1.0)))[0]


def log_partition(ensemble: Ensemble, x: jax.Array, xbar: jax.Array) -> jax.Array:
    """ln Z / L of x = (m_1 .. m_K, q) and xbar = (mbar_1 .. mbar_K, qbar); (11)-(12) are where it is stationary.

    -sum_a w_a m_a mbar_a + sigma^2 (1-q)(1-qbar)/2 + E ln 2cosh(h)/sqrt(kappa) + sqrt(kappa) E ln 2cosh(hbar)
    """
    pairs = 0.5 * ensemble.noise**2 * (1.0 - x[-1]) * (1.0 - xbar[-1]) - jnp.sum(
        ensemble.strengths * x[:-1] * xbar[:-1]
    )
    root = ensemble.aspect**0.5
    return pairs + ensemble.visible(x).log_cosh / root + ensemble.hidden(xbar).log_cosh * root


def spectral_radius(matrix: jax.Array) -> jax.Array:
    """The largest |eigenvalue|, by repeated squaring: |M^n|^(1/n) with n = 2^40."""

    def square(carry, _):
        power, log, n = carry
        size = jnp.abs(power).max() + 1e-300
        power = power / size
        return (power @ power, log + jnp.log(size) / n, 2.0 * n), None

    (_, log, _), _ = jax.lax.scan(square, (matrix, 0.0, 1.0), length=40)
    return jnp.exp(log)


class States(NamedTuple):
    """Fixed points of (11)-(12); one row each."""

    hidden: Values  # m_a
    visible: Values  # mbar_a
    hidden_overlap: Values  # q
    visible_overlap: Values  # qbar
    log_partition: Values  # ln Z / L
    growth: Values  # of a small disturbance in one turn of (11)-(12): stable below 1
    replicon: Values  # sigma^4 E[sech^4 h] E[sech^4 hbar]: replica symmetry is broken above 1 (the AT line)
    residual: Values  # by how much (11)-(12) are missed
    visible_curvature: Values  # E[u_a u_b sech^2 h]
    hidden_curvature: Values  # E[v_a v_b sech^2 hbar]
    copies: Values  # states that differ from this one by the signs of modes without a field

    @property
    def stable(self) -> np.ndarray:
        """Which of them a disturbance within replica symmetry does not grow from."""
        return self.growth < 1.0


def appraise(ensemble: Ensemble, x: jax.Array) -> States:
    """Everything about the fixed point x = (m_1 .. m_K, q)."""
    xbar = visible_order(ensemble, x)
    visible, hidden = ensemble.visible(x), ensemble.hidden(xbar)
    free = ~ensemble.pulled & (jnp.abs(x[:-1]) > 1e-6)
    return States(
        x[:-1],
        xbar[:-1],
        x[-1],
        xbar[-1],
        log_partition(ensemble, x, xbar),
        spectral_radius(sweep_slope(ensemble, x)),
        ensemble.noise**4 * visible.quartic * hidden.quartic,
        jnp.abs(sweep(ensemble, x) - x).max(),
        visible.curvature,
        hidden.curvature,
        2.0 ** jnp.sum(free),
    )


@jax.jit
def explore(ensemble: Ensemble, starts: jax.Array) -> States:
    """The states that the rows of `starts` lead to."""
    return jax.vmap(lambda x: appraise(ensemble, settle(ensemble, x)))(starts)


def starts(ensemble: Ensemble, mixtures: int) -> np.ndarray:
    """Where to look for states: no mode, each mode, and each combination of up to `mixtures` modes.

    A mode without a field starts with a plus sign only, since its other sign is a copy; (11)-(12) never wake it up.
    """
    K = ensemble.strengths.size
    rows = [np.append(np.zeros(K), 0.9)]
    for size in range(1, min(mixtures, K) + 1):
        for chosen in itertools.combinations(range(K), size):
            for signs in itertools.product(*((1.0, -1.0) if ensemble.pulled[a] else (1.0,) for a in chosen)):
                row = np.append(np.zeros(K), 0.9)
                row[list(chosen)] = 0.9 * ensemble.aspect**0.25 * np.array(signs) / size**0.5
                rows.append(row)
    return np.array(rows)


def fixed_points(
    strengths: ArrayLike,
    *,
    noise: float = 0.0,
    aspect: float = 1.0,
    visible_field: ArrayLike = 0.0,
    hidden_field: ArrayLike = 0.0,
    components: Any = "gaussian",
    mixtures: int = 3,
) -> States:
    """The equilibrium states of the ensemble (10): all fixed points of (11)-(12) with up to `mixtures` modes.

        m_a = kappa^(1/4) E[v^a tanh hbar],  mbar_a = kappa^(-1/4) E[u^a tanh h],  q = E tanh^2 hbar,  qbar = E tanh^2 h
        h = kappa^(1/4) (sigma sqrt(q) x + sum_g (w_g m_g + eta_g) u^g)
        hbar = kappa^(-1/4) (sigma sqrt(qbar) x + sum_g (w_g mbar_g + theta_g) v^g)

    `strengths` w_a, `noise` sigma, `aspect` kappa = N_h/N_v, `visible_field` eta_a / sqrt(L), `hidden_field`
    theta_a / sqrt(L). `components` is "gaussian", "uniform", "bernoulli", a `Law`, or a pair (visible, hidden).
    The best stable state comes first; unstable states found on the way are kept, and marked by `stable`.

    Gaussian components leave the strongest mode alone stable; uniform and Bernoulli ones allow many states:

    >>> fixed_points([2.0, 1.9]).stable.sum(), fixed_points([2.0, 1.9], components="bernoulli").stable.sum()
    (np.int64(1), np.int64(2))
    """
    check.count("mixtures", mixtures, least=0)
    ensemble = describe(strengths, noise, aspect, visible_field, hidden_field, components)
    if ensemble.strengths.ndim != 1:
        check.refuse("strengths", f"shape {ensemble.strengths.shape}", "one strength for each mode")
    begin = starts(ensemble, mixtures)
    if len(begin) > 4096:
        check.refuse("mixtures", f"{mixtures}, which asks for {len(begin)} searches", "fewer: at most 4096 searches")
    padded = np.resize(begin, (2 ** int(np.ceil(np.log2(len(begin)))), begin.shape[1]))
    with jax.enable_x64(True):
        found = jax.tree.map(np.asarray, explore(ensemble, padded))
    return _sorted(_distinct(jax.tree.map(lambda rows: rows[: len(begin)], found)))


def _distinct(states: States) -> States:
    """The converged fixed points, each once."""
    place = np.column_stack([states.hidden, states.hidden_overlap])
    kept: list[int] = []
    for row in np.flatnonzero(states.residual < RESIDUAL):
        if all(np.abs(place[row] - place[other]).max() > 1e-5 for other in kept):
            kept.append(int(row))
    if not any(states.growth[row] < 1.0 + 1e-6 for row in kept):
        raise RuntimeError(
            f"no stable fixed point found among {len(place)} searches (smallest residual {states.residual.min():.1e}, "
            f"smallest growth {states.growth.min():.3g}); try more mixtures"
        )
    return jax.tree.map(lambda rows: rows[kept], states)


def _sorted(states: States) -> States:
    best = np.lexsort((-states.log_partition, ~states.stable))
    return jax.tree.map(lambda rows: rows[best], states)
