r"""Binary synapses: the distribution of $\pm 1$ weights of a restricted Boltzmann machine, given data (Huang 2019).

The machine is $P(\sigma \mid \xi) = \frac1Z e^{b\sigma} \prod_\mu 2\cosh(\beta X_\mu)$ with
$X_\mu = \xi^\mu \cdot \sigma/\sqrt N$ (1), and the posterior of its weights is approximated by independent ones of mean
$\lambda$ that maximise the bound (6)

$$ \mathrm{LB} = -\mathrm{KL}(q_\lambda \| P) + \mathbb{E} \Big[ \sum_{a\mu} \ln 2\cosh \beta X^a_\mu - M \ln Z(\xi)
\Big]. $$

Under $q_\lambda$ the sum $X_\mu$ is nearly normal, with mean $G_\mu = \lambda^\mu \cdot \sigma/\sqrt N$ and variance
$\Xi_\mu^2 = \frac1N \sum_i (1 - \lambda_{i\mu}^2)$ (8). So ln Z is that of an equivalent machine with weights
$\beta\lambda/\sqrt N$ and hidden fields $\beta \Xi_\mu z_\mu$, z normal.
The E-step is any way of bringing that machine to equilibrium.

The paper's measure has $\cosh$ for $2\cosh$; both terms of the bound have the same factor, so it drops out.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.couplings import Dense
from equilibria.equilibrators.driver import Equilibrator, relax
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.setting import setting
from equilibria.equilibrators.sweep import Sweeps
from equilibria.network import Layer, Network, State
from equilibria.random import as_key
from equilibria.units import Spin

_LN2 = float(np.log(2))
_CHUNK = 12  # 2^12 hidden states at a time


class Synapses(eqx.Module):
    r"""Independent binary weights between N visible and P hidden spins.

    $q_\lambda(\xi) = \prod_{i\mu} (1 + \lambda_{i\mu} \xi_i^\mu)/2$ is their law, of mean $\lambda$.

    They are held by their natural parameter, `natural` = $\tanh^{-1} \lambda$ (N, P), so that $|\lambda| < 1$ without
    clipping. `bias` (N,) is a field on the visible spins, in units of the temperature; `temperature` is $1/\beta$.

    >>> synapses = Synapses(jnp.array([[0.5], [-2.0]]))
    >>> synapses.decoded.ravel().tolist(), (100 * synapses.mean).astype(int).ravel().tolist()
    ([1.0, -1.0], [46, -96])
    """

    natural: Array = eqx.field(converter=lambda value: jnp.asarray(value, float))
    bias: Array
    temperature: Array

    def __init__(self, natural: ArrayLike, bias: ArrayLike | None = None, temperature: ArrayLike = 1.0):
        self.natural = check.shape("natural", jnp.asarray(natural, float), (None, None))
        size = self.natural.shape[-2]
        self.bias = jnp.zeros(size) if bias is None else check.shape("bias", jnp.asarray(bias, float), (size,))
        self.temperature = jnp.asarray(check.number("temperature", temperature, above=0.0), float)

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
        """What a weight of one contributes to a field: beta / sqrt(N)."""
        return 1 / (self.temperature * np.sqrt(self.natural.shape[-2]))

    @property
    def width(self) -> Array:
        """beta Xi_mu of equation (8b): the width of each hidden field that the uncertainty of the weights makes, (P,)."""
        return self.scale * jnp.sqrt(jnp.sum(self.variance, axis=-2))

    def sample(self, *, key: Array | int) -> Array:
        """Weights drawn from q_lambda, (N, P) of -1 and +1.

        >>> Synapses(jnp.zeros((3, 2))).sample(key=0).shape
        (3, 2)
        """
        return Spin().sample(as_key(key), self.natural)

    def network(self, weights: ArrayLike | None = None) -> Network:
        r"""The machine with these +-1 `weights` (the decoded ones by default), an ordinary network at temperature 1.

        >>> Synapses(jnp.ones((4, 2))).network().couplings[0].weights[0]
        Array([0.5, 0.5], dtype=float32)
        """
        return machine(self.scale * (self.decoded if weights is None else jnp.asarray(weights)), self.bias)

    def equivalent(self, fields: Array) -> Network:
        """The equivalent machine for standard normal `fields` z, (..., P)."""
        return machine(self.scale * self.mean, self.bias, self.width * fields)


def machine(weights: ArrayLike, bias: ArrayLike, hidden_bias: ArrayLike | None = None) -> Network:
    """Spins "visible" and "hidden" with these weights; a hidden bias (..., P) makes as many machines side by side.

    >>> machine(jnp.ones((3, 2)), jnp.zeros(3)).names
    ('visible', 'hidden')
    """
    hidden = jnp.zeros(jnp.shape(weights)[-1]) if hidden_bias is None else hidden_bias
    layers = [Layer("visible", Spin(), bias), Layer("hidden", Spin(), hidden)]
    return Network(layers, [Dense(("visible", "hidden"), weights)])


def compensated(synapses: Synapses, data: ArrayLike, weights: ArrayLike | None = None) -> Network:
    r"""The machine with +-1 `weights` (the decoded ones by default), its biases shifted so that mean fields are kept.

    A weight of which nothing is known has mean 0, but is decoded as -1 or +1. Where a pixel hardly varies, as at the edge
    of images, this adds up to a field of random sign on each hidden neuron; the biases
    $c = \frac{\beta}{\sqrt N} (\lambda - \xi)^T \bar\sigma$ and $b + \frac{\beta}{\sqrt N} (\lambda - \xi)\, \bar h$
    take it back, with the averages over `data` (M, N).

    The shift should stay small. Weights drawn with `Synapses.sample` spread the signs of what is not known, where the
    mode may line them up: on MNIST draws explain unseen images as well as the mean weights do, and the mode does not.

    >>> compensated(Synapses(jnp.zeros((4, 2))), jnp.ones((3, 4))).layers[1].bias
    Array([-2., -2.], dtype=float32)
    """
    weights = synapses.decoded if weights is None else jnp.asarray(weights, float)
    data = jnp.asarray(data, float)
    excess = synapses.scale * (weights - synapses.mean)
    hidden = jnp.mean(jnp.tanh(data @ (synapses.scale * synapses.mean)), axis=0)
    return machine(synapses.scale * weights, synapses.bias - excess @ hidden, -jnp.mean(data, axis=0) @ excess)


def divergence(synapses: Synapses, prior: ArrayLike = 0.0) -> Array:
    r"""KL of q_lambda from a prior of natural parameter `prior` (its mean is m = tanh of it), equation (7).

    It is N P ln 2 when every weight is certain and the prior is even.

    >>> divergence(Synapses(jnp.full((3, 2), 20.0)))
    Array(4.158883, dtype=float32)
    """
    theta, prior = synapses.natural, jnp.broadcast_to(prior, synapses.natural.shape)
    cumulant = Spin().cumulant
    return jnp.sum(synapses.mean * (theta - prior) - cumulant(theta) + cumulant(prior))


class Fields(NamedTuple):
    """Points of a Gaussian average: z (F, P) with weights (F,) that add up to one."""

    values: Array
    weights: Array


def quadrature(hidden_size: int, nodes: int) -> Fields:
    """The trapezoidal rule with `nodes` points in each of the P dimensions.

    For a function as smooth as tanh it converges exponentially, and faster than Gauss's rule, which the function's poles
    hold up: with 13 points the average of 1 - tanh(z)^2 is right to 1e-5, and to 1e-3 with Gauss's 12.

    >>> rule = quadrature(1, 13)
    >>> jnp.isclose(rule.weights @ rule.values[:, 0] ** 2, 1.0, atol=1e-3)
    Array(True, dtype=bool)
    """
    reach = min(4.5, 0.55 * nodes)  # so that the cut-off and the spacing cost about the same
    points = np.linspace(-reach, reach, nodes)
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    grid = np.array(list(product(points, repeat=hidden_size)))
    mass = np.prod(np.array(list(product(weights, repeat=hidden_size))), axis=1)
    return Fields(jnp.asarray(grid, float), jnp.asarray(mass, float))


def drawn(hidden_size: int, count: int, key: Array) -> Fields:
    """`count` standard normal points.

    Not in opposite pairs: what is averaged here is even in z but for the biases' part, so that a pair says little more than
    one of its points (the error of the gradient is larger by a factor of 1.4 at the same cost).

    >>> drawn(3, 8, jax.random.key(0)).values.shape
    (8, 3)
    """
    return Fields(jax.random.normal(key, (count, hidden_size)), jnp.full(count, 1 / count))


class Moments(NamedTuple):
    """What the E-step finds: averages in the equivalent machine, averaged over its fields as well."""

    log_partition: Array  # no estimate of it with sampling, which does not know ln Z
    correlation: Array  # <sigma_i h_mu>, (N, P)
    visible: Array  # <sigma_i>, (N,)
    spread: Array  # 1 - <h_mu>^2, (P,)
    state: State  # where the equilibrator was left
    unconverged: Array  # the fraction of fields for which it did not come to rest


def e_step(how: Equilibrator, synapses: Synapses, fields: Fields, start: State, key: Array) -> Moments:
    """Bring the equivalent machine to equilibrium with `how`, from `start` (a multiple of F chains, by layer).

    The moments are the gradient of what `how` gives for the free energy. Chains beyond the first F are independent copies.
    """
    copies = max(len(start["hidden"]) // len(fields.weights), 1)
    weights = jnp.tile(fields.weights, copies) / copies
    network = synapses.equivalent(jnp.tile(fields.values, (copies, 1)))
    state, unconverged = start, jnp.zeros(())
    if not isinstance(how, Exact):
        rest = relax(how, setting(network, (), 1.0), start, key)
        state, unconverged = rest.state, unconverged if rest.converged is None else jnp.mean(~rest.converged)

    def log_partition(network):
        if isinstance(how, Exact):
            return weights @ _summed(network)
        return -weights @ how.free_energy(setting(network, (), 1.0), state)

    value, slope = eqx.filter_value_and_grad(log_partition)(network)
    hidden = (slope.layers[1].bias / weights[:, None]).reshape(copies, -1, slope.layers[1].size)
    # For copies that are draws, the product of two different ones is the unbiased estimate of the mean's square.
    square = (jnp.sum(hidden, axis=0) ** 2 - jnp.sum(hidden**2, axis=0)) / max(copies * (copies - 1), 1)
    spread = 1 - fields.weights @ (square if copies > 1 else hidden[0] ** 2)
    return Moments(value, slope.couplings[0].weights, slope.layers[0].bias, spread, state, unconverged)


def _summed(network: Network) -> Array:
    """ln Z of the machine for each of its hidden biases (F, P), by the sum over the 2^P hidden states.

    What the visible layer contributes to a hidden state is the same for all biases and is computed once, which `Exact`,
    serving any network, does not know.
    """
    visible, hidden = network.layers
    (coupling,) = network.couplings
    numbers = jnp.arange(2**hidden.size).reshape(-1, min(2**hidden.size, 2**_CHUNK))

    @jax.checkpoint
    def chunk(numbers):
        states = 2.0 * (numbers[:, None] >> jnp.arange(hidden.size) & 1) - 1
        inside = jnp.sum(visible.unit.cumulant(visible.bias + states @ coupling.weights.T), axis=-1)
        return jax.nn.logsumexp(inside[:, None] + states @ hidden.bias.T, axis=0)

    return jax.nn.logsumexp(jax.lax.map(chunk, numbers), axis=0) if len(numbers) > 1 else chunk(numbers[0])


class Expected(NamedTuple):
    """The data's part of the bound and its gradients."""

    value: Array
    mean: Array  # in lambda, (N, P)
    bias: Array


