"""Which of the paper's statements about MNIST hold, in each of the settings that its text leaves open.

The paper does not say whether the machine of its figures 2 to 4 had units of +-1 or of 0 and 1, how large its batches
were, nor how its chains were run. Every plausible combination is trained once, and judged by the claims of the three figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim, at_least
from equilibria.papers.decelle2017 import fig2, fig3, fig4, training
from equilibria.papers.sweep import sweep

SAMPLERS = {"CD-1": ("cd", 1), "PCD-1": ("pcd", 1), "PCD-10": ("pcd", 10)}
DIFFERS = {
    "paper": ["one seed for each setting; fields from zero (Fig. 3a) are left out"],
    "quick": ["2,000 digits, 200 hidden units, 5 epochs, two batch sizes and two samplers"],
}


@dataclass(frozen=True)
class Config:
    """The settings to combine; all else is as in `training.Config`."""

    base: training.Config
    units: tuple[str, ...] = ("spin", "binary")
    samplers: tuple[str, ...] = ("CD-1", "PCD-1", "PCD-10")
    batches: tuple[int, ...] = (10, 100, 500)
    seed: int = 0


PRESETS = {
    "quick": Config(replace(training.QUICK, epochs=5), samplers=("CD-1", "PCD-1"), batches=(10, 100)),
    "paper": Config(replace(training.PAPER, records=20, seeds=1)),
}


@cache
def _digits(images: int) -> np.ndarray:
    return training.spins(replace(training.PAPER, images=images))


def judged(base: training.Config, data: np.ndarray) -> list[Claim]:
    """The paper's claims about figures 2 to 4, judged by one training."""
    trained = training.learned(base, data)
    found = [
        *fig2.claims(fig2.found(base, trained)),
        *fig3.claims(fig3.found(base, trained, data)),
        *fig4.claims(fig4.found(trained, data)),
    ]
    return [claim for claim in found if claim.tested and not claim.ours]


def setting(units: str, sampler: str, batch: int, config: Config, seed: int) -> dict[str, Any]:
    """What one setting gives: for each claim what was measured, and whether it held."""
    recipe, sweeps = SAMPLERS[sampler]
    base = replace(config.base, units=units, recipe=recipe, sweeps=sweeps, batch_size=batch, seeds=1, seed=seed)
    found = judged(base, _digits(base.images))
    return {"measured": np.array([claim.value for claim in found]), "held": np.array([claim.held for claim in found])}


def statements(config: training.Config) -> list[str]:
    """The statements, in the order of `judged`; a spectrum of noise alone is enough to list them."""
    rng = np.random.default_rng(0)
    steps = [0, *training.moments(config)]
    made = xr.Dataset(
        {
            "value": (("seed", "step", "mode"), np.sort(rng.random((1, len(steps), config.hidden)))[..., ::-1]),
            "direction": (("seed", "step", "leading", "pixel"), rng.random((1, len(steps), training.MODES, 784))),
            "dream": (("seed", "draw", "pixel"), np.zeros((1, 20, 784))),
        },
        {"step": steps, "epoch": ("step", np.array(steps) / config.per_epoch)},
    ).drop_duplicates("step")
    data = rng.choice([-1, 1], (40, 784))
    found = [
        *fig2.claims(fig2.found(config, made)), *fig3.claims(fig3.found(config, made, data)),
        *fig4.claims(fig4.found(made, data)),
    ]  # fmt: skip
    return [f"{claim.source}: {claim.says}" for claim in found if claim.tested and not claim.ours]


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Every setting, each kept when it is finished."""
    axes = {"units": list(config.units), "sampler": list(config.samplers), "batch": list(config.batches)}
    found = sweep(setting, config, checkpoint, **axes, seed=[config.seed])
    claim = next(dim for dim in found["held"].dims if dim not in axes)
    return found.rename({claim: "claim"}).assign_coords(claim=statements(config.base))


def plot(dataset: xr.Dataset) -> Figure:
    """A row for each statement of the paper, a column for each setting: blue where it held, with what was measured."""
    flat = dataset.stack(setting=("units", "sampler", "batch")).transpose("claim", "setting")
    rows, columns = flat["held"].shape
    figure, axes = plots.panels(size=(4.6 + 0.42 * columns, 0.8 + 0.27 * rows))
    axes.imshow(
        flat["held"].values.astype(float), cmap=ListedColormap(["#f3dccb", "#cfe4f2"]), vmin=0, vmax=1, aspect="auto"
    )
    for row in range(rows):
        for column in range(columns):
            axes.text(
                column, row, f"{float(flat['measured'][row, column]):.2g}", ha="center", va="center", fontsize=5.5
            )
    labels = [
        f"{'±1' if units == 'spin' else '0/1'} {sampler} {batch}" for units, sampler, batch in flat["setting"].values
    ]
    axes.set_xticks(range(columns), labels, rotation=60, ha="right", fontsize=6.5)
    axes.set_yticks(range(rows), [_short(str(text)) for text in flat["claim"].values], fontsize=6)
    axes.grid(visible=False)
    axes.set_title("units, sampler, batch size: which of the paper's statements hold (blue)", fontsize=8)
    return figure


def _short(text: str, most: int = 92) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def claims(dataset: xr.Dataset) -> list[Claim]:
    """No setting was chosen by these numbers; what we say is only that one of them has every statement."""
    share = dataset["held"].mean("claim")
    return [
        at_least(
            "In some setting every statement about figures 2 to 4 holds (largest share of statements that hold)",
            source="Tests on the MNIST dataset", expected=1, measured=share.max(), ours=True,
        )
    ]  # fmt: skip
