"""The implicit framework on three energies: a quadratic (closed form), a Hopfield network, a chain of springs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equilibria.energies.implicit import Implicit

RNG = np.random.default_rng(0)
EXACT = ("implicit", "recurrent", "unrolled")


def quadratic(parameters, influence, state, world):
    """F = s.A.s / 2 - s.B.x + β_y |s - y|² / 2 + β_θ |B|² / 2, with A = 1 + M M^T."""
    x, target = world
    stiffness = jnp.eye(state.size) + parameters["M"] @ parameters["M"].T
    internal = 0.5 * state @ stiffness @ state - state @ parameters["B"] @ x
    external = 0.5 * influence["output"] * jnp.sum((state - target) ** 2)
    return internal + external + 0.5 * influence["decay"] * jnp.sum(parameters["B"] ** 2)


def hopfield(parameters, influence, state, world):
    """The energy (34) with ρ = tanh: clamped inputs x, and a state of hidden and output units."""
    x, target = world
    rates = jnp.tanh(jnp.concatenate([state["hidden"], state["output"]]))
    weights = 0.5 * (parameters["W"] + parameters["W"].T)
    weights = weights - jnp.diag(jnp.diag(weights))
    leak = 0.5 * jnp.sum(state["hidden"] ** 2) + 0.5 * jnp.sum(state["output"] ** 2)
    internal = leak - 0.5 * rates @ weights @ rates - rates @ (parameters["b"] + parameters["U"] @ x)
    return internal + influence * 0.5 * jnp.sum((state["output"] - target) ** 2)


def springs(parameters, influence, state, world):
    """A hanging chain: springs of given stiffness and length between (0, 0) and (world, 0), masses at the state.

    The influence pulls the middle mass (of three) toward the height -1; the cost is a cosh, not a square.
    """
    ends = jnp.array([[0.0, 0.0]]), jnp.stack([world, jnp.zeros_like(world)])[None]
    points = jnp.concatenate([ends[0], state, ends[1]])
    lengths = jnp.sqrt(jnp.sum(jnp.diff(points, axis=0) ** 2, axis=1) + 1e-3)
    elastic = 0.5 * jnp.sum(jnp.exp(parameters["stiffness"]) * (lengths - parameters["length"]) ** 2)
    return elastic + 0.3 * jnp.sum(state[:, 1]) + influence * jnp.cosh(state[1, 1] + 1.0)


def quadratic_case():
    parameters = {"M": 0.5 * RNG.normal(size=(3, 3)), "B": RNG.normal(size=(3, 2))}
    world = (RNG.normal(size=2), RNG.normal(size=3))
    influence, direction = {"output": 0.0, "decay": 0.0}, {"output": 1.0, "decay": 0.3}
    return quadratic, parameters, influence, np.zeros(3), world, direction


def hopfield_case():
    parameters = {"W": 0.5 * RNG.normal(size=(5, 5)), "b": RNG.normal(size=5), "U": RNG.normal(size=(5, 2))}
    start = {"hidden": np.zeros(3), "output": np.zeros(2)}
    return hopfield, parameters, 0.0, start, (RNG.normal(size=2), RNG.normal(size=2)), 1.0


def springs_case():
    parameters = {"stiffness": np.array([0.1, 0.3, 0.2, 0.0]), "length": np.array([0.5, 0.6, 0.4, 0.5])}
    start = np.stack([np.array([0.5, 1.0, 1.5]), -0.3 * np.ones(3)], axis=1)
    return springs, parameters, 0.0, start, np.array(2.0), 1.0


CASES = {"quadratic": quadratic_case(), "hopfield": hopfield_case(), "springs": springs_case()}
SYSTEMS = {name: Implicit(case[0], step=0.2, steps=3000) for name, case in CASES.items()}
cases = pytest.mark.parametrize("case", CASES)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def gradient(case, **options):
    _, parameters, influence, start, world, direction = CASES[case]
    found = SYSTEMS[case].gradient(parameters, influence, start, world, direction=direction, **options)
    assert found.converged
    return flat(found.value)


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.usefixtures("float64")
@cases
def test_exact_gradients_agree_with_finite_differences(case):
    """Rest is found to a force of 2e-12; differences of width 1e-4 have an error of order 1e-8 to 1e-7."""
    _, parameters, influence, start, world, direction = CASES[case]
    system = SYSTEMS[case]
    theta, unravel = jax.flatten_util.ravel_pytree(parameters)

    def objective(theta):
        return float(system.objective(unravel(theta), influence, start, world, direction=direction))

    moves = 1e-4 * np.eye(theta.size)
    expected = np.array([(objective(theta + move) - objective(theta - move)) / 2e-4 for move in moves])
    reference = gradient(case, method="implicit")
    assert relative(reference, expected) < 1e-6
    for method in EXACT[1:]:
        assert relative(gradient(case, method=method), reference) < 1e-9, method


@pytest.mark.usefixtures("float64")
@cases
@pytest.mark.parametrize(("sides", "order"), [("one", 1), ("both", 2)])
def test_order_of_the_two_phase_error(case, sides, order):
    """Halving a nudge of 0.02 divides the error by 2^order, within 10% for the next order in the nudge."""
    exact = gradient(case, method="implicit")
    errors = [np.linalg.norm(gradient(case, nudge=nudge, sides=sides) - exact) for nudge in (0.02, 0.01)]
    assert errors[0] > 1e-7 * np.linalg.norm(exact)  # far above the rest tolerance over the nudge: truncation is seen
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@pytest.mark.usefixtures("float64")
def test_random_sign_is_one_of_the_two_one_sided_estimates():
    estimates = [gradient("hopfield", sides="one", nudge=nudge) for nudge in (0.05, -0.05)]
    seen = set()
    for seed in range(8):
        found = gradient("hopfield", sides="random", nudge=0.05, key=jax.random.key(seed))
        distances = [np.abs(found - estimate).max() for estimate in estimates]
        assert min(distances) < 1e-12
        seen.add(int(np.argmin(distances)))
    assert seen == {0, 1}


@pytest.mark.usefixtures("float64")
def test_quadratic_against_its_closed_form():
    _, parameters, influence, start, (x, target), direction = CASES["quadratic"]
    stiffness = np.eye(3) + parameters["M"] @ parameters["M"].T
    rest = np.linalg.solve(stiffness, parameters["B"] @ x)
    system = SYSTEMS["quadratic"]
    found = system.fixed_point(parameters, influence, start, (x, target))
    assert found.converged
    assert np.abs(found.state - rest).max() < 2e-12  # the force tolerance, as the stiffness is at least 1
    result = system.gradient(parameters, influence, start, (x, target), direction=direction, method="implicit")
    expected = np.outer(np.linalg.solve(stiffness, rest - target), x) + 0.3 * parameters["B"]
    np.testing.assert_allclose(result.value["B"], expected, rtol=1e-10)
    objective = 0.5 * np.sum((rest - target) ** 2) + 0.15 * np.sum(parameters["B"] ** 2)
    assert float(result.objective) == pytest.approx(objective, rel=1e-10)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("method", ["two-phase", *EXACT])
def test_regulariser_through_the_influence(method):
    """δ_θ = λ adds λ dΩ/dθ, exactly: Ω is linear in β_θ. (The paper's (64) would lose this term.)"""
    _, parameters, influence, start, world, _ = CASES["quadratic"]
    system = SYSTEMS["quadratic"]
    with_decay, without = (
        system.gradient(
            parameters, influence, start, world, direction={"output": 1.0, "decay": decay}, method=method
        ).value
        for decay in (0.7, 0.0)
    )
    np.testing.assert_allclose(with_decay["B"] - without["B"], 0.7 * parameters["B"], atol=1e-8)
    np.testing.assert_allclose(with_decay["M"], without["M"], atol=1e-8)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("nudge", [0.1, 2.0])
def test_large_nudge_is_the_gradient_of_the_contrastive_cost(nudge):
    """(49): ξ times the one-sided estimate is d/dθ [F at rest under β + ξδ, minus F at rest under β], for any ξ."""
    energy, parameters, influence, start, world, _ = CASES["hopfield"]
    system = SYSTEMS["hopfield"]

    def lowest(bias, influence):
        changed = parameters | {"b": bias}
        free = system.fixed_point(changed, 0.0, start, world).state
        return float(energy(changed, influence, system.fixed_point(changed, influence, free, world).state, world))

    def contrastive(bias):
        return lowest(bias, nudge) - lowest(bias, 0.0)

    moves, bias = 1e-4 * np.eye(5), parameters["b"]
    expected = [(contrastive(bias + move) - contrastive(bias - move)) / 2e-4 for move in moves]
    found = system.gradient(parameters, influence, start, world, nudge=nudge, sides="one").value["b"]
    np.testing.assert_allclose(nudge * found, expected, atol=1e-7)


@cases
def test_theorem_and_proposition_hold(case):
    """Run from a float32 process, in float64; a width of 1e-4 leaves errors near 1e-8."""
    _, parameters, influence, start, world, direction = CASES[case]
    theorem = SYSTEMS[case].check_theorem(parameters, influence, start, world)
    sizes = len(jax.tree.leaves(influence)), sum(np.size(leaf) for leaf in jax.tree.leaves(parameters))
    assert theorem.converged
    assert theorem.left.shape == theorem.right.shape == sizes
    assert theorem.left.dtype == np.float64
    assert np.abs(theorem.left).max() > 0.1
    assert np.abs(theorem.difference).max() < 1e-6
    proposition = SYSTEMS[case].check_proposition(parameters, influence, start, world, direction=direction)
    assert proposition.converged
    assert proposition.left < -1e-3
    assert proposition.difference == pytest.approx(0.0, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), influence=st.floats(0.0, 2.0), sign=st.sampled_from([-1.0, 1.0]))
