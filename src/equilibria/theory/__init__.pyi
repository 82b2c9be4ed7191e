from .ferromagnet import curie_weiss as curie_weiss
