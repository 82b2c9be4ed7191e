"""Figure 5, the network with three hidden layers."""

from equilibria.papers.scellier2017 import curves
from equilibria.papers.scellier2017.curves import run
from equilibria.papers.scellier2017.statements import claims, plot

PRESETS = curves.presets(depth=3, epochs=150, seeds=1)
DIFFERS = {"quick": (*curves.SMALL, *curves.DIFFERS), "paper": (*curves.DIFFERS, "one seed")}

__all__ = ["DIFFERS", "PRESETS", "claims", "plot", "run"]
