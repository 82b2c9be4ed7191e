"""Images of digits and of clothes, and how they become the input of a network."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from equilibria import check
from equilibria.data.fetch import Source, contents
from equilibria.data.idx import parse_idx

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"

MNIST = Source(
    name="mnist",
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    digests={
        TRAIN_IMAGES: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        TRAIN_LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        TEST_IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    algorithm="sha256",
    unpacked=True,
)

# Of the .gz files that zalandoresearch/fashion-mnist publishes, with MD5 digests only; these SHA-256 digests are those that
# loaders of other libraries have written down for the same files.
FASHION_MNIST = Source(
    name="fashion_mnist",
    mirrors=(
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    digests={
        TRAIN_IMAGES: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        TRAIN_LABELS: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        TEST_IMAGES: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        TEST_LABELS: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    algorithm="sha256",
    unpacked=False,
)


class Images(NamedTuple):
    """Images with their classes, all uint8: 0 is black and 255 is white.

    Attributes:
        train_images: (count, height, width), to learn from.
        train_labels: (count,), their classes, 0 to 9.
        test_images: (count, height, width), to test with.
        test_labels: (count,), their classes, 0 to 9.

    >>> images = digits()
    >>> images.train_labels[:4], images.train_images.min(), images.train_images.max()
    (array([0, 1, 2, 3], dtype=uint8), np.uint8(0), np.uint8(255))
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def digits() -> Images:
    """The 1797 handwritten digits of 8 x 8 pixels that come with scikit-learn, with no download.

    Their 17 grey levels are spread over 0 to 255, so that every dataset here has one scale. The last fifth of
    the file, as it stands, is the test set.

    Returns:
        The images with their labels, 1437 to learn from and 360 to test with.

    >>> images = digits()
    >>> images.train_images.shape, images.test_images.shape, images.train_images.dtype.name
    ((1437, 8, 8), (360, 8, 8), 'uint8')
    """
    from sklearn.datasets import load_digits  # slow to import, and of no use to the others

    bundle = load_digits()
    images = np.rint(bundle.images * (255 / 16)).astype(np.uint8)
    labels = bundle.target.astype(np.uint8)
    train = len(images) * 4 // 5
    return Images(images[:train], labels[:train], images[train:], labels[train:])


def mnist(*, folder: str | Path | None = None) -> Images:
    """MNIST (LeCun, Cortes and Burges 1998): 60,000 + 10,000 handwritten digits of 28 x 28 pixels.

    The four IDX files, gzipped or not, are looked for in the sub-folder `mnist` of $EQUILIBRIA_DATA, then in the user's
    cache, ~/.cache/equilibria/mnist. If neither has them they are downloaded into the cache, and their SHA-256 digests
    are checked. Files found here whose digests are others are used, with a warning that names them.

    Args:
        folder: where the four files are; then they are looked for nowhere else.

    Returns:
        The images with their labels.

    Raises:
        FileNotFoundError: if the files are neither here nor to be had; the message says where to put them.
        ValueError: if a file is broken, or the files do not belong together.

    >>> mnist().train_images.shape  # doctest: +SKIP
    (60000, 28, 28)
    >>> mnist(folder="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: mnist: folder 'nowhere' must hold train-images-idx3-ubyte, ... (each plain or .gz)
    """
    return _read(MNIST, folder)


def mnist_small() -> Images:
    """2,000 + 500 digits of MNIST, as many of each, with no download: for examples, tests and small versions of figures.

    They are evenly spaced through the files of MNIST (LeCun, Cortes and Burges 1998), whose copyright Yann LeCun and Corinna
    Cortes hold; like MNIST they are under the Creative Commons Attribution-Share Alike 3.0 licence.

    Returns:
        The images with their labels, 2,000 to learn from and 500 to test with.

    >>> images = mnist_small()
    >>> images.train_images.shape, images.test_images.shape, np.bincount(images.train_labels).tolist()
    ((2000, 28, 28), (500, 28, 28), [200, 200, 200, 200, 200, 200, 200, 200, 200, 200])
    """
    with np.load(Path(__file__).with_name("mnist_small.npz"), allow_pickle=False) as arrays:
        return Images(*(arrays[name] for name in Images._fields))


