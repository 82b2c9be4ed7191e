"""Restricted Boltzmann machines of 784 x 500 beside scikit-learn and `rbms`, on the same work.

Some updates of persistent contrastive divergence with 500 chains and 500 examples, 1, 10 or 100 sweeps each; ours by the real
training loop from 8-bit data, with all that a call costs besides. What a further update costs is told apart from that by a call
that goes through the same data three times. For `rbms` the per-update file is not written and its gradient normalisation, which
scales by norms, is left out: its own functions for the gradient and the sweeps are called. Beside them the matrix products of
these updates alone, by NumPy and PyTorch. Then a sweep against its two products, and annealing against a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

import equilibria as eq
from benchmarks._timing import race, table
from equilibria.measure import ais

VISIBLE, HIDDEN, CHAINS, BATCH, RATE = 784, 500, 500, 500, 0.01
WEIGHTS = 0.01 * np.random.default_rng(1).standard_normal((VISIBLE, HIDDEN)).astype(np.float32)
DATA = np.random.default_rng(0).choice([0.0, 1.0], (BATCH, VISIBLE), p=[0.8, 0.2]).astype(np.float32)


def ours(sweeps: int, updates: int, passes: int = 1):
    """A training of so many updates in each pass."""
    network = eq.rbm(VISIBLE, HIDDEN, key=0)
    data = np.concatenate([DATA.astype(np.uint8)] * updates)
    options = {"batch_size": BATCH, "epochs": passes, "learning_rate": RATE, "key": 1, "show_progress": False}
    return lambda: jax.block_until_ready(eq.train(network, data, eq.pcd(sweeps, chains=CHAINS), **options).network)


def apart(seconds: Mapping[str, np.ndarray], updates: int) -> str:
    """What one further update takes, from trainings of one and of three passes, what a call costs besides, and the rivals'."""
    once, thrice = seconds["equilibria"], seconds["three passes"]
    further = (thrice - once) / (2 * updates)
    each = {name: values / updates for name, values in seconds.items() if name not in ("equilibria", "three passes")}
    besides = 1e3 * np.median(once - updates * further)
    return f"{besides:.0f} ms of a call are not its updates\n" + table(
        {"a further update": further, **each}, "a further update"
    )


def repeated(once, updates: int):
    """As many updates of a rival."""

    def all_of_them():
        for _ in range(updates):
            once()

    return all_of_them


def bare(product, sweeps: int, data, weights):
    """The products that an update cannot do without: the data's fields, two for each sweep, two for the gradient."""

    def once():
        shown, visible = product(data, weights), data
        for _ in range(sweeps):
            hidden = product(visible, weights)
            visible = product(hidden, weights.T)
        product(data.T, shown)
        product(visible.T, hidden)

    return once


def torch_products(sweeps: int):
    """The same products by PyTorch."""
    import torch

    return bare(torch.matmul, sweeps, torch.from_numpy(DATA), torch.from_numpy(WEIGHTS))


def scikit_learn(sweeps: int):
    """`partial_fit` does one sweep; more are done by its own `gibbs` on the chains before it."""
    from sklearn.neural_network import BernoulliRBM

    model = BernoulliRBM(n_components=HIDDEN, batch_size=BATCH, learning_rate=RATE, random_state=0)
    model.partial_fit(DATA)

    def once():
        chains = model.h_samples_
        for _ in range(sweeps - 1):
            visible = model._sample_visibles(chains, model.random_state_)
            chains = model._sample_hiddens(visible, model.random_state_)
        model.h_samples_ = np.asarray(chains)
        model.partial_fit(DATA)

    return once


def rbms(sweeps: int):
    """The gradient and the sweeps of the package `rbms`, on the processor."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM

    generator = torch.Generator().manual_seed(0)
    size = {"dtype": torch.float32, "generator": generator}
    model = BBRBM(0.01 * torch.randn(VISIBLE, HIDDEN, **size), torch.zeros(VISIBLE), torch.zeros(HIDDEN))
    data = {"visible": torch.from_numpy(DATA), "weights": torch.ones(BATCH)}
    held = [model.init_chains(CHAINS)]
    model.init_grad()

    @torch.no_grad()
    def once():
        shown = model.sample_hiddens(dict(data))
        held[0] = model.sample_state(held[0], sweeps)
        model.compute_gradient(shown, held[0], centered=True)
        for parameter in model.parameters():
            parameter += RATE * parameter.grad

    return once


def products(sweeps: int):
    """The two matrix products of each sweep and nothing else."""
    weights = eq.rbm(VISIBLE, HIDDEN, key=0).couplings[0].weights

    @jax.jit
    def go(visible):
        return jax.lax.fori_loop(0, sweeps, lambda _, v: 1e-2 * ((v @ weights) @ weights.T), visible)

    return lambda: jax.block_until_ready(go(jnp.asarray(DATA)))


def sweep(sweeps: int, *, fast: bool):
    """Block Gibbs sweeps with the fast generator or JAX's own."""
    network = eq.rbm(VISIBLE, HIDDEN, key=0)
    start = {"visible": DATA, "hidden": np.zeros((BATCH, HIDDEN), np.float32)}
    return lambda: jax.block_until_ready(
        eq.equilibrate(network, eq.Sweeps(sweeps), start, key=eq.key(0, fast=fast)).state
    )


def anneal(steps: int, chains: int):
    """Annealing through `steps` temperatures; each is to cost little more than a sweep of as many chains."""
    network = eq.rbm(VISIBLE, HIDDEN, key=0)
    biases = {layer.name: layer.bias for layer in network.layers}
    start = {"visible": jnp.asarray(DATA[:chains]), "hidden": jnp.zeros((chains, HIDDEN))}
    betas = jnp.asarray(ais.schedule(steps))
    one = jnp.asarray(1.0)
    return lambda: jax.block_until_ready(ais.anneal(network, biases, one, betas, start, eq.key(0)))


def main() -> None:
    """Print every comparison; peers that are not installed are left out, and that is said."""
    for sweeps, updates in ((1, 40), (10, 10), (100, 2)):
        rivals = {"equilibria": ours(sweeps, updates)}
        rivals["products by NumPy"] = repeated(bare(np.matmul, sweeps, DATA, WEIGHTS), updates)
        for name, make in (("products by PyTorch", torch_products), ("scikit-learn", scikit_learn), ("rbms", rbms)):
            try:
                rivals[name] = repeated(make(sweeps), updates)
            except ImportError as error:
                print(f"{name}: not installed ({error}); left out")
        rivals["three passes"] = ours(sweeps, updates, 3)
        seconds = race(rivals, 7)
        whole = {name: values for name, values in seconds.items() if name != "three passes"}
        print(f"\n{updates} updates, {sweeps} sweeps\n" + table(whole, "equilibria"))
        print(apart(seconds, updates), flush=True)
    many = 200  # so that what one call costs besides is shared by many sweeps
    rivals = {"two products": products(many), "fast": sweep(many, fast=True), "JAX default": sweep(many, fast=False)}
    print(f"\n{many} sweeps of 500 chains\n" + table(race(rivals, 7), "two products"))
    network_sweep = eq.rbm(VISIBLE, HIDDEN, key=0)
    start = {"visible": DATA[:100], "hidden": np.zeros((100, HIDDEN), np.float32)}
    times = race(
        {
            "200 sweeps": lambda: jax.block_until_ready(
                eq.equilibrate(network_sweep, eq.Sweeps(200), start, key=eq.key(0)).state
            ),
            "200 temperatures": anneal(200, 100),
        },
        7,
    )
    print("\nannealing, 100 chains\n" + table(times, "200 sweeps"))
