"""What the figures share: planted machines, the paper's algorithm and ours on several of them at once, overlaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array

from equilibria.data import planted_data, planted_receptive_fields
from equilibria.measure.matching import match_fields
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.posterior import sample_synapses

STARTS = 4  # of "best of starts", of which the one with the highest bound counts
RATE = 0.01  # of the paper's ascent, which it does not give: of 0.001 to 0.03 that of the highest bound, on other realisations
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


def options(learner: str) -> dict[str, Any]:
    """What `learn_synapses` takes for "paper", "exact", "response" or "best of starts"."""
    if learner == "paper":
        return {"how": "paper", "optimiser": ascent(RATE)}
    return {"how": "response" if learner == "response" else "exact"}


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
    """Learning with the receptive fields put in another order at step `permute_at`, for all instances at once.

    Args:
        planted: the machines.
        learner: "paper", "exact", "response" or "best of starts".
        steps: in all.
        permute_at: after how many of them the fields change places.
        seed: of the starts.

    Returns:
        Along the steps, for each instance: `overlap` between each planted field and the unit that had found it just before
        the permutation, `labelled` between each and the unit of the same number, `matched` between each and the unit that is
        closest now, the KL divergence and the bound.
    """
    hidden_size, starts = planted.fields.shape[1], STARTS if learner == "best of starts" else 1
    told: dict[str, Any] = {"metrics": lambda synapses: {"observed": synapses.natural}, "show_progress": False}
    told |= options(learner)
    sets = [one for one in planted.data for _ in range(starts)]
    before = learn_synapses(sets, hidden_size, steps=permute_at, key=seed, **told)
    rolled = Synapses(jnp.roll(before.synapses.natural, 1, axis=-1), before.synapses.bias, before.synapses.temperature)
    after = learn_synapses(sets, hidden_size, steps=steps - permute_at, start=rolled, key=seed + 1, **told)
    history = xr.concat(
        [before.history.isel(step=slice(0, -1)), after.history.assign_coords(step=after.history.step + permute_at)],
        "step",
    )
    bounds = history["bound"].values[-1].reshape(-1, starts)
    history = history.isel(set=np.argmax(bounds, axis=1) + starts * np.arange(len(bounds)))
    natural = history["observed"].values  # (step, instance, N, P)
    overlaps = overlap_matrix(natural, planted.fields)
    units, order = np.arange(hidden_size), []
    for index, truth in enumerate(planted.fields):
        match = match_fields(np.where(natural[permute_at - 1, index] >= 0, 1.0, -1.0).T, truth)
        order.append(overlaps[:, index, units, match.order] * match.signs)
    best = np.stack([matched(here, planted.fields) for here in natural])
    return xr.Dataset(
        {
            "overlap": (("step", "instance", "unit"), np.stack(order, axis=1)),
            "labelled": (("step", "instance", "unit"), overlaps[..., units, units]),
            "matched": (("step", "instance", "unit"), best),
            "divergence": (("step", "instance"), history["divergence"].values),
            "bound": (("step", "instance"), history["bound"].values),
        },
        {"step": history["step"].values},
    )


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
