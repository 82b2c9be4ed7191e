"""The replica-symmetric theory of a Hopfield network: one set of equations for Hebb, dreaming and examples.

A spin feels the field h = A xi + X z: the retrieved pattern, and the others as Gaussian noise. Hebb, dreaming and
learning from examples differ in the distribution of the pattern's entries xi (`EntryDistribution`) and in how the other
patterns answer (`ControlParameters`). Writing the equations in the fields A and X, not in the usual overlaps, has two
gains. They are smooth down to T = 0. And, at a given noise-to-signal ratio s = X/A, the signal A solves one bracketed
equation and the load is then explicit: the whole retrieval branch is a curve alpha(s), its spinodal is the curve's
maximum, and its stable part is monotonic. No iteration can fall off the branch's edge.

With t the sleep, alpha the load, chi = E sech^2(h/T) / T, kappa = t / (1+t), and Delta, D, p, q, Q as in the dreaming
literature (M = A Delta, alpha p = X^2 Delta^2, D = 1 - (Q-q)(1+t)/T):

    A Delta (Delta + t) = (1+t) E[xi tanh(h/T)]          D = 1 + t/Delta - (1+t) chi / Delta^2
    q = E[(tanh(h/T) - kappa Delta h)^2] / Delta^2       Delta - 1 = alpha t S,  S = 1/D
    X^2 = alpha q G,  G = (1+t)^2 / (D Delta)^2

M unlabelled examples of a pattern are M factors of the couplings. Their covariance over patterns has the eigenvalue 1 once,
for the mean of the examples, and w = rho / (1 + rho) in the M - 1 directions in which they differ. Such a direction is a
pattern of strength w, and answers with D_w = 1 - w + w D in place of D:

    S = 1/D + (M-1) w/D_w,     G = (1+t)^2 / Delta^2 [1/D^2 + (M-1) w^2/D_w^2]

The retrieved archetype acts through the mean of its examples alone. At t = 0 these are the equations of Amit, Gutfreund
and Sompolinsky (Ann. Phys. 173, 30, 1987); for t > 0 those of Fachechi, Agliari and Barra (Neural Networks 112, 24,
2019); for examples those of Alemanno et al. (EPL 141, 11001, 2023).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from equilibria.theory.neuron import TINY, magnetisation
from equilibria.theory.saddle import maximum, root

RATIOS = (1e-3, 30.0)  # the noise-to-signal ratios, the first over 1 + sleep, among which the spinodal is sought
LONG = 1000.0  # a sleep after which one ratio may have several solutions
LONGEST = 1e4  # a sleep beyond which rounding, which grows as its square, would be felt at T = 0


class ControlParameters(NamedTuple):
    """What is given besides the load."""

    temperature: np.ndarray
    sleep: np.ndarray = np.array(0.0)
    entropy: np.ndarray = np.array(0.0)  # rho of the examples; 0 where the patterns themselves are stored
    examples: np.ndarray = np.array(np.inf)  # M, the number of examples of each pattern
    unlabelled: np.ndarray = np.array(0.0)  # M - 1 for unlabelled examples, else 0

    @property
    def blur(self) -> np.ndarray:
        """w = rho / (1 + rho): the variance of a stored entry, and the strength of the unlabelled examples' modes."""
        return self.entropy / (1 + self.entropy)


class EntryDistribution(NamedTuple):
    """The distribution of a stored pattern's entries, along the archetype, scaled to E[xi^2] = 1.

    Atoms (the last axis), each with a Gaussian spread of the same variance.
    """

    values: np.ndarray
    weights: np.ndarray
    variance: np.ndarray

    def mean(self, each: np.ndarray) -> np.ndarray:
        """The average of what each atom has; atoms without weight may have anything."""
        return (self.weights * np.where(self.weights > 0, each, 0.0)).sum(-1)


def entry_distribution(control: ControlParameters) -> EntryDistribution:
    """The mean of M blurred copies of a +1: binomial, or Gaussian for M infinite."""
    copies = np.asarray(control.examples, float)[..., None]
    entropy = np.asarray(control.entropy, float)[..., None]
    if np.isinf(copies).all():
        return EntryDistribution((1 + entropy) ** -0.5, np.ones(1), control.blur)
    quality = (1 + copies * entropy) ** -0.5
    flips = np.arange(copies.max() + 1)
    values = (1 - 2 * flips / copies) / (quality * np.sqrt(1 + entropy))
    return EntryDistribution(values, binom.pmf(flips, copies, (1 - quality) / 2), np.zeros(()))


class Site(NamedTuple):
    """Averages over the distribution of the pattern's entries and over the noise."""

    m: np.ndarray  # E[tanh], the overlap with the archetype
    aligned: np.ndarray  # E[xi tanh], the overlap with the stored pattern
    square: np.ndarray  # E[tanh^2], the overlap of two replicas
    slope: np.ndarray  # chi


