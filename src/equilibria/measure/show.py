"""A picture of a network: its layers, and who is coupled to whom."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

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
        ends = [_draw(axes, at, each.ends, each.shape, heights) for at, each in enumerate(network.couplings)]
        top = (_HEIGHT + _GAP) * len(network.layers)
        axes.set(xlim=(-2.2, max(2.6, *ends, 0)), ylim=(-0.3, top))
    return figure


def _draw(axes: Axes, number: int, ends: tuple[str, str], shape: tuple[int, int], heights: dict[str, float]) -> float:
    """One coupling with its size; how far to the right that goes."""
    low, high = sorted(heights[name] for name in ends)
    told = f"{shape[0]:,} × {shape[1]:,}"
    if np.isclose(high - low, _HEIGHT + _GAP):
        path = Path([(0, low + _HEIGHT + 0.06), (0, high - 0.06)])
        place = (0.12, (low + _HEIGHT + high) / 2)
    else:  # a layer with itself, or across others: around the side, each coupling a little further out
        x, reach = _WIDTH / 2 + 0.06, 0.3 + 0.15 * number
        first, last = (low + 0.12, low + _HEIGHT - 0.12) if low == high else (low + _HEIGHT / 2, high + _HEIGHT / 2)
        path = Path(
            [(x, first), (x + 2 * reach, (first + last) / 2), (x, last)], [Path.MOVETO, Path.CURVE3, Path.CURVE3]
        )
        place = (x + reach + 0.1, (first + last) / 2)
    axes.add_patch(PathPatch(path, facecolor="none", edgecolor="#666666", lw=1.4))
    axes.text(*place, told, va="center", fontsize=8, color="#444444")
    return place[0] + 0.15 * len(told)
