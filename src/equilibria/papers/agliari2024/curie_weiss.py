"""The Curie-Weiss magnet: the law of its magnetisation below, at and above T_c, and its mean against temperature."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.special import gammaln

import equilibria as eq
from equilibria import plots
from equilibria.papers.claims import Claim, at_least, at_most, close


@dataclass(frozen=True)
class Config:
    """Spins of several `sizes`, `chains` independent magnets at each temperature."""

    sizes: tuple[int, ...] = (100, 400)
    temperatures: tuple[float, ...] = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4)
    shown: tuple[float, ...] = (0.8, 1.0, 1.2)  # where the whole law is looked at, in the smallest magnet
    chains: int = 40
    settling: int = 200
    sweeps: int = 800
    every: int = 20
    seed: int = 0


def exact_law(size: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Every magnetisation of a finite magnet, and its probability: C(N, up) exp(N m^2 / 2T) over its sum."""
    up = np.arange(size + 1)
    m = 2 * up / size - 1
    logs = gammaln(size + 1) - gammaln(up + 1) - gammaln(size - up + 1) + size * m**2 / (2 * temperature)
    law = np.exp(logs - logs.max())
    return m, law / law.sum()


def exact_moments(size: int, temperature: float) -> tuple[float, float, float]:
    """<|m|>, <m^2>, <m^4> of a finite magnet."""
    m, law = exact_law(size, temperature)
    return law @ np.abs(m), law @ m**2, law @ m**4


def run(config: Config, progress) -> xr.Dataset:
    """All temperatures run together, each chain with its own; every spin couples to every other by 1/N."""
    temperatures = np.array(config.temperatures)
    shape = (len(config.sizes), len(temperatures), config.chains)
    moments = np.zeros((*shape, 3))
    exact = np.array([[exact_moments(size, temperature) for temperature in temperatures] for size in config.sizes])
    laws = np.zeros((len(config.shown), config.chains, config.sizes[0] + 1))
    for index, size in enumerate(progress(config.sizes, "Curie-Weiss", "size")):
        magnet = eq.hopfield(np.ones((1, size)))
        heat = np.repeat(temperatures, config.chains)
        start = np.where(np.arange(len(heat)) % 2, 1.0, -1.0)[:, None] * np.ones(size)  # either way is as likely
        settled = eq.equilibrate(magnet, eq.Sweeps(config.settling), start, temperature=heat, key=config.seed)
        _, m = eq.trajectory(
            magnet, eq.Sweeps(config.sweeps), settled, temperature=heat, every=config.every, key=config.seed + 1,
            observe=lambda state: jnp.mean(state["neurons"], axis=-1),
        )  # fmt: skip
        m = np.asarray(m, float)[1:].reshape(-1, *shape[1:])
        moments[index] = np.stack([np.abs(m).mean(0), (m**2).mean(0), (m**4).mean(0)], axis=-1)
        if index == 0:
            up = np.rint((m + 1) * size / 2).astype(int)[:, [config.temperatures.index(T) for T in config.shown]]
            for place in np.ndindex(laws.shape[:2]):
                laws[place] = np.bincount(up[(slice(None), *place)], minlength=size + 1) / len(up)
    spread = moments.std(axis=2, ddof=1) / np.sqrt(config.chains)
    axes = ("size", "temperature", "moment")
    return xr.Dataset(
        {
            "measured": (axes, moments.mean(2)),
            "error": (axes, spread),
            "exact": (axes, exact),
            "theory": ("temperature", eq.theory.curie_weiss(temperatures).m),
            "law": (("shown", "chain", "up"), laws),
            "exact_law": (("shown", "up"), [exact_law(config.sizes[0], T)[1] for T in config.shown]),
        },
        {
            "shown": list(config.shown),
            "size": list(config.sizes),
            "temperature": temperatures,
            "moment": ["|m|", "m^2", "m^4"],
        },
    )


def derivatives(size: int, temperature: float, step: float = 0.05) -> np.ndarray:
    """The first four derivatives of ln Z in a field on every spin, over its temperature, at no field.

    They are taken of the free energy F = -T ln Z of the finite magnet itself, by central differences of a polynomial
    through nine fields, whatever the law of m.
    """
    fields = step * np.arange(-4, 5) / np.sqrt(size)
    up = np.arange(size + 1)
    spins = 2 * up - size
    logs = gammaln(size + 1) - gammaln(up + 1) - gammaln(size - up + 1) + spins**2 / (2 * size * temperature)
    free = [np.logaddexp.reduce(logs + field * spins) for field in fields]
    fit = np.polynomial.Polynomial.fit(fields, free, 8)
    return np.array([float(fit.deriv(order)(0.0)) for order in (1, 2, 3, 4)])


