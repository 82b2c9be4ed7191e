"""Training a user's own energy: gradients, the analytic optimum, resuming, particles, whole numbers, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import equilibria as eq
from equilibria.energies.implicit import Implicit
from equilibria.energies.stochastic import Stochastic

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(24, 3))
TARGETS = INPUTS @ RNG.normal(size=(3, 2)) + 0.3 + 0.5 * RNG.normal(size=(24, 2))
ZERO = {"weights": np.zeros((3, 2)), "bias": np.zeros(2)}


def regression(parameters, influence, state, world):
    """At rest the state is the linear prediction; the cost is half its squared error."""
    x, target = world
    prediction = x @ parameters["weights"] + parameters["bias"]
    return 0.5 * jnp.sum((state - prediction) ** 2) + influence * 0.5 * jnp.sum((state - target) ** 2)


def recurrent(parameters, influence, state, world):
    """Coupled units, so that rest has no closed form."""
    x, target = world
    rates = jnp.tanh(state)
    pull = rates @ (x @ parameters["weights"] + parameters["bias"])
    return 0.5 * jnp.sum(state**2) - 0.4 * rates[0] * rates[1] - pull + influence * 0.5 * jnp.sum((rates - target) ** 2)


def least_squares():
    columns = np.hstack([INPUTS, np.ones((24, 1))])
    return np.linalg.lstsq(columns, TARGETS, rcond=None)[0]


def both(parameters):
    return np.vstack([parameters["weights"], parameters["bias"]])


def same(first, second):
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


# A contraction to rest of 1e-4 in 1000 steps would be enough; the largest stiffness here is 1.
QUICK = Implicit(regression, step=0.5, steps=200)


@pytest.mark.parametrize("options", [{}, {"method": "implicit"}, {"sides": "one", "nudge": 0.5}], ids=str)
def test_a_regression_reaches_the_analytic_optimum(options):
    """The cost is quadratic: any nudge has its zero at the optimum. Rest to 6e-6 over a nudge of 0.02 leaves 3e-4."""
    rule = QUICK.rule(0.0, np.zeros(2), **options)
    run = eq.train(ZERO, (INPUTS, TARGETS), rule, steps=300, learning_rate=0.3, key=0)
    np.testing.assert_allclose(both(run.parameters), least_squares(), atol=1e-3)
    missed = np.hstack([INPUTS, np.ones((24, 1))]) @ least_squares() - TARGETS
    assert float(run.history["cost"][-1]) == pytest.approx(0.5 * np.mean(np.sum(missed**2, axis=1)), rel=1e-3)
    assert float(run.history["unconverged"][-1]) == 0


@pytest.mark.parametrize("method", ["two-phase", "implicit", "recurrent", "unrolled"])
def test_the_gradient_is_that_of_the_mean_objective(method):
    """In float64 against jax.grad of the prediction's closed form; two phases of 1e-3 have an error of 1e-6."""
    with jax.enable_x64(True):
        parameters = {"weights": jnp.asarray(RNG.normal(size=(3, 2))), "bias": jnp.ones(2)}
        data = (jnp.asarray(INPUTS), jnp.asarray(TARGETS))

        def objective(parameters):
            predictions = data[0] @ parameters["weights"] + parameters["bias"]
            return jnp.mean(0.5 * jnp.sum((predictions - data[1]) ** 2, axis=1))

        rule = QUICK.rule(0.0, np.zeros(2), method=method, nudge=1e-3)
        found = rule.step(parameters, data, carry={}, index=jnp.arange(24), key=jax.random.key(0))
        assert found.report["cost"] == pytest.approx(float(objective(parameters)), rel=1e-9)
        expected = both(jax.grad(objective)(parameters))
        error = np.abs(both(found.gradient) - expected).max() / np.abs(expected).max()
        assert error < {"two-phase": 2e-6}.get(method, 1e-10)


@pytest.mark.parametrize("sides", ["both", "random"])
def test_a_step_is_the_mean_of_the_examples_gradients(sides):
    system = Implicit(recurrent, step=0.3, steps=500)
    parameters = {"weights": RNG.normal(size=(3, 2)), "bias": np.zeros(2)}
    rule = system.rule(0.0, np.zeros(2), sides=sides, nudge=0.1)
    keys = jax.random.split(jax.random.key(1), 4)
    batch = (INPUTS[:4], TARGETS[:4])
    found = rule.step(parameters, jax.tree.map(jnp.float32, batch), key=jax.random.key(1))
    singles = [
        system.gradient(parameters, 0.0, np.zeros(2), (x, y), sides=sides, nudge=0.1, key=key)
        for x, y, key in zip(*batch, keys, strict=True)
    ]
    for name in parameters:
        expected = np.mean([single.value[name] for single in singles], axis=0)
        np.testing.assert_allclose(found.gradient[name], expected, atol=1e-4)  # rest to 6e-6 over a nudge of 0.1
    assert found.report["cost"] == pytest.approx(np.mean([single.objective for single in singles]), rel=1e-5)


