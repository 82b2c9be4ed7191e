"""Retrieval: which memory a network falls into from a cue."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from equilibria import check
from equilibria.compiled import array
from equilibria.equilibrators.driver import equilibrate
from equilibria.equilibrators.sweep import Sweeps
from equilibria.measure.overlaps import overlap
from equilibria.model.architectures import as_spins
from equilibria.model.network import Network

# Mixtures of several patterns have overlaps of at most 1/2 with each (Amit, Gutfreund and Sompolinsky 1985), retrieved
# patterns more than 0.96 up to the capacity at T = 0.
RETRIEVED = 0.7


class Retrieval(NamedTuple):
    """The verdict on each cue.

    Attributes:
        state: (..., N), where the network was left.
        pattern: the number of the pattern closest to that.
        overlap: with that pattern.
        spurious: whether it is no pattern but a mixture, a mirror image or something else.
        steps: sweeps until nothing moved any more.
        converged: whether nothing moves any more; None at temperatures above zero, where nothing ever rests.

    >>> import equilibria as eq
    >>> pattern = [[1, -1, 1, -1]]
    >>> retrieve(eq.hopfield(pattern), pattern, pattern, key=0).overlap
    Array([1.], dtype=float32)
    """

    state: Array
    pattern: Array
    overlap: Array
    spurious: Array
    steps: Array
    converged: Array | None


def retrieve(
    network: Network,
    patterns: ArrayLike,
    cues: ArrayLike,
    *,
    temperature: float = 0.0,
    sweeps: int = 100,
    order: Literal["random", "parallel"] = "random",
    threshold: float = RETRIEVED,
    show_progress: bool | None = None,
    key: Array | int | None = None,
) -> Retrieval:
    r"""Let a network of spins fall from cues, and say which of its patterns it came to.

    The verdict is by the overlap $m = \frac1N \sum_i \xi_i \sigma_i$ with each pattern.

    Args:
        network: of spins, such as `hopfield` makes.
        patterns: (K, N), what may be recalled.
        cues: (..., N) of -1 and +1, with 0 for what is not known: such a neuron exerts no field until it is first updated.
        temperature: of the neurons. At 0 the network stops when nothing moves.
        sweeps: how many at most; at temperatures above 0 exactly so many.
        order: "random", one neuron after another, or "parallel", all at once, which may end in a cycle of two states and
            is then not converged.
        threshold: a state with a smaller overlap with every pattern is spurious.
        show_progress: a progress bar; by default on a terminal only.
        key: a random key or a seed, needed unless the order is parallel at temperature 0.

    Returns:
        For each cue where the network was left, the pattern closest to that, and the verdict.

    Raises:
        ValueError: if patterns or cues do not fit the network, or another argument is out of its range.

    >>> import equilibria as eq
    >>> patterns = eq.data.random_patterns(3, 100, key=eq.key(0))
    >>> cues = eq.data.corrupt(patterns, flips=0.1, masked=0.2, key=eq.key(1))
    >>> found = retrieve(eq.hopfield(patterns), patterns, cues, key=2)
    >>> found.pattern.tolist(), found.overlap.tolist(), found.spurious.any().item(), found.converged.all().item()
    ([0, 1, 2], [1.0, 1.0, 1.0], False, True)
    """
    layer = network.layers[0]
    patterns = as_spins("patterns", patterns, ("patterns", "neurons"))
    check.shape("patterns", patterns, (layer.size,))
    cues = _checked_cues(cues, layer.size)
    check.number("threshold", threshold, least=-1, most=1)
    how = Sweeps(sweeps, order=order, tolerance=None if temperature else 0.0)
    rest = equilibrate(network, how, cues, temperature=temperature, show_progress=show_progress, key=key)
    overlaps = np.asarray(overlap(rest, patterns))
    best = np.max(overlaps, axis=-1)
    verdict = array(np.argmax(overlaps, axis=-1), int), array(best), array(best < threshold, bool)
    return Retrieval(rest[layer.name], *verdict, rest.steps, rest.converged)


def _checked_cues(cues: ArrayLike, size: int) -> Array:
    given = np.asarray(cues)
    if given.shape[-1:] != (size,):
        check.refuse("cues", f"shape {given.shape}", f"shape (..., {size}), the length of the patterns")
    strange = given[~np.isin(given, (-1, 0, 1))]
    if strange.size:
        check.refuse("cues", f"{strange.flat[0]} among the values", "-1 and +1, and 0 for what is not known")
    return array(given)
