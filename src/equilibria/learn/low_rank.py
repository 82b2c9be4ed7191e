r"""A start of low rank: a machine whose couplings lie in the data's first principal components, learned without chains.

Let $m = U^T v$ be the projections of a configuration on d principal directions. A machine with couplings $W = U B$ depends on v
through its fields and m alone,

$$ \ln p(v) = b \cdot v + \sum_a c_a(B_a \cdot m + \theta_a) - \ln Z, \qquad
   Z = \int dm\, \rho(m)\, e^{\sum_a c_a(B_a \cdot m + \theta_a)}, $$

with $\rho(m)$ the weight of all configurations of independent neurons with that projection. For d up to 4 this is a sum
over a mesh, and $\rho$ the saddle point of its Laplace transform, $\ln \rho = \sum_i c_i(b_i + u_i \cdot \mu) - \mu \cdot
m - \frac12 \ln \det 2\pi H(\mu)$, with an error of the order of one over the number of neurons (Daniels 1954). First the
convex functions $q_a |n_a \cdot m - z_a|$ of a list of directions and offsets are fitted, whose likelihood is concave in
$q \ge 0$ (Decelle and Furtlehner 2021): each is a hidden neuron of strength q in the limit of a sharp kink. The neurons
with the largest q are taken, and their couplings fitted in turn on the same mesh. The first transitions of learning,
where chains do not mix, are then behind.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple, overload

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from scipy.optimize import minimize

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.rooted import Root, Rooted
from equilibria.equilibrators.temper import Tempered
from equilibria.learn.contrast import Recipe
from equilibria.learn.mesh import Mesh, mesh_over
from equilibria.model.architectures import rbm
from equilibria.model.network import Network
from equilibria.model.transforms import independent_site_biases
from equilibria.model.units import Binary, Unit
from equilibria.random import as_key

_MOST_COMPONENTS = 4
_OFFSETS = 9  # kinks along each direction
_DRAWN = 1e-7  # of the most probable node's share: a node with less is left out of the draws
_STRONG = 2.0  # a component counts if its variance is that of so many average neurons


class LowRank(NamedTuple):
    """A machine of low rank, its ln Z and draws that need no chain.

    Attributes:
        network: the machine, to go on from with `train`.
        log_partition: its ln Z without the couplings of neurons beyond those fitted, which are as small as `scale` says.
        likelihood: the mean log-likelihood of the data, in nats.
        directions: (components, size), the principal directions.
        mesh: the mesh that all of it was computed on.
        shares: (nodes,), the probability of each node.
        root: draws of all its layers, a function of a key and a number of chains.
    """

    network: Network
    log_partition: float
    likelihood: float
    directions: np.ndarray
    mesh: Mesh
    shares: np.ndarray
    root: Root

    def draws(self, count: int, *, key: Array | int) -> Array:
        """Configurations of the visible neurons, independent of one another: a node of the mesh each, then three sweeps."""
        return self.root(as_key(key), check.count("count", count))[self.network.names[0]]

    @overload
    def rooted(self, how: Tempered) -> Rooted: ...
    @overload
    def rooted(self, how: Recipe) -> Recipe: ...
    def rooted(self, how: Tempered | Recipe) -> Rooted | Recipe:
        """A way to sample, or a recipe, whose chains exchange along networks that begin at this machine.

        The copies on the last rung are then drawn anew in every round, in place of chains that stay in a cluster there.

        Args:
            how: `Tempered(ladder=...)` along a ladder whose first network is this one, such as the `Trajectory` of a run that
                began here; or `tempered(along="training")`, for `train` from here.

        Returns:
            The same with the draws of this machine on the last rung (`Rooted`).

        Raises:
            ValueError: if it is neither, or the first network of the ladder is another one.

        >>> import equilibria as eq
        >>> start = low_rank_start(np.repeat(np.eye(2), 3, axis=1), 4, components=1, key=0)
        >>> type(start.rooted(eq.tempered(1, along="training")).minus.how).__name__
        'Rooted'
        """
        if isinstance(how, Recipe):
            if how.minus is None:
                check.refuse("how", "a recipe without a minus phase", 'tempered(along="training")')
            minus = eqx.tree_at(lambda phase: phase.how, how.minus, Rooted(how.minus.how, self.root))  # type: ignore[arg-type]
            return eqx.tree_at(lambda recipe: recipe.minus, how, minus)
        rooted = Rooted(how, self.root)
        if how.networks is not None:
            last = jax.tree.map(lambda leaf: leaf[-1], how.networks)
            if not eqx.tree_equal(last, self.network):
                check.refuse("how", "a ladder that begins with another network", "one whose first network is `network`")
        return rooted


def low_rank_start(
    data: ArrayLike,
    hidden_size: int,
    *,
    visible: Unit = Binary(),
    hidden: Unit = Binary(),
    components: int | None = None,
    neurons: int | None = None,
    scale: float = 0.01,
    key: Array | int,
) -> LowRank:
    """A machine that has learned the first principal components of its data, exactly and without chains.

    Args:
        data: (examples, size).
        hidden_size: the number of hidden neurons.
        visible: the kind of the visible neurons: two-valued, or Potts.
        hidden: the kind of the hidden neurons, two-valued.
        components: how many principal directions, at most 4; by default those, at most 2, whose variance is that of two average
            neurons or more. From small couplings a direction grows if its variance is above that of one neuron (the linear
            instability of Decelle 2017, `theory.linear_flow`); noise of few examples alone takes some a little above it.
        neurons: how many hidden neurons the fit may use; 4 for each component by default. The others have small random
            couplings.
        scale: width of the law that these are drawn from.
        key: a random key or a seed.

    Returns:
        The machine, its ln Z, and draws of it.

    Raises:
        ValueError: if the data do not fit, the units are no two-valued ones, or a number is out of its range.

    >>> import equilibria as eq
    >>> rows = np.repeat([[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 1]], [30, 70], axis=0)
    >>> start = low_rank_start(rows, 4, components=1, key=0)
    >>> start.network.couplings[0].weights.shape, start.draws(5, key=1).shape
    ((6, 4), (5, 6))
    """
    if not hidden.two_valued:
        check.refuse("hidden", f"{type(hidden).__name__} units", "two-valued units, Binary or Spin")
    rows = np.asarray(data, np.float64)
    check.shape("data", rows, (None, None))
    visible.check_size("data", rows.shape[1])
    if (choices := visible.choices(rows.shape[1])) is None or choices.shape[1] == rows.shape[1] > 1:
        check.refuse("visible", f"{type(visible).__name__} units", "sites of some states each: Binary, Spin or Potts")
    visible.check("data", rows, probabilities=True)
    size = check.count("hidden_size", hidden_size)
    start = rbm(rows.shape[1], size, visible=visible, hidden=hidden, scale=scale, key=key)
    start = independent_site_biases(start, rows, probabilities=True)
    base = np.asarray(start.layers[0].bias, np.float64)
    directions = _directions(rows, components)
    count = min(size, 4 * len(directions) if neurons is None else check.count("neurons", neurons))
    mesh = mesh_over(visible, base, directions, rows @ directions.T)
    fit = _fitted(mesh, rows @ directions.T, hidden, count)
    weights = np.array(start.couplings[0].matrix(), np.float64)
    weights[:, : len(fit.weights)] = (fit.weights @ directions).T
    biases = np.zeros(size)
    biases[: len(fit.biases)] = fit.biases
    # The mean pull of the neurons that were not fitted is taken back: small as it is, it would shift the clusters' shares.
    rest_pull = weights[:, len(fit.weights) :].sum(1) * float(_mean(hidden, np.zeros(())))
    field = base + fit.field @ directions - rest_pull
    network = rbm(weights=weights, visible=visible, hidden=hidden, visible_bias=field, hidden_bias=biases)
    rest = (size - len(fit.weights)) * float(_cumulant(hidden, np.zeros(())))
    logs = mesh.log_weights + _potential(mesh.nodes, fit, hidden)
    log_z = np.logaddexp.reduce(logs)
    likelihood = np.mean(rows @ base + _potential(rows @ directions.T, fit, hidden)) - log_z
    shares = np.exp(logs - log_z)
    root = _root(network, base, directions, mesh, shares)
    return LowRank(network, float(log_z + rest), float(likelihood), directions, mesh, shares, root)


def _root(network: Network, base: np.ndarray, directions: np.ndarray, mesh: Mesh, shares: np.ndarray) -> Root:
    """The draws of the mesh; nodes that are next to never drawn are left out."""
    kept = shares > _DRAWN * shares.max()
    some = shares[kept] / shares[kept].sum()
    logs = np.log(some) - mesh.sums[kept]
    return Root(network, *(array(part) for part in (base, directions, mesh.tilts[kept], np.cumsum(some), logs)))


class _Fit(NamedTuple):
    """Couplings of hidden neurons to the projections, their biases, and a field along the projections."""

    weights: np.ndarray  # (neurons, components)
    biases: np.ndarray
    field: np.ndarray  # (components,)


def _directions(rows: np.ndarray, components: int | None) -> np.ndarray:
    centred = rows - rows.mean(0)
    moments, vectors = np.linalg.eigh(centred.T @ centred / len(rows))
    if components is None:
        strong = int(np.sum(moments > _STRONG * max(np.mean(np.var(rows, axis=0)), 1e-12)))
        components = min(max(strong, 1), 2)
    if not 1 <= check.count("components", components) <= min(_MOST_COMPONENTS, rows.shape[1]):
        check.refuse("components", components, f"from 1 to {min(_MOST_COMPONENTS, rows.shape[1])}")
    return vectors.T[::-1][:components]


def _potential(points: np.ndarray, fit: _Fit, hidden: Unit) -> np.ndarray:
    """What the hidden neurons and the field along the projections add to ln p at each point."""
    return np.asarray(_cumulant(hidden, points @ fit.weights.T + fit.biases)).sum(1) + points @ fit.field


def _cumulant(unit: Unit, fields: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(unit.cumulant(array(fields)))


def _mean(unit: Unit, fields: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        return np.asarray(unit.mean(array(fields)))


def _fitted(mesh: Mesh, seen: np.ndarray, hidden: Unit, count: int) -> _Fit:
    """The kinks of the concave problem, the strongest as hidden neurons, and these fitted on the mesh."""
    normals, offsets = _kinks(seen)
    strengths, field = _strengths(mesh, seen, normals, offsets)
    best = np.argsort(-strengths)[:count]
    best = best[strengths[best] > 1e-6] if (strengths[best] > 1e-6).any() else best[:1]
    low, high = hidden.range
    # q |x - z| is what a neuron with values low and high adds at large strength, up to a field along its direction.
    scale = 2 * np.maximum(strengths[best], 0.05) / (high - low)
    weights = scale[:, None] * normals[best]
    start = _Fit(weights, -scale * offsets[best], field - (low + high) / 2 * weights.sum(0))
    return _refined(mesh, seen, hidden, start)


def _kinks(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions spread evenly over half a sphere, and offsets at the quantiles of the data along each."""
    count = seen.shape[1]
    if count == 1:
        normals = np.ones((1, 1))
    elif count == 2:
        angles = np.arange(12) * np.pi / 12
        normals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        grid = np.array([row for row in product((-1, 0, 1), repeat=count) if any(row) and row > tuple(-x for x in row)])
        normals = grid / np.linalg.norm(grid, axis=1, keepdims=True)
    along = seen @ normals.T
    ends = along.min(0), along.max(0)
    places = np.linspace(0, 1, _OFFSETS + 2)[1:-1]
    offsets = ends[0] + places[:, None] * (ends[1] - ends[0])
    return np.repeat(normals, _OFFSETS, axis=0), offsets.T.ravel()


