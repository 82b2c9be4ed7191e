"""Beyond the paper: many hidden neurons with minibatches, against real-valued weights and ones that are merely binarised."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from matplotlib.figure import Figure

import equilibria as eq
from equilibria import plots
from equilibria.data import binarise
from equilibria.model.transforms import independent_site_biases
from equilibria.papers.claims import Claim, at_least, at_most
from equilibria.papers.digits import handwritten
from equilibria.papers.huang2019.statements import OUTLOOK
from equilibria.papers.sweep import sweep
from equilibria.synapses.distribution import Synapses, compensated
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.saving import save_synapses

MACHINES = ("binary synapses", "real-valued", "binarised")
SHOWN = 25  # mean weights that are drawn


@dataclass(frozen=True)
class Config:
    """Three machines of the same size, with biases, from each of `seeds` starts; images of MNIST are cut at half of grey."""

    hidden_size: int = 64
    examples: int = 5000
    tests: int = 1000
    steps: int = 800
    batch_size: int = 200
    fields: int = 100
    sweeps: int = 2
    learning_rate: float = 0.02
    temperature: float = 1.0
    epochs: int = 20
    annealing: int = 2000
    seeds: int = 1
    seed: int = 0


def _spins(weights: Any, bias: Any, hidden_bias: Any = None) -> eq.Network:
    return eq.rbm(weights=weights, visible_bias=bias, hidden_bias=hidden_bias, visible=eq.Spin(), hidden=eq.Spin())


def binary(config: Config, data: np.ndarray) -> Synapses:
    """Binary synapses with persistent chains, from biases that fit the mean of each pixel."""
    mean = np.clip(data.mean(axis=0), -0.99, 0.99)
    natural = 0.1 * jax.random.normal(jax.random.key(config.seed), (data.shape[1], config.hidden_size))
    rate = optax.cosine_decay_schedule(config.learning_rate, config.steps)
    return learn_synapses(
        data, config.hidden_size, how=eq.Sweeps(config.sweeps), steps=config.steps, every=config.steps,
        batch_size=config.batch_size, fields=config.fields, optimiser=optax.adam(rate), learn_bias=True,
        start=Synapses(natural, np.arctanh(mean), config.temperature), show_progress=False, key=config.seed,
    ).synapses  # fmt: skip


def real(config: Config, data: np.ndarray) -> eq.Network:
    """Real-valued weights by persistent contrastive divergence."""
    network = eq.rbm(data.shape[1], config.hidden_size, visible=eq.Spin(), hidden=eq.Spin(), key=config.seed)
    network = independent_site_biases(network, data)
    return eq.train(
        network, data, eq.pcd(steps=config.sweeps, opening="network"), epochs=config.epochs, batch_size=config.batch_size,
        learning_rate=0.01, show_progress=False, key=config.seed,
    ).network  # fmt: skip


def binarised(network: eq.Network, data: np.ndarray) -> eq.Network:
    """The signs of real-valued weights at their mean size, the biases shifted so that mean fields are kept.

    The shift is that of `compensated`: what the weights have lost, times the means of the other layer over the data.
    """
    weights = network.couplings[0].matrix()
    visible, hidden = (layer.bias for layer in network.layers)
    signs = jnp.where(weights >= 0, 1.0, -1.0) * jnp.mean(jnp.abs(weights))
    active = jnp.mean(jnp.tanh(data @ weights + hidden), axis=0)
    lost = weights - signs
    return _spins(signs, visible + lost @ active, hidden + jnp.mean(data, axis=0) @ lost)


def pixels(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Images to learn from and images to judge by, as spins."""
    images = handwritten(config.examples, config.tests)
    return binarise(images.train_images), binarise(images.test_images)


def learned(machine: int, *, config: Config) -> dict[str, Any]:
    """One cell: the three machines of one start, their likelihood by annealing, samples and some mean weights."""
    data, tests = pixels(config)
    config = replace(config, seed=config.seed + 10 * machine)
    synapses = binary(config, data)
    taught = real(config, data)
    # Most weights at the edge are not known: a draw spreads their signs, where the mode would line them up.
    weights = synapses.sample(key=config.seed + 1)
    machines = dict(zip(MACHINES, (compensated(synapses, data, weights), taught, binarised(taught, data)), strict=True))
    values, errors, brackets, draws = [], [], [], []
    for index, network in enumerate(machines.values()):
        found = eq.log_likelihood(network, tests, "ais", steps=config.annealing, key=config.seed + index)
        values.append(found.value)
        errors.append(found.error)
        brackets.append(found.bracket)
        start = {"visible": data[:8]}
        chains = eq.sample(network, eq.Sweeps(500), chains=8, start=start, key=config.seed)
        draws.append(np.asarray(network.layers[0].unit.mean(network.field(chains, "visible"))))
    with tempfile.TemporaryDirectory() as folder:
        size = save_synapses(Path(folder) / "machine.safetensors", machines["binary synapses"])
    return {
        "likelihood": np.array(values, np.float64),
        "error": np.array(errors, np.float64),
        "bracket": np.array(brackets, np.float64),
        "samples": np.stack(draws),
        "mean": np.asarray(synapses.mean)[:, :SHOWN],
        "file_size": np.array(size),
    }


