"""Networks by their usual names: `hopfield`, `hopfield_from_examples`, `rbm`, `layered`, `dense`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.couplings import Dense, Factored, slept
from equilibria.model.network import Layer, Network
from equilibria.model.units import Binary, Clipped, Spin, Unit
from equilibria.random import as_key


def hopfield(patterns: ArrayLike, sleep: float = 0.0) -> Network:
    r"""A Hopfield network that stores `patterns`, one layer of spins called "neurons".

    $$ J = \frac1N \xi^T (1+t)(1+tC)^{-1} \xi, \qquad C = \frac1N \xi \xi^T, \qquad J_{ii} = 0 $$

    (Agliari 2024, "Revise Hebb's rule by iterative protocols"). The N x N matrix is never formed.

    Args:
        patterns: the K patterns xi, (K, N) of -1 and +1; 0 and 1 are taken as -1 and +1, with a warning.
        sleep: t, the sleeping time: 0 is Hebb's rule, larger values remove the patterns' interference, and infinity is the
            pseudo-inverse rule.

    Returns:
        The network.

    Raises:
        ValueError: if the patterns have other values or no such shape, or the sleep is below zero.

    >>> net = hopfield([[1, -1, 1, -1], [1, 1, -1, -1]])
    >>> net.energy({"neurons": jnp.array([1.0, -1.0, 1.0, -1.0])})
    Array(-1., dtype=float32)
    """
    return _associative(as_spins("patterns", patterns, ("patterns", "neurons")), sleep)


def hopfield_from_examples(examples: ArrayLike, *, supervised: bool = True, sleep: float = 0.0) -> Network:
    r"""A Hopfield network that has only seen examples of its patterns.

    $$ J^{\text{sup}} = \frac{1}{N R} \sum_\mu \bar\eta^\mu \bar\eta^{\mu T}, \qquad
       J^{\text{unsup}} = \frac{1}{N M R} \sum_{\mu, a} \eta^{\mu a} \eta^{\mu a\, T} $$

    with $\bar\eta^\mu$ the mean of the examples of pattern $\mu$ and R the mean square of its entries, which makes the scale
    that of Hebb's rule on the patterns (Agliari 2024, "Patterns' revision").

    Args:
        examples: (K, M, N) of -1 and +1: M noisy copies of each of K patterns.
        supervised: whether the network knows which examples belong together.
        sleep: the sleeping time t, as in `hopfield`.

    Returns:
        The network.

    Raises:
        ValueError: if the examples have other values or no such shape, or cancel in every neuron.

    >>> net = hopfield_from_examples([[[1, -1, 1, -1], [1, -1, 1, 1]]])
    >>> net.couplings[0].factors.round(2)
    Array([[ 1.15, -1.15,  1.15,  0.  ]], dtype=float32)
    """
    spins = as_spins("examples", examples, ("patterns", "examples", "neurons"))
    means = spins.mean(axis=1)
    factors = means if supervised else spins.reshape(-1, spins.shape[-1]) / np.sqrt(spins.shape[1])
    if check.concrete(spins) is None:
        return _associative(factors / jnp.sqrt(jnp.mean(jnp.square(means))), sleep)
    scale = np.sqrt(np.mean(np.square(means), dtype=np.float64))
    if scale == 0:
        check.refuse("examples", "examples that cancel in every neuron", "examples with something in common")
    return _associative(factors / np.float32(scale), sleep)


def _associative(factors: np.ndarray, sleep: float) -> Network:
    """Spins coupled through these factors, after sleep."""
    name = "neurons"
    factors = slept(factors, sleep) if check.concrete(sleep) is None or sleep else factors
    return Network([Layer(name, Spin(), np.zeros(factors.shape[1]))], [Factored((name, name), factors)])


def as_spins(argument: str, values: ArrayLike, axes: tuple[str, ...]) -> Any:
    """Values of -1 and +1 with these axes, none empty; 0 and 1 are taken as -1 and +1, with a warning.

    Inside compiled code, where no value is known, only the axes are looked at.

    Args:
        argument: what an error calls the values.
        values: what was given.
        axes: the names of the axes there must be.

    Returns:
        The values in float32, in NumPy where they are known.

    Raises:
        ValueError: if there are other values or other axes.

    >>> as_spins("patterns", [[1, -1]], ("patterns", "neurons"))
    array([[ 1., -1.]], dtype=float32)
    """
    if np.ndim(values) != len(axes) or 0 in np.shape(values):
        check.refuse(argument, f"shape {np.shape(values)}", f"shape ({', '.join(axes)}), at least one of each")
    given = check.concrete(values)
    if given is None:
        return jnp.asarray(values, jnp.float32)
    check.finite(argument, given)
    if ((given == 0) | (given == 1)).all() and (given == 0).any():
        warnings.warn(f"{argument}: 0 and 1 are taken as -1 and +1", stacklevel=3)
        given = 2 * given.astype(np.float32) - 1
    Spin().check(argument, given)
    return given.astype(np.float32, copy=False)


def rbm(
    visible_size: int | None = None,
    hidden_size: int | None = None,
    *,
    weights: ArrayLike | None = None,
    visible_bias: ArrayLike | None = None,
    hidden_bias: ArrayLike | None = None,
    visible: Unit = Binary(),
    hidden: Unit = Binary(),
    scale: float = 0.01,
    key: Array | int | None = None,
) -> Network:
    """A restricted Boltzmann machine with layers "visible" and "hidden".

    Args:
        visible_size: number of visible neurons; not needed where `weights` are given.
        hidden_size: number of hidden neurons; not needed where `weights` are given.
        weights: the couplings, (visible, hidden). Without them they are drawn from a normal law of width `scale`.
        visible_bias: one number for each visible neuron, zeros by default.
        hidden_bias: one for each hidden neuron, zeros by default; (..., hidden) makes as many machines side by side.
        visible: the kind of the visible neurons.
        hidden: the kind of the hidden neurons.
        scale: width of the law that weights are drawn from.
        key: a random key or a seed, needed where weights are drawn.

    Returns:
        The network.

    Raises:
        ValueError: if sizes and weights disagree, or neither sizes nor weights are given.

    >>> rbm(784, 500, key=0).names
    ('visible', 'hidden')
    >>> rbm(weights=[[1.0, 2.0]], hidden_bias=[0.5, 0.0]).layers[1].size
    2
    """
    if weights is None:
        if key is None:
            check.refuse("key", None, "a random key or a seed, where no weights are given")
        sizes = check.count("visible_size", visible_size), check.count("hidden_size", hidden_size)
        weights = _normal(as_key(key), array(check.number("scale", scale, least=0.0)), sizes)
    matrix: Array = check.shape("weights", array(weights), (visible_size, hidden_size))
    biases = [
        array(np.zeros(size) if given is None else check.shape(name, given, (size,)))
        for name, given, size in zip(
            ("visible_bias", "hidden_bias"), (visible_bias, hidden_bias), matrix.shape[-2:], strict=True
        )
    ]
    layers = [Layer("visible", visible, biases[0]), Layer("hidden", hidden, biases[1])]
    return Network(layers, [Dense(("visible", "hidden"), matrix)])


@partial(jax.jit, static_argnames="shape")
def _normal(key: Array, scale: Array, shape: tuple[int, int]) -> Array:
    return scale * jax.random.normal(key, shape)


def layered(
    sizes: Sequence[int],
    *,
    units: Unit | Sequence[Unit] | None = None,
    skips: Sequence[tuple[int, int]] = (),
    gain: float = 1.0,
    key: Array | int,
) -> Network:
    """A chain of layers "input", "hidden1", ..., "output", each coupled to the next.

    Weights are uniform with Glorot's variance $2 g^2/(n_a + n_b)$, g the `gain`; biases are zero.

    Args:
        sizes: the numbers of neurons, at least two layers.
        units: one unit for all layers, or one for each; `Clipped()` by default.
        skips: further pairs of layers to couple, by number from 0.
        gain: how many times wider than Glorot's the weights are drawn.
        key: a random key or a seed.

    Returns:
        The network.

    Raises:
        ValueError: if there are fewer than two layers, or units or skips do not fit them.

    >>> [coupling.shape for coupling in layered((784, 500, 10), key=0).couplings]
    [(784, 500), (500, 10)]
    """
    if np.ndim(sizes) != 1:
        check.refuse("sizes", repr(sizes), "the sizes of all layers in a row, such as (784, 500, 10)")
    sizes = [check.count("sizes", size) for size in sizes]
    if len(sizes) < 2:
        check.refuse("sizes", sizes, "at least two layers")
    names = ["input", *(f"hidden{depth}" for depth in range(1, len(sizes) - 1)), "output"]
    pairs = [*pairwise(range(len(sizes))), *skips]
    for pair in skips:
        if not (len(pair) == 2 and pair[0] != pair[1] and set(pair) <= set(range(len(sizes)))) or pairs.count(pair) > 1:
            check.refuse(
                "skips", pair, f"pairs of different layers from 0 to {len(sizes) - 1} that are not coupled yet"
            )
    return _coupled(names, sizes, Clipped() if units is None else units, pairs, gain, key)


def dense(
    sizes: int | Sequence[int], *, units: Unit | Sequence[Unit] = Spin(), gain: float = 1.0, key: Array | int
) -> Network:
    """A network in which every neuron is coupled to every other one.

    Weights are drawn as in `layered`; biases are zero.

    Args:
        sizes: the number of neurons of one layer called "neurons", or the sizes of several layers "input", "hidden1", ...,
            "output" that are all coupled to one another and to themselves.
        units: one unit for all layers, or one for each.
        gain: how many times wider than Glorot's the weights are drawn.
        key: a random key or a seed.

    Returns:
        The network.

    Raises:
        ValueError: if a size is no count, or there is another number of units.

    >>> len(dense((4, 3, 2), key=0).couplings)
    6
    """
    sizes = [check.count("sizes", size) for size in np.atleast_1d(np.asarray(sizes)).tolist()]
    middle = [f"hidden{depth}" for depth in range(1, len(sizes) - 1)]
    names = ["neurons"] if len(sizes) == 1 else ["input", *middle, "output"]
    pairs = [(index, index) for index in range(len(sizes))] + list(combinations(range(len(sizes)), 2))
    return _coupled(names, sizes, units, pairs, gain, key)


def _coupled(
    names: Sequence[str],
    sizes: Sequence[int],
    units: Unit | Sequence[Unit],
    pairs: Sequence[tuple[int, int]],
    gain: float,
    key: Array | int,
) -> Network:
    """Layers of these names and sizes with Glorot weights between these pairs."""
    check.number("gain", gain, least=0.0)
    if not isinstance(units, (Unit, Sequence)) or isinstance(units, str):
        check.refuse("units", repr(units), "a unit, such as eq.Clipped(), or one for each layer")
    units = [units] * len(sizes) if isinstance(units, Unit) else list(units)
    if len(units) != len(sizes):
        check.refuse("units", f"{len(units)} units", f"one unit, or one for each of the {len(sizes)} layers")
    layers = [Layer(name, unit, np.zeros(size)) for name, unit, size in zip(names, units, sizes, strict=True)]
    shapes = [(sizes[first], sizes[second]) for first, second in pairs]
    bounds = [gain * np.sqrt(6 / sum(shape)) for shape in shapes]
    symmetric = tuple(first == second for first, second in pairs)
    drawn = _uniform(as_key(key), tuple(map(array, bounds)), tuple(shapes), symmetric)
    ends = [(names[first], names[second]) for first, second in pairs]
    return Network(layers, [Dense(pair, weights) for pair, weights in zip(ends, drawn, strict=True)])


@partial(jax.jit, static_argnames=("shapes", "symmetric"))
def _uniform(
    key: Array, bounds: Sequence[Array], shapes: Sequence[tuple[int, int]], symmetric: Sequence[bool]
) -> list[Array]:
    """Weights within these bounds, of symmetric matrices only the upper half: one program for all couplings."""
    found = []
    for subkey, bound, shape, both in zip(jax.random.split(key, len(shapes)), bounds, shapes, symmetric, strict=True):
        weights = jax.random.uniform(subkey, shape, minval=-bound, maxval=bound)
        upper = jnp.triu(weights, 1)
        found.append(upper + upper.T if both else weights)
    return found