def _strengths(mesh: Mesh, seen: np.ndarray, normals: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The concave problem: q >= 0 of every kink, and a field along the projections."""
    functions = np.concatenate([np.abs(mesh.nodes @ normals.T - offsets), mesh.nodes], axis=1)
    wanted = np.concatenate([np.abs(seen @ normals.T - offsets).mean(0), seen.mean(0)])

    def lost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        logs = mesh.log_weights + functions @ parameters
        log_z = np.logaddexp.reduce(logs)
        slope = np.exp(logs - log_z) @ functions - wanted
        return float(log_z - wanted @ parameters + 1e-4 * parameters @ parameters), slope + 2e-4 * parameters

    bounds = [(0.0, None)] * len(offsets) + [(None, None)] * seen.shape[1]
    found = minimize(lost, np.zeros(len(wanted)), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    return found.x[: len(offsets)], found.x[len(offsets) :]


def _refined(mesh: Mesh, seen: np.ndarray, hidden: Unit, start: _Fit) -> _Fit:
    """The couplings, biases and the field of largest likelihood on the mesh, from a start; the likelihood never falls."""
    shapes = [part.shape for part in start]
    cuts = np.cumsum([part.size for part in start])[:-1]

    def parts(parameters: np.ndarray) -> _Fit:
        pieces = zip(np.split(parameters, cuts), shapes, strict=True)
        return _Fit(*(piece.reshape(shape) for piece, shape in pieces))

    def statistics(points: np.ndarray, weights: np.ndarray, fit: _Fit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        means = weights[:, None] * _mean(hidden, points @ fit.weights.T + fit.biases)
        return means.T @ points, means.sum(0), weights @ points

    even = np.full(len(seen), 1 / len(seen))

    def lost(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        fit = parts(parameters)
        logs = mesh.log_weights + _potential(mesh.nodes, fit, hidden)
        log_z = np.logaddexp.reduce(logs)
        model, wanted = statistics(mesh.nodes, np.exp(logs - log_z), fit), statistics(seen, even, fit)
        slope = np.concatenate([(a - b).ravel() for a, b in zip(model, wanted, strict=True)])
        value = log_z - _potential(seen, fit, hidden).mean()
        return float(value + 1e-5 * parameters @ parameters), slope + 2e-5 * parameters

    begin = np.concatenate([part.ravel() for part in start])
    return parts(minimize(lost, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x)
