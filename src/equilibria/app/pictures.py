"""Pictures and tables of what a machine has learned: of images as images, of tables with the names of their columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import files, plots
from equilibria.app.tables import Features

_SHOWN = 40  # features, hidden units and rows in one picture
_STRONGEST = 8  # features of each hidden unit
_PANELS = 12
_PAIRS = 20_000


def write_all(
    out: Path, network: eq.Network, history: xr.Dataset, features: Features, rows: np.ndarray, seed: int
) -> list[str]:
    """Draw everything there is to see of a machine of two layers.

    Args:
        out: the folder.
        network: the machine.
        history: of its learning.
        features: the table it learned from.
        rows: the examples it learned from, as it takes them.
        seed: of the samples.

    Returns:
        The names of the files.
    """
    draws = np.asarray(eq.sample(network, eq.Sweeps(1000), chains=500, key=seed)[network.names[0]])
    weights = np.asarray(network.couplings[0].matrix())
    made = {"learning.png": learning(history), "correlations.png": correlations(rows, draws)}
    if features.image_shape is not None:
        strongest = np.argsort(-np.linalg.norm(weights, axis=0))[:64]
        made["samples.png"] = tiles(draws[:64], features.image_shape)
        made["filters.png"] = tiles(weights[:, strongest].T, features.image_shape, symmetric=True)
    else:
        made["samples.png"] = rows_beside(rows, draws, features.names, seed)
        made["filters.png"] = heat_map(weights, features.names)
        made["features.png"] = strongest_features(weights, features.names)
        write_csv(out / "filters.csv", ["feature", *hidden_names(weights)], features.names, weights)
    for name, figure in made.items():
        save(out / name, figure)
    return [*made, *(["filters.csv"] if features.image_shape is None else [])]


def save(path: Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all."""
    with plots.style(), files.replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def hidden_names(weights: np.ndarray) -> list[str]:
    """What the hidden units are called."""
    return [f"hidden {unit + 1}" for unit in range(weights.shape[1])]


