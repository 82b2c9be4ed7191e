"""Partition functions and likelihoods against enumeration, for every pair of units."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle

UNITS = {
    "binary": eq.Binary(),
    "spin": eq.Spin(),
    "gaussian": eq.Gaussian(0.8),
    "onehot": eq.OneHot(),
    "clipped": eq.Clipped(2.0),
    "potts": eq.Potts(2),
    "relu": eq.ReLU(1.5),
    "double": eq.DoubleReLU(1.0, 2.0, -0.5),
}
PAIRS = [
    ("binary", "binary"),
    ("spin", "binary"),
    ("binary", "spin"),
    ("gaussian", "binary"),
    ("spin", "gaussian"),
    ("gaussian", "gaussian"),
    ("onehot", "spin"),
    ("clipped", "binary"),
    ("binary", "relu"),
    ("spin", "double"),
    ("potts", "relu"),
    ("relu", "binary"),
]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


def machine(pair, scale=0.4):
    network = eq.rbm(4, 3, visible=UNITS[pair[0]], hidden=UNITS[pair[1]], scale=scale, key=5)
    return machines.with_biases(network, 3)


def states_of(layer):
    """Every configuration of a layer, without the unit's own enumeration."""
    if isinstance(layer.unit, eq.OneHot):
        return np.eye(layer.size)
    if isinstance(layer.unit, eq.Potts):
        sites = product(np.eye(layer.unit.states), repeat=layer.size // layer.unit.states)
        return np.array([np.concatenate(blocks) for blocks in sites])
    return np.array(list(product(layer.unit.levels, repeat=layer.size)))


def log_integral(layer, fields, temperature):
    """ln of the sum or integral over a layer in these fields (..., size), in NumPy and float64."""
    if isinstance(layer.unit, eq.Gaussian):
        variance = 1 / float(layer.unit.stiffness)
        return (fields**2 * variance / (2 * temperature) + np.log(2 * np.pi * variance * temperature) / 2).sum(-1)
    if isinstance(layer.unit, eq.Clipped):
        points, weights = np.polynomial.legendre.leggauss(60)
        points, weights = (points + 1) / 2, weights / 2
        exponents = fields[..., None] * points - float(layer.unit.stiffness) * points**2 / 2
        return np.log((weights * np.exp(exponents / temperature)).sum(-1)).sum(-1)
    if isinstance(layer.unit, (eq.ReLU, eq.DoubleReLU)):
        sides = (0.0, 30.0), (-30.0, 0.0)
        total = 0.0
        for low, high in sides[: 1 + isinstance(layer.unit, eq.DoubleReLU)]:
            points, weights = np.polynomial.legendre.leggauss(400)
            points, weights = low + (high - low) * (points + 1) / 2, (high - low) * weights / 2
            stiffness = float(layer.unit.below if low < 0 else layer.unit.stiffness)
            own = stiffness * points**2 / 2 + float(getattr(layer.unit, "threshold", 0.0)) * np.abs(points)
            total = total + (weights * np.exp((fields[..., None] * points - own) / temperature)).sum(-1)
        return np.log(total).sum(-1)
    return np.log(np.exp(fields @ states_of(layer).T / temperature).sum(-1))


def brute_log_z(network, temperature=1.0):
    """ln Z by summing the states of one layer, the other in closed form or by quadrature; float64."""
    visible, hidden = network.layers
    weights = np.asarray(network.couplings[0].weights, np.float64)
    biases = [np.asarray(layer.bias, np.float64) for layer in network.layers]
    if visible.unit.levels is None and hidden.unit.levels is None:
        stiffness = [float(layer.unit.stiffness) for layer in network.layers]
        precision = np.block([[stiffness[0] * np.eye(4), -weights], [-weights.T, stiffness[1] * np.eye(3)]])
        bias = np.concatenate(biases)
        whole = bias @ np.linalg.inv(precision) @ bias / temperature + 7 * np.log(2 * np.pi * temperature)
        return (whole - np.log(np.linalg.det(precision))) / 2
    if visible.unit.levels is None:
        visible, hidden, weights, biases = hidden, visible, weights.T, biases[::-1]
    states = states_of(visible)
    logs = states @ biases[0] / temperature + log_integral(hidden, states @ weights + biases[1], temperature)
    return np.log(np.exp(logs).sum())


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
@every_pair
def test_exact_log_partition(pair, temperature):
    network = machine(pair)
    found = eq.log_partition(network, temperature=temperature)
    assert found.value == pytest.approx(brute_log_z(network, temperature), abs=3e-5)
    assert found.error == 0


@pytest.mark.parametrize("name", machines.DISCRETE)
def test_exact_of_every_constructor(name):
    network = machines.DISCRETE[name]
    assert eq.log_partition(network).value == pytest.approx(oracle.enumerate_states(network).log_partition, abs=2e-5)


@every_pair
def test_annealing_brackets_it(pair):
    network, temperature = machine(pair), 1.5
    found = eq.log_partition(network, "ais", temperature=temperature, chains=400, steps=150, burn_in=50, key=7)
    truth = brute_log_z(network, temperature)
    assert abs(found.value - truth) < 5 * found.error
    assert 0 < found.error < 0.05
    assert 200 < found.effective <= 400
    # Both ends scatter by about one error, and the low one is low, the high one high, only on average.
    assert found.bracket[0] - 5 * found.error < truth < found.bracket[1] + 5 * found.error


@pytest.mark.parametrize("name", ["layered", "skip", "dense", "hopfield", "dense layers"])
def test_annealing_of_other_networks(name):
    network = machines.DISCRETE[name]
    found = eq.log_partition(network, "ais", chains=400, steps=150, reverse=False, key=7)
    assert abs(found.value - oracle.enumerate_states(network).log_partition) < 5 * found.error


def test_data_make_annealing_sharper():
    """Neurons with strong fields: from the right means the weights hardly scatter."""
    network = eq.rbm(30, 4, scale=0.05, key=0)
    biases = jnp.linspace(-4, 4, 30)
    network = eq.Network([eq.Layer("visible", eq.Binary(), biases), network.layers[1]], network.couplings)
    draws = eq.sample(network, eq.Sweeps(30), chains=500, key=1)["visible"]
    options = {"chains": 100, "steps": 10, "reverse": False, "key": 2}
    informed = eq.log_partition(network, "ais", data=draws, **options)
    assert abs(informed.value - eq.log_partition(network).value) < 5 * informed.error
    assert informed.effective > 95


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not {"onehot", "potts"} & set(pair)], ids="-".join)
def test_bethe_is_right_at_weak_coupling(pair):
    """Both expansions are exact to second order: the error falls at least as the cube of the couplings."""
    errors = []
    for scale in (0.2, 0.1):
        network = machine(pair, scale)
        errors.append(abs(eq.log_partition(network, "bethe").value - brute_log_z(network)))
    assert errors[0] < 5e-3
    assert errors[1] < errors[0] / 5 + 1e-5  # single precision


