"""Appendix B against quadrature, in one and two dimensions and at several temperatures.

Sampled values are compared in units of their own standard error: 4.5 of them is passed by chance once in 10^5.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from equilibria.energies.stochastic import Stochastic

SIGMAS = 4.5
KEY = jax.random.key(0)


def well(parameters, influence, state, world):
    """One dimension: an uneven quartic, pulled to the world by the influence."""
    return parameters[0] * state**4 / 4 - parameters[1] * state + influence * 0.5 * (state - world) ** 2


def pair(parameters, influence, state, world):
    """Two units with the energy (34), ρ = tanh, an output that is pulled to the world, and a regulariser."""
    rates = jnp.tanh(jnp.stack([state["hidden"], state["output"]]))
    internal = 0.5 * state["hidden"] ** 2 + 0.5 * state["output"] ** 2
    internal -= parameters["W"] * rates[0] * rates[1] + parameters["b"] @ rates
    fit = 0.5 * (state["output"] - world) ** 2
    return internal + influence["output"] * fit + influence["decay"] * 0.5 * parameters["W"] ** 2


CASES = {
    "well": (well, jnp.array([1.0, 0.5]), 0.3, 0.0, -1.0),
    "pair": (
        pair,
        {"W": 1.5, "b": jnp.array([0.4, -0.3])},
        {"output": 0.2, "decay": 0.0},
        {"hidden": 0.0, "output": 0.0},
        1.0,
    ),
}
DIRECTIONS = {"well": 1.0, "pair": {"output": 1.0, "decay": 0.2}}
TEMPERATURES = (0.5, 1.0, 2.0)
cases = pytest.mark.parametrize("case", CASES)
temperatures = pytest.mark.parametrize("temperature", TEMPERATURES)


def system(case, temperature=1.0, **options):
    step = {"well": 0.3, "pair": 0.5}[case]
    return Stochastic(CASES[case][0], temperature=temperature, **({"step": step, "steps": 1500} | options))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def moments(state):
    state = jnp.stack(jax.tree.leaves(state))
    return {"mean": state, "square": state**2, "rates": jnp.prod(jnp.tanh(state))}


def quadrature(case, temperature, argument, move_parameters=0.0, move_influence=0.0):
    """E[dF/d argument] with the parameters and the influence moved, by quadrature."""
    energy, parameters, influence, start, world = CASES[case]
    with jax.enable_x64(True):
        where = []
        for tree, move in ((parameters, move_parameters), (influence, move_influence)):
            values, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(lambda leaf: np.asarray(leaf, float), tree))
            where.append(unravel(values + move))
        return system(case, temperature).exact(
            lambda state: jax.flatten_util.ravel_pytree(jax.grad(energy, argument)(*where, state, world))[0],
            *where,
            start,
            world,
            points=201,
        )


def response(case, temperature):
    """d/dβ E[dF/dθ] and (d/dθ E[dF/dβ])^T by centered differences of quadratures."""
    _, parameters, influence, _, _ = CASES[case]
    width = 1e-3

    def differences(argument, name, size):
        moves = width * np.eye(size)
        ends = [[quadrature(case, temperature, argument, **{name: sign * move}) for move in moves] for sign in (1, -1)]
        return (np.array(ends[0]) - np.array(ends[1])) / (2 * width)

    right = differences(0, "move_influence", flat(influence).size)
    left = differences(1, "move_parameters", flat(parameters).size).T
    return left, right


@pytest.fixture(scope="module")
def responses():
    return {(case, t): response(case, t) for case, t in [("well", 0.5), ("well", 2.0), ("pair", 1.0)]}


def test_quadrature_against_scipy():
    _, parameters, influence, start, world = CASES["well"]
    with jax.enable_x64(True):
        found = system("well", 0.7).exact(lambda state: state**2, parameters, influence, start, world)

    def weight(s, power=0):
        return s**power * np.exp(-(s**4 / 4 - 0.5 * s + 0.15 * (s + 1) ** 2) / 0.7)

    expected = scipy.integrate.quad(weight, -10, 10, args=(2,))[0] / scipy.integrate.quad(weight, -10, 10)[0]
    # The parameters are float32: 0.3 and its neighbours carry a relative error of 6e-8.
    assert found == pytest.approx(expected, rel=1e-6)
    product = Stochastic(lambda a, pull, state, world: 0.5 * state @ a @ state, temperature=2.0)
    precision = np.array([[2.0, 0.5], [0.5, 1.0]])
    covariance = product.exact(lambda state: jnp.outer(state, state), precision, 0.0, np.zeros(2), reach=20.0)
    np.testing.assert_allclose(covariance, 2.0 * np.linalg.inv(precision), atol=1e-6)


def test_theorem_and_proposition_by_quadrature(responses):
    """Differences of width 1e-3 have an error of order 1e-6; both sides hold to that at every temperature."""
    for (case, temperature), (left, right) in responses.items():
        assert np.abs(left).max() > 0.1
        np.testing.assert_allclose(left, right, atol=1e-5, err_msg=f"{case} at {temperature}")
    _, parameters, influence, start, world = CASES["well"]

    def price(state):
        return 0.5 * (state - world) ** 2

    def powers(state):
        return price(state), price(state) ** 2

    for temperature in TEMPERATURES:
        exact = system("well", temperature).exact
        first, second = exact(powers, parameters, influence, start, world)
        high, low = (exact(price, parameters, influence + move, start, world) for move in (1e-3, -1e-3))
        assert (high - low) / 2e-3 == pytest.approx(-(second - first**2) / temperature, rel=1e-4)


@cases
@temperatures
def test_adjusted_chains_sample_the_boltzmann_law(case, temperature):
    _, *arguments = CASES[case]
    found = system(case, temperature).expectation(moments, *arguments, key=KEY)
    expected = flat(system(case, temperature).exact(moments, *arguments, reach=15.0))
    assert 0.3 < found.acceptance < 0.999
    assert flat(found.error).max() < 0.03
    assert (np.abs(flat(found.value) - expected) < SIGMAS * flat(found.error)).all()


@temperatures
def test_draws_are_independent_and_follow_the_law(temperature):
    """One draw per chain, so that Kolmogorov and Smirnov's test applies as it is."""
    energy, parameters, influence, start, world = CASES["well"]
    draws = system("well", temperature, chains=2000, steps=100, burn=0).sample(
        parameters, influence, start, world, key=KEY
    )
    grid = np.linspace(-8, 8, 4001)
    weights = np.exp(-np.asarray(energy(np.array([1.0, 0.5]), 0.3, grid, -1.0)) / temperature)
    share = np.cumsum(weights) / weights.sum()
    assert scipy.stats.kstest(np.asarray(draws), lambda s: np.interp(s, grid, share)).pvalue > 1e-4


