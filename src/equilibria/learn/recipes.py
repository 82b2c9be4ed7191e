"""The famous rules, each a short choice of phases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from equilibria import check
from equilibria.equilibrators.climb import Climbing
from equilibria.equilibrators.equilibrator import Equilibrator
from equilibria.equilibrators.exact import Exact
from equilibria.equilibrators.mean_field import MeanField
from equilibria.equilibrators.sweep import Sweeps
from equilibria.equilibrators.temper import Tempered
from equilibria.learn.contrast import Opening, Recipe
from equilibria.learn.phase import Phase, Start
from equilibria.learn.reweighted import reweighted
from equilibria.model.world import Cost, squared_error


def cd(
    steps: int, *, opening: Opening = "data", centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0
) -> Recipe:
    """Contrastive divergence: the free phase starts at the data.

    As all recipes of the likelihood it estimates the second average of Decelle 2017, equation (4).

    Args:
        steps: sweeps of the free phase.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> cd(steps=1).minus.start
    'data'
    """
    return _likelihood(Sweeps(steps), "data", None, opening, centered_gradient, l1, l2)


def pcd(
    steps: int,
    chains: int | None = None,
    *,
    opening: Opening = "data",
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Persistent contrastive divergence: the free phase goes on from where it was.

    Args:
        steps: sweeps of the free phase in each update.
        chains: how many persistent chains there are; as many as examples in a batch by default.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> pcd(steps=10).minus.start
    'chains'
    """
    return _likelihood(Sweeps(steps), "chains", chains, opening, centered_gradient, l1, l2)


def rdm(
    steps: int, *, opening: Opening = "data", centered_gradient: bool = True, l1: float = 0.0, l2: float = 0.0
) -> Recipe:
    """The free phase starts at random every time (Decelle, Furtlehner and Seoane's "Rdm").

    Args:
        steps: sweeps of the free phase.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> rdm(steps=10).minus.start
    'random'
    """
    return _likelihood(Sweeps(steps), "random", None, opening, centered_gradient, l1, l2)


