"""The E-steps against enumeration, the bound and its gradient against brute force, and learning."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import equilibria as eq
import oracle
from equilibria.data import planted_data, planted_receptive_fields
from equilibria.equilibrators import exact
from equilibria.equilibrators.cavity import Cavity
from equilibria.equilibrators.conditioned import conditioned
from equilibria.learn.journey import Diverged
from equilibria.measure.matching import match_fields
from equilibria.synapses import bound, distribution
from equilibria.synapses import e_step as steps
from equilibria.synapses.distribution import Synapses
from equilibria.synapses.learn import E_STEPS, learn_synapses
from equilibria.synapses.paper_cavity import PaperCavity

SIZE, HIDDEN = 8, 3
FIELDS = steps.Fields(jnp.array([[0.3, -1.2, 0.5], [1.0, 0.2, -0.7]]), jnp.array([0.4, 0.6]))


e_step = eqx.filter_jit(steps.e_step)


def small(seed=0, temperature=0.8, bias=0.2, scale=0.7):
    keys = jax.random.split(jax.random.key(seed))
    natural = scale * jax.random.normal(keys[0], (SIZE, HIDDEN))
    return Synapses(natural, bias * jax.random.normal(keys[1], (SIZE,)), temperature)


def enumerated(synapses, fields=FIELDS):
    """ln Z, <sigma h>, <sigma> and 1 - <h>^2 of the equivalent machine, averaged over its fields, in NumPy."""
    totals = [0.0, 0.0, 0.0, 0.0]
    for values, weight in zip(np.asarray(fields.values), np.asarray(fields.weights), strict=True):
        brute = oracle.enumerate_states(synapses.equivalent(jnp.asarray(values)))
        visible, hidden, p = brute.states[:, :SIZE], brute.states[:, SIZE:], brute.probabilities
        parts = brute.log_partition, np.einsum("s,si,sm->im", p, visible, hidden), p @ visible, 1 - (p @ hidden) ** 2
        totals = [total + weight * part for total, part in zip(totals, parts, strict=True)]
    return totals


def moments(how, synapses, chains=len(FIELDS.weights), key=0):
    keys = jax.random.split(jax.random.key(key))
    start = {
        "visible": eq.Spin().sample(keys[0], jnp.zeros((chains, SIZE))),
        "hidden": eq.Spin().sample(keys[1], jnp.zeros((chains, HIDDEN))),
    }
    return eqx.filter_jit(steps.e_step)(how, synapses, FIELDS, start, jax.random.key(key + 1))


def compared(found, expected, tolerance):
    parts = found.log_partition(), found.correlation, found.visible, found.spread
    for got, want in zip(parts, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=tolerance)


def test_exact_e_step():
    compared(moments(eq.Exact(), small()), enumerated(small()), 5e-6)


def test_the_sum_over_hidden_states_in_chunks(monkeypatch):
    monkeypatch.setattr(exact, "_CHUNK", 2)
    network = small().equivalent(FIELDS.values)
    expected = [oracle.enumerate_states(small().equivalent(z)).log_partition for z in FIELDS.values]
    found = exact.log_partition_function(conditioned(network, (), 1.0))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_cavity_e_steps():
    # Couplings of at most 1/(0.8 sqrt 8) = 0.44 and means near 0.5: loops of four add about 3 * 8 * 0.2^4 / 2 = 0.02.
    synapses = small()
    expected = enumerated(synapses)
    plain, corrected = (moments(Cavity(response=response), synapses) for response in (False, True))
    for found in (plain, corrected):
        compared(found, expected, 0.05)
        assert float(found.unconverged) == 0
    worst, better = (np.abs(found.correlation - expected[1]).max() for found in (plain, corrected))
    assert better < worst / 2


def test_the_papers_moments_are_the_weak_coupling_limit():
    """Equations (10), (11) and (15) with N = 100 couplings of order 1/10, transcribed in NumPy, against ours."""
    from benchmarks.synapses import paper_cavity

    rng = np.random.default_rng(0)
    synapses = Synapses(0.5 * rng.standard_normal((100, 3)))
    z = rng.standard_normal((4, 3))
    fields = steps.Fields(jnp.asarray(z, float), jnp.full(4, 0.25))
    start = {"visible": jnp.zeros((4, 100)), "hidden": jnp.zeros((4, 3))}
    found = e_step(Cavity(), synapses, fields, start, jax.random.key(0))
    log_partition, mean, correlation = paper_cavity(np.asarray(synapses.mean, np.float64), z, iterations=30)
    # Each of the 300 pairs differs by the order of w^4, w = 0.1 * 0.45 (rms); the paper's measure lacks 2^P.
    np.testing.assert_allclose(found.log_partition(), log_partition.mean() + 3 * np.log(2), atol=300 * 0.045**4 * 2)
    np.testing.assert_allclose(found.spread, (1 - mean**2).mean(axis=0), atol=1e-2)
    # The E-step named after the paper is the same transcription, compiled: single precision, and messages at rest to 1e-4.
    theirs = e_step(PaperCavity(tolerance=1e-6), synapses, fields, start, jax.random.key(0))
    np.testing.assert_allclose(theirs.log_partition(), log_partition.mean() + 3 * np.log(2), atol=1e-4)
    width = np.asarray(synapses.width, np.float64)  # it averages (14) as it is printed
    np.testing.assert_allclose(theirs.spread, (z * mean).mean(axis=0) / width, atol=2e-4)
    np.testing.assert_allclose(theirs.correlation, correlation.mean(axis=0), atol=1e-4)
    # (15) smears the hidden field by its whole width, although the unit's own pull on it is part of that: its
    # correlations are too small by about a tenth, those of the pair by a thousandth.
    exact = e_step(eq.Exact(), synapses, fields, start, jax.random.key(0)).correlation
    ours, theirs = (
        float(np.vdot(c, exact) / np.vdot(exact, exact)) for c in (found.correlation, correlation.mean(axis=0))
    )
    assert abs(ours - 1) < 0.005
    assert 0.85 < theirs < 0.95


def test_gibbs_e_step():
    copies, synapses = 4000, small()
    found = moments(eq.Sweeps(30), synapses, chains=2 * copies)
    expected = enumerated(synapses)
    # Standard error of an average of 2 x 4000 signs is at most 0.011; 5 of them for 24 + 8 numbers.
    np.testing.assert_allclose(found.correlation, expected[1], atol=0.056)
    np.testing.assert_allclose(found.visible, expected[2], atol=0.056)
    np.testing.assert_allclose(found.spread, expected[3], atol=0.056)


def test_the_square_of_a_mean_is_estimated_without_bias():
    """With two copies for each field 1 - <h>^2 is right on average; the square of each copy's own would not be."""
    synapses = small()
    found = jnp.stack([moments(eq.Sweeps(20), synapses, chains=4, key=seed).spread for seed in range(400)])
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - enumerated(synapses)[3]) < 5 * error).all()


