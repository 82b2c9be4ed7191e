"""Section 4.1: the contrastive cost (49) can be negative, and learning then makes things worse; the cost (9) cannot."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.scellier2017.energy import draw, energy
from equilibria.papers.sweep import sweep


@dataclass(frozen=True)
class Config:
    """`count` fully connected networks of `neurons` at each strength of the weights, `outputs` of them with a target."""

    strengths: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0, 4.0)
    neurons: int = 20
    outputs: int = 3
    count: int = 100
    steps: int = 4000
    rate: float = 1e-3  # of the one update whose effect is looked at
    nudge: float = 1e-3
    updates: int = 100  # of a run of learning by either rule, each of the length `stride`
    stride: float = 0.02
    seeds: int = 5
    seed: int = 0


@partial(jax.jit, static_argnames=("steps", "clamped"))
def _rest(parameters, influence, start, world, *, steps: int, clamped: bool = False):
    """Where gradient descent comes to rest, the outputs at their targets if `clamped`; one network."""
    moving = jnp.arange(len(start)) < len(start) - len(world[1]) * clamped
    if clamped:
        held = jnp.arctanh(world[1])  # rates are tanh of the states
        start = start.at[-len(held) :].set(held)

    def step(_, state):
        return state - 0.1 * moving * jax.grad(energy, argnums=2)(parameters, influence, state, world)

    return jax.lax.fori_loop(0, steps, step, start)


def _cost(parameters, state, world):
    return jnp.sum((jnp.tanh(state[-len(world[1]) :]) - world[1]) ** 2) / 2


def _one(parameters, start, world, *, config: Config):
    """Both costs of one network, what one update by either rule does to the cost (9), and how far the nudge moves it."""
    rest = partial(_rest, steps=config.steps)
    free = rest(parameters, 0.0, start, world)
    clamped = rest(parameters, 0.0, start, world, clamped=True)  # two phases from one start, as Movellan's
    near, nearer = (rest(parameters, nudge, free, world) for nudge in (config.nudge, config.nudge / 2))
    slope = jax.grad(energy)

    def after(gradient):
        """The change of the cost, per length of the update, from where the network was."""
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        moved = jax.tree.map(lambda p, g: p - config.rate * g / length, parameters, gradient)
        return (_cost(moved, rest(moved, 0.0, free, world), world) - _cost(parameters, free, world)) / config.rate

    at_rest = slope(parameters, 0.0, free, world)
    contrast = {
        "contrastive": jax.tree.map(jnp.subtract, slope(parameters, 0.0, clamped, world), at_rest),
        "nudged": jax.tree.map(lambda a, b: (a - b) / config.nudge, slope(parameters, 0.0, near, world), at_rest),
    }
    difference = energy(parameters, 0.0, clamped, world) - energy(parameters, 0.0, free, world)
    force = jnp.abs(jax.grad(energy, argnums=2)(parameters, 0.0, free, world)).max()
    ratio = jnp.linalg.norm(near - free) / jnp.maximum(jnp.linalg.norm(nearer - free), 1e-30)
    lift = energy(parameters, config.nudge, near, world) - energy(parameters, 0.0, free, world)
    return {
        "contrastive": difference, "squared": _cost(parameters, free, world), "force": force, "ratio": ratio,
        "by_contrastive": after(contrast["contrastive"]), "by_nudged": after(contrast["nudged"]),
        "lift": lift / config.nudge,
    }  # fmt: skip


def _course(parameters, start, world, *, config: Config, clamped: bool):
    """The contrastive cost and the squared error of one network along learning by one rule, in updates of one length."""
    first, rest = (partial(_rest, steps=steps) for steps in (config.steps, config.steps // 8))
    slope = jax.grad(energy)

    def update(loop, _):
        theta, free, held = loop
        free = rest(theta, 0.0, free, world)  # each phase from where it ended before, as persistent particles do
        held = rest(theta, 0.0, held, world, clamped=True)
        gap = energy(theta, 0.0, held, world) - energy(theta, 0.0, free, world)
        there = held if clamped else rest(theta, config.nudge, free, world)
        change = jax.tree.map(jnp.subtract, slope(theta, 0.0, there, world), slope(theta, 0.0, free, world))
        length = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(change)))
        # no longer than what is left to learn: the last steps are shorter
        pace = jnp.minimum(config.stride, length / (1.0 if clamped else config.nudge))
        cost = _cost(theta, free, world)
        theta = jax.tree.map(lambda p, g: p - pace * g / jnp.maximum(length, 1e-30), theta, change)
        return (theta, free, held), (gap, cost)

    begin = (first(parameters, 0.0, start, world), first(parameters, 0.0, start, world, clamped=True))
    _, found = jax.lax.scan(update, (parameters, *begin), None, length=config.updates)
    return jnp.stack(found)


@partial(jax.jit, static_argnames=("config",))
def _all(parameters, start, world, *, config: Config):
    """`_one` for many networks; compiled once for all cells."""
    return jax.vmap(partial(_one, config=config))(parameters, start, world)


@partial(jax.jit, static_argnames=("config", "clamped"))
def _courses(parameters, start, world, *, config: Config, clamped: bool):
    return jax.vmap(partial(_course, config=config, clamped=clamped))(parameters, start, world)


def _drawn(strength: float, start: int, seed: int, config: Config, count: int):
    """The first so many networks of one cell, stacked."""
    first = (seed + start) * config.count
    drawn = [draw(first + index, config.neurons, outputs=config.outputs, strength=strength) for index in range(count)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *drawn)


def compared(strength: float, start: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: `count` networks of one strength.

    Args:
        strength: of the weights.
        start: number of the set of networks.
        seed: of all of them.
        config: the figure's configuration.

    Returns:
        What `_one` finds, for each network.
    """
    parameters, begin, world = _drawn(strength, start, seed, config, config.count)
    with jax.enable_x64(True):
        found = _all(parameters, begin, world, config=config)
        return {name: np.asarray(values) for name, values in found.items()}


