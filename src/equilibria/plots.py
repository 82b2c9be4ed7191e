"""The house style of figures: theory as lines, simulation as points, on the same axes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from equilibria import check

# Okabe and Ito's colours, told apart with every common kind of colour vision; yellow, too faint on white, is left out.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "image.cmap": "viridis",
    "image.interpolation": "nearest",
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # text in a PDF stays text
    "savefig.dpi": 200,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Figures made inside the block have the house style; nothing outside it changes.

    Yields:
        Nothing: the style holds to the end of the block.

    >>> import matplotlib
    >>> with style():
    ...     matplotlib.rcParams["legend.frameon"]
    False
    >>> matplotlib.rcParams["legend.frameon"]
    True
    """
    with mpl.rc_context(_STYLE):
        yield


class _Picture(Figure):
    """A figure that a notebook shows, also one in which nobody has imported pyplot."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png", dpi=100)
        return written.getvalue()


def panels(
    columns: int = 1, rows: int = 1, *, size: tuple[float, float] = (5.0, 3.5), **shared: Any
) -> tuple[Figure, Any]:
    """A figure and its axes; it belongs to no window, and needs no closing.

    Args:
        columns: of panels.
        rows: of panels.
        size: of each panel, in inches.
        **shared: what `matplotlib.figure.Figure.subplots` takes besides.

    Returns:
        The figure, and its axes as `subplots` gives them: one alone, or an array.

    >>> figure, axes = panels(columns=2, sharey=True)
    >>> axes.shape, [float(inches) for inches in figure.get_size_inches()]
    ((2,), [10.0, 3.5])
    """
    figure = _Picture(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, **shared)


def theory_line(
    axes: Axes, x: ArrayLike, y: ArrayLike, *, colour: str = PALETTE[0], label: str | None = None, **line: Any
) -> None:
    """Draw what theory predicts, as a line.

    Args:
        axes: where to draw.
        x: the points along the axis.
        y: the predictions there.
        colour: of the line.
        label: for the legend.
        **line: what `Axes.plot` takes besides.

    >>> figure, axes = panels()
    >>> theory_line(axes, [0.0, 1.0], [1.0, 0.0], label="theory")
    >>> len(axes.lines)
    1
    """
    axes.plot(np.asarray(x), np.asarray(y), color=colour, label=label, **line)


def simulation_points(
    axes: Axes,
    x: ArrayLike,
    y: ArrayLike,
    error: ArrayLike | None = None,
    *,
    colour: str = PALETTE[0],
    label: str | None = None,
    marker: str = "o",
) -> None:
    """Draw what was measured, as points with bars of one standard error.

    Args:
        axes: where to draw.
        x: the points along the axis.
        y: what was measured there.
        error: the standard error of each; None: no bars.
        colour: of the points.
        label: for the legend.
        marker: the shape of the points.

    >>> figure, axes = panels()
    >>> simulation_points(axes, [0.0, 1.0], [1.0, 0.1], error=[0.01, 0.05], label="N = 500")
    >>> len(axes.containers)
    1
    """
    bars = None if error is None else np.asarray(error)
    face: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.2}
    axes.errorbar(
        np.asarray(x), np.asarray(y), bars, fmt=marker, color=colour, label=label, elinewidth=1, zorder=3, **face
    )


def image_row(images: ArrayLike, titles: Sequence[str] | None = None, *, height: float = 1.4) -> Figure:
    """A row of pictures, dark where the value is large.

    All share one grey scale, so that they can be compared.

    Args:
        images: (count, height, width).
        titles: one for each picture.
        height: of each picture, in inches.

    Returns:
        The figure.

    Raises:
        ValueError: if the array has another shape, or there is another number of titles.

    >>> import numpy as np
    >>> figure = image_row(np.eye(8)[None].repeat(3, axis=0), ["seen", "noisy", "recalled"])
    >>> [axes.get_title() for axes in figure.axes]
    ['seen', 'noisy', 'recalled']
    """
    images = np.asarray(images)
    if images.ndim != 3 or images.size == 0:
        check.refuse("images", f"shape {images.shape}", "shape (count, height, width), none of them 0")
    titles = [""] * len(images) if titles is None else titles
    if len(titles) != len(images):
        check.refuse("titles", f"{len(titles)} titles", f"one for each of the {len(images)} images")
    width = height * images.shape[2] / images.shape[1]
    figure, axes = panels(len(images), size=(width, height + 0.25), squeeze=False)
    for panel, image, title in zip(axes[0], images, titles, strict=True):
        panel.imshow(image, cmap="gray_r", vmin=images.min(), vmax=images.max())
        panel.set_title(title, loc="center")
        panel.set_axis_off()
    return figure