def test_divergence():
    synapses = small()
    mean, prior = np.asarray(synapses.mean, np.float64), 0.3
    expected = sum(((1 + x * mean) / 2 * np.log((1 + x * mean) / (1 + x * prior))).sum() for x in (-1, 1))
    np.testing.assert_allclose(distribution.divergence(synapses, np.arctanh(prior)), expected, rtol=1e-5)
    slope = jax.grad(lambda natural: distribution.divergence(Synapses(natural), np.arctanh(prior)))(synapses.natural)
    # Equation (12) in the mean; in the natural parameter it has the factor 1 - lambda^2.
    np.testing.assert_allclose(slope, (synapses.natural - np.arctanh(prior)) * synapses.variance, rtol=1e-4, atol=1e-6)


def gaussian_bound(natural, bias, temperature, data, nodes=24):
    """The bound (6)-(9) in float64 by direct sums over visible states and fine quadrature, differentiable."""
    size, hidden = natural.shape
    mean = jnp.tanh(natural)
    beta = 1 / temperature
    width = jnp.sqrt(jnp.sum(1 - mean**2, axis=0) / size)
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    spins = jnp.asarray(list(product([-1.0, 1.0], repeat=size)))

    def log_cosh(x):
        return jnp.logaddexp(x, -x)

    data_field = data @ mean / np.sqrt(size)
    energy = (
        sum(w * log_cosh(beta * (data_field + width * z)).sum() for w, z in zip(weights, points, strict=True))
        + (data @ bias).sum()
    )
    field = spins @ mean / np.sqrt(size)
    grid = np.array(list(product(points, repeat=hidden)))
    mass = np.prod(np.array(list(product(weights, repeat=hidden))), axis=1)
    inside = log_cosh(beta * (field + width * grid[:, None])).sum(axis=-1) + spins @ bias
    log_partition = mass @ jax.nn.logsumexp(inside, axis=1)
    plus, minus = (1 + mean) / 2, (1 - mean) / 2
    kl = (plus * jnp.log(2 * plus) + minus * jnp.log(2 * minus)).sum()
    return energy - len(data) * log_partition - kl


