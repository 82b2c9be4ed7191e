"""Tables of bits that defaults are chosen and shown on: made, bundled with scikit-learn, or read from the folder of images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from equilibria.data import mnist

Rng = np.random.Generator


def _machine(rng: Rng, rows: int, size: int, hidden: int, strength: float) -> np.ndarray:
    """Draws of a random machine of spins, after 200 sweeps."""
    weights = strength * rng.standard_normal((size, hidden)) / np.sqrt(size)
    spins = rng.choice([-1.0, 1.0], (rows, size))
    for _ in range(200):
        inner = np.where(rng.random((rows, hidden)) < _sigmoid(2 * spins @ weights), 1.0, -1.0)
        spins = np.where(rng.random((rows, size)) < _sigmoid(2 * inner @ weights.T), 1.0, -1.0)
    return (spins + 1) / 2


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def small(rng: Rng) -> np.ndarray:
    """300 x 12: a random machine with three hidden spins."""
    return _machine(rng, 300, 12, 3, 3.0)


def large(rng: Rng) -> np.ndarray:
    """10,000 x 40: a random machine with ten hidden spins."""
    return _machine(rng, 10_000, 40, 10, 2.5)


def clustered(rng: Rng) -> np.ndarray:
    """3,000 x 120: six clusters of unequal weight, a twentieth of the bits flipped."""
    centres = rng.random((6, 120)) < 0.5
    chosen = rng.choice(6, 3000, p=np.array([6, 5, 4, 3, 2, 1]) / 21)
    return centres[chosen] ^ (rng.random((3000, 120)) < 0.05)


def sparse(rng: Rng) -> np.ndarray:
    """2,000 x 200: words of one or two of ten topics, about one bit in twenty set."""
    topics = rng.random((10, 200)) < 0.06
    active = rng.random((2000, 10)) < 0.15
    odds = 1 - (1 - 0.6 * topics[None] * active[:, :, None]).prod(1)
    return rng.random((2000, 200)) < odds + 0.01


def correlated(rng: Rng) -> np.ndarray:
    """2,000 x 64: the Ising model on an 8 x 8 torus a little above its critical temperature, by 300 sweeps."""
    spins = rng.choice([-1.0, 1.0], (2000, 8, 8))
    black = np.indices((8, 8)).sum(0) % 2 == 0
    for _ in range(300):
        for colour in (black, ~black):
            field = sum(np.roll(spins, shift, axis) for axis in (1, 2) for shift in (1, -1))
            new = np.where(rng.random(spins.shape) < _sigmoid(2 * field / 2.5), 1.0, -1.0)
            spins = np.where(colour, new, spins)
    return (spins.reshape(2000, 64) + 1) / 2


def wide(rng: Rng) -> np.ndarray:
    """200 x 400: four factors behind more features than rows."""
    factors, loads = rng.standard_normal((200, 4)), rng.standard_normal((4, 400))
    return rng.random((200, 400)) < _sigmoid(factors @ loads + rng.standard_normal(400))


def populations(rng: Rng) -> np.ndarray:
    """1,000 x 150: four populations of unequal size that drifted apart from one, in the way of markers of a genome."""
    ancestor = rng.beta(0.7, 0.7, 150)
    frequencies = rng.beta(*(4 * np.clip([ancestor, 1 - ancestor], 0.02, 1)), size=(4, 150))
    return rng.random((1000, 150)) < frequencies[rng.choice(4, 1000, p=[0.5, 0.25, 0.15, 0.1])]


def cells(rng: Rng) -> np.ndarray:
    """569 x 30: scikit-learn's breast-cancer table, each feature cut at its median."""
    values = load_breast_cancer().data
    return rng.permutation(values > np.median(values, axis=0))


def digits(rng: Rng) -> np.ndarray:
    """1,797 x 64: scikit-learn's digits, cut at one half."""
    return rng.permutation(load_digits().data > 8)


def images(rng: Rng) -> np.ndarray:
    """1,500 x 784: MNIST's digits, cut at one half."""
    pixels = mnist().train_images
    chosen = np.asarray(pixels[rng.choice(len(pixels), 1500, replace=False)])
    return chosen.reshape(1500, -1) > (0.5 if chosen.max() <= 1 else 127)


TABLES: dict[str, Callable[[Rng], np.ndarray]] = {
    made.__name__: made
    for made in (small, large, clustered, sparse, correlated, wide, populations, cells, digits, images)
}


def split(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table's training and test rows, 0 and 1: 7 in 10 and the rest."""
    rows = TABLES[name](np.random.default_rng(seed)).astype(np.float32)
    cut = 7 * len(rows) // 10
    return rows[:cut], rows[cut:]
