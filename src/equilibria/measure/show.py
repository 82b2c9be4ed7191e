"""A picture of a network: its layers, and who is coupled to whom."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from equilibria import plots
from equilibria.model.network import Network

_WIDTH, _HEIGHT, _GAP = 1.7, 0.62, 0.75  # of a box, and between two


def show(network: Network) -> Figure:
    """Draw the layers of a network and the couplings between them.

    Args:
        network: what to draw.

    Returns:
        The figure; a notebook shows it, `figure.savefig("network.svg")` keeps it.

    >>> import equilibria as eq
    >>> figure = show(eq.layered((784, 500, 10), key=0))
    >>> [text.get_text().split()[0] for text in figure.axes[0].texts]
    ['input', 'hidden1', 'output', '784', '500']
    """
    with plots.style():
        figure, axes = plots.panels(size=(3.4, 0.5 + (_HEIGHT + _GAP) * len(network.layers) * 0.62))
        axes.set_axis_off()
        heights = {name: place * (_HEIGHT + _GAP) for place, name in enumerate(network.names)}
        for layer in network.layers:
            y = heights[layer.name]
            box = FancyBboxPatch(
                (-_WIDTH / 2, y), _WIDTH, _HEIGHT, boxstyle="round,pad=0.06", fc="white", ec=plots.PALETTE[0]
            )
            axes.add_patch(box)
            told = f"{layer.name}\n{layer.size:,} {type(layer.unit).__name__}"
            axes.text(0, y + _HEIGHT / 2, told, ha="center", va="center", fontsize=8.5, linespacing=1.3)
        for number, coupling in enumerate(network.couplings):
            _draw(axes, number, coupling.ends, coupling.shape, heights)
        top = (_HEIGHT + _GAP) * len(network.layers)
        axes.set(xlim=(-2.2, 2.6), ylim=(-0.3, top))
    return figure


def _draw(axes: Axes, number: int, ends: tuple[str, str], shape: tuple[int, int], heights: dict[str, float]) -> None:
    low, high = sorted(heights[name] for name in ends)
    told = f"{shape[0]:,} × {shape[1]:,}"
    neighbours = np.isclose(high - low, _HEIGHT + _GAP)
    if neighbours:
        path = FancyArrowPatch((0, low + _HEIGHT + 0.06), (0, high - 0.06), arrowstyle="-", color="#666666", lw=1.4)
        place = (0.12, (low + _HEIGHT + high) / 2)
    else:  # a layer with itself, or across others: around the side, each coupling a little further out
        x, bend = _WIDTH / 2 + 0.06, 0.55 + 0.12 * number
        first, last = (low + 0.12, low + _HEIGHT - 0.12) if low == high else (low + _HEIGHT / 2, high + _HEIGHT / 2)
        path = FancyArrowPatch(
            (x, first), (x, last), arrowstyle="-", color="#666666", lw=1.4, connectionstyle=f"arc3,rad={bend}"
        )
        place = (x + 0.2 + 0.5 * bend * (last - first), (first + last) / 2)
    axes.add_patch(path)
    axes.text(*place, told, va="center", fontsize=8, color="#444444")
