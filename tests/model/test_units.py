"""One contract for every unit."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

import equilibria as eq
from equilibria.model.units import Graded, GradedSpin

UNITS = [eq.Spin(), eq.Binary(), eq.Gaussian(), eq.Gaussian(0.3), eq.Clipped(), eq.Clipped(4.0)]
UNITS += [Graded(), Graded(0.4, 0.8), GradedSpin(2.0, -1.0)]
UNITS += [eq.ReLU(), eq.ReLU(3.0), eq.DoubleReLU(), eq.DoubleReLU(2.0, 0.5, 0.7), eq.DoubleReLU(1.0, 4.0, -1.5)]
FIELDS = np.array([-30.0, -3.0, -0.7, 0.0, 0.4, 1.3, 2.6, 30.0], np.float32)
names = ["-".join([type(unit).__name__, *map(str, jax.tree.leaves(unit))]) for unit in UNITS]
every_unit = pytest.mark.parametrize("unit", UNITS, ids=names)


@eqx.filter_jit
def answer(unit, question, *given):
    """What a unit answers, compiled once for all units of a kind: operation by operation each would be compiled apart."""
    return getattr(unit, question)(*given)


@eqx.filter_jit
def slopes(unit, fields):
    """The derivatives of the cumulant, of the mean, and of the entropy over that of the mean."""
    found = [jax.vmap(jax.grad(function))(fields) for function in (unit.cumulant, unit.mean, unit.entropy)]
    return found[0], found[1], found[2] / found[1]


def graded_energy(unit, s):
    """k [p ln p + (1 - p) ln(1 - p)] + q s^2 / 2 with p the fraction of the way from the lowest value to the highest."""
    low, high = unit.bounds
    p = (s - low) / (high - low)
    return float(unit.stiffness) * (xlogy(p, p) + xlogy(1 - p, 1 - p)) + float(unit.curvature or 0.0) * s**2 / 2


def own_energy(unit, s):
    """The self-energy by the formula of each kind."""
    if isinstance(unit, Graded):
        return graded_energy(unit, s)
    if isinstance(unit, eq.DoubleReLU):
        return float(unit.stiffness if s >= 0 else unit.below) * s**2 / 2 + float(unit.threshold) * abs(s)
    return float(unit.stiffness) * s**2 / 2


def moments_by_integration(unit, field):
    """ln of the integral of e^{x s - u(s)}, and the mean and variance, without the unit's own formulas."""
    # The exponent is measured from its largest value so that nothing overflows.
    if unit.levels:
        values = np.array(unit.levels)
        weights = np.exp(field * values - abs(field))
        mean = (weights * values).sum() / weights.sum()
        return np.log(weights.sum()) + abs(field), mean, (weights * values**2).sum() / weights.sum() - mean**2
    low, high = np.clip([-100, 100], *unit.bounds)
    sides = [(low, 0.0), (0.0, high)] if low < 0 < high else [(low, high)]  # a peak on each side of zero is possible
    found = min(
        (
            minimize_scalar(
                lambda s: own_energy(unit, s) - field * s, bounds=side, method="bounded", options={"xatol": 1e-9}
            )
            for side in sides
        ),
        key=lambda found: found.fun,
    )
    peak, top = found.x, -found.fun
    softest = float(np.min(unit.least_curvature)) if isinstance(unit, eq.DoubleReLU) else float(unit.stiffness)
    low, high = np.clip(np.array([-14, 14]) / np.sqrt(softest) + peak, *unit.bounds)

    def integral(power, centre):
        near = [point for point in (peak - 0.03, peak + 0.03, 0.0) if low < point < high]
        law = lambda s: (s - centre) ** power * np.exp(field * s - own_energy(unit, s) - top)  # noqa: E731
        return quad(law, low, high, points=near or None, epsabs=1e-14, epsrel=1e-10, limit=200)[0]

    total = integral(0, 0.0)
    mean = integral(1, 0.0) / total
    return np.log(total) + top, mean, integral(2, mean) / total


