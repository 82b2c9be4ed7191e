from .memory import HopfieldMemory as HopfieldMemory
from .rbm import RBM as RBM
from .synapses import BinarySynapseRBM as BinarySynapseRBM
