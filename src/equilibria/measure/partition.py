"""Partition functions: exact sums, annealing, the Bethe approximation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import equinox as eqx
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators import exact
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.conditioned import Conditioned, outlined
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.ladder import check_ladder
from equilibria.equilibrators.mean_field import MeanField
from equilibria.measure import ais
from equilibria.measure.estimate import Estimate
from equilibria.model.network import Network, State, by_layer
from equilibria.model.normalisable import precision, unbounded
from equilibria.model.transforms import site_biases
from equilibria.random import as_key

Method: TypeAlias = Literal["exact", "ais", "bethe"]

MOST_STATES = 2**25


def log_partition(
    network: Network,
    method: Method = "exact",
    *,
    temperature: float = 1.0,
    data: Mapping[str, ArrayLike] | ArrayLike | None = None,
    chains: int = 100,
    steps: int = 14_500,
    burn_in: int = 1000,
    reverse: bool = True,
    ladder: Sequence[Network] = (),
    key: Array | int | None = None,
) -> Estimate:
    r"""ln Z of a network, $Z = \sum_s e^{-E(s)/T}$ (an integral over continuous units).

    Gaussian units coupled so strongly that the energy has no minimum have no law: ln Z is then +inf, with a note and a
    warning.

    Args:
        network: any network.
        method: "exact" enumerates the smaller side of a bipartite network, up to 2^25 states, or solves a network of
            Gaussian units in closed form; "ais" is annealed importance sampling; "bethe" is the Bethe approximation by
            message passing where both layers are two-valued, else second-order TAP: one mode, no error bar.
        temperature: T.
        data: the first layer's, or by layer. Annealing then starts from independent units with the data's means, which
            makes it much sharper; without data they have the network's own biases.
        chains: of the annealing; for "bethe" with a key, up to eight of them are its starts.
        steps: intermediate temperatures of the annealing.
        burn_in: sweeps of the chains that anneal back down before they do.
        reverse: anneal as many chains back down, from the weighted ends of the first, for an upper bound.
        ladder: networks of the same shape and units that the annealing passes on its way, such as `Trajectory(folder)`; the
            steps are shared out between its parts.
        key: a random key or a seed, needed by "ais".

    Returns:
        ln Z in nats with its error; with "ais" and `reverse` the bracket, with "bethe" a note on what settled.

    Raises:
        ValueError: if there are too many states to enumerate, an argument is out of its range, or numbers overflow.

    >>> import equilibria as eq
    >>> machine = eq.rbm(10, 8, scale=0.5, key=0)
    >>> exact, sampled = log_partition(machine), log_partition(machine, "ais", steps=200, key=1)
    >>> abs(sampled.value - exact.value) < 5 * sampled.error
    True
    >>> log_partition(eq.rbm(2, 2, visible=eq.Gaussian(), hidden=eq.Gaussian(), scale=9.0, key=0)).value
    inf
    """
    check.network("network", network)
    check.choice("method", method, ("exact", "ais", "bethe"))
    check.temperature(temperature)
    if (reason := unbounded(network)) is not None:
        note = f"{reason}; ln Z is +inf"
        warnings.warn(note, stacklevel=2)
        return Estimate(np.inf, note=note)
    if method == "exact":
        return known(Estimate(_exact(network, temperature)), "ln Z")
    if method == "bethe":
        return known(_bethe(network, temperature, chains, key), "ln Z")
    if key is None:
        check.refuse("key", None, "a JAX random key: annealing draws random numbers")
    check.count("chains", chains), check.count("steps", steps), check.count("burn_in", burn_in)
    biases = site_biases(network, {} if data is None else by_layer(network, data, probabilities=True, missing=True))
    burn_in_down = burn_in if reverse else None
    rungs = _alike(network, check_ladder(network, ladder)) if len(ladder) else ()
    found = ais.log_partition(network, temperature, biases, chains, steps, burn_in_down, as_key(key), rungs)
    return known(found, "ln Z")


def _alike(network: Network, rungs: Sequence[Network]) -> Sequence[Network]:
    """The rungs, if their units are the network's own: the way between two rungs mixes biases and couplings only."""
    for place, rung in enumerate(rungs):
        for layer, own in zip(rung.layers, network.layers, strict=True):
            if not eqx.tree_equal(layer.unit, own.unit):
                given = f"other {type(own.unit).__name__} units in {own.name!r} of the network in place {place}"
                check.refuse("ladder", given, "networks with the units of the one sampled; `Tempered` takes others too")
    return rungs


