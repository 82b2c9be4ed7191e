r"""How probable data are: partition functions, likelihoods, and the pseudo-likelihood.

Every number is in nats and comes with how far to trust it. For data on some layers, $\ln p(v) = -F(v)/T - \ln Z$ with F the
free energy of those layers once all others are summed out.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.equilibrators import exact
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.message import MeanField
from equilibria.equilibrators.setting import setting
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure import annealing
from equilibria.network import Network, State, without
from equilibria.random import as_key
from equilibria.stability import precision, unbounded
from equilibria.units import Binary, Gaussian, OneHot
from equilibria.world import Clamp

Method = Literal["exact", "ais", "bethe"]

MOST_STATES = 2**25
_ROWS = 512  # examples that are looked at together


class Estimate(NamedTuple):
    """A number with how far to trust it.

    `error` is one standard error, NaN where there is no telling; `bracket` holds values that are low and high on average
    (annealing up and down); `effective` is the effective number of chains (Kish); `note` says what went wrong, if anything.
    """

    value: float
    error: float = 0.0
    bracket: tuple[float, float] | None = None
    effective: float | None = None
    note: str = ""

    def __float__(self) -> float:
        return self.value


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
    biases = _base(network, {} if data is None else _by_layer(network, data))
    return _annealed(network, temperature, biases, chains, steps, burn_in if reverse else None, as_key(key))


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
    by_layer = _by_layer(network, data)
    log_z = log_partition(network, method, temperature=temperature, **{"data": by_layer, **options})
    value = float(np.mean(unnormalised(network, by_layer, temperature))) - log_z.value
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
    by_layer = _by_layer(network, data)
    if list(by_layer) != [network.names[0]]:
        check.refuse("data", f"data for {list(by_layer)}", f"data for {network.names[0]!r} alone")
    levels, unit = network.layers[0].unit.levels, network.layers[0].unit
    if levels is None or len(levels) != 2 or isinstance(unit, OneHot):
        check.refuse("network", f"{type(unit).__name__} units in {network.names[0]!r}", "Spin or Binary units there")
    if not _summable(network, by_layer):
        check.refuse("network", "hidden layers coupled to one another", "hidden layers that can be summed out")
    rows = np.asarray(by_layer[network.names[0]])
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
    low, high = min(network.layers[0].unit.levels), max(network.layers[0].unit.levels)

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
    return exact.log_partition_function(setting(network, clamps, temperature))


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
    if not isinstance(labels.unit, OneHot | Binary | Gaussian):
        check.refuse(
            "layer", f"{type(labels.unit).__name__} units in {name!r}", "OneHot, Binary or Gaussian class units"
        )
    by_layer = _by_layer(network, data)
    examples = len(next(iter(by_layer.values())))
    logs = [
        unnormalised(network, {**by_layer, name: np.broadcast_to(row, (examples, labels.size))}, temperature)
        for row in np.eye(labels.size, dtype=np.float32)
    ]
    return np.asarray(jax.nn.softmax(jnp.stack(logs, axis=1), axis=1))


def _by_layer(
    network: Network, data: Mapping[str, ArrayLike] | ArrayLike, between: bool = False
) -> dict[str, np.ndarray]:
    """Checked data by layer."""
    given = dict(data) if isinstance(data, Mapping) else {network.names[0]: data}
    if not given:
        check.refuse("data", "no arrays", "at least one layer's data")
    for name, values in given.items():
        network.check_values(f"data[{name!r}]", name, values, between=between)
        if np.ndim(values) != 2 or len(np.asarray(values)) == 0:
            check.refuse(f"data[{name!r}]", f"shape {np.shape(values)}", "shape (examples, size), not empty")
    return {name: np.asarray(values) for name, values in given.items()}


def _exact(network: Network, temperature: float) -> float:
    if all(isinstance(layer.unit, Gaussian) for layer in network.layers):
        return _gaussian(network, temperature)
    return float(_enumerated(setting(network, (), temperature)))


_enumerated = eqx.filter_jit(lambda whole: exact.log_partition_function(whole, MOST_STATES))


def _gaussian(network: Network, temperature: float) -> float:
    matrix, bias = precision(network)
    log_volume = len(bias) * np.log(2 * np.pi * temperature) - np.linalg.slogdet(matrix)[1]
    return float(log_volume + bias @ np.linalg.solve(matrix, bias) / temperature) / 2


def _bethe(network: Network, temperature: float, chains: int, key: Array | int | None) -> Estimate:
    """The best of several starts: the mode with the lowest free energy."""
    whole = setting(network, (), temperature)
    labels = any(isinstance(layer.unit, OneHot) for layer in network.layers)
    two_valued = all(len(layer.unit.levels or ()) == 2 for layer in network.layers) and not labels
    pair = len(network.layers) == 2 and not network.lateral
    how: Any = (
        Cavity(jnp.asarray(1000), damping=jnp.asarray(0.2))
        if two_valued and pair
        else MeanField(1000, order=1 if labels else 2)
    )
    starts: dict[str, Any] = {} if key is None else {"chains": min(chains, 8), "key": key}
    rest = equilibrate(network, how, temperature=temperature, **starts)
    values = np.atleast_1d(-_free_energy(how, whole, rest.state) / temperature)
    settled = np.atleast_1d(np.asarray(rest.converged))
    best = values[settled].max() if settled.any() else values.max()
    name = type(how).__name__
    note = f"{name}: one mode of {settled.sum()} starts that settled" if settled.any() else f"{name} did not settle"
    return Estimate(float(best), np.nan, note=note)


_free_energy = eqx.filter_jit(lambda how, whole, state: how.free_energy(whole, state))


def fitted_biases(network: Network, data: Mapping[str, ArrayLike] | ArrayLike, *, between: bool = False) -> Network:
    """The network with the biases of the layers that data are given for set to reproduce the data's means by themselves.

    The means are those of the data and one further example at the unit's mean in zero field, so that constant features have
    finite biases. With `between` data may lie between a unit's values.

    >>> import equilibria as eq
    >>> fitted_biases(eq.rbm(2, 1, key=0), np.array([[1, 0], [1, 1], [1, 0]])).layers[0].bias
    Array([ 1.9459..., -0.5108...], dtype=float32)
    """
    biases = _base(network, _by_layer(network, data, between))
    return eqx.tree_at(lambda net: [layer.bias for layer in net.layers], network, [biases[n] for n in network.names])


def _base(network: Network, data: Mapping[str, np.ndarray]) -> dict[str, Array]:
    """A bias for every neuron: that of the data's mean where there are data, else its own."""
    biases = {layer.name: layer.bias for layer in network.layers}
    for name, values in data.items():
        unit, size = network.layer(name).unit, network.layer(name).size
        rest = np.asarray(unit.mean(jnp.zeros(size)))
        biases[name] = unit.inverse((values.sum(0, dtype=np.float64) + rest) / (len(values) + 1)).astype(float)
    return biases


