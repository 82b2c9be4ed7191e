r"""Networks: layers, couplings, biases and one energy.

$$ E(s) = \sum_{\text{layers}} \sum_i \left[u(s_i) - b_i s_i\right] - \sum_{\text{pairs}} s_a^T W_{ab}\, s_b
          - \tfrac12 \sum_{\text{lateral}} s_a^T J_a\, s_a $$

A state is a dict of arrays by layer name, each (..., size): all leading axes are chains or examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.html import table
from equilibria.model.couplings import Coupling
from equilibria.model.missing import check_known
from equilibria.model.units import Unit

State: TypeAlias = dict[str, Array]
_Meta: Any = type(eqx.Module)


class _Plain(_Meta):
    """A class of Equinox whose `help` shows what a user calls, and not how such classes are made."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name == "__init__" or not name.startswith("_")]


class Layer(eqx.Module, metaclass=_Plain):
    """Neurons of one kind with a bias each.

    Args:
        name: what the network calls it.
        unit: the kind of the neurons.
        bias: one number for each neuron, the field on it when nothing else pulls; it sets the layer's size.

    Raises:
        ValueError: if the biases are not finite or there is no axis of neurons.

    >>> from equilibria.model.units import Spin
    >>> Layer("visible", Spin(), [0.0, 0.0, 0.0]).size
    3
    """

    name: str = eqx.field(static=True)
    unit: Unit
    bias: Array

    def __init__(self, name: str, unit: Unit, bias: ArrayLike):
        self.name, self.unit, self.bias = name, unit, array(bias)

    def __check_init__(self) -> None:
        check.shape("bias", self.bias, (None,))
        check.finite("bias", self.bias, most=check.LARGEST)
        if not isinstance(self.unit, Unit):
            check.refuse(f"the unit of layer {self.name!r}", repr(self.unit), "a unit, such as eq.Binary()")
        self.unit.check_size(f"layer {self.name!r}", self.size)

    @property
    def size(self) -> int:
        """The number of neurons."""
        return self.bias.shape[-1]


class Network(eqx.Module, metaclass=_Plain):
    r"""Layers and the couplings between them: what has an energy.

    $$ E(s) = \sum_{\text{layers}} \sum_i \left[u(s_i) - b_i s_i\right] - \sum_{\text{pairs}} s_a^T W_{ab}\, s_b
              - \tfrac12 \sum_{\text{lateral}} s_a^T J_a\, s_a $$

    Decelle 2017, equation (1), with spins; Scellier and Bengio, equation (34), with clipped neurons; Agliari 2024, "The
    statistical mechanics setting", with one layer.

    Args:
        layers: `Layer` objects with different names.
        couplings: `Dense`, `Factored` or one's own, between layers of these names.

    Raises:
        ValueError: if two layers share a name, or a coupling does not fit its layers.

    >>> from equilibria.model.couplings import Dense
    >>> from equilibria.model.units import Spin
    >>> net = Network([Layer("a", Spin(), [0.0]), Layer("b", Spin(), [0.5])], [Dense(("a", "b"), [[2.0]])])
    >>> net.energy({"a": jnp.ones(1), "b": jnp.ones(1)})
    Array(-2.5, dtype=float32)
    """

    layers: tuple[Layer, ...]
    couplings: tuple[Coupling, ...]

    def __init__(self, layers: Iterable[Layer], couplings: Iterable[Coupling] = ()):
        self.layers, self.couplings = tuple(layers), tuple(couplings)

    def __check_init__(self) -> None:
        if len(self.names) != len(set(self.names)):
            check.refuse("layers", self.names, "a different name for each layer")
        for coupling in self.couplings:
            sizes = tuple(self.layer(name).size for name in coupling.ends)
            if coupling.shape != sizes:
                check.refuse("couplings", f"{coupling.shape} between {coupling.ends}", f"{sizes}, the layers' sizes")

    def _repr_html_(self) -> str:
        rows = [(layer.name, f"{layer.size:,}", type(layer.unit).__name__) for layer in self.layers]
        pairs = "; ".join(f"{' – '.join(coupling.ends)} ({type(coupling).__name__})" for coupling in self.couplings)
        return table("Network", ("layer", "neurons", "unit"), rows, f"couplings: {pairs}" if pairs else "no couplings")

    @property
    def names(self) -> tuple[str, ...]:
        """The layers' names, in order."""
        return tuple(layer.name for layer in self.layers)

    def layer(self, name: str) -> Layer:
        """The layer of that name."""
        return self.layers[self.names.index(check.choice("layer", name, self.names))]

    @property
    def lateral(self) -> frozenset[str]:
        """The layers that are coupled to themselves."""
        return frozenset(coupling.ends[0] for coupling in self.couplings if coupling.lateral)

    @property
    def colours(self) -> tuple[tuple[str, ...], ...]:
        """Groups of layers that are not coupled to one another: two groups where the layer graph allows it.

        Each group can be updated at once given the others. Colours are given greedily, breadth first from the first layer
        of each connected part, which uses two colours on every bipartite graph.
        """
        neighbours: dict[str, list[str]] = {name: [] for name in self.names}
        for first, second in (coupling.ends for coupling in self.couplings if not coupling.lateral):
            neighbours[first].append(second)
            neighbours[second].append(first)
        colour: dict[str, int] = {}
        for root in self.names:
            queue = [root]
            for name in queue:
                if name not in colour:
                    taken = {colour.get(other) for other in neighbours[name]}
                    colour[name] = next(shade for shade in range(len(self.names)) if shade not in taken)
                    queue += [other for other in neighbours[name] if other not in colour]
        return tuple(
            tuple(name for name in self.names if colour[name] == shade) for shade in range(max(colour.values()) + 1)
        )

    def field(self, state: Mapping[str, Array], name: str) -> Array:
        """The field on a layer: its bias and the pull of every layer coupled to it."""
        pulls = (
            coupling.pull(state[end], toward=name)
            for coupling in self.couplings
            for end in [_other_end(coupling, name)]
            if end is not None
        )
        return sum(pulls, start=self.layer(name).bias)

    def energy(self, state: Mapping[str, Array]) -> Array:
        """The energy of each configuration in `state`."""
        alone = (
            jnp.sum(layer.unit.self_energy(state[layer.name]), axis=-1)
            - jnp.sum(layer.bias * state[layer.name], axis=-1)
            for layer in self.layers
        )
        pairs = (coupling.energy(*(state[end] for end in coupling.ends)) for coupling in self.couplings)
        return sum(alone, start=jnp.zeros(())) + sum(pairs)

    def free_energy(self, state: Mapping[str, Array], integrate: Sequence[str], temperature: ArrayLike = 1.0) -> Array:
        r"""The energy of the other layers with the layers `integrate` summed out exactly.

        $$ F(s) = E_{\text{rest}}(s) - T \sum_{i \in \text{integrated}} c_T(\varphi_i / T) $$

        with c_T the cumulant function of the heated unit; the integrated layers must not be coupled to one another, and
        their states are not looked at. Its gradient in the parameters is the average of dE's, at the conditional law.
        """
        rest = without(self, integrate)
        integrated = [self.layer(name) for name in integrate]
        for coupling in self.couplings:
            if set(coupling.ends) <= set(integrate):
                check.refuse(
                    "integrate", tuple(integrate), "layers that are not coupled to one another or to themselves"
                )
        temperature = jnp.asarray(temperature)
        cumulants = (
            jnp.sum(layer.unit.heated(column).cumulant(self.field(state, layer.name) / column), axis=-1)
            for column in [temperature[..., None]]
            for layer in integrated
        )
        return rest.energy(state) - temperature * sum(cumulants, start=jnp.zeros(()))

    def statistics(self, state: Mapping[str, Array]) -> Network:
        """The sufficient statistics -dE/dtheta, averaged over the configurations, in the shape of the network."""
        return jax.tree.map(jnp.negative, eqx.filter_grad(lambda network: jnp.mean(network.energy(state)))(self))

    def check_values(self, argument: str, name: str, values: ArrayLike, *, probabilities: bool = False) -> None:
        """Refuse values that the layer `name` cannot take (see `Unit.check`)."""
        layer = self.layer(name)
        check.shape(argument, values, (layer.size,))
        layer.unit.check(argument, values, probabilities=probabilities)