@pytest.mark.parametrize("step", [0.8, 0.4])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_unadjusted_steps_have_a_known_bias(step, temperature):
    """In s²/2 an Euler step s' = (1 - ε) s + √(2Tε) n has variance T / (1 - ε/2), against T."""
    options = {"temperature": temperature, "step": step, "steps": 1500}
    energy, square = _parabola, _square
    plain = Stochastic(energy, adjusted=False, **options).expectation(square, 0.0, 0.0, 0.0, key=KEY)
    assert abs(plain.value - temperature / (1 - step / 2)) < SIGMAS * plain.error
    assert abs(plain.value - temperature) > 10 * plain.error
    adjusted = Stochastic(energy, **options).expectation(square, 0.0, 0.0, 0.0, key=KEY)
    assert abs(adjusted.value - temperature) < SIGMAS * adjusted.error


def _parabola(parameters, influence, state, world):
    return 0.5 * state**2


def _square(state):
    return state**2


def test_errors_are_calibrated():
    """Over 60 keys the standardised errors have spread 1; that of 60 normals is 1 ± 0.09. It compiles under vmap."""
    chains = Stochastic(_parabola, step=0.5, steps=300, burn=50, chains=50)
    keys = jax.random.split(jax.random.key(3), 60)
    found = jax.vmap(lambda key: chains.expectation(_square, 0.0, 0.0, 0.0, key=key))(keys)
    scores = (found.value - 1.0) / found.error
    assert scores.std() == pytest.approx(1.0, abs=0.36)
    assert abs(scores.mean()) < SIGMAS / np.sqrt(60)


@pytest.mark.parametrize(("case", "temperature"), [("well", 0.5), ("well", 2.0), ("pair", 1.0)])
def test_gradients_against_quadrature(case, temperature, responses):
    """A centered nudge of 0.1 has a bias of order 0.01 of the gradient: small beside its standard error."""
    _, *arguments = CASES[case]
    expected = flat(DIRECTIONS[case]) @ responses[case, temperature][1]
    for method, options in {"covariance": {}, "two-phase": {"nudge": 0.1}}.items():
        found = system(case, temperature).gradient(
            *arguments, direction=DIRECTIONS[case], method=method, key=KEY, **options
        )
        assert flat(found.error).max() < 0.25 * np.abs(expected).max(), method
        away = np.abs(flat(found.value) - expected)
        assert (away < SIGMAS * flat(found.error) + 0.01 * np.abs(expected).max()).all(), method


