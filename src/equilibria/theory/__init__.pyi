from .ferromagnet import curie_weiss as curie_weiss
from .memory import hopfield as hopfield
from .memory import hopfield_capacity as hopfield_capacity
from .memory import hopfield_glass as hopfield_glass
