r"""Cavity message passing between two layers of two-valued neurons, and its Bethe free energy.

Two-valued units are spins in disguise: the pair of layers is $p(\sigma, \tau) \propto e^{b\sigma + c\tau + \sigma^T w \tau}$.
Each neuron sends its partners the field it would have without them (Huang 2019, equation 10):

$$ u_{\mu \to i} = \tanh^{-1}\!\big(\tanh w_{i\mu} \tanh(c_\mu + \textstyle\sum_{j \ne i} v_{j \to \mu})\big), \qquad
   v_{i \to \mu} = \tanh^{-1}\!\big(\tanh w_{i\mu} \tanh(b_i + \textstyle\sum_{\nu \ne \mu} u_{\nu \to i})\big). $$

The paper replaces the sum over j by its first two orders in the couplings, $\sum_j w_{j\mu} m_{j \to \mu}$; here it is kept
whole, at the same cost, so that strong couplings are served as well and the result is exact without loops.

At the fixed point everything follows from the means of the two layers (`equilibrators.bethe`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.bethe import bethe, middle, neurons_first, spins
from equilibria.equilibrators.conditioned import Conditioned, conditioned
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.equilibrator import Equilibrator, Kind, optional_tolerance, whole
from equilibria.model.network import Network, State

_BELOW_ONE = 1 - 2.0**-23


def _means(system: Conditioned, state: State) -> list[Array]:
    """The state of the two layers as means of spins."""
    middles = {name: middle(system, name) for name in system.inner.couplings[0].ends}
    return [(state[name] - centre) / half for name, (centre, half) in middles.items()]


class Cavity(Equilibrator):
    r"""Message passing between two layers of two-valued neurons; the state reached holds means.

    It iterates equation (10) of Huang 2019, as the module writes it.

    Args:
        steps: the most iterations of (10).
        damping: the fraction of each old message that is kept, for couplings so strong that plain iteration cycles.
        tolerance: stops when no mean moves by more; `Equilibrium.converged` says for each chain whether it came to that.
        response: corrects the correlation of each pair by the linear response of the fixed point,
            $\partial m_i / \partial c_\mu$, which also counts the paths between the two through all other neurons; the
            pair by itself (equation 15c) counts only the edge.

    Raises:
        ValueError: if a number is out of its range.

    >>> import equilibria as eq
    >>> rest = eq.equilibrate(eq.rbm(20, 3, visible=eq.Spin(), hidden=eq.Spin(), key=0), Cavity())
    >>> bool(rest.converged), rest["hidden"].shape
    (True, (3,))
    """

    steps: Array
    damping: Array
    tolerance: Array | None
    response: bool = eqx.field(static=True)

    def __init__(
        self,
        steps: int | Array = 200,
        damping: ArrayLike = 0.0,
        tolerance: ArrayLike | None = 1e-6,
        response: bool = False,
    ):
        self.steps, self.tolerance, self.response = whole("steps", steps), optional_tolerance(tolerance), response
        self.damping = array(check.number("damping", damping, least=0.0, most=0.99))

    @property
    def kind(self) -> Kind:
        """It averages."""
        return "averages"

    def needs_state(self, system: Conditioned) -> bool:
        """Unless the free layers are independent, whose averages are known."""
        return not system.independent

    def allowed(self, system: Conditioned) -> None:
        """Refuse temperature zero, nudges, and free layers other than one pair of two-valued ones."""
        check.number("temperature", system.temperature, above=0.0)
        if system.nudges or set(system.clamps) & set(system.free):
            check.refuse("world", "a nudge or a partial clamp", "for message passing: clamps of whole layers")
        inner = system.inner
        units = {layer.name: type(layer.unit).__name__ for layer in inner.layers}
        two_valued = all(layer.unit.two_valued for layer in inner.layers)
        one_pair = len(inner.layers) == 2 and len(inner.couplings) == 1 and not inner.lateral
        if not system.independent and not (one_pair and two_valued):
            check.refuse(
                "network", f"free layers {units}", "for message passing: two coupled layers of Spin or Binary units"
            )

    def begin(self, system: Conditioned, state: State) -> Any:
        """The messages to the first layer, as the second layer's state would send them by itself, and what they add up to."""
        if system.independent:
            return None
        mean = _means(system, state)[1]
        pair = neurons_first(spins(system), mean.ndim - 1)
        to_first = _message(pair.coupling, jnp.moveaxis(mean, -1, 0))
        return to_first, pair.first + _sum_of_atanh(to_first, 1)

    def step(self, system: Conditioned, state: State, carry: Any, key: Any) -> tuple[State, Any]:
        """One iteration: messages to the second layer, then to the first."""
        if system.independent:
            return {**state, **_conditional_means(system, state)}, None
        to_first, into_first = carry
        coupling, first, second, _ = neurons_first(spins(system), into_first.ndim - 1)
        to_second = _message(coupling, _without(into_first[:, None], to_first))
        into_second = second + _sum_of_atanh(to_second, 0)
        to_first = self.damping * to_first + (1 - self.damping) * _message(coupling, _without(into_second, to_second))
        into_first = first + _sum_of_atanh(to_first, 1)
        means = jnp.tanh(into_first), jnp.tanh(into_second)
        moved = {}
        for name, mean in zip(system.inner.couplings[0].ends, means, strict=True):
            centre, half = middle(system, name)
            moved[name] = centre + half * jnp.moveaxis(mean, 0, -1)
        return {**state, **moved}, (to_first, into_first)

    def free_energy(self, system: Conditioned, state: State) -> Array:
        """The Bethe free energy -T ln Z, whose gradient at fixed means is the average of dE's."""
        if system.independent:
            return system.summed_out(state)
        means = jax.lax.stop_gradient(_means(system, state))
        log_partition = bethe(spins(system), *means, response=self.response)
        return system.network.energy(_emptied(system, state)) - system.temperature * log_partition

    def log_partition(self, system: Conditioned, state: State) -> Array:
        """The Bethe approximation to ln Z."""
        return -self.free_energy(system, state) / system.temperature


