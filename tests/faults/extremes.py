"""Extreme numbers: every answer is finite and in its range, or refused in words."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np

import equilibria as eq
import oracle
from faults.tally import Tally

FIELDS = np.array([0.0, 1e-30, 1e-6, 0.3, 1.0, 20.0, 90.0, 1e3, 1e5, 1e7, 1e10, 1e12], np.float32)
FIELDS = np.concatenate([FIELDS, -FIELDS])
HEAT = (1e-12, 1e-9, 1e-6, 1e-3, 0.03, 1.0, 30.0, 1e3, 1e6, 1e12)
SIZES = (0.0, 1e-12, 1e-3, 1.0, 18.0, 1e3, 1e6, 1e12)
UNITS = {
    "Spin": eq.Spin(),
    "Binary": eq.Binary(),
    "OneHot": eq.OneHot(),
    "Gaussian": eq.Gaussian(),
    "wide Gaussian": eq.Gaussian(1e12),
    "Clipped": eq.Clipped(),
    "loose Clipped": eq.Clipped(1e-12),
    "stiff Clipped": eq.Clipped(1e12),
    "Graded": eq.Graded(),
    "stiff Graded": eq.Graded(1e6),
    "GradedSpin": eq.GradedSpin(),
}
PAIRS = {
    "Binary-Binary": (eq.Binary(), eq.Binary()),
    "Spin-Spin": (eq.Spin(), eq.Spin()),
    "Gaussian-Binary": (eq.Gaussian(), eq.Binary()),
    "Spin-Gaussian": (eq.Spin(), eq.Gaussian()),
    "Gaussian-Gaussian": (eq.Gaussian(), eq.Gaussian()),
    "Clipped-Binary": (eq.Clipped(), eq.Binary()),
    "GradedSpin-Spin": (eq.GradedSpin(), eq.Spin()),
    "Binary-OneHot": (eq.Binary(), eq.OneHot()),
}
ANSWERS = ("mean", "variance", "mode", "cumulant", "sample")


def responses(units=tuple(UNITS), heat=HEAT) -> Tally:
    """What a unit answers to fields of all sizes, at all temperatures."""
    broken, outcomes = [], Counter()
    for name in units:
        answers = jax.jit(_responses, static_argnums=0)
        for temperature in heat:
            found = answers(name, jnp.asarray(FIELDS), jnp.float32(temperature), jax.random.key(0))
            wrong = [answer for answer, values in found.items() if not _possible(UNITS[name], answer, values)]
            outcomes["finite"] += not wrong
            broken += [f"{name} at temperature {temperature:g}: {answer} is {found[answer]}" for answer in wrong]
    return Tally("a unit's answers to fields up to 1e12", len(units) * len(heat), outcomes, broken)


def _responses(name: str, field, temperature, key):
    unit = UNITS[name].heated(temperature)
    asked = {answer: getattr(unit, answer) for answer in ANSWERS if answer != "sample"}
    scaled = field / temperature
    return {answer: ask(scaled) for answer, ask in asked.items()} | {"sample": unit.sample(key, scaled)}


def _possible(unit, answer, values) -> bool:
    values = np.asarray(values)
    if answer == "cumulant" and unit.normal_stiffness is not None:
        values = values[values < np.inf]  # v x^2 / 2 of the largest fields is beyond single precision
    if not np.isfinite(values).all():
        return False
    if answer == "variance":
        return bool((values >= 0).all())
    low, high = unit.range
    return answer == "cumulant" or bool(((values >= low) & (values <= high)).all())


def machines(pairs=tuple(PAIRS), sizes=SIZES, heat=HEAT[:-2]) -> Tally:
    """Whole machines: draws, means and ln Z by every way there is."""
    broken, outcomes = [], Counter()
    settings = list(itertools.product(pairs, sizes, heat))
    for number, (pair, size, temperature) in enumerate(settings):
        ways = {way: _asked(ask, pair, size, temperature, number) for way, ask in WAYS.items()}
        wrong = {way: told for way, told in ways.items() if told not in ("finite", "refused")}
        outcomes.update(Counter(f"answers {told}" for told in ways.values() if told in ("finite", "refused")))
        broken += [f"{pair}, weights {size:g}, temperature {temperature:g}, {way}: {wrong[way]}" for way in wrong]
    return Tally("a machine with weights up to 1e12, every sampler and ln Z", len(settings), outcomes, broken)


def _machine(pair, size, number):
    draw = np.random.default_rng(number)
    weights, first, second = (size * draw.normal(size=shape) for shape in ((3, 2), 3, 2))
    weights, first, second = (np.clip(array, -1e12, 1e12) for array in (weights, first, second))
    units = dict(zip(("visible", "hidden"), PAIRS[pair], strict=True))
    return eq.rbm(weights=weights, visible_bias=first, hidden_bias=second, **units)


def _asked(ask, pair, size, temperature, number) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a machine has no law is said as a warning, and ln Z is +inf then
            return ask(_machine(pair, size, number), temperature)
    except (ValueError, ArithmeticError) as error:
        return "refused" if len(str(error)) > 20 else f"refused without a reason: {error!r}"


def _state(network, state, averages=False) -> str:
    for layer in network.layers:
        values, unit = np.asarray(state[layer.name]), layer.unit
        inside = (values >= unit.range[0] - 1e-6) & (values <= unit.range[1] + 1e-6)
        if not (np.isfinite(values) & inside).all():
            return f"{layer.name} is {values}"
        if not averages and unit.levels is not None and not np.isin(values, unit.levels).all():
            return f"{layer.name} is {values}, between its levels"
    return "finite"


def _sampled(how):
    return lambda network, temperature: _state(
        network, eq.sample(network, how, chains=4, temperature=temperature, key=0)
    )


def _averaged(how):
    def ask(network, temperature):
        rest = eq.equilibrate(network, how, temperature=temperature, key=0)
        told = _state(network, rest.state, averages=True)
        return "refused" if "not finite" in rest.reason and not bool(rest.converged) else told

    return ask


def _log_partition(method, **options):
    def ask(network, temperature):
        found = eq.log_partition(network, method, temperature=temperature, **options)
        if found.value == np.inf and "not normalisable" in found.note:
            return "refused"
        if not np.isfinite(found.value):
            return f"ln Z is {found.value}, {found.note}"
        if method == "exact" and all(layer.unit.two_valued for layer in network.layers):
            return _compared(network, temperature, found.value)
        return "finite"

    return ask


def _compared(network, temperature, value) -> str:
    """With a sum in double precision."""
    exact = oracle.enumerate_states(network, temperature).log_partition
    close = abs(value - exact) <= 1e-5 * max(1.0, abs(exact), _largest_term(network, temperature))
    return "finite" if close else f"ln Z is {value}, by a sum in double precision {exact}"


def _largest_term(network, temperature) -> float:
    leaves = jax.tree.leaves(network)
    return sum(float(np.abs(np.asarray(leaf, np.float64)).sum()) for leaf in leaves) / temperature


WAYS = {
    "sweeps": _sampled(eq.Sweeps(5)),
    "exact draws": _sampled(eq.Exact()),
    "naive mean field": _averaged(eq.MeanField(20, order=1)),
    "TAP": _averaged(eq.MeanField(20, order=2)),
    "message passing": _averaged(eq.Cavity(20)),
    "ln Z, exact": _log_partition("exact"),
    "ln Z, Bethe": _log_partition("bethe"),
}
