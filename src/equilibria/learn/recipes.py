"""The famous rules, each a short choice of phases."""

from __future__ import annotations

from equilibria import check
from equilibria.equilibrators.driver import Equilibrator
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.sweep import Sweeps
from equilibria.learn.contrast import Phase, Recipe


def cd(steps: int) -> Recipe:
    """Contrastive divergence: the free phase starts at the data and runs for `steps` sweeps.

    >>> cd(steps=1).minus.start
    'data'
    """
    return _likelihood(steps, "data")


def pcd(steps: int, chains: int | None = None) -> Recipe:
    """Persistent contrastive divergence: the free phase goes on from where it was.

    `chains` is how many persistent chains there are, as many as examples in a batch by default.

    >>> pcd(steps=10).minus.start
    'chains'
    """
    return _likelihood(steps, "chains", None if chains is None else check.count("chains", chains))


def rdm(steps: int) -> Recipe:
    """The free phase starts at random every time (Decelle, Furtlehner and Seoane's "Rdm").

    >>> rdm(steps=10).minus.start
    'random'
    """
    return _likelihood(steps, "random")


def _likelihood(steps, start, chains=None) -> Recipe:
    return Recipe(plus=Phase(Sweeps(steps), hold="all"), minus=Phase(Sweeps(steps), start=start), chains=chains)


def exact() -> Recipe:
    """The exact gradient of the log-likelihood, by enumeration; for small networks.

    >>> exact().plus.hold
    'all'
    """
    return Recipe(plus=Phase(Exact(), hold="all"), minus=Phase(Exact()))


def equilibrium_propagation(
    nudge: float = 0.5,
    *,
    free: Equilibrator | None = None,
    nudged: Equilibrator | None = None,
    centered: bool = True,
    random_sign: bool = False,
    particles: bool = False,
) -> Recipe:
    """Equilibrium propagation (Scellier and Bengio, equation 11): the output nudged, against the output free.

    Parameters: `nudge` is their xi; `centered` contrasts +nudge with -nudge instead of with the free phase, which cancels
    the first-order error; `random_sign` flips the sign at random instead, as in the paper. `free` and `nudged` say how each
    phase comes to rest: block descent of 20 and 6 sweeps by default. `particles` starts each example where it was left.

    >>> equilibrium_propagation(nudge=0.5).minus.nudge
    Array(-0.5, dtype=float32)
    """
    check.number("nudge", nudge)
    if nudge == 0:
        check.refuse("nudge", nudge, "a number other than zero")
    nudged = nudged or Sweeps(6, mood="mode")
    return Recipe(
        plus=Phase(nudged, hold="inputs", start="base", nudge=nudge),
        minus=Phase(nudged, hold="inputs", start="base", nudge=-nudge) if centered else None,
        base=_free(free, particles),
        random_sign=random_sign,
    )


def contrastive_hebbian(
    *, free: Equilibrator | None = None, clamped: Equilibrator | None = None, particles: bool = False
) -> Recipe:
    """Contrastive Hebbian learning (Movellan 1990): the output clamped to its target, against the output free.

    >>> contrastive_hebbian().plus.hold
    'all'
    """
    clamped = clamped or Sweeps(20, mood="mode")
    return Recipe(plus=Phase(clamped, hold="all", start="base"), minus=None, base=_free(free, particles))


def _free(free: Equilibrator | None, particles: bool) -> Phase:
    return Phase(free or Sweeps(20, mood="mode"), hold="inputs", start="particles" if particles else "rest")