def test_bound_and_gradient_against_brute_force():
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        natural, bias = jnp.asarray(0.6 * rng.standard_normal((5, 2))), jnp.asarray(0.2 * rng.standard_normal(5))
        data = jnp.asarray(rng.choice([-1.0, 1.0], (6, 5)))
        value, (slope, bias_slope) = jax.jit(
            jax.value_and_grad(lambda natural, bias: gaussian_bound(natural, bias, 1.0, data, 16), argnums=(0, 1))
        )(natural, bias)
        synapses, fields = Synapses(natural, bias), steps.quadrature(2, 25)
        start = {"visible": jnp.zeros((625, 5)), "hidden": jnp.zeros((625, 2))}
        found = bound.ascent(
            synapses,
            bound.expected_energy(synapses, data, jnp.ones(6), 25),
            e_step(eq.Exact(), synapses, fields, start, jax.random.key(0)),
            6,
            0.0,
        )
    # Quadrature: the brute force's 16 Gauss points are right to about 1e-4 for tanh of a normal variable.
    np.testing.assert_allclose(found.bound(), value, atol=1e-3)
    np.testing.assert_allclose(found.mean * synapses.variance, slope, atol=2e-3)
    np.testing.assert_allclose(found.bias, bias_slope, atol=2e-3)


def test_gradient_is_that_of_our_own_bound():
    """With the same quadrature, automatic differentiation of the bound gives the z/Xi form, ours is Stein's."""
    synapses = small(temperature=1.0)
    data = jnp.asarray(np.random.default_rng(2).choice([-1.0, 1.0], (5, SIZE)))
    fields = steps.quadrature(HIDDEN, 9)

    def parts(natural):
        here = Synapses(natural, synapses.bias)
        expected = bound.expected_energy(here, data, jnp.ones(5), 13)
        return here, expected

    def whole(natural):
        here, expected = parts(natural)
        log_partition = fields.weights @ exact.log_partition_function(
            conditioned(here.equivalent(fields.values), (), 1.0)
        )
        return expected.value() - 5 * log_partition - distribution.divergence(here)

    here, expected = parts(synapses.natural)
    start = {"visible": jnp.zeros((9**3, SIZE)), "hidden": jnp.zeros((9**3, HIDDEN))}
    found = bound.ascent(here, expected, e_step(eq.Exact(), here, fields, start, jax.random.key(0)), 5, 0.0)
    value, slope = jax.value_and_grad(whole)(synapses.natural)
    np.testing.assert_allclose(found.bound(), value, rtol=1e-5)
    np.testing.assert_allclose(found.mean * here.variance, slope, atol=5e-3)  # error of a rule of 9 points


def test_the_central_limit_is_the_only_approximation():
    """For many neurons the bound with normal sums is the bound with sums over all weights."""
    rng = np.random.default_rng(3)
    size = 12
    synapses = Synapses(0.5 * rng.standard_normal((size, 1)))
    weights = np.array(list(product([-1.0, 1.0], repeat=size)))
    probability = np.prod((1 + weights * np.asarray(synapses.mean, np.float64)[:, 0]) / 2, axis=1)
    data = rng.choice([-1.0, 1.0], (4, size))
    # One hidden unit: Z does not depend on the signs of its weights.
    log_partition = size * np.log(2) + np.log(2) + size * np.log(np.cosh(1 / np.sqrt(size)))
    exact = probability @ (np.logaddexp(0, 2 * weights @ data.T / np.sqrt(size)) - weights @ data.T / np.sqrt(size))
    fields = steps.quadrature(1, 13)
    start = {"visible": jnp.zeros((13, size)), "hidden": jnp.zeros((13, 1))}
    found = e_step(eq.Exact(), synapses, fields, start, jax.random.key(0))
    energy = bound.expected_energy(synapses, jnp.asarray(data), jnp.ones(4), 13)
    # Third and fourth cumulants of a sum of 12 weights: of the order of 1/12.
    np.testing.assert_allclose(energy.value() / 4, exact.mean(), atol=0.03)
    np.testing.assert_allclose(found.log_partition(), log_partition, atol=0.1)


