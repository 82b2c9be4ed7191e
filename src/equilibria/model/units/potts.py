"""Sites that are each in one of several states."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.model.units.one_hot import OneHot
from equilibria.model.units.unit import Unit


class Potts(Unit):
    r"""Sites that are each in one of q states: letters of a sequence, answers to a question.

    A layer of n neurons holds n / q sites as blocks of q neurons, of which exactly one is on: site i in state k is neuron
    q i + k. In a field x

    $$ p(\text{site } i \text{ in state } k) = e^{x_{ik}} / \sum_l e^{x_{il}}, \qquad c = \sum_i \ln \sum_k e^{x_{ik}} $$

    so that each block is a `OneHot` of its own. `data.one_hot` and `data.states_of` turn whole numbers into such rows and
    back. It cannot be coupled to itself.

    Args:
        states: q, the number of states of a site.

    Raises:
        ValueError: if there are fewer than two states.

    >>> Potts(2).mean(jnp.zeros(6))
    Array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], dtype=float32)
    >>> import equilibria as eq
    >>> eq.sample(eq.rbm(5 * 21, 8, visible=Potts(21), key=0), eq.Sweeps(3), chains=2, key=1)["visible"].sum(-1)
    Array([5., 5.], dtype=float32)
    """

    states: int = eqx.field(static=True)
    levels: ClassVar = (0.0, 1.0)
    joint: ClassVar = True

    def __init__(self, states: int):
        self.states = check.count("states", states, least=2)

    def __check_init__(self) -> None:
        check.count("states", self.states, least=2)

    def blocks(self, values: Array) -> Array:
        """The neurons of a layer by site: (..., sites, states)."""
        return jnp.reshape(values, (*jnp.shape(values)[:-1], -1, self.states))

    def check_size(self, argument: str, size: int) -> None:
        """Refuse a layer that is not a whole number of sites."""
        if size % self.states:
            check.refuse(argument, f"{size} neurons", f"a multiple of the {self.states} states of Potts units")

    def mean(self, field: Array) -> Array:
        """The probability of each state of each site: the softmax of a block of the field."""
        return OneHot().mean(self.blocks(field)).reshape(jnp.shape(field))

    def variance(self, field: Array) -> Array:
        """The variance m (1 - m) of each neuron at its mean m."""
        mean = self.mean(field)
        return mean * (1 - mean)

    def mode(self, field: Array) -> Array:
        """In each site the state with the largest field."""
        return OneHot().mode(self.blocks(field)).reshape(jnp.shape(field))

    def sample(self, key: Array, field: Array) -> Array:
        """A state for each site, drawn from the softmax of its block."""
        return OneHot().sample(key, self.blocks(field)).reshape(jnp.shape(field))

    def cumulant(self, field: Array) -> Array:
        """An equal part for each neuron of the logarithm of its block's sum."""
        return OneHot().cumulant(self.blocks(field)).reshape(jnp.shape(field))

    def inverse(self, mean: Array) -> Array:
        """The field ln m in which the means are m."""
        return jnp.log(mean)

    def choices(self, size: int) -> np.ndarray:
        """Each state of a block in turn."""
        return np.eye(self.states, dtype=np.float32)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """The unit itself in a shifted field: s^2 = s, so that the square is a field as well."""
        return self, field + strength * (target - 0.5)

    def check(self, argument: str, values: ArrayLike, *, probabilities: bool = False) -> None:
        """Refuse values other than 0 and 1, and sites without exactly one 1; probabilities only out of [0, 1]."""
        super().check(argument, values, probabilities=probabilities)
        given = check.concrete(values)
        if given is None or probabilities or not given.size:
            return
        sums = np.reshape(given, (*given.shape[:-1], -1, self.states)).sum(-1)
        if (sums != 1).any():
            site = int(np.argwhere(sums != 1)[0][-1])
            allowed = f"blocks of {self.states} with one 1 and else 0 for Potts units (see data.one_hot)"
            check.refuse(argument, f"site {site} without exactly one 1", allowed)