def _annealed(network, temperature, biases, chains, steps, burn_in, key) -> Estimate:
    heat = jnp.asarray(temperature, float)
    betas = jnp.asarray(annealing.schedule(steps))
    draw_key, up_key, choose_key, burn_key, down_key = jax.random.split(key, 5)
    base = float(annealing.log_partition_without_couplings(network, biases, heat))
    start = annealing.drawn_without_couplings(network, biases, heat, chains, draw_key)
    up = annealing.anneal(network, biases, heat, betas, start, up_key)
    low, error, effective = _log_mean(up.log_weights)
    if burn_in is None:
        return Estimate(base + low, error, None, effective, _few(effective))
    chosen = jax.random.categorical(choose_key, up.log_weights, shape=(chains,))
    state = {name: layer[chosen] for name, layer in up.state.items()}
    state = equilibrate(network, Sweeps(burn_in), state, temperature=temperature, key=burn_key).state
    down = annealing.anneal(network, biases, heat, betas[::-1], state, down_key)
    high = -_log_mean(down.log_weights)[0]
    return Estimate(base + low, error, (base + low, base + high), effective, _few(effective))


def _few(effective: float) -> str:
    return "" if effective >= 5 else f"only {effective:.1f} effective chains: use more steps, or data for the base"


def _log_mean(log_weights: Array) -> tuple[float, float, float]:
    """ln of the mean of weights, its standard error to first order, and their effective number."""
    logs = np.asarray(log_weights, np.float64)
    weights = np.exp(logs - logs.max())
    value = logs.max() + np.log(weights.mean())
    error = weights.std(ddof=1) / weights.mean() / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return float(value), float(error), float(weights.sum() ** 2 / (weights**2).sum())
