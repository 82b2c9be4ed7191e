"""The theory of the Hopfield network against closed forms, its own free energy, and landmarks found elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erf

from equilibria.theory import curie_weiss, hopfield, hopfield_capacity, hopfield_glass
from equilibria.theory.hopfield_network.observables import bare, observables
from equilibria.theory.hopfield_network.replica import ControlParameters, disordered, edge, others, retrieval, site

Z = np.linspace(-9, 9, 4001)
WEIGHTS = np.exp(-(Z**2) / 2) / np.exp(-(Z**2) / 2).sum()


@pytest.mark.parametrize(
    ("load", "temperature", "m", "digits"),
    [(0.05, 0.0, 0.9999922, 7), (0.10, 0.0, 0.9979993, 7), (0.1, 0.2, 0.98908516, 8)],
)
def test_order_parameters_at_landmarks(load, temperature, m, digits):
    assert hopfield(load, temperature).m == pytest.approx(m, abs=10.0**-digits)


def test_replica_overlap_at_a_landmark():
    assert hopfield(0.1, 0.2).q == pytest.approx(0.98441706, abs=1e-8)


@pytest.mark.parametrize(
    ("temperature", "sleep", "capacity"),
    [
        (0, 0, 0.13790557),
        (0.02, 0, 0.138184),
        (0.1, 0, 0.135049),
        (0, 0.1, 0.165140),
        (0, 1, 0.386596),
        (0, 10, 0.869653),
    ],
)
def test_capacity_at_landmarks(temperature, sleep, capacity):
    assert hopfield_capacity(temperature, sleep) == pytest.approx(capacity, abs=1e-6)  # the landmarks have six digits


def test_capacity_without_temperature_in_closed_form():
    def load(y):
        return (erf(y) / y - 2 / np.sqrt(np.pi) * np.exp(-y * y)) ** 2 / 2

    best = minimize_scalar(lambda y: -load(y), bounds=(1, 2), method="bounded", options={"xatol": 1e-10})
    assert hopfield_capacity() == pytest.approx(-best.fun, rel=1e-12)
    # below the capacity the branch is m = erf(y) at load(y); y beyond the maximum is the stable side
    y = np.array([1.6, 2.0, 3.0])
    np.testing.assert_allclose(hopfield(load(y)).m, erf(y), rtol=1e-12)


@pytest.mark.parametrize("sleep", [0.1, 1.0, 10.0])
def test_sleep_without_temperature_by_another_route(sleep):
    """m = erf(y) and a root in Delta, in the order parameters of the literature."""

    def state(delta, y, t=sleep):
        m = erf(y)
        big = (1 + t) * m / (delta + t)
        slope = 2 * y * np.exp(-y * y) / (np.sqrt(np.pi) * big)
        stiffness = 1 - ((1 + t) * slope - t) / delta
        load, noise = (delta - 1) * stiffness / t, big**2 / (2 * y**2)
        size = big * m + noise * slope
        q = (1 - 2 * t * size / (1 + t) + (t / (1 + t)) ** 2 * (big**2 + noise)) / delta**2
        return load * q * (1 + t) ** 2 / stiffness**2 - noise, load

    for y in (2.0, 2.5, 3.0):
        delta = brentq(lambda x, y=y: state(x, y)[0], 1 + 1e-9, 1 + 2 * sleep, xtol=1e-14)
        assert hopfield(state(delta, y)[1], 0.0, sleep).m == pytest.approx(erf(y), abs=1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.3, 0.6, 0.9])
def test_equations_hold_up_to_the_edge(temperature):
    load = hopfield_capacity(temperature) * np.array([1e-3, 0.3, 0.9, 0.999, 1 - 1e-7])
    for alpha, m, q in zip(load, *hopfield(load, temperature)[:2], strict=True):
        r = q / (1 - (1 - q) / temperature) ** 2
        mean = np.tanh((m + np.sqrt(alpha * r) * Z) / temperature)
        assert WEIGHTS @ mean == pytest.approx(m, abs=1e-10)
        assert WEIGHTS @ mean**2 == pytest.approx(q, abs=1e-10)


def test_branch_ends_where_it_should():
    temperature = np.array([0.0, 0.05, 0.5, 0.99])
    capacity = hopfield_capacity(temperature, sleep=0.5)
    inside, outside = (hopfield(capacity * x, temperature, 0.5) for x in (1 - 1e-9, 1 + 1e-9))
    assert inside.exists.all()
    assert inside.converged.all()
    assert not outside.exists.any()
    assert np.isnan(outside.m).all()
    assert outside.converged.all()
    # m - m_edge ~ sqrt(1e-9): the branch arrives with a vertical slope
    np.testing.assert_allclose(inside.m, hopfield(capacity * (1 - 1e-12), temperature, 0.5).m, atol=1e-3)


@jax.jit
@jax.value_and_grad
def literature_free_energy(v, load, temperature, sleep):
    """f(M, p, q, Q) with Delta = 1 + alpha t / D, up to a constant, and its gradient."""
    big, p, q, q_self = v
    beta, t = 1 / temperature, sleep
    d = 1 - beta * (1 + t) * (q_self - q)
    delta = 1 + load * t / d
    u = beta * (big + jnp.sqrt(load * p) * Z) / delta
    return (
        big**2 * (1 + t / delta) / (2 * (1 + t))
        + load * (1 + t) * (q_self - q - 1 / delta) / (2 * d)
        + load * beta * p * (q_self - q) / 2
        + load / (2 * beta) * jnp.log(d)
        + jnp.log(delta) / (2 * beta)
        + load * p * t / (2 * (1 + t) * delta)
        - WEIGHTS @ jnp.logaddexp(u, -u) / beta
    )


@pytest.mark.parametrize("branch", ["retrieval", "spin glass"])
@pytest.mark.parametrize(
    ("load", "temperature", "sleep"), [(0.1, 0.2, 0.0), (0.1, 0.3, 0.5), (0.3, 0.1, 1.0), (0.8, 0.03, 10.0)]
)
def test_solutions_are_stationary_points_of_the_free_energy(load, temperature, sleep, branch):
    given = tuple(np.array([x]) for x in (temperature, sleep))
    alpha = np.array([load])
    state = retrieval(alpha, edge(*given).ratio, *given) if branch == "retrieval" else disordered(alpha, *given)
    here = site(state.signal, state.noise, ControlParameters(*given))
    q = others(here, state.signal, state.noise, state.delta, ControlParameters(*given)).overlap
    q_self = q + temperature * (here.slope / state.delta**2 - sleep / (1 + sleep) / state.delta)
    point = [state.signal * state.delta, (state.noise * state.delta) ** 2 / load, q, q_self]
    with jax.enable_x64(True):
        v = np.array([float(x[0]) for x in point])
        value, slope = literature_free_energy(v, load, temperature, sleep)
        # derivatives by q and Q are differences of numbers of size (1+t)^2 / T^2
        np.testing.assert_allclose(slope, 0, atol=1e-11 * ((1 + sleep) / temperature) ** 2)
        self_coupling, log_determinant = bare(alpha, ControlParameters(*given))
        constant = (self_coupling - temperature * log_determinant) / 2
    assert observables(state, ControlParameters(*given)).free_energy[0] == pytest.approx(
        float(value) + constant[0], abs=1e-12
    )


@pytest.mark.parametrize("sleep", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("load", [0.4, 1.5])
def test_free_energy_at_high_temperature(load, sleep):
    """f = -T ln 2 - sum_j J_ij^2 / 4T + O(1/T^2), self-couplings left out; sums by the Marchenko-Pastur law."""
    low, high = (1 - np.sqrt(load)) ** 2, (1 + np.sqrt(load)) ** 2

    def mean(function):  # over the eigenvalues of J: alpha times the law of the patterns' correlations, zeros left out
        return quad(
            lambda x: function((1 + sleep) * x / (1 + sleep * x)) * np.sqrt((high - x) * (x - low)) / (2 * np.pi * x),
            low,
            high,
        )[0]

    squares = mean(lambda x: x * x) - mean(lambda x: x) ** 2
    temperature = 1e3
    excess = hopfield(load, temperature, sleep, branch="paramagnet").free_energy + temperature * np.log(2)
    # what is left out is smaller by J / T, J being at most 1 + t or so
    assert excess == pytest.approx(-squares / (4 * temperature), rel=10 * (1 + sleep) / temperature)


def test_spin_glass_without_temperature_in_closed_form():
    load = np.array([0.02, 0.1, 0.5, 2.0])
    glass = hopfield(load, branch="spin glass")
    np.testing.assert_allclose(glass.free_energy, -1 / np.pi - np.sqrt(2 * load / np.pi), rtol=1e-12)
    assert (glass.m == 0).all()
    assert (glass.q == 1).all()


@pytest.mark.parametrize("sleep", [0.0, 0.3, 3.0])
def test_spins_freeze_at_the_glass_temperature(sleep):
    load = np.geomspace(0.01, 2.0, 12)
    glass = hopfield_glass(load, sleep)
    below, above = (hopfield(load, glass * x, sleep, branch="spin glass") for x in (1 - 1e-4, 1 + 1e-4))
    assert below.exists.all()
    assert below.converged.all()
    assert not above.exists.any()
    assert (below.q < 1e-2).all()
    # the paramagnet takes over, marginal at the line: its stability is of the order of the distance from it
    thawed = hopfield(load, glass * (1 + 1e-4), sleep, branch="paramagnet")
    assert thawed.exists.all()
    assert (thawed.stability > 0).all()
    assert (thawed.stability < 1e-1).all()


def test_after_long_sleep_spins_freeze_at_once():
    glass = hopfield(0.05, hopfield_glass(0.05, 30.0) * (1 - 1e-4), 30.0, branch="spin glass")
    assert glass.converged
    assert glass.q > 0.5


def test_glass_temperature_at_a_landmark():
    assert hopfield_glass(0.1, 1.0) == pytest.approx(0.6802598, abs=5e-8)


@pytest.mark.parametrize("branch", ["retrieval", "spin glass"])
def test_continuity(branch):
    load, temperature = np.array([0.02, 0.1]), np.array([[0.0], [0.1], [0.3]])
    awake = hopfield(load, temperature, branch=branch)
    asleep = hopfield(load, temperature, 1e-8, branch=branch)
    cold = hopfield(load, 1e-7, branch=branch)
    for name in ("m", "q", "free_energy"):
        # slopes in t and T are of order one
        np.testing.assert_allclose(getattr(asleep, name), getattr(awake, name), atol=1e-7)
        np.testing.assert_allclose(getattr(cold, name), getattr(awake, name)[0], atol=1e-6)


def test_one_pattern_is_a_ferromagnet():
    temperature = np.array([0.0, 0.3, 0.9, 1.0, 1.2])
    memory, magnet = hopfield(0.0, temperature), curie_weiss(temperature)
    assert memory.exists.tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(memory.m[:3], magnet.m[:3], rtol=1e-12)
    np.testing.assert_allclose(memory.free_energy[:3], magnet.free_energy[:3], rtol=1e-12)
    assert hopfield(0.0, temperature, branch="paramagnet").exists.tolist() == [False, False, False, True, True]
    assert not hopfield(0.0, temperature, branch="spin glass").exists.any()


def test_very_long_sleep_keeps_to_the_branch():
    """Here one noise-to-signal ratio has three solutions: every one of them is listed, and the largest load taken."""
    temperature, sleep = 1e-3, 1e4
    ratio, signal = np.geomspace(0.08, 0.16, 81)[:, None], np.geomspace(1e-4, 1, 1200)
    control = ControlParameters(np.array(temperature), np.array(sleep))
    here = site(signal, ratio * signal, control)
    pull = (1 + sleep) * here.aligned / signal
    delta = (np.sqrt(sleep**2 + 4 * pull) - sleep) / 2
    rest = others(here, signal, ratio * signal, delta, control)
    power = (ratio * signal) ** 2 / rest.overlap
    mismatch = 1 - 1 / delta - sleep * power * rest.stiffness * delta / (1 + sleep) ** 2
    crossings = np.sign(mismatch[:, 1:]) != np.sign(mismatch[:, :-1])
    assert crossings.sum(axis=1).max() == 3
    largest = np.maximum(power * rest.softness, 0)[:, 1:][crossings].max()
    # the load changes by 1% or so from one point of the grid to the next
    assert hopfield_capacity(temperature, sleep) == pytest.approx(largest, rel=2e-3)
    assert hopfield_capacity(temperature, sleep) > 1.0127


def test_endless_sleep():
    # at T = 0 the capacity passes 1, at a temperature it does not
    assert hopfield_capacity(0.0, 1e4) == pytest.approx(1.068, abs=1e-3)
    assert hopfield_capacity(0.01, 1e4) < 1


def test_no_retrieval_in_the_heat():
    assert hopfield_capacity([1.0, 1.5], sleep=2.0).tolist() == [0.0, 0.0]
    assert not hopfield(0.01, [1.0, 1.5]).exists.any()
    # alpha_c vanishes as (1 - T)^2, with a relative correction of order 1 - T
    near, nearer = hopfield_capacity([1 - 1e-3, 1 - 1e-4])
    assert near / nearer == pytest.approx(100, rel=1e-2)


def test_arrays_broadcast():
    memory = hopfield(np.array([0.05, 0.1, 0.3]), np.array([[0.1], [0.3]]), sleep=0.2)
    assert all(x.shape == (2, 3) for x in memory)
    assert memory.m.dtype == np.float64
    assert memory.exists.dtype == memory.converged.dtype == bool
    assert memory.m[1, 0] == pytest.approx(hopfield(0.05, 0.3, 0.2).m, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value"),
    [("load", -0.1), ("temperature", -0.1), ("sleep", -1.0), ("sleep", np.inf), ("load", np.nan), ("branch", "memory")],
)
def test_bad_input_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name}: got"):
        hopfield(**{"load": 0.1, name: value})
