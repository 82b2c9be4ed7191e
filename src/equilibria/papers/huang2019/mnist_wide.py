"""Beyond the paper: many hidden neurons with minibatches, against real-valued weights and ones that are merely binarised."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
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
from equilibria.synapses.distribution import Synapses, compensated
from equilibria.synapses.learn import learn_synapses
from equilibria.synapses.saving import save_synapses


@dataclass(frozen=True)
class Config:
    """Three machines of the same size, with biases, trained on the same images of MNIST cut at half of the grey scale."""

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


def binarised(network: eq.Network) -> eq.Network:
    """The signs of real-valued weights at their mean size, the biases as they are."""
    weights = network.couplings[0].matrix()
    signs = jnp.where(weights >= 0, 1.0, -1.0) * jnp.mean(jnp.abs(weights))
    return _spins(signs, network.layers[0].bias, network.layers[1].bias)


def run(config: Config, progress) -> xr.Dataset:
    """Learn, measure the likelihood of images not seen by annealed importance sampling, and draw samples."""
    images = handwritten(config.examples, config.tests)
    data, tests = binarise(images.train_images), binarise(images.test_images)
    synapses = binary(config, data)
    taught = real(config, data)
    # Most weights at the edge are not known: a draw spreads their signs, where the mode would line them up.
    weights = synapses.sample(key=config.seed + 1)
    machines = {
        "binary synapses": compensated(synapses, data, weights),
        "real-valued": taught,
        "binarised": binarised(taught),
    }
    machines["pixels alone"] = _spins(np.zeros((784, 1)), np.arctanh(np.clip(data.mean(axis=0), -0.99, 0.99)))
    values, errors, draws = [], [], []
    for index, network in enumerate(progress(list(machines.values()), "likelihood", "machine")):
        found = eq.log_likelihood(network, tests, "ais", steps=config.annealing, reverse=False, key=config.seed + index)
        values.append(found.value)
        errors.append(found.error)
        start = {"visible": data[:8]}
        chains = eq.sample(network, eq.Sweeps(500), chains=8, start=start, key=config.seed)
        draws.append(np.asarray(network.layers[0].unit.mean(network.field(chains, "visible"))))
    with tempfile.TemporaryDirectory() as folder:
        size = save_synapses(Path(folder) / "machine.safetensors", machines["binary synapses"])
    return xr.Dataset(
        {
            "likelihood": ("machine", np.array(values, np.float64)),
            "error": ("machine", np.array(errors, np.float64)),
            "samples": (("machine", "draw", "pixel"), np.stack(draws)),
            "mean": (("pixel", "unit"), np.asarray(synapses.mean)),
            "file_size": ((), size),
        },
        {"machine": list(machines)},
        {"weights": 784 * config.hidden_size},
    )


def plot(dataset: xr.Dataset) -> Figure:
    """Filters and samples as pictures, likelihoods as bars."""
    side = int(np.sqrt(dataset.sizes["pixel"]))
    figure, axes = plots.panels(3, size=(4.2, 3.6))
    filters = dataset["mean"].values[:, :25].T.reshape(5, 5, side, side)
    axes[0].imshow(_tiled(filters), cmap="RdBu", vmin=-1, vmax=1)
    axes[0].set_title(r"mean weights $\lambda^\mu$ of 25 hidden neurons")
    shown = dataset["samples"].values[:3].reshape(3, -1, side, side)
    axes[1].imshow(_tiled(shown), cmap="gray_r", vmin=-1, vmax=1)
    axes[1].set_title("samples: " + ", ".join(dataset["machine"].values[:3]))
    for panel in axes[:2]:
        panel.set_axis_off()
    names = [str(name) for name in dataset["machine"].values]
    axes[2].barh(names, dataset["likelihood"], color=plots.PALETTE[: len(names)])
    for place, value in enumerate(dataset["likelihood"].values):
        axes[2].text(value, place, f" {value:.0f}", va="center", ha="left", color="white")
    axes[2].invert_yaxis()
    axes[2].set(xlabel="ln p of an unseen image (nats, AIS)")
    axes[2].set_title(f"{float(dataset['file_size']) / 1000:.1f} kB with binary synapses")
    return figure


def _tiled(pictures: np.ndarray) -> np.ndarray:
    """(rows, columns, height, width) as one picture, with a line of zeros between."""
    padded = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return padded.transpose(0, 2, 1, 3).reshape(padded.shape[0] * padded.shape[2], -1)


def claims(dataset: xr.Dataset) -> list[Claim]:
    """What binary weights cost, and what learning them as such is worth."""
    likelihood = {
        str(name): float(value)
        for name, value in zip(dataset["machine"].values, dataset["likelihood"].values, strict=True)
    }
    source, spread = "beyond the paper", float(dataset["error"].max())
    bits = 8 * float(dataset["file_size"]) / float(dataset.attrs["weights"])
    return [
        at_least(
            "Learned as binary, weights explain unseen digits better than real-valued ones that are binarised",
            source=source, expected=likelihood["binarised"], measured=likelihood["binary synapses"], tolerance=spread,
            reason="error of ln Z",
        ),
        at_least(
            "... and better than the pixels' means alone",
            source=source, expected=likelihood["pixels alone"], measured=likelihood["binary synapses"],
        ),
        at_most("The file has about one bit for each weight", source=source, expected=1.0, measured=bits, tolerance=1.0,
                reason="biases of 32 bits for each pixel, and a header"),
    ]  # fmt: skip


PRESETS = {
    "quick": Config(),
    "paper": Config(
        hidden_size=300, examples=60_000, tests=10_000, steps=10_000, fields=250, epochs=50, annealing=14_500
    ),
}
