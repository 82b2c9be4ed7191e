"""Neural networks that work and learn by coming to equilibrium, with the theory that predicts them.

Names are imported when they are first used, so that ``equilibria --help`` does not wait for JAX.
The list of public names is in ``__init__.pyi``.
"""

from equilibria.lazily import attach

__version__ = "1.0.0rc1"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
