"""How many local minima the energy of a network of spins has: by enumeration, or by annealing on the unstable spins."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equilibria import check
from equilibria.measure.estimate import Estimate
from equilibria.model.network import Network
from equilibria.random import as_key

MOST = 30  # neurons whose states are enumerated
LOW = 12  # neurons whose states stand side by side in one block of the enumeration


def log_minima(
    network: Network,
    method: Literal["exact", "annealed"] = "exact",
    *,
    chains: int = 400,
    steps: int = 400,
    sharpness: float = 8.0,
    key: Array | int | None = None,
) -> Estimate:
    r"""The logarithm of the number of local minima of a network of spins: states that no single flip lowers in energy.

    "exact" looks at all $2^N$ states. "annealed" counts unstable spins, $U(\sigma) = |\{i: \sigma_i \phi_i < 0\}|$, and anneals
    chains from all states alike ($\lambda = 0$) to $e^{-\lambda U}$, a sweep at each of `steps` values of $\lambda$:

    $$ \ln \#\{U = 0\} = N \ln 2 + \ln \Big\langle e^{-\sum_k (\lambda_k - \lambda_{k-1}) U(\sigma_{k-1})}\, 1_{U = 0}
    \Big\rangle $$

    The mean is unbiased at any number of steps (annealed importance sampling, Neal 2001, with U in place of the
    energy), so that its logarithm is low by about half its squared error.

    Args:
        network: one layer of spins, coupled to itself.
        method: "exact", for up to 30 neurons, or "annealed".
        chains: of the annealing.
        steps: of the annealing.
        sharpness: the last lambda.
        key: a random key or a seed, for "annealed".

    Returns:
        The logarithm; annealed, with its standard error over chains and how many of them count.

    Raises:
        ValueError: if the network is of another kind, too large to enumerate, or there is no key to draw with.

    >>> import equilibria as eq
    >>> round(float(np.exp(log_minima(eq.hopfield([[1, -1, 1, 1, -1, 1, 1, -1]])).value)))  # the pattern and its negative
    2
    """
    if len(network.layers) != 1 or [float(level) for level in network.layers[0].unit.levels or ()] != [-1.0, 1.0]:
        check.refuse("network", f"layers {', '.join(network.names)}", "one layer of spins")
    weights = sum(np.asarray(coupling.matrix(), np.float64) for coupling in network.couplings)
    weights = np.asarray(weights - np.diag(np.diagonal(weights)))
    bias = np.asarray(network.layers[0].bias, np.float64)
    size = len(bias)
    tie = 1e-5 * float(np.abs(weights).sum(1).max() + np.abs(bias).max())  # a flip that changes nothing lowers nothing
    if check.choice("method", method, ("exact", "annealed")) == "exact":
        if size > MOST:
            check.refuse("network", f"{size} neurons", f"at most {MOST} for 'exact'; 'annealed' takes any number")
        return Estimate(float(np.log(_counted(jnp.asarray(weights, float), jnp.asarray(bias, float), tie))))
    if key is None:
        check.refuse("key", None, "a random key or a seed, for 'annealed'")
    sharpening = jnp.linspace(0.0, check.number("sharpness", sharpness, above=0.0), check.count("steps", steps) + 1)
    logs = _annealed(
        jnp.asarray(weights, float),
        jnp.asarray(bias, float),
        tie,
        sharpening,
        check.count("chains", chains),
        as_key(key),
    )
    return _averaged(np.asarray(logs, np.float64), size)


def _averaged(logs: np.ndarray, size: int) -> Estimate:
    top = logs.max()
    if np.isneginf(top):
        return Estimate(-np.inf, np.nan, effective=0.0, note="no chain ended in a minimum; anneal longer")
    weights = np.exp(logs - top)
    mean = weights.mean()
    error = float(weights.std(ddof=1) / np.sqrt(len(weights)) / mean) if len(weights) > 1 else np.nan
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return Estimate(float(size * np.log(2) + top + np.log(mean)), error, effective=effective)


def _bits(number: Array, count: int) -> Array:
    return 2.0 * ((number[..., None] >> jnp.arange(count)) & 1) - 1.0


@jax.jit
def _counted(weights: Array, bias: Array, tie: float) -> Array:
    size = len(bias)
    low = min(LOW, size)
    block = _bits(jnp.arange(2**low), low)  # the states of the first neurons
    fields = block @ weights[:low] + bias

    def more(high: Array, count: Array) -> Array:
        rest = _bits(high, size - low)
        here = fields + rest @ weights[low:]
        stable = (block * here[:, :low] >= -tie).all(1) & (rest * here[:, low:] >= -tie).all(1)
        return count + stable.sum()

    return jax.lax.fori_loop(0, 2 ** (size - low), more, jnp.zeros((), int))


@partial(jax.jit, static_argnames="chains")
def _annealed(weights: Array, bias: Array, tie: float, sharpening: Array, chains: int, key: Array) -> Array:
    size = len(bias)
    start_key, walk_key = jax.random.split(key)
    state = jax.random.rademacher(start_key, (chains, size), float)

    def unstable(state: Array, fields: Array) -> Array:
        return jnp.sum(state * fields < -tie, axis=-1)

    def flip(carry: tuple, given: tuple) -> tuple[tuple, None]:
        state, fields, count, strength = carry
        site, chance = given
        spin = state[:, site]
        moved = fields - 2 * spin[:, None] * weights[site]
        flipped = state.at[:, site].set(-spin)
        after = unstable(flipped, moved)
        take = jnp.log(chance) < -strength * (after - count)
        state, fields = (jnp.where(take[:, None], new, old) for new, old in ((flipped, state), (moved, fields)))
        return (state, fields, jnp.where(take, after, count), strength), None

    def step(carry: tuple, given: tuple) -> tuple[tuple, None]:
        state, fields, count, logs = carry
        before, strength, key = given
        logs = logs - (strength - before) * count
        order_key, chance_key = jax.random.split(key)
        visits = jax.random.permutation(order_key, size), jax.random.uniform(chance_key, (size, chains))
        (state, fields, count, _), _ = jax.lax.scan(flip, (state, fields, count, strength), visits)
        return (state, fields, count, logs), None

    fields = state @ weights + bias
    begin = state, fields, unstable(state, fields), jnp.zeros(chains)
    given = sharpening[:-1], sharpening[1:], jax.random.split(walk_key, len(sharpening) - 1)
    (_, _, count, logs), _ = jax.lax.scan(step, begin, given)
    return jnp.where(count == 0, logs, -jnp.inf)