def run(config: Config, checkpoint: Path | None = None) -> xr.Dataset:
    """Every start, each kept when it is finished; pictures are of the first."""
    cells = sweep(learned, config, checkpoint, machine=range(config.seeds))
    data, tests = pixels(config)
    alone = _spins(np.zeros((784, 1)), np.arctanh(np.clip(data.mean(axis=0), -0.99, 0.99)))
    return xr.Dataset(
        {
            "likelihood": (("seed", "machine"), cells["likelihood"].values),
            "error": (("seed", "machine"), cells["error"].values),
            "bracket": (("seed", "machine", "end"), cells["bracket"].values),
            "alone": ((), eq.log_likelihood(alone, tests, "exact").value),
            "samples": (("machine", "draw", "pixel"), cells["samples"].values[0]),
            "mean": (("pixel", "unit"), cells["mean"].values[0]),
            "file_size": ("seed", cells["file_size"].values),
        },
        {"machine": list(MACHINES)},
        {"weights": 784 * config.hidden_size},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Mean weights and samples as pictures, of the first start. Likelihoods of unseen images: bars are means over starts, with
    the bracket of annealing up and down of each start as a line, and independent pixels dotted."""
    side = int(np.sqrt(dataset.sizes["pixel"]))
    figure = plots.panels(2, 2, size=(4.2, 3.0))[0]
    figure.clear()
    axes = figure.subplot_mosaic([["weights", "likelihood"], ["samples", "samples"]], width_ratios=(1, 1.3))
    filters = dataset["mean"].values[:, :SHOWN].T.reshape(5, 5, side, side)
    axes["weights"].imshow(_tiled(filters), cmap="RdBu", vmin=-1, vmax=1)
    axes["weights"].set_title(r"mean weights $\lambda^\mu$, red $-1$, blue $+1$")
    axes["weights"].set_axis_off()
    names = [str(name) for name in dataset["machine"].values]
    shown, panel = dataset["samples"].values.reshape(len(names), -1, side, side), axes["samples"]
    panel.imshow(_tiled(shown), cmap="gray_r", vmin=-1, vmax=1)
    panel.set_title("samples")
    panel.set_yticks((np.arange(len(names)) + 0.5) * (side + 2), [name.replace(" ", "\n") for name in names])
    panel.set_xticks([])
    panel.tick_params(length=0)
    panel.grid(visible=False)
    for spine in panel.spines.values():
        spine.set_visible(False)
    middle, panel = dataset["likelihood"].mean("seed").values, axes["likelihood"]
    ends = dataset["bracket"].transpose("machine", "seed", "end").values
    least = min(float(ends.min()), float(dataset["alone"])) - 20
    panel.barh(names, middle - least, left=least, color=plots.PALETTE[: len(names)])
    places = np.arange(len(names))[:, None] + np.linspace(-0.3, 0.3, ends.shape[1] + 2)[1:-1]
    panel.hlines(places.ravel(), ends.min(axis=2).ravel(), ends.max(axis=2).ravel(), color="black", linewidth=2.0)
    for place, value in enumerate(middle):
        short = value - least < 0.2 * np.ptp([*middle, least])  # a bar that has no room for its number
        where, colour = (ends[place].max(), "black") if short else (least, "white")
        panel.text(where, place, f"  {value:.1f}", va="center", ha="left", color=colour)
    panel.axvline(float(dataset["alone"]), color="0.3", linestyle=":", label="independent pixels")
    panel.invert_yaxis()
    panel.set(xlabel="ln p of an unseen image (nats, AIS)", xlim=(least, 1.02 * ends.max() - 0.02 * least))
    panel.set_title(f"{float(dataset['file_size'].mean()) / 1000:.1f} kB with binary synapses")
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def _tiled(pictures: np.ndarray) -> np.ndarray:
    """(rows, columns, height, width) as one picture, with a line of zeros between."""
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded.transpose(0, 2, 1, 3).reshape(padded.shape[0] * padded.shape[2], -1)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What the paper sees ahead; what binary weights cost, and what learning them as such is worth."""
    likelihood = {str(name): dataset["likelihood"].sel(machine=name).values for name in dataset["machine"].values}
    told: dict[str, Any] = {"source": "beyond the paper", "ours": True, "every": True, "over": "start"}
    spread = float(np.ptp(dataset["bracket"].values, axis=-1).max())
    weights = float(dataset.attrs["weights"])
    bits = 8 * dataset["file_size"].values / weights
    biases = 32 * (784 + weights / 784)
    return [
        at_least(
            "Gradients of minibatches, with noise, can be used, and hundreds of hidden neurons: the weights explain unseen "
            "digits better than independent pixels, difference in nats", source="Sec. V", expected=spread, every=True,
            over="start", measured=likelihood["binary synapses"] - float(dataset["alone"]),
            reason="the widest bracket of annealing up and down",
            quote="noisy estimates of gradients using stochastic optimization can be applied",
        ),
        *OUTLOOK,
        at_least(
            "Learned as binary, weights explain unseen digits better than real-valued ones that are binarised, with the same "
            "shift of the biases: difference in nats",
            expected=spread, measured=likelihood["binary synapses"] - likelihood["binarised"],
            reason="the widest bracket of annealing up and down", **told,
        ),
        at_least(
            "... and better than independent pixels: difference in nats", expected=spread,
            measured=likelihood["binary synapses"] - float(dataset["alone"]),
            reason="the widest bracket of annealing up and down", **told,
        ),
        at_most("The file has about one bit for each weight", expected=1.0, measured=bits,
                tolerance=(biases + 8 * 600) / weights, reason="biases of 32 bits for each neuron, and a header of 600 bytes",
                **told),
    ]  # fmt: skip


DIFFERS = {
    "quick": ("beyond the paper, which has 4 hidden neurons; 64 hidden neurons, 2,000 images, one start",),
    "paper": ("beyond the paper, which has 4 hidden neurons and learns from 2,000 images at once",),
}
PRESETS = {
    "quick": Config(examples=2000, tests=500, steps=400, epochs=10, annealing=500),
    "paper": Config(
        hidden_size=300, examples=60_000, tests=10_000, steps=10_000, fields=250, epochs=50, annealing=14_500, seeds=5
    ),
}