def test_certain_weights_have_a_finite_gradient():
    synapses = Synapses(jnp.full((SIZE, HIDDEN), 30.0))
    found = moments(eq.Exact(), synapses)
    expected = bound.expected_energy(synapses, jnp.ones((3, SIZE)), jnp.ones(3), 13)
    assert jnp.isfinite(bound.ascent(synapses, expected, found, 3, 0.0).mean).all()


def test_synapses_say_what_they_know():
    synapses = Synapses(jnp.array([[0.0, 3.0], [-1.0, -30.0]]))
    assert (np.abs(synapses.mean) <= 1).all()
    np.testing.assert_allclose(synapses.entropy[0, 0], 1.0)
    np.testing.assert_allclose(synapses.entropy[1, 1], 0.0, atol=1e-6)
    draws = jax.vmap(lambda key: synapses.sample(key=key))(jax.random.split(jax.random.key(0), 4000))
    # Five standard errors of a mean of signs.
    np.testing.assert_allclose(draws.mean(axis=0), synapses.mean, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(synapses.variance, 1 - synapses.mean**2, atol=1e-6)


def test_the_machine_is_an_ordinary_network():
    synapses = Synapses(jnp.asarray(np.random.default_rng(0).standard_normal((6, 2))), temperature=0.5)
    network = synapses.network()
    np.testing.assert_allclose(np.abs(network.couplings[0].weights), 2 / np.sqrt(6), rtol=1e-6)
    assert eq.sample(network, eq.Sweeps(5), chains=3, key=0)["visible"].shape == (3, 6)


def test_compensation_keeps_mean_fields():
    rng = np.random.default_rng(4)
    synapses = Synapses(rng.standard_normal((10, 3)), bias=rng.standard_normal(10))
    data = rng.choice([-1.0, 1.0], (50, 10), p=[0.8, 0.2])
    network = distribution.compensated(synapses, data)
    assert (np.sign(network.couplings[0].weights) == synapses.decoded).all()
    found = network.field({"visible": jnp.asarray(data)}, "hidden").mean(axis=0)
    expected = (data @ (synapses.scale * synapses.mean)).mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


# Learning


@pytest.fixture(scope="module")
def planted():
    fields = planted_receptive_fields(2, 60, 0.0, key=jax.random.key(1))
    return np.asarray(fields), np.asarray(planted_data(fields, 480, key=2))


@pytest.mark.parametrize(
    "how", ["exact", *(pytest.param(how, marks=pytest.mark.slow) for how in ("cavity", "response", "gibbs"))]
)
def test_planted_fields_are_found(planted, how):
    fields, data = planted
    run = learn_synapses(data, 2, how=how, steps=150, every=50, learning_rate=0.02, key=0)
    overlaps = match_fields(run.synapses.decoded.T, fields).overlaps
    # As good as the truth itself as a start, where nothing has to be found, but for one weight of each field.
    truth = learn_synapses(
        data, 2, how="exact", start=Synapses(2 * fields.T), steps=150, every=150, learning_rate=0.02, key=0
    )
    known = match_fields(truth.synapses.decoded.T, fields).overlaps.mean()
    assert overlaps.mean() > known - 2 / 60
    assert known > 0.75  # a matched guess has 0.1
    history = run.history
    assert float(history.divergence[-1]) > float(history.divergence[0])
    assert float(history.divergence[-1]) < 120 * np.log(2)
    assert ("bound" in history) == (how != "gibbs")
    if how != "gibbs":
        assert float(history.bound[-1]) > float(history.bound[0])
        assert float(history.unconverged.max()) == 0
    if how == "exact":  # and it is a maximum of the bound: weights known a little better or worse have a lower one
        for factor in (0.95, 1.05):
            beside = Synapses(factor * run.synapses.natural)
            moved = learn_synapses(data, 2, how="exact", start=beside, steps=1, learning_rate=0.02, key=0)
            assert float(moved.history.bound[0]) < float(history.bound[-1])


def test_data_sets_side_by_side_are_learned_as_if_alone(planted):
    _, data = planted
    keys = jax.random.split(jax.random.key(0), 2)
    both = learn_synapses([data[:200], data[:300]], 2, steps=5, key=jax.random.key(0))
    assert both.history.bound.dims == ("step", "set")
    start = Synapses(0.1 * jax.random.normal(jax.random.fold_in(keys[0], 1), (60, 2)))
    alone = learn_synapses(data[:200], 2, steps=5, start=start, key=3)
    np.testing.assert_allclose(both.synapses.natural[0], alone.synapses.natural, atol=1e-4)
    np.testing.assert_allclose(both.history.bound[:, 0], alone.history.bound, rtol=1e-5)


def test_minibatches_prior_bias_and_optimiser(planted):
    fields, data = planted
    run = learn_synapses(
        data, 2, steps=300, every=300, batch_size=120, prior=0.2, learn_bias=True, optimiser=optax.adam(0.05), key=0
    )
    assert match_fields(run.synapses.decoded.T, fields).overlaps.mean() > 0.75
    assert np.abs(run.synapses.bias).max() > 0
    without = learn_synapses(data[:2], 2, steps=200, every=200, prior=0.6, how="exact", learning_rate=0.1, key=0)
    np.testing.assert_allclose(np.median(without.synapses.mean), 0.6, atol=0.05)  # almost no data: the prior


def test_weights_are_shares_of_the_examples_that_count():
    rows = np.random.default_rng(1).choice([-1, 1], (40, 10))
    options = {"steps": 5, "key": 2}
    plain = learn_synapses(rows, 2, **options)
    same = learn_synapses(rows, 2, weights=np.full(40, 7.0), **options)
    np.testing.assert_allclose(same.synapses.mean, plain.synapses.mean, atol=1e-6)
    counted = np.arange(40.0) % 3 > 0
    without = learn_synapses(rows, 2, weights=counted.astype(float), batch_size=10, **options)
    alone = learn_synapses(rows[counted], 2, batch_size=10, **options)
    np.testing.assert_allclose(without.synapses.mean, alone.synapses.mean, atol=1e-6)
    # Of (1, 3) the shares are (1/2, 3/2): half of what four rows say, and the whole of what the prior says.
    natural = 2 * np.random.default_rng(2).normal(size=(10, 2))
    options["start"], likely = Synapses(natural), np.stack([rows[0], np.sign(natural[:, 0])])
    runs = [(likely, [1, 3]), (likely[[0, 1, 1, 1]], None), (likely, None)]
    first = [learn_synapses(some, 2, weights=counts, **options).history.isel(step=0) for some, counts in runs]
    weighted, four, two = (float(run.bound + run.divergence) for run in first)
    assert weighted == pytest.approx(four / 2, rel=1e-5)
    assert weighted != pytest.approx(two, rel=1e-2)


def test_resuming_is_the_same_as_not_stopping(planted, tmp_path):
    _, data = planted
    whole = learn_synapses(data, 2, steps=8, every=2, key=0)
    learn_synapses(data, 2, steps=4, every=2, key=0, checkpoint=tmp_path, checkpoint_every=2)
    with pytest.raises(ValueError, match="resume=True"):
        learn_synapses(data, 2, steps=8, every=2, key=0, checkpoint=tmp_path)
    resumed = learn_synapses(data, 2, steps=8, every=2, key=0, checkpoint=tmp_path, resume=True)
    assert (whole.synapses.natural == resumed.synapses.natural).all()
    assert whole.history.identical(resumed.history)
    with pytest.raises(ValueError, match="a run with another"):
        learn_synapses(data[:100], 2, steps=8, key=0, checkpoint=tmp_path, resume=True)
    for change, named in (
        ({"prior": 0.2}, "rule"),
        ({"learn_bias": True}, "rule"),
        ({"how": "cavity"}, "rule"),
        ({"temperature": 2.0}, "model"),
        ({"learning_rate": 0.2}, "learning_rate"),
        ({"optimiser": optax.adam(0.1)}, "optimiser"),
        ({"key": 1}, "key"),
    ):
        with pytest.raises(ValueError, match=f"a run with another {named}: .*, here "):
            learn_synapses(data, 2, **{"steps": 8, "key": 0, "checkpoint": tmp_path, "resume": True} | change)


def test_observations_are_recorded(planted):
    _, data = planted
    run = learn_synapses(data, 2, steps=4, every=2, metrics=lambda s: {"observed": s.mean.T @ s.mean}, key=0)
    assert run.history.observed.shape == (3, 2, 2)
    assert run.history.step.values.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [[0.3, 1.0]]}, r"data: got 0.3 among the values; allowed: -1 and \+1 .*threshold"),
        ({"data": [[np.nan, 1.0]]}, "data: got nan"),
        ({"data": np.zeros((0, 3))}, "data: got shape"),
        ({"data": [np.ones((2, 3)), np.ones((2, 4))]}, "one number of neurons"),
        ({"hidden_size": 0}, "hidden_size: got 0"),
        ({"hidden_size": 26, "how": "exact"}, "exact E-step with 26 hidden units.*'cavity', 'response' or 'gibbs'"),
        ({"how": "magic"}, "how: got 'magic'"),
        ({"temperature": 0.0}, "temperature: got 0"),
        ({"prior": 1.0}, "prior: got 1"),
        ({"prior": np.zeros(7)}, "prior: got shape"),
        ({"fields": 0}, "fields: got 0"),
        ({"learning_rate": -1.0}, "learning_rate: got -1"),
        ({"start": Synapses(np.zeros((2, 2)))}, "start: got shape"),
        ({"weights": [1.0]}, r"weights: got shape \(1,\); allowed: shape \("),
        (
            {"data": [np.ones((2, 3)), np.ones((3, 3))], "weights": [1.0, 1.0]},
            "weights: got weights for several data sets",
        ),
    ],
)
def test_refusals(change, message):
    arguments = {"data": np.ones((4, 3)), "hidden_size": 2, "steps": 2, "key": 0, **change}
    with pytest.raises(ValueError, match=message):
        learn_synapses(**arguments)