def by_layer(
    network: Network,
    data: Mapping[str, ArrayLike] | tuple[ArrayLike, ArrayLike] | ArrayLike,
    *,
    probabilities: bool = False,
    missing: bool = False,
) -> dict[str, ArrayLike]:
    """Checked data by layer: an array alone is the first layer's, a pair the first and the last one's.

    Args:
        network: what the data are for.
        data: one array, a pair, or a dict by layer; each is (examples, size), as many examples for each layer.
        probabilities: lets values lie between a unit's levels.
        missing: lets entries be missing, as NaN.

    Returns:
        The same arrays by layer.

    Raises:
        ValueError: if there are no data, or they do not fit the network.
    """
    if isinstance(data, tuple):
        if len(data) != 2:
            allowed = "one array, a pair (first layer, last layer), or a dict by layer"
            check.refuse("data", f"{len(data)} arrays", allowed)
        data = dict(zip((network.names[0], network.names[-1]), data, strict=True))
    given = dict(data) if isinstance(data, Mapping) else {network.names[0]: data}
    if not given:
        check.refuse("data", "no arrays", "at least one layer's data")
    for name, values in given.items():
        argument = f"data[{name!r}]"
        if missing:
            check.shape(argument, values, (network.layer(name).size,))
            check_known(argument, network.layer(name).unit, values, probabilities=probabilities)
        else:
            network.check_values(argument, name, values, probabilities=probabilities)
        if np.ndim(values) != 2 or np.shape(values)[0] == 0:
            allowed = f"shape (examples, {network.layer(name).size}), not empty"
            check.refuse(argument, f"shape {np.shape(values)}", allowed)
    sizes = {name: np.shape(values)[0] for name, values in given.items()}
    if len(set(sizes.values())) > 1:
        check.refuse("data", f"different numbers of examples, {sizes}", "as many examples for each layer")
    return {name: without_wrapping(values) for name, values in given.items()}


def without_wrapping(values: ArrayLike) -> ArrayLike:
    """Whole numbers of 64 bits beyond those of 32 as real ones: JAX would wrap them around in silence.

    Args:
        values: an array of any type.

    Returns:
        The same numbers; what JAX can hold is returned as it is.

    >>> without_wrapping(np.array([3_000_000_000])), without_wrapping(np.array([1]))
    (array([3.e+09]), array([1]))
    """
    given = check.concrete(values)
    if given is None or given.dtype.kind not in "iu" or given.dtype.itemsize < 8 or not given.size:
        return values
    limits = np.iinfo(np.int32 if given.dtype.kind == "i" else np.uint32)
    return values if limits.min <= given.min() and given.max() <= limits.max else given.astype(np.float64)


def _other_end(coupling: Coupling, name: str) -> str | None:
    """The layer at the other end of a coupling from `name`, None if the coupling does not touch it."""
    first, second = coupling.ends
    return second if name == first else first if name == second else None


def without(network: Network, names: Iterable[str]) -> Network:
    """The network with some layers, and every coupling that touches them, taken away."""
    gone = set(names)
    layers = [layer for layer in network.layers if layer.name not in gone]
    return Network(layers, [coupling for coupling in network.couplings if not gone & set(coupling.ends)])
