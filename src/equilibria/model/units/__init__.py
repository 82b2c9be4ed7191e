"""What a neuron can be, one file for each kind."""

from equilibria.model.units.binary import Binary
from equilibria.model.units.clipped import Clipped
from equilibria.model.units.gaussian import Gaussian
from equilibria.model.units.graded import Graded, GradedSpin
from equilibria.model.units.one_hot import OneHot
from equilibria.model.units.potts import Potts
from equilibria.model.units.rectified import DoubleReLU, ReLU
from equilibria.model.units.spin import Spin
from equilibria.model.units.unit import Unit

__all__ = [
    "Binary", "Clipped", "DoubleReLU", "Gaussian", "Graded", "GradedSpin", "OneHot", "Potts", "ReLU", "Spin", "Unit"
]  # fmt: skip
