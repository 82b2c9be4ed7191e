r"""The Bethe free energy of two layers of spins, from their means.

With the pair's mutual information $I$ and the entropy $S$ of a spin,

$$ \ln Z = \sum_i [b_i m_i + S(m_i)] + \sum_\mu [c_\mu n_\mu + S(n_\mu)]
           + \sum_{i\mu} [w_{i\mu}(m_i n_\mu + \kappa_{i\mu}) - I_{i\mu}]. $$

The connected correlation $\kappa$ of a pair given its means is the root of a quadratic equation (Welling and Teh 2003).
ln Z is stationary in m, n and $\kappa$, so that its gradient in the parameters is the average of the statistics.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import entr, xlog1py

from equilibria.equilibrators.conditioned import Conditioned

_LEAST = 2.0**-24  # the least distance from one that single precision has


class Spins(NamedTuple):
    """Two layers of spins that are equivalent to two layers of two-valued neurons, all in units of the temperature.

    Attributes:
        coupling: (..., N, P).
        first: fields on the first layer, (..., N).
        second: fields on the second layer, (..., P).
        constant: what the change of values adds to ln Z.
    """

    coupling: Array  # (..., N, P)
    first: Array  # fields on the first layer, (..., N)
    second: Array  # fields on the second layer, (..., P)
    constant: Array  # what the change of values adds to ln Z


def spins(system: Conditioned) -> Spins:
    """The free layers as spins: a neuron of levels a, b is s = (a + b)/2 + (b - a)/2 sigma."""
    (pair,) = system.inner.couplings
    (centre, half), (other_centre, other_half) = (middle(system, name) for name in pair.ends)
    weights = pair.matrix()
    first, second = (system.inner.layer(name).bias + system.external[name] for name in pair.ends)
    column, block = system.column, system.temperature[..., None, None]
    constant = centre * jnp.sum(first, axis=-1) + other_centre * (
        jnp.sum(second, axis=-1) + centre * jnp.sum(weights, axis=(-2, -1))
    )
    return Spins(
        half * other_half * weights / block,
        half * (first + other_centre * jnp.sum(weights, axis=-1)) / column,
        other_half * (second + centre * jnp.sum(weights, axis=-2)) / column,
        constant / system.temperature,
    )


def middle(system: Conditioned, name: str) -> tuple[float, float]:
    """The centre of a layer's two values, and half their distance."""
    low, high = sorted(system.inner.layer(name).unit.levels or ())
    return (low + high) / 2, (high - low) / 2


def neurons_first(pair: Spins, chains: int) -> Spins:
    """Axes of neurons before the `chains` axes of chains: few hidden neurons would make for short innermost loops."""

    def turned(array: Array, neurons: int) -> Array:
        turned = jnp.moveaxis(array, range(-neurons, 0), range(neurons))
        return jnp.expand_dims(turned, range(neurons, neurons + chains - (turned.ndim - neurons)))

    return pair._replace(coupling=turned(pair.coupling, 2), first=turned(pair.first, 1), second=turned(pair.second, 1))


def bethe(pair: Spins, first: Array, second: Array, *, response: bool = False) -> Array:
    """The Bethe ln Z of two layers with means `first` (..., N) and `second` (..., P).

    >>> pair = Spins(jnp.array([[0.5]]), jnp.zeros(1), jnp.zeros(1), jnp.zeros(()))
    >>> jnp.isclose(bethe(pair, jnp.zeros(1), jnp.zeros(1)), jnp.log(4 * jnp.cosh(0.5)))
    Array(True, dtype=bool)
    """
    chains = jnp.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    coupling, first_field, second_field, constant = neurons_first(pair, len(chains))
    means = [jnp.moveaxis(jnp.broadcast_to(mean, (*chains, mean.shape[-1])), -1, 0) for mean in (first, second)]
    m, n = means[0][:, None], means[1][None]
    gain = jax.lax.stop_gradient(_gain(coupling, m, n))
    connected = (1 - m**2) * (1 - n**2) * gain
    information = jnp.zeros(())
    for sigma in (-1, 1):
        for tau in (-1, 1):
            # p / (p_sigma p_tau) - 1, and p_sigma p_tau = (1 + sigma m)(1 + tau n)/4
            excess = jnp.maximum(sigma * tau * gain * (1 - sigma * m) * (1 - tau * n), -1.0)
            information += (1 + sigma * m) * (1 + tau * n) / 4 * xlog1py(1 + excess, excess)
    alone = sum(
        jnp.sum(field * mean + _entropy(mean), axis=0)
        for field, mean in zip((first_field, second_field), means, strict=True)
    )
    together = coupling * (m * n + connected) - information
    if response:
        through = _response(first, second, jnp.moveaxis(gain, (0, 1), (-2, -1)))
        missing = jax.lax.stop_gradient(jnp.moveaxis(through, (-2, -1), (0, 1)) - connected)
        together += missing * (coupling - jax.lax.stop_gradient(coupling))  # changes only the gradient
    return constant + alone + jnp.sum(together, axis=(0, 1))


