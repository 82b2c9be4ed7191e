"""Figure 5, the network with one hidden layer, by the authors' code of 2017: the sign of ξ is drawn for every minibatch."""

from dataclasses import replace

from equilibria.papers.scellier2017 import curves
from equilibria.papers.scellier2017.curves import run
from equilibria.papers.scellier2017.statements import claims, plot

PRESETS = {
    name: replace(preset, reading="code of 2017")
    for name, preset in curves.presets(depth=1, epochs=25, seeds=5).items()
}
_READING = "Table 2 in the reading of the authors' code of 2017: cost without the half, ξ of either sign at random"
DIFFERS = {
    "quick": (*curves.SMALL, *curves.DIFFERS[:2], _READING),
    "paper": (*curves.DIFFERS[:2], _READING),
}

__all__ = ["DIFFERS", "PRESETS", "claims", "plot", "run"]
