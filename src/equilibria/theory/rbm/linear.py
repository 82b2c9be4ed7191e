"""The linear machine: both layers Gaussian, everything exact.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), "Linear instabilities". The energy is
|s|^2 / (2 sigma_v^2) + |x|^2 / (2 sigma_h^2) - s W x, so that W (visible, hidden) gives s a Gaussian law of precision
1/sigma_v^2 - sigma_h^2 W W^T, which exists only while every singular value has sigma_v sigma_h w < 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from equilibria import check


class LinearFlow(NamedTuple):
    """Learning in the linear machine, at the asked times.

    >>> linear_flow(np.diag([4.0, 0.5]), [[0.1], [0.1]], [0.0, 1.0]).weights.shape
    (2, 2, 1)
    """

    times: np.ndarray
    weights: np.ndarray  # (times, visible, hidden)
    strengths: np.ndarray  # singular values, largest first (times, modes)
    likelihood: np.ndarray  # mean log-likelihood of the data, in nats (times,)
    overlaps: np.ndarray  # |u^a . e^a| of mode a with the data's principal direction a (times, modes)


def linear_flow(
    covariance: ArrayLike,
    weights: ArrayLike,
    times: ArrayLike,
    *,
    visible_variance: float = 1.0,
    hidden_variance: float = 1.0,
    tolerance: float = 1e-10,
) -> LinearFlow:
    """Gradient ascent on the exact likelihood of the linear machine, in continuous time.

        dW/dt = sigma_h^2 C W - sigma_v^2 sigma_h^2 W (1 - sigma_v^2 sigma_h^2 W^T W)^-1

    with C the data's second moments <s s^T>. In the frame of the singular vectors of W this is

        dw_a/dt = w_a sigma_h^2 (<s_a^2> - sigma_v^2 / (1 - sigma_v^2 sigma_h^2 w_a^2))

    and a rotation that ends when <s_a s_b> is diagonal.

    Args:
        covariance: C (visible, visible).
        weights: W (visible, hidden) at time 0.
        times: when to look, increasing from 0 on.
        visible_variance: sigma_v^2 > 0.
        hidden_variance: sigma_h^2 > 0.
        tolerance: the relative error of one integration step.

    Returns:
        Weights, singular values, likelihood and overlaps with the data's principal directions, at the asked times.

    Raises:
        ValueError: if an argument is out of its range, or the machine has no law at time 0.
        RuntimeError: if the integrator stopped.

    >>> flow = linear_flow(np.diag([4.0, 0.5]), [[0.1], [0.1]], [0.0, 1.0, 20.0])
    >>> flow.strengths[-1].round(4), flow.overlaps[-1].round(4)
    (array([0.866]), array([1.]))
    """
    moments = _moments(covariance)
    start = np.asarray(check.finite("weights", weights), dtype=np.float64)
    check.shape("weights", start, (len(moments), None))
    asked = np.asarray(check.number("times", times, least=0), dtype=np.float64)
    if asked.ndim != 1 or asked.size == 0 or (np.diff(asked) <= 0).any():
        check.refuse("times", f"shape {asked.shape}", "increasing times from 0 on")
    product = _product(visible_variance, hidden_variance)
    largest = np.linalg.norm(start, 2)
    if product * largest**2 >= 1:
        check.refuse("weights", f"a singular value of {largest:.6g}", f"below {product**-0.5:.6g}: no law beyond")

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        w = flat.reshape(start.shape)
        model = w @ np.linalg.inv(np.eye(start.shape[1]) - product * w.T @ w)
        return (hidden_variance * (moments @ w) - product * model).ravel()

    run = solve_ivp(velocity, (0.0, asked[-1]), start.ravel(), "DOP853", asked, rtol=tolerance, atol=tolerance * 1e-3)
    if not run.success:
        raise RuntimeError(f"linear_flow: the integrator stopped: {run.message}")
    path = run.y.T.reshape(-1, *start.shape)
    left, strengths, _ = np.linalg.svd(path, full_matrices=False)
    principal = np.linalg.eigh(moments)[1][:, ::-1][:, : strengths.shape[1]]
    variances = {"visible_variance": visible_variance, "hidden_variance": hidden_variance}
    likelihood = np.array([linear_likelihood(moments, w, **variances) for w in path])
    return LinearFlow(asked, path, strengths, likelihood, np.abs((left * principal).sum(axis=1)))


def linear_fixed_point(
    variances: ArrayLike, *, visible_variance: float = 1.0, hidden_variance: float = 1.0
) -> np.ndarray:
    """The singular values that the linear machine ends with.

        w_a^2 = (<s_a^2> - sigma_v^2) / (sigma_v^2 sigma_h^2 <s_a^2>)  if <s_a^2> > sigma_v^2,  else 0

    The two cases printed in the paper are not fixed points of its equation; these are, and the stable ones.

    Args:
        variances: the data's principal variances <s_a^2>.
        visible_variance: sigma_v^2 > 0.
        hidden_variance: sigma_h^2 > 0.

    Returns:
        The singular values w_a.

    Raises:
        ValueError: if an argument is out of its range.

    >>> linear_fixed_point([4.0, 2.0, 0.5]).round(4)
    array([0.866 , 0.7071, 0.    ])
    """
    product = _product(visible_variance, hidden_variance)
    given = np.asarray(check.number("variances", variances, least=0), dtype=np.float64)
    return np.sqrt(np.clip(given - visible_variance, 0.0, None) / (product * np.maximum(given, visible_variance)))


def linear_log_partition(weights: ArrayLike, *, visible_variance: float = 1.0, hidden_variance: float = 1.0) -> float:
    """ln Z of the linear machine, +inf where sigma_v sigma_h w >= 1 for a singular value: there is no law beyond.

        ln Z = N_v/2 ln(2 pi sigma_v^2) + N_h/2 ln(2 pi sigma_h^2) - 1/2 sum_a ln(1 - sigma_v^2 sigma_h^2 w_a^2)

    Args:
        weights: W (visible, hidden).
        visible_variance: sigma_v^2 > 0.
        hidden_variance: sigma_h^2 > 0.

    Returns:
        ln Z, in nats.

    Raises:
        ValueError: if an argument is out of its range.

    >>> linear_log_partition([[1.5]])
    inf
    """
    product = _product(visible_variance, hidden_variance)
    matrix = np.atleast_2d(np.asarray(check.finite("weights", weights), dtype=np.float64))
    left = 1.0 - product * np.linalg.svd(matrix, compute_uv=False) ** 2
    if (left <= 0).any():
        return np.inf
    sizes = [
        units * np.log(2.0 * np.pi * v)
        for units, v in zip(matrix.shape, (visible_variance, hidden_variance), strict=True)
    ]
    return float(0.5 * (sum(sizes) - np.log(left).sum()))


def linear_likelihood(
    covariance: ArrayLike, weights: ArrayLike, *, visible_variance: float = 1.0, hidden_variance: float = 1.0
) -> float:
    """The mean log-likelihood of data in the linear machine, from their second moments; -inf where there is no law.

        <ln p> = N_h/2 ln(2 pi sigma_h^2) - Tr(C (1/sigma_v^2 - sigma_h^2 W W^T)) / 2 - ln Z

    Args:
        covariance: C = <s s^T> (visible, visible).
        weights: W (visible, hidden).
        visible_variance: sigma_v^2 > 0.
        hidden_variance: sigma_h^2 > 0.

    Returns:
        The mean log-likelihood, in nats.

    Raises:
        ValueError: if an argument is out of its range.

    >>> round(linear_likelihood(np.eye(2), np.zeros((2, 1))), 4)
    -2.8379
    """
    moments = _moments(covariance)
    matrix = np.asarray(weights, dtype=np.float64)
    check.shape("weights", matrix, (len(moments), None))
    partition = linear_log_partition(matrix, visible_variance=visible_variance, hidden_variance=hidden_variance)
    pull = np.trace(moments) / visible_variance - hidden_variance * np.sum(matrix * (moments @ matrix))
    return float(0.5 * (matrix.shape[1] * np.log(2.0 * np.pi * hidden_variance) - pull) - partition)


def _product(visible_variance: float, hidden_variance: float) -> float:
    check.number("visible_variance", visible_variance, above=0)
    check.number("hidden_variance", hidden_variance, above=0)
    return float(visible_variance * hidden_variance)


def _moments(covariance: ArrayLike) -> np.ndarray:
    moments = np.asarray(check.finite("covariance", covariance), dtype=np.float64)
    if moments.ndim != 2 or not np.allclose(moments, moments.T):
        check.refuse("covariance", f"shape {moments.shape}", "a symmetric matrix <s s^T>")
    return moments
