"""An experiment small enough for the tests of the frame, the command line and the report."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import xarray as xr

from equilibria import plots
from equilibria.papers.claims import at_least, close, not_testable
from equilibria.papers.frame import Experiment

RUNS = []  # the configuration of every run, in order


@dataclass(frozen=True)
class Config:
    points: tuple[float, ...] = (0.0, 0.5, 1.0)
    noise: float = 0.01
    slope: float = 2.0
    seed: int = 3


def run(config, progress):
    RUNS.append(config)
    x = np.array([point for point in progress(config.points, "measuring", "point")])
    y = config.slope * x + config.noise * np.random.default_rng(config.seed).normal(size=x.shape)
    return xr.Dataset({"y": ("x", y)}, coords={"x": x})


def plot(dataset):
    figure, axes = plots.panels()
    plots.theory_line(axes, dataset.x, 2 * dataset.x, label="theory")
    plots.simulation_points(axes, dataset.x, dataset.y, 0.01 * np.ones(dataset.x.size), label="simulation")
    axes.set(xlabel="x", ylabel="y")
    axes.legend()
    return figure


def claims(dataset):
    slope = (dataset.x * dataset.y).sum() / (dataset.x**2).sum()
    error = 0.01 / np.sqrt((dataset.x**2).sum())
    return [
        close("The slope is <2>", source="Eq. (1)", expected=2, measured=slope, tolerance=4 * error, reason="4 errors"),
        at_least("It rises", source="ours", expected=0, measured=dataset.y[-1] - dataset.y[0], ours=True),
        not_testable("It is <straight> everywhere", source="p. 2", reason="between the points nobody looks"),
    ]


experiment = Experiment(
    id="tiny/line",
    title="A straight <line>",
    presets={"quick": Config(), "paper": Config(points=tuple(np.linspace(0, 1, 20).tolist()))},
    run=run,
    plot=plot,
    claims=claims,
    differs={"quick": ("3 points, not 20",)},
)
wrong = Experiment("tiny/wrong", "A wrong slope", {"quick": Config(slope=3.0)}, run, plot, claims)


def as_module(experiment):
    """The module from which `papers.find` makes the experiment."""
    return SimpleNamespace(
        PRESETS=experiment.presets,
        run=experiment.run,
        plot=experiment.plot,
        claims=experiment.claims,
        DIFFERS=experiment.differs,
    )
