r"""Mean field and its corrections: the high-temperature expansion of the free energy at fixed means.

For neurons with means m, in units of the temperature (Plefka 1982; Georges and Yedidia 1991),

$$ \ln Z \approx \sum_i [S_i(m_i) + b_i m_i] + \sum_{(ij)} \left[ W_{ij} m_i m_j + \tfrac12 W_{ij}^2 v_i v_j
   + \tfrac16 W_{ij}^3 k_i k_j \right] $$

with S the entropy, v the variance and k the third cumulant of a neuron by itself that has the mean m. One term of the
bracket is naive mean field, two are the Thouless-Anderson-Palmer (TAP) equations, three their third order. (Triangles,
which also enter at third order, do not exist between layers.) For 0/1 neurons k = v(1 - 2m), and this is the expansion
of Gabrié, Tramel and Krzakala (2015); the cumulants make it the same formula for every unit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.conditioned import Conditioned
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, optional_tolerance, whole
from equilibria.model.network import State
from equilibria.model.units import Unit

# The mean of a bounded unit stays this fraction of its range away from the ends, where single precision has no inverse.
_MARGIN = 1e-6


class MeanField(Equilibrator):
    """Rounds of the mean-field equations, the layers of one colour after those of the other.

    The state reached holds means, a stationary point of the module's expansion of ln Z. Where the machine has several modes
    the start chooses one of them.

    Args:
        steps: how many rounds at most.
        order: 1 for naive mean field, 2 for TAP, 3 for its third order, which is between layers only.
        damping: the fraction of each old mean that is kept.
        tolerance: stops when no mean moves by more.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(20, 5, key=0), MeanField(order=2))
    >>> bool(rest.converged)
    True
    """

    steps: Array
    order: Literal[1, 2, 3] = eqx.field(static=True)
    damping: Array
    tolerance: Array | None

    def __init__(
        self,
        steps: int | Array = 200,
        order: Literal[1, 2, 3] = 2,
        damping: ArrayLike = 0.5,
        tolerance: ArrayLike | None = 1e-5,
    ):
        self.steps, self.tolerance = whole("steps", steps), optional_tolerance(tolerance)
        self.order = check.choice("order", order, (1, 2, 3))
        self.damping = array(check.number("damping", damping, least=0.0, most=0.99))

    @property
    def kind(self) -> Kind:
        """It averages."""
        return "averages"

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent, whose averages are known."""
        return not system.independent

    def log_partition(self, system: Conditioned, state: State) -> Array:
        """The expansion's ln Z at these means."""
        return -self.free_energy(system, state) / system.temperature

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero, nudges, partial clamps, and units or couplings that an order does not serve."""
        check.number("temperature", system.temperature, above=0.0)
        if system.nudges or set(system.clamps) & set(system.free):
            check.refuse("world", "a nudge or a partial clamp", "for mean field: clamps of whole layers")
        if self.order == 1:
            return
        for layer in system.inner.layers:
            if layer.unit.joint:
                kind = type(layer.unit).__name__
                check.refuse("order", self.order, f"1 with {kind} units, which are not independent of one another")
        for coupling in system.inner.couplings:
            if coupling.lateral and self.order == 3:
                kind = f"a {type(coupling).__name__} coupling of {coupling.ends}"
                check.refuse("order", f"{self.order} with {kind}", "1 or 2; 3 between layers only")

    def step(self, system: Conditioned, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """One round: each layer's means from the effective fields of the others."""
        for colour in reversed(system.network.colours):
            for name in (name for name in colour if name in system.free):
                unit = system.inner.layer(name).unit.heated(system.column)
                field = system.field(state, name) / system.column + self._reaction(system, state, name)
                mean = self.damping * state[name] + (1 - self.damping) * unit.mean(field)
                state = {**state, name: mean}
        return state, carry

    def _reaction(self, system: Conditioned, state: State, name: str) -> Array:
        """The Onsager reaction, a neuron's own effect on its neighbours: the corrections' derivative in its mean."""
        if self.order == 1:
            return jnp.zeros(())
        own = _spread(system, state, name, self.order)
        variance_pull, skewness_pull = jnp.zeros(()), jnp.zeros(())
        for coupling in system.inner.couplings:
            if name in coupling.ends:
                other = coupling.ends[coupling.ends[0] == name]
                weights = coupling.matrix() / system.temperature[..., None, None]
                weights = weights if coupling.ends[1] == name else jnp.swapaxes(weights, -1, -2)
                there = own if coupling.lateral else _spread(system, state, other, self.order)
                variance_pull += _pulled(there[0], weights**2) / 2
                if self.order == 3:
                    skewness_pull += _pulled(there[1], weights**3) / 6
        slope, bend = own[2:]
        return variance_pull * slope + skewness_pull * bend

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """-T ln Z of the expansion: its gradient at fixed means is the average of dE's, corrections included."""
        if system.independent:
            return system.summed_out(state)
        total = system.network.energy(state)
        for name in system.free:
            layer = system.inner.layer(name)
            unit = layer.unit.heated(system.column)
            field = _field(unit, state[name])
            entropy = jnp.sum(unit.cumulant(field) - field * state[name], axis=-1)
            # The entropy is relative to the unit's own measure, which holds its self-energy already.
            total -= jnp.sum(layer.unit.self_energy(state[name]), axis=-1) + system.temperature * entropy
        return total - system.temperature * self._corrections(system, state)

    def _corrections(self, system: Conditioned, state: State) -> Array:
        """The terms of second and third order in the couplings."""
        total = jnp.zeros(())
        if self.order == 1:
            return total
        spreads = {name: _spread(system, state, name, self.order) for name in system.free}
        for coupling in system.inner.couplings:
            first, second = (spreads[end] for end in coupling.ends)
            weights = coupling.matrix() / system.temperature[..., None, None]
            pairs = 2 if coupling.lateral else 1  # a lateral matrix holds each pair twice
            total += jnp.sum(_pulled(first[0], weights**2) * second[0], axis=-1) / (2 * pairs)
            if self.order == 3:
                total += jnp.sum(_pulled(first[1], weights**3) * second[1], axis=-1) / 6
        return total


def _pulled(state: Array, weights: Array) -> Array:
    """The product state @ weights, for one matrix or one for each chain."""
    return jnp.squeeze(state[..., None, :] @ weights, axis=-2) if weights.ndim > 2 else state @ weights


def _field(unit: Unit, mean: Array) -> Array:
    """The field in which a unit has this mean, kept away from the ends of its range; no gradient goes through it."""
    low, high = unit.range
    margin = _MARGIN * (high - low) if high < jnp.inf else 0.0
    return jax.lax.stop_gradient(unit.inverse(jnp.clip(mean, low + margin, high - margin)))


def _spread(system: Conditioned, state: State, name: str, order: int) -> tuple[Array, Array, Array, Array]:
    """Variance v and third cumulant k of each neuron at its mean, and their derivatives in the mean."""
    unit = system.inner.layer(name).unit.heated(system.column)
    field = _field(unit, state[name])

    def slope(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda field: jax.jvp(function, (field,), (jnp.ones_like(field),))[1]

    skewness = slope(unit.variance)
    variance, third = unit.variance(field), skewness(field)
    fourth = slope(skewness)(field) if order == 3 else jnp.zeros_like(field)
    safe = jnp.where(variance > 0, variance, 1.0)
    return variance, third, third / safe, fourth / safe
