from .memory import HopfieldMemory as HopfieldMemory
from .rbm import RBM as RBM
