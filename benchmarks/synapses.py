"""Binary synapses: one learning step against the paper's equations written directly in NumPy, and the cost of averages."""

from __future__ import annotations

import resource

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._timing import race, table
from equilibria.data import planted_data, planted_receptive_fields
from equilibria.synapses.bound import ascent, expected_energy
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.e_step import Fields, drawn, e_step, quadrature
from equilibria.synapses.learn import E_STEPS


def paper_cavity(mean: np.ndarray, z: np.ndarray, beta: float = 1.0, iterations: int = 10):
    """ln Z (11), hidden means and correlations (15) of the equivalent machine for fields z (S, P), from (10)."""
    size = len(mean)
    width = np.sqrt((1 - mean**2).sum(axis=0) / size)
    bias = width * z  # H_mu, (S, P)
    coupling = mean / np.sqrt(size)
    cavity_mean = np.zeros((len(z), *mean.shape))
    for _ in range(iterations):
        weighted = coupling * cavity_mean
        chi = weighted.sum(axis=1, keepdims=True) - weighted
        u = np.arctanh(np.tanh(beta * (chi + bias[:, None])) * np.tanh(beta * coupling))
        cavity_mean = np.tanh(u.sum(axis=2, keepdims=True) - u)
    weighted, spread = coupling * cavity_mean, coupling**2 * (1 - cavity_mean**2)
    chi, around = weighted.sum(axis=1), spread.sum(axis=1)
    own = (
        beta**2 * (around[:, None] - spread) / 2
        + np.log(np.cosh(beta * (chi[:, None] - weighted + bias[:, None] + coupling)))
    ).sum(axis=2) + np.log(1 + np.exp(-2 * u.sum(axis=2)))
    factor = beta**2 * around / 2 + np.log(np.cosh(beta * (chi + bias)))
    log_partition = own.sum(axis=1) - (size - 1) * factor.sum(axis=1)
    visible = np.tanh(u.sum(axis=2))
    centre = visible @ coupling + bias
    spread = np.sqrt((1 - visible**2) @ coupling**2)
    points, weights = np.polynomial.hermite_e.hermegauss(20)
    response = np.tanh(beta * (centre[..., None] + spread[..., None] * points))
    hidden = response @ weights / weights.sum()
    slack = 1 - response**2 @ weights / weights.sum()
    correlation = visible[:, :, None] * hidden[:, None] + beta * coupling * (1 - visible**2)[..., None] * slack[:, None]
    return log_partition, hidden, correlation


def paper_gradient(mean: np.ndarray, data: np.ndarray, z: np.ndarray, beta: float = 1.0, iterations: int = 10):
    """The gradient (16) with as many Gaussian fields for the data as for ln Z."""
    examples, size = data.shape
    width = np.sqrt((1 - mean**2).sum(axis=0) / size)
    field = (data @ mean / np.sqrt(size))[None] + width * z[:, None]  # (S, M, P)
    response = np.tanh(beta * field)
    gradient = beta / np.sqrt(size) * data.T @ response.mean(axis=0)
    gradient -= beta**2 * mean / size * (1 - response**2).mean(axis=0).sum(axis=0)
    _, hidden, correlation = paper_cavity(mean, z, beta, iterations)
    correction = mean / np.sqrt(size) * (z / width * hidden).mean(axis=0)
    gradient -= examples * beta / np.sqrt(size) * (correlation.mean(axis=0) - correction)
    return gradient - np.arctanh(mean)


@eqx.filter_jit
def _gradient(how, synapses, data, fields, key):
    start = {
        "visible": jnp.zeros((len(fields.weights), synapses.natural.shape[0])),
        "hidden": jnp.zeros((len(fields.weights), synapses.natural.shape[1])),
    }
    moments = e_step(how, synapses, fields, start, key)
    expected = expected_energy(synapses, data, jnp.ones(len(data)), 13)
    return ascent(synapses, expected, moments, jnp.asarray(float(len(data))), 0.0).mean


