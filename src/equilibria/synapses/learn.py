"""Learning binary synapses: gradient ascent of the bound with any E-step, for many data sets side by side.

The rule is a `Rule` like any other, and the loop is that of `train`. A figure of the paper needs a hundred small runs at
once: they are mapped over, and one compiled step serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.sweep import Sweeps
from equilibria.html import last_row
from equilibria.learn.journey import Metrics
from equilibria.learn.loop import Loop
from equilibria.learn.rule import Rule, Step
from equilibria.model.units import Spin
from equilibria.random import as_key, split, split_array
from equilibria.synapses.bound import ascent, expected_energy
from equilibria.synapses.data import natural_prior, stacked
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.e_step import Fields, begin, drawn, e_step, quadrature, samples
from equilibria.synapses.paper_cavity import PaperCavity

EStep = Literal["exact", "cavity", "response", "gibbs", "paper"]
E_STEPS: dict[str, Callable[[], Equilibrator]] = {
    "exact": Exact,
    "cavity": lambda: Cavity(50, tolerance=1e-4),
    "response": lambda: Cavity(50, tolerance=1e-4, response=True),
    "gibbs": lambda: Sweeps(10),
    "paper": PaperCavity,
}
MOST_EXACT = 25  # hidden units: 2^25 states, summed in pieces
_EXACT_BY_DEFAULT = 12
_GRID = {1: 13, 2: 9, 3: 7}  # points in each dimension of the fields, by number of hidden units
_NODES = 13  # of the data's average, which is over one dimension
_DRAWS = 32
_CHAINS = 500  # fields for sampling, whose noise is that of the chains
_WIDTH = 0.1  # of the natural parameters at the start
_RATE = 0.03
# The learning rate lives in the optimiser's state, so that another rate does not compile again.
_MOMENTUM = optax.inject_hyperparams(optax.sgd, static_args="momentum")(learning_rate=_RATE, momentum=0.9)


class SynapseRun(NamedTuple):
    """What learning leaves.

    Attributes:
        synapses: the law that was learned, with a leading axis for several data sets.
        history: the records, an `xarray.Dataset`.
        stopped: why a callback ended the run, None if it went to its end.

    >>> run = learn_synapses(np.sign(np.random.default_rng(0).standard_normal((40, 10))), 2, steps=20, key=0)
    >>> run.synapses.mean.shape, bool(run.history["bound"][-1] > run.history["bound"][0]), run.stopped
    ((10, 2), True, None)
    """

    synapses: Synapses
    history: xr.Dataset
    stopped: str | None = None

    def _repr_html_(self) -> str:
        return last_row("Learned synapses", self.history, self.stopped)


def learn_synapses(
    data: ArrayLike | Sequence[ArrayLike],
    hidden_size: int,
    *,
    steps: int = 200,
    how: EStep | Equilibrator | None = None,
    temperature: float = 1.0,
    prior: ArrayLike = 0.0,
    fields: int | None = None,
    batch_size: int | None = None,
    weights: ArrayLike | None = None,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    learn_bias: bool = False,
    start: Synapses | None = None,
    starts: int = 1,
    metrics: Metrics | None = None,
    every: int = 1,
    callbacks: Sequence[Any] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1000,
    resume: bool = False,
    devices: int | Sequence[jax.Device] | None = None,
    show_progress: bool | None = None,
    key: Array | int,
) -> SynapseRun:
    r"""Learn the distribution of binary weights between data of +-1 and `hidden_size` hidden spins (Huang 2019).

    Each step moves the natural parameters $\tanh^{-1}\lambda$ by the bound's gradient in the means $\lambda$, equation
    (16): this is the natural gradient, and it respects $|\lambda| < 1$ by itself.

    Args:
        data: (M, N), or a list of such arrays to learn from side by side.
        hidden_size: number of hidden spins.
        steps: number of updates.
        how: the E-step: "exact" (the default for up to 12 hidden units), "cavity" (message passing to all orders of the
            couplings), "response" (that with linear response; the default beyond), "gibbs" (persistent chains), "paper" (the
            paper's messages (10) and moments (15), which learn less), or any equilibrator.
        temperature: $1/\beta$.
        prior: the mean m of each weight's prior.
        fields: how many Gaussian fields the equivalent machine is averaged over, drawn anew each step: by default 32, or a
            fixed grid for up to 3 hidden units; for an E-step that samples 500 that stay, with two chains each.
        batch_size: examples of each step, all by default.
        weights: (M,) for one data set, none below zero: how much each example counts in the bound, in shares of the examples
            that count at all.
        learning_rate: 0.03, with momentum 0.9; it multiplies the gradient of the whole bound, which grows with M: more
            data than 5 N want a smaller one.
        optimiser: an optax transformation in its place.
        learn_bias: learns fields on the visible spins too.
        start: goes on from other synapses.
        starts: each data set is learned from as many random starts, and the run with the highest bound is kept:
            correlated receptive fields have local maxima.
        metrics: a function of the synapses (with a leading axis for several data sets) that returns numbers by name.
        every: how many steps lie between two records.
        callbacks: as in `train`.
        checkpoint: a folder for the full state.
        checkpoint_every: every so many steps.
        resume: goes on from what is in the folder; what decides the run must be as it was.
        devices: as in `train`, for one data set.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The synapses and the history: the bound (where the E-step knows ln Z), the KL divergence, the fraction of fields
        that did not converge, and what `metrics` returned, from step 0 on.

    Raises:
        ValueError: if an argument cannot be served, or what is resumed is another run.
        Diverged: if the synapses are no longer finite.

    >>> rng = np.random.default_rng(0)
    >>> run = learn_synapses(rng.choice([-1, 1], (40, 10)), 2, steps=20, key=0)
    >>> run.synapses.decoded.shape, run.history.sizes["step"]
    ((10, 2), 21)
    """
    several, spins, present = stacked(data, batch_size is None, weights)
    shape = spins.shape[-1], check.count("hidden_size", hidden_size)
    steps, every = check.count("steps", steps), check.count("every", every)
    if several and batch_size is not None:
        check.refuse("batch_size", batch_size, "None for several data sets, whose sizes may differ")
    how = chosen_e_step(how, shape[1])
    if check.count("starts", starts) > 1 and (start is not None or not how.knows_log_partition):
        check.refuse("starts", starts, "1 where `start` is given, or for sampling, which does not know the bound")
    rule = SynapseRule(how, natural_prior(prior, shape), _draws(fields, shape[1], how), bool(learn_bias))
    mapped = several or starts > 1
    keys = split_array(as_key(key), len(spins) * starts)
    synapses = _starting_synapses(start, shape, temperature, several, keys)
    shown = {name: np.repeat(rows, starts, axis=0) for name, rows in (("spins", spins), ("present", present))}
    if not mapped:
        synapses, shown = (jax.tree.map(lambda leaf: np.asarray(leaf)[0], tree) for tree in (synapses, shown))
        (keys,) = split(as_key(key), 1)
    synapses, shown = jax.tree.map(lambda leaf: array(leaf, leaf.dtype), (synapses, shown))
    loop = Loop(
        rule, shown, keys, spins.shape[1] if batch_size is None else batch_size, mapped=mapped, apart=mapped,
        optimiser=optimiser or _MOMENTUM, devices=devices, label="learning",
        learning_rate=_RATE if learning_rate is None and optimiser is None else learning_rate,
    )  # fmt: skip
    found, history, stopped = loop.run(
        synapses, steps, [*range(0, steps, every), steps], metrics=metrics, callbacks=callbacks, checkpoint=checkpoint,
        every=checkpoint_every, resume=resume, show_progress=show_progress,
    )  # fmt: skip
    rows = history.dataset(("set",) if mapped else ()).drop_vars("epoch")
    if starts == 1:
        return SynapseRun(found.parameters, rows, stopped)
    best = np.argmax(rows["bound"].values[-1].reshape(-1, starts), axis=1) + starts * np.arange(len(spins))
    if not several:
        best = best[0]
    return SynapseRun(jax.tree.map(lambda leaf: leaf[best], found.parameters), rows.isel(set=best), stopped)


def chosen_e_step(how: str | Equilibrator | None, hidden_size: int) -> Equilibrator:
    """The equilibrator of that name, or the default for as many hidden units.

    >>> chosen_e_step(None, 100).response
    True
    """
    if how is None:
        how = "exact" if hidden_size <= _EXACT_BY_DEFAULT else "response"
    if isinstance(how, Equilibrator):
        return how
    if how == "exact" and hidden_size > MOST_EXACT:
        check.refuse(
            "how",
            f"the exact E-step with {hidden_size} hidden units, a sum over 2^{hidden_size} states",
            f"up to {MOST_EXACT} hidden units; beyond, 'cavity', 'response' or 'gibbs'",
        )
    return E_STEPS[check.choice("how", how, E_STEPS)]()


class SynapseRule(Rule):
    """Gradient ascent of the bound (6) in the natural parameters of binary synapses, with any E-step.

    Args:
        how: the E-step.
        prior: natural parameters of the weights' prior, (N, P).
        draws: fields drawn each step; None takes a fixed grid.
        learn_bias: whether the visible fields are learned.
    """

    how: Equilibrator
    prior: Array
    draws: int | None = eqx.field(static=True)
    learn_bias: bool = eqx.field(static=True)
    peeks: ClassVar[bool] = True

    def _fields(self, key: Array) -> Fields:
        hidden_size = self.prior.shape[1]
        return (
            quadrature(hidden_size, _GRID[hidden_size]) if self.draws is None else drawn(hidden_size, self.draws, key)
        )

    @eqx.filter_jit
    def begin(self, parameters: Synapses, data: Mapping[str, Array], batch_size: int, key: Array) -> dict[str, Any]:
        """The chains of the E-step, with their fields if it samples, and how many examples there are in all."""
        field_key, chain_key = jax.random.split(key)
        fields = self._fields(field_key)
        sizes = dict(zip(("visible", "hidden"), parameters.natural.shape, strict=True))
        count = len(fields.weights)
        chains = {name: jnp.zeros((count, size)) for name, size in sizes.items()}
        if samples(self.how):
            keys = dict(zip(sizes, jax.random.split(chain_key), strict=True))
            chains = {name: Spin().sample(keys[name], jnp.zeros((2 * count, sizes[name]))) for name in sizes}
        carry = {"chains": chains, "examples": jnp.sum(data["present"])}
        if samples(self.how):  # other ways come to rest anew in every step
            carry |= {"fields": fields.values, "carried": begin(self.how, parameters, fields, chains)}
        return carry

    def step(self, parameters: Synapses, batch: Mapping[str, Array], *, carry: Any, index: Any, key: Array) -> Step:
        """The gradient of minus the bound; the report is on the synapses before the step."""
        field_key, equilibrium_key = jax.random.split(key)
        fields = self._fields(field_key)
        if "fields" in carry:
            fields = fields._replace(values=carry["fields"])
        moments = e_step(self.how, parameters, fields, carry["chains"], equilibrium_key, carry.get("carried"))
        examples = carry["examples"]
        present = batch["present"] * (examples / jnp.sum(batch["present"]))
        expected = expected_energy(parameters, batch["spins"], present, _NODES)
        found = ascent(parameters, expected, moments, examples, self.prior)

        def report() -> dict[str, Array]:
            known = {"divergence": found.divergence(), "unconverged": moments.unconverged, "bound": found.bound()}
            return {name: value for name, value in known.items() if value is not None}

        gradient = eqx.tree_at(lambda s: (s.natural, s.bias), parameters, (-found.mean, -found.bias))
        kept = {"carried": moments.carry} if "carried" in carry else {}
        return Step(gradient, {**carry, **kept, "chains": moments.state}, report)

    def learned(self, parameters: Synapses) -> Synapses:
        """The natural parameters, and the biases if they are asked for; never the temperature."""
        return eqx.tree_at(lambda s: (s.natural, s.bias, s.temperature), parameters, (True, self.learn_bias, False))


def _draws(fields: int | None, hidden_size: int, how: Equilibrator) -> int | None:
    if fields is not None:
        return check.count("fields", fields)
    if samples(how):
        return _CHAINS
    return None if hidden_size in _GRID else _DRAWS


def _starting_synapses(
    start: Synapses | None, shape: tuple[int, int], temperature: float, several: bool, keys: Array
) -> Synapses:
    if start is None:
        check.number("temperature", temperature, above=0.0)
        return _drawn_synapses(keys, array(temperature), shape)
    check.shape("start", start.natural, shape)
    return start if several else jax.tree.map(lambda leaf: np.asarray(leaf)[None], start)


@partial(jax.jit, static_argnames="shape")
def _drawn_synapses(keys: Array, temperature: Array, shape: tuple[int, int]) -> Synapses:
    """A start for each key."""
    drawn = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 1), shape))(keys)
    return jax.vmap(lambda natural: Synapses(natural, None, temperature))(_WIDTH * drawn)
