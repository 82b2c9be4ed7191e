"""One training loop for every recipe.

Steps run in compiled chunks. Between chunks the loop shows its progress, records what was asked, and writes
checkpoints. Every random number depends on the key and the number of the step alone, so a run that was killed and
resumed is bit for bit the run that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax import Array
from jax.typing import ArrayLike

from equilibria import archive, check
from equilibria.learn import checkpoints
from equilibria.learn.checkpoints import fingerprint
from equilibria.learn.contrast import Rule
from equilibria.learn.devices import Devices, arranged, spread
from equilibria.learn.rates import relative_changes
from equilibria.network import Network, State
from equilibria.progress import progress
from equilibria.random import as_key
from equilibria.stability import unbounded

Metrics = Callable[[Network], Mapping[str, ArrayLike]]

# The learning rate lives in the optimiser's state, so that another rate does not compile again.
_SGD = optax.inject_hyperparams(optax.sgd)(learning_rate=0.01)
_SECONDS_PER_CHUNK = 1.0


class Diverged(ArithmeticError):
    """Training left the finite numbers; the last checkpoint is from before that."""


class Run(NamedTuple):
    """What training leaves: the network and its history, with the recipe's memory (chains or particles)."""

    network: Network
    history: xr.Dataset
    memory: dict[str, Any]


class _Carry(eqx.Module):
    """Everything that changes from step to step."""

    step: Array
    network: Network
    optimiser: Any
    memory: dict[str, Any]
    totals: dict[str, Array]  # of the reports since the last record
    counted: Array


def train(
    network: Network,
    data: Mapping[str, ArrayLike] | tuple[ArrayLike, ArrayLike] | ArrayLike,
    recipe: Rule,
    *,
    epochs: int,
    batch_size: int = 100,
    between: bool = False,
    learning_rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    metrics: Metrics | None = None,
    record: Sequence[int] | None = None,
    callbacks: Sequence[Callable[[int, Network], None]] = (),
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    devices: int | Sequence[jax.Device] | None = None,
    show_progress: bool | None = None,
    key: Array | int,
) -> Run:
    """Train a network on data with any recipe and any optimiser.

    Parameters: `data` is (examples, size) for the first layer, a pair for the first and the last layer, or by layer; it
    is held once, in its own dtype; with `between` it may lie between a unit's values and is taken as its means (grey
    pixels). An epoch is a pass through a fresh shuffle in batches of `batch_size`; examples left over sit out. The
    optimiser is plain gradient descent at `learning_rate` (0.01) unless an optax `optimiser` is given.
    `metrics(network)` is called at the steps in `record` (by default 1, 2, 4, 8, ... and the end of each epoch), where
    the recipe's own report, averaged since the last record, goes into the history too. `callbacks` are called there
    with the step and the network. `checkpoint` is a folder that gets the full state every `checkpoint_every` steps
    (each epoch by default); `resume=True` goes on from what is there, on any number of devices. `devices` shares chains
    and minibatches out between so many devices (or those given); the result is that of one device up to the order of
    floating-point sums.

    >>> import equilibria as eq
    >>> run = train(eq.rbm(4, 2, key=0), np.eye(4), eq.pcd(steps=1), epochs=2, batch_size=2, key=1)
    >>> run.history.sizes["step"], run.network.names
    (3, ('visible', 'hidden'))
    """
    data = _checked_data(network, data, between)
    if (reason := unbounded(network)) is not None:
        check.refuse("network", reason, "weaker couplings between Gaussian units")
    examples = len(next(iter(data.values())))
    batch_size = min(check.count("batch_size", batch_size), examples)
    per_epoch = examples // batch_size
    total = check.count("epochs", epochs) * per_epoch
    transform, optimiser_state = _optimiser(network, optimiser, learning_rate)
    key = as_key(key)
    setup = {
        "batch_size": batch_size,
        "data": fingerprint(data),
        "recipe": f"{recipe!r} {fingerprint(_numbers(recipe))}",
        "key": fingerprint({"": key}),
    }

    begin_key, step_key = jax.random.split(key)
    memory = recipe.begin(network, data, batch_size, begin_key)
    none = jnp.zeros((), int)
    carry = _Carry(none, network, optimiser_state, memory, _no_totals(network, recipe, data), none)
    history = _History()
    if checkpoint is not None:
        carry, columns = checkpoints.take_up(Path(checkpoint), resume, carry, setup)
        history = _History(columns)

    records = set(
        _default_records(total, per_epoch) if record is None else (check.count("record", step) for step in record)
    )
    saves = set(range(0, total, checkpoint_every or per_epoch)) | {total}
    stops = sorted(step for step in records | saves | {total} if int(carry.step) < step <= total)
    layout = Devices(devices, batch_size=batch_size, chains=recipe.chains)
    advance, data, step_key = layout.place((Advance(recipe, transform, batch_size), data, step_key))
    chunk = 1
    with progress(total, "training", show=show_progress) as bar:
        bar.update(int(carry.step))
        for stop in stops:
            carry, chunk = _advance_to(advance, carry, data, stop, step_key, chunk, bar, layout)
            if stop in records:
                measured = {} if metrics is None else metrics(carry.network)
                history.add(stop, stop / per_epoch, carry, measured)
                carry = eqx.tree_at(lambda c: (c.totals, c.counted), carry, _zeroed((carry.totals, carry.counted)))
                for callback in callbacks:
                    callback(stop, carry.network)
            if checkpoint is not None and stop in saves:
                whole = layout.gathered(carry)  # by every process, although one writes
                if layout.writes:
                    _save(Path(checkpoint), whole, setup, history)
    carry = layout.gathered(carry)
    return Run(carry.network, history.dataset(), carry.memory)