@pytest.mark.parametrize("sides", ["one", "random"])
def test_other_sides_of_the_gradient(sides):
    """In F = (s - θ)²/2 + β s, E[dF/dθ] = β for any nudge: no bias, and the gradient is 1."""
    chains = Stochastic(_line, step=0.5, steps=500)
    found = chains.gradient(2.0, 0.0, 0.0, nudge=0.3, sides=sides, key=KEY)
    assert found.error < 0.1
    assert abs(found.value - 1.0) < SIGMAS * found.error


def _line(parameters, influence, state, world):
    return 0.5 * (state - parameters) ** 2 + influence * state


@pytest.mark.parametrize(("case", "temperature"), [("well", 2.0), ("pair", 1.0)])
def test_theorem_by_sampling(case, temperature, responses):
    """Beside the standard error, 1% is left for the width of the differences, 0.1, and for rounding."""
    _, *arguments = CASES[case]
    sides = system(case, temperature).check_theorem(*arguments, key=KEY)
    left, right = responses[case, temperature]
    assert sides.converged
    assert sides.left.value.shape == left.shape
    for found, expected in ((sides.left, left), (sides.right, right), (sides.difference, 0 * left)):
        assert (np.abs(found.value - expected) < SIGMAS * found.error + 0.01 * np.abs(left).max()).all()
    assert sides.difference.error.max() < np.abs(left).max()


@cases
@temperatures
def test_proposition_by_sampling(case, temperature):
    """Beside the standard error, the nudged side is left 2% for the third derivative, of order nudge² = 0.01."""
    _, *arguments = CASES[case]
    sides = system(case, temperature).check_proposition(*arguments, direction=DIRECTIONS[case], key=KEY)
    world = arguments[-1]

    def price(state):
        state = state["output"] if case == "pair" else state
        return 0.5 * (state - world) ** 2

    first, second = system(case, temperature).exact(
        lambda state: (price(state), price(state) ** 2), *arguments, reach=15.0, points=201
    )
    expected = -(second - first**2) / temperature
    assert abs(sides.right.value - expected) < SIGMAS * sides.right.error
    assert abs(sides.left.value - expected) < SIGMAS * sides.left.error + 0.02 * abs(expected)
    assert abs(sides.difference.value) < SIGMAS * sides.difference.error + 0.02 * abs(expected)
    assert sides.left.value < 0
    assert sides.right.value < -3 * sides.right.error


def test_values_do_not_compile_again():
    traces = []

    def energy(parameters, influence, state, world):
        traces.append(1)
        return 0.5 * (state - parameters) ** 2 + influence * state

    for temperature, step, steps in [(1.0, 0.5, 20), (2.0, 0.3, 30)]:
        chains = Stochastic(energy, temperature=temperature, step=step, steps=steps, burn=steps, chains=4)
        before = len(traces)
        chains.gradient(temperature, 0.0, 0.0, nudge=step, key=jax.random.key(steps))
    assert len(traces) == before


def test_failure_is_reported():
    quartic = Stochastic(lambda parameters, influence, state, world: state**4, step=1.0, adjusted=False, steps=100)
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        quartic.sample(0.0, 0.0, 2.0, key=KEY)
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        quartic.expectation(jnp.sign, 0.0, 0.0, 2.0, key=KEY)
    stuck = Stochastic(lambda parameters, influence, state, world: 1e4 * jnp.sum(state**2), step=1.0, steps=100)
    with pytest.warns(RuntimeWarning, match="chains hardly move"):
        stuck.sample(0.0, 0.0, np.zeros(3), key=KEY)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"energy": "F"}, "energy: got 'F'"),
        ({"temperature": 0.0}, "temperature: got"),
        ({"step": -1.0}, "step: got"),
        ({"steps": 0}, "steps: got 0"),
        ({"burn": -1}, "burn: got -1"),
        ({"chains": 1}, "chains: got 1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Stochastic(**({"energy": well} | settings))


def test_bad_arguments():
    chains = Stochastic(_line)
    with pytest.raises(ValueError, match="method: got 'implicit'"):
        chains.gradient(0.0, 0.0, 0.0, method="implicit", key=KEY)
    with pytest.raises(ValueError, match="start: got nan"):
        chains.sample(0.0, 0.0, np.nan, key=KEY)
    with pytest.raises(ValueError, match=r"reach: got 2.0, where the weight is 1.*e-01"):
        chains.exact(_square, 0.0, 0.0, 0.0, reach=2.0)
    with pytest.raises(ValueError, match="centre: got 3 numbers"):
        Stochastic(lambda a, b, state, v: jnp.sum(state**2)).exact(_square, 0.0, 0.0, np.zeros(3))
