"""What large networks are predicted to do. The list of public names is in ``__init__.pyi``."""

from equilibria.lazily import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
