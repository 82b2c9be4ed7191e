from .equilibrium import EquilibriumClassifier as EquilibriumClassifier
from .equilibrium import EquilibriumRegressor as EquilibriumRegressor
from .memory import HopfieldMemory as HopfieldMemory
from .rbm import RBM as RBM
from .synapses import BinarySynapseRBM as BinarySynapseRBM