def test_proposition_holds_for_random_networks(seed, influence, sign):
    """Also at β > 0, and for -δ: the derivative is quadratic in δ."""
    random = np.random.default_rng(seed)
    _, _, _, start, world, _ = CASES["hopfield"]
    shapes = {"W": (5, 5), "b": (5,), "U": (5, 2)}
    parameters = {name: 0.3 * random.normal(size=shape) for name, shape in shapes.items()}
    sides = SYSTEMS["hopfield"].check_proposition(parameters, influence, start, world, direction=sign)
    assert sides.converged
    assert sides.right <= 0
    assert sides.left <= 1e-7
    assert sides.difference == pytest.approx(0.0, abs=1e-6)


def test_curvature_tells_a_minimum_from_a_saddle():
    def double_well(parameters, influence, state, world):
        return jnp.sum(state**4 / 4 - parameters * state**2 / 2)

    system = Implicit(double_well)
    assert system.curvature(1.0, 0.0, np.ones(2)) == pytest.approx([2.0, 2.0], abs=1e-12)
    assert system.curvature(1.0, 0.0, np.array([0.0, 1.0])) == pytest.approx([-1.0, 2.0], abs=1e-12)
    stuck = system.fixed_point(1.0, 0.0, np.zeros(2))
    assert stuck.converged  # the force vanishes on top of the barrier: (1) holds there and (2) does not


