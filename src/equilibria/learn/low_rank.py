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

import warnings
from typing import NamedTuple, overload

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.rooted import Root, Rooted
from equilibria.equilibrators.temper import Tempered
from equilibria.learn.contrast import Recipe
from equilibria.learn.gaps import Gaps
from equilibria.learn.mesh import Mesh, mesh_over
from equilibria.learn.mesh_fit import Fit, Seen, fitted, in_double, potential, refined
from equilibria.learn.roots import rooted
from equilibria.model.architectures import rbm
from equilibria.model.missing import check_columns, check_known
from equilibria.model.network import Network
from equilibria.model.transforms import independent_site_biases
from equilibria.model.units import Binary, Unit
from equilibria.random import as_key

_MOST_COMPONENTS = 4
_DRAWN = 1e-7  # of the most probable node's share: a node with less is left out of the draws
_STRONG = 2.0  # a component counts if its variance is that of so many average neurons
_ROUNDS = 4  # of drawing what is missing and fitting again
_LEAST_KNOWN = 0.05  # a row of which less is known, in parts of a component, says nothing of where it lies


class LowRank(NamedTuple):
    """A machine of low rank, its ln Z and draws that need no chain.

    Attributes:
        network: the machine, to go on from with `train`.
        log_partition: its ln Z without the couplings of neurons beyond those fitted, which are as small as `scale` says.
        likelihood: the mean log-likelihood of the data, in nats, as the mesh has it: right to some hundredths from thirty
            neurons on, and off by nats with ten.
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
        return rooted(how, self.root)


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
        data: (examples, size), NaN where an entry is missing: it is summed out.
        hidden_size: the number of hidden neurons.
        visible: the kind of the visible neurons: two-valued, or Potts.
        hidden: the kind of the hidden neurons, two-valued.
        components: how many principal directions, at most 4; by default those, at most 2, whose variance is that of two average
            neurons or more, and more than noise has in so few examples. From small couplings a direction grows if its variance
            is above that of one neuron (the linear instability of Decelle 2017, `theory.linear_flow`).
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
    check_known("data", visible, rows, probabilities=True)
    check_columns("data", rows)
    size = check.count("hidden_size", hidden_size)
    start = rbm(rows.shape[1], size, visible=visible, hidden=hidden, scale=scale, key=key)
    start = independent_site_biases(start, rows, probabilities=True)
    base = np.asarray(start.layers[0].bias, np.float64)
    directions = _directions(rows, components)
    count = min(size, 4 * len(directions) if neurons is None else check.count("neurons", neurons))
    fit, mesh, likelihood = _learned(rows, visible, hidden, base, directions, count, key)
    if likelihood > 0:
        told = f"the mesh is off: it gives {likelihood:.3g} nats for an example, and no probability is above 1"
        warnings.warn(f"{told}; there are too few neurons, or clusters too narrow, for its saddle point", stacklevel=2)
    weights = np.array(start.couplings[0].matrix(), np.float64)
    weights[:, : len(fit.weights)] = (fit.weights @ directions).T
    biases = np.zeros(size)
    biases[: len(fit.biases)] = fit.biases
    # The mean pull of the neurons that were not fitted is taken back: small as it is, it would shift the clusters' shares.
    rest_pull = weights[:, len(fit.weights) :].sum(1) * float(in_double(hidden.mean, np.zeros(())))
    field = base + fit.field @ directions - rest_pull
    network = rbm(weights=weights, visible=visible, hidden=hidden, visible_bias=field, hidden_bias=biases)
    rest = (size - len(fit.weights)) * float(in_double(hidden.cumulant, np.zeros(())))
    logs = mesh.log_weights + potential(mesh.nodes, fit, hidden)
    log_z = np.logaddexp.reduce(logs)
    shares = np.exp(logs - log_z)
    root = _root(network, base, directions, mesh, shares)
    return LowRank(network, float(log_z + rest), likelihood, directions, mesh, shares, root)


def _learned(
    rows: np.ndarray,
    visible: Unit,
    hidden: Unit,
    base: np.ndarray,
    directions: np.ndarray,
    count: int,
    key: Array | int,
) -> tuple[Fit, Mesh, float]:
    """The hidden neurons, the mesh and the likelihood of the rows; where these have gaps, in rounds of drawing and fitting."""
    gaps = np.isnan(rows).any(1)
    mesh = mesh_over(visible, base, directions, _about(rows, directions, in_double(visible.mean, base)))
    known = rows[~gaps] @ directions.T
    fit = fitted(mesh, Seen(known, np.full(len(known), 1 / max(len(known), 1))), hidden, count) if len(known) else None

    def added(points: np.ndarray) -> np.ndarray:
        return potential(points, fit, hidden) if fit is not None else np.zeros(points.shape[:-1])

    total = 0.0
    if gaps.any():
        seed = np.asarray(jax.random.key_data(as_key(key)))
        missing = Gaps.of(visible, rows[gaps], base, directions, np.random.default_rng(seed))
        for turn in range(_ROUNDS):
            drawn = missing.seen(mesh, added)[0]
            shares = np.concatenate([np.ones(len(known)), len(missing.rows) * drawn.shares]) / len(rows)
            seen = Seen(np.concatenate([known, drawn.points]), shares)
            if not _covers(mesh, seen.points):  # beyond its ends the fit would be free to run away
                mesh = mesh_over(visible, base, directions, seen.points)
            fit = (
                refined(mesh, seen, hidden, fit) if turn > 1 and fit is not None else fitted(mesh, seen, hidden, count)
            )
        total = float(missing.seen(mesh, added)[1].sum())
    log_z = np.logaddexp.reduce(mesh.log_weights + added(mesh.nodes))
    total += float(np.sum(rows[~gaps] @ base + added(known) - log_z))
    assert fit is not None  # either some rows miss nothing, or there were rounds
    return fit, mesh, total / len(rows)


def _about(rows: np.ndarray, directions: np.ndarray, means: np.ndarray) -> np.ndarray:
    """About where whole rows would lie along the components: what is known of each, made up for what is not."""
    known = ~np.isnan(rows)
    part = np.where(known, rows - means, 0.0) @ directions.T / np.maximum(known @ np.square(directions.T), _LEAST_KNOWN)
    return part + means @ directions.T


def _covers(mesh: Mesh, points: np.ndarray) -> bool:
    return bool((points >= mesh.nodes.min(0)).all() and (points <= mesh.nodes.max(0)).all())


def _root(network: Network, base: np.ndarray, directions: np.ndarray, mesh: Mesh, shares: np.ndarray) -> Root:
    """The draws of the mesh; nodes that are next to never drawn are left out."""
    kept = shares > _DRAWN * shares.max()
    some = shares[kept] / shares[kept].sum()
    logs = np.log(some) - mesh.sums[kept]
    return Root(network, *(array(part) for part in (base, directions, mesh.tilts[kept], np.cumsum(some), logs)))


def _directions(rows: np.ndarray, components: int | None) -> np.ndarray:
    known = ~np.isnan(rows)
    centred = np.where(known, rows - np.nanmean(rows, axis=0), 0.0)
    together = np.maximum(known.T.astype(float) @ known, 1)  # rows that know both of a pair
    moments, vectors = np.linalg.eigh(centred.T @ centred / together)
    if components is None:
        noise = (1 + np.sqrt(rows.shape[1] / together.mean())) ** 2  # the edge of Marchenko and Pastur
        strong = int(np.sum(moments > max(_STRONG, noise) * max(np.mean(np.nanvar(rows, axis=0)), 1e-12)))
        components = min(max(strong, 1), 2)
    if not 1 <= check.count("components", components) <= min(_MOST_COMPONENTS, rows.shape[1]):
        check.refuse("components", components, f"from 1 to {min(_MOST_COMPONENTS, rows.shape[1])}")
    return vectors.T[::-1][:components]
