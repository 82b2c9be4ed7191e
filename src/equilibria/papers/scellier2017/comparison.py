"""Equilibrium propagation beside contrastive Hebbian learning, recurrent and ordinary back-propagation (Table 1).

| | feedforward net | equilibrium propagation | contrastive Hebbian learning | Almeida-Pineda |
|---|---|---|---|---|
| first phase | forward pass | free phase | negative (free) phase | free phase |
| second phase | backward pass | nudged phase | positive (clamped) phase | recurrent back-propagation |

The units are smooth (tanh and linear), as the theorem wants them. With the paper's clipped units the exact gradient of an
output that sits at 0 vanishes, for good: on these digits recurrent and ordinary back-propagation then lose a class or two and
stay at 20% test error, while a finite nudge or a clamp moves such outputs and reaches 10%.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.data import digits, grey
from equilibria.equilibrators.descent import Descent
from equilibria.learn.backprop import feedforward, feedforward_backprop, recurrent_backprop
from equilibria.learn.phase import trainable
from equilibria.learn.rates import scale_by_coupling
from equilibria.model.units import GradedSpin
from equilibria.papers.claims import Claim, at_least, at_most

FREE = Descent(200, tolerance=1e-5)
UNITS = (eq.Clipped(), GradedSpin(), eq.Gaussian())  # inputs, tanh hidden units, linear outputs


@dataclass(frozen=True)
class Config:
    """The bundled digits in a network with one hidden layer, the same start, rates and batches for every rule."""

    hidden: int = 64
    rates: tuple[float, float] = (0.1, 0.03)
    batch_size: int = 20
    epochs: int = 10
    probe: int = 200  # examples on which gradients are compared
    seed: int = 0


def rules(sweeps: int = 30) -> dict[str, eq.Rule]:
    """The rules that are compared, by name."""
    nudged, nudge = Descent(sweeps, 0.0), 0.2
    one_sided = eq.equilibrium_propagation(nudge, free=FREE, nudged=nudged, symmetric=False)
    return {
        "equilibrium propagation, centered": eq.equilibrium_propagation(nudge, free=FREE, nudged=nudged),
        "equilibrium propagation, one-sided": one_sided,
        "recurrent back-propagation": recurrent_backprop(free=FREE, steps=sweeps),
        "contrastive Hebbian learning": eq.contrastive_hebbian(free=FREE, clamped=nudged),
        "ordinary back-propagation": feedforward_backprop(),
    }


@eqx.filter_jit
def _gradient(rule: eq.Rule, network: eq.Network, data: dict) -> jax.Array:
    """The gradient in the couplings and biases as one vector."""
    found = rule.step(network, data, carry={}, index=jnp.arange(len(data["input"])), key=jax.random.key(0)).gradient
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(eqx.filter(found, trainable(found)))])


def _cosine(first: jax.Array, second: jax.Array) -> float:
    return float(first @ second / (jnp.linalg.norm(first) * jnp.linalg.norm(second)))


def run(config: Config, progress) -> xr.Dataset:
    """Learning curves of every rule, and along the way the angle of its gradient to the exact one at the same network."""
    images = digits()
    inputs, test_inputs = grey(images.train_images), grey(images.test_images)
    targets = np.eye(10, dtype=np.float32)[images.train_labels]
    probe = {"input": jnp.asarray(inputs[: config.probe]), "output": jnp.asarray(targets[: config.probe])}
    exact = recurrent_backprop(free=Descent(500, tolerance=1e-7), steps=300)
    start = eq.layered((inputs.shape[1], config.hidden, 10), units=UNITS, gain=0.5, key=config.seed)
    per_epoch = len(inputs) // config.batch_size
    transform = optax.chain(optax.sgd(1.0), scale_by_coupling(config.rates))
    curves: dict[str, list] = {"train_error": [], "test_error": [], "cosine": []}
    for name, rule in progress(rules().items(), "rules", "rule"):

        def measure(network: eq.Network, rule=rule, name=name) -> dict[str, float]:
            if name.startswith("ordinary"):
                outputs = feedforward(network, {"input": jnp.asarray(test_inputs)})["output"]
            else:
                outputs = eq.equilibrate(network, FREE, world=eq.Clamp("input", test_inputs))["output"]
            wrong = np.argmax(outputs, axis=-1) != images.test_labels
            cosine = _cosine(_gradient(rule, network, probe), _gradient(exact, network, probe))
            return {"test_error": wrong.mean(), "cosine": cosine}

        history = eq.train(
            start, (inputs, targets), rule, epochs=config.epochs, batch_size=config.batch_size, optimiser=transform,
            record=[1, *range(per_epoch, config.epochs * per_epoch + 1, per_epoch)], metrics=measure,
            show_progress=False, key=config.seed + 1,
        ).history  # fmt: skip
        for column, values in zip(curves.values(), ("error", "test_error", "cosine"), strict=True):
            column.append(history[values].values)
    data = {name: (("rule", "epoch"), np.stack(values)) for name, values in curves.items()}
    return xr.Dataset(data, {"rule": list(rules()), "epoch": history["epoch"].values})


def plot(dataset: xr.Dataset):
    """Test errors, and cosines with the exact gradient."""
    figure, (left, right) = plots.panels(2)
    for colour, rule in zip(plots.PALETTE, dataset["rule"].values, strict=False):
        line = {"color": colour, "label": rule, "linewidth": 1.3}
        left.plot(dataset["epoch"], 100 * dataset["test_error"].sel(rule=rule), **line)
        right.plot(dataset["epoch"], dataset["cosine"].sel(rule=rule), **line)
    left.set(yscale="log", xlabel="epoch", ylabel="test error, %", title="digits, one hidden layer")
    right.set(xlabel="epoch", ylabel="cosine with the exact gradient", title="gradients at the network reached")
    left.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Equilibrium propagation is the gradient; contrastive Hebbian learning is not; all learn."""
    cosine = dataset["cosine"].min("epoch")
    errors = dataset["test_error"].isel(epoch=slice(-3, None)).mean("epoch")  # rates are constant: epochs fluctuate
    exact = float(errors.sel(rule="recurrent back-propagation"))
    centered, hebbian = "equilibrium propagation, centered", "contrastive Hebbian learning"
    return [
        at_least(
            "Centered equilibrium propagation points along the gradient: smallest cosine in training", source="Eq. (10)",
            expected=0.98, measured=cosine.sel(rule=centered),
        ),
        at_least(
            "It is closer to it than contrastive Hebbian learning: difference of the smallest cosines", source="Section 4.1",
            expected=0.0, measured=cosine.sel(rule=centered) - cosine.sel(rule=hebbian),
        ),
        at_most(
            "It ends where recurrent back-propagation does: difference in test error, last three epochs",
            source="Section 4.2", expected=0.0,
            measured=abs(float(errors.sel(rule=centered)) - exact), tolerance=3 * np.sqrt(2 * exact * (1 - exact) / 360),
            reason="3 standard errors of two fractions of 360 test digits",
        ),
        at_most("Every rule learns the digits: largest test error", source="Section 4", expected=0.2, measured=errors.max()),
        at_least(
            "Contrastive Hebbian learning ends no lower: difference in test error", source="Section 4.1", expected=0.0,
            measured=errors.sel(rule=hebbian) - errors.sel(rule=centered), ours=True,
        ),
        at_most(
            "Every other rule learns the digits: largest test error", source="Section 4", expected=0.2,
            measured=errors.drop_sel(rule=hebbian).max(), ours=True,
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": Config(hidden=256, epochs=60)}