@pytest.mark.usefixtures("float64")
def test_polish_finishes_a_stiff_relaxation():
    """Curvatures 1e-3 and 1: 200 steps of 1 leave e^(-0.2) of the slow direction, and Newton removes it."""

    def valley(parameters, influence, state, world):
        return 0.5 * (1e-3 * (state[0] - parameters) ** 2 + jnp.cosh(state[1]))

    with pytest.warns(RuntimeWarning, match="not converged"):
        rough = Implicit(valley, step=1.0, steps=200).fixed_point(3.0, 0.0, np.ones(2))
    assert not rough.converged
    assert abs(rough.state[0] - 3.0) > 1.0
    fine = Implicit(valley, step=1.0, steps=200, polish=True).fixed_point(3.0, 0.0, np.ones(2))
    assert fine.converged
    assert fine.state == pytest.approx([3.0, 0.0], abs=1e-9)


@pytest.mark.filterwarnings("ignore:fixed point not converged")
def test_failure_is_reported():
    system = Implicit(
        lambda parameters, influence, state, world: -jnp.exp(state) + influence * state, step=1.0, steps=50
    )
    with pytest.warns(RuntimeWarning, match=r"fixed point not converged \(largest force"):
        assert not system.fixed_point(0.0, 0.0, 0.0).converged
    with pytest.warns(RuntimeWarning, match="two-phase gradient not converged"):
        assert not system.gradient(0.0, 0.0, 0.0).converged
    with pytest.warns(RuntimeWarning, match="check not converged"):
        assert not system.check_theorem(0.0, 0.0, 0.0).converged
    slow = Implicit(lambda parameters, influence, state, world: 0.5 * state**2, step=0.01, steps=7)
    with pytest.warns(RuntimeWarning, match="steps 7"):
        assert slow.fixed_point(0.0, 0.0, 1.0).steps == 7
    with pytest.warns(RuntimeWarning, match="unrolled gradient not converged"):
        slow.gradient(0.0, 0.0, 1.0, method="unrolled")


