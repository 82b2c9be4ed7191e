"""The famous rules, each a short choice of phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from jax import Array

from equilibria import check
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.mean_field import MeanField
from equilibria.equilibrators.sweep import Sweeps
from equilibria.equilibrators.temper import Tempered
from equilibria.learn.contrast import Phase, Recipe, Start
from equilibria.model.world import squared_error


def cd(steps: int, *, centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0) -> Recipe:
    """Contrastive divergence: the free phase starts at the data and runs for `steps` sweeps.

    As in every recipe of the likelihood, `centered_gradient` takes the couplings' gradient about the means of both ends, and
    `l1` and `l2` penalise the couplings by l1 |W| + l2 W^2 / 2.

    >>> cd(steps=1).minus.start
    'data'
    """
    return _likelihood(Sweeps(steps), "data", centered_gradient=centered_gradient, l1=l1, l2=l2)


def pcd(
    steps: int, chains: int | None = None, *, centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0
) -> Recipe:
    """Persistent contrastive divergence: the free phase goes on from where it was.

    `chains` is how many persistent chains there are, as many as examples in a batch by default.

    >>> pcd(steps=10).minus.start
    'chains'
    """
    return _likelihood(Sweeps(steps), "chains", chains, centered_gradient=centered_gradient, l1=l1, l2=l2)


def rdm(steps: int, *, centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0) -> Recipe:
    """The free phase starts at random every time (Decelle, Furtlehner and Seoane's "Rdm").

    >>> rdm(steps=10).minus.start
    'random'
    """
    return _likelihood(Sweeps(steps), "random", centered_gradient=centered_gradient, l1=l1, l2=l2)


def tempered(
    steps: int,
    chains: int | None = None,
    *,
    rungs: int = 8,
    hottest: float = 10.0,
    adapt: float = 1.0,
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Persistent chains with parallel tempering: `rungs` copies of each, up to `hottest` times as hot (see `Tempered`).

    >>> tempered(steps=1, rungs=5).minus.how.rungs
    5
    """
    how = Tempered(steps, rungs=rungs, hottest=hottest, adapt=adapt)
    return _likelihood(how, "chains", chains, centered_gradient=centered_gradient, l1=l1, l2=l2)


def mean_field(
    steps: int = 20, chains: int | None = None, *, centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0
) -> Recipe:
    """Naive mean field: the free phase is `steps` rounds of the means' equations, going on from where they were.

    >>> mean_field().minus.how.order
    1
    """
    return _expansion(1, steps, chains, centered_gradient=centered_gradient, l1=l1, l2=l2)


def tap(
    order: Literal[2, 3] = 2,
    steps: int = 20,
    chains: int | None = None,
    *,
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Thouless-Anderson-Palmer equations to second or third order (Gabrié, Tramel and Krzakala 2015) in the free phase.

    >>> tap(order=3).minus.how.order
    3
    """
    check.choice("order", order, (2, 3))
    return _expansion(order, steps, chains, centered_gradient=centered_gradient, l1=l1, l2=l2)


def exact(*, centered_gradient: bool = False, l1: float = 0.0, l2: float = 0.0) -> Recipe:
    """The exact gradient of the log-likelihood, by enumeration; for small networks.

    Not centered unless asked: by itself it is the gradient, and `contrast` reports the likelihood itself.

    >>> exact().plus.hold
    'all'
    """
    return _likelihood(Exact(), "data", centered_gradient=centered_gradient, l1=l1, l2=l2)


def _expansion(order, steps, chains, **options) -> Recipe:
    # No tolerance: the means go on from the last step, and a fixed number of rounds costs the same every time.
    return _likelihood(MeanField(steps, order=order, tolerance=None), "chains", chains, **options)


def _likelihood(how: Equilibrator, start: Start, chains: int | None = None, *, centered_gradient, l1, l2) -> Recipe:
    chains = None if chains is None else check.count("chains", chains)
    plus, minus = Phase(how.clamped(), hold="all"), Phase(how, start=start)
    return Recipe(plus, minus, chains=chains, centered_gradient=centered_gradient, l1=l1, l2=l2)


def equilibrium_propagation(
    nudge: float = 0.5,
    *,
    free: Equilibrator | None = None,
    nudged: Equilibrator | None = None,
    symmetric: bool = True,
    random_sign: bool = False,
    particles: bool | str = False,
    cost: Callable[[Array, Array], Array] = squared_error,
    watch_changes: bool = False,
) -> Recipe:
    """Equilibrium propagation (Scellier and Bengio, equation 11): the output nudged, against the output free.

    Parameters: `nudge` is their xi; `symmetric` contrasts +nudge with -nudge instead of with the free phase, which cancels
    the first-order error; `random_sign` flips the sign at random instead, as in the paper. `free` and `nudged` say how each
    phase comes to rest: block descent of 20 and 6 sweeps by default. `particles` starts each example where it was left;
    "float16" keeps them in half precision. `cost` is what the output is nudged to lower: `squared_error` or any other, such as
    `cross_entropy` for a softmax read-out. `watch_changes` puts |dW| / |W| of each coupling into the history.

    >>> equilibrium_propagation(nudge=0.5).minus.nudge
    Array(-0.5, dtype=float32)
    """
    check.number("nudge", nudge)
    if nudge == 0:
        check.refuse("nudge", nudge, "a number other than zero")
    nudged = nudged or Sweeps(6, update="mode")
    return Recipe(
        plus=Phase(nudged, hold="inputs", start="base", nudge=nudge, cost=cost),
        minus=Phase(nudged, hold="inputs", start="base", nudge=-nudge, cost=cost) if symmetric else None,
        base=_free(free, particles),
        random_sign=random_sign,
        precision=_precision(particles),
        watch_changes=watch_changes,
    )


def contrastive_hebbian(
    *, free: Equilibrator | None = None, clamped: Equilibrator | None = None, particles: bool | str = False
) -> Recipe:
    """Contrastive Hebbian learning (Movellan 1990): the output clamped to its target, against the output free.

    >>> contrastive_hebbian().plus.hold
    'all'
    """
    clamped = clamped or Sweeps(20, update="mode")
    plus = Phase(clamped, hold="all", start="base")
    return Recipe(plus, minus=None, base=_free(free, particles), precision=_precision(particles))


def _precision(particles: bool | str) -> str:
    kinds = (False, True, "float32", "float16", "bfloat16")
    return "float32" if isinstance(check.choice("particles", particles, kinds), bool) else str(particles)


def _free(free: Equilibrator | None, particles: bool | str) -> Phase:
    return Phase(free or Sweeps(20, update="mode"), hold="inputs", start="particles" if particles else "rest")
