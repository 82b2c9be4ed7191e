r"""The modes of a coupling: its singular value decomposition $W = U\, \mathrm{diag}(w)\, V^T$.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), follow the learning of a restricted Boltzmann machine by it.
Singular values depend on the values of the neurons: W between 0/1 neurons is 4 times W between the same neurons as
-1/+1, and so is the threshold at which a mode orders (1 for spins). What noise alone would show is
`theory.marchenko_pastur`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.network import Network


class Spectrum(NamedTuple):
    """The modes of a coupling, strongest first.

    Attributes:
        values: (modes,), the singular values.
        first: (modes, size of the coupling's first layer), the rows of U^T.
        second: (modes, size of its second layer), the rows of V^T.
    """

    values: np.ndarray
    first: np.ndarray
    second: np.ndarray


def spectrum(network: Network, coupling: int = 0) -> Spectrum:
    """Singular values and vectors of one coupling of a network, in float64.

    Args:
        network: any network.
        coupling: the number of the coupling in `network.couplings`.

    Returns:
        The modes; the sign of each makes the sum of its first vector >= 0.

    Raises:
        ValueError: if there is no such coupling.

    >>> import equilibria as eq
    >>> spectrum(eq.rbm(6, 4, key=0)).values.shape
    (4,)
    """
    weights = _weights(network, coupling)
    left, values, right = np.linalg.svd(weights, full_matrices=False)
    signs = np.where(left.sum(0) < 0, -1.0, 1.0)
    return Spectrum(values, (left * signs).T, right * signs[:, None])


def principal_components(data: ArrayLike, *, centred: bool = True) -> Spectrum:
    """The principal directions of data and the standard deviation along each, as a `Spectrum`.

    Args:
        data: (examples, size).
        centred: takes the mean off first; without it the mean counts as a direction as well, as the modes of a machine
            without biases see it.

    Returns:
        Standard deviations as `values` and directions as `first`, largest first; `second` is empty.

    >>> principal_components(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).values.round(3)
    array([2.121, 0.707])
    """
    rows = np.asarray(check.finite("data", data), np.float64)
    check.shape("data", rows, (None, None))
    rows = rows - rows.mean(0) if centred else rows
    moments, directions = np.linalg.eigh(rows.T @ rows / len(rows))
    directions = directions.T[::-1]
    signs = np.where(directions.sum(1) < 0, -1.0, 1.0)[:, None]
    values = np.sqrt(moments[::-1].clip(min=0))
    return Spectrum(values, signs * directions, np.zeros((len(values), 0)))


def alignment(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """How alike two lists of directions are: |u_a . e_b|, from 0 to 1.

    Args:
        first: (modes, size), of any length.
        second: (modes, size), of any length.

    Returns:
        (modes of the first, modes of the second).

    Raises:
        ValueError: if the two have different sizes.

    >>> alignment([[1.0, 0.0]], [[2.0, 0.0], [0.0, -1.0]])
    array([[1., 0.]])
    """
    left, right = (np.atleast_2d(np.asarray(rows, np.float64)) for rows in (first, second))
    check.shape("second", right, (None, left.shape[1]))
    left, right = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right))
    return np.abs(left @ right.T)


def subspace_overlap(directions: ArrayLike, subspace: ArrayLike) -> np.ndarray:
    """How much of each direction lies in a subspace, from 0 to 1: the root of the summed squares of its alignments.

    Args:
        directions: (modes, size), of any length.
        subspace: (dimensions, size), orthogonal directions that span it.

    Returns:
        (modes,).

    >>> subspace_overlap([[3.0, 4.0]], [[1.0, 0.0]])
    array([0.6])
    """
    return np.sqrt((alignment(directions, subspace) ** 2).sum(1)).clip(max=1.0)


def watch_spectrum(
    data: ArrayLike | None = None, *, modes: int = 10, coupling: int = 0
) -> Callable[[Network], dict[str, np.ndarray]]:
    """A function for `train(metrics=...)` that puts the modes of a coupling into the history.

    Args:
        data: (examples, size); with them, the alignment of the first modes with the data's principal components as well.
        modes: how many modes are aligned.
        coupling: the number of the coupling.

    Returns:
        A function of the network that gives "singular_values" and, with data, "alignment".

    >>> import equilibria as eq
    >>> run = eq.train(eq.rbm(4, 2, key=0), np.eye(4), eq.cd(1), epochs=2, batch_size=2, key=1, metrics=watch_spectrum())
    >>> run.history["singular_values"].shape
    (3, 2)
    """
    directions = None if data is None else principal_components(data).first[:modes]

    def measured(network: Network) -> dict[str, np.ndarray]:
        found = spectrum(network, coupling)
        if directions is None:
            return {"singular_values": found.values}
        return {"singular_values": found.values, "alignment": alignment(found.first[:modes], directions)}

    return measured


def log_spaced_steps(last: int, count: int = 30) -> list[int]:
    """Steps that are evenly spaced in the logarithm, for `train(record=...)`.

    Args:
        last: the last step.
        count: how many at most; small numbers fall together.

    Returns:
        Steps from 1 to the last, without repetition.

    >>> log_spaced_steps(1000, 7)
    [1, 3, 10, 32, 100, 316, 1000]
    """
    last, count = check.count("last", last), check.count("count", count, least=2)
    return sorted({round(step) for step in np.geomspace(1, last, count)})


def _weights(network: Network, coupling: int) -> np.ndarray:
    """The matrix of one coupling, whatever it is made of, in float64."""
    check.network("network", network)
    if not 0 <= check.count("coupling", coupling, least=0) < len(network.couplings):
        check.refuse("coupling", coupling, f"a number below {len(network.couplings)}, the number of couplings")
    return np.asarray(network.couplings[coupling].matrix(), np.float64)
