"""Augmentation: each time a batch is shown, something in it is changed at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.learn.rule import PyTree, Rule, Step
from equilibria.model.network import State


class Augmented(Rule):
    """A rule that sees each batch as a function returns it: with inputs missing, with noise, shifted.

    What the history then says of errors in training is about the augmented examples.

    Args:
        rule: any rule.
        change: a function of a key and the batch that returns another batch; it is compiled with the rest.

    Raises:
        ValueError: if `rule` is no rule, or `change` no function.

    >>> import equilibria as eq, numpy as np
    >>> rule = Augmented(eq.equilibrium_propagation(), InputDropout(0.2))
    >>> run = eq.train(eq.layered((4, 3, 2), key=0), (np.eye(4), np.eye(4)[:, :2]), rule, epochs=1, key=1)
    >>> run.history.sizes["step"]
    1
    """

    rule: Rule
    change: Callable[[Array, Any], Any]

    def __check_init__(self) -> None:
        if not isinstance(self.rule, Rule):
            check.refuse("rule", self.rule, "a recipe, such as equilibrium_propagation()")
        if not callable(self.change):
            check.refuse("change", self.change, "a function of a key and a batch, such as InputDropout(0.2)")

    def begin(self, parameters: PyTree, data: PyTree, batch_size: int, key: Array) -> PyTree:
        """As the rule begins."""
        return self.rule.begin(parameters, data, batch_size, key)

    def step(self, parameters: PyTree, batch: PyTree, *, carry: Any = None, index: Any = None, key: Array) -> Step:
        """The rule's step on the batch as `change` returns it."""
        here, inner = jax.random.split(key)
        return self.rule.step(parameters, self.change(here, batch), carry=carry, index=index, key=inner)

    def prepared(self, parameters: PyTree, data: PyTree, probabilities: bool = False) -> PyTree:
        """As the rule prepares them."""
        return self.rule.prepared(parameters, data, probabilities)

    def opened(self, parameters: PyTree, data: PyTree) -> PyTree:
        """As the rule begins."""
        return self.rule.opened(parameters, data)

    def rate(self, parameters: PyTree, data: PyTree) -> float | None:
        """As the rule says."""
        return self.rule.rate(parameters, data)

    def batch(self, examples: PyTree) -> PyTree:
        """As the rule takes them."""
        return self.rule.batch(examples)

    def learned(self, parameters: PyTree) -> PyTree:
        """As the rule says."""
        return self.rule.learned(parameters)

    def broken(self, parameters: PyTree) -> str | None:
        """As the rule says."""
        return self.rule.broken(parameters)

    def watched(self, parameters: PyTree, updates: PyTree) -> dict[str, Array]:
        """As the rule says."""
        return self.rule.watched(parameters, updates)

    def shared(self, carry: PyTree) -> PyTree:
        """As the rule says."""
        return self.rule.shared(carry)

    def persistent(self, carry: PyTree) -> Mapping[str, Array] | None:
        """As the rule says."""
        return self.rule.persistent(carry)

    @property
    def law_temperature(self) -> Array:
        """As the rule says."""
        return self.rule.law_temperature

    @property
    def remembers(self) -> bool:
        """As the rule says."""
        return self.rule.remembers

    @property
    def counts(self) -> Mapping[str, int | None]:
        """As the rule says."""
        return self.rule.counts


class InputDropout(eqx.Module):
    """Input dropout: each value of a layer is missing (zero) with some probability; the rest are scaled so that the mean stays.

    A regulariser that knows nothing of images (Srivastava et al. 2014, "Dropout", at the inputs only), made for `Augmented`.

    Args:
        fraction: the probability, at most 0.99.
        layer: the layer whose data are changed.

    Raises:
        ValueError: if the fraction is out of its range; when it is called, if the layer has no data.

    >>> import jax.numpy as jnp
    >>> InputDropout(0.5)(jax.random.key(0), {"input": jnp.ones((1, 6))})["input"]
    Array([[0., 0., 2., 2., 0., 2.]], dtype=float32)
    """

    fraction: Array
    layer: str = eqx.field(static=True)

    def __init__(self, fraction: ArrayLike, layer: str = "input"):
        self.fraction = array(check.number("fraction", fraction, least=0.0, most=0.99))
        self.layer = layer

    def __call__(self, key: Array, batch: State) -> State:
        """The batch with some of the layer's values missing, and the rest scaled."""
        if self.layer not in batch:
            check.refuse("layer", self.layer, f"a layer that has data: {', '.join(batch)}")
        kept = jax.random.bernoulli(key, 1 - self.fraction, batch[self.layer].shape)
        return {**batch, self.layer: batch[self.layer] * kept / (1 - self.fraction)}