def _conditional_means(system: Conditioned, state: State) -> State:
    """The exact means of layers that are not coupled to one another."""
    units = {name: system.inner.layer(name).unit.heated(system.column) for name in system.free}
    return {name: unit.mean(system.field(state, name) / system.column) for name, unit in units.items()}


def _emptied(system: Conditioned, state: State) -> State:
    """The state with nothing in the free layers: its energy is what the held layers have by themselves."""
    return {name: jnp.zeros_like(layer) if name in system.free else layer for name, layer in state.items()}


def _message(coupling: Array, mean: Array) -> Array:
    """The tanh of a message, tanh w m, cut off where single precision has no larger value below one (a field of 8)."""
    return jnp.clip(jnp.tanh(coupling) * mean, -_BELOW_ONE, _BELOW_ONE)


def _sum_of_atanh(messages: Array, axis: int) -> Array:
    """The field that messages given by their tanh add up to, with one logarithm for every four of them."""
    quarter = -(-messages.shape[axis] // 4)
    missing = [(0, 0)] * messages.ndim
    missing[axis] = (0, 4 * quarter - messages.shape[axis])
    a, b, c, d = jnp.split(jnp.pad(messages, missing), 4, axis)
    ratio = (1 + a) * (1 + b) * (1 + c) * (1 + d) / ((1 - a) * (1 - b) * (1 - c) * (1 - d))
    return jnp.sum(jnp.log(ratio), axis=axis) / 2


def _without(field: Array, message: Array) -> Array:
    """The mean tanh(field - atanh(message)), where `field` has the message in it: no digits are lost on large ones."""
    ratio = jnp.exp(2 * jnp.clip(field, -40.0, 40.0))
    up, down = ratio * (1 - message), 1 + message
    return (up - down) / (up + down)


class Bethe(NamedTuple):
    """What message passing says of a network.

    Attributes:
        log_partition: the Bethe approximation to ln Z, for each chain.
        means: of the neurons, by layer.
        converged: whether the messages came to rest; None without a tolerance.
        steps: after how many iterations.

    >>> import equilibria as eq
    >>> found = eq.bethe_log_partition(eq.rbm(weights=[[0.0, 0.0]]))
    >>> found.log_partition.round(4), found.means["visible"]
    (Array(2.0794, dtype=float32), Array([0.5], dtype=float32))
    """

    log_partition: Array
    means: State
    converged: Array | None
    steps: Array


def bethe_log_partition(
    network: Network,
    how: Cavity | None = None,
    start: State | None = None,
    *,
    temperature: ArrayLike = 1.0,
    key: Array | int | None = None,
) -> Bethe:
    """The Bethe approximation to ln Z of a restricted Boltzmann machine with Spin or Binary units.

    It is that of the module, the paper's equation (11) of Huang 2019 with all orders of the couplings. It is exact without
    loops and close to it where the couplings are weak or many. Where the machine has several modes the messages settle in one
    of them, chosen by `start` (or drawn with `key`), and ln Z counts that mode alone.

    Args:
        network: two coupled layers of Spin or Binary units.
        how: the message passing, `Cavity()` by default.
        start: states by layer, as in `equilibrate`.
        temperature: one number, or one for each chain.
        key: a random key or a seed, where the start is to be drawn.

    Returns:
        The value, with the means and whether the messages came to rest.

    Raises:
        ValueError: if the network is no such machine, or the temperature is not above zero.

    >>> import equilibria as eq
    >>> machine = eq.rbm(6, 1, scale=1.0, key=0)
    >>> jnp.isclose(bethe_log_partition(machine).log_partition, eq.log_partition(machine, method="exact").value, atol=1e-4)
    Array(True, dtype=bool)
    """
    how = Cavity() if how is None else how
    rest = equilibrate(network, how, start, temperature=temperature, key=key)
    value = -how.free_energy(conditioned(network, (), temperature), rest.state) / jnp.asarray(temperature)
    settled = None if rest.converged is None else rest.converged & jnp.isfinite(value)
    return Bethe(value, rest.state, settled, rest.steps)