class Advance(eqx.Module):
    """The compiled part: from the step in the carry to another, over batches drawn by epoch and step."""

    recipe: Rule
    transform: optax.GradientTransformation = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    def __call__(self, carry: _Carry, data: State, until: Array, key: Array) -> tuple[_Carry, Array]:
        """The carry at step `until`, and whether its network is still finite; the memory given is used up."""
        return _advanced((self, eqx.tree_at(lambda c: c.memory, carry, None), data, until, key), carry.memory)

    def run(self, carry: _Carry, data: State, until: Array, key: Array) -> tuple[_Carry, Array]:
        """The same inside compiled code."""
        examples = len(next(iter(data.values())))
        per_epoch = examples // self.batch_size
        moving, still = eqx.partition(carry, eqx.is_array)

        def step(state):
            moving, epoch, order = state
            carry = eqx.combine(moving, still)
            here = carry.step // per_epoch
            order = jax.lax.cond(here == epoch, lambda: order, lambda: _shuffled(key, here, examples))
            index = jax.lax.dynamic_slice(order, ((carry.step % per_epoch) * self.batch_size,), (self.batch_size,))
            batch = spread({name: jnp.asarray(layer[index], float) for name, layer in data.items()})
            return eqx.filter(self._step(carry, batch, index, key), eqx.is_array), here, order

        first = (moving, jnp.asarray(-1), jnp.arange(examples))
        moving, _, _ = jax.lax.while_loop(lambda state: state[0].step < until, step, first)
        carry = eqx.combine(moving, still)
        finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(carry.network)]))
        return carry, finite

    def _step(self, carry: _Carry, batch: State, index: Array, key: Array) -> _Carry:
        here = jax.random.fold_in(key, carry.step)
        found = self.recipe.step(carry.network, batch, memory=carry.memory, index=index, key=here)
        learned = trainable(carry.network)
        parameters, gradient = eqx.filter(carry.network, learned), eqx.filter(found.gradient, learned)
        updates, state = self.transform.update(gradient, carry.optimiser, parameters)
        watched = {"change": relative_changes(parameters, updates)} if self.recipe.watch_changes else {}
        totals = jax.tree.map(jnp.add, carry.totals, found.report | watched)
        network = eqx.apply_updates(carry.network, updates)
        return arranged(_Carry(carry.step + 1, network, state, found.memory, totals, carry.counted + 1))


# The memory is given away, so that particles, one for each example, are not copied with every chunk.
@eqx.filter_jit(donate="all-except-first")
def _advanced(fixed: tuple, memory: dict[str, Any]) -> tuple[_Carry, Array]:
    advance, carry, data, until, key = fixed
    carry = eqx.tree_at(lambda c: c.memory, carry, memory, is_leaf=lambda leaf: leaf is None)
    return advance.run(carry, data, until, key)


def trainable(network: Network) -> Network:
    """Which leaves learning changes: biases and couplings, not the units' own parameters.

    >>> from equilibria import Gaussian, rbm
    >>> mask = trainable(rbm(3, 2, hidden=Gaussian(), key=0))
    >>> mask.layers[1].unit.stiffness, mask.layers[1].bias
    (False, True)
    """
    everything = jax.tree.map(eqx.is_inexact_array, network)
    units = jax.tree.map(lambda _: False, [layer.unit for layer in network.layers])
    return eqx.tree_at(lambda net: [layer.unit for layer in net.layers], everything, units)


def _shuffled(key: Array, epoch: Array, examples: int) -> Array:
    # Epochs count down from the top of the range, so that no epoch shares its number with a step.
    return jax.random.permutation(jax.random.fold_in(key, jnp.uint32(2**32 - 1) - epoch.astype(jnp.uint32)), examples)