@pytest.mark.parametrize("size", [15, pytest.param(25, marks=pytest.mark.slow)])
def test_up_to_25_neurons_on_one_side(size):
    """A machine without couplings has a known sum, however many states it is taken over."""
    network = machines.with_biases(eq.rbm(size, 26, scale=0.0, key=0), 1)
    truth = sum(np.logaddexp(0, np.asarray(layer.bias, float)).sum() for layer in network.layers)
    assert eq.log_partition(network).value == pytest.approx(truth, rel=1e-5)
    with pytest.raises(ValueError, match=r"6.7e\+07 states .* allowed: at most 2\^25"):
        eq.log_partition(eq.rbm(26, 26, key=0))


def test_a_machine_without_a_law_is_said_to_have_none():
    network = eq.rbm(3, 2, visible=eq.Gaussian(), hidden=eq.Gaussian(), scale=0.0, key=0)
    for size, normalisable in ((0.99, True), (1.01, False)):
        weights = jnp.zeros((3, 2)).at[0, 0].set(size)
        here = eq.Network(network.layers, [eq.Dense(("visible", "hidden"), weights)])
        if normalisable:
            assert np.isfinite(eq.log_partition(here).value)
            continue
        for method in ("exact", "ais", "bethe"):
            with pytest.warns(UserWarning, match=r"not normalisable: .* curvature of -0.01 .* no minimum"):
                found = eq.log_partition(here, method, key=0)
            assert found.value == np.inf
            assert "no minimum" in found.note
        with pytest.warns(UserWarning, match="not normalisable"):
            assert eq.log_likelihood(here, np.zeros((2, 3))).value == -np.inf
        refusal = r"network: got not normalisable.*-0.01.*allowed: .*weaker"
        with pytest.raises(ValueError, match=refusal):
            eq.sample(here, eq.Sweeps(1), chains=2, key=0)
        with pytest.raises(ValueError, match=refusal):
            eq.train(here, np.zeros((2, 3)), eq.cd(1), epochs=1, key=0)
        held = eq.equilibrate(here, eq.Sweeps(1), world=eq.Clamp("visible", np.zeros((2, 3))), key=0)
        assert np.isfinite(held["hidden"]).all()  # given the other layer each has its law


@every_pair
def test_likelihood_is_free_energy_minus_log_partition(pair):
    network = machine(pair)
    draws = np.asarray(network.layers[0].unit.sample(jax.random.key(0), jnp.zeros((9, 4))))
    weights = np.asarray(network.couplings[0].weights, np.float64)
    visible, hidden = network.layers
    fields = draws @ weights + np.asarray(hidden.bias, np.float64)
    logs = draws @ np.asarray(visible.bias, np.float64) + log_integral(hidden, fields, 1.0)
    logs = logs - np.asarray(visible.unit.self_energy(draws)).sum(-1) - brute_log_z(network)
    assert eq.log_likelihood(network, draws).value == pytest.approx(logs.mean(), abs=5e-5)
    sampled = eq.log_likelihood(network, draws, "ais", chains=400, steps=150, burn_in=50, key=1)
    assert abs(sampled.value - logs.mean()) < 5 * sampled.error
    assert sampled.bracket[0] < sampled.bracket[1] + 10 * sampled.error


