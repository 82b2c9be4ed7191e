"""Independent binary weights: their law, and the machines that they make."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.units import Spin
from equilibria.random import as_key

_LN2 = float(np.log(2))


class Synapses(eqx.Module):
    r"""Independent binary weights between N visible and P hidden spins.

    $$ q_\lambda(\xi) = \prod_{i\mu} \frac{1 + \lambda_{i\mu} \xi_i^\mu}{2} $$

    is their law, of mean $\lambda$ (Huang 2019, section III). They are held by their natural parameter $\tanh^{-1} \lambda$, so
    that $|\lambda| < 1$ without clipping.

    Args:
        natural: the natural parameters, (N, P).
        bias: a field on each visible spin, (N,), in units of the temperature; zeros by default.
        temperature: $1/\beta$.

    Raises:
        ValueError: if the shapes do not fit, or the temperature is not above zero.

    >>> synapses = Synapses(jnp.array([[0.5], [-2.0]]))
    >>> synapses.decoded.ravel().tolist(), (100 * synapses.mean).astype(int).ravel().tolist()
    ([1.0, -1.0], [46, -96])
    """

    natural: Array
    bias: Array
    temperature: Array

    def __init__(self, natural: ArrayLike, bias: ArrayLike | None = None, temperature: ArrayLike = 1.0):
        self.natural = check.shape("natural", array(natural), (None, None))
        size = self.natural.shape[-2]
        self.bias = array(np.zeros(size) if bias is None else check.shape("bias", bias, (size,)))
        self.temperature = array(check.number("temperature", temperature, above=0.0))

    @property
    def mean(self) -> Array:
        """The mean of each weight, lambda."""
        return jnp.tanh(self.natural)

    @property
    def variance(self) -> Array:
        """The posterior variance of each weight, 1 - lambda^2: 1 where nothing is known, 0 where the sign is certain."""
        return 1 / jnp.cosh(self.natural) ** 2

    @property
    def entropy(self) -> Array:
        """What is not known of each weight, in bits."""
        return (jnp.logaddexp(self.natural, -self.natural) - self.natural * self.mean) / _LN2

    @property
    def decoded(self) -> Array:
        """The most probable weights, sign of lambda."""
        return jnp.where(self.natural >= 0, 1.0, -1.0)

    @property
    def scale(self) -> Array:
        """What a weight of one contributes to a field, beta / sqrt(N)."""
        return 1 / (self.temperature * np.sqrt(self.natural.shape[-2]))

    @property
    def width(self) -> Array:
        """The width beta Xi_mu (8b) of each hidden field that the uncertainty of the weights makes, (P,)."""
        return self.scale * jnp.sqrt(jnp.sum(self.variance, axis=-2))

    def sample(self, *, key: Array | int) -> Array:
        """Weights drawn from q_lambda, (N, P) of -1 and +1.

        >>> Synapses(jnp.zeros((3, 2))).sample(key=0).shape
        (3, 2)
        """
        return Spin().sample(as_key(key), self.natural)

    def network(self, weights: ArrayLike | None = None) -> Network:
        """The machine with these +-1 `weights` (the decoded ones by default), an ordinary network at temperature 1.

        >>> Synapses(jnp.ones((4, 2))).network().couplings[0].weights[0]
        Array([0.5, 0.5], dtype=float32)
        """
        return _spins(self.scale * (self.decoded if weights is None else jnp.asarray(weights)), self.bias)

    def equivalent(self, fields: Array) -> Network:
        """The equivalent machine of (9) for standard normal `fields` z, (..., P)."""
        return _spins(self.scale * self.mean, self.bias, self.width * fields)


def _spins(weights: ArrayLike, bias: ArrayLike, hidden_bias: ArrayLike | None = None) -> Network:
    return rbm(weights=weights, visible_bias=bias, hidden_bias=hidden_bias, visible=Spin(), hidden=Spin())


def compensated(synapses: Synapses, data: ArrayLike, weights: ArrayLike | None = None) -> Network:
    r"""The machine with +-1 weights, its biases shifted so that mean fields are kept.

    A weight of which nothing is known has mean 0, but is decoded as -1 or +1. Where a pixel hardly varies, as at the edge
    of images, this adds up to a field of random sign on each hidden neuron; the biases
    $c = \frac{\beta}{\sqrt N} (\lambda - \xi)^T \bar\sigma$ and $b + \frac{\beta}{\sqrt N} (\lambda - \xi)\, \bar h$
    take it back.

    The shift should stay small. Weights drawn with `Synapses.sample` spread the signs of what is not known, where the
    mode may line them up: on MNIST draws explain unseen images as well as the mean weights do, and the mode does not.

    Args:
        synapses: the law of the weights.
        data: what the averages are taken over, (M, N).
        weights: the decoded ones by default.

    Returns:
        The network, at temperature 1.

    >>> compensated(Synapses(jnp.zeros((4, 2))), jnp.ones((3, 4))).layers[1].bias
    Array([-2., -2.], dtype=float32)
    """
    weights = synapses.decoded if weights is None else jnp.asarray(weights, float)
    data = jnp.asarray(data, float)
    excess = synapses.scale * (weights - synapses.mean)
    hidden = jnp.mean(jnp.tanh(data @ (synapses.scale * synapses.mean)), axis=0)
    return _spins(synapses.scale * weights, synapses.bias - excess @ hidden, -jnp.mean(data, axis=0) @ excess)


def divergence(synapses: Synapses, prior: ArrayLike = 0.0) -> Array:
    r"""The Kullback-Leibler divergence of $q_\lambda$ from its prior, equation (7).

    It is N P ln 2 when every weight is certain and the prior is even.

    Args:
        synapses: the law of the weights.
        prior: natural parameter of the prior, whose mean m is its tanh; one, or one for each weight.

    Returns:
        One number.

    >>> divergence(Synapses(jnp.full((3, 2), 20.0)))
    Array(4.158883, dtype=float32)
    """
    theta, prior = synapses.natural, jnp.broadcast_to(prior, synapses.natural.shape)
    cumulant = Spin().cumulant
    return jnp.sum(synapses.mean * (theta - prior) - cumulant(theta) + cumulant(prior))