def learned(strength: float, start: int, seed: int, *, config: Config) -> dict[str, np.ndarray]:
    """One cell: the first tenth of the same networks learn by either rule.

    Args:
        strength: of the weights.
        start: number of the set of networks.
        seed: of all of them.
        config: the figure's configuration.

    Returns:
        The contrastive cost and the squared error, (2, networks, updates), by clamping and by nudging.
    """
    parameters, begin, world = _drawn(strength, start, seed, config, max(2, config.count // 10))
    with jax.enable_x64(True):
        rows = [_courses(parameters, begin, world, config=config, clamped=clamped) for clamped in (True, False)]
        return {"course": np.moveaxis(np.asarray(rows), 2, 1)}  # (rule, cost, network, update)


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """All strengths and sets."""
    cells = sweep(compared, config, checkpoint, strength=config.strengths, start=range(config.seeds), seed=config.seed)
    names = ("contrastive", "squared", "force", "ratio", "by_contrastive", "by_nudged", "lift")
    data: dict[str, Any] = {name: (("strength", "start", "network"), cells[name].values) for name in names}
    courses = sweep(learned, config, checkpoint, strength=config.strengths, start=range(config.seeds), seed=config.seed)
    axes = ("strength", "start", "rule", "cost", "learner", "update")
    data["course"] = (axes, courses["course"].values)
    named = {"strength": list(config.strengths), "rule": ["clamped", "nudged"], "cost": ["contrastive", "squared"]}
    return xr.Dataset(data, named, {"stride": config.stride})


def _settled(dataset: xr.Dataset) -> xr.Dataset:
    """Networks that came to rest."""
    still = dataset.drop_vars("course")
    return still.where(still["force"] < 1e-6).assign(course=dataset["course"])


def ends(dataset: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """The squared error at the end of learning over that at its start, and whether the contrastive cost ever was negative."""
    course = dataset["course"]
    squared = course.sel(cost="squared")
    ratio = squared.isel(update=-1) / squared.isel(update=0).clip(min=1e-12)
    return ratio, (course.sel(cost="contrastive") < 0).any("update")


def _worse(dataset: xr.Dataset, rule: str, negative: bool) -> xr.DataArray:
    """How often an update raises the squared error, among networks whose contrastive cost is negative, or is not."""
    chosen = (dataset["contrastive"] < 0) == negative
    known = chosen & dataset[rule].notnull()
    return ((dataset[rule] > 0) & known).sum(("strength", "network")) / known.sum(("strength", "network"))


def plot(dataset: xr.Dataset):
    """Above: the contrastive cost against the squared error, each dot a network; how often it is negative. Below: how often one
    small update raises the squared error, by the sign of the contrastive cost; the squared error along learning (median, and
    the highest tenth dashed) of networks in which the contrastive cost becomes negative on the way."""
    dataset = _settled(dataset)
    figure, ((left, middle), (right, last)) = plots.panels(columns=2, rows=2, size=(4.6, 3.3))
    for colour, strength in zip(plots.PALETTE, dataset["strength"].values, strict=False):
        here = dataset.sel(strength=strength)
        left.plot(
            here["squared"].values.ravel(), here["contrastive"].values.ravel(), ".", color=colour, markersize=2.5,
            alpha=0.6, label=f"strength {strength:g}",
        )  # fmt: skip
    left.axhline(0, color="0.4", linewidth=0.8)
    left.set(xlabel="squared error (9)", ylabel="contrastive cost (49)")
    left.legend(fontsize=7, markerscale=3)
    negative = (dataset["contrastive"] < 0).where(dataset["contrastive"].notnull()).mean("network")
    plots.simulation_points(middle, dataset["strength"], negative.mean("start"), negative.std("start"))
    middle.set(xlabel="strength of the weights", ylabel="share with a negative cost (49)", ylim=(0, None))
    places = np.arange(2)
    for shift, colour, rule, name in (
        (-0.2, plots.PALETTE[1], "by_contrastive", "contrastive Hebbian"), (0.2, plots.PALETTE[0], "by_nudged", "nudged (36)"),
    ):  # fmt: skip
        values = [_worse(dataset, rule, sign) for sign in (False, True)]
        means, spreads = [float(v.mean()) for v in values], [float(v.std()) for v in values]
        right.bar(places + shift, means, 0.38, yerr=spreads, color=colour, label=name)
    right.set_xticks(places, ["cost (49) ≥ 0", "cost (49) < 0"])
    right.set(ylabel="updates that raise the squared error", ylim=(0, 1))
    right.legend(loc="upper left")
    _, negative = ends(dataset)
    for colour, rule, name in (
        (plots.PALETTE[1], "clamped", "contrastive Hebbian"),
        (plots.PALETTE[0], "nudged", "nudged (36)"),
    ):
        chosen = dataset["course"].sel(cost="squared", rule=rule).where(negative.sel(rule="clamped"))
        for level, dashes, label in ((0.5, "-", name), (0.9, "--", None)):
            line = chosen.quantile(level, ("strength", "start", "learner"))
            last.plot(dataset["update"], line, color=colour, linestyle=dashes, label=label)
    last.set(
        xlabel="updates",
        ylabel="squared error (9)",
        yscale="log",
        title="where (49) becomes negative; dashed: highest tenth",
    )
    last.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What section 4.1 says of the two costs."""
    dataset = _settled(dataset)
    negative = (dataset["contrastive"] < 0).any("network").sum("strength")
    lowest = dataset["lift"].where(dataset["squared"] > 1e-6).min(("strength", "network"))
    ratio, wrong = ends(dataset)
    worse = (ratio > 1).where(wrong).mean(("strength", "learner"))  # among networks whose cost (49) is ever negative
    close_by = (dataset["ratio"] - 2).where(dataset["squared"] > 1e-6)
    return [
        at_least(
            "The contrastive cost is negative in some networks: strengths at which it is", source="section 4.1",
            expected=1.0, measured=negative.values, every=True, reason="'may be': once among the networks of each seed",
            quote="it may be negative if the clamped phase and free phase stabilize in different mode of the energy function",
        ),
        at_least(
            "Where it is, an update by contrastive Hebbian learning raises the squared error: share of networks",
            source="section 4.1; Movellan 1990", expected=0.5, measured=_worse(dataset, "by_contrastive", True).values,
            reason="'usually'", quote="in which case learning usually deteriorates, as pointed out by Movellan (1990)",
        ),
        at_least(
            "The cost of the two-phase rule, measured as (F at the ξ-fixed point minus F at the 0-fixed point)/ξ, is never "
            "negative: smallest, where the squared error is above 1e-6", source="section 1; Eq. (9), (49)", expected=0.0,
            measured=lowest.values, every=True,
            quote="The cost function can be guaranteed to be always positive because it is defined in terms of infinitesimal "
            "local perturbations",
        ),
        at_least(
            "Learning by contrastive Hebbian learning deteriorates where the cost becomes negative: "
            "share of these networks whose "
            "squared error is larger in the end than at the start",
            source="section 4.1; Movellan 1990", expected=0.5, measured=worse.sel(rule="clamped").values, reason="'usually'",
            quote="in which case learning usually deteriorates, as pointed out by Movellan (1990)",
        ),
        at_most(
            "Learning by the two-phase rule does not, in any network: share whose squared error is larger in the end",
            source="section 4.1", expected=0.0, measured=(ratio.sel(rule="nudged") > 1).mean(("strength", "learner")).values,
            tolerance=0.02, every=True, reason="updates of finite length can leave a mode",
            quote="Our objective function does not suffer from this problem",
        ),
        at_most(
            "The ξ-fixed point is ξ-close to the 0-fixed point: networks in which half the nudge is not half as far, within 1%",
            source="section 4.1", expected=0.0, measured=(abs(close_by) > 0.02).sum(("strength", "network")).values,
            tolerance=0.0, every=True,
            quote="the implicit function theorem guarantees that the ξ-fixed point will be in the same mode as the 0-fixed "
            "point, and ξ-close to it",
        ),
        at_most(
            "A small update by the two-phase rule does not raise the squared error: share of networks in which it does",
            source="Eq. (10)", expected=0.0, measured=np.maximum(
                _worse(dataset, "by_nudged", True).fillna(0).values, _worse(dataset, "by_nudged", False).values),
            tolerance=0.02, ours=True, reason="an update of finite length can leave the mode near its end",
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(seeds=2, updates=30), "paper": Config(count=60, steps=4000, updates=40, stride=0.05)}
DIFFERS = {
    name: (
        "no such figure in the paper; random fully connected networks with ρ = tanh, outputs clamped through their rates",
    )
    for name in PRESETS
}
