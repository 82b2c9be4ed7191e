"""How probable MNIST's test digits become while a machine of 784 x 500 learns: annealed importance sampling along the training.

The mark is the literature's: -86.3 nats per digit for contrastive divergence with 25 steps (Salakhutdinov and Murray
2008), on pixels drawn with the grey value as their probability, as here; thresholded pixels have less entropy and are
not comparable. The training digits are drawn several times over, so that the machine learns the grey values and not one
drawing of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.measure.likelihood import unnormalised
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.decelle2017.statements import REASONABLY_WELL
from equilibria.papers.digits import handwritten

MARK = -86.3  # nats per digit, CD-25
_FEW = 16  # hidden neurons up to which ln Z is also summed exactly


@dataclass(frozen=True)
class Config:
    """Persistent chains with a learning rate that falls linearly to zero, and where the likelihood is measured."""

    images: int = 4000
    copies: int = 1  # how often each training digit is drawn
    test: int = 1000
    hidden: int = 12
    epochs: int = 60
    batch_size: int = 100
    chains: int = 100
    sweeps: int = 2
    learning_rate: float = 0.05
    l2: float = 0.0
    records: int = 5
    annealing_chains: int = 100
    annealing_steps: int = 3000
    seed: int = 0


# The number of updates counts: 36,000 with 10 sweeps each came to -87.1 nats, these 144,000 with 2 to -84.3.
PAPER = Config(
    images=60_000,
    copies=10,
    test=10_000,
    hidden=500,
    epochs=48,
    batch_size=200,
    chains=500,
    sweeps=2,
    l2=1e-5,
    records=12,
    annealing_steps=14_500,
)


def drawn(images: np.ndarray, copies: int, seed: int) -> np.ndarray:
    """Binary digits (copies * images, 784) in 8 bits, each pixel on with its grey value as probability."""
    rng = np.random.default_rng(seed)
    grey = images.reshape(len(images), -1)
    # A byte b from 0 to 254 is below the grey value g with probability g / 255.
    return np.concatenate([(rng.integers(0, 255, grey.shape, np.uint8) < grey).astype(np.uint8) for _ in range(copies)])


def run(config: Config, checkpoint: Path) -> xr.Dataset:
    """A training with the likelihood of digits measured along it, by annealing in both directions."""
    bundle = handwritten(config.images, config.test)
    data = drawn(bundle.train_images, config.copies, config.seed)
    test = drawn(bundle.test_images, 1, config.seed + 1)
    some = data[: config.test]
    network = eq.independent_site_biases(eq.rbm(784, config.hidden, scale=0.01, key=config.seed), data)
    steps = config.epochs * (len(data) // config.batch_size)

    def measured(network: eq.Network) -> dict[str, float]:
        found = eq.log_partition(
            network,
            "ais",
            data=some,
            chains=config.annealing_chains,
            steps=config.annealing_steps,
            key=config.seed + 3,
        )
        weights = {
            name: unnormalised(network, {"visible": rows}).mean() for name, rows in (("test", test), ("train", some))
        }
        result = {name: weight - found.value for name, weight in weights.items()}
        low, high = (weights["test"] - end for end in reversed(found.bracket or (np.nan, np.nan)))
        result |= {"error": found.error, "low": low, "high": high, "effective": found.effective or 0.0}
        if config.hidden <= _FEW:
            result["exact"] = weights["test"] - eq.log_partition(network).value
        return result

    run = eq.train(
        network,
        data,
        eq.pcd(config.sweeps, chains=config.chains, opening="network", l2=config.l2),
        epochs=config.epochs,
        batch_size=config.batch_size,
        optimiser=optax.sgd(optax.linear_schedule(config.learning_rate, 0.0, steps)),
        record=[step for step in eq.log_spaced_steps(steps, 4 * config.records) if step >= 10][-config.records :],
        metrics=measured,
        checkpoint=checkpoint,
        resume=True,
        key=config.seed + 2,
    )
    alone = eq.log_likelihood(eq.independent_site_biases(eq.rbm(784, 1, scale=0.0, key=0), data), test).value
    return run.history.assign_attrs(independent=alone, hidden=config.hidden)


def plot(dataset: xr.Dataset) -> Figure:
    """The likelihood against epochs, with brackets, beside what is known of it."""
    figure, axes = plots.panels()
    bars = np.abs(np.stack([dataset.test - dataset.low, dataset.high - dataset.test]))
    axes.errorbar(dataset.epoch, dataset.test, bars, fmt="o-", ms=4, label="test (bars: annealed down and up)")
    axes.plot(dataset.epoch, dataset.train, color=plots.PALETTE[2], lw=1, label="training digits")
    if "exact" in dataset:
        axes.plot(dataset.epoch, dataset.exact, "x", color=plots.PALETTE[3], label="test, summed exactly")
    axes.axhline(MARK, color=plots.PALETTE[1], ls="--", lw=1, label="CD-25 in the literature")
    alone = dataset.attrs["independent"]
    axes.axhline(alone, color="0.5", ls=":", lw=1, label=f"independent pixels, {alone:.1f}")
    axes.set(xlabel="epoch", ylabel="log-likelihood (nats per digit)", xscale="log")
    first, last = float(dataset.epoch.min()), float(dataset.epoch.max())
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 30, 50, 100) if first / 1.2 < tick < 1.2 * last]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    lowest = float(min(dataset.test.min(), dataset.low.min(), dataset.high.min()))
    if lowest - alone > 3 * (MARK - lowest):  # then the far line would leave the curve no room
        axes.set_ylim(lowest - 1, max(MARK, float(dataset.train.max())) + 1)
    axes.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)
    return figure


def _outside(dataset: xr.Dataset) -> xr.DataArray:
    """How far the exact value lies outside the bracket; annealing that misses a mode is off on one side only."""
    low, high = np.minimum(dataset.low, dataset.high), np.maximum(dataset.low, dataset.high)
    return np.maximum(np.maximum(low - dataset.exact, dataset.exact - high), 0)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What learning gains, how narrow the bracket is, and the mark of the literature for the large machine."""
    last, alone = dataset.isel(step=-1), float(dataset.attrs["independent"])
    large = int(dataset.attrs["hidden"]) >= 500
    found = [
        REASONABLY_WELL,
        at_least(
            "Learning makes test digits more probable than independent pixels do (nats gained)",
            source="equation (3)",
            expected=-125.5 - alone if large else 30,
            measured=last.test - alone,
            reason="what one step of contrastive divergence gains in the literature, -125.5 nats per digit" * large,
            ours=True,
        ),
        at_most(
            "Annealing up and down agree (width of the bracket, nats)",
            source="Salakhutdinov and Murray 2008",
            expected=0,
            measured=abs(last.high - last.low),
            tolerance=max(1.0, 6 * float(last.error)),
            reason="both ends scatter by the error bar; one nat is far below the gain",
            ours=True,
        ),
    ]
    if "exact" in dataset:
        found.append(
            at_most(
                "The exact sum lies between annealing up and down (nats outside, in error bars)",
                source="equation (3)",
                expected=0,
                measured=(_outside(dataset) / dataset.error).max(),
                tolerance=5,
                reason="five standard errors",
                ours=True,
            )
        )
    if large:
        found.append(
            at_least(
                "784 x 500 exceeds the mark of CD-25 on test digits, at the low end of the bracket (nats per digit)",
                source="Salakhutdinov and Murray 2008",
                expected=MARK,
                measured=last.low,
                ours=True,
            )
        )
    return found


DIFFERS = {
    "quick": ("beyond the paper, which measures no likelihood of MNIST; 12 hidden units, 2,000 digits",),
    "paper": (
        "beyond the paper, which measures no likelihood of MNIST: 500 hidden units, rate, weight decay and length are ours",
        "one seed: a training takes hours",
    ),
}
PRESETS = {
    "quick": Config(images=2000, test=500, epochs=100, records=3, annealing_chains=50, annealing_steps=1000),
    "paper": PAPER,
}
