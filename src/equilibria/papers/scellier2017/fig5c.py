"""Figure 5, the network with three hidden layers."""

from equilibria.papers.scellier2017 import curves
from equilibria.papers.scellier2017.curves import run
from equilibria.papers.scellier2017.statements import claims, plot

PRESETS = curves.presets(depth=3, epochs=150, seeds=1, free="blocks")
_SAME = (
    curves.DIFFERS[0],
    "the 0-phase by block descent in place of 500 Euler steps, to forces as small; it may rest in another minimum, mostly "
    "before learning (see scellier2017/relaxation)",
    *curves.DIFFERS[2:],
)
DIFFERS = {"quick": (*curves.SMALL, *_SAME), "paper": (*_SAME, "one seed")}

__all__ = ["DIFFERS", "PRESETS", "claims", "plot", "run"]