def expected_energy(synapses: Synapses, data: Array, present: Array, nodes: int) -> Expected:
    """The sum over data of b sigma + sum_mu E ln 2cosh(beta X_mu), and its gradient (13), by quadrature.

    `present` weighs each example.
    """
    rule = quadrature(1, nodes)
    centre = data @ (synapses.scale * synapses.mean)
    field = centre + synapses.width * rule.values[:, :, None]  # (nodes, examples, P)
    response = jnp.tanh(field)
    mean = present[:, None] * jnp.tensordot(rule.weights, response, 1)
    spread = present @ (1 - jnp.tensordot(rule.weights, response**2, 1))
    value = present @ (jnp.sum(jnp.tensordot(rule.weights, Spin().cumulant(field), 1), axis=-1) + data @ synapses.bias)
    slope = synapses.scale * (data.T @ mean) - synapses.scale**2 * synapses.mean * spread
    return Expected(value, slope, present @ data)


class Ascent(NamedTuple):
    """The bound and its gradient in the means lambda and in the biases."""

    bound: Array
    mean: Array
    bias: Array
    divergence: Array


def ascent(synapses: Synapses, expected: Expected, moments: Moments, examples: Array, prior: ArrayLike) -> Ascent:
    r"""The bound (6) and the gradient (16).

    In (14) the factor $z/\Xi$, which diverges as a weight becomes certain, is integrated by parts (Stein's lemma):
    $\mathbb{E}[z\,\hat m(\Xi z)]/\Xi = \mathbb{E}[\hat m'] = \beta\, \mathbb{E}[1 - \hat m^2]$, as in (13).
    """
    cost = divergence(synapses, prior)
    free = synapses.scale * moments.correlation - synapses.scale**2 * synapses.mean * moments.spread
    return Ascent(
        expected.value - examples * moments.log_partition - cost,
        expected.mean - examples * free - (synapses.natural - prior),
        expected.bias - examples * moments.visible,
        cost,
    )


def knows_log_partition(how: Equilibrator) -> bool:
    """Whether the E-step gives ln Z, and with it the bound: all but sampling do."""
    return not isinstance(how, Sweeps)
