r"""What the outside imposes on a network: values that are held (`Clamp`) and a pull towards a target (`Nudge`).

With both, the total energy is $F = E(s) + \sum \text{strength} \cdot \text{cost}(s_{\text{layer}}, \text{target})$ over the
states that agree with the clamps (Scellier and Bengio, equations 5-6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.model.units import Unit

Cost: TypeAlias = Callable[[Array, Array], Array]


def squared_error(state: ArrayLike, target: ArrayLike) -> Array:
    r"""Half the squared distance of each configuration from its target.

    $$ C = \tfrac12 \|s - y\|^2 $$

    (Scellier and Bengio, equation 8.)

    Args:
        state: (..., size).
        target: y, of the same size.

    Returns:
        One number for each configuration, (...).

    >>> squared_error(jnp.array([1.0, 0.0]), jnp.array([0.0, 0.0]))
    Array(0.5, dtype=float32)
    """
    return jnp.sum(jnp.square(jnp.asarray(state) - target), axis=-1) / 2


def cross_entropy(state: ArrayLike, target: ArrayLike) -> Array:
    r"""The cross-entropy of a softmax read-out of each configuration.

    $$ C = -\sum_i y_i \ln \text{softmax}(s)_i $$

    Args:
        state: the logits, (..., classes): linear units, `Gaussian`, are the natural choice for such an output layer.
        target: y, a probability of each class, or 1 for the right one and 0 for the others.

    Returns:
        One number for each configuration, (...).

    >>> cross_entropy(jnp.zeros(4), jnp.array([0.0, 1.0, 0.0, 0.0])).round(4)
    Array(1.3863, dtype=float32)
    """
    return -jnp.sum(jnp.asarray(target) * jax.nn.log_softmax(jnp.asarray(state)), axis=-1)


class Clamp(eqx.Module):
    r"""Hold a layer, or some of its neurons, at given values.

    In the energy of Scellier and Bengio, equation (6), it is the limit $\beta_x = +\infty$.

    Args:
        layer: the name of the layer.
        values: (..., size); leading axes are chains or examples.
        mask: true for the neurons that are held; all of them by default.

    >>> Clamp("visible", [1.0, 0.0, 1.0]).imposed(jnp.zeros(3))
    Array([1., 0., 1.], dtype=float32)
    >>> Clamp("visible", [1.0, 0.0, 1.0], mask=[True, False, False]).imposed(jnp.full(3, 0.5))
    Array([1. , 0.5, 0.5], dtype=float32)
    """

    layer: str = eqx.field(static=True)
    values: Array
    mask: Array | None

    def __init__(self, layer: str, values: ArrayLike, mask: ArrayLike | None = None):
        self.layer, self.values = layer, array(values)
        self.mask = None if mask is None else array(mask, bool)

    def imposed(self, state: Array) -> Array:
        """`state` with the held values in place."""
        if self.mask is None:
            return jnp.broadcast_to(self.values, jnp.broadcast_shapes(self.values.shape, state.shape))
        return jnp.where(self.mask, self.values, state)


class Nudge(eqx.Module):
    r"""Pull a layer towards a target by an extra energy.

    $$ A = \xi\, C(s, y) $$

    with $\xi$ the `strength`, y the `target` and C the `cost` (Scellier and Bengio, equations 5 and 6; its force is 43). The
    squared error is met exactly by every way of coming to rest; any other cost acts through its gradient at the current state.

    Args:
        layer: the name of the layer.
        target: (..., size); leading axes are chains or examples.
        strength: above zero pulls towards the target, below zero pushes away from it.
        cost: a function of state and target that gives one number for each configuration.

    Raises:
        ValueError: if the strength is not finite.

    >>> Nudge("output", jnp.array([0.0, 1.0]), strength=0.5).energy(jnp.array([0.0, 0.0]))
    Array(0.25, dtype=float32)
    """

    layer: str = eqx.field(static=True)
    target: Array
    strength: Array
    cost: Cost = eqx.field(static=True)

    def __init__(self, layer: str, target: ArrayLike, strength: ArrayLike, cost: Cost = squared_error):
        self.layer, self.target, self.cost = layer, array(target), cost
        self.strength = array(check.number("strength", strength))

    def energy(self, state: Array) -> Array:
        """What the nudge adds to the energy."""
        return self.strength * self.cost(state, self.target)

    def pull(self, state: Array) -> Array:
        """The force of the nudge on the layer, minus the gradient of its energy."""
        return -jax.grad(lambda layer: jnp.sum(self.energy(layer)))(state)

    def applied(self, unit: Unit, field: Array, state: Array) -> tuple[Unit, Array]:
        """The unit and the effective field of the layer under the nudge."""
        if self.cost is squared_error:
            return unit.nudged(field, self.strength, self.target)
        return unit, field + self.pull(state)


World: TypeAlias = Clamp | Nudge | Iterable[Clamp | Nudge]


def clamps_and_nudges(world: World) -> tuple[dict[str, Clamp], dict[str, Nudge]]:
    """The clamps and the nudges by layer; a layer may have one of each.

    >>> clamps_and_nudges(Clamp("visible", [1.0]))[1]
    {}
    """
    parts = (world,) if isinstance(world, (Clamp, Nudge)) else tuple(world)
    found: dict[type, dict] = {Clamp: {}, Nudge: {}}
    for part in parts:
        if not isinstance(part, (Clamp, Nudge)):
            check.refuse("world", repr(part), "Clamp and Nudge objects")
        kind = found[type(part)]
        if part.layer in kind:
            check.refuse("world", f"two {type(part).__name__}s of layer {part.layer!r}", "one of each kind for a layer")
        kind[part.layer] = part
    return found[Clamp], found[Nudge]
