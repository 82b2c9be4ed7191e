"""What the figures share: planted machines, the paper's algorithm and ours on several of them at once, overlaps."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from scipy.special import logsumexp

from equilibria.data import planted_data, planted_receptive_fields
from equilibria.equilibrators.exact import Exact
from equilibria.measure.matching import match_fields
from equilibria.synapses.bound import ascent as climbed
from equilibria.synapses.bound import expected_energy
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.e_step import drawn, e_step
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.posterior import sample_synapses

STARTS = 4  # of "best of starts", of which the one with the highest bound counts
RATE = 0.01  # of the paper's ascent, which it does not give: of 0.001 to 0.03 that of the highest bound, on other realisations
_NATURAL = optax.sgd(0.03, momentum=0.9)  # what `learn_synapses` does by itself: the natural gradient
_EDGE = 1 - 1e-5  # the largest mean of a weight


class Planted(NamedTuple):
    """Receptive fields (instances, P, N) and the data (instances, M, N) that they make."""

    fields: np.ndarray
    data: np.ndarray


def plant(
    instances: int, hidden_size: int, size: int, examples: int, correlation: float, seed: int, temperature: float = 1.0
) -> Planted:
    """Independent machines, each with its own fields and data.

    Args:
        instances: how many machines.
        hidden_size: P, fields of each.
        size: N, visible neurons.
        examples: M, of each.
        correlation: q, of each pair of fields.
        seed: of everything that is drawn.
        temperature: at which the data are drawn.

    Returns:
        The fields and the data.
    """
    keys = jax.random.split(jax.random.key(seed), (instances, 2))
    fields = [planted_receptive_fields(hidden_size, size, correlation, key=pair[0]) for pair in keys]
    data = [
        planted_data(here, examples, temperature=temperature, key=pair[1])
        for here, pair in zip(fields, keys, strict=True)
    ]
    return Planted(np.stack(fields), np.stack(data))


def ascent(rate: float, momentum: float = 0.9) -> optax.GradientTransformation:
    r"""The update of the paper: gradient ascent with momentum in the means $\lambda$ themselves, equation (16).

    `learn_synapses` holds natural parameters $\tanh^{-1}\lambda$ and gives the gradient in $\lambda$, so that a plain step
    of its own is the natural gradient; this one moves $\lambda$.

    Args:
        rate: eta.
        momentum: what is kept of the step before.

    Returns:
        An optax transformation of the natural parameters.

    >>> step, _ = (how := ascent(0.1)).update(jnp.array([-2.0]), how.init(jnp.zeros(1)), jnp.zeros(1))
    >>> jnp.tanh(step).round(3)
    Array([0.2], dtype=float32)
    """

    def begin(natural: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, natural)

    def move(gradient: Any, speed: Any, natural: Any = None) -> tuple[Any, Any]:
        speed = jax.tree.map(lambda v, g: momentum * v - rate * g, speed, gradient)
        moved = jax.tree.map(lambda x, v: jnp.arctanh(jnp.clip(jnp.tanh(x) + v, -_EDGE, _EDGE)) - x, natural, speed)
        return moved, speed

    return optax.GradientTransformation(begin, move)


def permuting(inner: optax.GradientTransformation, at: int) -> optax.GradientTransformation:
    """An optimiser whose update number `at`, counted from 0, does nothing but put the hidden neurons in another order.

    What the optimiser remembers of each neuron, its momentum, goes with it.

    Args:
        inner: makes the other updates, of natural parameters (..., N, P).
        at: which update.

    Returns:
        The optimiser.

    >>> how = permuting(optax.sgd(1.0), 0)
    >>> how.update(jnp.ones((1, 3)), how.init(jnp.zeros((1, 3))), jnp.array([[1.0, 2.0, 4.0]]))[0]
    Array([[ 3., -1., -2.]], dtype=float32)
    """

    def begin(natural: Any) -> Any:
        return inner.init(natural), jnp.zeros((), int)

    def move(gradient: Any, state: Any, natural: Any = None) -> tuple[Any, Any]:
        memory, count = state
        now, shapes = count == at, {leaf.shape for leaf in jax.tree.leaves(natural)}

        def rolled(leaf: Array) -> Array:
            return jnp.roll(leaf, 1, axis=-1) if jnp.shape(leaf) in shapes else leaf

        step, after = inner.update(gradient, memory, natural)
        step = jax.tree.map(lambda usual, x: jnp.where(now, rolled(x) - x, usual), step, natural)
        after = jax.tree.map(lambda usual, old: jnp.where(now, rolled(old), usual), after, memory)
        return step, (after, count + 1)

    return optax.GradientTransformation(begin, move)


def options(learner: str) -> dict[str, Any]:
    """What `learn_synapses` takes for "paper", "no momentum", "exact", "response" or "best of starts"."""
    if learner in ("paper", "no momentum"):
        return {"how": "paper", "optimiser": ascent(RATE, 0.9 if learner == "paper" else 0.0)}
    return {"how": "response" if learner == "response" else "exact", "optimiser": _NATURAL}


def overlap_matrix(natural: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Overlaps of the decoded weights (..., N, P) with the planted fields (..., P, N): (..., planted, unit)."""
    return fields @ np.where(natural >= 0, 1.0, -1.0) / fields.shape[-1]