def tempered(
    steps: int,
    chains: int | None = None,
    *,
    rungs: int = 8,
    hottest: float = 10.0,
    adapt: float = 1.0,
    opening: Opening = "data",
    along: Literal["temperature", "training"] = "temperature",
    acceptance: float = 0.5,
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Persistent chains with parallel tempering, along temperatures (`Tempered`) or the run itself (`Climbing`).

    Args:
        steps: rounds of the free phase in each update.
        chains: how many persistent chains there are; as many as examples in a batch by default.
        rungs: copies of each chain.
        hottest: temperature of the last copy, in multiples of that of the first.
        adapt: how fast the temperatures between move at first.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        along: what the rungs are: rising temperatures, or the networks that training has passed.
        acceptance: along training, the share of exchanges with the next rung below which the network becomes a rung.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> tempered(steps=1, rungs=5).minus.how.rungs
    5
    """
    how = Tempered(steps, rungs=rungs, hottest=hottest, adapt=adapt)
    if check.choice("along", along, ("temperature", "training")) == "training":
        how = Climbing(steps, rungs=rungs, acceptance=acceptance)
    return _likelihood(how, "chains", chains, opening, centered_gradient, l1, l2)


def mean_field(
    steps: int = 20,
    chains: int | None = None,
    *,
    opening: Opening = "data",
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Naive mean field: the free phase is rounds of the means' equations, going on from where they were.

    Args:
        steps: rounds in each update.
        chains: how many sets of means there are; as many as examples in a batch by default.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> mean_field().minus.how.order
    1
    """
    return _expansion(1, steps, chains, opening, centered_gradient, l1, l2)


def tap(
    order: Literal[2, 3] = 2,
    steps: int = 20,
    chains: int | None = None,
    *,
    opening: Opening = "data",
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Thouless-Anderson-Palmer equations to second or third order (Gabrié, Tramel and Krzakala 2015) in the free phase.

    Args:
        order: 2 or 3.
        steps: rounds in each update.
        chains: how many sets of means there are; as many as examples in a batch by default.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if the order is not 2 or 3, or a number is out of its range.

    >>> tap(order=3).minus.how.order
    3
    """
    return _expansion(check.choice("order", order, (2, 3)), steps, chains, opening, centered_gradient, l1, l2)


def exact(*, opening: Opening = "data", centered_gradient: bool = False, l1: float = 0.0, l2: float = 0.0) -> Recipe:
    """The exact gradient of the log-likelihood, by enumeration; for small networks.

    Args:
        opening: "data": fields that are all zero begin at those of the data; "network": all as they are.
        centered_gradient: not unless asked: by itself this is the gradient, and `contrast` reports the likelihood itself.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> exact().plus.hold
    'all'
    """
    return _likelihood(Exact(), "data", None, opening, centered_gradient, l1, l2)


def _expansion(
    order: Literal[1, 2, 3],
    steps: int,
    chains: int | None,
    opening: Opening,
    centered_gradient: bool,
    l1: float,
    l2: float,
) -> Recipe:
    # No tolerance: the means go on from the last step, and a fixed number of rounds costs the same every time.
    how = MeanField(steps, order=order, tolerance=None)
    return _likelihood(how, "chains", chains, opening, centered_gradient, l1, l2)


def _likelihood(
    how: Equilibrator,
    start: Start,
    chains: int | None,
    opening: Opening,
    centered_gradient: bool,
    l1: float,
    l2: float,
) -> Recipe:
    plus, minus = Phase(how.clamped(), hold="all"), Phase(how, start=start)
    return Recipe(plus, minus, chains=chains, opening=opening, centered_gradient=centered_gradient, l1=l1, l2=l2)


# Recipes of the likelihood that commands and estimators know by name; those that keep chains take `chains`.
PERSISTENT: dict[str, Callable[..., Recipe]] = {
    "pcd": pcd, "reweighted": reweighted, "tempered": tempered, "mean_field": mean_field, "tap": tap
}  # fmt: skip
LIKELIHOOD: dict[str, Callable[..., Recipe]] = {"cd": cd, "rdm": rdm, **PERSISTENT}


def likelihood_recipe(name: str, *, chains: int | None = None, **options: Any) -> Recipe:
    """The recipe of the likelihood with this name.

    Args:
        name: "cd", "pcd", "rdm", "reweighted", "tempered", "mean_field" or "tap".
        chains: how many persistent chains there are, for recipes that keep any.
        **options: what the recipe takes besides.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if there is no such recipe, or it keeps no chains and some are asked for.

    >>> likelihood_recipe("pcd", steps=2, chains=50).chains
    50
    """
    make = LIKELIHOOD[check.choice("recipe", name, LIKELIHOOD)]
    if name in PERSISTENT:
        return make(chains=chains, **options)
    if chains is not None:
        check.refuse("chains", chains, f"none with {name!r}, which keeps no chains from update to update")
    return make(**options)


def equilibrium_propagation(
    nudge: float = 0.5,
    *,
    free: Equilibrator | None = None,
    nudged: Equilibrator | None = None,
    symmetric: bool = True,
    random_sign: bool = False,
    particles: bool | str = False,
    cost: Cost = squared_error,
    watch_changes: bool = False,
) -> Recipe:
    """Equilibrium propagation (Scellier and Bengio, equation 11): the output nudged, against the output free.

    Args:
        nudge: their xi.
        free: how the free phase comes to rest; 20 sweeps of block descent by default.
        nudged: how the nudged phases come to rest; 6 sweeps by default.
        symmetric: contrasts +nudge with -nudge instead of with the free phase, which cancels the first-order error.
        random_sign: flips the sign of the nudge at random from step to step, which cancels that error on average.
        particles: starts each example where it was left; "float16" keeps them in half precision.
        cost: what the output is nudged to lower: `squared_error` or any other, such as `cross_entropy` for a softmax
            read-out.
        watch_changes: puts |dW| / |W| of each coupling into the history.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if the nudge is zero or not finite, or there is no such precision of particles.

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

    Args:
        free: how the free phase comes to rest; 20 sweeps of block descent by default.
        clamped: how the clamped phase does; the same by default.
        particles: starts each example where it was left; "float16" keeps them in half precision.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if there is no such precision of particles.

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
