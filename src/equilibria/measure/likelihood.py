r"""How probable data are: partition functions, likelihoods, and the pseudo-likelihood.

Every number is in nats and comes with how far to trust it. For data on some layers, $\ln p(v) = -F(v)/T - \ln Z$ with F the
free energy of those layers once all others are summed out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators import exact
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.mean_field import MeanField
from equilibria.measure import ais
from equilibria.measure.estimate import Estimate
from equilibria.model.network import Network, State, by_layer, without
from equilibria.model.normalisable import precision, unbounded
from equilibria.model.transforms import site_biases
from equilibria.model.world import Clamp
from equilibria.random import as_key

Method = Literal["exact", "ais", "bethe"]

MOST_STATES = 2**25
_ROWS = 512  # examples that are looked at together


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
    key: Array | int | None = None,
) -> Estimate:
    r"""ln Z of a network, $Z = \sum_s e^{-E(s)/T}$ (an integral over continuous units).

    Methods: "exact" enumerates the smaller side of a bipartite network, up to 2^25 states, or solves a network of
    Gaussian units in closed form; "ais" is annealed importance sampling with `chains` chains and `steps` intermediate
    temperatures, and with `reverse` as many chains back down, started from the weighted ends of the first after
    `burn_in` sweeps; "bethe" is the Bethe approximation by message passing where both layers are two-valued, else
    second-order TAP: one mode, no error bar.

    `data` (the first layer's, or by layer) sets the independent units that annealing starts from to the data's means, which
    makes it much sharper; without it they have the network's own biases. Gaussian units coupled so strongly that the energy
    has no minimum have no law: ln Z is reported as +inf, with a note and a warning.

    >>> import equilibria as eq
    >>> machine = eq.rbm(10, 8, scale=0.5, key=0)
    >>> exact, sampled = log_partition(machine), log_partition(machine, "ais", steps=200, key=1)
    >>> abs(sampled.value - exact.value) < 5 * sampled.error
    True
    >>> log_partition(eq.rbm(2, 2, visible=eq.Gaussian(), hidden=eq.Gaussian(), scale=9.0, key=0)).value
    inf
    """
    check.choice("method", method, ("exact", "ais", "bethe"))
    check.number("temperature", temperature, above=0.0)
    if (reason := unbounded(network)) is not None:
        note = f"{reason}; ln Z is +inf"
        warnings.warn(note, stacklevel=2)
        return Estimate(np.inf, note=note)
    if method == "exact":
        return Estimate(_exact(network, temperature))
    if method == "bethe":
        return _bethe(network, temperature, chains, key)
    if key is None:
        check.refuse("key", None, "a JAX random key: annealing draws random numbers")
    check.count("chains", chains), check.count("steps", steps), check.count("burn_in", burn_in)
    biases = site_biases(network, {} if data is None else by_layer(network, data))
    return ais.log_partition(network, temperature, biases, chains, steps, burn_in if reverse else None, as_key(key))


def log_likelihood(
    network: Network,
    data: Mapping[str, ArrayLike] | ArrayLike,
    method: Method = "exact",
    *,
    temperature: float = 1.0,
    **options,
) -> Estimate:
    r"""The mean over examples of $\ln p(v) = -F(v)/T - \ln Z$, in nats per example.

    `data` is (examples, size) for the first layer, or by layer; options are those of `log_partition`. The error is that
    of ln Z. Hidden layers that are coupled to one another (a deep Boltzmann machine) are summed exactly where that is
    possible.

    >>> import equilibria as eq
    >>> machine = eq.rbm(4, 2, scale=0.0, key=0)
    >>> round(float(log_likelihood(machine, np.ones((3, 4))).value / np.log(2)), 4)
    -4.0
    """
    given = by_layer(network, data)
    log_z = log_partition(network, method, temperature=temperature, **{"data": given, **options})
    value = float(np.mean(unnormalised(network, given, temperature))) - log_z.value
    bracket = None
    if log_z.bracket is not None:
        low, high = log_z.bracket
        bracket = (value + log_z.value - high, value + log_z.value - low)
    return log_z._replace(value=value, bracket=bracket)


def pseudo_likelihood(
    network: Network, data: Mapping[str, ArrayLike] | ArrayLike, *, temperature: float = 1.0
) -> float:
    r"""The mean over examples of $\sum_i \ln p(v_i \mid v_{j \ne i})$, in nats per example; no partition function needed.

    Every conditional probability is exact: the hidden layers are summed out, and the sum is over all neurons of the
    first layer (not, as elsewhere, one drawn at random and multiplied by their number). Two-valued neurons only, and
    hidden layers that are not coupled to one another.

    >>> import equilibria as eq
    >>> round(pseudo_likelihood(eq.rbm(4, 2, scale=0.0, key=0), np.ones((3, 4))), 4)
    -2.7726
    """
    given = by_layer(network, data)
    if list(given) != [network.names[0]]:
        check.refuse("data", f"data for {list(given)}", f"data for {network.names[0]!r} alone")
    unit = network.layers[0].unit
    if not unit.two_valued:
        check.refuse("network", f"{type(unit).__name__} units in {network.names[0]!r}", "Spin or Binary units there")
    if not _summable(network, given):
        check.refuse("network", "hidden layers coupled to one another", "hidden layers that can be summed out")
    rows = np.asarray(given[network.names[0]])
    total = sum(
        float(jnp.sum(_conditionals(network, jnp.asarray(part, float), jnp.asarray(temperature, float))))
        for part in np.array_split(rows, -(-len(rows) // _ROWS))
    )
    return total / len(rows)


@eqx.filter_jit
def _conditionals(network: Network, rows: Array, temperature: Array) -> Array:
    """The sum over neurons of ln p(v_i | all others), for each row."""
    name = network.names[0]
    hidden = [other for other in network.names if other != name]
    low, high = network.layers[0].unit.range
    rest = without(network, hidden)
    units = {other: network.layer(other).unit.heated(temperature) for other in hidden}
    fields = {other: network.field({name: rows}, other) for other in hidden}

    def energy(state, fields):
        cumulants = (jnp.sum(units[other].cumulant(fields[other] / temperature), axis=-1) for other in hidden)
        return rest.energy({name: state}) / temperature - sum(cumulants, start=jnp.zeros(()))

    here = energy(rows, fields)

    def add(neuron, total):
        change = low + high - 2 * rows[:, neuron]
        alone = {name: jax.nn.one_hot(neuron, rows.shape[1])}
        moved = {  # the fields are linear in the neuron: no product with the whole matrix
            other: fields[other] + change[:, None] * (network.field(alone, other) - network.layer(other).bias)
            for other in hidden
        }
        return total - jax.nn.softplus(here - energy(rows.at[:, neuron].add(change), moved))

    return jax.lax.fori_loop(0, rows.shape[1], add, jnp.zeros(len(rows)))


def unnormalised(network: Network, data: Mapping[str, ArrayLike], temperature: float = 1.0) -> np.ndarray:
    """-F(v)/T of each example: its log-probability before ln Z is taken away.

    >>> import equilibria as eq
    >>> unnormalised(eq.rbm(4, 2, scale=0.0, key=0), {"visible": np.ones((1, 4))}).round(4)
    array([1.3863], dtype=float32)
    """
    examples = len(np.asarray(next(iter(data.values()))))
    parts = np.array_split(np.arange(examples), -(-examples // _ROWS))
    measure = _summed_out if _summable(network, data) else _enumerated_out
    heat = jnp.asarray(temperature, float)
    rows = ({name: jnp.asarray(np.asarray(values)[part], float) for name, values in data.items()} for part in parts)
    return np.concatenate([np.asarray(measure(network, part, heat)) for part in rows])


def _summable(network: Network, data: Mapping[str, ArrayLike]) -> bool:
    """Whether the layers without data are independent of one another given those with."""
    hidden = {name for name in network.names if name not in data}
    return not any(set(coupling.ends) <= hidden for coupling in network.couplings)


@eqx.filter_jit
def _summed_out(network: Network, data: State, temperature: Array) -> Array:
    hidden = [name for name in network.names if name not in data]
    return -network.free_energy(data, hidden, temperature) / temperature


@eqx.filter_jit
def _enumerated_out(network: Network, data: State, temperature: Array) -> Array:
    clamps = [Clamp(name, values) for name, values in data.items()]
    return exact.log_partition_function(conditioned(network, clamps, temperature))


def label_probabilities(
    network: Network, data: Mapping[str, ArrayLike], layer: str | None = None, *, temperature: float = 1.0
) -> np.ndarray:
    r"""p(label | data), (examples, classes), of a `layer` of class units (the last one by default), exactly.

    $$ p(k \mid x) \propto e^{-F(x, k)/T} $$

    with the hidden layers summed out for each class in turn (Larochelle and Bengio 2008). Class units are OneHot; or
    Binary or Gaussian, in which case the law is that given that one of them is 1 and all others are 0.

    >>> import equilibria as eq
    >>> machine = eq.layered((4, 3, 2), units=(eq.Binary(), eq.Binary(), eq.OneHot()), gain=0.0, key=0)
    >>> label_probabilities(machine, {"input": np.ones((1, 4))})
    array([[0.5, 0.5]], dtype=float32)
    """
    name = network.names[-1] if layer is None else layer
    labels = network.layer(name)
    classes = np.eye(labels.size, dtype=np.float32)
    try:
        labels.unit.check("layer", classes)
    except ValueError:
        kind = f"{type(labels.unit).__name__} units in {name!r}"
        check.refuse("layer", kind, "class units that can be 0 and 1, such as OneHot, Binary or Gaussian")
    given = by_layer(network, data)
    examples = len(np.asarray(next(iter(given.values()))))
    logs = [
        unnormalised(network, {**given, name: np.broadcast_to(row, (examples, labels.size))}, temperature)
        for row in classes
    ]
    return np.asarray(jax.nn.softmax(jnp.stack(logs, axis=1), axis=1))


def _exact(network: Network, temperature: float) -> float:
    if all(layer.unit.normal_stiffness is not None for layer in network.layers):
        return _gaussian(network, temperature)
    return float(_enumerated(conditioned(network, (), temperature)))


_enumerated = eqx.filter_jit(lambda whole: exact.log_partition_function(whole, MOST_STATES))


def _gaussian(network: Network, temperature: float) -> float:
    matrix, bias = precision(network)
    log_volume = len(bias) * np.log(2 * np.pi * temperature) - np.linalg.slogdet(matrix)[1]
    return float(log_volume + bias @ np.linalg.solve(matrix, bias) / temperature) / 2


def _bethe(network: Network, temperature: float, chains: int, key: Array | int | None) -> Estimate:
    """The best of several starts: the mode with the lowest free energy."""
    joint = any(layer.unit.joint for layer in network.layers)
    two_valued = all(layer.unit.two_valued for layer in network.layers)
    pair = len(network.layers) == 2 and not network.lateral
    how: Equilibrator = Cavity(1000, damping=0.2) if two_valued and pair else MeanField(1000, order=1 if joint else 2)
    starts: dict[str, Any] = {} if key is None else {"chains": min(chains, 8), "key": key}
    rest = equilibrate(network, how, temperature=temperature, **starts)
    values = np.atleast_1d(_known(how, conditioned(network, (), temperature), rest.state))
    settled = np.atleast_1d(np.asarray(rest.converged))
    best = values[settled].max() if settled.any() else values.max()
    name = type(how).__name__
    note = f"{name}: one mode of {settled.sum()} starts that settled" if settled.any() else f"{name} did not settle"
    return Estimate(float(best), np.nan, note=note)


_known = eqx.filter_jit(lambda how, system, state: how.log_partition(system, state))