def test_annealing_tells_whether_its_chains_have_mixed():
    """R-hat of the chains that go down: near one where sweeps mix, far from it where they stay in two valleys."""
    easy = eq.log_partition(machine(("binary", "binary")), "ais", chains=40, steps=50, burn_in=200, key=0)
    assert easy.r_hat < 1.05
    assert f"R-hat {easy.r_hat:.3f}" in str(easy)
    layers = [eq.Layer("visible", eq.Spin(), np.full(12, 0.02)), eq.Layer("hidden", eq.Spin(), np.zeros(2))]
    valleys = eq.Network(layers, [eq.Dense(("visible", "hidden"), np.ones((12, 2)))])
    assert eq.log_partition(valleys, "ais", chains=40, steps=50, burn_in=200, key=0).r_hat > 1.05
    options = {"chains": 40, "steps": 50, "key": 0}
    assert eq.log_partition(easy_one := machine(("binary", "binary")), "ais", reverse=False, **options).r_hat is None
    assert eq.log_partition(easy_one, "ais", burn_in=3, **options).r_hat is None


def test_likelihood_of_weighted_examples():
    network, rng = machine(("binary", "binary")), np.random.default_rng(0)
    rows, counts = rng.integers(0, 2, (5, 4)), np.array([3, 0, 1, 2, 0])
    repeated = eq.log_likelihood(network, np.repeat(rows, counts, axis=0)).value
    assert eq.log_likelihood(network, rows, weights=counts / 7).value == pytest.approx(repeated, abs=1e-5)
    assert eq.log_likelihood(network, rows).value != pytest.approx(repeated, abs=1e-3)
    with pytest.raises(ValueError, match=r"weights: got shape \(4,\); allowed: shape \(5,\)"):
        eq.log_likelihood(network, rows, weights=np.ones(4))
    with pytest.raises(ValueError, match=r"weights: got .*-1"):
        eq.log_likelihood(network, rows, weights=[1, 1, -1, 1, 1])


def test_likelihood_of_a_deep_machine():
    """Hidden layers that are coupled to one another are enumerated for every example."""
    network = machines.DISCRETE["layered"]
    brute = oracle.enumerate_states(network)
    row = np.array([1.0, 0.0, 1.0])
    probability = brute.probabilities[(brute.states[:, :3] == row).all(1)].sum()
    assert eq.log_likelihood(network, row[None]).value == pytest.approx(np.log(probability), abs=2e-5)


@pytest.mark.parametrize("name", ["rbm binary", "rbm spin-binary", "dense", "hopfield"])
def test_pseudo_likelihood_is_the_sum_of_conditionals(name):
    network = machines.DISCRETE[name]
    brute, size = oracle.enumerate_states(network, 1.3), network.layers[0].size
    visible = brute.states[:, :size]
    rows = np.random.default_rng(0).choice(network.layers[0].unit.levels, (5, size))

    def probability(agree):
        return brute.probabilities[agree].sum()

    total = 0.0
    for row in rows:
        for neuron in range(size):
            others = np.delete(visible == row, neuron, axis=1).all(1)
            total += np.log(probability((visible == row).all(1)) / probability(others))
    assert eq.pseudo_likelihood(network, rows, temperature=1.3) == pytest.approx(total / 5, abs=5e-5)


def test_independent_site_biases_reproduce_the_means_and_stay_finite():
    data = np.random.default_rng(0).choice([0.0, 1.0], (50, 5)) * [1, 1, 0, 1, 1]
    for unit, values in (
        (eq.Binary(), data),
        (eq.Spin(), 2 * data - 1),
        (eq.Gaussian(2.0), data),
        (eq.Clipped(), data),
    ):
        network = eq.independent_site_biases(eq.rbm(5, 3, visible=unit, scale=0.0, key=0), values)
        rest = np.asarray(unit.mean(jnp.zeros(5)))
        expected = (values.sum(0) + rest) / 51
        np.testing.assert_allclose(unit.mean(network.layers[0].bias), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: eq.log_partition(net, "annealing"), r"method: got 'annealing'; allowed: 'exact', 'ais', 'bethe'"),
        (lambda net: eq.log_partition(net, "ais"), r"key: got None"),
        (lambda net: eq.log_partition(net, temperature=0.0), r"temperature: got 0"),
        (lambda net: eq.log_partition(net, "ais", chains=0, key=0), r"chains: got 0"),
        (lambda net: eq.log_likelihood(net, np.full((2, 4), 0.5)), r"data\['visible'\]: got 0.5 among"),
        (lambda net: eq.log_likelihood(net, np.zeros((0, 4))), r"data\['visible'\]: got shape \(0, 4\)"),
        (lambda net: eq.log_likelihood(net, np.zeros(4)), r"data\['visible'\]: got shape \(4,\)"),
        (lambda net: eq.log_likelihood(net, {}), r"data: got no arrays"),
        (
            lambda net: eq.pseudo_likelihood(machine(("gaussian", "binary")), np.zeros((1, 4))),
            r"network: got Gaussian units",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(machine(("binary", "binary")))