def write_csv(path: Path, header: Sequence[str], names: Sequence[str] | None, values: np.ndarray) -> None:
    """Write a table with a line of names, and a name before each row where there are any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    lead: list[list[str]] = [[] for _ in values] if names is None else [[name] for name in names]
    for name, row in zip(lead, values.tolist(), strict=True):
        writer.writerow([*name, *(f"{value:.9g}" for value in row)])
    files.write_atomic(path, text.getvalue().encode())


def tiles(rows: np.ndarray, shape: tuple[int, int], *, symmetric: bool = False) -> Figure:
    """Up to 64 rows as small pictures."""
    with plots.style():
        columns = min(8, len(rows))
        figure, axes = plots.panels(columns, -(-len(rows) // columns), size=(0.8, 0.8), squeeze=False)
        limit = np.abs(rows).max()
        low, high, colours = (-limit, limit, "RdBu_r") if symmetric else (rows.min(), rows.max(), "gray_r")
        for panel, row in zip(axes.ravel(), rows, strict=False):
            panel.imshow(row.reshape(shape), cmap=colours, vmin=low, vmax=high)
        for panel in axes.ravel():
            panel.set_axis_off()
        return figure


def heat_map(weights: np.ndarray, names: Sequence[str]) -> Figure:
    """The couplings of the strongest features with the strongest hidden units, both in the order of their first mode."""
    features = _strongest(weights, 1)
    hidden = _strongest(weights, 0)
    shown = weights[np.ix_(features, hidden)]
    left, _, right = np.linalg.svd(shown, full_matrices=False)
    down, across = np.argsort(-left[:, 0]), np.argsort(-right[0])
    with plots.style():
        size = (1.6 + 0.2 * len(hidden), 1.0 + 0.2 * len(features))
        figure, panel = plots.panels(size=(max(size[0], 3.5), max(size[1], 2.5)))
        limit = np.abs(shown).max() or 1.0
        image = panel.imshow(shown[np.ix_(down, across)], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        panel.set_yticks(range(len(down)), [_short(names[features[place]]) for place in down], fontsize=7)
        panel.set_xticks(range(len(across)), [str(hidden[place] + 1) for place in across], fontsize=7, rotation=90)
        left_out = len(names) - len(features)
        panel.set_ylabel("feature" + (f" ({left_out:,} weaker ones left out)" if left_out else ""))
        panel.set_xlabel("hidden unit")
        panel.grid(False)
        figure.colorbar(image, ax=panel, label="coupling", fraction=0.05, pad=0.02)
        return figure


def strongest_features(weights: np.ndarray, names: Sequence[str]) -> Figure:
    """For each of the strongest hidden units, the features it is coupled to most, by name."""
    units = np.argsort(-np.linalg.norm(weights, axis=0))[:_PANELS]
    columns = min(4, len(units))
    with plots.style():
        size = (2.6, 0.5 + 0.2 * min(_STRONGEST, len(names)))
        figure, axes = plots.panels(columns, -(-len(units) // columns), size=size, squeeze=False, sharex=True)
        for panel, unit in zip(axes.ravel(), units, strict=False):
            order = np.argsort(-np.abs(weights[:, unit]))[:_STRONGEST][::-1]
            values = weights[order, unit]
            colours = [plots.PALETTE[1] if value > 0 else plots.PALETTE[0] for value in values]
            panel.barh(range(len(order)), values, color=colours, height=0.7)
            panel.set_yticks(range(len(order)), [_short(names[place]) for place in order], fontsize=7)
            panel.axvline(0, color="0.4", lw=0.6)
            panel.set_title(f"hidden {unit + 1}", fontsize=8)
            panel.grid(axis="y", visible=False)
        for panel in axes.ravel()[len(units) :]:
            panel.set_axis_off()
        figure.supxlabel("coupling", fontsize=8)
        return figure


def correlations(rows: np.ndarray, draws: np.ndarray) -> Figure:
    """Means and covariances of the data against those of samples; a machine that has learned them lies on the diagonal."""
    rows = np.asarray(rows, np.float64)
    known = rows - np.nanmean(rows, 0)
    drawn = draws - draws.mean(0)
    size = rows.shape[1]
    pairs = np.random.default_rng(0)
    first, second = np.triu_indices(size, 1) if size <= 200 else pairs.integers(0, size, (2, _PAIRS))
    with plots.style():
        figure, (left, right) = plots.panels(2, size=(3.6, 3.4))
        _against(left, np.nanmean(rows, 0), draws.mean(0), "mean of each feature")
        both = [np.nanmean(part[:, first] * part[:, second], 0) for part in (known, drawn)] if size > 1 else [[0], [0]]
        _against(right, np.asarray(both[0]), np.asarray(both[1]), "covariance of each pair")
        return figure


def _against(panel: plots.Axes, data: np.ndarray, samples: np.ndarray, title: str) -> None:
    low, high = min(data.min(), samples.min()), max(data.max(), samples.max())
    panel.plot([low, high], [low, high], color="0.6", lw=0.8)
    panel.plot(data, samples, ".", ms=6 if len(data) < 200 else 2.5, alpha=0.5, rasterized=True)
    panel.set(xlabel="data", ylabel="samples", title=title)


def rows_beside(rows: np.ndarray, draws: np.ndarray, names: Sequence[str], seed: int) -> Figure:
    """Examples and samples as heat maps side by side, the same features in each, ordered so that alike rows are together."""
    chosen = np.sort(np.random.default_rng(seed % 2**32).permutation(len(rows))[:_SHOWN])
    features = np.sort(np.argsort(-np.nanstd(np.asarray(rows, float), 0), kind="stable")[:_SHOWN])
    with plots.style():
        figure, axes = plots.panels(2, size=(1.2 + 0.12 * len(features), 3.4), sharey=False)
        shown = [np.asarray(part, np.float64)[:, features] for part in (rows[chosen], draws[:_SHOWN])]
        low, high = np.nanmin(shown[0]), np.nanmax(shown[0])
        for panel, part, title in zip(axes, shown, ("examples", "samples"), strict=True):
            panel.imshow(part[_order(part)], cmap="viridis", vmin=low, vmax=high, aspect="auto")
            panel.set_xticks(
                range(len(features)), [_short(names[place]) for place in features], rotation=90, fontsize=6
            )
            panel.set_yticks([])
            panel.set_title(title)
            panel.grid(False)
        return figure


def learning(history: xr.Dataset) -> Figure:
    """The likelihood of what is learned from and of what is held out, and the singular values, as learning goes on."""
    with plots.style():
        figure, (left, right) = plots.panels(2, size=(4.6, 3.4))
        for name, told, colour in (("training", "training", 0), ("validation", "held out", 1)):
            if name in history:
                left.plot(history.step, history[name], color=plots.PALETTE[colour], label=told)
        left.set(xlabel="step", ylabel=f"{history.attrs.get('measure', '')} (nats per example)", xscale="log")
        if history.attrs.get("measure") == "reconstruction":
            left.set_ylabel("minus the squared error of reconstruction")
        left.legend()
        right.plot(history.step, history["singular_values"], color=plots.PALETTE[0], lw=0.4)
        right.set(xlabel="step", ylabel="singular values", xscale="log", yscale="log")
        return figure


def _strongest(weights: np.ndarray, axis: int) -> np.ndarray:
    """The rows (or columns) with the largest norms, in their own order."""
    return np.sort(np.argsort(-np.linalg.norm(weights, axis=axis), kind="stable")[:_SHOWN])


def _order(rows: np.ndarray) -> np.ndarray:
    """Rows by their first principal component."""
    known = np.nan_to_num(rows - np.nanmean(rows, 0))
    return np.argsort(np.linalg.svd(known, full_matrices=False)[0][:, 0])


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
