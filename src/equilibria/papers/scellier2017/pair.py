"""Two neurons of Appendix B, a hidden one and an output, few enough for quadrature; and the law of Langevin dynamics there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from equilibria.energies.stochastic import Stochastic

PARAMETERS = {"weight": 1.5, "biases": jnp.array([0.4, -0.3])}
START = {"hidden": 0.0, "output": 0.0}
INFLUENCE, TARGET = 0.2, 1.0


NOISES = (1.0, 2**0.5, 2.0)  # σ of (66)


def energy(parameters, influence, state, world):
    """The energy (34) of a hidden and an output neuron with ρ = tanh, the output nudged to the world."""
    rates = jnp.tanh(jnp.stack([state["hidden"], state["output"]]))
    internal = (state["hidden"] ** 2 + state["output"] ** 2) / 2 - parameters["weight"] * rates[0] * rates[1]
    return internal - parameters["biases"] @ rates + influence * (state["output"] - world) ** 2 / 2


def apart_from_boltzmann(draws: int, seed: int) -> dict[str, np.ndarray]:
    """How far the law of Langevin dynamics (66) is from that of Boltzmann, e^(-F) (67), and from e^(-2F/σ²), by σ.

    The output's law, from chains of small steps that nothing adjusts, against quadrature over both neurons.

    Args:
        draws: how many chains.
        seed: of their noise.

    Returns:
        The largest differences of the distribution functions (Kolmogorov and Smirnov), by σ.
    """
    grid = np.linspace(-9, 9, 721)
    hidden, output = np.meshgrid(grid, grid, indexing="ij")
    with jax.enable_x64(True):
        state = {"hidden": jnp.asarray(hidden), "output": jnp.asarray(output)}
        surface = np.asarray(_energies(state))
    rows = []
    for index, sigma in enumerate(NOISES):
        how = Stochastic(energy, temperature=sigma**2 / 2, step=0.02, steps=1500, burn=0, chains=draws, adjusted=False)
        drawn = how.sample(PARAMETERS, INFLUENCE, START, TARGET, key=jax.random.key(seed + index))
        values = np.sort(np.asarray(drawn["output"], float))
        rows.append([_apart(values, grid, surface, factor) for factor in (1.0, 2 / sigma**2)])
    return {"papers": np.array(rows)[:, 0], "scaled": np.array(rows)[:, 1]}


def _energies(state):
    """The energy at every point of a grid."""
    flat = {name: leaf.ravel() for name, leaf in state.items()}
    return jax.vmap(lambda one: energy(PARAMETERS, INFLUENCE, one, TARGET))(flat).reshape(state["output"].shape)


def _apart(values: np.ndarray, grid: np.ndarray, surface: np.ndarray, factor: float) -> float:
    """The distance of draws of the output from e^(-factor F) with the hidden neuron integrated out."""
    density = np.exp(-factor * (surface - surface.min())).sum(0)
    steps = (density[1:] + density[:-1]) / 2
    exact = np.interp(values, grid, np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum())
    ranks = np.arange(len(values) + 1) / len(values)
    return float(max(np.abs(exact - ranks[:-1]).max(), np.abs(exact - ranks[1:]).max()))
