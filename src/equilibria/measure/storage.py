"""How much a network stores: its recall against the load, and the basins of attraction of its memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.data.patterns import corrupt, random_patterns
from equilibria.equilibrators.driver import followed
from equilibria.equilibrators.prepare import prepared
from equilibria.equilibrators.room import room
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.retrieval import RETRIEVED
from equilibria.model.architectures import as_spins, hopfield
from equilibria.model.network import Network, State
from equilibria.random import as_key, split

Build: TypeAlias = Callable[[Array, Array], Network]


def recall(
    network: Network,
    targets: ArrayLike,
    cues: ArrayLike | None = None,
    *,
    temperature: float = 0.0,
    sweeps: int = 40,
    order: Literal["random", "parallel"] = "random",
    key: Array | int,
) -> Array:
    r"""The overlap $m = \frac1N \sum_i \xi_i \langle\sigma_i\rangle$ of each chain with its own target, averaged over time.

    Args:
        network: of spins.
        targets: (chains, N) of -1 and +1, what each chain is compared with.
        cues: (chains, N), where each chain starts; at its target by default.
        temperature: of the neurons.
        sweeps: how many; the average is over the second half of them, at temperature 0 it is the state after the last.
        order: "random", one neuron after another, or "parallel".
        key: a random key or a seed.

    Returns:
        (chains,).

    >>> import equilibria as eq
    >>> patterns = eq.data.random_patterns(2, 400, key=eq.key(0))
    >>> recall(eq.hopfield(patterns), patterns, temperature=0.3, key=1).round(1)  # Curie and Weiss: 0.9975
    Array([1., 1.], dtype=float32)
    """
    wanted: Any = as_spins("targets", targets, ("chains", "neurons"))
    start = wanted if cues is None else cues
    how, system, state, run_key = prepared(network, Sweeps(sweeps, order=order), start, temperature, (), None, key)
    traced = any(check.concrete(leaf) is None for leaf in jax.tree.leaves((system, state, wanted)))
    found = None if traced else room(how, system, state)
    if found is not None:
        system, state = found.system, found.state
    shown = array(wanted if found is None else found.fill(wanted))
    observe = eqx.Partial(_own_overlap, shown, network.names[0], array(wanted.shape[-1]))
    _, overlaps = followed(how, system, state, run_key, observe, sweeps)
    if traced:
        return overlaps[-1] if temperature == 0 else jnp.mean(overlaps[1 + sweeps // 2 :], axis=0)
    rows = np.asarray(overlaps)[:, : len(wanted)]
    return array(rows[-1] if temperature == 0 else np.mean(rows[1 + sweeps // 2 :], axis=0))


def _own_overlap(targets: Array, layer: str, size: Array, state: State) -> Array:
    return jnp.sum(state[layer] * targets, axis=-1) / size


def recall_at_load(
    size: int,
    loads: float | Sequence[float],
    *,
    sleep: float = 0.0,
    temperature: float = 0.0,
    chains: int = 100,
    sweeps: int = 40,
    build: Build | None = None,
    key: Array | int,
) -> xr.Dataset:
    r"""How well random patterns are recalled from themselves, against the load $\alpha = K/N$.

    Compare with `theory.hopfield(loads, temperature, sleep).m`.

    Args:
        size: the number of neurons, N.
        loads: one or several; for each of them a network of K = round(size load) patterns is built.
        sleep: for how long the networks have slept.
        temperature: of the neurons.
        chains: how many patterns are started from; all, if there are fewer.
        sweeps: of each recall.
        build: makes a network of (patterns, key), in place of `hopfield` with `sleep`.
        key: a random key or a seed.

    Returns:
        By `load`: `overlap`, its mean over patterns, `error`, the standard error of that, and `retrieved`, the fraction of
        patterns with an overlap above 0.7.

    Raises:
        ValueError: if a load is not above 0, or another argument is out of its range.

    >>> recall_at_load(200, [0.05, 0.5], key=0).retrieved.values.tolist()
    [1.0, 0.0]
    """
    given = np.atleast_1d(check.number("loads", np.asarray(loads, float), above=0.0))
    if given.ndim > 1 or not given.size:
        check.refuse("loads", f"shape {given.shape}", "one number, or several in a row")
    counts = [max(1, round(check.count("size", size) * float(load))) for load in given]
    rows = []
    for count, here in zip(counts, split(as_key(key), len(counts)), strict=True):
        pattern_key, build_key, walk_key = split(here, 3)
        patterns = random_patterns(count, size, key=pattern_key)
        network = hopfield(patterns, sleep=sleep) if build is None else build(patterns, build_key)
        # Each load would have a compiled loop of its own if the factors and the chains did not have one shape.
        network = padded(network, max(counts))
        shown = min(chains, count)
        targets = np.asarray(patterns)[np.arange(chains) % shown]
        found = recall(network, targets, temperature=temperature, sweeps=sweeps, key=walk_key)
        rows.append(_summary(np.asarray(found)[:shown]))
    columns = {name: ("load", [row[name] for row in rows]) for name in rows[0]}
    attributes = {"size": size, "sleep": sleep, "temperature": temperature}
    return xr.Dataset(columns, {"load": np.array(counts) / size}, attributes)


def basin_of_attraction(
    network: Network,
    patterns: ArrayLike,
    overlaps: float | Sequence[float],
    *,
    temperature: float = 0.0,
    sweeps: int = 40,
    order: Literal["random", "parallel"] = "random",
    key: Array | int,
) -> xr.Dataset:
    """How well a network recalls its patterns from damaged ones.

    Each pattern is shown with a fraction (1 - overlap)/2 of its neurons flipped. The basin ends where `retrieved` falls
    from 1 to 0.

    Args:
        network: of spins.
        patterns: (K, N), what is to be recalled.
        overlaps: of the cues with their patterns, from 0 to 1, one or several.
        temperature: of the neurons.
        sweeps: of each recall.
        order: "random", one neuron after another, or "parallel".
        key: a random key or a seed.

    Returns:
        By `cue`, the overlap at the start: `overlap`, `error` and `retrieved`, as in `recall_at_load`.

    Raises:
        ValueError: if an overlap is not between 0 and 1, or the patterns do not fit the network.

    >>> import equilibria as eq
    >>> patterns = eq.data.random_patterns(5, 200, key=eq.key(0))
    >>> basin_of_attraction(eq.hopfield(patterns), patterns, [0.0, 0.8], key=1).retrieved.values.round(1).tolist()
    [0.0, 1.0]
    """
    patterns = as_spins("patterns", patterns, ("patterns", "neurons"))
    wanted_ones = np.atleast_1d(check.number("overlaps", np.asarray(overlaps, float), least=0, most=1)).tolist()
    rows = []
    for wanted, here in zip(wanted_ones, split(as_key(key), len(wanted_ones)), strict=True):
        cue_key, walk_key = split(here)
        cues = corrupt(patterns, flips=(1 - wanted) / 2, key=cue_key)
        found = recall(network, patterns, cues, temperature=temperature, sweeps=sweeps, order=order, key=walk_key)
        rows.append(_summary(found))
    columns = {name: ("cue", [row[name] for row in rows]) for name in rows[0]}
    return xr.Dataset(columns, {"cue": wanted_ones}, {"temperature": temperature})


def padded(network: Network, rows: int) -> Network:
    """The same network with its factors filled up with zeros.

    Args:
        network: whose couplings have factors.
        rows: at least so many patterns.

    Returns:
        A network with the same couplings, in arrays of another shape.

    >>> padded(hopfield([[1, -1]]), 3).couplings[0].factors.shape
    (3, 2)
    """
    return Network(network.layers, [coupling.padded(rows) for coupling in network.couplings])


def _summary(overlaps: ArrayLike) -> dict[str, float]:
    values = np.asarray(overlaps, np.float64)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return {"overlap": values.mean(), "error": error, "retrieved": (values > RETRIEVED).mean()}