def test_compiles_once_and_maps_over_data():
    """New values, settings included, do not trace the energy again; vmap gives what a loop gives."""
    traces = []

    def energy(parameters, influence, state, world):
        traces.append(1)
        return 0.5 * jnp.sum((state - jnp.tanh(parameters * world)) ** 2) + influence * jnp.sum(state)

    def gradients(worlds):
        return jax.vmap(lambda world: system.gradient(jnp.ones(2), 0.0, jnp.zeros(2), world).value)(worlds)

    system = Implicit(energy)
    worlds = np.array([[0.5, 1.0], [-1.0, 2.0]], dtype=np.float32)
    loop = [system.gradient(jnp.ones(2), 0.0, jnp.zeros(2), world).value for world in worlds]
    np.testing.assert_allclose(gradients(worlds), np.stack(loop), atol=1e-4)  # rest to 6e-6 over a nudge of 0.01 x 2
    np.testing.assert_allclose(loop, worlds / np.cosh(worlds) ** 2, atol=1e-3)
    before = len(traces)
    other = Implicit(energy, step=0.3, steps=500, tolerance=1e-5)
    other.gradient(2 * jnp.ones(2), 0.1, jnp.ones(2), worlds[1], direction=0.5, nudge=0.1)
    assert (
        len(traces) - before <= 2
    )  # one abstract evaluation to check the arguments, and the cost outside the compiler


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"influence": np.inf}, "influence: got an infinity; allowed: .*clamped"),
        ({"start": np.array([0.0, np.nan])}, "start: got nan at index"),
        ({"start": None}, "start: got None"),
        ({"parameters": np.nan}, "parameters: got nan"),
        ({"world": np.inf}, "world: got inf"),
        ({"direction": np.ones(2)}, "direction: got shapes"),
        ({"direction": {"output": 1.0}}, "direction: got shapes"),
        ({"direction": np.nan}, "direction: got nan"),
        ({"method": "backprop"}, "method: got 'backprop'"),
        ({"sides": "left"}, "sides: got 'left'"),
        ({"sides": "random"}, "key: got None"),
        ({"nudge": 0.0}, "nudge: got 0.0"),
        ({"nudge": np.nan}, "nudge: got nan"),
    ],
)
def test_bad_arguments(change, message):
    system = Implicit(lambda parameters, influence, state, world: 0.5 * jnp.sum(state**2) + influence * parameters)
    arguments = {"parameters": 1.0, "influence": 0.0, "start": np.zeros(2), "world": None}
    with pytest.raises(ValueError, match=message):
        system.gradient(**(arguments | change))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"energy": 3}, "energy: got 3"),
        ({"step": 0.0}, "step: got"),
        ({"steps": 0}, "steps: got 0"),
        ({"tolerance": -1.0}, "tolerance: got"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Implicit(**({"energy": quadratic} | settings))


@pytest.mark.parametrize("result", [lambda state: state, lambda state: (state.sum(), 1.0), lambda state: 3])
def test_energy_must_return_one_number(result):
    system = Implicit(lambda parameters, influence, state, world: result(state))
    with pytest.raises(ValueError, match="energy: got a function that returns"):
        system.fixed_point(0.0, 0.0, np.zeros(2))
