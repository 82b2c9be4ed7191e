"""What networks store and learn: patterns, planted truths, images."""

from equilibria.data.idx import parse_idx
from equilibria.data.images import Images, binarise, digits, fashion_mnist, grey, mnist
from equilibria.data.patterns import blurred_examples, correlated_patterns, corrupt, dataset_entropy, random_patterns
from equilibria.data.planted import planted_data, planted_receptive_fields

__all__ = [
    "Images",
    "binarise",
    "blurred_examples",
    "correlated_patterns",
    "corrupt",
    "dataset_entropy",
    "digits",
    "fashion_mnist",
    "grey",
    "mnist",
    "parse_idx",
    "planted_data",
    "planted_receptive_fields",
    "random_patterns",
]
