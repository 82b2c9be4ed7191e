"""The same systems behind scikit-learn's interface, NumPy in and out."""

from equilibria.lazily import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
