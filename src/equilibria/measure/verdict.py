"""Whether a machine that has learned knows more than its neurons' means, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.diagnose import diagnose
from equilibria.measure.estimate import Estimate
from equilibria.measure.likelihood import unnormalised
from equilibria.model.network import Network, by_layer
from equilibria.model.transforms import site_biases
from equilibria.model.units import Unit

_ROWS = 2000  # examples that are looked at, spread evenly
# Of chains that are to tell whether a machine mixes, and the R-hat above which they say that it does not.
_SWEEPS, _UNMIXED = 400, 1.1
_CHAINS = 10  # an estimate that fewer effective chains carry is not to be trusted


class Verdict(NamedTuple):
    """What a machine's log-likelihood is beside that of independent neurons.

    Attributes:
        machine: nats per example, with its error.
        independent: nats per example of neurons that have the data's means and no couplings.
        complaints: what is wrong, a sentence each; none where all is well.
    """

    machine: Estimate
    independent: float
    complaints: tuple[str, ...]


def independent_sites(network: Network, data: Mapping[str, ArrayLike] | ArrayLike) -> float:
    """The log-likelihood of independent neurons with the data's means, in nats per example.

    Args:
        network: whose units are meant.
        data: as in `log_likelihood`, or between a unit's values.

    Returns:
        The mean over examples.

    >>> import equilibria as eq
    >>> round(independent_sites(eq.rbm(4, 2, key=0), np.eye(4)), 2)  # each neuron is 1 in a quarter of them
    -2.27
    """
    given = by_layer(network, data, probabilities=True)
    biases = site_biases(network, given)
    total = 0.0
    for name, values in given.items():
        total += float(_uncoupled(network.layer(name).unit, biases[name], np.asarray(values, float)))
    return total


@eqx.filter_jit
def _uncoupled(unit: Unit, bias: Array, values: ArrayLike) -> Array:
    """The mean log-probability of rows of neurons that have biases alone."""
    rows = jnp.asarray(values)
    weights = rows @ bias - jnp.sum(unit.self_energy(rows), axis=-1)
    return jnp.mean(weights) - jnp.sum(unit.cumulant(bias))


def verdict(
    network: Network, data: Mapping[str, ArrayLike] | ArrayLike, log_z: Estimate, *, key: Array | int | None = None
) -> Verdict:
    """Compare a machine with independent neurons on data, and find out whether its chains mix.

    Annealing finds ln Z too small if anything, and so a likelihood that is too large: a machine that is worse here is worse.

    Args:
        network: with couplings that have learned.
        data: as in `log_likelihood`, or between a unit's values; of more than 2,000 examples, as many spread evenly.
        log_z: ln Z of the network.
        key: a random key or a seed, for chains that tell whether they mix (`unmixed`); None lets none run.

    Returns:
        Both likelihoods, and what is wrong.

    >>> import equilibria as eq
    >>> wild = eq.rbm(4, 2, scale=9.0, key=0)
    >>> print(verdict(wild, np.eye(4), eq.log_partition(wild)).complaints[0])
    worse than independent neurons: ... nats per example, theirs -2.27; lower the learning rate, or use more chains
    """
    given = by_layer(network, data, probabilities=True)
    few = {name: np.asarray(values[:: -(-len(values) // _ROWS)]) for name, values in given.items()}  # type: ignore[index, arg-type]
    value = float(np.mean(unnormalised(network, few))) - log_z.value
    alone = independent_sites(network, few)
    complaints = []
    if not value >= alone - 3 * np.nan_to_num(log_z.error) - 1e-3 * abs(alone):
        complaints.append(
            f"worse than independent neurons: {value:.2f} nats per example, theirs {alone:.2f}; "
            "lower the learning rate, or use more chains"
        )
    if log_z.effective is not None and log_z.effective < _CHAINS:
        complaints.append(
            f"only {log_z.effective:.1f} effective chains carry the estimate of ln Z: "
            "the log-likelihood may be several nats lower than it says"
        )
    if key is not None and (complaint := unmixed(network, few, key=key)) is not None:
        complaints.append(complaint)
    return Verdict(Estimate(value, log_z.error, None, log_z.effective, log_z.note), alone, tuple(complaints))


def unmixed(network: Network, data: Mapping[str, ArrayLike] | ArrayLike, *, key: Array | int) -> str | None:
    """Whether short chains from noise and from data tell different stories of a machine; it costs 16,000 sweeps of a chain.

    Args:
        network: what has learned.
        data: as in `diagnose`.
        key: a random key or a seed.

    Returns:
        A sentence where R-hat of 20 chains of each kind over 400 sweeps is above 1.1; else None.

    >>> import equilibria as eq
    >>> print(unmixed(eq.rbm(6, 3, key=0), np.eye(6), key=1))
    None
    """
    found = diagnose(network, data, how=Sweeps(_SWEEPS), chains=20, draws=100, show_progress=False, key=key)
    if found.r_hat < _UNMIXED:
        return None
    told = found.verdict.partition(";")[0]
    return f"{told} after {_SWEEPS} sweeps; draws need a ladder (Tempered) or more sweeps, and training a recipe that mixes"
