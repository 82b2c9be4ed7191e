r"""How probable data are: likelihoods, the pseudo-likelihood, and the probabilities of labels.

Every number is in nats and comes with how far to trust it. For data on some layers, $\ln p(v) = -F(v)/T - \ln Z$ with F the
free energy of those layers once all others are summed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy.special import softmax

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators import exact
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.missing import completions
from equilibria.measure.estimate import Estimate
from equilibria.measure.partition import Method, known, log_partition, summable
from equilibria.model.network import Network, State, by_layer, without
from equilibria.model.world import Clamp

_ROWS = 512  # examples that are looked at together
_FEW = 2**20  # over up to this many states ln Z is summed unless asked otherwise


def log_likelihood(
    network: Network,
    data: Mapping[str, ArrayLike] | ArrayLike,
    method: Method | Literal["auto"] = "auto",
    *,
    temperature: float = 1.0,
    probabilities: bool = False,
    weights: ArrayLike | None = None,
    **options: Any,
) -> Estimate:
    r"""The mean over examples of $\ln p(v) = -F(v)/T - \ln Z$, in nats per example.

    Hidden layers that are coupled to one another (a deep Boltzmann machine) are summed exactly where that is possible.

    Args:
        network: any network.
        data: (examples, size) for the first layer, or by layer. Entries that are NaN are missing: they are summed out.
        method: how ln Z is found: "exact", "ais" or "bethe"; "auto" is exact over up to 2^20 states, else annealing.
        temperature: T.
        probabilities: data may lie between a unit's values and are taken as its means (grey pixels), as in `train`.
        weights: (examples,), none below zero: how much each example counts in the mean.
        **options: the others of `log_partition`.

    Returns:
        The mean with the error and the bracket that ln Z leaves.

    Raises:
        ValueError: if the data do not fit the network, or ln Z cannot be had in this way.

    >>> import equilibria as eq
    >>> machine = eq.rbm(4, 2, scale=0.0, key=0)
    >>> round(float(log_likelihood(machine, np.ones((3, 4))).value / np.log(2)), 4)
    -4.0
    """
    check.network("network", network)
    check.choice("method", method, ("auto", "exact", "ais", "bethe"))
    given = by_layer(network, data, probabilities=probabilities, missing=True)
    shares = None if weights is None else check.weights(weights, len(np.asarray(next(iter(given.values())))))
    if method == "auto":
        method = "exact" if summable(network, _FEW) else "ais"
    log_z = log_partition(network, method, temperature=temperature, **{"data": given, **options})
    logs = unnormalised(network, given, temperature)
    value = float(np.mean(logs) if shares is None else np.average(logs, weights=shares)) - log_z.value
    bracket = None
    if log_z.bracket is not None:
        low, high = log_z.bracket
        bracket = (value + log_z.value - high, value + log_z.value - low)
    found = log_z._replace(value=value, bracket=bracket)
    if log_z.value == np.inf:  # a network without a law, which has its warning
        return found
    return known(found, "ln p(v)")


def pseudo_likelihood(
    network: Network,
    data: Mapping[str, ArrayLike] | ArrayLike,
    *,
    temperature: float = 1.0,
    probabilities: bool = False,
) -> float:
    r"""The mean over examples of $\sum_i \ln p(v_i \mid v_{j \ne i})$, in nats per example; no partition function needed.

    Every conditional probability is exact: the hidden layers are summed out, and the sum is over all neurons of the
    first layer (not, as elsewhere, one drawn at random and multiplied by their number), or over its sites where neurons
    answer together (`Potts`).

    Args:
        network: with discrete units in its first layer, and hidden layers that are not coupled to one another.
        data: (examples, size) for the first layer.
        temperature: T.
        probabilities: data may lie between a unit's values (grey pixels): each neuron's two values then count with the
            probabilities that its mean speaks of.

    Returns:
        The mean over examples.

    Raises:
        ValueError: if the network is of another kind, the data do not fit it, or numbers overflow.

    >>> import equilibria as eq
    >>> round(pseudo_likelihood(eq.rbm(4, 2, scale=0.0, key=0), np.ones((3, 4))), 4)
    -2.7726
    """
    check.network("network", network)
    check.temperature(temperature)
    given = by_layer(network, data, probabilities=probabilities)
    if list(given) != [network.names[0]]:
        check.refuse("data", f"data for {list(given)}", f"data for {network.names[0]!r} alone")
    unit = network.layers[0].unit
    choices = unit.choices(network.layers[0].size)
    if choices is None:
        check.refuse(
            "network", f"{type(unit).__name__} units in {network.names[0]!r}", "Spin, Binary or Potts units there"
        )
    if not _summable(network, given):
        check.refuse("network", "hidden layers coupled to one another", "hidden layers that can be summed out")
    rows = np.asarray(given[network.names[0]])
    between = probabilities and not bool(np.isin(rows, unit.range).all())
    name, heat, values = network.names[0], array(temperature), array(choices, np.result_type(choices))
    found = _by_parts({name: rows}, lambda part: _conditionals(network, part[name], values, heat, between))
    return known(Estimate(float(np.mean(found, dtype=float))), "the pseudo-likelihood").value


@eqx.filter_jit
def _conditionals(network: Network, rows: Array, choices: Array, temperature: Array, between: bool) -> Array:
    """The sum over sites of ln p(v_i | all others), for each row; in between the values of a site their shares count."""
    name = network.names[0]
    hidden = [other for other in network.names if other != name]
    width, size = choices.shape[1], rows.shape[1]
    rest = without(network, hidden)
    units = {other: network.layer(other).unit.heated(temperature) for other in hidden}
    fields = {other: network.field({name: rows}, other) for other in hidden}

    def energy(state: Array, fields: State) -> Array:
        cumulants = (jnp.sum(units[other].cumulant(fields[other] / temperature), axis=-1) for other in hidden)
        return rest.energy({name: state}) / temperature - sum(cumulants, start=jnp.zeros(()))

    here = energy(rows, fields)
    low, high = network.layers[0].unit.range

    def add(site: Array, total: Array) -> Array:
        alone = {name: jax.nn.one_hot(site * width + jnp.arange(width), size)}
        pulls = {other: network.field(alone, other) - network.layer(other).bias for other in hidden}
        now = jax.lax.dynamic_slice_in_dim(rows, site * width, width, axis=1)

        def instead(choice: Array) -> Array:  # the fields are linear in the site: no product with the whole matrix
            moved = {other: fields[other] + (choice - now) @ pulls[other] for other in hidden}
            values = jnp.broadcast_to(choice, now.shape)
            return -energy(jax.lax.dynamic_update_slice_in_dim(rows, values, site * width, axis=1), moved)

        logs = jax.vmap(instead)(choices)
        if not between:
            return total - here - jax.nn.logsumexp(logs, axis=0)
        upper = (now[:, 0] - low) / (high - low)
        shares = now.T if network.layers[0].unit.joint else jnp.stack([1 - upper, upper])
        return total + jnp.sum(shares * jax.nn.log_softmax(logs, axis=0), axis=0)

    return jax.lax.fori_loop(0, size // width, add, jnp.zeros(len(rows)))


def unnormalised(network: Network, data: Mapping[str, ArrayLike], temperature: float = 1.0) -> np.ndarray:
    """-F(v)/T of each example: its log-probability before ln Z is taken away.

    Args:
        network: any network.
        data: by layer, (examples, size) each; layers without data and entries that are NaN are summed out.
        temperature: T.

    Returns:
        (examples,).

    Raises:
        ValueError: if there are too many states of what is missing, and of the hidden neurons, to sum over.

    >>> import equilibria as eq
    >>> unnormalised(eq.rbm(4, 2, scale=0.0, key=0), {"visible": np.ones((1, 4))}).round(4)
    array([1.3863], dtype=float32)
    """
    if any(np.isnan(np.asarray(values, float)).any() for values in data.values()):
        return _with_missing(network, data, temperature)
    measure = _summed_out if _summable(network, data) else _enumerated_out
    heat = array(temperature)
    return _by_parts(data, lambda part: measure(network, part, heat))


def _by_parts(data: Mapping[str, ArrayLike], measure: Callable[[State], Array]) -> np.ndarray:
    """A number for each example, of equal parts of the data one after the other: one shape is one compiled program."""
    rows = {name: np.asarray(values) for name, values in data.items()}
    examples = len(next(iter(rows.values())))
    length = -(-examples // -(-examples // _ROWS))
    parts = np.minimum(np.arange(-(-examples // length) * length), examples - 1).reshape(-1, length)
    found = [np.asarray(measure({name: array(values[part]) for name, values in rows.items()})) for part in parts]
    return np.concatenate(found)[:examples]


def _with_missing(network: Network, data: Mapping[str, ArrayLike], temperature: float) -> np.ndarray:
    """The same where entries are missing: examples that miss nothing as ever, the others by sums over what they miss."""
    rows = {name: np.asarray(values, np.float32) for name, values in data.items()}
    missing = np.any([np.isnan(values).any(1) for values in rows.values()], axis=0)
    found = np.empty(missing.size, np.float32)
    if not missing.all():
        found[~missing] = unnormalised(network, {name: v[~missing] for name, v in rows.items()}, temperature)
    gaps = {name: values[missing] for name, values in rows.items()}
    found[missing] = completions(network, gaps, temperature, summable=_summable(network, data))
    return found


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
    r"""The probability of each label given data, exactly, by a layer of class units.

    $$ p(k \mid x) \propto e^{-F(x, k)/T} $$

    with the hidden layers summed out for each class in turn (Larochelle and Bengio 2008).

    Args:
        network: with a layer of class units: OneHot; or Binary or Gaussian, in which case the law is that given that one
            of them is 1 and all others are 0.
        data: by layer, (examples, size) each.
        layer: the name of the class units; the last layer by default.
        temperature: T.

    Returns:
        (examples, classes), with rows that sum to 1.

    Raises:
        ValueError: if the layer's units cannot be classes, or the data do not fit the network.

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
    return softmax(np.stack(logs, axis=1), axis=1)
