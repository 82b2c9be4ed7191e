"""Beyond the paper: the E-steps side by side, on the same data and from the same start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close
from equilibria.papers.huang2019.common import matched, plant
from equilibria.papers.huang2019.statements import margin
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.e_step import e_step, quadrature, samples
from equilibria.synapses.learn import E_STEPS, learn_synapses
from equilibria.synapses.paper_cavity import PaperCavity

HOW = {name: make() for name, make in E_STEPS.items()}
ITERATIONS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # of the messages, after which is looked whether they are at rest
LABELS = {
    "exact": "exact sum over hidden states",
    "response": "cavity, linear response",
    "cavity": "cavity, correlation of the pair",
    "paper": "the paper's: messages (10), moments (15)",
    "gibbs": "Gibbs sampling",
}


@dataclass(frozen=True)
class Config:
    """The paper's planted machines; every E-step learns from the same data and start."""

    size: int = 100
    examples: int = 500
    hidden_sizes: tuple[int, ...] = (2, 3)
    correlations: tuple[float, ...] = (0.3, 0.0)
    instances: int = 4
    steps: int = 120
    every: int = 10
    learning_rate: float = 0.03
    seed: int = 0


@eqx.filter_jit
def correlation_error(how, natural: jax.Array, key: jax.Array) -> jax.Array:
    """The relative error of <sigma h> in the equivalent machine of these synapses."""
    synapses, fields = Synapses(natural), quadrature(natural.shape[1], 7)
    copies = 20 if samples(how) else 1
    start = {
        "visible": jnp.zeros((copies * len(fields.weights), natural.shape[0])),
        "hidden": jnp.zeros((copies * len(fields.weights), natural.shape[1])),
    }
    truth, found = (e_step(each, synapses, fields, start, key).correlation for each in (HOW["exact"], how))
    return jnp.linalg.norm(found - truth) / jnp.linalg.norm(truth)


@eqx.filter_jit
def at_rest(iterations: jax.Array, natural: jax.Array) -> jax.Array:
    """Whether no mean moves by more than 1e-4 in the last of so many iterations of (10), for any of the fields z."""
    synapses, fields = Synapses(natural), quadrature(natural.shape[1], 7)
    start = {
        "visible": jnp.zeros((len(fields.weights), natural.shape[0])),
        "hidden": jnp.zeros((len(fields.weights), natural.shape[1])),
    }
    return e_step(PaperCavity(iterations), synapses, fields, start, jax.random.key(0)).unconverged == 0


def needed(natural: np.ndarray) -> float:
    """After how many iterations of (10) the messages are at rest; NaN if 50 are not enough."""
    here = jnp.asarray(natural)
    return next((float(count) for count in ITERATIONS if at_rest(jnp.asarray(count), here)), np.nan)


