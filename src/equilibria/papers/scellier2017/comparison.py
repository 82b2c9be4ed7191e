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
from itertools import product
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.data import digits, grey
from equilibria.energies.implicit import Implicit
from equilibria.equilibrators.descent import Descent
from equilibria.learn.backprop import feedforward, feedforward_backprop, recurrent_backprop
from equilibria.learn.phase import trainable
from equilibria.learn.rates import scale_by_coupling
from equilibria.model.units import GradedSpin
from equilibria.papers.claims import Claim, at_least, at_most, not_testable
from equilibria.papers.scellier2017.energy import draw, energy
from equilibria.papers.sweep import sweep

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
    seeds: int = 1
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


def followed(rule: int, start: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: a network learns by one rule, and along the way its gradient is compared with the exact one.

    Args:
        rule: the number of one of `rules()`.
        start: number of the network; rules start from the same ones.
        seed: of all of them.
        config: the figure's configuration.

    Returns:
        By record: training and test error, and the cosine of the gradient with the exact one at the same network.
    """
    name, how = list(rules().items())[rule]
    images = digits()
    inputs, test_inputs = grey(images.train_images), grey(images.test_images)
    targets = np.eye(10, dtype=np.float32)[images.train_labels]
    probe = {"input": jnp.asarray(inputs[: config.probe]), "output": jnp.asarray(targets[: config.probe])}
    exact = recurrent_backprop(free=Descent(500, tolerance=1e-7), steps=300)
    network = eq.layered((inputs.shape[1], config.hidden, 10), units=UNITS, gain=0.5, key=seed + start)
    per_epoch = len(inputs) // config.batch_size
    transform = optax.chain(optax.sgd(1.0), scale_by_coupling(config.rates))

    def measure(network: eq.Network) -> dict[str, float]:
        if name.startswith("ordinary"):
            outputs = feedforward(network, {"input": jnp.asarray(test_inputs)})["output"]
        else:
            outputs = eq.equilibrate(network, FREE, world=eq.Clamp("input", test_inputs))["output"]
        wrong = np.argmax(outputs, axis=-1) != images.test_labels
        cosine = _cosine(_gradient(how, network, probe), _gradient(exact, network, probe))
        return {"test_error": wrong.mean(), "cosine": cosine}

    history = eq.train(
        network, (inputs, targets), how, epochs=config.epochs, batch_size=config.batch_size, optimiser=transform,
        record=[1, *range(per_epoch, config.epochs * per_epoch + 1, per_epoch)], metrics=measure, show_progress=False,
        key=seed + start + 1,
    ).history  # fmt: skip
    return {name: np.asarray(history[name].values, float) for name in ("error", "test_error", "cosine", "epoch")}


def divergence(seed: int, updates: int = 300, visible: int = 8, hidden: int = 5) -> np.ndarray:
    """How far two learning rules are from the gradient that each stands for, relative: CD-1 and the two-phase rule.

    A Boltzmann machine of so few neurons that all of its states can be summed over learns random patterns by its exact
    gradient. The average of CD-1 over all of its draws is exact, too: what is left of it is its bias.

    Args:
        seed: of the weights and patterns.
        updates: how many the machine has learned for.
        visible: neurons.
        hidden: neurons.

    Returns:
        The relative distance of the mean CD-1 update from the gradient of the log-likelihood, and that of the two-phase
        gradient with ξ = 0.001 from the gradient of its own cost, in a network of the energy (34).
    """
    random = np.random.default_rng(seed)
    weights = 0.1 * random.normal(size=(visible, hidden))
    states = np.array(list(product([0.0, 1.0], repeat=visible)))
    law = np.zeros(len(states))
    law[random.choice(len(states), 6, replace=False)] = 1 / 6
    for _ in range(updates):
        exact, _ = _boltzmann_updates(weights, states, law)
        weights = weights + 0.5 * exact
    exact, divergent = _boltzmann_updates(weights, states, law)
    system = Implicit(energy, step=0.2, steps=5000)
    where = draw(seed, visible + hidden)
    with jax.enable_x64(True):
        mine, own = (
            np.asarray(ravel_pytree(system.gradient(where[0], 0.0, *where[1:], **how).value)[0])
            for how in ({"nudge": 1e-3, "sides": "one"}, {"method": "implicit"})
        )
    return np.array([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in ((divergent, exact), (mine, own))])


def _boltzmann_updates(weights: np.ndarray, states: np.ndarray, law: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the mean log-likelihood in the weights of a machine of 0 and 1, and the mean update of CD-1."""
    fields = states @ weights
    on = 1 / (1 + np.exp(-fields))
    free = np.logaddexp(0, fields).sum(1)
    model = np.exp(free - np.logaddexp.reduce(free))
    hidden = np.array(list(product([0.0, 1.0], repeat=weights.shape[1])))
    up = np.exp(np.log(on) @ hidden.T + np.log1p(-on) @ (1 - hidden).T)  # P(h | v)
    back = 1 / (1 + np.exp(-hidden @ weights.T))
    down = np.exp(np.log(back) @ states.T + np.log1p(-back) @ (1 - states).T)  # P(v | h)
    after = law @ up @ down
    data, free_phase, one_step = ((states * share[:, None]).T @ on for share in (law, model, after))
    return data - free_phase, data - one_step


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Learning curves of every rule from every start, and the angle of its gradient to the exact one."""
    grid = {"rule": range(len(rules())), "start": range(config.seeds), "seed": config.seed}
    cells = sweep(followed, config, checkpoint, **grid)
    named = {"train_error": "error", "test_error": "test_error", "cosine": "cosine"}
    data: dict[str, Any] = {name: (("rule", "start", "epoch"), cells[column].values) for name, column in named.items()}
    relatives = [divergence(config.seed + start) for start in range(config.seeds)]
    data["divergence"] = (("start", "which"), relatives)
    axes = {"rule": list(rules()), "epoch": cells["epoch"].values[0, 0], "which": ["CD-1", "two phases"]}
    return xr.Dataset(data, axes)


PHASES = {  # Table 1
    "ordinary back-propagation": ("forward pass", "backward pass"),
    "equilibrium propagation, one-sided": ("0-phase", "ξ-phase"),
    "equilibrium propagation, centered": ("0-phase", "ξ- and −ξ-phase"),
    "contrastive Hebbian learning": ("negative phase", "positive phase"),
    "recurrent back-propagation": ("free phase", "recurrent back-propagation"),
}


def plot(dataset: xr.Dataset):
    """Test errors, angles with the exact gradient, and Table 1 with the angle between each rule's gradient and the exact one,
    in degrees, at the first update and at the end. Means over seeds, bands their range."""
    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[1.7, 1]))
    left, right = top.subplots(1, 2)
    angle: xr.DataArray = xr.apply_ufunc(lambda cosine: np.degrees(np.arccos(cosine)), dataset["cosine"].clip(-1, 1))
    for colour, rule in zip(plots.PALETTE, dataset["rule"].values, strict=False):
        for axes, values in ((left, 100 * dataset["test_error"]), (right, angle)):
            values = values.sel(rule=rule)
            axes.plot(dataset["epoch"], values.mean("start"), color=colour, label=rule, linewidth=1.3)
            axes.fill_between(
                dataset["epoch"], values.min("start"), values.max("start"), color=colour, alpha=0.12, linewidth=0
            )
    left.set(yscale="log", xlabel="epoch", ylabel="test error, %", title="digits, one hidden layer")
    right.set(xlabel="epoch", ylabel="angle with the exact gradient, degrees", title="gradients at the network reached")
    right.set_yscale("symlog", linthresh=1)
    right.set_yticks(ticks := [0, 1, 10, 90], [f"{tick:d}" for tick in ticks])
    right.set_ylim(-0.05, 100)
    left.set_yticks(ticks := [10, 20, 40, 80], [f"{tick:d}" for tick in ticks])
    left.set_yticks([], minor=True)
    left.legend(fontsize=7)
    axes = bottom.subplots()
    axes.set_axis_off()
    mean = angle.mean("start")
    rows = [
        [rule, *PHASES[rule], f"{float(mean.sel(rule=rule)[0]):.1f}°", f"{float(mean.sel(rule=rule)[-1]):.1f}°"]
        for rule in PHASES
    ]
    names = ["model", "first phase", "second phase", "angle, first update", "angle, end"]
    table = axes.table(rows, colLabels=names, loc="center", cellLoc="left", colWidths=[0.3, 0.17, 0.23, 0.16, 0.12])
    table.auto_set_font_size(False)
    table.set_fontsize(8)
    table.scale(1, 1.25)
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What sections 2.3, 4.1 and 4.2 say of the rules."""
    cosine = dataset["cosine"].min("epoch")
    errors = dataset["test_error"].isel(epoch=slice(-3, None)).mean("epoch")  # rates are constant: epochs fluctuate
    exact = errors.sel(rule="recurrent back-propagation")
    centered, one, hebbian = (
        "equilibrium propagation, centered", "equilibrium propagation, one-sided", "contrastive Hebbian learning",
    )  # fmt: skip
    spread = float(3 * np.sqrt(2 * exact.mean() * (1 - exact.mean()) / 360))
    return [
        at_least(
            "The two-phase rule points along the gradient: smallest cosine in training, ξ = 0.2",
            source="Eq. (10); section 4.1",
            expected=0.98, measured=cosine.sel(rule=one).values, every=True,
            reason="of first order in ξ", quote="our algorithm computes the correct gradient on our objective function",
        ),
        at_least(
            "The same with centered nudging", source="follows from Eq. (10)", expected=0.98, every=True,
            measured=cosine.sel(rule=centered).values, ours=True, reason="of second order in ξ",
        ),
        at_least(
            "It is closer to the gradient than contrastive Hebbian learning: difference of the smallest cosines",
            source="section 4.1", expected=0.0, measured=(cosine.sel(rule=one) - cosine.sel(rule=hebbian)).values,
            quote="our learning rule is not the usual contrastive Hebbian learning rule",
        ),
        at_most(
            "It ends where recurrent back-propagation does: difference in test error, last three epochs",
            source="section 4.2", expected=0.0, measured=abs(errors.sel(rule=centered) - exact).values, tolerance=spread,
            reason="3 standard errors of two fractions of 360 test digits", ours=True,
        ),
        at_least(
            "Contrastive Hebbian learning ends no lower: difference in test error", source="section 4.1", expected=0.0,
            measured=(errors.sel(rule=hebbian) - errors.sel(rule=centered)).values, ours=True,
            quote="the contrastive cost function may take negative values, in which case gradient descent will make things "
            "worse",
        ),
        at_most(
            "Every rule learns the digits, contrastive Hebbian learning too: largest test error", source="section 4",
            expected=0.2, measured=errors.transpose("start", "rule").values, every=True, ours=True,
            reason="guessing is wrong in 0.9",
        ),
        at_least(
            "CD computes an approximation: relative distance of the mean update of CD-1 from the "
            "gradient of the log-likelihood, "
            "summed over all states", source="section 4.1", expected=0.05,
            measured=dataset["divergence"].sel(which="CD-1").values, every=True,
            reason="an approximation, not the gradient: by more than any rounding, read as a twentieth",
            quote="the CD algorithm computes an approximation to the gradient of the log-likelihood",
        ),
        at_most(
            "where two phases compute their own: relative distance, ξ = 0.001", source="section 4.1", expected=0.0,
            measured=dataset["divergence"].sel(which="two phases").values, every=True, tolerance=0.01,
            reason="of first order in ξ",
            quote="our algorithm computes the correct gradient on our objective function",
        ),
        not_testable(
            "Xie and Seung's equivalence needs more", source="section 4", reason="a statement about another paper",
            quote="Their result only holds for a layered MLP-like architecture, the feedback weights are assumed to be tiny "
            "compared to the feedforward weights",
        ),
        not_testable(
            "Phases of one model correspond to phases of the others", source="Table 1",
            reason="names put side by side; the angles between their gradients stand in the table of this figure",
            quote="Correspondence of the phases between Feedforward Nets, our model, Contrastive Hebbian Learning ... and "
            "Almeida-Pineida's Recurrent Back-Propagation",
        ),
        not_testable(
            "Explicit computations are efficient and almost exact, implicit ones are not", source="section 2.4",
            reason="neither has a number; how many iterations phases take is counted in scellier2017/relaxation",
            quote="computations are efficient and (almost) exact in the traditional 'explicit' framework, whereas they are "
            "inefficient and approximate in the proposed 'implicit' framework",
        ),
        not_testable(
            "Both phases are one kind of neural computation, in recurrent back-propagation they are not",
            source="sections 1, 4.2",
            reason="a statement about what is computed: here, too, both phases call the same relaxation, and recurrent "
            "back-propagation solves linear equations",
            quote="our model involves only one kind of neural computations for both phases; it uses a linearization of the "
            "neural activation rather than the fully non-linear activation",
        ),
        not_testable(
            "The Boltzmann machine's rule needs two independent phases", source="section 4.1",
            reason="a statement about another method; what it makes less obvious is an analogy",
            quote="the (correct version of the) Boltzmann machine learning rule requires two independent phases, making an "
            "analogy with backprop less obvious",
        ),
        not_testable(
            "Autoencoders come to symmetric weights; back-propagation works with random feedback weights",
            source="section 4.3",
            reason="statements about other papers",
            quote="denoising autoencoders without tied weights often end up learning symmetric weights; the backpropagation "
            "algorithm for feedforward nets also works when the feedback weights are random",
        ),
        not_testable(
            "Symmetric weights could come about by themselves, or not be needed", source="section 4.3",
            reason="statements about other papers, and open questions; all networks here have symmetric weights",
            quote="It remains to be shown how a form of symmetry could arise from the learning procedure itself",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(epochs=8), "paper": Config(hidden=64, epochs=12, seeds=5)}
DIFFERS = {name: ("no such figure in the paper; smooth units, the bundled digits",) for name in PRESETS}
