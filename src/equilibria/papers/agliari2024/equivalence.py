"""A Hopfield network and a Boltzmann machine with Gaussian hidden neurons are the same: equal sums, equal samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

import equilibria as eq
from equilibria import plots
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.exact import log_partition_function
from equilibria.papers.claims import Claim, at_most

SOURCE = "slide 'Hopfield network / Restricted Boltzmann machines equivalence'"
KINDS = ("Hopfield network", "Boltzmann machine")
HIDDEN = 3  # hidden neurons of the small machine, over which it is integrated


@dataclass(frozen=True)
class Config:
    """Exact sums over `small` neurons; sampling of `size` neurons that store `count` patterns."""

    small: int = 12
    size: int = 500
    count: int = 10
    temperatures: tuple[float, ...] = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8)
    sweeps: int = 60
    networks: int = 1
    seed: int = 0


def run(config: Config, progress) -> xr.Dataset:
    """The free energies of both by enumeration, and the overlap with each pattern from sampling both, at each temperature."""
    temperatures = np.array(config.temperatures)
    rows = [_sampled(config, network) for network in progress(range(config.networks), "sampling both", "network")]
    samples, fine = np.stack(rows), np.linspace(0.05, 1.0, 150)  # (network, kind, temperature, pattern)
    axes = ("network", "kind", "temperature")
    return xr.Dataset(
        {
            "overlap": (axes, samples.mean(-1)),
            "error": (axes, samples.std(-1, ddof=1) / np.sqrt(config.count)),
            "curve": ("fine", eq.theory.hopfield(config.count / config.size, fine).m),
            "theory": ("temperature", eq.theory.hopfield(config.count / config.size, temperatures).m),
            "divergence": (("network", "step"), [descended(config.seed + each) for each in range(config.networks)]),
            "log_z": (axes, [_log_partitions(config, network, temperatures) for network in range(config.networks)]),
        },
        {"kind": list(KINDS), "temperature": temperatures, "fine": fine},
        {"size": config.size, "small": config.small, "count": config.count},
    )


def _sampled(config: Config, number: int) -> np.ndarray:
    """The overlaps of both kinds of one network with each pattern, (kind, temperature, pattern)."""
    temperatures = np.array(config.temperatures)
    patterns = eq.data.random_patterns(config.count, config.size, key=eq.key(1000 * config.seed + number))
    heat = np.repeat(temperatures, config.count)
    targets = jnp.tile(patterns, (len(temperatures), 1))
    found = []
    for network in (eq.hopfield(patterns), eq.hubbard_stratonovich(eq.hopfield(patterns))):
        _, overlaps = eq.trajectory(
            network, eq.Sweeps(config.sweeps), targets, temperature=heat, key=config.seed + number + 1,
            observe=eqx.Partial(_own, targets),
        )  # fmt: skip
        late = np.asarray(overlaps, float)[1 + config.sweeps // 3 :].mean(0)
        found.append(late.reshape(len(temperatures), config.count))
    return np.array(found)


def _own(targets, state):
    return jnp.mean(state["neurons"] * targets, axis=-1)


def _log_partitions(config: Config, number: int, temperatures: np.ndarray) -> np.ndarray:
    """The ln Z of a small network, self-couplings included, by enumeration; and of its machine, by quadrature over z.

    The second sums over the neurons at given z, where they are independent, and integrates over z numerically: the Gaussian
    integral that makes the two equal is nowhere used. It is the lecture's integral as printed, without a normalisation.
    """
    patterns = np.asarray(eq.data.random_patterns(HIDDEN, config.small, key=eq.key(1000 * config.seed + 500 + number)))
    network = eq.hopfield(patterns)
    own = [float(log_partition_function(conditioned(network, (), temperature))) for temperature in temperatures]
    whole = [_integrated(np.asarray(patterns, float), 1 / temperature) for temperature in temperatures]
    return np.array([own + HIDDEN / (2 * temperatures), whole])  # the trace of J is K


def _integrated(patterns: np.ndarray, beta: float) -> float:
    """ln of the integral over z of exp(-β z²/2) Π_i 2 cosh(β ξ_i z / √N), by the trapezoid rule, which converges fast here."""
    hidden, size = patterns.shape
    reach = np.sqrt(size) + 8 / np.sqrt(beta)  # the integrand's peaks are within √N of the middle
    nodes = np.linspace(-reach, reach, round(2 * reach * np.sqrt(beta) * 4) | 1)
    others = np.stack(np.meshgrid(*[nodes] * (hidden - 1), indexing="ij"), axis=-1).reshape(-1, hidden - 1)
    rows = []
    for first in nodes:  # a plane at a time
        field = beta / np.sqrt(size) * (first * patterns[0] + others @ patterns[1:])
        squares = beta * (first**2 + (others**2).sum(1)) / 2
        rows.append(np.logaddexp.reduce(np.logaddexp(field, -field).sum(1) - squares))
    return float(np.logaddexp.reduce(rows) + hidden * np.log(nodes[1] - nodes[0]))


def descended(seed: int, neurons: int = 8, hidden: int = 3, steps: int = 400, rate: float = 0.05) -> np.ndarray:
    """D_KL(Q || P_W) along gradient descent in W, summed over all states of the visible neurons.

    Q has as many patterns as there are hidden neurons, and their negatives: without biases P(-σ) = P(σ).

    Args:
        seed: of Q and of the weights at the start.
        neurons: visible ones.
        hidden: Gaussian ones, integrated out.
        steps: how many.
        rate: the ε of the slide.

    Returns:
        The divergence at the start and after each step.
    """
    random = np.random.default_rng(seed)
    states = np.array(list(product([-1.0, 1.0], repeat=neurons)))
    own = random.choice(
        len(states) // 2, hidden, replace=False
    )  # the negative of the n-th state is the n-th from the end
    own = np.concatenate([own, len(states) - 1 - own])
    with jax.enable_x64(True):
        seen = jnp.asarray(states)

        def divergence(weights):
            logs = jnp.sum((seen @ weights) ** 2, axis=1) / 2  # β = 1, z integrated out
            return jax.nn.logsumexp(logs) - logs[own].mean() - np.log(len(own))

        def step(weights, _):
            value, slope = jax.value_and_grad(divergence)(weights)
            return weights - rate * slope, value

        start = jnp.asarray(0.1 * random.normal(size=(neurons, hidden)))
        return np.asarray(jax.lax.scan(step, start, None, length=steps + 1)[1])


def plot(dataset: xr.Dataset):
    """Free energies; overlaps; and the divergence along gradient descent in the weights, a line for each network."""
    figure, (left, right, last) = plots.panels(columns=3, size=(4.0, 3.3))
    plots.theory_line(right, dataset["fine"], dataset["curve"], colour="black", label=r"theory, $N \to \infty$")
    scale = -dataset["temperature"] / dataset.attrs["small"]
    count = dataset.sizes["network"]
    spread = (
        dataset["overlap"].std("network", ddof=1) / np.sqrt(count) if count > 1 else dataset["error"].isel(network=0)
    )
    for colour, marker, kind in zip(plots.PALETTE, "os", KINDS, strict=False):
        here = dataset.sel(kind=kind).mean("network")
        constant = HIDDEN / 2 * np.log(2 * np.pi * dataset["temperature"]) * (kind == KINDS[1])
        left.plot(
            dataset["temperature"], scale * (here["log_z"] - constant), marker, color=colour, label=kind,
            markersize=8 if marker == "s" else 4, markerfacecolor="none" if marker == "s" else colour,
        )  # fmt: skip
        plots.simulation_points(
            right,
            dataset["temperature"],
            here["overlap"],
            spread.sel(kind=kind),
            colour=colour,
            marker=marker,
            label=kind,
        )
    left.set(
        xlabel="temperature $T$", ylabel="free energy per neuron", title=f"exact sums, N = {dataset.attrs['small']}"
    )
    right.set(
        xlabel="temperature $T$", ylabel="overlap $m$ with the stored pattern", ylim=(0, 1.03),
        title=f"sampling, N = {dataset.attrs['size']}, K = {dataset.attrs['count']}",
    )  # fmt: skip
    for network in reversed(range(count)):  # one that can be followed, the others pale behind it
        line = {"color": plots.PALETTE[0] if network == 0 else "0.8", "linewidth": 0.6}
        last.plot(dataset["step"], dataset["divergence"].isel(network=network), **line)
    last.set(xlabel="steps", ylabel=r"$D_{KL}(Q \| P)$", ylim=(0, None), title="gradient descent, $\\epsilon = 0.05$")
    left.legend()
    right.legend(loc="lower left")
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """Z is equal, and so is what is sampled."""
    logs = dataset["log_z"].transpose("network", ...)
    first, second = (logs.sel(kind=kind) for kind in KINDS)
    constant = HIDDEN / 2 * np.log(2 * np.pi * dataset["temperature"])
    hopfield, machine = (dataset.sel(kind=kind) for kind in KINDS)
    error = np.hypot(hopfield["error"], machine["error"]) + 1 / dataset.attrs["size"]
    cool = dataset.sel(temperature=slice(None, 0.6))
    away = np.abs(cool["overlap"] - cool["theory"]) / (cool["error"] + 1 / dataset.attrs["size"])
    return [
        at_most(
            "Z of the Hopfield network is Z of the machine, with z ∼ N(0, 1/β): largest relative difference of ln Z, "
            "enumeration against quadrature over z", source=SOURCE, expected=1e-5, every=True, over="network",
            measured=abs((second - constant) / first - 1).values, reason="single precision of the enumeration",
            quote="z ∼ N(0, Iβ^{-1})",
        ),
        at_most(
            "The same with the integral as printed, ∫ Π dz_μ exp(−β z_μ²/2)", source=SOURCE, expected=1e-5, every=True,
            over="network", measured=abs(second / first - 1).values, reason="as above",
            quote="Z^(HN) = Σ_σ ∫ Π_μ dz_μ e^{−β z_μ²/2} e^{β/√N Σ σ_i ξ_i^μ z_μ} = Z^(RBM)",
        ),
        at_most(
            "Gradient descent on D_KL(Q || P) lowers it at every step: largest rise, ε = 0.05",
            source="slide 'Task: classification'",
            expected=0.0, measured=dataset["divergence"].diff("step").values, every=True, over="network",
            quote="W^{n+1} = W^n − ε dD_KL(Q̃‖P)/dW",
        ),
        at_most(
            "and finds P ≈ Q: what is left of the divergence, over that at the start, three patterns "
            "of eight neurons and their negatives",
            source="slide 'Task: classification'", expected=0.1, every=True, over="network",
            measured=dataset["divergence"].isel(step=-1).values / dataset["divergence"].isel(step=0).values,
            reason="'≈' read as a tenth",
            quote="Look for a configuration Ŵ of the matrix W s.t. P_Ŵ(σ, z) ≈ Q̃(σ, z)",
        ),
        at_most(
            "Sampling one samples the other: largest difference of overlaps, in its errors", source=SOURCE,
            expected=4, measured=(np.abs(hopfield["overlap"] - machine["overlap"]) / error).values, every=True, over="network",
            reason="largest of several differences; the error over patterns, and 1/N",
            ours=True,
        ),
        at_most(
            "Both follow the theory of the Hopfield network up to T = 0.6: largest difference, in its errors", source=SOURCE,
            expected=5, measured=away.transpose("network", ...).values, every=True, over="network",
            reason="one set of patterns, whose errors are correlated; the error, and 1/N",
            ours=True,
        ),
    ]  # fmt: skip


PRESETS = {"quick": Config(), "paper": replace(Config(), small=16, size=2000, count=40, sweeps=400, networks=5)}
DIFFERS = {name: ("the lecture shows the identity; sizes and temperatures are ours",) for name in PRESETS}
