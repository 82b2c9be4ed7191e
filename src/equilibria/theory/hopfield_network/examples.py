"""What a large Hopfield network learns from examples: the archetypes are never seen, only blurred copies of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.hopfield_network.order import BRANCHES, Memory, solve, spinodal
from equilibria.theory.hopfield_network.replica import LONGEST, Setting, law
from equilibria.theory.neuron import response


def dataset_entropy(quality: ArrayLike, examples: ArrayLike) -> np.ndarray:
    """What M `examples` leave unknown of an archetype whose entries they keep with mean `quality` r.

    rho = (1 - r^2) / (M r^2): 0 for perfect copies, and 1/M at r^2 = 1/2 (Alemanno et al. 2023).

    >>> dataset_entropy(0.5, 30)
    np.float64(0.1)
    """
    r = np.asarray(check.number("quality", quality, above=0, most=1), float)
    return (1 - r * r) / (check.number("examples", examples, least=1) * r * r)


def hopfield_examples(
    load: ArrayLike,
    temperature: ArrayLike = 0.0,
    *,
    entropy: ArrayLike,
    examples: ArrayLike | None = None,
    supervised: bool = True,
    gaussian: bool = False,
    sleep: ArrayLike = 0.0,
    branch: str = "retrieval",
) -> Memory:
    """Order parameters of a Hopfield network that stores examples; m is the overlap with the archetype.

    M `examples` eta of each of K = alpha N archetypes have entries right with probability (1+r)/2; together they have the
    `entropy` rho = (1 - r^2) / (M r^2), and R = r^2 (1 + rho). A `supervised` network knows which examples belong together,

        J = (1/NR) sum_mu etabar^mu etabar^mu   (etabar: mean of the M examples of mu),    else
        J = (1/NMR) sum_{mu a} eta^{mu a} eta^{mu a}

    For many examples (`examples` None, or `gaussian`), with chi = (1-q)/T and w = rho / (1 + rho),

        n = m / (1 + rho - rho chi),  m = E tanh((n + z sqrt(rho n^2 + q R')) / T),  q = E tanh^2(same)
        R' = alpha / (1 - chi)^2   [+ alpha (M-1) w^2 / (1 - w chi)^2 unsupervised]

    and for a given number of `examples` the average runs over the binomial law of their mean instead. A supervised
    network may also `sleep` (the kernel of `hopfield` on the etabar). Unsupervised needs `examples`: at a given entropy
    their number matters. `branch` and the answer are as in `hopfield`, which is the case rho = 0. (Alemanno et al., EPL
    141, 11001, 2023; E. Agliari, lecture at Frascati 2024.)

    >>> hopfield_examples(0.05, 0.1, entropy=[0.0, 0.1, 0.5]).m.round(6)
    array([0.999954, 0.976366,      nan])
    """
    check.choice("branch", branch, BRANCHES)
    check.number("load", load, least=0)
    return solve(branch, load, *_setting(temperature, entropy, examples, supervised, gaussian, sleep))


def hopfield_examples_capacity(
    temperature: ArrayLike = 0.0,
    *,
    entropy: ArrayLike,
    examples: ArrayLike | None = None,
    supervised: bool = True,
    gaussian: bool = False,
    sleep: ArrayLike = 0.0,
) -> np.ndarray:
    """The largest load at which archetypes are retrieved; the arguments are those of `hopfield_examples`.

    Supervised at T = 0, with many examples, it is the maximum over y < 1 / sqrt(2 rho) of

        alpha(y) = [(erf y - (2 / sqrt pi) y exp(-y^2)) / (1 + rho)]^2 (1 / (2 y^2) - rho)

    >>> hopfield_examples_capacity(entropy=[0.05, 0.1, 0.5]).round(6)
    array([0.099149, 0.071541, 0.009069])
    """
    return spinodal(*_setting(temperature, entropy, examples, supervised, gaussian, sleep))[()]


def hopfield_examples_step(
    load: ArrayLike,
    *,
    entropy: ArrayLike,
    examples: ArrayLike | None = None,
    supervised: bool = True,
    gaussian: bool = False,
) -> np.ndarray:
    """The overlap with an archetype after one parallel update from it at T = 0.

    The archetype's own field meets Gaussian noise: for many examples

        m = erf(1 / sqrt(2 [rho + alpha (1+rho)^2 + alpha (M-1) rho^2]))     (the last term unsupervised)

    The arguments are those of `hopfield_examples`.

    >>> hopfield_examples_step(0.1, entropy=[0.0, 0.1]).round(6)
    array([0.998435, 0.966595])
    """
    check.number("load", load, least=0)
    setting = Setting(*_setting(0.0, entropy, examples, supervised, gaussian, 0.0))
    entries, scale = law(setting), np.sqrt(1 + setting.entropy)  # the archetype's field is xi / scale
    variance = np.asarray(load) * (1 + setting.unlabelled * setting.blur**2) + entries.variance / scale**2
    answer = response(entries.values / scale[..., None], np.sqrt(variance)[..., None], 0.0)
    return entries.mean(answer.mean)


def _setting(
    temperature: ArrayLike,
    entropy: ArrayLike,
    examples: ArrayLike | None,
    supervised: bool,
    gaussian: bool,
    sleep: ArrayLike,
) -> list[np.ndarray]:
    """The fields of a Setting, checked."""
    check.number("temperature", temperature, least=0)
    check.number("entropy", entropy, least=0)
    check.number("sleep", sleep, least=0, most=LONGEST)
    if examples is None and not supervised:
        check.refuse("examples", None, "the number of examples of each archetype, when not supervised")
    if not supervised and np.any(np.asarray(sleep) > 0):
        check.refuse("sleep", sleep, "0 when not supervised")
    many = np.inf if examples is None else np.asarray(check.number("examples", examples, least=1), float)
    if np.any(many != np.rint(many)):
        check.refuse("examples", examples, "whole numbers >= 1")
    unlabelled = 0.0 if supervised else many - 1
    fields = (temperature, sleep, entropy, np.inf if gaussian else many, unlabelled)
    return [np.asarray(x, float) for x in np.broadcast_arrays(*fields)]
