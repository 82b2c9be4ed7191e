"""`train`: what a user calls to learn from data with any rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.html import last_row
from equilibria.learn.journey import Metrics
from equilibria.learn.loop import Loop, split_key
from equilibria.learn.names import RECIPES
from equilibria.learn.rule import PyTree, Rule
from equilibria.learn.stopping import Callback
from equilibria.learn.stream import streamed
from equilibria.random import as_key


class Run(NamedTuple):
    """What training leaves.

    Attributes:
        parameters: what was learned; `network` is another name for it.
        history: the records, an `xarray.Dataset`.
        carry: what the rule carried last, chains or particles; `train(carry=...)` goes on from it.
        stopped: why a callback ended the run, None if it went to its end.

    >>> import equilibria as eq
    >>> run = train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), steps=2, key=1)
    >>> run.history["step"].values, sorted(run.carry), run.stopped
    (array([1, 2]), ['carried', 'chains'], None)
    """

    parameters: Any
    history: xr.Dataset
    carry: Any
    stopped: str | None = None

    @property
    def network(self) -> Any:
        """The network that was trained."""
        return self.parameters

    def _repr_html_(self) -> str:
        return last_row("Run", self.history, self.stopped)


def train(
    model: Any,
    data: Any,
    rule: Rule,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int = 100,
    probabilities: bool = False,
    weights: ArrayLike | None = None,
    learning_rate: float | Literal["auto"] | None = None,
    final_rate: float = 1.0,
    optimiser: optax.GradientTransformation | None = None,
    metrics: Metrics | None = None,
    record: Sequence[int] | None = None,
    callbacks: Sequence[Callback | Callable[[int, Any, Mapping[str, np.ndarray]], None]] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    keep: float | Sequence[int] | None = None,
    validation: Any = None,
    carry: Any = None,
    runs: int | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    show_progress: bool | None = None,
    key: Array | int,
) -> Run:
    """Learn from data with any rule and any optimiser.

    Args:
        model: what is learned: a network, or any pytree of parameters that the rule knows.
        data: for a network (examples, size) for its first layer, a pair for the first and the last layer, or by layer;
            for other rules what they take, with the examples on the first axis. It is held once, in its own dtype.
            Memory-mapped arrays stay on the disk, and the run is that of the same arrays in memory once it has begun. An
            iterable gives batches of one size, each in one of these forms, and is begun again when it ends. Of both, fields
            and a rate come from the first batches.
        rule: a recipe such as `pcd(steps=10)`, or any other `Rule`.
        epochs: passes through fresh shuffles of the data; examples that do not fill a batch sit out. A batch of all
            examples is not shuffled.
        steps: the number of updates, in place of epochs.
        batch_size: examples in an update.
        probabilities: data may lie between a unit's values and are taken as its means (grey pixels).
        weights: (examples,), none below zero: in each epoch an example is shown as often as its share says, rounded at random.
        learning_rate: of plain gradient descent, or of an optimiser made by `optax.inject_hyperparams`; other optimisers
            have their own. "auto" follows from the data's largest variance for recipes of the likelihood and is 0.01 for other
            rules; so is None without an optimiser. The history's attributes say which rate it was.
        final_rate: the fraction of itself that the rate of plain gradient descent falls to, in a line, by the end of the run;
            a run that goes on beyond its end stays there.
        optimiser: an optax transformation.
        metrics: a function of the parameters that returns numbers by name, called at each record.
        record: the steps at which the history gets a row; by default 1, 2, 4, 8, ... and the end of each epoch. The
            rule's own report, averaged since the last record, goes there too.
        callbacks: called at each record with the step, the parameters and the row; see `StopRun`, `Patience`,
            `TimeLimit`, `OnSignal`.
        checkpoint: a folder that gets the full state.
        checkpoint_every: every so many steps, each epoch by default; also at the end and when the run is stopped.
        resume: go on from what is in the folder, on any number of devices. What decides the run must be as it was:
            data, rule, batch size, optimiser and rate, key. Its length, records, metrics and callbacks may change.
        keep: keeps networks of the run in the checkpoint folder, for `Trajectory`: a share such as 0.3 keeps one whenever
            fewer states than that would be exchanged with the last one kept, which recipes with persistent chains can
            tell; or the steps after which one is kept. With chains the history then has ln Z, and the log-likelihood of up
            to 1,000 training examples, along the way, with the error of both. They trust the chains;
            `log_partition` does not.
        validation: data that are not learned from, whose log-likelihood is in the history too; with `keep` and chains only.
        carry: what an earlier run's rule carried, to go on with its chains.
        runs: as many independent runs side by side, from the same start with keys of their own; everything that comes
            back then has a leading axis.
        devices: shares chains and minibatches out between so many devices (or those given); the result is that of one
            device up to the order of floating-point sums.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed.

    Returns:
        The parameters, the history, what the rule carries, and why it was stopped, if it was.

    Raises:
        ValueError: if an argument cannot be served, or what is resumed is another run.
        Diverged: if the parameters are no longer finite.

    >>> import equilibria as eq
    >>> run = train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), epochs=2, batch_size=2, key=1)
    >>> run.history.sizes["step"], run.network.names
    (3, ('visible', 'hidden'))
    """
    if not isinstance(rule, Rule):
        _refuse_rule(rule)
    if hasattr(data, "couplings"):
        check.refuse("data", "a network", "examples, after the model: eq.train(model, data, rule)")
    if optimiser is not None and not hasattr(optimiser, "update"):
        check.refuse("optimiser", repr(optimiser), "an optax transformation, such as optax.adam(1e-3)")
    if metrics is not None and not callable(metrics):
        check.refuse("metrics", repr(metrics), "a function of what is learned that returns numbers by name")
    if not np.iterable(callbacks):
        check.refuse("callbacks", repr(callbacks), "a list of eq.Callback objects")
    # NumPy's and Python's real numbers are learned like any others.
    model = jax.tree.map(lambda leaf: jnp.asarray(leaf) if eqx.is_inexact_array_like(leaf) else leaf, model)
    model_of_one = model
    key = as_key(key)
    stream = streamed(data, batch_size, split_key(key)[1])
    if stream is not None:
        if weights is not None or runs is not None:
            check.refuse("data", "a stream with weights or runs", "data in memory for these")
        if rule.remembers:
            check.refuse("data", "a stream", "data in memory for a rule that keeps something for each example")
        stream.prepared = partial(rule.prepared, model, probabilities=probabilities)
        data = stream.rows(0)
    data = rule.prepared(model, data, probabilities)
    rate, told = _rate(rule, model, data, learning_rate, optimiser)
    if carry is None:  # chains that go on belong to the network as it is
        model = rule.opened(model, data)
    if runs is not None:
        check.count("runs", runs)
        model, carry = _repeated(model, runs), _repeated(carry, runs)
        key = jax.random.split(key, runs)
    loop = Loop(
        rule, data, key, batch_size, optimiser=optimiser, learning_rate=rate, final_rate=final_rate,
        mapped=runs is not None, devices=devices, stream=stream, weights=_weights(weights, data),
    )  # fmt: skip
    # A rate from the data is not the same to the last bit on every machine; a run that goes on has it in its state.
    loop.setup["learning_rate"] = told if final_rate == 1 else f"{told}, falling to {final_rate:g} of it"
    loop.optimiser.steps = total = loop.length(epochs, steps)
    records = loop.default_records(total) if record is None else [check.count("record", step) for step in record]
    found, history, stopped = loop.run(
        model, total, records, carry=carry, metrics=metrics, callbacks=callbacks, checkpoint=checkpoint,
        every=checkpoint_every, resume=resume, keep=keep, show_progress=show_progress,
        validation=None if validation is None else rule.prepared(model_of_one, validation, probabilities),
    )  # fmt: skip
    records_seen = history.dataset(() if runs is None else ("run",))
    if (used := loop.optimiser.used(found.optimiser)) is not None:
        records_seen.attrs["learning_rate"] = used
    return Run(found.parameters, records_seen, found.rule, stopped)


def _weights(given: ArrayLike | None, data: Any) -> Array | None:
    if given is None:
        return None
    examples = len(jax.tree.leaves(data)[0])
    return jnp.asarray(check.weights(given, examples), jnp.float32)


def _rate(
    rule: Rule, model: Any, data: Any, given: float | str | None, optimiser: optax.GradientTransformation | None
) -> tuple[float | None, str]:
    """The learning rate, and what a run that goes on must say of it."""
    if given == "auto" or (given is None and optimiser is None):
        found = rule.rate(model, data)
        return (0.01 if found is None and optimiser is None else found), ("None" if found is None else "auto")
    rate = None if given is None else float(check.number("learning_rate", given, above=0.0))  # type: ignore[arg-type]
    return rate, str(rate)


def _refuse_rule(given: Any) -> NoReturn:
    """Say how a rule is written that was named, or not called."""
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    known = name.isidentifier() and name in RECIPES
    allowed = f"eq.{RECIPES[name]}, called" if known else "a rule such as eq.pcd(steps=10)"
    check.refuse("rule", f"{given!r}, which is not called" if callable(given) else repr(given), allowed)


def _repeated(tree: PyTree, runs: int) -> PyTree:
    def repeated(leaf: Any) -> Any:
        return jnp.broadcast_to(leaf, (runs, *leaf.shape)) if eqx.is_array(leaf) else leaf

    return jax.tree.map(repeated, tree)
