r"""How fast each coupling learns, and that all change by the same fraction of themselves (a trust ratio, as in LARS).

Scellier and Bengio (section 5.2) choose a rate for every coupling so that $\|\Delta W_k\| / \|W_k\|$ is about the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from equilibria import check
from equilibria.model.network import Network


def scale_by_coupling(factors: Sequence[float]) -> optax.GradientTransformation:
    r"""Multiply the change of each coupling by its own factor, and that of a layer's bias by that of the coupling into it.

    Scellier and Bengio's $\alpha_k$ (Table 2) are such factors. Chain it with any optimiser, as in the example.

    Args:
        factors: one number for each coupling, in the network's order.

    Returns:
        The optax transformation.

    Raises:
        ValueError: if a factor is below zero; in the first update, if there is another number of couplings.

    >>> import equilibria as eq
    >>> rates = optax.chain(optax.sgd(1.0), scale_by_coupling([0.1, 0.05]))
    >>> data = jnp.eye(4), jnp.eye(4)[:, :2]
    >>> run = eq.train(eq.layered((4, 3, 2), key=0), data, eq.equilibrium_propagation(), epochs=1, optimiser=rates, key=1)
    >>> run.history.sizes["step"]
    1
    """
    factors = [check.number("factors", factor, least=0.0) for factor in factors]

    def update(updates: Network, state: Any, parameters: Any = None) -> tuple[Network, Any]:
        return by_coupling(updates, factors), state

    return optax.GradientTransformation(lambda parameters: optax.EmptyState(), update)


class TrustRatio(NamedTuple):
    """What `trust_ratio` keeps.

    Attributes:
        calls: how often it was called.
        norms: a running mean of the norm of each coupling's gradient.
    """

    calls: Array
    norms: Array


def trust_ratio(change: float = 1e-3, *, decay: float = 0.99) -> optax.GradientTransformation:
    r"""Gradient descent in which every coupling changes by the same fraction of itself, on average.

    $$ \Delta W_k = - \text{change} \cdot \|W_k\| \, g_k / \overline{\|g_k\|} $$

    This is the automatic choice of the rates that Scellier and Bengio make by hand (section 5.2: $\|\Delta W_k\| / \|W_k\|$
    about the same for all k). A layer's bias learns at the rate of the coupling into it. As learning ends, the gradient gets
    smaller and this does not: let `change` fall with an optax schedule,
    `optax.chain(trust_ratio(1.0), optax.scale_by_schedule(schedule))`.

    Args:
        change: the fraction.
        decay: the mean of the gradient's norm is taken over about 1 / (1 - `decay`) steps.

    Returns:
        The optax transformation.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> net, transform = eq.layered((4, 3, 2), key=0), trust_ratio(1e-3)
    >>> updates, _ = transform.update(net, transform.init(net), net)
    >>> relative_changes(net, updates).round(6)
    Array([0.001, 0.001], dtype=float32)
    """
    check.number("change", change, above=0.0)
    check.number("decay", decay, least=0.0, most=0.9999)

    def init(parameters: Network) -> TrustRatio:
        return TrustRatio(jnp.zeros((), int), jnp.zeros(len(parameters.couplings)))

    def update(updates: Network, state: TrustRatio, parameters: Network) -> tuple[Network, TrustRatio]:
        calls = state.calls + 1
        norms = decay * state.norms + (1 - decay) * coupling_norms(updates)
        typical = norms / (1 - decay**calls)
        rates = -change * coupling_norms(parameters) / jnp.maximum(typical, jnp.finfo(jnp.float32).tiny)
        return by_coupling(updates, rates), TrustRatio(calls, norms)

    return optax.GradientTransformation(init, update)


def by_coupling(tree: Network, factors: Sequence[float] | Array) -> Network:
    """A tree in the shape of a network, each coupling and the bias that goes with it multiplied by its factor."""
    if len(factors) != len(tree.couplings):
        check.refuse("factors", f"{len(factors)} numbers", f"one for each of the {len(tree.couplings)} couplings")
    couplings = [
        jax.tree.map(lambda leaf, factor=factor: factor * leaf, coupling)
        for coupling, factor in zip(tree.couplings, factors, strict=True)
    ]
    biases = [factors[_into(tree, layer.name)] * layer.bias for layer in tree.layers]
    tree = eqx.tree_at(lambda net: net.couplings, tree, tuple(couplings))
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], tree, biases)


def _into(network: Network, name: str) -> int:
    """The number of the first coupling whose second end is this layer; else of the first that touches it."""
    ends = [coupling.ends for coupling in network.couplings]
    second = [index for index, pair in enumerate(ends) if pair[1] == name]
    return (second or [index for index, pair in enumerate(ends) if name in pair] or [0])[0]


def coupling_norms(tree: Network) -> Array:
    """The Euclidean norm of each coupling's parameters."""
    return jnp.stack([optax.tree_utils.tree_norm(coupling) for coupling in tree.couplings])


def relative_changes(parameters: Network, updates: Network) -> Array:
    r"""$\|\Delta W_k\| / \|W_k\|$ of each coupling; zero for a coupling of zeros.

    >>> import equilibria as eq
    >>> net = eq.layered((4, 3, 2), key=0)
    >>> relative_changes(net, jax.tree.map(lambda leaf: 0.5 * leaf, net))
    Array([0.5, 0.5], dtype=float32)
    """
    return coupling_norms(updates) / jnp.maximum(coupling_norms(parameters), jnp.finfo(jnp.float32).tiny)
