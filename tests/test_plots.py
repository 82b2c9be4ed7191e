"""The house style stays in its block, and pictures keep their scale."""

import matplotlib as mpl
import numpy as np
import pytest

from equilibria import plots

pytestmark = pytest.mark.pictures


def test_the_style_does_not_leak_even_after_an_error():
    before = dict(mpl.rcParams)

    def fail():
        with plots.style():
            assert mpl.rcParams["savefig.dpi"] == 200
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert dict(mpl.rcParams) == before


def test_theory_and_simulation_share_the_axes():
    _, axes = plots.panels()
    plots.theory_line(axes, [0, 1], [1, 0], label="theory", linestyle="--")
    plots.simulation_points(axes, [0, 1], [1.1, 0.1], error=[0.1, 0.2], label="simulation", colour=plots.PALETTE[1])
    assert axes.get_legend_handles_labels()[1] == ["theory", "simulation"]
    bars = axes.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([bar[:, 1] for bar in bars], [[1.0, 1.2], [-0.1, 0.3]])


def test_a_notebook_shows_a_figure_without_pyplot():
    figure, _ = plots.panels(size=(3.0, 2.0))
    width, height = np.frombuffer(figure._repr_png_()[16:24], ">u4")  # of the header of a PNG
    assert (width, height) == (300, 200)


def test_pictures_in_a_row_share_one_scale():
    figure = plots.image_row(np.stack([np.zeros((4, 6)), np.full((4, 6), 5.0)]))
    assert [axes.images[0].get_clim() for axes in figure.axes] == [(0, 5), (0, 5)]


@pytest.mark.parametrize(
    ("images", "titles", "message"),
    [
        (np.zeros((4, 6)), None, r"images: got shape \(4, 6\)"),
        (np.zeros((0, 4, 6)), None, r"images: got shape \(0, 4, 6\)"),
        (np.zeros((2, 4, 6)), ["one"], "titles: got 1 titles; allowed: one for each of the 2"),
    ],
)
def test_what_is_not_a_row_of_pictures_is_refused(images, titles, message):
    with pytest.raises(ValueError, match=message):
        plots.image_row(images, titles)
