r"""The bound that binary synapses climb (Huang 2019).

What is learned is the distribution of the $\pm 1$ weights of a restricted Boltzmann machine, given data.

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

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria.model.units import Spin
from equilibria.synapses.distribution import Synapses, divergence
from equilibria.synapses.e_step import Moments, quadrature


class Expected(NamedTuple):
    """The data's part of the bound, computed where it is asked for, and its gradients."""

    value: Callable[[], Array]
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

    def value() -> Array:
        cumulants = jnp.sum(jnp.tensordot(rule.weights, Spin().cumulant(field), 1), axis=-1)
        return present @ (cumulants + data @ synapses.bias)

    slope = synapses.scale * (jax.lax.optimization_barrier(data.T) @ mean) - synapses.scale**2 * synapses.mean * spread
    return Expected(value, slope, present @ data)


class Ascent(NamedTuple):
    """The gradient of the bound in the means lambda and in the biases; the bound and its KL where they are asked for."""

    bound: Callable[[], Array | None]  # None where the E-step does not know ln Z
    mean: Array
    bias: Array
    divergence: Callable[[], Array]


def ascent(synapses: Synapses, expected: Expected, moments: Moments, examples: Array, prior: ArrayLike) -> Ascent:
    r"""The bound (6) and the gradient (16).

    In (14) the factor $z/\Xi$, which diverges as a weight becomes certain, is integrated by parts (Stein's lemma):
    $\mathbb{E}[z\,\hat m(\Xi z)]/\Xi = \mathbb{E}[\hat m'] = \beta\, \mathbb{E}[1 - \hat m^2]$, as in (13). An E-step
    with a method `spread`, as the paper's own, averages it in its own way.
    """

    def cost() -> Array:
        return divergence(synapses, prior)

    def bound() -> Array | None:
        known = moments.log_partition()
        return None if known is None else expected.value() - examples * known - cost()

    free = synapses.scale * moments.correlation - synapses.scale**2 * synapses.mean * moments.spread
    return Ascent(
        bound,
        expected.mean - examples * free - (synapses.natural - prior),
        expected.bias - examples * moments.visible,
        cost,
    )
