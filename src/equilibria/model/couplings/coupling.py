r"""Who pulls on whom.

A coupling joins two layers, or a layer to itself. Between layers $a$ and $b$ its energy is $-s_a^T W s_b$; within one layer
it is $-\tfrac12 s^T J s$ with $J$ symmetric. The pull on a layer is minus the gradient of that energy.

A layer coupled to itself is updated one neuron at a time; `walk` returns what such a walk keeps up to date. Visits come in
blocks: the fields at the beginning of a block are one matrix product, and within the block a neuron that moves pulls on those
still to come through `among`. A visit costs O(N) for `Dense` and O(K) for `Factored`, at the speed of matrix products.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike


class Walk(Protocol):
    """The fields inside one layer, kept up to date while its neurons are visited; arrays are (neurons, chains)."""

    def fields(self, neurons: Array, sites: Array) -> Array:
        """The pull of the layer on some of its own neurons, (sites, chains)."""

    def among(self, sites: Array) -> Array:
        """The pull of one of these neurons on another, (sites, sites); none of a neuron on itself."""

    def moved(self, sites: Array, changes: Array) -> Walk:
        """The same after these neurons changed by `changes` (sites, chains)."""


class Coupling(eqx.Module):
    """What every coupling offers: the energy of two layers together, and the pull of each on the other.

    A new coupling gives `shape`, `pull`, `energy` and `scaled`. The rest follows from these, and is there to be given again
    where a coupling knows better: `matrix` without a product, `walk` without a matrix, `prepacked` for long loops.

    Attributes:
        ends: the names of the two layers it joins, the same name twice for a layer and itself.

    >>> class Ferromagnet(Coupling):  # Curie and Weiss: every neuron pulls on every other one with strength J / N
    ...     ends: tuple[str, str] = eqx.field(static=True)
    ...     size: int = eqx.field(static=True)
    ...     strength: Array
    ...     @property
    ...     def shape(self):
    ...         return self.size, self.size
    ...     def pull(self, state, toward):
    ...         return self.strength * (jnp.sum(state, axis=-1, keepdims=True) - state) / self.size
    ...     def energy(self, state, other):
    ...         return -jnp.sum(state * self.pull(state, self.ends[0]), axis=-1) / 2
    ...     def scaled(self, factor):
    ...         return Ferromagnet(self.ends, self.size, factor * self.strength)
    >>> import equilibria as eq
    >>> magnet = eq.Network([eq.Layer("spins", eq.Spin(), jnp.zeros(10))], [Ferromagnet(("spins", "spins"), 10, 1.0)])
    >>> magnet.energy({"spins": jnp.ones(10)}), magnet.couplings[0].matrix()[0, 1]
    (Array(-4.5, dtype=float32), Array(0.1, dtype=float32))
    """

    ends: eqx.AbstractVar[tuple[str, str]]

    @property
    def lateral(self) -> bool:
        """Whether both ends are the same layer."""
        return self.ends[0] == self.ends[1]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The sizes of the two ends."""

    @abstractmethod
    def pull(self, state: Array, toward: str) -> Array:
        """The field that the other end, in `state`, exerts on the layer `toward`."""

    @abstractmethod
    def energy(self, state: Array, other: Array) -> Array:
        """The energy of the two ends in these states (the same state twice when lateral)."""

    @abstractmethod
    def scaled(self, factor: ArrayLike) -> Self:
        """The coupling with its energy multiplied by `factor`."""

    def walk(self, state: Array) -> Walk:
        """What a walk through a lateral layer keeps up to date, from `state` (neurons, chains)."""
        return _MatrixWalk(self.matrix())

    def matrix(self) -> Array:
        """All weights as one matrix, (size of the first end, size of the second)."""
        return self.pull(jnp.eye(self.shape[0]), toward=self.ends[1])

    def factor(self) -> Array | None:
        r"""The matrix A of $J = A A^T$, up to the diagonal, where the coupling is known by one; else None."""
        return None

    def filtered(self, gain: Callable[[np.ndarray], np.ndarray]) -> Coupling | None:
        """The coupling with each eigenvalue multiplied by `gain` of it, where it is known by its factors; else None."""
        return None

    def padded(self, factors: int) -> Coupling:
        """The same coupling made of at least so many factors, those added zero, where it is made of factors."""
        return self

    def roomy(self) -> Coupling | None:
        """The same coupling in arrays of one of a few sizes, which share compiled code; None where it keeps its own.

        Its layer then has room for more neurons than are `present`; those beyond pull on nobody.
        """
        return None

    @property
    def present(self) -> Array | int:
        """How many neurons there are of a layer coupled to itself."""
        return self.shape[0]

    def prepacked(self) -> Coupling:
        """The same coupling made ready for a loop that multiplies by it many times."""
        return self

    def about(self, means: tuple[Array, Array], slopes: tuple[Array, Array]) -> tuple[Self, tuple[Array, Array]]:
        """A gradient of this coupling taken about the means of its ends, and what the ends' biases then change by.

        This coupling holds the plain gradient and `slopes` those of the biases (see `learn.contrast.about_means`). A
        coupling that does not say how keeps its gradient.
        """
        return self, (jnp.zeros(()), jnp.zeros(()))


class _MatrixWalk(eqx.Module):
    """The walk of any coupling, by its matrix."""

    weights: Array

    def fields(self, neurons: Array, sites: Array) -> Array:
        return self.weights[sites] @ neurons

    def among(self, sites: Array) -> Array:
        return self.weights[sites[:, None], sites]

    def moved(self, sites: Array, changes: Array) -> Walk:
        return self
