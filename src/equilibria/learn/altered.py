"""Learning from altered examples: each time a batch is shown, something in it is changed at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from equilibria import check
from equilibria.learn.contrast import Rule
from equilibria.network import State


class Altered(Rule):
    """A rule that sees each batch as `change(key, batch)` returns it: with inputs missing, with noise, shifted.

    `rule` is any recipe; `change` takes a key and the batch by layer, and is compiled with the rest. What the history then
    says of errors in training is about the altered examples.

    >>> import equilibria as eq, numpy as np
    >>> rule = Altered(eq.equilibrium_propagation(), Missing(0.2))
    >>> run = eq.train(eq.layered((4, 3, 2), key=0), (np.eye(4), np.eye(4)[:, :2]), rule, epochs=1, key=1)
    >>> run.history.sizes["step"]
    1
    """

    rule: Rule
    change: Callable[[Array, State], State]

    def __check_init__(self):
        if not isinstance(self.rule, Rule):
            check.refuse("rule", self.rule, "a recipe, such as equilibrium_propagation()")
        if not callable(self.change):
            check.refuse("change", self.change, "a function of a key and a batch, such as Missing(0.2)")

    @property
    def watch_changes(self):
        return self.rule.watch_changes

    @property
    def chains(self):
        return self.rule.chains

    def begin(self, network, data, batch_size, key):
        return self.rule.begin(network, data, batch_size, key)

    def step(self, network, data, *, memory=None, index=None, key):
        here, inner = jax.random.split(key)
        return self.rule.step(network, self.change(here, dict(data)), memory=memory, index=index, key=inner)


def _fraction(value):
    return jnp.asarray(check.number("fraction", value, least=0.0, most=0.99), float)


class Missing(eqx.Module):
    """Each value of a layer is missing (zero) with probability `fraction`; the rest are scaled so that the mean stays.

    A regulariser that knows nothing of images (Srivastava et al. 2014, "Dropout", at the inputs only), made for `Altered`.

    >>> Missing(0.5)(jax.random.key(0), {"input": jnp.ones((1, 6))})["input"]
    Array([[0., 0., 2., 2., 0., 2.]], dtype=float32)
    """

    fraction: Any = eqx.field(converter=_fraction)
    layer: str = eqx.field(static=True, default="input")

    def __call__(self, key: Array, batch: State) -> State:
        if self.layer not in batch:
            check.refuse("layer", self.layer, f"a layer that has data: {', '.join(batch)}")
        kept = jax.random.bernoulli(key, 1 - self.fraction, batch[self.layer].shape)
        return {**batch, self.layer: batch[self.layer] * kept / (1 - self.fraction)}
