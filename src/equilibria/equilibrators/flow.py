r"""Flows: the state of continuous units moves down its energy, with or without noise.

$$ ds = -\frac{\partial F}{\partial s} dt + \sqrt{2T}\, dB $$

with $F$ the energy and the nudges (Scellier and Bengio, equations 37 and 66; their noise $\sigma$ is $\sqrt{2T}$).
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.equilibrators.driver import Equilibrator
from equilibria.equilibrators.setting import Setting
from equilibria.equilibrators.sweep import optional_tolerance, whole
from equilibria.network import State


def _step_size(value):
    return jnp.asarray(check.number("step_size", value, above=0.0), float)


def _force(setting: Setting, state: State, name: str) -> Array:
    """-dF/ds of a layer: the field, the unit's own restoring force and the nudge."""
    unit = setting.inner.layer(name).unit
    restoring = -jax.grad(lambda layer: jnp.sum(unit.self_energy(layer)))(state[name])
    nudge = setting.nudges[name].pull(state[name]) if name in setting.nudges else 0.0
    return setting.field(state, name) + restoring + nudge


def _only_continuous(setting: Setting) -> None:
    for layer in setting.inner.layers:
        if layer.unit.levels is not None:
            check.refuse(
                "network", f"{type(layer.unit).__name__} units in layer {layer.name!r}", "continuous units in a flow"
            )


class GradientFlow(Equilibrator):
    r"""Euler steps down the energy, all layers at once: $s \leftarrow s - \epsilon\, \partial F/\partial s$, kept in bounds.

    Scellier and Bengio, equations 53-54; `step_size` is their epsilon, 0.5 in all their experiments.

    >>> GradientFlow(20).step_size
    Array(0.5, dtype=float32)
    """

    steps: Any = eqx.field(converter=whole("steps"))
    step_size: Any = eqx.field(default=0.5, converter=_step_size)
    tolerance: Any = eqx.field(default=None, converter=optional_tolerance)

    def allowed(self, setting):
        _only_continuous(setting)

    def step(self, setting, state, memory, key):
        moved = {}
        for layer in setting.inner.layers:
            new = state[layer.name] + self.step_size * _force(setting, state, layer.name)
            moved[layer.name] = jnp.clip(new, *layer.unit.bounds)
        return {**state, **moved}, memory


class Langevin(Equilibrator):
    r"""Langevin steps, each accepted or refused by Metropolis' rule so that the Boltzmann law is sampled exactly.

    The proposal is $s' = s - \epsilon\, \partial F/\partial s + \sqrt{2 \epsilon T}\, z$ with z standard normal; a proposal
    out of bounds is refused. `adjusted=False` leaves the rule out, and with it exactness: the law is then off by
    O(`step_size`), and states are pushed back into bounds. The equilibrium's `memory` is how many steps each chain accepted.

    >>> Langevin(100, step_size=0.1).adjusted
    True
    """

    steps: Any = eqx.field(converter=whole("steps"))
    step_size: Any = eqx.field(default=0.1, converter=_step_size)
    adjusted: bool = eqx.field(static=True, default=True)
    tolerance: None = eqx.field(init=False, default=None)

    def allowed(self, setting):
        _only_continuous(setting)
        check.number("temperature", setting.temperature, above=0.0)

    def draws(self, setting):
        return True

    def begin(self, setting, state):
        return jnp.zeros(next(iter(state.values())).shape[:-1], int)

    def step(self, setting, state, memory, key):
        noise_key, accept_key = jax.random.split(key)
        noise_keys = dict(zip(setting.free, jax.random.split(noise_key, len(setting.free)), strict=True))
        drift = {name: self.step_size * _force(setting, state, name) for name in setting.free}
        width = jnp.sqrt(2 * self.step_size * setting.column)
        steps = {
            name: drift[name] + width * jax.random.normal(noise_keys[name], state[name].shape) for name in setting.free
        }
        moved = setting.imposed({**state, **{name: state[name] + step for name, step in steps.items()}})
        bounds = {layer.name: layer.unit.bounds for layer in setting.network.layers}
        proposal = {name: jnp.clip(layer, *bounds[name]) for name, layer in moved.items()}
        if not self.adjusted:
            return proposal, memory + 1
        out_of_bounds = sum(jnp.any(moved[name] != proposal[name], axis=-1) for name in setting.free)
        log_ratio = -(setting.energy(proposal) - setting.energy(state)) / setting.temperature
        for name in setting.free:
            back = self.step_size * _force(setting, proposal, name)
            step = proposal[name] - state[name]
            held = setting.clamps[name].mask if name in setting.clamps else False
            there_and_back = jnp.square(step - drift[name]) - jnp.square(-step - back)
            log_ratio += jnp.sum(jnp.where(held, 0.0, there_and_back), axis=-1) / (2 * width[..., 0] ** 2)
        accepted = (jnp.log(jax.random.uniform(accept_key, memory.shape)) < log_ratio) & (out_of_bounds == 0)
        state = {name: jnp.where(accepted[..., None], proposal[name], layer) for name, layer in state.items()}
        return state, memory + accepted
