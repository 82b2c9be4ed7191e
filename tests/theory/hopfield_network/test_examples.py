"""Learning from examples: landmarks, limits, sums over all examples, and a network that takes one step."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import erf

import equilibria as eq
from equilibria.measure.storage import recall
from equilibria.theory import (
    dataset_entropy,
    hopfield,
    hopfield_capacity,
    hopfield_examples,
    hopfield_examples_capacity,
    hopfield_examples_step,
)
from equilibria.theory.hopfield_network.observables import bare, observables
from equilibria.theory.hopfield_network.replica import ControlParameters, disordered, edge, others, retrieval, site

Z = np.linspace(-9, 9, 1501)
WEIGHTS = np.exp(-(Z**2) / 2) / np.exp(-(Z**2) / 2).sum()


def test_capacity_at_landmarks():
    capacity = hopfield_examples_capacity(entropy=[0.05, 0.1, 0.5])
    np.testing.assert_allclose(capacity, [0.099149, 0.071541, 0.009069], atol=1e-6)  # six digits are known


@pytest.mark.parametrize("rho", [0.02, 0.2, 1.0])
def test_capacity_without_temperature_in_closed_form(rho):
    def load(y):
        return ((erf(y) - 2 / np.sqrt(np.pi) * y * np.exp(-y * y)) / (1 + rho)) ** 2 * (1 / (2 * y * y) - rho)

    most = 1 / np.sqrt(2 * rho)
    best = minimize_scalar(lambda y: -load(y), bounds=(0.1 * most, most), method="bounded", options={"xatol": 1e-10})
    y = best.x + np.array([0.3, 0.9]) * (most - best.x)
    assert hopfield_examples_capacity(entropy=rho) == pytest.approx(-best.fun, rel=1e-10)
    np.testing.assert_allclose(hopfield_examples(load(y), entropy=rho).m, erf(y), rtol=1e-9)


@pytest.mark.parametrize("supervised", [True, False])
def test_perfect_examples_are_the_patterns(supervised):
    learned = hopfield_examples(0.1, [0.0, 0.2], entropy=0.0, examples=7, supervised=supervised)
    np.testing.assert_allclose(learned, hopfield(0.1, [0.0, 0.2]), rtol=1e-12)


def test_one_example_is_itself_a_pattern():
    # the network retrieves the example, whose overlap with the archetype is r
    r = 0.8
    learned = hopfield_examples(0.1, [0.0, 0.2], entropy=dataset_entropy(r, 1), examples=1)
    np.testing.assert_allclose(learned.m, r * hopfield(0.1, [0.0, 0.2]).m, rtol=1e-10)
    np.testing.assert_allclose(learned.free_energy, hopfield(0.1, [0.0, 0.2]).free_energy, rtol=1e-10)


def test_sleep_over_perfect_examples():
    # the height of a maximum is found to rounding, of numbers that are functions of roots
    assert hopfield_examples_capacity(0.1, entropy=0.0, sleep=2.0) == pytest.approx(
        hopfield_capacity(0.1, 2.0), rel=1e-12
    )


def test_many_examples_are_gaussian():
    given = {"load": 0.03, "temperature": 0.2, "entropy": 0.1}
    limit = hopfield_examples(**given).m
    few, many = (abs(hopfield_examples(**given, examples=m).m - limit) for m in (50, 200))
    assert many < 1e-3
    assert few / many == pytest.approx(4, rel=0.1)  # the law's next cumulants fall as 1/M


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize(("examples", "temperature"), [(2, 0.3), (3, 0.1), (4, 0.5)])
def test_small_numbers_by_brute_force(examples, temperature, supervised):
    """The order parameters by iteration, summing over every way the M examples can be wrong."""
    load, rho = 0.02, 0.15
    r = (1 + examples * rho) ** -0.5
    signs = np.array(list(itertools.product([1, -1], repeat=examples)))
    chance = np.prod((1 + r * signs) / 2, axis=1)
    x = signs.mean(axis=1) / r
    w = rho / (1 + rho)
    n, m, q = 1.0, 1.0, 1.0
    for _ in range(3000):
        chi = (1 - q) / temperature
        noise = load / (1 - chi) ** 2 + (0 if supervised else load * (examples - 1) * w**2 / (1 - w * chi) ** 2)
        mean = np.tanh((n * x[:, None] + np.sqrt(q * noise) * Z) / temperature)
        n, m, q = (chance * x) @ mean @ WEIGHTS / (1 + rho), chance @ mean @ WEIGHTS, chance @ mean**2 @ WEIGHTS
    learned = hopfield_examples(load, temperature, entropy=rho, examples=examples, supervised=supervised)
    assert learned.m == pytest.approx(m, abs=1e-9)
    assert learned.q == pytest.approx(q, abs=1e-9)


@jax.jit
@jax.value_and_grad
def unlabelled_free_energy(v, load, temperature, sleep, rho, examples):
    """f(M, p, q, Q) of couplings whose factors have strength 1 once and w in M - 1 directions, up to a constant."""
    big, p, q, q_self = v
    beta, t, w = 1 / temperature, sleep, rho / (1 + rho)
    strength, many = jnp.array([1.0, w]), jnp.array([1.0, examples - 1.0])
    d = 1 - strength * beta * (1 + t) * (q_self - q)
    answer = many @ (strength / d)
    delta = 1 + load * t * answer
    # Gaussian entries of mean 1/sqrt(1+rho) and variance w
    u = beta * (big / jnp.sqrt(1 + rho) + jnp.sqrt(load * p + w * big**2) * Z) / delta
    return (
        big**2 * (1 + t / delta) / (2 * (1 + t))
        + load * (1 + t) * (q_self - q - 1 / delta) * answer / 2
        + load * beta * p * (q_self - q) / 2
        + load / (2 * beta) * (many @ jnp.log(d))
        + jnp.log(delta) / (2 * beta)
        + load * p * t / (2 * (1 + t) * delta)
        - WEIGHTS @ jnp.logaddexp(u, -u) / beta
    )


@pytest.mark.parametrize("branch", ["retrieval", "spin glass"])
@pytest.mark.parametrize(("load", "sleep"), [(0.03, 0.0), (0.1, 1.0), (0.05, 10.0)])
def test_unlabelled_solution_is_a_stationary_point_of_the_free_energy(load, sleep, branch):
    temperature, rho, examples = 0.15, 0.05, 10
    given = tuple(np.array([x]) for x in (temperature, sleep, rho, np.inf, examples - 1.0))
    control, alpha = ControlParameters(*given), np.array([load])
    state = retrieval(alpha, edge(*given).ratio, *given) if branch == "retrieval" else disordered(alpha, *given)
    assert state.converged.all()
    here = site(state.signal, state.noise, control)
    q = others(here, state.signal, state.noise, state.delta, control).overlap
    q_self = q + temperature * (here.slope / state.delta**2 - sleep / (1 + sleep) / state.delta)
    point = [state.signal * state.delta, (state.noise * state.delta) ** 2 / load, q, q_self]
    with jax.enable_x64(True):
        v = np.array([float(x[0]) for x in point])
        value, slope = unlabelled_free_energy(v, load, temperature, sleep, rho, examples)
        np.testing.assert_allclose(slope, 0, atol=1e-11 * ((1 + sleep) / temperature) ** 2)
    self_coupling, log_determinant = bare(alpha, control)
    constant = (self_coupling - temperature * log_determinant) / 2
    assert observables(state, control).free_energy[0] == pytest.approx(float(value) + constant[0], abs=1e-11)


def test_self_couplings_of_unlabelled_examples_that_slept():
    """J_ii and ln det(1 + t C) of one network by its eigenvalues: sums of N of them vary by 1/N."""
    spins, load, sleep, examples, quality = 1200, 0.1, 3.0, 4, 0.6
    rng = np.random.default_rng(0)
    archetypes = rng.choice([-1.0, 1.0], size=(1, int(load * spins), spins))
    seen = np.where(rng.random((examples, *archetypes.shape[1:])) < (1 + quality) / 2, 1, -1) * archetypes
    rho = dataset_entropy(quality, examples)
    rows = seen.reshape(-1, spins) / np.sqrt(examples * quality**2 * (1 + rho))
    eigenvalues = np.linalg.eigvalsh(rows @ rows.T / spins)
    control = ControlParameters(*(np.array(x) for x in (1.0, sleep, rho, np.inf, examples - 1.0)))
    self_coupling, log_determinant = bare(np.array(load), control)
    slept = (1 + sleep) * eigenvalues / (1 + sleep * eigenvalues)
    assert self_coupling == pytest.approx(slept.sum() / spins, abs=2e-3)
    assert log_determinant == pytest.approx(np.log1p(sleep * eigenvalues).sum() / spins, abs=2e-3)


@pytest.mark.parametrize(("load", "sleep", "temperature"), [(0.1, 1.0, 0.1), (0.12, 5.0, 0.05)])
def test_unlabelled_examples_that_slept_in_a_network(load, sleep, temperature):
    """Beside the same network awake, which retrieves nothing at this load."""
    size, examples, quality, chains = 1000, 8, 0.8, 40
    pattern_key, blur_key, walk_key = jax.random.split(eq.key(3), 3)
    archetypes = eq.data.random_patterns(round(load * size), size, key=pattern_key)
    blurred = eq.data.blurred_examples(archetypes, examples, quality, key=blur_key)
    about = {"entropy": dataset_entropy(quality, examples), "examples": examples, "supervised": False}
    assert not hopfield_examples(load, temperature, **about).exists
    network = eq.hopfield_from_examples(blurred, supervised=False, sleep=sleep)
    found = np.asarray(recall(network, archetypes[:chains], temperature=temperature, sweeps=40, key=walk_key))
    expected = hopfield_examples(load, temperature, sleep=sleep, **about).m
    # archetypes of one network scatter by about 1/sqrt(N); four standard errors, and corrections of order 1/N
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / np.sqrt(chains) + 3 / size)
    assert 0.5 < expected < 0.9999


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize(("examples", "quality"), [(3, 0.7), (20, 0.4)])
def test_one_step_of_a_network(examples, quality, supervised):
    spins, load = 3000, 0.05
    rng = np.random.default_rng(0)
    archetypes = rng.choice([-1.0, 1.0], size=(int(load * spins), spins))
    blur = rng.random((examples, *archetypes.shape)) < (1 + quality) / 2
    seen = np.where(blur, 1, -1) * archetypes
    rows = (seen.mean(axis=0) if supervised else seen.reshape(-1, spins)) / np.sqrt(1 if supervised else examples)
    trials = 8
    fields = archetypes[:trials] @ rows.T @ rows - archetypes[:trials] * (rows**2).sum(axis=0)
    m = np.sign(fields * archetypes[:trials]).mean()
    rho = dataset_entropy(quality, examples)
    predicted = hopfield_examples_step(load, entropy=rho, examples=examples, supervised=supervised)
    # spins of one trial share its noise's strength, which varies by about 1/sqrt(N): six standard errors of N T spins
    assert m == pytest.approx(predicted, abs=6 * np.sqrt((1 - predicted**2) / (spins * trials)))


def test_one_step_in_closed_form():
    load, rho, examples = 0.1, 0.2, 30
    for supervised in (True, False):
        noise = rho + load * (1 + rho) ** 2 + (0 if supervised else load * (examples - 1) * rho**2)
        step = hopfield_examples_step(load, entropy=rho, examples=examples, supervised=supervised, gaussian=True)
        assert step == pytest.approx(erf(1 / np.sqrt(2 * noise)), rel=1e-13)


def test_blur_alone_has_no_threshold():
    rho = np.array([0.1, 1.0, 10.0])
    np.testing.assert_allclose(hopfield_examples(0.0, entropy=rho).m, erf(1 / np.sqrt(2 * rho)), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("entropy", {"entropy": -0.1}),
        ("examples", {"supervised": False}),
        ("examples", {"examples": 2.5}),
        ("branch", {"branch": "memory"}),
    ],
)
def test_bad_input_is_named(name, given):
    with pytest.raises(ValueError, match=f"{name}: got"):
        hopfield_examples(0.1, **{"entropy": 0.1, **given})


def test_entropy_broadcasts_in_float64():
    rho = dataset_entropy([[0.5], [1.0]], [1, 3, 30])
    np.testing.assert_allclose(rho, [[3, 1, 0.1], [0, 0, 0]], rtol=1e-15)  # a few roundings
    assert rho.dtype == np.float64


@pytest.mark.parametrize(("quality", "examples", "name"), [(0.0, 3, "quality"), (0.5, 0, "examples")])
def test_bad_datasets_are_named(quality, examples, name):
    with pytest.raises(ValueError, match=f"^{name}: got 0"):
        dataset_entropy(quality, examples)