def test_zero_and_one_are_taken_with_a_note():
    with pytest.warns(UserWarning, match="0 and 1 are taken"):
        learn_synapses(np.eye(4), 2, steps=1, key=0)


def test_messages_that_do_not_settle_are_reported(planted):
    _, data = planted
    run = learn_synapses(data, 2, how=Cavity(steps=1, tolerance=1e-7), steps=3, key=0)
    assert float(run.history.unconverged.max()) > 0


def test_divergence_is_an_error(planted):
    _, data = planted
    with pytest.raises(Diverged, match="smaller learning rate"):
        learn_synapses(data, 2, steps=3, learning_rate=3e38, key=0)


def test_one_draw_for_all_states_is_not_the_average_over_weights():
    """One hidden neuron: ln Z is the same for all weights of +-1, but (9) makes it smaller the less is known of them."""
    truth = 101 * np.log(2) + 100 * np.log(np.cosh(0.1))
    start = {"visible": jnp.zeros((13, 100)), "hidden": jnp.zeros((13, 1))}
    values = [
        float(
            e_step(
                eq.Exact(), Synapses(jnp.full((100, 1), n)), steps.quadrature(1, 13), start, jax.random.key(0)
            ).log_partition()
        )
        for n in (0.0, 6.0)
    ]
    # A half of beta^2 against the mean of ln cosh z, 0.3746: so much is missing where nothing is known, for each example.
    np.testing.assert_allclose(truth - values[0], 0.5 - 0.3746, atol=2e-3)
    np.testing.assert_allclose(values[1], truth, atol=2e-3)


