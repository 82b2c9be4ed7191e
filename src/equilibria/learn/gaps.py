r"""Rows with missing entries, seen by a machine of low rank: what is missing is summed out by draws with weights.

The machine's law $p(v) \propto e^{b \cdot v + \phi(U^T v)}$ is near that of the mesh, a mixture of independent neurons,

$$ q(v) = \sum_n s_n\, e^{(b + U\mu_n) \cdot v - \sum_i c_i(b_i + (U\mu_n)_i)}, $$

from which the missing neurons of a row can be drawn given those that are known: a node by $s_n$ times the probability of what
is known, then each neuron by itself. A draw counts by $p/q$, which depends on its projections alone, and their mean says how
probable the row is: $p(v_\text{known}) = q(v_\text{known})\, \mathbb{E}_q[\,p/q\,|\,v_\text{known}]$. The same random numbers
serve every round, so that rounds of drawing and fitting come to rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from equilibria.learn.mesh import Mesh
from equilibria.learn.mesh_fit import Seen
from equilibria.model.units import Unit

_DRAWS = 8  # of what is missing, for each row
_RARE = 1e-7  # of the most probable node's share: a node with less is left out


class Gaps(NamedTuple):
    """Rows of which only some entries are known.

    Attributes:
        unit: of the neurons, with a finite number of states.
        rows: (rows, size), NaN where nothing is known.
        base: (size,), the fields b of independent neurons.
        directions: (components, size), U.
        random: numbers between 0 and 1: for the node of each draw, and for every site of each draw.
    """

    unit: Unit
    rows: np.ndarray
    base: np.ndarray
    directions: np.ndarray
    random: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(
        cls, unit: Unit, rows: np.ndarray, base: np.ndarray, directions: np.ndarray, generator: np.random.Generator
    ) -> Gaps:
        """The rows with the random numbers that all rounds use.

        Args:
            unit: of the neurons.
            rows: (rows, size), NaN where nothing is known.
            base: (size,).
            directions: (components, size).
            generator: of the random numbers.

        Returns:
            The rows.
        """
        sites = rows.shape[1] // np.asarray(unit.choices(rows.shape[1])).shape[1]
        shape = len(rows), _DRAWS
        return cls(unit, rows, base, directions, (generator.random(shape), generator.random((*shape, sites))))

    def seen(self, mesh: Mesh, added: Callable[[np.ndarray], np.ndarray]) -> tuple[Seen, np.ndarray]:
        r"""Where the rows lie along the components, and how probable each of them is.

        Args:
            mesh: of the projections.
            added: phi, what the machine adds to ln p at points (..., components).

        Returns:
            The draws, those of one row counting one over the number of rows in all; ln of the probability of each row, (rows,).
        """
        logs = mesh.log_weights + added(mesh.nodes)
        kept = logs > logs.max() + np.log(_RARE)
        log_z = np.logaddexp.reduce(logs)
        shares, tilts, sums = logs[kept] - np.logaddexp.reduce(logs[kept]), mesh.tilts[kept], mesh.sums[kept]
        costs = logsumexp(self._states(slice(None), tilts), axis=-1)  # (nodes, sites)
        given = np.where(np.isnan(self.rows), 0.0, self.rows)
        free = np.isnan(self.rows).reshape(len(given), costs.shape[1], -1).any(-1)
        along = given @ self.directions.T
        points, evidence = np.empty((*self.random[0].shape, len(self.directions))), np.empty(len(given))
        mixture = np.empty(self.random[0].shape)  # ln q, less the pull of the fields b
        for row, (node_random, site_random) in enumerate(zip(*self.random, strict=True)):
            odds = shares + tilts @ along[row] - costs @ ~free[row]
            heaped = np.cumsum(np.exp(odds - odds.max()))
            nodes = np.searchsorted(heaped, node_random * heaped[-1])
            evidence[row] = np.log(heaped[-1]) + odds.max()
            points[row] = along[row] + self._missing(free[row], tilts[nodes], site_random)
            mixture[row] = logsumexp(shares - sums + points[row] @ tilts.T, axis=1)
        weights = added(points) - mixture
        weights, means = softmax(weights, axis=1), logsumexp(weights, axis=1) - np.log(_DRAWS)
        seen = Seen(points.reshape(-1, len(self.directions)), weights.ravel() / len(given))
        return seen, evidence + means + given @ self.base - log_z

    def _states(self, sites: slice | np.ndarray, tilts: np.ndarray) -> np.ndarray:
        """The logarithm of the weight of each state of some sites in the fields of tilts: (tilts, sites, states)."""
        choices = np.asarray(self.unit.choices(len(self.base)), np.float64)
        width = choices.shape[1]
        base = self.base.reshape(-1, width)[sites] @ choices.T
        pulls = self.directions.reshape(len(self.directions), -1, width)[:, sites] @ choices.T
        return base + np.tensordot(tilts, pulls, 1)

    def _missing(self, sites: np.ndarray, tilts: np.ndarray, random: np.ndarray) -> np.ndarray:
        """The projections of missing sites that are drawn in the fields of tilts, (draws, components)."""
        choices = np.asarray(self.unit.choices(len(self.base)), np.float64)
        logs = self._states(sites, tilts)
        heaped = np.cumsum(np.exp(logs - logs.max(-1, keepdims=True)), axis=-1)
        states = (heaped < random[:, sites, None] * heaped[..., -1:]).sum(-1)
        pulls = self.directions.reshape(len(self.directions), -1, choices.shape[1])[:, sites]
        return np.einsum("dsw,csw->dc", choices[states], pulls)