def site(signal: np.ndarray, noise: np.ndarray, control: ControlParameters) -> Site:
    """The averages for a retrieved pattern of strength A and noise X."""
    entries = entry_distribution(control)
    each = magnetisation(*fields(signal, noise, entries), np.asarray(control.temperature)[..., None])
    m, square, slope = (entries.mean(average) for average in each)
    aligned = entries.mean(entries.values * each.mean) + entries.variance * signal * slope
    return Site(m, aligned, square, slope)


def fields(signal: np.ndarray, noise: np.ndarray, entries: EntryDistribution) -> tuple[np.ndarray, np.ndarray]:
    """The center and the spread of the field on each atom."""
    spread = np.sqrt(noise**2 + entries.variance * signal**2)
    return np.asarray(signal)[..., None] * entries.values, np.asarray(spread)[..., None]


class Others(NamedTuple):
    """The other patterns, given the site averages and Delta."""

    stiffness: np.ndarray  # D
    overlap: np.ndarray  # q, which is E[tanh^2] only without sleep
    softness: np.ndarray  # 1/G, with the sign of D: no solution where it is negative
    reaction: np.ndarray  # S D, 1 without unlabelled examples


def others(here: Site, signal: np.ndarray, noise: np.ndarray, delta: np.ndarray, control: ControlParameters) -> Others:
    """How the patterns that are not retrieved answer."""
    t, kappa = control.sleep, control.sleep / (1 + control.sleep)
    stiffness = 1 + t / delta - (1 + t) * here.slope / delta**2
    projection = signal * here.aligned + noise**2 * here.slope  # E[h tanh(h/T)], by parts
    overlap = here.square / delta**2 - 2 * kappa * projection / delta + kappa**2 * (signal**2 + noise**2)
    overlap = np.maximum(overlap, 1e-15 * noise**2 + TINY)  # the mean of a square: rounding must not make it negative
    share = differing(stiffness, control)
    main = (stiffness * delta / (1 + t)) ** 2 / (1 + control.unlabelled * share**2)
    return Others(stiffness, overlap, np.sign(stiffness) * main, 1 + control.unlabelled * share)


def differing(stiffness: np.ndarray, control: ControlParameters) -> np.ndarray:
    """w D / D_w, how a direction in which examples differ answers beside their mean; 0 where there is no solution."""
    answer = control.blur * np.maximum(stiffness, 0.0)
    return answer / (1 - control.blur + answer)


class SaddlePoint(NamedTuple):
    """Solutions of the equations."""

    signal: np.ndarray  # A
    noise: np.ndarray  # X
    delta: np.ndarray
    load: np.ndarray
    converged: np.ndarray


