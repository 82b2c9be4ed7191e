"""Figure 5, the network with one hidden layer."""

from equilibria.papers.scellier2017 import curves
from equilibria.papers.scellier2017.curves import run
from equilibria.papers.scellier2017.statements import claims, plot

PRESETS = curves.presets(depth=1, epochs=25, seeds=5)
DIFFERS = {"quick": (*curves.SMALL, *curves.DIFFERS), "paper": curves.DIFFERS}

__all__ = ["DIFFERS", "PRESETS", "claims", "plot", "run"]