def known(estimate: Estimate, what: str) -> Estimate:
    """An estimate whose value is a number.

    Args:
        estimate: what was found.
        what: its name, for the error.

    Returns:
        The same.

    Raises:
        ValueError: if single precision has no such number.

    >>> known(Estimate(np.nan), "ln Z")
    Traceback (most recent call last):
    ValueError: network: got ln Z = nan, which is no number; allowed: energies over the temperature that single precision holds
    """
    if not np.isfinite(estimate.value):
        given = f"{what} = {estimate.value}, which is no number"
        check.refuse("network", given, "energies over the temperature that single precision holds")
    return estimate


def summable(network: Network, most: int = MOST_STATES) -> bool:
    """Whether ln Z is known exactly: in closed form, or as a sum over not too many states.

    Args:
        network: any network.
        most: how many states the sum may have.

    Returns:
        Whether `log_partition` with the method "exact" has so little to do.

    >>> import equilibria as eq
    >>> summable(eq.rbm(3, 40, key=0)), summable(eq.rbm(3, 40, visible=eq.Gaussian(), key=0))
    (True, False)
    """
    if _normal(network):
        return True
    try:
        exact.plan(outlined(network, (), 1.0), most)
    except ValueError:
        return False
    return True


def _normal(network: Network) -> bool:
    return all(layer.unit.normal_stiffness is not None for layer in network.layers)


def _exact(network: Network, temperature: float) -> float:
    if _normal(network):
        return _gaussian(network, temperature)
    return float(_enumerated(outlined(network, (), temperature)))


@eqx.filter_jit
def _enumerated(whole: Conditioned) -> Array:
    return exact.log_partition_function(whole.completed(), MOST_STATES)


def _gaussian(network: Network, temperature: float) -> float:
    matrix, bias = precision(network)
    log_volume = len(bias) * np.log(2 * np.pi * temperature) - np.linalg.slogdet(matrix)[1]
    return float(log_volume + bias @ np.linalg.solve(matrix, bias) / temperature) / 2


def _bethe(network: Network, temperature: float, chains: int, key: Array | int | None) -> Estimate:
    """The best of several starts: the mode with the lowest free energy."""
    joint = any(layer.unit.joint for layer in network.layers)
    two_valued = all(layer.unit.two_valued for layer in network.layers)
    pair = len(network.layers) == 2 and not network.lateral
    how: Cavity | MeanField = (
        Cavity(1000, damping=0.2) if two_valued and pair else MeanField(1000, order=1 if joint else 2)
    )
    starts: dict[str, Any] = {} if key is None else {"chains": min(chains, 8), "key": key}
    rest = equilibrate(network, how, temperature=temperature, **starts)
    values = np.atleast_1d(_known(how, outlined(network, (), temperature), rest.state))
    settled = np.atleast_1d(np.asarray(rest.converged)) & np.isfinite(values)
    best = values[settled].max() if settled.any() else np.max(values, initial=-np.inf, where=np.isfinite(values))
    name = type(how).__name__
    note = f"{name}: one mode of {settled.sum()} starts that settled" if settled.any() else f"{name} did not settle"
    return Estimate(float(best), np.nan, note=note)


@eqx.filter_jit
def _known(how: Cavity | MeanField, system: Conditioned, state: State) -> Array:
    return how.log_partition(system.completed(), state)