def _advance_to(
    advance: Advance, carry: _Carry, data: State, stop: int, key: Array, chunk: int, bar, layout: Devices
) -> tuple[_Carry, int]:
    """The carry at step `stop`, in chunks of about a second, and the length of chunk arrived at."""
    while (now := int(carry.step)) < stop:
        began = time.monotonic()
        until = min(stop, now + layout.agreed(chunk))
        carry, goal = layout.place((carry, jnp.asarray(until, int)))
        with layout.in_use():
            carry, finite = advance(carry, data, goal, key)
        reason = unbounded(carry.network) if finite else "the network is no longer finite"
        if reason is not None:
            raise Diverged(
                f"training diverged between steps {now} and {until}: {reason}. "
                "Use a smaller learning rate; the last checkpoint, if one was asked for, is from before that."
            )
        bar.update(until - now)
        pace = (until - now) / (time.monotonic() - began)  # steps a second
        chunk = max(1, min(2 * chunk, int(pace * _SECONDS_PER_CHUNK)))
    return carry, chunk


def _optimiser(network: Network, optimiser, learning_rate) -> tuple[optax.GradientTransformation, Any]:
    parameters = eqx.filter(network, trainable(network))
    if optimiser is not None:
        if learning_rate is not None:
            check.refuse("learning_rate", learning_rate, "None where an optimiser is given, which has its own")
        return optimiser, optimiser.init(parameters)
    rate = check.number("learning_rate", 0.01 if learning_rate is None else learning_rate, above=0.0)
    state = _SGD.init(parameters)
    state.hyperparams["learning_rate"] = jnp.asarray(rate, state.hyperparams["learning_rate"].dtype)
    return _SGD, state


def _checked_data(network: Network, data, between: bool = False) -> State:
    if isinstance(data, tuple):
        if len(data) != 2:
            check.refuse(
                "data", f"{len(data)} arrays", "one array, a pair (first layer, last layer), or a dict by layer"
            )
        data = dict(zip((network.names[0], network.names[-1]), data, strict=True))
    by_layer = dict(data) if isinstance(data, Mapping) else {network.names[0]: data}
    if not by_layer:
        check.refuse("data", "no arrays", "at least one layer's data")
    checked = {}
    for name, values in by_layer.items():
        argument = f"data[{name!r}]"
        network.check_values(argument, name, values, between=between)
        if np.ndim(values) != 2 or len(values) == 0:
            check.refuse(
                argument, f"shape {np.shape(values)}", f"shape (examples, {network.layer(name).size}), not empty"
            )
        checked[name] = jnp.asarray(values)
    if len({len(values) for values in checked.values()}) > 1:
        sizes = {name: len(values) for name, values in checked.items()}
        check.refuse("data", f"different numbers of examples, {sizes}", "as many examples for each layer")
    return checked


def _numbers(recipe: Rule) -> dict[str, Array]:
    """The recipe's arrays: nudges, steps, penalties. Its repr has only their shapes."""
    return {str(place): leaf for place, leaf in enumerate(jax.tree.leaves(eqx.filter(recipe, eqx.is_array)))}


def _default_records(total: int, per_epoch: int) -> list[int]:
    powers = [2**power for power in range(total.bit_length()) if 2**power <= min(total, per_epoch)]
    return [*powers, *range(per_epoch, total + 1, per_epoch)]


def _no_totals(network: Network, recipe: Rule, data: State) -> dict[str, Array]:
    """Zeros in the shape of the recipe's report."""
    batch = {name: jnp.zeros((1, layer.shape[-1])) for name, layer in data.items()}

    def report(key):
        memory = recipe.begin(network, batch, 1, key)
        found = recipe.step(network, batch, memory=memory, index=jnp.zeros(1, int), key=key).report
        return found | ({"change": jnp.zeros(len(network.couplings))} if recipe.watch_changes else {})

    return _zeroed(eqx.filter_eval_shape(report, jax.random.key(0)))


def _zeroed(tree):
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)


class _History:
    """The records of a run, row by row."""

    def __init__(self, columns: Mapping[str, np.ndarray] | None = None):
        self.columns = {name: list(values) for name, values in (columns or {}).items()}

    def add(self, step: int, epoch: float, carry: _Carry, measured: Mapping[str, ArrayLike]) -> None:
        count = np.maximum(np.asarray(carry.counted), 1)
        report = {name: np.asarray(total) / count for name, total in carry.totals.items()}
        for name, value in {"step": step, "epoch": epoch, **report, **measured}.items():
            self.columns.setdefault(name, []).append(np.asarray(value))

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.stack(values) for name, values in self.columns.items()}

    def dataset(self) -> xr.Dataset:
        columns = self.arrays()
        coordinates = {name: ("step", columns.pop(name, np.zeros(0))) for name in ("step", "epoch")}
        variables = {
            name: (("step", *(f"{name}_{axis}" for axis in range(values.ndim - 1))), values)
            for name, values in columns.items()
        }
        return xr.Dataset(variables, coordinates)


def _save(folder: Path, carry: _Carry, setup: Mapping[str, Any], history: _History) -> None:
    arrays, structure = archive.describe(carry.network)
    checkpoints.save(folder, int(carry.step), carry, history.arrays(), setup, arrays, {"network": structure})
