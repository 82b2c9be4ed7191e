r"""What a neuron can be.

A unit with self-energy $u(s)$ in a field $x$ has the law

$$ p(s \mid x) = e^{x s - u(s) - c(x)}, \qquad c(x) = \ln \int e^{x s - u(s)}\, d\mu(s), $$

and everything else follows from the cumulant function $c$: the mean is $c'$, the variance $c''$, and the entropy
relative to the measure $e^{-u} d\mu$ is its Legendre transform $c(x) - x\,c'(x)$. At temperature $T$ the same law holds
for `unit.heated(T)`, whose self-energy is $u/T$, in the field $x/T$; so no method below needs to know about temperature.

A new unit is one class with the methods that `Unit` names, and nothing else changes (see CONTRIBUTING.md).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check


class Unit(eqx.Module):
    r"""What every neuron offers: its response to a field x.

    $$ p(s \mid x) = e^{x s - u(s) - c(x)} $$

    with u the self-energy and c the cumulant function. A new unit is one class: it gives `mean`, `variance`, `mode`, `sample`
    and `cumulant`, and `self_energy`, `heated` and `nudged` if it has a self-energy. What the rest of the house needs to know
    of a unit it asks by these methods and by the attributes, never by its type.

    Attributes:
        levels: the values of a discrete unit; None for a continuous one.
        bounds: the interval that the values of a continuous unit fill.
        joint: whether the neurons of a layer answer together, not each to its own field.

    >>> class ThreeState(Unit):  # -1, 0 and +1
    ...     levels = (-1.0, 0.0, 1.0)
    ...     def cumulant(self, field):
    ...         return jnp.log(1 + 2 * jnp.cosh(field))
    ...     def mean(self, field):
    ...         return 2 * jnp.sinh(field) / (1 + 2 * jnp.cosh(field))
    ...     def variance(self, field):
    ...         return 2 * jnp.cosh(field) / (1 + 2 * jnp.cosh(field)) - self.mean(field) ** 2
    ...     def mode(self, field):
    ...         return jnp.sign(field)
    ...     def sample(self, key, field):
    ...         odds = jnp.asarray(field)[..., None] * jnp.asarray(self.levels)
    ...         return jnp.asarray(self.levels)[jax.random.categorical(key, odds)]
    >>> import equilibria as eq
    >>> eq.sample(eq.rbm(3, 2, visible=ThreeState(), key=0), eq.Sweeps(5), chains=4, key=1)["visible"].shape
    (4, 3)
    """

    levels: ClassVar[tuple[float, ...] | None] = None
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    joint: ClassVar[bool] = False

    @abstractmethod
    def mean(self, field: Array) -> Array:
        """The average c'(x)."""

    @abstractmethod
    def variance(self, field: Array) -> Array:
        """The variance c''(x)."""

    @abstractmethod
    def mode(self, field: Array) -> Array:
        """The most probable value, argmax of x s - u(s)."""

    @abstractmethod
    def sample(self, key: Array, field: Array) -> Array:
        """An independent draw for every element of `field`."""

    @abstractmethod
    def cumulant(self, field: Array) -> Array:
        """The cumulant generating function c(x)."""

    def entropy(self, field: Array) -> Array:
        """The Legendre transform c(x) - x c'(x): the entropy relative to the unit's own measure."""
        return self.cumulant(field) - field * self.mean(field)

    def self_energy(self, state: Array) -> Array:
        """The energy u(s) of the unit by itself; zero unless a unit says otherwise."""
        return jnp.zeros_like(state)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        return self.bounds if self.levels is None else (min(self.levels), max(self.levels))

    @property
    def two_valued(self) -> bool:
        """Whether each neuron by itself has two values: a spin, whatever they are called."""
        return self.levels is not None and len(self.levels) == 2 and not self.joint

    @property
    def normal_stiffness(self) -> Array | None:
        """The stiffness k of a unit with self-energy k s^2 / 2 on the whole line, None for every other one."""
        return None

    @property
    def tail_stiffness(self) -> Array | None:
        """The stiffness with which the self-energy of an unbounded unit grows far out, None for a bounded one."""
        return self.normal_stiffness

    @property
    def least_curvature(self) -> ArrayLike:
        """The least second derivative of the self-energy, infinite for a discrete unit.

        A nudge by squared error of a strength above minus this leaves the energy a minimum.
        """
        return np.inf if self.levels is not None else 0.0

    def heated(self, temperature: ArrayLike) -> Unit:
        """The same unit with its self-energy divided by the temperature."""
        return self

    def inverse(self, mean: Array) -> Array:
        """The field x in which the average c'(x) is `mean`, by bisection; the mean must lie inside the unit's range.

        A unit that knows its inverse says so; this one is for the others, with fields up to 1000.
        """
        mean = jnp.asarray(mean, float)

        def halved(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = (low + high) / 2
            above = self.mean(middle) > mean
            return jnp.where(above, low, middle), jnp.where(above, middle, high)

        ends = jnp.full_like(mean, -1e3), jnp.full_like(mean, 1e3)
        low, high = jax.lax.fori_loop(0, 50, halved, ends)
        return (low + high) / 2

    def choices(self, size: int) -> np.ndarray | None:
        """The values that one site of a layer of `size` neurons can take, (choices, neurons of a site); None without end.

        A site is a neuron by itself, unless the neurons of a layer answer together.
        """
        return None if self.levels is None else np.asarray(self.levels, np.float32)[:, None]

    def count(self, size: int) -> int | None:
        """How many configurations a layer of `size` such neurons has; None if there is no end of them."""
        choices = self.choices(size)
        return None if choices is None else len(choices) ** (size // choices.shape[1])

    def configuration(self, index: Array, size: int) -> Array:
        """The configurations of a discrete layer with these numbers, from 0 to `count` - 1: (..., size)."""
        choices = jnp.asarray(self.choices(size))
        sites = []
        for _ in range(size // choices.shape[1]):
            sites.append(choices[index % len(choices)])
            index = index // len(choices)
        return jnp.concatenate(sites, axis=-1)

    def nudged(self, field: Array, strength: ArrayLike, target: ArrayLike) -> tuple[Unit, Array]:
        """The unit and field that are equivalent to an extra energy `strength` (s - `target`)^2 / 2."""
        return self, field + strength * target

    def check_size(self, argument: str, size: int) -> None:
        """Refuse a number of neurons that a layer of this unit cannot have; none, unless a unit says so."""

    def check(self, argument: str, values: ArrayLike, *, probabilities: bool = False) -> None:
        """Refuse values that this unit cannot take, or with `probabilities` only those outside its lowest and highest."""
        given = check.concrete(values)
        if given is None:
            return
        if given.dtype.kind not in "fiub" and not jnp.issubdtype(given.dtype, jnp.floating):  # bfloat16 is of kind V
            check.refuse(argument, f"values of type {given.dtype}", "numbers")
        check.finite(argument, values)
        low, high = self.range
        if self.levels is None or probabilities:
            outside, allowed = given[(given < low) | (given > high)], f"values in [{low:g}, {high:g}]"
        else:
            outside, allowed = given[~np.isin(given, np.array(self.levels))], f"only {self.levels}"
            if outside.size and low <= outside.min() and outside.max() <= high:
                allowed = f"{allowed}, or with probabilities=True any mean between,"
        if outside.size:
            check.refuse(
                argument, f"{outside.flat[0]:g} among the values", f"{allowed} for {type(self).__name__} units"
            )