@every_unit
def test_moments_agree_with_integration(unit):
    for field in FIELDS.astype(float):
        cumulant, mean, variance = moments_by_integration(unit, field)
        np.testing.assert_allclose(answer(unit, "cumulant", field), cumulant, rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(answer(unit, "mean", field), mean, rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(answer(unit, "variance", field), variance, rtol=2e-5, atol=1e-6)


@every_unit
def test_mean_and_variance_are_derivatives_of_the_cumulant(unit):
    with jax.enable_x64(True):
        unit = jax.tree.map(lambda leaf: leaf.astype(float), unit)
        fields = FIELDS[1:-1].astype(float)
        mean, variance, _ = slopes(unit, fields)
        np.testing.assert_allclose(mean, answer(unit, "mean", fields), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variance, answer(unit, "variance", fields), rtol=1e-6, atol=1e-7)


@every_unit
def test_draws_have_the_moments(unit):
    draws = 20_000
    fields = jnp.repeat(FIELDS[:, None], draws, 1)
    samples = np.asarray(answer(unit, "sample", jax.random.key(0), fields), np.float64)
    mean, variance = (np.asarray(answer(unit, name, jnp.asarray(FIELDS))) for name in ("mean", "variance"))
    error = np.sqrt(variance / draws)
    assert (np.abs(samples.mean(1) - mean) <= 5 * error + 1e-6).all()
    fourth = ((samples - mean[:, None]) ** 4).mean(1)
    assert (np.abs(samples.var(1) - variance) <= 5 * np.sqrt(fourth / draws) + 1e-6).all()
    low, high = unit.bounds if unit.levels is None else (min(unit.levels), max(unit.levels))
    assert samples.min() >= low
    assert samples.max() <= high


@every_unit
def test_mode_is_the_low_temperature_limit(unit):
    temperature = 1e-4
    fields = FIELDS[FIELDS != 0]  # at zero field the mode of a two-state unit is a convention
    cold = answer(unit.heated(temperature), "mean", fields / temperature)
    mode = answer(unit, "mode", fields)
    np.testing.assert_allclose(cold, mode, atol=2e-2)  # widths are sqrt(temperature) or less
    warm = answer(unit.heated(0.3), "mode", fields / np.float32(0.3))
    np.testing.assert_allclose(warm, mode, rtol=1e-6, atol=1e-12)


@every_unit
def test_mode_minimises_the_energy(unit):
    candidates = np.array(unit.levels) if unit.levels else np.linspace(*np.clip(unit.bounds, -200, 200), 200_001)
    for field in FIELDS:
        energies = np.asarray(answer(unit, "self_energy", candidates)) - field * candidates
        mode = answer(unit, "mode", field)
        best = float(answer(unit, "self_energy", mode)) - field * float(mode)
        assert best <= energies.min() + 1e-5 * max(1.0, abs(energies.min()))


@every_unit
def test_entropy_is_the_legendre_transform(unit):
    """S(m) = min over x of c(x) - x m, with slope -x."""
    with jax.enable_x64(True):
        unit = jax.tree.map(lambda leaf: leaf.astype(float), unit)
        grid, fields = np.linspace(-8, 8, 4001), np.array([-1.1, 0.2, 0.9, 1.0, -0.3, 0.5])  # as many as above
        cumulant, mean = np.asarray(answer(unit, "cumulant", grid)), np.asarray(answer(unit, "mean", fields))
        transform = (cumulant - grid * mean[:, None]).min(1)
        np.testing.assert_allclose(answer(unit, "entropy", fields), transform, atol=1e-5)
        np.testing.assert_allclose(slopes(unit, fields)[2], -fields, rtol=1e-6)


@every_unit
def test_a_nudge_is_a_change_of_unit_and_field(unit):
    """The nudged law is the law with the energy strength (s - target)^2 / 2 added: same odds between any two values."""
    strength, target, field = 0.7, 0.4, 0.3
    nudged, shifted = unit.nudged(jnp.asarray(field), strength, target)
    values = np.array(unit.levels or (0.1, 0.5, 0.9))
    added = np.asarray(unit.self_energy(values)) - field * values + strength * (values - target) ** 2 / 2
    equivalent = np.asarray(nudged.self_energy(values)) - np.asarray(shifted) * values
    np.testing.assert_allclose(np.diff(added), np.diff(equivalent), rtol=1e-5, atol=1e-6)


@every_unit
def test_values_outside_the_support_are_refused(unit):
    unit.check("data", np.zeros(3) if not isinstance(unit, eq.Spin) else np.ones(3))
    with pytest.raises(ValueError, match=r"data: got nan at index \(1,\); allowed: finite"):
        unit.check("data", np.array([1.0, np.nan]))
    if unit.levels or np.isfinite(unit.bounds).all():
        with pytest.raises(ValueError, match=r"data: got 3 among the values; allowed: .* units"):
            unit.check("data", np.array([1.0, 3.0]))


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match=r"variance: got .*-1.*; allowed: finite and >= 1e-30"):
        eq.Gaussian(variance=-1.0)
    with pytest.raises(ValueError, match=r"stiffness: got"):
        eq.Clipped(stiffness=0.0)
    with pytest.raises(ValueError, match=r"stiffness: got"):
        Graded(stiffness=-1.0)
    with pytest.raises(ValueError, match=r"nudge: .* got -1.*; allowed: finite and > 0"):
        Graded().nudged(jnp.zeros(1), -5.0, 0.0)


@every_unit
def test_units_are_transformable(unit):
    """A unit is a pytree: a value in it may change without compiling again."""
    traces = []

    @eqx.filter_jit
    def mean(unit, field):
        traces.append(1)
        return unit.mean(field)

    mean(unit, jnp.ones(2))
    mean(jax.tree.map(lambda leaf: leaf * 1.5, unit), jnp.ones(2))
    assert len(traces) == 1


@pytest.mark.parametrize("field", [1e3, 1e6, 1e10, 1e12])
@pytest.mark.parametrize("stiffness", [1e-3, 1.0, 50.0])
def test_clipped_neurons_in_fields_of_any_size(field, stiffness):
    """Far beyond an edge the law is exponential there: its mean lies 1 / slope from it, and that is its width."""
    unit = eq.Clipped(stiffness)
    slope = field - stiffness
    expected = {
        "mean": (1 / field, 1e-3, 1 - 1 / slope, 1e-6),
        "variance": (field**-2, 1e-2, slope**-2, 1e-2),
        "cumulant": (-np.log(field), 1e-5, field - stiffness / 2 - np.log(slope), 1e-6),
    }
    for question, (below, loose, above, tight) in expected.items():
        np.testing.assert_allclose(answer(unit, question, -np.float32(field)), below, rtol=loose)
        np.testing.assert_allclose(answer(unit, question, np.float32(field)), above, rtol=tight)


# Units whose neurons answer together, with the sites and states of a layer of them.
JOINT = {"OneHot": (eq.OneHot(), 1, 5), "Potts-2": (eq.Potts(2), 3, 2), "Potts-4": (eq.Potts(4), 2, 4)}


@pytest.mark.parametrize("name", JOINT)
def test_units_that_answer_together_keep_the_contract(name):
    """Mean, variance, cumulant, mode, draws and a nudge against the sum over all states of a layer."""
    unit, sites, count = JOINT[name]
    field = 1.5 * np.random.default_rng(0).standard_normal(sites * count)
    states = np.array([np.concatenate(blocks) for blocks in product(np.eye(count), repeat=sites)])
    for temperature in (0.3, 1.0, 2.5):
        logs = states @ field / temperature
        law = np.exp(logs - np.logaddexp.reduce(logs))
        heated, given = unit.heated(temperature), jnp.asarray(field / temperature, jnp.float32)
        mean = law @ states
        np.testing.assert_allclose(answer(heated, "mean", given), mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(answer(heated, "variance", given), law @ states**2 - mean**2, rtol=1e-4, atol=1e-6)
        assert float(answer(heated, "cumulant", given).sum()) == pytest.approx(np.logaddexp.reduce(logs), abs=1e-5)
        slope = jax.grad(lambda x, unit=heated: unit.cumulant(x).sum())(given)
        np.testing.assert_allclose(slope, mean, rtol=1e-5, atol=1e-6)
        draws = np.asarray(answer(heated, "sample", jax.random.key(0), jnp.tile(given, (20_000, 1))))
        heated.check("draws", draws)
        shares = np.array([(draws == state).all(1).mean() for state in states])
        assert (np.abs(shares - law) < 5 * np.sqrt(law * (1 - law) / 20_000) + 1e-6).all()
    best = states[np.argmax(states @ field)]
    np.testing.assert_array_equal(answer(unit, "mode", jnp.asarray(field, jnp.float32)), best)
    means = answer(unit, "mean", jnp.asarray(field, jnp.float32))
    again = answer(unit, "mean", answer(unit, "inverse", means))
    np.testing.assert_allclose(again, means, rtol=1e-5)
    target = states[0]
    nudged, shifted = unit.nudged(jnp.asarray(field), 0.7, target)
    added = -states @ field + 0.35 * np.square(states - target).sum(1)
    equivalent = np.asarray(nudged.self_energy(states)).sum(-1) - states @ np.asarray(shifted, np.float64)
    np.testing.assert_allclose(np.diff(added), np.diff(equivalent), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="exactly one 1"):
        unit.check("data", np.zeros((1, sites * count)))