@pytest.mark.parametrize("kind", ["implicit", "stochastic"])
def test_a_run_that_was_cut_is_bit_for_bit_the_run_that_was_not(kind, tmp_path):
    """With everything that changes from step to step: minibatches, a random sign, particles, moments of Adam."""
    if kind == "implicit":
        system = Implicit(recurrent, step=0.3, steps=40)
    else:
        system = Stochastic(recurrent, step=0.3, steps=5, burn=2, chains=3)

    def train(steps, nudge=0.1, **options):
        rule = system.rule(0.0, np.zeros(2), sides="random", nudge=nudge, particles=True)
        return eq.train(ZERO, (INPUTS, TARGETS), rule, steps=steps, batch_size=5, optimiser=optax.adam(0.05),
                        record=range(1, 13), key=3, **options)  # fmt: skip

    whole = train(12)
    train(5, checkpoint=tmp_path)
    rest = train(12, checkpoint=tmp_path, resume=True)
    assert same(whole.parameters, rest.parameters)
    assert same(whole.carry, rest.carry)
    assert whole.history.identical(rest.history)
    assert not same(whole.parameters, ZERO)
    with pytest.raises(ValueError, match="a run with another rule"):
        train(13, nudge=0.2, checkpoint=tmp_path, resume=True)


@pytest.mark.parametrize("options", [{"nudge": 0.3}, {"method": "covariance"}, {"particles": True}], ids=str)
def test_expectations_are_learned(options):
    """At temperature 0.5 the expected prediction is still linear: eight runs agree with least squares within their spread."""
    burn = 0 if "particles" in options else 5
    system = Stochastic(regression, temperature=0.5, step=0.7, steps=20, burn=burn, chains=20)
    rule = system.rule(0.0, np.zeros(2), **options)
    run = eq.train(ZERO, (INPUTS, TARGETS), rule, steps=80, learning_rate=0.15, record=[1, 80], runs=8, key=0)
    found = np.concatenate([run.parameters["weights"], run.parameters["bias"][:, None]], axis=1)
    error = found.std(axis=0, ddof=1) / np.sqrt(8)
    assert error.max() < 0.1
    # 5.4 standard errors of eight runs are passed by chance once in 10^3 (Student, 7 degrees); 8 numbers. The slowest
    # direction of the data still misses (1 - 0.15 x 0.35)^80 = 1% of where it goes.
    away = np.abs(found.mean(axis=0) - least_squares())
    assert (away < 5.4 * error + 0.02 * np.abs(least_squares()).max()).all()
    costs = run.history["cost"].values
    assert (costs[-1] < 0.7 * costs[0]).all()
    assert ((run.history["acceptance"].values > 0.5) & (run.history["acceptance"].values < 1)).all()


def test_whole_numbers_stay_whole():
    """The world holds an index into the parameters, which only whole numbers can be."""

    def lookup(parameters, influence, state, world):
        return 0.5 * (state - parameters[world["kind"]]) ** 2 + influence * 0.5 * (state - world["value"]) ** 2

    data = {"kind": np.array([0, 0, 1, 2, 2, 2]), "value": np.array([1.0, 2.0, 5.0, 6.0, 7.0, 8.0])}
    rule = Implicit(lookup, step=0.5).rule(0.0, 0.0)
    run = eq.train(np.zeros(3), data, rule, steps=300, learning_rate=0.5, key=0)
    np.testing.assert_allclose(run.parameters, [1.5, 5.0, 7.0], atol=1e-2)


def test_particles_go_on_where_they_were():
    """Four steps of 0.3 are too few from the start; over ten epochs they add up, as the parameters hardly move."""
    system = Implicit(regression, step=0.3, steps=4)
    options = {"epochs": 10, "batch_size": 6, "learning_rate": 1e-9, "key": 0}
    rules = [system.rule(0.0, np.ones(2), method="implicit", particles=particles) for particles in (False, True)]
    fresh, kept = (eq.train(ZERO, (INPUTS, TARGETS), rule, **options) for rule in rules)
    assert (fresh.history["unconverged"] == 1).all()
    assert fresh.carry == {}
    assert kept.history["unconverged"][0] == 1
    assert kept.history["unconverged"][-1] == 0
    assert kept.carry["particles"].shape == (24, 2)
    predictions = INPUTS @ np.asarray(kept.parameters["weights"]) + np.asarray(kept.parameters["bias"])
    np.testing.assert_allclose(kept.carry["particles"], predictions, atol=1e-4)
    more = eq.train(kept.parameters, (INPUTS, TARGETS), rules[1], carry=kept.carry, **options)
    assert (more.history["unconverged"] == 0).all()


