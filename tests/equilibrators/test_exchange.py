"""Exchange along ladders for every pair of units that has a law, against sums and integrals, each with a negative control."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import machines
import oracle
from equilibria.equilibrators import ladder as ladders
from equilibria.equilibrators import temper
from equilibria.equilibrators.conditioned import conditioned
from equilibria.equilibrators.driver import relax

CHAINS, ROUNDS, MORE_ROUNDS = 4000, 40, 100  # more where the visible units differ so much that rungs exchange less
TEMPERATURES = (0.7, 1.0, 1.6)
# Each unit, and what it is on the other rungs: a ladder may change a unit's own numbers too.
UNITS = {
    "binary": (eq.Binary(), eq.Binary()),
    "spin": (eq.Spin(), eq.Spin()),
    "onehot": (eq.OneHot(), eq.OneHot()),
    "potts": (eq.Potts(2), eq.Potts(2)),
    "gaussian": (eq.Gaussian(0.8), eq.Gaussian(1.3)),
    "clipped": (eq.Clipped(2.0), eq.Clipped(0.7)),
    "relu": (eq.ReLU(1.5), eq.ReLU(1.0)),
    "double": (eq.DoubleReLU(1.0, 2.0, -0.5), eq.DoubleReLU(2.0, 1.0, 0.3)),
}
FAST = {("binary", "potts"), ("onehot", "relu"), ("gaussian", "spin"), ("double", "clipped")}
PAIRS = [
    pytest.param(pair, id="-".join(pair), marks=[] if pair in FAST else pytest.mark.slow)
    for pair in product(UNITS, repeat=2)
]


def is_discrete(name):
    return name in ("binary", "spin", "onehot", "potts")


def machine(pair, which, seed, scale):
    """A machine of these units; one neuron a side where nothing can be enumerated."""
    sizes = (4, 2) if any(map(is_discrete, pair)) else (1, 1)
    units = [UNITS[name][which] for name in pair]
    network = eq.rbm(*sizes, visible=units[0], hidden=units[1], scale=scale, key=seed)
    return machines.with_biases(network, seed)


def ladder_of(pair):
    """From the easiest rung to the network itself, neither a multiple of the other."""
    return machine(pair, 1, 9, 0.2), machine(pair, 1, 4, 0.4), machine(pair, 0, 5, 0.5)


def marginal(network, temperature):
    """Which layer is summed over, its states and their probabilities; the other layer is summed out in NumPy."""
    summed = 0 if network.layers[0].unit.levels is not None else 1
    own, other = network.layers[summed], network.layers[1 - summed]
    weights = np.asarray(network.couplings[0].weights, np.float64)
    weights = weights if summed == 0 else weights.T
    states = oracle.states_of(own)
    fields = states @ weights + np.asarray(other.bias, np.float64)
    logs = states @ np.asarray(own.bias, np.float64) / temperature + oracle.log_integral(other, fields, temperature)
    law = np.exp(logs - logs.max())
    return own.name, states, law / law.sum()


def away_from_the_law(network, state, temperature):
    """The total variation from the law over what chance allows: below one where draws are those of the network."""
    name, states, law = marginal(network, temperature)
    rows = np.asarray(state[name])
    found = np.array([(rows == row).all(1).mean() for row in states])
    assert found.sum() == pytest.approx(1.0)
    away = np.abs(found - law).sum() / 2 / oracle.total_variation_bound(law, len(rows))
    other = next(layer for layer in network.layers if layer.name != name)
    return away if other.unit.levels is not None else max(away, beside_the_law(network, state, other, temperature))


def beside_the_law(network, state, other, temperature):
    """The same for means and second moments of a continuous layer beside the one that is summed over, over five errors.

    Exchanges move the visible states. Hidden neurons that are drawn anew from neurons between 0 and 1 hardly tell from which
    rung these came: that every exchange was accepted was not seen in them.
    """
    name, states, law = marginal(network, temperature)
    weights = np.asarray(network.couplings[0].weights, np.float64)
    fields = states @ (weights if network.names[0] == name else weights.T) + np.asarray(other.bias, np.float64)
    step, found = 1e-3, []
    for neuron in range(other.size):
        here = fields[:, neuron : neuron + 1]
        below, middle, above = (oracle.log_integral(other, here + way * step, temperature) for way in (-1, 0, 1))
        means = temperature * (above - below) / (2 * step)  # of a neuron in a field, a derivative of its ln Z
        squares = temperature**2 * (above - 2 * middle + below) / step**2 + means**2
        drawn = np.asarray(state[other.name], np.float64)[:, neuron]
        for values, expected in ((drawn, law @ means), (drawn**2, law @ squares)):
            found.append(abs(values.mean() - expected) / (5 * values.std() / np.sqrt(len(values))))
    return max(found)


def integrated(network, temperature):
    """The means, second moments and correlation of one neuron beside another, by sums over a fine mesh."""
    points, logs = [], 0.0
    for axis, layer in enumerate(network.layers):
        low, high = np.clip(layer.unit.bounds, -14.0, 14.0)
        mesh = np.linspace(low, high, 3001)
        points.append(mesh[:, None] if axis == 0 else mesh[None, :])
        own = np.asarray(layer.unit.self_energy(mesh.astype(np.float32)[:, None]), np.float64).ravel()
        inside = float(layer.bias[0]) * mesh - own
        # The trapezoidal rule: half weight at both ends.
        inside[[0, -1]] -= temperature * np.log(2.0)
        logs = logs + (inside[:, None] if axis == 0 else inside[None, :])
    first, second = points
    logs = logs + float(network.couplings[0].weights[0, 0]) * first * second
    law = np.exp((logs - logs.max()) / temperature)
    law /= law.sum()
    return np.array([(law * value).sum() for value in (first, second, first**2, second**2, first * second)])


def away_from_the_moments(network, state, temperature):
    """The largest difference over five standard errors: below one where draws are those of the network."""
    first, second = (np.asarray(state[name], np.float64)[:, 0] for name in network.names)
    seen = np.stack([first, second, first**2, second**2, first * second])
    errors = seen.std(1) / np.sqrt(seen.shape[1])
    return (np.abs(seen.mean(1) - integrated(network, temperature)) / (5 * errors)).max()


def furthest(pair, temperature):
    """How far draws of the worst rung are from its law after exchanges alone, in units of what chance allows.

    Every rung begins at its own law and nothing else moves its draws, so that no sweep can hide a wrong rule. The layers that
    exchanges sum out say nothing after one: they are drawn anew at the end, given the others.
    """
    *rungs, network = ladder_of(pair)
    rounds = MORE_ROUNDS if pair[0] == "double" else ROUNDS
    networks, how = [network, *reversed(rungs)], eq.Tempered(rounds, ladder=rungs)
    options = {"chains": CHAINS, "temperature": temperature}
    draws = [eq.sample(net, eq.Sweeps(60), key=place, **options) for place, net in enumerate(networks)]
    system = conditioned(network, (), temperature)
    states = {name: jnp.stack([draw[name] for draw in draws]) for name in network.names}
    carry = how.begin(system, draws[0])._replace(states=states)
    carry = relax(how, system, draws[0], jax.random.key(5), carry).carry
    away = away_from_the_law if any(map(is_discrete, pair)) else away_from_the_moments
    assert float(carry.rates.min()) * rounds / 2 > 2  # each chain has exchanged with each neighbour, and more than once
    found = []
    for place, net in enumerate(networks):
        state = {name: layer[place] for name, layer in carry.states.items()}
        for name in system.integrable:
            unit, field = net.layer(name).unit.heated(temperature), net.field(state, name)
            state[name] = unit.sample(jax.random.key(20 + place), field / temperature)
        found.append(away(net, state, temperature))
    return max(found)


@pytest.mark.parametrize("pair", PAIRS)
def test_exchanges_leave_every_rung_of_every_pair_its_law(pair, monkeypatch):
    monkeypatch.setattr(temper, "_swept", lambda system, state, key: state)
    for temperature in TEMPERATURES:
        assert furthest(pair, temperature) < 1
    # The negative control: the same with every exchange accepted.
    monkeypatch.setattr(temper, "reduced", lambda system, state: 0 * ladders.reduced(system, state))
    assert furthest(pair, 1.0) > 1.5