def matched(natural: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """The overlap of each planted field with the unit that found it.

    Args:
        natural: parameters of the learned weights, (instances, N, P); their signs count.
        fields: the planted ones, (instances, P, N).

    Returns:
        Overlaps (instances, P).
    """
    signs = np.where(natural >= 0, 1.0, -1.0)
    return np.stack([match_fields(one.T, truth).overlaps for one, truth in zip(signs, fields, strict=True)])


def permuted_run(planted: Planted, learner: str, steps: int, permute_at: int, seed: int) -> xr.Dataset:
    """Learning with the receptive fields put in another order after `permute_at` updates, for all instances at once.

    Step number `permute_at` + 1 is the permutation and nothing else.

    Args:
        planted: the machines.
        learner: what `options` knows.
        steps: in all.
        permute_at: after how many of them the fields change places.
        seed: of the starts.

    Returns:
        Along the steps, for each instance: all overlaps of planted fields with units (`crossed`), `overlap` between each
        planted field and the unit that had found it just before the permutation, `labelled` between each and the unit of the
        same number, `matched` between each and the unit that is closest now, the KL divergence, the bound, and the fraction
        of fields z whose messages did not come to rest (`unconverged`).
    """
    hidden_size, starts = planted.fields.shape[1], STARTS if learner == "best of starts" else 1
    told = options(learner)
    told["optimiser"] = permuting(told["optimiser"], permute_at)
    sets = [one for one in planted.data for _ in range(starts)]
    history = learn_synapses(
        sets, hidden_size, steps=steps, metrics=lambda synapses: {"observed": synapses.natural}, show_progress=False,
        key=seed, **told,
    ).history  # fmt: skip
    bounds = history["bound"].values[-1].reshape(-1, starts)
    history = history.isel(set=np.argmax(bounds, axis=1) + starts * np.arange(len(bounds)))
    natural = history["observed"].values  # (step, instance, N, P)
    overlaps = overlap_matrix(natural, planted.fields)
    units, order = np.arange(hidden_size), []
    for index, truth in enumerate(planted.fields):
        match = match_fields(np.where(natural[permute_at, index] >= 0, 1.0, -1.0).T, truth)
        order.append(overlaps[:, index, units, match.order] * match.signs)
    best = np.stack([matched(here, planted.fields) for here in natural])
    return xr.Dataset(
        {
            "crossed": (("step", "instance", "planted", "unit"), overlaps),
            "overlap": (("step", "instance", "unit"), np.stack(order, axis=1)),
            "labelled": (("step", "instance", "unit"), overlaps[..., units, units]),
            "matched": (("step", "instance", "unit"), best),
            **{name: (("step", "instance"), history[name].values) for name in ("divergence", "bound", "unconverged")},
        },
        {"step": history["step"].values},
    )


@eqx.filter_jit
def exact_bound(natural: Array, data: Array, draws: int = 1000) -> Array:
    """The bound (6) of weights (N, P) with ln Z summed over all hidden states, and the same draws of z for all weights.

    Args:
        natural: parameters of the weights.
        data: (M, N).
        draws: of z.

    Returns:
        The bound, in nats.
    """
    synapses, fields = Synapses(natural), drawn(natural.shape[1], draws, jax.random.key(0))
    start = {"visible": jnp.zeros((draws, natural.shape[0])), "hidden": jnp.zeros((draws, natural.shape[1]))}
    moments = e_step(Exact(), synapses, fields, start, jax.random.key(1))
    expected = expected_energy(synapses, data, jnp.ones(len(data)), 13)
    return jnp.asarray(climbed(synapses, expected, moments, jnp.asarray(len(data)), 0.0).bound())


def factorised(fields: np.ndarray) -> np.ndarray:
    r"""How far ln Z of machines with fields (instances, P, N) is from that of their fields one by one.

    $\ln [Z(\xi) / 2^N] - \sum_\mu \ln [Z(\xi^\mu) / 2^N]$ at $\beta = 1$, summed over the hidden states, in double precision.

    >>> factorised(np.array([[[1.0, 1, 1, 1], [1, 1, 1, 1]]])).round(3)
    array([0.244])
    """
    count, size = fields.shape[1:]
    states = np.array(list(product((-1.0, 1.0), repeat=count)))
    heard = np.einsum("hp,ipn->ihn", states, np.asarray(fields, np.float64)) / np.sqrt(size)
    together = logsumexp(np.log(np.cosh(heard)).sum(axis=-1), axis=1)  # of prod 2 cosh: 2^P for the sum over states
    return together - count * np.log(2) - count * size * np.log(np.cosh(1 / np.sqrt(size)))


def best_possible(planted: Planted, hidden_size: int, sweeps: int, key: Array | int) -> np.ndarray:
    """The overlap that the signs of the posterior's means have: on average no estimate has a larger one.

    Args:
        planted: the machines.
        hidden_size: P.
        sweeps: of Monte Carlo.
        key: a random key or a seed.

    Returns:
        Mean overlaps, (instances,).
    """
    sampled = sample_synapses(planted.data, hidden_size, sweeps=sweeps, key=key)
    return matched(np.asarray(sampled.mean), planted.fields).mean(axis=1)
