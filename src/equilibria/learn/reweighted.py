"""Persistent chains with weights: the recipe for data with clusters between which chains do not cross."""

from __future__ import annotations

from equilibria.equilibrators.reweight import Reweighted
from equilibria.learn.contrast import Opening, Recipe
from equilibria.learn.phase import Phase


def reweighted(
    steps: int,
    chains: int | None = None,
    *,
    opening: Opening = "data",
    centered_gradient: bool = True,
    l1: float = 0.0,
    l2: float = 0.0,
) -> Recipe:
    """Persistent contrastive divergence with weighted chains, which know the clusters' shares without crossing between them.

    Plain persistent chains that have fallen into clusters keep the clusters' shares that they had then, whatever the network
    does; the gradient goes on mending shares that it cannot see, and the machine loses all clusters but one. Weights follow
    every change of the network exactly on average (`Reweighted`; Carbone et al. 2023). It costs one more product for each
    update.

    Args:
        steps: sweeps in each update.
        chains: how many persistent chains there are; as many as examples in a batch by default. The clusters' shares are known
            as well as so many draws tell them.
        opening: "data": fields that are all zero, and chains, begin at the data; "network": as they are, and at random.
        centered_gradient: takes the couplings' gradient about the means of both ends.
        l1: penalty l1 |W| on the couplings.
        l2: penalty l2 W^2 / 2.

    Returns:
        The recipe, for `train`.

    Raises:
        ValueError: if a number is out of its range.

    >>> reweighted(steps=10, chains=500).minus.start
    'chains'
    """
    how = Reweighted(1, sweeps=steps)
    plus, minus = Phase(how.clamped(), hold="all"), Phase(how, start="chains")
    return Recipe(plus, minus, chains=chains, opening=opening, centered_gradient=centered_gradient, l1=l1, l2=l2)