def test_what_the_papers_correlation_leaves_out():
    """Two hidden neurons with the same field: (15c) counts the edge alone, and misses most of <sigma h>."""
    random = np.random.default_rng(1)
    field = np.abs(random.standard_normal(60))
    synapses = Synapses(np.stack([field, field], axis=1))
    fields = steps.Fields(jnp.zeros((1, 2)), jnp.ones(1))
    start = {"visible": jnp.zeros((1, 60)), "hidden": jnp.zeros((1, 2))}
    truth, theirs, ours = (
        e_step(how, synapses, fields, start, jax.random.key(0)).correlation
        for how in (eq.Exact(), PaperCavity(), Cavity(response=True))
    )
    size = float(np.linalg.norm(truth))
    # Each neuron hears the other through the shared field: <h h'> is near 0.5, of which the edge knows nothing.
    assert float(np.linalg.norm(theirs - truth)) > 0.3 * size
    assert float(np.linalg.norm(ours - truth)) < 0.5 * float(np.linalg.norm(theirs - truth))


@pytest.mark.parametrize("name", sorted(E_STEPS))
def test_every_named_e_step_brings_weak_couplings_to_equilibrium(name):
    """Couplings of 0.02 rms: second orders of them are below the noise of 8,000 draws, and far below single moments."""
    synapses = small(scale=0.05, bias=0.5)
    expected = enumerated(synapses)
    found = moments(E_STEPS[name](), synapses, chains=8000 if name == "gibbs" else len(FIELDS.weights))
    noise = 0.06 if name == "gibbs" else 2e-3
    np.testing.assert_allclose(found.visible, expected[2], atol=noise)
    np.testing.assert_allclose(found.correlation, expected[1], atol=noise)
    assert np.abs(expected[2]).max() > 0.3
    assert np.abs(expected[1]).max() > 0.1


