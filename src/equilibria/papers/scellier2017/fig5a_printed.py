"""Figure 5, the network with one hidden layer, with Table 2 as it is printed: the cost (9) with its half, and ξ > 0."""

from dataclasses import replace

from equilibria.papers.scellier2017 import curves
from equilibria.papers.scellier2017.curves import run
from equilibria.papers.scellier2017.statements import claims, plot

PRESETS = {
    name: replace(preset, reading="equation 9") for name, preset in curves.presets(depth=1, epochs=25, seeds=5).items()
}
DIFFERS = {"quick": (*curves.SMALL, *curves.DIFFERS[:2]), "paper": curves.DIFFERS[:2]}

__all__ = ["DIFFERS", "PRESETS", "claims", "plot", "run"]