def run(config: Config, progress) -> xr.Dataset:
    """All instances of a case at once, one E-step after the other; errors along the way of the exact one."""
    cases = list(zip(config.hidden_sizes, config.correlations, strict=True))
    steps = np.arange(0, config.steps + 1, config.every)
    overlaps = np.zeros((len(cases), len(HOW), len(steps), config.instances))
    errors = np.zeros((len(cases), len(HOW), len(steps)))
    iterations = np.zeros((len(cases), len(steps), config.instances))
    options: dict[str, Any] = {"steps": config.steps, "every": config.every, "learning_rate": config.learning_rate}
    for case, (hidden_size, correlation) in enumerate(progress(cases, "E-steps", "case")):
        planted = plant(config.instances, hidden_size, config.size, config.examples, correlation, config.seed)
        path = None
        for index, how in enumerate(HOW.values()):
            learned = learn_synapses(
                list(planted.data), hidden_size, how=how, metrics=lambda synapses: {"observed": synapses.natural},
                show_progress=False, key=config.seed, **options,
            )  # fmt: skip
            natural = learned.history["observed"].values
            if path is None:  # the first is the exact one
                path = natural[:, 0]
                iterations[case] = [[needed(one) for one in here] for here in natural]
            overlaps[case, index] = [matched(here, planted.fields).mean(axis=1) for here in natural]
            errors[case, index] = [correlation_error(how, jnp.asarray(here), jax.random.key(1)) for here in path]
    return xr.Dataset(
        {
            "overlap": (("case", "e_step", "step", "instance"), overlaps),
            "error": (("case", "e_step", "step"), errors),
            "iterations": (("case", "step", "instance"), iterations),
        },
        {
            "e_step": list(HOW),
            "step": steps,
            "hidden_size": ("case", list(config.hidden_sizes)),
            "correlation": ("case", list(config.correlations)),
        },
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Above, mean overlaps with the planted fields, all from the same data and start. Below, the relative error of the
    correlations between visible and hidden neurons, along the way that the exact E-step takes."""
    figure, axes = plots.panels(dataset.sizes["case"], 2, size=(4.6, 2.9), squeeze=False, sharex=True)
    for case in range(dataset.sizes["case"]):
        here = dataset.isel(case=case)
        for index, (name, label) in enumerate(LABELS.items()):
            one, colour = here.sel(e_step=name), plots.PALETTE[index]
            axes[0, case].plot(one["step"], one["overlap"].mean("instance"), color=colour, label=label)
            if name != "exact":
                axes[1, case].semilogy(one["step"], one["error"], color=colour)
        axes[0, case].set_title(f"P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}")
        axes[1, case].set_xlabel("learning step")
    axes[0, 0].set_ylabel("mean overlap")
    axes[1, 0].set_ylabel(r"relative error of $\langle\sigma_i h_\mu\rangle$")
    axes[0, -1].legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the comparison shows, and how fast the paper's messages converge."""
    found = []
    told: dict[str, Any] = {"source": "beyond the paper", "ours": True, "over": "realisation"}
    for case in range(dataset.sizes["case"]):
        here = dataset.isel(case=case)
        name = f"P = {int(here['hidden_size'])}, q = {float(here['correlation']):g}"
        last = here["overlap"].isel(step=-1)
        error = here["error"].isel(step=slice(1, None)).mean("step")
        exact = last.sel(e_step="exact").values
        away = {how: exact - last.sel(e_step=how).values for how in ("response", "paper")}
        found += [
            at_most(
                f"Message passing (10) converges in a few steps ({name}): most iterations until no mean moves by over 1e-4",
                source="text after (10)", expected=10, measured=here["iterations"].max("step", skipna=False).values,
                every=True, over="realisation", reason="a few is read as at most ten",
                quote="Because of weak interactions, this message passing equation is able to converge even in a few steps",
            ),
            close(
                f"Linear response learns as well as the exact sum ({name}): difference in mean overlap",
                expected=0.0, measured=away["response"], tolerance=margin(away["response"]),
                reason="95% by Student's law", **told,
            ),
            at_least(
                f"The paper's E-step learns less than the exact sum ({name}: {exact.mean() - away['paper'].mean():.2f} against "
                f"{exact.mean():.2f}): difference in mean overlap", expected=margin(away["paper"]), measured=away["paper"],
                reason="more than chance: 95% by Student's law", **told,
            ),
            at_most(
                f"Linear response has smaller errors than the pair alone ({name})",
                expected=float(error.sel(e_step="cavity")), measured=float(error.sel(e_step="response")), **told,
            ),
            at_most(
                f"... which has smaller errors than equation (15) ({name})",
                expected=float(error.sel(e_step="paper")), measured=float(error.sel(e_step="cavity")), **told,
            ),
        ]  # fmt: skip
    return found


DIFFERS = {
    "quick": ("beyond the paper, which has one E-step; P = 3 alone, 2 realisations, 20 steps",),
    "paper": (
        "beyond the paper, which has one E-step; all by natural gradient, so that nothing but the E-step differs",
    ),
}
PRESETS = {
    "quick": Config(hidden_sizes=(3,), correlations=(0.0,), instances=2, steps=20),
    "paper": Config(instances=10, steps=200),
}
