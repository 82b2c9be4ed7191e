"""How the singular values of a restricted Boltzmann machine move, and what pure noise looks like.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equations (5)-(9), with corrections said where they are made.
Units are spins, E(s, sigma) = -s W sigma - eta s - theta sigma, and W = U diag(w) V^T.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from equilibria import check
from equilibria.theory.rbm.components import Components, Law, Values, laws, layer_averages, waves


class Rotation(NamedTuple):
    """How the singular value decomposition of a matrix moves.

    >>> projected_dynamics([1.0, 1.0], [[0.1, 0.2], [0.2, 0.3]]).degenerate[0, 1]
    np.True_
    """

    strengths: np.ndarray  # dw_a/dt
    visible: np.ndarray  # Omega^v_ab = (du^a/dt) . u^b
    hidden: np.ndarray  # Omega^h_ab = (dv^a/dt) . v^b
    degenerate: np.ndarray  # pairs of equal singular values, whose rotation into each other is not defined and set to 0


def projected_dynamics(strengths: ArrayLike, velocity: ArrayLike, *, tolerance: float = 1e-10) -> Rotation:
    """Equations (6)-(8): the motion of singular values and vectors when W moves.

    With D = U^T (dW/dt) V and its halves S = (D + D^T)/2 and A = (D - D^T)/2, dw_a/dt = D_aa and

        Omega^v_ab = S_ab / (w_a - w_b) - A_ab / (w_a + w_b)
        Omega^h_ab = S_ab / (w_a - w_b) + A_ab / (w_a + w_b).

    The paper's (7)-(8) have other signs and a factor 2 and do not solve its own (6); these do. The vectors of degenerate
    singular values can be turned into each other freely, so the undefined term is set to zero and the pair is marked. A
    motion of u^a out of the span of U is not in D.

    Args:
        strengths: the singular values w_a of W.
        velocity: D (modes, modes).
        tolerance: singular values closer than this times the largest are degenerate.

    Returns:
        The velocities of singular values and vectors.

    Raises:
        ValueError: if a strength is negative, or shapes do not fit together.

    >>> motion = projected_dynamics([2.0, 1.0], [[0.1, 0.3], [0.3, 0.2]])
    >>> motion.strengths, motion.visible[0, 1]
    (array([0.1, 0.2]), np.float64(0.3))
    """
    w = np.asarray(check.number("strengths", strengths, least=0), dtype=np.float64)
    check.shape("velocity", velocity, (w.size, w.size))
    speed = np.asarray(check.finite("velocity", velocity), dtype=np.float64)
    gap, total = w[:, None] - w, w[:, None] + w
    floor = tolerance * w.max(initial=0.0)
    same, empty = np.abs(gap) <= floor, total <= floor
    along = np.where(same, 0.0, 0.5 * (speed + speed.T) / np.where(same, 1.0, gap))
    across = np.where(empty, 0.0, 0.5 * (speed - speed.T) / np.where(empty, 1.0, total))
    return Rotation(np.diag(speed).copy(), along - across, along + across, same & ~np.eye(w.size, dtype=bool))


@jax.jit
def _hidden_means(law: Law, slopes: Values, variance: Values, waves: Values) -> jax.Array:
    return jax.vmap(lambda row: layer_averages(law, row, variance, waves).along)(slopes)


def hidden_means(
    projections: ArrayLike,
    strengths: ArrayLike,
    *,
    hidden: int,
    hidden_field: ArrayLike = 0.0,
    noise: float = 0.0,
    visible: int | None = None,
    components: Components = "gaussian",
) -> np.ndarray:
    """What the hidden layer answers to data along each mode, <sigma_b | s>.

    With components v ~ c / sqrt(N_h),

        <sigma_b | s> = sqrt(N_h) E[ c_b tanh( sum_g c_g (w_g s_g + theta_g) / sqrt(N_h) ) ].

    Args:
        projections: s_a = u^a . s (samples, modes).
        strengths: w_a.
        hidden: N_h.
        hidden_field: theta_a.
        noise: the sigma of (10): it adds a field of variance sigma^2 / sqrt(kappa).
        visible: N_v, which noise needs.
        components: the law of c: "gaussian", "uniform", "bernoulli" or a `Law`.

    Returns:
        The answers (samples, modes).

    Raises:
        ValueError: if an argument is out of its range, or shapes do not fit together.

    >>> hidden_means([[2.0, 0.0]], [0.1, 0.1], hidden=400).round(4)
    array([[0.2, 0. ]])
    """
    w = np.atleast_1d(np.asarray(check.number("strengths", strengths), dtype=np.float64))
    check.shape("projections", projections, (None, w.size))
    seen = np.asarray(check.finite("projections", projections), dtype=np.float64)
    units = check.count("hidden", hidden)
    theta = np.broadcast_to(np.asarray(check.number("hidden_field", hidden_field), dtype=np.float64), w.shape)
    if check.number("noise", noise, least=0) > 0 and visible is None:
        check.refuse("visible", "None", "the number of visible units when noise > 0")
    spread = noise * (check.count("visible", visible) / units) ** 0.25 if visible is not None else 0.0
    law = laws(components)[1]
    slopes = (seen * w + theta) / np.sqrt(units)
    reach = law.reach() * np.abs(slopes).sum(axis=1).max(initial=0.0) + 9.0 * spread
    with jax.enable_x64(True):
        means = _hidden_means(law, slopes, np.asarray(spread**2), waves(reach))
    return np.sqrt(units) * np.asarray(means)


def empirical_term(projections: ArrayLike, strengths: ArrayLike, **options: Any) -> np.ndarray:
    """Equation (9): <s_a sigma_b>_Data, the data's pull on the weights in the frame of their singular vectors.

    The average of s_a <sigma_b | s> over the samples. For Gaussian components

        <s_a sigma_b> = < s_a (w_b s_b + theta_b) V( sum_g (w_g s_g + theta_g)^2 / N_h ) >,  V(x) = E sech^2(sqrt(x) y).

    The paper's prefactor 1/N_h and minus signs contradict its linear limit and its energy; they are left out here.

    Args:
        projections: s_a = u^a . s (samples, modes).
        strengths: w_a.
        **options: the further arguments of `hidden_means`.

    Returns:
        The pull (modes, modes).

    Raises:
        ValueError: if an argument is out of its range, or shapes do not fit together.

    >>> empirical_term([[2.0], [-2.0]], [0.1], hidden=400).round(4)
    array([[0.4]])
    """
    means = hidden_means(projections, strengths, **options)
    return np.asarray(projections, dtype=np.float64).T @ means / len(means)


def marchenko_pastur_edges(visible: int, hidden: int, *, variance: float) -> tuple[float, float]:
    """The smallest and the largest singular value of a large matrix of i.i.d. entries: sd |sqrt(N_v) -+ sqrt(N_h)|.

    Args:
        visible: N_v, the rows.
        hidden: N_h, the columns.
        variance: of the entries, above 0.

    Returns:
        Both edges.

    Raises:
        ValueError: if an argument is out of its range.

    >>> marchenko_pastur_edges(400, 100, variance=0.01)
    (1.0, 3.0)
    """
    check.number("variance", variance, above=0)
    roots = np.sqrt(check.count("visible", visible)), np.sqrt(check.count("hidden", hidden))
    return float(np.sqrt(variance) * abs(roots[0] - roots[1])), float(np.sqrt(variance) * sum(roots))


def marchenko_pastur(values: ArrayLike, visible: int, hidden: int, *, variance: float) -> np.ndarray:
    """The density of the min(N_v, N_h) singular values of a random matrix, by the law of Marchenko and Pastur.

        rho(x) = sqrt((high^2 - x^2)(x^2 - low^2)) / (pi variance min(N_v, N_h) x),  low < x < high

    Args:
        values: x >= 0.
        visible: N_v, the rows.
        hidden: N_h, the columns.
        variance: of the entries, above 0.

    Returns:
        The density at each x.

    Raises:
        ValueError: if an argument is out of its range.

    >>> marchenko_pastur([2.0], 400, 100, variance=0.01).round(4)
    array([0.6164])
    """
    low, high = marchenko_pastur_edges(visible, hidden, variance=variance)
    x = np.asarray(check.number("values", values, least=0), dtype=np.float64)
    inside = np.clip((high**2 - x**2) * (x**2 - low**2), 0.0, None)
    # a square matrix has low = 0, where the density is finite: sqrt(inside) / x -> high
    ratio = np.where(x > 0, np.sqrt(inside) / np.where(x > 0, x, 1.0), high if low == 0 else 0.0)
    return ratio / (np.pi * variance * min(visible, hidden))


class NoiseFit(NamedTuple):
    """How well noise explains a spectrum.

    >>> marchenko_pastur_fit(np.random.default_rng(0).normal(size=(200, 100)) + 1.0).outliers  # one strong mode
    1
    """

    variance: float  # of the entries of the noise
    edge: float  # the largest singular value that noise explains
    outliers: int  # singular values above the edge
    distance: float  # Kolmogorov-Smirnov: largest gap between the bulk's and the law's cumulative distributions


def marchenko_pastur_fit(weights: ArrayLike) -> NoiseFit:
    """Fit noise to the spectrum of a matrix, by its median, which a few strong modes do not move.

    The singular values of noise repel each other, so that `distance` is of order ln(n)/n for n values, far below
    the 1/sqrt(n) of independent draws: tables for the Kolmogorov-Smirnov test do not apply. The largest value of pure
    noise itself scatters around the edge, by about n^(-2/3) of it.

    Args:
        weights: the matrix.

    Returns:
        The variance of the noise, the edge of its spectrum, what lies beyond, and how good the fit is.

    Raises:
        ValueError: if the matrix is smaller than 2 x 2, or has no noise in half of its directions.

    >>> noise = np.random.default_rng(0).normal(size=(200, 100)) * 0.1
    >>> fit = marchenko_pastur_fit(noise)
    >>> fit.outliers, round(fit.variance, 4)
    (0, 0.0098)
    """
    matrix = np.asarray(check.finite("weights", weights), dtype=np.float64)
    if matrix.ndim != 2 or min(matrix.shape) < 2 or not matrix.any():
        check.refuse("weights", f"shape {matrix.shape}", "a matrix of at least 2 x 2 that is not all zero")
    visible, hidden = matrix.shape
    values = np.linalg.svd(matrix, compute_uv=False)
    low, high = marchenko_pastur_edges(visible, hidden, variance=1.0)
    middle = brentq(lambda x: _below(x, visible, hidden) - 0.5, low, high)
    scale = np.median(values) / middle
    if scale == 0:
        check.refuse("weights", "half of the singular values are zero", "a matrix with noise in most directions")
    bulk = np.sort(values[values <= scale * high])
    expected = np.array([_below(x / scale, visible, hidden) for x in bulk])
    steps = np.arange(bulk.size + 1) / bulk.size
    distance = max(np.abs(expected - steps[1:]).max(), np.abs(expected - steps[:-1]).max())
    return NoiseFit(float(scale**2), float(scale * high), values.size - bulk.size, float(distance))


def _below(value: float, visible: int, hidden: int) -> float:
    """The Marchenko-Pastur cumulative distribution at unit variance."""
    low, high = marchenko_pastur_edges(visible, hidden, variance=1.0)
    # x = middle - half cos(angle) takes away the square roots at both edges
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    angle = np.arccos(np.clip((middle - value) / half, -1.0, 1.0))

    def density(angle: float) -> float:
        x = middle - half * np.cos(angle)
        return float(marchenko_pastur(x, visible, hidden, variance=1.0)) * half * np.sin(angle)

    return quad(density, 0.0, angle)[0]
