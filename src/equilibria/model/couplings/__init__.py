"""Who pulls on whom, one file for each kind of coupling."""

from equilibria.model.couplings.coupling import Coupling, Walk
from equilibria.model.couplings.dense import Dense
from equilibria.model.couplings.factored import Factored, filtered, slept

__all__ = ["Coupling", "Dense", "Factored", "Walk", "filtered", "slept"]