def test_chains_of_each_example_are_kept():
    rule = Stochastic(recurrent, step=0.3, steps=3, burn=0, chains=4).rule(0.0, np.zeros(2), particles=True)
    run = eq.train(ZERO, (INPUTS, TARGETS), rule, steps=2, batch_size=6, key=0)
    chains = np.asarray(run.carry["particles"])
    assert chains.shape == (24, 4, 2)
    moved = (chains != 0).any(axis=(1, 2))
    assert moved.sum() == 12  # two batches of six were shown
    assert len(np.unique(chains[moved].reshape(-1, 2), axis=0)) > 40  # each chain goes its own way


def test_the_fraction_that_did_not_come_to_rest_is_told():
    """With a step of 1 a stiffness of 1 rests at once, and one of 0.01 not within ten steps."""

    def spring(parameters, influence, state, world):
        return 0.5 * world * (state - parameters) ** 2 + influence * 0.5 * state**2

    rule = Implicit(spring, step=1.0, steps=10).rule(0.0, 0.0, method="implicit")
    found = rule.step(jnp.asarray(2.0), jnp.array([1.0, 0.01, 1.0, 1.0]), key=jax.random.key(0))
    assert float(found.report["unconverged"]) == 0.25


def test_parameters_may_be_a_module():
    """Functions inside the parameters, as in an Equinox network, are left alone."""

    def energy(network, influence, state, world):
        x, target = world
        return 0.5 * jnp.sum((state - network(x)) ** 2) + influence * 0.5 * jnp.sum((state - target) ** 2)

    network = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.key(0))

    def objective(network):
        return jnp.mean(0.5 * jnp.sum((jax.vmap(network)(INPUTS) - TARGETS) ** 2, axis=1))

    rule = Implicit(energy, step=0.5).rule(0.0, jnp.zeros(2), method="recurrent")
    found = rule.step(network, (jnp.float32(INPUTS), jnp.float32(TARGETS)), key=jax.random.key(0))
    expected = jax.tree.leaves(eqx.filter_grad(objective)(network))
    for slope, wanted in zip(jax.tree.leaves(found.gradient), expected, strict=True):
        np.testing.assert_allclose(slope, wanted, atol=1e-4)  # rest to 6e-6, with inputs of up to 3
    run = eq.train(network, (INPUTS, TARGETS), rule, steps=60, optimiser=optax.adam(0.02), key=0)
    assert float(objective(run.parameters)) < 0.5 * float(objective(network))
    assert run.parameters.activation is network.activation


def test_values_do_not_compile_again():
    traces = []

    def energy(parameters, influence, state, world):
        traces.append(1)
        return 0.5 * (state - parameters * world) ** 2 + influence * 0.5 * (state - 1.0) ** 2

    for step, nudge in ((0.5, 0.1), (0.3, 0.2)):
        before = len(traces)
        implicit = Implicit(energy, step=step, steps=round(100 / step)).rule(
            nudge / 10, step, direction=step, nudge=nudge
        )
        sampled = Stochastic(energy, temperature=step, step=step, steps=3, chains=2).rule(0.0, step, nudge=nudge)
        for rule in (implicit, sampled):
            eq.train(jnp.asarray(step), jnp.array([1.0, 2.0]), rule, steps=2, learning_rate=step, key=0)
    assert len(traces) == before


REFUSED = {
    "a method": (lambda: QUICK.rule(0.0, np.zeros(2), method="covariance"), "method: got 'covariance'"),
    "sides": (lambda: QUICK.rule(0.0, np.zeros(2), sides="left"), "sides: got 'left'"),
    "no nudge": (lambda: QUICK.rule(0.0, np.zeros(2), nudge=0.0), "nudge: got 0.0"),
    "a direction": (lambda: QUICK.rule(0.0, np.zeros(2), direction=np.ones(2)), "direction: got shapes"),
    "no start": (lambda: train(start=None), "start: got None"),
    "a start": (lambda: train(start=np.array([0.0, np.nan])), "start: got nan"),
    "an influence": (lambda: train(influence=np.inf), "influence: got an infinity"),
    "nothing to learn": (lambda: train(model={"weights": 1}), "model: got {'weights': 1}"),
    "data without examples": (lambda: train(data=(INPUTS, 1.0)), "data: got .*; allowed: arrays with the examples"),
    "data that are no numbers": (lambda: train(data=(INPUTS, TARGETS * np.nan)), "data: got nan at index"),
    "data of two lengths": (lambda: train(data=(INPUTS, TARGETS[:3])), r"data: got arrays with \[3, 24\] examples"),
}


def train(start=np.zeros(2), influence=0.0, model=ZERO, data=(INPUTS, TARGETS)):
    return eq.train(model, data, QUICK.rule(influence, start), steps=1, key=0)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_reason(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()
