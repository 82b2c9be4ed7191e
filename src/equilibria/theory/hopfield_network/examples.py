"""What a large Hopfield network learns from examples: the archetypes are never seen, only blurred copies of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.hopfield_network.order import BRANCHES, OrderParameters, solve, spinodal
from equilibria.theory.hopfield_network.phases import Lines, lines_at
from equilibria.theory.hopfield_network.replica import LONGEST, ControlParameters, entry_distribution
from equilibria.theory.neuron import magnetisation


def dataset_entropy(quality: ArrayLike, examples: ArrayLike) -> np.ndarray:
    """What examples leave unknown of the archetype that they are blurred copies of: rho = (1 - r^2) / (M r^2).

    It is 0 for perfect copies, and 1/M at r^2 = 1/2. The mean of the examples etabar has E etabar^2 = r^2 (1 + rho)
    (Alemanno et al. 2023; Agliari 2024).

    Args:
        quality: r, the mean with which an example keeps an entry, above 0 and up to 1.
        examples: M, how many there are of each archetype; the two broadcast.

    Returns:
        The entropy rho.

    Raises:
        ValueError: if the quality is outside its range, or there is less than one example.

    >>> dataset_entropy(0.5, 30)
    np.float64(0.1)
    """
    r = np.asarray(check.number("quality", quality, above=0, most=1), float)
    many = np.asarray(check.number("examples", examples, least=1), float)
    return (1 - r * r) / (many * r * r)


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
) -> OrderParameters:
    """Order parameters of a Hopfield network that stores examples; m is the overlap with the archetype.

    M examples eta of each of K = alpha N archetypes have entries right with probability (1+r)/2; together they have the
    entropy rho = (1 - r^2) / (M r^2), and R = r^2 (1 + rho). A supervised network knows which examples belong together,

        J = (1/NR) sum_mu etabar^mu etabar^mu   (etabar: mean of the M examples of mu),    else
        J = (1/NMR) sum_{mu a} eta^{mu a} eta^{mu a}

    For many examples, with chi = (1-q)/T and w = rho / (1 + rho),

        n = m / (1 + rho - rho chi),  m = E tanh((n + z sqrt(rho n^2 + q R')) / T),  q = E tanh^2(same)
        R' = alpha / (1 - chi)^2   [+ alpha (M-1) w^2 / (1 - w chi)^2 unsupervised]

    and for a given number of them the average runs over the binomial law of their mean instead. With sleep, and without
    supervision, the equations are those in `replica.py`: sleep acts on the mean of the examples as on a pattern, and on
    the M - 1 directions in which they differ as on patterns of strength w. rho = 0 is the case of `hopfield`. (Alemanno
    et al., EPL 141, 11001, 2023; E. Agliari, lecture at Frascati 2024.)

    Args:
        load: alpha >= 0.
        temperature: T >= 0.
        entropy: rho >= 0, see `dataset_entropy`.
        examples: M; None stands for many. Without supervision it is needed: at a given entropy their number matters.
        supervised: whether the network knows which examples belong together.
        gaussian: take the formulas for many examples although their number is given.
        sleep: t, from 0 to 10^4: the kernel of `hopfield` on the couplings above. Arrays broadcast.
        branch: as in `hopfield`.

    Returns:
        Overlaps, free energy and stability of the branch, as in `hopfield`.

    Raises:
        ValueError: if an argument is out of its range, or two do not go together.

    >>> hopfield_examples(0.05, 0.1, entropy=[0.0, 0.1, 0.5]).m.round(6)
    array([0.999954, 0.976366,      nan])
    """
    check.choice("branch", branch, BRANCHES)
    check.number("load", load, least=0)
    return solve(branch, load, *_controls(temperature, entropy, examples, supervised, gaussian, sleep))


def hopfield_examples_capacity(
    temperature: ArrayLike = 0.0,
    *,
    entropy: ArrayLike,
    examples: ArrayLike | None = None,
    supervised: bool = True,
    gaussian: bool = False,
    sleep: ArrayLike = 0.0,
) -> np.ndarray:
    """The largest load at which archetypes are retrieved from examples.

    Supervised at T = 0, with many examples, it is the maximum over y < 1 / sqrt(2 rho) of

        alpha(y) = [(erf y - (2 / sqrt pi) y exp(-y^2)) / (1 + rho)]^2 (1 / (2 y^2) - rho)

    Args:
        temperature: T >= 0.
        entropy: rho >= 0, see `dataset_entropy`.
        examples: M; None stands for many.
        supervised: whether the network knows which examples belong together.
        gaussian: take the formulas for many examples although their number is given.
        sleep: t, from 0 to 10^4. Arrays broadcast.

    Returns:
        The load.

    Raises:
        ValueError: if an argument is out of its range, or two do not go together.
        RuntimeError: if the spinodal was not found.

    >>> hopfield_examples_capacity(entropy=[0.05, 0.1, 0.5]).round(6)
    array([0.099149, 0.071541, 0.009069])
    """
    return spinodal(*_controls(temperature, entropy, examples, supervised, gaussian, sleep))[()]


def hopfield_examples_lines(
    temperature: ArrayLike = 0.0,
    *,
    entropy: ArrayLike,
    examples: ArrayLike | None = None,
    supervised: bool = True,
    gaussian: bool = False,
    sleep: ArrayLike = 0.0,
) -> Lines:
    """The lines of the phase diagram of a network that stores examples, as loads; see `hopfield_lines`.

    Args:
        temperature: T >= 0.
        entropy: rho >= 0, see `dataset_entropy`.
        examples: M; None stands for many.
        supervised: whether the network knows which examples belong together.
        gaussian: take the formulas for many examples although their number is given.
        sleep: t, from 0 to 10^4. Arrays broadcast.

    Returns:
        Where archetypes are no longer retrieved, where that is no longer the state of lowest free energy, and where it
        becomes unstable against replica symmetry breaking.

    Raises:
        ValueError: if an argument is out of its range, or two do not go together.

    >>> lines = hopfield_examples_lines(0.1, entropy=0.1, examples=20, supervised=False)
    >>> bool(lines.first_order < lines.spinodal)
    True
    """
    return lines_at(*_controls(temperature, entropy, examples, supervised, gaussian, sleep))


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

    Args:
        load: alpha >= 0.
        entropy: rho >= 0, see `dataset_entropy`.
        examples: M; None stands for many.
        supervised: whether the network knows which examples belong together.
        gaussian: take the formula for many examples although their number is given. Arrays broadcast.

    Returns:
        The overlap.

    Raises:
        ValueError: if an argument is out of its range, or two do not go together.

    >>> hopfield_examples_step(0.1, entropy=[0.0, 0.1]).round(6)
    array([0.998435, 0.966595])
    """
    check.number("load", load, least=0)
    control = ControlParameters(*_controls(0.0, entropy, examples, supervised, gaussian, 0.0))
    entries, scale = entry_distribution(control), np.sqrt(1 + control.entropy)  # the archetype's field is xi / scale
    variance = np.asarray(load) * (1 + control.unlabelled * control.blur**2) + entries.variance / scale**2
    answer = magnetisation(entries.values / scale[..., None], np.sqrt(variance)[..., None], 0.0)
    return entries.mean(answer.mean)


def _controls(
    temperature: ArrayLike,
    entropy: ArrayLike,
    examples: ArrayLike | None,
    supervised: bool,
    gaussian: bool,
    sleep: ArrayLike,
) -> list[np.ndarray]:
    """The fields of ControlParameters, checked."""
    check.number("temperature", temperature, least=0)
    check.number("entropy", entropy, least=0)
    check.number("sleep", sleep, least=0, most=LONGEST)
    if examples is None and not supervised:
        check.refuse("examples", None, "the number of examples of each archetype, when not supervised")
    many = np.inf if examples is None else np.asarray(check.number("examples", examples, least=1), float)
    if np.any(many != np.rint(many)):
        check.refuse("examples", examples, "whole numbers >= 1")
    unlabelled = 0.0 if supervised else many - 1
    fields = (temperature, sleep, entropy, np.inf if gaussian else many, unlabelled)
    return [np.asarray(x, float) for x in np.broadcast_arrays(*fields)]