def _setting(size: int, hidden_size: int, examples: int):
    fields = planted_receptive_fields(hidden_size, size, key=jax.random.key(0))
    data = np.asarray(planted_data(fields, examples, key=1))
    return data, Synapses(0.5 * np.random.default_rng(0).standard_normal((size, hidden_size)))


def steps() -> None:
    """One learning step at N = 100, P = 3, M = 500 with 1,000 Gaussian fields."""
    data, synapses = _setting(100, 3, 500)
    mean, wide = np.asarray(synapses.mean, np.float64), data.astype(np.float64)
    z = np.random.default_rng(1).standard_normal((1000, 3))
    draws = drawn(3, 1000, jax.random.key(2))
    grid = quadrature(3, 7)
    device, key = jnp.asarray(data), jax.random.key(0)

    def ours(name, fields):
        return lambda: _gradient(E_STEPS[name](), synapses, device, fields, key).block_until_ready()

    rivals = {
        "exact, 1000 draws": ours("exact", draws),
        "exact, grid of 343": ours("exact", grid),
        "cavity, 1000 draws": ours("cavity", draws),
        "cavity, grid of 343": ours("cavity", grid),
        "response, grid of 343": ours("response", grid),
        "NumPy, cavity, 1000 draws": lambda: paper_gradient(mean, wide, z),
    }
    print("N = 100, P = 3, M = 500: one step")
    print(table(race(rivals), ours="exact, 1000 draws"))


def averages() -> None:
    """The error of one gradient and the time it takes, by the way the Gaussian fields are averaged over."""
    data, synapses = _setting(100, 3, 500)
    device, key = jnp.asarray(data), jax.random.key(0)
    exact = E_STEPS["exact"]()
    truth = _gradient(exact, synapses, device, quadrature(3, 17), key)
    ways = {
        "draws, 1000": lambda k: drawn(3, 1000, k),
        "opposite pairs, 1000": lambda k: _pairs(1000, k),
        "draws, 32": lambda k: drawn(3, 32, k),
        "grid, 5^3": lambda k: quadrature(3, 5),
        "grid, 7^3": lambda k: quadrature(3, 7),
    }
    print("Gaussian averages, exact E-step: error of the gradient (rms), time, and error^2 x time")
    for name, fields in ways.items():
        found = [_gradient(exact, synapses, device, fields(jax.random.key(seed)), key) for seed in range(20)]
        error = float(np.sqrt(np.mean(np.square(np.stack(found) - np.asarray(truth)))))
        chosen = fields(key)
        seconds = np.median(
            race({name: lambda f=chosen: _gradient(exact, synapses, device, f, key).block_until_ready()})[name]
        )
        print(f"{name:24} {error:10.2e} {1e3 * seconds:8.2f} ms {error**2 * seconds:10.2e}")


def _pairs(count: int, key) -> Fields:
    half = jax.random.normal(key, (count // 2, 3))
    return Fields(jnp.concatenate([half, -half]), jnp.full(count, 1 / count))


def wide() -> None:
    """N = 784, P = 100, M = 2000: time of a step and memory of the process."""
    rng = np.random.default_rng(0)
    data = jnp.asarray(rng.choice([-1.0, 1.0], (2000, 784)), float)
    synapses = Synapses(0.3 * rng.standard_normal((784, 100)))
    fields, key = drawn(100, 32, jax.random.key(0)), jax.random.key(0)
    rivals = {
        name: lambda name=name: _gradient(E_STEPS[name](), synapses, data, fields, key).block_until_ready()
        for name in ("cavity", "response")
    }
    seconds = race(rivals, rounds=3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    for name, values in seconds.items():
        print(f"N = 784, P = 100, M = 2000, 32 fields, {name:9} {np.median(values):6.3f} s a step")
    print(f"peak memory of the process {memory:.2f} GB")


def main() -> None:
    """Print the tables."""
    steps()
    averages()
    wide()


if __name__ == "__main__":
    main()
