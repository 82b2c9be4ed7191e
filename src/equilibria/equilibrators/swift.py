"""Couplings made ready for a loop that multiplies by them many times.

On a CPU, XLA packs the matrix on the right of a product anew every time. For few states and a large matrix that packing is
most of the work: with 16 states and 1024 x 1024 weights the product `W @ s^T`, matrix on the left, takes half as long as
`s @ W^T`. The loop therefore keeps the weights and their transpose, made once, and always puts the matrix on the left.

A factored coupling takes its diagonal out of every field; summing its squares anew at each step would cost more than the
two products themselves for few states, so that the loop keeps it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from equilibria.couplings import Coupling, Dense, Factored
from equilibria.network import Network

# Measured on 500 and 1024 neurons: below, a product is over before packing matters; with more states, packing is shared.
_SMALLEST_SIDE = 128
_MOST_STATES = 128


class Swift(Dense):
    """A dense coupling with its transpose at hand.

    >>> swift = Swift(("a", "b"), jnp.ones((3, 2)), jnp.ones((2, 3)))
    >>> swift.pull(jnp.array([1.0, 0.0, 1.0]), toward="b")
    Array([2., 2.], dtype=float32)
    """

    transposed: Array

    def pull(self, state, toward):
        matrix = self.transposed if toward == self.ends[1] else self.weights
        states = state.reshape(-1, state.shape[-1])
        if len(states) > _MOST_STATES:
            return state @ matrix.T
        # Without the barriers XLA would turn the product round again.
        columns = jax.lax.optimization_barrier(states.T)
        pulls = jax.lax.optimization_barrier(matrix @ columns)
        return pulls.T.reshape(*state.shape[:-1], len(matrix))


class SwiftFactored(Factored):
    """A factored coupling with its diagonal at hand.

    >>> SwiftFactored(("a", "a"), jnp.ones((1, 2)), jnp.array([0.5, 0.5])).pull(jnp.array([1.0, -1.0]), toward="a")
    Array([-0.5,  0.5], dtype=float32)
    """

    diagonal: Array

    @property
    def self_pull(self):
        return self.diagonal


def swift(network: Network) -> Network:
    """The network with its couplings ready for a loop.

    >>> from equilibria import layered
    >>> [type(coupling).__name__ for coupling in swift(layered((500, 500, 10), key=0)).couplings]
    ['Swift', 'Dense']
    """
    return Network(network.layers, [_swift(coupling) for coupling in network.couplings])


def _swift(coupling: Coupling) -> Coupling:
    if type(coupling) is Factored:
        return SwiftFactored(coupling.ends, coupling.factors, jax.lax.optimization_barrier(coupling.self_pull))
    if not isinstance(coupling, Dense) or coupling.lateral or jax.default_backend() != "cpu":
        return coupling
    if type(coupling) is not Dense or min(coupling.shape[-2:]) < _SMALLEST_SIDE:
        return coupling
    return Swift(coupling.ends, coupling.weights, jax.lax.optimization_barrier(jnp.asarray(coupling.weights).T))