def cumulants(law: np.ndarray) -> np.ndarray:
    """The first four cumulants of the sum of all spins, given the law of how many are up."""
    spins = 2 * np.arange(len(law)) - (len(law) - 1)
    first = law @ spins
    second, third, fourth = (law @ (spins - first) ** power for power in (2, 3, 4))
    return np.array([first, second, third, fourth - 3 * second**2])


def jackknifed(laws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cumulants of the mean of `laws`, and their standard errors by leaving out one law after another."""
    count = len(laws)
    without = np.array([cumulants((laws.sum(0) - one) / (count - 1)) for one in laws])
    return cumulants(laws.mean(0)), np.sqrt((count - 1) * without.var(0))


def extrapolated(dataset: xr.Dataset, temperature: float) -> tuple[float, float]:
    """<|m|> of infinitely many spins from the two largest magnets, whose corrections are of order 1/N, and its error."""
    here = dataset.sel(temperature=temperature, moment="|m|").isel(size=slice(-2, None))
    sizes = here["size"].values.astype(float)
    weight = np.array([-sizes[0], sizes[1]]) / (sizes[1] - sizes[0])
    return float(weight @ here["measured"].values), float(np.hypot(*(weight * here["error"].values)))


def binder_crossing(dataset: xr.Dataset, source: str) -> float:
    """The temperature at which U = 1 - <m^4> / (3 <m^2>^2) of the smallest and the largest size cross."""
    square, fourth = dataset[source].sel(moment="m^2"), dataset[source].sel(moment="m^4")
    cumulant = 1 - fourth / (3 * square**2)
    gap = (cumulant.isel(size=-1) - cumulant.isel(size=0)).values
    temperature = dataset["temperature"].values
    # Far from the crossing both cumulants are alike and the gap is noise: its deepest point, just above, leads to it.
    deepest = int(np.argmin(gap))
    before = np.flatnonzero(gap[:deepest] > 0)
    if not len(before):
        return float("nan")
    around = slice(before[-1], before[-1] + 2)
    return float(np.interp(0, -gap[around], temperature[around]))


def plot(dataset: xr.Dataset):
    """Left: theory as a line, sampling as points, the exact sum at finite size as dashes. Right: the law of the
    magnetisation in
    the smallest magnet, exact (lines) and sampled (points), below, at and above the critical temperature."""
    figure, (axes, right) = plots.panels(2)
    size = dataset.sizes["up"] - 1
    m = 2 * dataset["up"].values / size - 1
    for colour, temperature in zip(plots.PALETTE, dataset["shown"].values, strict=False):
        here = dataset.sel(shown=temperature)
        width = 2 / size
        plots.theory_line(right, m, here["exact_law"] / width, colour=colour, label=f"$T = {temperature:g}$")
        few, law = slice(None, None, max(1, size // 50)), here["law"]
        error = law.std("chain") / np.sqrt(law.sizes["chain"])
        plots.simulation_points(right, m[few], law.mean("chain")[few] / width, error[few] / width, colour=colour)
    right.set(xlabel="magnetisation $m$", ylabel="density $P(m)$", title=f"N = {size}: lines exact, points sampled")
    right.set_ylim(0, 1.25 * right.get_ylim()[1])  # the legend stands above the peaks
    right.legend(ncols=3)
    fine = np.linspace(0.01, 1.5, 300)
    plots.theory_line(axes, fine, eq.theory.curie_weiss(fine).m, colour="black", label="theory, N → ∞")
    for colour, size in zip(plots.PALETTE, dataset["size"].values, strict=False):
        at_size = dataset.sel(size=size, moment="|m|")
        exact = [exact_moments(int(size), temperature)[0] for temperature in fine[20:]]
        axes.plot(fine[20:], exact, "--", color=colour, linewidth=0.8, label=f"exact, N = {size}")
        plots.simulation_points(
            axes,
            dataset["temperature"],
            at_size["measured"],
            at_size["error"],
            colour=colour,
            label=f"sampled, N = {size}",
        )
    axes.axvline(1.0, color="grey", linewidth=0.6)
    axes.set(xlabel="temperature $T$", ylabel=r"magnetisation $\langle|m|\rangle$", xlim=(0, 1.5), ylim=(0, 1.02))
    axes.legend()
    return figure


def claims(dataset: xr.Dataset) -> list[Claim]:
    """The magnet orders at T = 1, as theory says, and sampling agrees with the exact sums."""
    error = dataset["error"].clip(min=1e-6)
    worst = float((np.abs(dataset["measured"] - dataset["exact"]) / error).max())
    count = dataset["exact"].size
    law, expected = dataset["law"].mean("chain"), dataset["exact_law"]
    scatter = dataset["law"].std("chain") / np.sqrt(dataset.sizes["chain"])
    often = expected > 0.005
    middle, quarter = expected.sizes["up"] // 2, np.abs(2 * dataset["up"] / (dataset.sizes["up"] - 1) - 1)
    dip = law.isel(up=middle) / law.max("up")
    found = [
        at_most(
            "Below T_c the law of m has two peaks: its value at m = 0 over that at its peaks",
            source="slide 'Curie-Weiss model', T < T_c", expected=0.5, measured=dip.isel(shown=0).values,
            reason="the slide's sketch: two peaks apart",
        ),
        at_least(
            "Above T_c it has one, at m = 0: value there over the largest", source="slide 'Curie-Weiss model', T > T_c",
            expected=0.9, measured=dip.isel(shown=-1).values, reason="noise of a histogram",
        ),
        at_least(
            "Near T_c it is broad: share of |m| above one quarter", source="slide 'Curie-Weiss model', T ∼ T_c", expected=0.25,
            measured=law.isel(shown=1).where(quarter > 0.25).sum("up").values, reason="the slide's sketch: flat in the middle",
        ),
        at_most(
            "The sampled law is the exact one: largest difference in standard errors, where P(m) > 0.005", source="exact sum",
            expected=5.0, ours=True, every=True, over="temperature",
            measured=(np.abs(law - expected) / scatter.clip(min=1e-5)).where(often).max("up").values,
            reason="largest of some hundred deviations, errors from few chains",
        ),
        at_most(
            "Sampling agrees with the exact finite-size sums: largest deviation in standard errors",
            source="slide 'The statistical mechanics setting'", expected=5, measured=worst, ours=True,
            reason=f"largest of {count} deviations, each over an error that is itself estimated",
        ),
        close(
            "The magnet orders at T_c = 1: where the Binder cumulants of two sizes cross",
            source="slide 'Curie-Weiss model'", expected=1.0, measured=binder_crossing(dataset, "measured"), tolerance=0.03,
            reason="noise of the cumulants over their slope", ours=True,
        ),
    ]  # fmt: skip
    warm, size = float(dataset["shown"][-1]), dataset.sizes["up"] - 1
    value, scatter = jackknifed(dataset["law"].isel(shown=-1).values)
    found.append(
        at_most(
            f"n-th derivatives of F in the field are the moments (connected ones) of m, n = 1 to 4: largest difference in "
            f"standard errors, T = {warm:g}",
            source="slide 'The statistical mechanics setting'", expected=4.0, every=True, over="order",
            measured=np.abs(value - derivatives(size, warm)) / scatter,
            reason="the largest of four, errors from few chains",
            quote="n-th moment of macroscopic observables related to free-energy n-th order derivatives w.r.t. conjugate "
            "parameters",
        )
    )  # fmt: skip
    for temperature in (0.5, 0.8):
        limit, width = extrapolated(dataset, temperature)
        found.append(
            close(
                f"m solves m = tanh(m/T): at T = {temperature}, sizes extrapolated", source="slide 'Curie-Weiss model'",
                expected=float(dataset["theory"].sel(temperature=temperature)), measured=limit, tolerance=4 * width, ours=True,
                reason="four standard errors; what is left is of order 1/N², smaller than these",
            )
        )  # fmt: skip
    return found


PRESETS = {"quick": Config(), "paper": Config(sizes=(100, 400, 1600), chains=30, sweeps=1500)}
DIFFERS = {name: ("the lecture shows sketches of the laws; ours are computed",) for name in PRESETS}