def test_the_best_of_several_starts_is_kept():
    random = np.random.default_rng(0)
    sets = [random.choice([-1, 1], (20, 8)) for _ in range(2)]
    options = {"steps": 5, "every": 5, "key": 3, "show_progress": False}
    every = eq.learn_synapses([sets[0]] * 3 + [sets[1]] * 3, 2, **options)
    best = eq.learn_synapses(sets, 2, starts=3, **options)
    bounds = every.history["bound"].values[-1].reshape(2, 3)
    assert np.unique(bounds).size == 6
    np.testing.assert_array_equal(best.history["bound"].values[-1], bounds.max(axis=1))
    kept = np.asarray(every.synapses.natural)[bounds.argmax(axis=1) + np.array([0, 3])]
    np.testing.assert_array_equal(best.synapses.natural, kept)
    with pytest.raises(ValueError, match="starts: got 2"):
        eq.learn_synapses(sets[0], 2, starts=2, how="gibbs", key=0)
    with pytest.raises(ValueError, match="starts: got 2"):
        eq.learn_synapses(sets[0], 2, starts=2, start=every.synapses, key=0)


E_STEP_ERRORS = {
    # Exact sums are right to rounding; message passing misses loops of four, some 0.02 of ln Z for each of 5 examples;
    # the expansions miss what lies beyond their order.
    "exact": (eq.Exact(), 1e-3),
    "cavity": (Cavity(), 0.1),
    "response": (Cavity(response=True), 0.1),
    "naive mean field": (eq.MeanField(order=1), 3.0),
    "TAP": (eq.MeanField(order=2), 0.3),
    "third order": (eq.MeanField(order=3), 0.3),
    "gibbs": (eq.Sweeps(5), None),
    "tempered": (eq.Tempered(5, rungs=3), None),
    "means": (eq.Sweeps(20, update="mean"), None),
}


@pytest.mark.parametrize("name", E_STEP_ERRORS)
def test_every_equilibrator_gives_the_bound_within_its_error_or_says_that_it_has_none(name):
    how, error = E_STEP_ERRORS[name]
    data = planted_data(planted_receptive_fields(2, 12, key=1), 5, key=2)
    options = {"steps": 3, "every": 3, "key": 0, "show_progress": False}
    exact_bound = learn_synapses(data, 2, how=eq.Exact(), **options).history["bound"].values[0]
    history = learn_synapses(data, 2, how=how, **options).history
    assert how.knows_log_partition == (error is not None) == ("bound" in history)
    if error is not None:
        assert history["bound"].values[0] == pytest.approx(exact_bound, abs=error)  # the same start: step 0
    else:
        with pytest.raises(ValueError, match="does not know the bound"):
            learn_synapses(data, 2, how=how, starts=2, **options)
