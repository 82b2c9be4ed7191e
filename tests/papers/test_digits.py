"""Where MNIST is not to be had, small figures are made from the extract in the package."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.papers import INDEX, code, digits, find


@pytest.fixture
def nowhere(monkeypatch):
    def mnist():
        raise FileNotFoundError("mnist: set EQUILIBRIA_DATA")

    monkeypatch.setattr(digits, "mnist", mnist)


def test_the_extract_stands_in_and_says_so(nowhere):
    small = eq.data.mnist_small()
    with pytest.warns(UserWarning, match="made from the extract"):
        found = digits.handwritten(3000, 600)
    assert found.train_images.shape == (3000, 28, 28)
    np.testing.assert_array_equal(found.train_images[:2000], small.train_images[:2000])
    np.testing.assert_array_equal(found.test_labels[500:], small.test_labels[np.arange(500, 600) % 500])
    with pytest.raises(FileNotFoundError, match="EQUILIBRIA_DATA"):
        digits.handwritten(60_000)


@pytest.mark.parametrize("id", [id for id in INDEX if "papers/digits" in code.modules(id)])
def test_no_quick_figure_asks_for_more_than_the_extract_stands_in_for(id):
    config = find(id).presets["quick"]
    asked = vars(getattr(config, "base", config))
    counts = [asked[name] for name in ("examples", "images", "test", "tests") if name in asked]
    assert counts
    assert max(counts) <= digits._SMALL
