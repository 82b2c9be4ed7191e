"""Make src/equilibria/data/mnist_small.npz: `python scripts/mnist_small.py`, with MNIST where `eq.data.mnist` finds it.

Of each digit 200 training and 50 test images, evenly spaced through those of MNIST in the order of its files. The file is the
same byte for byte wherever it is made.
"""

from pathlib import Path

import numpy as np

from equilibria.data import mnist

PLACE = Path(__file__).parents[1] / "src" / "equilibria" / "data" / "mnist_small.npz"


def chosen(labels: np.ndarray, each: int) -> np.ndarray:
    """The numbers of `each` examples of every class, in the order of the file."""
    places = [np.flatnonzero(labels == label) for label in range(10)]
    return np.sort(np.concatenate([here[np.arange(each) * len(here) // each] for here in places]))


def main() -> None:
    """Write the extract."""
    images = mnist()
    train, test = chosen(images.train_labels, 200), chosen(images.test_labels, 50)
    np.savez_compressed(
        PLACE,
        train_images=images.train_images[train],
        train_labels=images.train_labels[train],
        test_images=images.test_images[test],
        test_labels=images.test_labels[test],
    )
    print(f"{PLACE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