def fashion_mnist(*, folder: str | Path | None = None) -> Images:
    """Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 60,000 + 10,000 articles of clothing, in the form of `mnist`.

    It is found as `mnist` is, in the sub-folder `fashion_mnist`.

    Args:
        folder: where the four files are; then they are looked for nowhere else.

    Returns:
        The images with their labels.

    Raises:
        FileNotFoundError: if the files are neither here nor to be had; the message says where to put them.
        ValueError: if a file is broken, or the files do not belong together.

    >>> fashion_mnist().train_images.shape  # doctest: +SKIP
    (60000, 28, 28)
    >>> fashion_mnist(folder="nowhere")
    Traceback (most recent call last):
    FileNotFoundError: fashion_mnist: folder 'nowhere' must hold train-images-idx3-ubyte, ... (each plain or .gz)
    """
    return _read(FASHION_MNIST, folder)


def grey(images: np.ndarray) -> np.ndarray:
    """8-bit images as vectors of numbers from 0 to 1.

    Args:
        images: (..., height, width), uint8.

    Returns:
        The vectors (..., height * width), float32.

    Raises:
        ValueError: if the images are not 8-bit, or have fewer than two axes.

    >>> grey(np.array([[0, 255], [51, 102]], np.uint8))
    array([0. , 1. , 0.2, 0.4], dtype=float32)
    """
    return _vectors(images).astype(np.float32) / 255


def binarise(images: np.ndarray, threshold: float = 0.5, levels: str = "spin") -> np.ndarray:
    """8-bit images as vectors of two values.

    Args:
        images: (..., height, width), uint8.
        threshold: a pixel is on where its grey value, from 0 to 1, is above this.
        levels: what on and off are: +1 and -1 with "spin", 1 and 0 with "binary".

    Returns:
        The vectors (..., height * width), float32.

    Raises:
        ValueError: if the images are not 8-bit, or have fewer than two axes.

    >>> image = np.array([[0, 255], [100, 200]], np.uint8)
    >>> binarise(image).tolist(), binarise(image, threshold=0.2, levels="binary").tolist()
    ([-1.0, 1.0, -1.0, 1.0], [0.0, 1.0, 1.0, 1.0])
    """
    check.number("threshold", threshold, least=0, most=1)
    off = {"spin": -1, "binary": 0}[check.choice("levels", levels, ("spin", "binary"))]
    # float32 and not int8, in which the product of two spin vectors overflows without a word.
    return np.where(_vectors(images) > 255 * threshold, np.float32(1), np.float32(off))


def _vectors(images: np.ndarray) -> np.ndarray:
    if np.asarray(images).dtype != np.uint8:
        check.refuse("images", f"type {np.asarray(images).dtype}", "8-bit images (uint8)")
    check.shape("images", images, (None, None))
    return np.reshape(images, (*np.shape(images)[:-2], -1))


def _read(source: Source, folder: str | Path | None) -> Images:
    arrays = {file: parse_idx(content, name=file) for file, content in contents(source, folder).items()}
    for images, labels in ((TRAIN_IMAGES, TRAIN_LABELS), (TEST_IMAGES, TEST_LABELS)):
        _check(arrays[images], arrays[labels], images, labels)
    return Images(arrays[TRAIN_IMAGES], arrays[TRAIN_LABELS], arrays[TEST_IMAGES], arrays[TEST_LABELS])


def _check(images: np.ndarray, labels: np.ndarray, images_name: str, labels_name: str) -> None:
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != (28, 28):
        check.refuse(images_name, f"{images.dtype} of shape {images.shape}", "uint8 of shape (any, 28, 28)")
    if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
        check.refuse(labels_name, f"{labels.dtype} of shape {labels.shape}", f"uint8 of shape {images.shape[:1]}")
    if (labels > 9).any():
        check.refuse(labels_name, f"the label {labels.max()}", "labels from 0 to 9")