def balance(signal: np.ndarray, ratio: np.ndarray, *given: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By how much the equations miss at a signal A and a ratio X/A, with Delta and the load that they then have."""
    control, noise = ControlParameters(*given), ratio * signal
    t = control.sleep
    here = site(signal, noise, control)
    pull = (1 + t) * here.aligned / signal
    delta = 2 * pull / (t + np.sqrt(t**2 + 4 * pull))  # of Delta (Delta + t) = pull; no difference of large numbers
    rest = others(here, signal, noise, delta, control)
    load = noise**2 / rest.overlap * rest.softness
    strain = t * load * rest.reaction / np.maximum(np.abs(rest.stiffness), TINY)  # Delta - 1, with the sign of D
    return 1 - (1 + strain) / delta, delta, load


def at_ratio(ratio: np.ndarray, *given: np.ndarray) -> SaddlePoint:
    """The retrieval states of noise-to-signal `ratio` at the ControlParameters `given`, T < 1.

    Each comes with its load, which is negative where the equations have no solution.
    """

    def mismatch(*x: np.ndarray) -> np.ndarray:
        return balance(*x)[0]

    # for T < 1 the mismatch is positive at small signals; beyond A = 1 it is not, since E[xi tanh] <= 1 makes delta < 1
    ratio, *controls = np.broadcast_arrays(ratio, *given)
    low, high = np.full(ratio.shape, 1e-9), np.full(ratio.shape, 1.25)
    long = controls[1] > LONG
    low[long], high[long] = _highest(mismatch, ratio[long], *(x[long] for x in controls))
    signal, converged = root(mismatch, low, high, ratio, *controls)
    _, delta, load = balance(signal, ratio, *controls)
    return SaddlePoint(signal, ratio * signal, delta, load, converged)


def _highest(mismatch: Callable[..., np.ndarray], *given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A bracket of the largest signal where the mismatch vanishes: the one that the branch has come from."""
    signals = np.geomspace(1.25, 1e-9, 240)
    first = np.argmax(mismatch(signals, *(x[:, None] for x in given)) > 0, axis=-1)
    return signals[first], signals[first - 1]


class Edge(NamedTuple):
    """Where the retrieval branch ends."""

    ratio: np.ndarray
    load: np.ndarray
    converged: np.ndarray


def edge(*given: np.ndarray) -> Edge:
    """The spinodal of retrieval at the ControlParameters `given`: the largest load of the branch, 0 for T >= 1."""
    controls, where = np.unique(
        np.stack([np.ravel(x) for x in np.broadcast_arrays(*given)]), axis=1, return_inverse=True
    )
    cold = controls[0] < 1  # no field holds a pattern above the critical temperature of the ferromagnet
    found = np.zeros((3, cold.size))
    found[2] = True
    if cold.any():
        low, high = np.log(RATIOS[0] / (1 + controls[1, cold])), np.log(RATIOS[1])
        place = maximum(lambda x, *given: at_ratio(np.exp(x), *given).load, low, high, *controls[:, cold])
        state = at_ratio(np.exp(place.value), *controls[:, cold])
        found[:, cold] = np.exp(place.value), np.maximum(state.load, 0), place.converged & state.converged
    ratio, load, converged = found[:, where.ravel()].reshape(3, *np.broadcast(*given).shape)
    return Edge(ratio, load, converged.astype(bool))


def retrieval(load: np.ndarray, end: np.ndarray, *given: np.ndarray) -> SaddlePoint:
    """The retrieval states at `load`, given the ratio `end` of the spinodal."""

    def excess(ratio: np.ndarray, load: np.ndarray, *given: np.ndarray) -> np.ndarray:
        reached = at_ratio(ratio, *given).load
        return np.sign(reached) * np.sqrt(np.abs(reached)) - np.sqrt(load)  # nearly linear in the ratio

    ratio, converged = root(excess, 0.0, end, load, *given, tolerance=1e-13)
    state = at_ratio(ratio, *given)
    return state._replace(load=load, converged=state.converged & converged)


def disordered(load: np.ndarray, *given: np.ndarray) -> SaddlePoint:
    """The states without retrieval: the spin glass, or where there is none the paramagnet (noise = 0)."""

    def solve(noise: np.ndarray, load: np.ndarray, *given: np.ndarray) -> tuple[Site, np.ndarray]:
        control = ControlParameters(*given)
        plain = control._replace(
            entropy=np.array(0.0), examples=np.array(np.inf)
        )  # without signal entries do not matter
        here = site(np.zeros_like(noise), noise, plain)
        return here, unlinked(here.slope, load, control)

    def excess(noise: np.ndarray, load: np.ndarray, *given: np.ndarray) -> np.ndarray:
        here, delta = solve(noise, load, *given)
        rest = others(here, np.zeros_like(noise), noise, delta, ControlParameters(*given))
        return noise**2 * rest.softness / rest.overlap - load

    temperature, sleep, *_ = given
    control = ControlParameters(*given)
    low = 1e-6 * temperature + 1e-9
    # without sleep X < sqrt(alpha strength) + sqrt(2/pi), since E sech^2(h/T) / T <= sqrt(2/pi) / X
    high = (np.sqrt(load * (1 + control.unlabelled * control.blur**2)) + 1) * (1 + sleep)
    frozen = (excess(low, load, *given) < 0) & (load > 0)
    noise, converged = root(excess, low, high, load, *given)
    noise = np.where(frozen, noise, 0.0)
    _, delta = solve(noise, load, *given)
    return SaddlePoint(np.zeros_like(noise), noise, delta, load, converged | ~frozen)


def unlinked(slope: np.ndarray, load: np.ndarray, control: ControlParameters) -> np.ndarray:
    """Delta where no pattern is retrieved, from Delta - 1 = alpha t S: above where D = 0 there is one.

    Newton's steps, kept in a bracket; a sum of other patterns than the retrieved one is a few products, which calling a
    general solver would cost more than.
    """
    load, slope, t, extra, w = np.broadcast_arrays(load, slope, control.sleep, control.unlabelled, control.blur)
    pull = (1 + t) * slope
    low = 2 * pull / (t + np.sqrt(t**2 + 4 * pull) + TINY)  # D = 0
    # D > 1/2 above sqrt(2 pull), and there S < 2 (1 + (M-1) w)
    delta = high = np.maximum(np.sqrt(2 * pull), 1 + 2 * load * t * (1 + extra * w)) + 1
    for _ in range(200 if np.any((t > 0) & (load > 0)) else 0):
        stiffness, rise = 1 + t / delta - pull / delta**2, (2 * pull / delta - t) / delta**2
        soft = 1 - w + w * np.maximum(stiffness, 0.0)  # D_w
        value = (delta - 1) * stiffness - load * t * (1 + extra * w * stiffness / soft)
        low, high = np.where(value < 0, delta, low), np.where(value < 0, high, delta)
        gradient = stiffness + (delta - 1) * rise - load * t * extra * w * (1 - w) * rise / soft**2
        newton = delta - value / np.where(gradient > 0, gradient, np.inf)
        step = np.where((newton > low) & (newton < high), newton, (low + high) / 2) - delta
        delta = delta + step
        if (np.abs(step) <= 1e-15 * delta).all():
            break
    return np.where(t > 0, np.where(load > 0, delta, np.maximum(low, 1.0)), 1.0)
