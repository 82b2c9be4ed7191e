"""The same systems behind scikit-learn's interface, NumPy in and out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
