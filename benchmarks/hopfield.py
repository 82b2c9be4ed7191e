"""Hopfield networks: retrieval against `hopfieldnetwork` and plain NumPy, and the phase diagram against scipy.optimize.

Peers work on one cue at a time, so they get `FEW` cues and their time is given for the same number of cues as ours.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, optimize

import equilibria as eq
from benchmarks._timing import race, table

CASES = {"N = 784, K = 50": (784, 50, 50), "N = 10,000, K = 500": (10_000, 500, 5)}  # neurons, patterns, sweeps
CUES = 1000
FEW = {784: 4, 10_000: 1}


def main() -> None:
    """Print the tables of each case."""
    for name, (size, count, sweeps) in CASES.items():
        patterns = np.asarray(eq.data.random_patterns(count, size, key=eq.key(0)))
        start = np.asarray(eq.data.corrupt(patterns[np.arange(CUES) % count], flips=0.1, key=eq.key(1)))
        print(f"\n{name}, {CUES} cues, {sweeps} parallel sweeps")
        print(table(race(_parallel(patterns, start, sweeps), rounds=5), "equilibria"))
        print(f"\n{name}, {CUES} cues, 1 sequential sweep")
        print(table(_scaled(race(_sequential(patterns, start), rounds=3), FEW[size]), "equilibria"))
    print("\nPhase diagram, retrieval overlap on 100 x 100 loads and temperatures")
    _diagram()


def _parallel(patterns: np.ndarray, start: np.ndarray, sweeps: int) -> dict[str, Callable[[], object]]:
    network, states, factors = eq.hopfield(patterns), jnp.asarray(start), jnp.asarray(patterns)
    how, size = eq.Sweeps(sweeps, order="parallel"), patterns.shape[1]

    @jax.jit
    def products(states, factors):
        """The two factored products of each sweep, and nothing else."""
        return jax.lax.fori_loop(0, sweeps, lambda _, states: (states @ factors.T) @ factors / size, states)

    def numpy():
        states, own = start, len(patterns) / size
        for _ in range(sweeps):
            states = np.where(
                (states @ patterns.T) @ patterns / size - own * states >= 0, np.float32(1), np.float32(-1)
            )
        return states

    def ours():
        return jax.block_until_ready(eq.equilibrate(network, how, states, temperature=0.0)["neurons"])

    # A field that is zero but for rounding may go either way.
    assert np.mean(np.asarray(ours()) != numpy()) < 1e-5
    return {
        "equilibria": ours,
        "two matrix products": lambda: jax.block_until_ready(products(states, factors)),
        "NumPy": numpy,
    }


def _sequential(patterns: np.ndarray, start: np.ndarray) -> dict[str, Callable[[], object]]:
    network, states, size = eq.hopfield(patterns), jnp.asarray(start), patterns.shape[1]
    few = start[: FEW[size]]
    weights = patterns.T @ patterns / size
    np.fill_diagonal(weights, 0)

    def ours():
        return jax.block_until_ready(eq.equilibrate(network, eq.Sweeps(1), states, temperature=0.0, key=0)["neurons"])

    def numpy():
        for cue in few:
            state = cue.copy()
            for site in np.random.default_rng(0).permutation(size):
                state[site] = 1.0 if weights[site] @ state >= 0 else -1.0

    rivals = {"equilibria": ours, "NumPy": numpy}
    try:
        from hopfieldnetwork import HopfieldNetwork
    except ImportError:
        print("(hopfieldnetwork is not installed: pip install hopfieldnetwork)")
        return rivals
    peer = HopfieldNetwork(size)
    peer.w = weights.astype(np.float64)  # what train_pattern would give, made at once

    def theirs():
        for cue in few:
            peer.set_initial_neurons_state(cue.astype("int8"))
            peer.update_neurons(1, "async")

    return rivals | {"hopfieldnetwork": theirs}


def _scaled(seconds: dict[str, np.ndarray], few: int) -> dict[str, np.ndarray]:
    return {name: values * (1 if name == "equilibria" else CUES / few) for name, values in seconds.items()}


# Gauss-Legendre nodes for the quick loop: too few for the steep neurons of low temperatures.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_Z = 8 * _NODES
_DENSITY = 8 * _WEIGHTS * np.exp(-_Z * _Z / 2) / np.sqrt(2 * np.pi)


def _by_nodes(function: Callable, centre: float) -> float:
    return _DENSITY @ function(_Z)


def _by_quad(function: Callable, centre: float) -> float:
    def density(z):
        return np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * function(z)

    return integrate.quad(density, -8, 8, points=[np.clip(centre, -8, 8)], limit=200)[0]


def _by_scipy(load: float, temperature: float, average: Callable) -> float:
    """The overlap of Amit, Gutfreund and Sompolinsky's equations at one point, NaN without retrieval."""

    def equations(unknown):
        m, q = unknown
        noise = np.sqrt(load * abs(q)) / abs(1 - (1 - q) / temperature)
        steep = -m / max(noise, 1e-9)

        def response(z):
            return np.tanh((m + noise * z) / temperature)

        return m - average(response, steep), q - average(lambda z: response(z) ** 2, steep)

    found = optimize.root(equations, (1.0, 1.0))
    return found.x[0] if found.success and found.x[0] > 0.1 else np.nan


def _diagram() -> None:
    loads, temperatures = np.linspace(0.001, 0.2, 100), np.linspace(0.01, 1.2, 100)
    grid = np.array([(load, temperature) for temperature in temperatures for load in loads])
    rounds, some = 3, np.random.default_rng(0).permutation(len(grid))[:60]
    loops = {"scipy root and quad": _by_quad, "scipy root, 200 nodes": _by_nodes}

    def ours():
        return eq.theory.hopfield(loads, temperatures[:, None]).m

    def loop(average):
        return np.array([_by_scipy(*grid[point], average) for point in some])

    rivals = {"equilibria": ours} | {name: lambda average=average: loop(average) for name, average in loops.items()}
    seconds = race(rivals, rounds)
    scale = len(grid) / len(some)
    print(
        table({name: times * (1 if name == "equilibria" else scale) for name, times in seconds.items()}, "equilibria")
    )
    found = ours().ravel()[some]
    for name, average in loops.items():
        theirs = loop(average)
        both = ~np.isnan(theirs) & ~np.isnan(found)
        apart = (np.isnan(theirs) != np.isnan(found)).sum()
        print(f"{name}: differs by at most {np.abs(theirs - found)[both].max():.0e}, on retrieval at {apart} points")


if __name__ == "__main__":
    main()