def _gain(coupling: Array, m: Array, n: Array) -> Array:
    r"""The connected correlation of a pair with means m, n over (1 - m^2)(1 - n^2).

    With t = tanh 2w it solves $t \kappa^2 - 2(1 - t m n)\kappa + t(1 - m^2)(1 - n^2) = 0$, which says that
    $p_{++} p_{--} / p_{+-} p_{-+} = e^{4w}$.
    """
    t = jnp.tanh(2 * coupling)
    slack = 1 - t * m * n
    root = jnp.sqrt(jnp.maximum(slack**2 - t**2 * (1 - m**2) * (1 - n**2), 0.0))
    return t / jnp.maximum(slack + root, _LEAST)  # both are zero for neurons that are frozen together


def _response(first: Array, second: Array, gain: Array) -> Array:
    r"""The susceptibility $\partial m_i / \partial c_\mu$ of the fixed point, (..., N, P).

    The inverse of the matrix of all susceptibilities is the curvature of the Bethe free energy in the means: for a pair with
    variances a, b and correlation $\kappa$, $-\kappa/(ab - \kappa^2)$ off the diagonal, and each neuron has
    $\frac1a (1 + \sum \kappa^2/(ab - \kappa^2))$ on it (Ricci-Tersenghi 2012). Only the smaller layer's block is inverted.
    """
    if first.shape[-1] < second.shape[-1]:
        return jnp.swapaxes(_response(second, first, jnp.swapaxes(gain, -1, -2)), -1, -2)
    tiny = jnp.finfo(jnp.float32).tiny ** 0.5
    a, b = jnp.maximum(1 - first**2, tiny), jnp.maximum(1 - second**2, tiny)
    left = jnp.maximum(1 - a[..., :, None] * b[..., None, :] * gain**2, _LEAST)  # (ab - kappa^2) / ab
    pull = gain / left
    loops = pull * gain
    own = (1 + jnp.sum(loops * b[..., None, :], axis=-1) * a) / a
    other = (1 + jnp.sum(loops * a[..., :, None], axis=-2) * b) / b
    through = pull / own[..., :, None]
    block = other[..., :, None] * jnp.eye(b.shape[-1]) - jnp.einsum("...im,...in->...mn", pull, through)
    return through @ jnp.swapaxes(_inverse(block), -1, -2)


def _inverse(matrix: Array) -> Array:
    """The inverses of curvatures (..., P, P) by elimination; they are positive where messages are at rest, and need no pivots.

    Not by LAPACK: from jaxlib 0.10 on its kernels wait for one another in the threads of XLA, and two at once take both of
    those that two cores have, and wait for ever.
    """
    rows = jnp.arange(matrix.shape[-1])

    def eliminated(k: Array, left: Array) -> Array:
        own = rows == k
        row = jnp.where(own, 1.0, left[..., k, :]) / left[..., k, k][..., None]
        column = jnp.where(own, 0.0, left[..., :, k])
        kept = jnp.where(own[:, None] | own, 0.0, left)
        return jnp.where(own[:, None], row[..., None, :], kept - column[..., None] * row[..., None, :])

    return jax.lax.fori_loop(0, len(rows), eliminated, matrix)


def _entropy(mean: Array) -> Array:
    return entr((1 + mean) / 2) + entr((1 - mean) / 2)
