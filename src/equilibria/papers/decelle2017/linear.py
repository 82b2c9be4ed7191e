"""The linear machine's learning in two ways: gradient ascent on its likelihood, and the flow of its modes."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve
from scipy.integrate import solve_ivp

import equilibria as eq


def uphill(weights, moments):
    """The gradient <s s^T> W - W (1 - W^T W)^-1 of the mean log-likelihood, whose s has the precision 1 - W W^T."""
    inner = jnp.linalg.cholesky(jnp.eye(weights.shape[1]) - weights.T @ weights)
    return moments @ weights - cho_solve((inner, True), weights.T).T


@partial(jax.jit, static_argnames="records")
def ascend(weights, moments, rate, steps, *, records):
    """Weights after every `steps` steps of plain gradient ascent at this rate."""

    def row(weights, _):
        weights = jax.lax.fori_loop(0, steps, lambda _, w: w + rate * uphill(w, moments), weights)
        return weights, weights

    return jax.lax.scan(row, weights, length=records)[1]


def printed_rotation(strengths: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Omega^v as it is printed for the linear machine, from <s_a s_b>."""
    total, gap = strengths[:, None] + strengths, strengths[:, None] - strengths
    np.fill_diagonal(gap, 1.0)
    turn = (-(strengths[:, None] - strengths) / total - total / gap) * correlation
    np.fill_diagonal(turn, 0.0)
    return turn


def flow(covariance: np.ndarray, start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Weights at these times by integration of dw_a/dt and of the rotations Omega of both sets of singular vectors.

    The right vectors span their whole space; the left ones also turn out of theirs, du_a/dt = (1 - U U^T) <s s^T> u_a.
    Strengths are held as logarithms, since those of the bulk fall by many orders.
    """
    shapes = [(start.shape[1],), start.shape, (start.shape[1],) * 2]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def parts(flat):
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), shapes, strict=True)]

    def velocity(_, flat):
        logs, left, right = parts(flat)
        strengths = np.exp(logs)
        pulled = covariance @ left
        seen = left.T @ pulled
        pace = np.diag(seen) - 1 / (1 - strengths**2)
        turn = eq.theory.projected_dynamics(strengths, seen * strengths)
        return np.concatenate(
            [pace, (left @ turn.visible.T + pulled - left @ seen).ravel(), (right @ turn.hidden.T).ravel()], axis=None
        )

    left, strengths, right = np.linalg.svd(start, full_matrices=False)
    first = np.concatenate([np.log(strengths), left, right.T], axis=None)
    found = solve_ivp(velocity, (0, times[-1]), first, "DOP853", times, rtol=1e-10, atol=1e-12)
    if not found.success:
        raise RuntimeError(f"the flow of modes stopped: {found.message}")
    paths = [parts(flat) for flat in found.y.T]
    return np.stack([left * np.exp(logs) @ right.T for logs, left, right in paths])


def misprint(covariance: np.ndarray, weights: np.ndarray, planted: int) -> float:
    """By how much the printed rotations of the first modes miss those of the decomposition, relative to these.

    The rotation is measured: the decomposition a little later along the gradient, less that now.
    """
    step = 1e-6
    with jax.enable_x64(True):
        ahead = weights + step * np.asarray(uphill(jnp.asarray(weights), jnp.asarray(covariance)))
    (left, strengths, _), (later, _, _) = (np.linalg.svd(w, full_matrices=False) for w in (weights, ahead))
    later = later * np.sign((left * later).sum(axis=0))
    seen = ((later - left).T @ left / step)[:planted, :planted]
    said = printed_rotation(strengths, left.T @ covariance @ left)[:planted, :planted]
    return float(np.linalg.norm(said - seen) / np.linalg.norm(seen))
