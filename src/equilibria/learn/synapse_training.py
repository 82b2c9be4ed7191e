"""Learning binary synapses: gradient ascent of the bound with any E-step, for many data sets side by side.

The loop is its own and not `train`'s, because what it moves is a distribution of weights and not a network, and because a
figure of the paper needs a hundred small runs at once: they are mapped over, and one compiled step serves them all. As
there, random numbers depend on the key and the number of the step alone, and a run that is resumed is the run that was
not interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.architectures import as_spins
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.driver import Equilibrator
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.sweep import Sweeps
from equilibria.learn import checkpoints
from equilibria.learn.checkpoints import fingerprint
from equilibria.learn.synapses import (
    Fields,
    Synapses,
    ascent,
    drawn,
    e_step,
    expected_energy,
    knows_log_partition,
    quadrature,
)
from equilibria.learn.train import Diverged
from equilibria.network import State
from equilibria.progress import progress
from equilibria.random import as_key
from equilibria.units import Spin

E_STEPS: dict[str, Equilibrator] = {
    "exact": Exact(),
    "cavity": Cavity(jnp.asarray(50), tolerance=jnp.asarray(1e-4)),
    "response": Cavity(jnp.asarray(50), tolerance=jnp.asarray(1e-4), response=True),
    "gibbs": Sweeps(jnp.asarray(10)),
}
MOST_EXACT = 25  # hidden units: 2^25 states, summed in pieces
_EXACT_BY_DEFAULT = 12
_GRID = {1: 13, 2: 9, 3: 7}  # points in each dimension of the fields, by number of hidden units
_NODES = 13  # of the data's average, which is over one dimension
_DRAWS = 32
_CHAINS = 500  # fields for sampling, whose noise is that of the chains
_ROWS = 64
_WIDTH = 0.1  # of the natural parameters at the start
# The learning rate lives in the optimiser's state, so that another rate does not compile again.
_MOMENTUM = optax.inject_hyperparams(optax.sgd, static_args="momentum")(learning_rate=0.03, momentum=0.9)


class SynapseRun(NamedTuple):
    """What learning leaves: the synapses (with a leading axis for several data sets) and the history."""

    synapses: Synapses
    history: xr.Dataset


def learn_synapses(
    data: ArrayLike | Sequence[ArrayLike],
    hidden_size: int,
    *,
    steps: int = 200,
    how: Literal["exact", "cavity", "response", "gibbs"] | Equilibrator | None = None,
    temperature: float = 1.0,
    prior: ArrayLike = 0.0,
    fields: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    learn_bias: bool = False,
    start: Synapses | None = None,
    starts: int = 1,
    observe: Callable[[Synapses], ArrayLike] | None = None,
    every: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1000,
    resume: bool = False,
    show_progress: bool | None = None,
    key: Array | int,
) -> SynapseRun:
    r"""Learn the distribution of binary weights between data of +-1 and `hidden_size` hidden spins (Huang 2019).

    Each step moves the natural parameters $\tanh^{-1}\lambda$ by the bound's gradient in the means $\lambda$, equation
    (16): this is the natural gradient, and it respects $|\lambda| < 1$ by itself.

    Parameters: `data` is (M, N), or a list of such arrays to learn from side by side. `how` is the E-step: "exact" (the
    default for up to 12 hidden units), "cavity" (the paper's message passing), "response" (with linear response; the
    default beyond), "gibbs" (persistent chains), or any equilibrator. `temperature` is $1/\beta$, `prior` the mean m of
    each weight's prior. `fields` is how many Gaussian fields the equivalent machine is averaged over, drawn anew each
    step: by default 32, or a fixed grid for up to 3 hidden units; for "gibbs" 500 that stay, with two chains each.
    `batch_size` examples are drawn for each step, all by default. `learning_rate` (0.03, with momentum 0.9) multiplies
    the gradient of the whole bound, which grows with M: more data than 5 N want a smaller one; an optax `optimiser` may
    take its place. `learn_bias` learns fields on the visible spins too. `start` goes on from other synapses. With several
    `starts` each data set is learned from as many random ones, and the run with the highest bound is kept: correlated
    receptive fields have local maxima. The history holds the bound, the KL divergence, the fraction of fields that did
    not converge and what `observe(synapses)` returns, every `every` steps from the start. `checkpoint` is a folder for
    the full state every `checkpoint_every` steps, from which `resume=True` goes on.

    >>> rng = np.random.default_rng(0)
    >>> run = learn_synapses(rng.choice([-1, 1], (40, 10)), 2, steps=20, key=0)
    >>> run.synapses.decoded.shape, run.history.sizes["step"]
    ((10, 2), 21)
    """
    several, spins, present = _stacked(data, fill=batch_size is None)
    shape = spins.shape[-1], check.count("hidden_size", hidden_size)
    steps, every = check.count("steps", steps), check.count("every", every)
    check.count("checkpoint_every", checkpoint_every)
    if several and batch_size is not None:
        check.refuse("batch_size", batch_size, "None for several data sets, whose sizes may differ")
    how = chosen_e_step(how, shape[1])
    if check.count("starts", starts) > 1 and (start is not None or not knows_log_partition(how)):
        check.refuse("starts", starts, "1 where `start` is given, or for sampling, which does not know the bound")
    spins, present = (jnp.repeat(part, starts, axis=0) for part in (spins, present))
    learner = _Learner(
        how=how,
        prior=natural_prior(prior, shape),
        transform=optimiser or _MOMENTUM,
        draws=_draws(fields, shape[1], how),
        batch_size=None if batch_size is None else check.count("batch_size", batch_size),
        learn_bias=bool(learn_bias),
        observe=observe,
    )
    keys = jax.random.split(as_key(key), len(spins))
    synapses = _starting_synapses(start, shape, temperature, several, keys)
    carry = _begun(learner, synapses, keys, _checked_rate(learning_rate, optimiser))
    folder = None if checkpoint is None else Path(checkpoint)
    setup = {"data": fingerprint({"": spins}), "key": fingerprint({"": keys}), "E-step": repr(learner.how)}
    carry, columns = (carry, {}) if folder is None else checkpoints.take_up(folder, resume, carry, setup)
    records = _rows(columns)

    done = int(carry.step[0])
    stops = [done, *(step for step in [*range(0, steps, every), steps] if step > done)]
    with progress(steps, "learning", show=show_progress) as bar:
        bar.update(done)
        for now, then in pairwise(stops):
            carry, report = _advance(learner, carry, spins, present, keys, jnp.asarray(then))
            records.append({"step": now, **report})
            bar.update(then - now)
            if folder is not None and (then == steps or then // checkpoint_every > now // checkpoint_every):
                _refuse_divergence(carry, folder)
                checkpoints.save(folder, int(carry.step[0]), carry, _columns(records), setup)
    _refuse_divergence(carry, folder)
    # What is known of the synapses reached comes with the step that would leave them, which is not taken.
    _, report = _advance(learner, carry, spins, present, keys, carry.step[0] + 1)
    records.append({"step": stops[-1], **report})
    synapses, history = carry.synapses, _columns(records)
    if starts > 1:
        best = np.argmax(history["bound"][-1].reshape(-1, starts), axis=1) + starts * np.arange(len(spins) // starts)
        synapses = jax.tree.map(lambda leaf: leaf[best], synapses)
        history = {name: values if name == "step" else values[:, best] for name, values in history.items()}
    synapses = synapses if several else jax.tree.map(lambda leaf: leaf[0], synapses)
    return SynapseRun(synapses, _history(history, several))


def chosen_e_step(how: str | Equilibrator | None, hidden_size: int) -> Equilibrator:
    """The equilibrator of that name, or the default for as many hidden units.

    >>> chosen_e_step(None, 100).response
    True
    """
    if how is None:
        how = "exact" if hidden_size <= _EXACT_BY_DEFAULT else "response"
    if not isinstance(how, Equilibrator):
        how = E_STEPS[check.choice("how", how, E_STEPS)]
    if isinstance(how, Exact) and hidden_size > MOST_EXACT:
        check.refuse(
            "how",
            f"the exact E-step with {hidden_size} hidden units, a sum over 2^{hidden_size} states",
            f"up to {MOST_EXACT} hidden units; beyond, 'cavity', 'response' or 'gibbs'",
        )
    return how


class _Carry(eqx.Module):
    """Everything that changes from step to step; each leaf has an axis for the data sets."""

    step: Array
    synapses: Synapses
    optimiser: Any
    chains: State


class _Learner(eqx.Module):
    """One step of learning, on one data set."""

    how: Equilibrator
    prior: Array  # natural parameters
    transform: optax.GradientTransformation = eqx.field(static=True)
    draws: int | None = eqx.field(static=True)  # fields drawn each step; None: a fixed grid
    batch_size: int | None = eqx.field(static=True)
    learn_bias: bool = eqx.field(static=True)
    observe: Callable[[Synapses], ArrayLike] | None = eqx.field(static=True)

    @property
    def samples(self) -> bool:
        """Whether the E-step draws: its chains are then kept, each with its field, two for every field."""
        return _samples(self.how)

    def fields(self, hidden_size: int, step: Array, key: Array) -> Fields:
        if self.draws is None:
            return quadrature(hidden_size, _GRID[hidden_size])
        return drawn(hidden_size, self.draws, jax.random.fold_in(key, 0 if self.samples else step))

    def begin(self, synapses: Synapses, key: Array) -> _Carry:
        size, hidden_size = synapses.natural.shape
        count = len(self.fields(hidden_size, jnp.zeros((), int), key).weights)
        sizes = {"visible": size, "hidden": hidden_size}
        if self.samples:
            keys = dict(zip(sizes, jax.random.split(key), strict=True))
            chains = {name: Spin().sample(keys[name], jnp.zeros((2 * count, sizes[name]))) for name in sizes}
        else:
            chains = {name: jnp.zeros((count, sizes[name])) for name in sizes}
        optimiser = self.transform.init(_moved_by_learning(synapses))
        return _Carry(jnp.zeros((), int), synapses, optimiser, chains)

    def step(self, carry: _Carry, data: Array, present: Array, key: Array) -> tuple[_Carry, dict[str, Array]]:
        """The carry after one step, and a report on the synapses before it."""
        synapses, examples = carry.synapses, jnp.sum(present)
        field_key, batch_key, equilibrium_key = jax.random.split(key, 3)
        here = jax.random.fold_in(equilibrium_key, carry.step)
        moments = e_step(
            self.how, synapses, self.fields(self.prior.shape[1], carry.step, field_key), carry.chains, here
        )
        if self.batch_size is not None:
            chosen = jax.random.randint(jax.random.fold_in(batch_key, carry.step), (self.batch_size,), 0, len(data))
            data, present = data[chosen], jnp.full(self.batch_size, examples / self.batch_size)
        expected = expected_energy(synapses, jnp.asarray(data, float), present, _NODES)
        found = ascent(synapses, expected, moments, examples, self.prior)
        uphill = {"natural": found.mean, "bias": found.bias * self.learn_bias}
        parameters = _moved_by_learning(synapses)
        updates, optimiser = self.transform.update(jax.tree.map(jnp.negative, uphill), carry.optimiser, parameters)
        moved = optax.apply_updates(parameters, updates)
        report = {"divergence": found.divergence, "unconverged": moments.unconverged}
        if knows_log_partition(self.how):
            report["bound"] = found.bound
        if self.observe is not None:
            report["observed"] = jnp.asarray(self.observe(synapses))
        after = eqx.tree_at(lambda s: (s.natural, s.bias), synapses, (moved["natural"], moved["bias"]))
        return _Carry(carry.step + 1, after, optimiser, moments.state), report


def _moved_by_learning(synapses: Synapses) -> dict[str, Array]:
    return {"natural": synapses.natural, "bias": synapses.bias}


@eqx.filter_jit
def _begun(learner: _Learner, synapses: Synapses, keys: Array, rate: Array | None) -> _Carry:
    carry = eqx.filter_vmap(learner.begin)(synapses, keys)
    if rate is None:
        return carry
    return eqx.tree_at(
        lambda c: c.optimiser.hyperparams["learning_rate"], carry, replace_fn=lambda old: jnp.full_like(old, rate)
    )


@eqx.filter_jit
def _advance(learner: _Learner, carry: _Carry, data: Array, present: Array, keys: Array, until: Array):
    """The carry at step `until`, and the report on the one given."""
    step = jax.vmap(learner.step)
    carry, report = step(carry, data, present, keys)
    carry = jax.lax.while_loop(
        lambda carry: carry.step[0] < until, lambda carry: step(carry, data, present, keys)[0], carry
    )
    return carry, report


def _stacked(data: ArrayLike | Sequence[ArrayLike], fill: bool) -> tuple[bool, Array, Array]:
    """Whether there are several data sets; the data sets (sets, M, N); and which of their examples are real.

    Data sets are filled up to the size of the largest and, with `fill`, to a multiple of 64: sizes that are alike share one
    compiled step.
    """
    given: Any = data
    several = np.ndim(given[0]) == 2 if isinstance(given, (list, tuple)) and given else np.ndim(given) == 3
    sets = [as_data("data", one) for one in given] if several else [as_data("data", given)]
    sizes = {one.shape[1] for one in sets}
    if len(sizes) > 1:
        check.refuse("data", f"data sets of {sorted(sizes)} neurons", "one number of neurons")
    longest = max(map(len, sets))
    if fill:
        longest = -(-longest // _ROWS) * _ROWS
    filled = np.stack([np.pad(one, ((0, longest - len(one)), (0, 0))) for one in sets])
    present = np.stack([np.arange(longest) < len(one) for one in sets])
    return several, jnp.asarray(filled), jnp.asarray(present, float)


def as_data(argument: str, values: ArrayLike) -> np.ndarray:
    """(M, N) values of -1 and +1 as int8; 0 and 1 are taken as -1 and +1, with a warning; grey levels are refused.

    >>> as_data("data", [[1, -1]])
    array([[ 1, -1]], dtype=int8)
    """
    given = np.asarray(values)
    levels = given.dtype.kind in "fiub" and given.size and not np.isin(given, (-1, 0, 1)).all()
    if levels and np.isfinite(given).all():
        strange = given[~np.isin(given, (-1, 0, 1))].flat[0]
        check.refuse(
            argument, f"{strange:g} among the values", "-1 and +1 (or 0 and 1); cut grey levels at a threshold first"
        )
    return as_spins(argument, given, ("examples", "neurons")).astype(np.int8)


def natural_prior(prior: ArrayLike, shape: tuple[int, int]) -> Array:
    """The natural parameters of a prior given by its mean, one or one for each weight.

    >>> natural_prior(0.5, (2, 1)).ravel()
    Array([0.54930615, 0.54930615], dtype=float32)
    """
    mean = np.asarray(check.number("prior", prior, above=-1.0), np.float64)
    if (mean >= 1).any():
        check.refuse("prior", f"{mean.max():g} among the means", "means above -1 and below 1")
    try:
        return jnp.asarray(np.broadcast_to(np.arctanh(mean), shape), float)
    except ValueError:
        check.refuse("prior", f"shape {mean.shape}", f"one mean, or shape {shape}")


def _samples(how: Equilibrator) -> bool:
    return isinstance(how, Sweeps) and how.mood == "sample"


def _draws(fields: int | None, hidden_size: int, how: Equilibrator) -> int | None:
    if fields is None:
        grid = hidden_size in _GRID and not _samples(how)
        return None if grid else _CHAINS if _samples(how) else _DRAWS
    return check.count("fields", fields)


def _checked_rate(learning_rate: float | None, optimiser: optax.GradientTransformation | None) -> Array | None:
    if optimiser is not None:
        if learning_rate is not None:
            check.refuse("learning_rate", learning_rate, "None where an optimiser is given, which has its own")
        return None
    return jnp.asarray(
        check.number("learning_rate", 0.03 if learning_rate is None else learning_rate, above=0.0), float
    )


def _starting_synapses(start: Synapses | None, shape: tuple[int, int], temperature: float, several: bool, keys: Array):
    if start is None:
        check.number("temperature", temperature, above=0.0)
        begin = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 1), shape))
        return eqx.filter_vmap(lambda natural: Synapses(natural, None, temperature))(_WIDTH * begin(keys))
    check.shape("start", start.natural, shape)
    return start if several else jax.tree.map(lambda leaf: leaf[None], start)


def _refuse_divergence(carry: _Carry, folder: Path | None) -> None:
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(carry.synapses)):
        where = "" if folder is None else f" The last checkpoint in {folder} may be from before that."
        raise Diverged("learning diverged: the synapses are no longer finite. Use a smaller learning rate." + where)


def _history(columns: dict[str, np.ndarray], several: bool) -> xr.Dataset:
    step = columns.pop("step")
    variables = {}
    for name, values in columns.items():
        values = values if several else values[:, 0]
        lead = ("step", "set") if several else ("step",)
        variables[name] = ((*lead, *(f"{name}_{axis}" for axis in range(values.ndim - len(lead)))), values)
    return xr.Dataset(variables, {"step": step})


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    return {name: np.stack([np.asarray(record[name]) for record in records]) for name in records[0]}


def _rows(columns: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
