"""Bad input never passes silently: the message names the argument, what was given, and what is allowed."""

import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq

RBM = eq.rbm(4, 3, key=0)
HOPFIELD = eq.hopfield(np.ones((1, 5)))
NET = eq.layered((3, 2), key=0)
DATA = np.zeros((6, 4))


def clamp(**changes):
    return eq.Clamp(**{"layer": "visible", "values": np.ones(4), **changes})


CASES = {
    "temperature below zero": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, temperature=-0.1, key=0),
        r"temperature: got -0.1; allowed: finite and >= 0",
    ),
    "temperature nan": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, temperature=np.nan, key=0),
        r"temperature: got nan; allowed: finite",
    ),
    "zero steps": (lambda: eq.Sweeps(0), r"steps: got 0; allowed: a whole number >= 1"),
    "half a step": (lambda: eq.Sweeps(1.5), r"steps: got 1.5"),
    "unknown update": (
        lambda: eq.Sweeps(1, update="median"),
        r"update: got 'median'; allowed: 'sample', 'mean', 'mode'",
    ),
    "unknown layer": (lambda: RBM.layer("hiden"), r"layer: got 'hiden'; allowed: 'visible', 'hidden'"),
    "clamp of an unknown layer": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=clamp(layer="x"), key=0),
        r"layer: got 'x'; allowed: 'visible'",
    ),
    "clamp outside the support": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=clamp(values=np.full(4, 2.0)), key=0),
        r"Clamp\('visible'\) values: got 2 among the values; allowed: only \(0.0, 1.0\)",
    ),
    "clamp of another size": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=clamp(values=np.ones(5)), key=0),
        r"shape \(5,\); allowed: shape \(..., 4\)",
    ),
    "clamp with nan": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=clamp(values=np.full(4, np.nan)), key=0),
        r"values: got nan at index \(0,\)",
    ),
    "two clamps of a layer": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=[clamp(), clamp()], key=0),
        r"two Clamps of layer 'visible'",
    ),
    "all layers clamped": (
        lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, world=[clamp(), eq.Clamp("hidden", np.ones(3))], key=0),
        r"at least one layer left to move",
    ),
    "start of another size": (
        lambda: eq.equilibrate(HOPFIELD, eq.Sweeps(1), np.ones(4), key=0),
        r"start\['neurons'\]: got shape \(4,\)",
    ),
    "start outside the support": (
        lambda: eq.equilibrate(HOPFIELD, eq.Sweeps(1), np.full(5, 1.5), key=0),
        r"start\['neurons'\]: got 1.5 among",
    ),
    "chains against start": (
        lambda: eq.equilibrate(HOPFIELD, eq.Sweeps(1), np.ones((3, 5)), chains=4, key=0),
        r"chains: got 4; allowed: 3",
    ),
    "no key": (lambda: eq.equilibrate(RBM, eq.Sweeps(1)), r"key: got None; allowed: a JAX random key"),
    "a bad key": (lambda: eq.sample(RBM, eq.Sweeps(1), chains=2, key="seed"), r"key: got 'seed'"),
    "not an equilibrator": (lambda: eq.equilibrate(RBM, 100, key=0), r"how: got 100; allowed: an equilibrator"),
    "tolerance when hot": (
        lambda: eq.equilibrate(RBM, eq.Sweeps(5, tolerance=0.1), key=0),
        r"tolerance: got .*draws never come to rest",
    ),
    "flow of spins": (
        lambda: eq.equilibrate(HOPFIELD, eq.GradientFlow(5)),
        r"Spin units in layer 'neurons'; allowed: continuous",
    ),
    "langevin at zero": (lambda: eq.equilibrate(NET, eq.Langevin(5), temperature=0.0, key=0), r"temperature: got 0"),
    "exact at zero": (lambda: eq.equilibrate(RBM, eq.Exact(), temperature=0.0, key=0), r"temperature: got 0"),
    "exact of too many": (
        lambda: eq.sample(eq.dense(40, key=0), eq.Exact(), chains=1, key=0),
        r"1.1e\+12 states .* allowed: at most 2\^22",
    ),
    "exact of continuous": (
        lambda: eq.sample(NET, eq.Exact(), chains=1, key=0),
        r"continuous units that cannot all be summed out",
    ),
    "asymmetric coupling": (
        lambda: eq.Dense(("a", "a"), [[0, 1.0], [0.5, 0]]),
        r"differs from its transpose by 0.5; allowed: a symmetric coupling",
    ),
    "diagonal": (lambda: eq.Dense(("a", "a"), np.eye(2)), r"non-zero diagonal"),
    "nan weights": (lambda: eq.Dense(("a", "b"), [[np.nan]]), r"weights: got nan at index \(0, 0\)"),
    "sizes do not fit": (
        lambda: eq.Network([eq.Layer("a", eq.Spin(), [0.0])], [eq.Dense(("a", "a"), np.zeros((2, 2)))]),
        r"couplings: got \(2, 2\) between",
    ),
    "two layers of a name": (
        lambda: eq.Network([eq.Layer("a", eq.Spin(), [0.0])] * 2, []),
        r"a different name for each layer",
    ),
    "factored between layers": (lambda: eq.Factored(("a", "b"), np.ones((1, 2))), r"ends: got \('a', 'b'\)"),
    "real patterns": (
        lambda: eq.hopfield(np.full((2, 3), 0.5)),
        r"patterns: got 0.5 among the values; allowed: only \(-1.0, 1.0\)",
    ),
    "flat patterns": (lambda: eq.hopfield(np.ones(4)), r"patterns: got shape \(4,\)"),
    "sleep below zero": (lambda: eq.hopfield(np.ones((1, 4)), sleep=-1), r"sleep: got -1; allowed: finite and >= 0"),
    "no hidden units": (lambda: eq.rbm(4, 0, key=0), r"hidden_size: got 0"),
    "units per layer": (
        lambda: eq.layered((3, 2), units=[eq.Spin()], key=0),
        r"units: got 1 units; allowed: one unit, or one for each",
    ),
    "skip to itself": (lambda: eq.layered((3, 2), skips=[(1, 1)], key=0), r"skips: got \(1, 1\)"),
    "skip that is there": (lambda: eq.layered((3, 2), skips=[(0, 1)], key=0), r"skips: got \(0, 1\)"),
    "pattern of another size": (lambda: eq.overlap(jnp.ones(4), jnp.ones(5)), r"pattern: got shape \(5,\)"),
    "self-coupled marginal": (lambda: eq.marginalise(HOPFIELD, "neurons"), r"a layer that is not coupled to itself"),
    "unbounded nudge": (
        lambda: eq.equilibrate(
            eq.layered((3, 2), units=eq.Gaussian(), key=0),
            eq.Sweeps(1, update="mode"),
            world=[eq.Clamp("input", np.zeros(3)), eq.Nudge("output", np.zeros(2), -1.5)],
        ),
        r"nudge: the output's stiffness plus its strength: got -0.5; allowed: finite and > 0",
    ),
    "nan data": (
        lambda: eq.train(RBM, np.full((3, 4), np.nan), eq.cd(1), epochs=1, key=0),
        r"data\['visible'\]: got nothing known in column 0",
    ),
    "infinite data": (
        lambda: eq.train(RBM, np.full((3, 4), np.inf), eq.cd(1), epochs=1, key=0),
        r"data\['visible'\]: got inf",
    ),
    "data outside the support": (
        lambda: eq.train(RBM, DATA - 1, eq.cd(1), epochs=1, key=0),
        r"got -1 among the values; allowed: only",
    ),
    "data of another size": (lambda: eq.train(RBM, np.zeros((3, 5)), eq.cd(1), epochs=1, key=0), r"shape \(3, 5\)"),
    "no data": (lambda: eq.train(RBM, np.zeros((0, 4)), eq.cd(1), epochs=1, key=0), r"shape \(0, 4\)"),
    "uneven data": (
        lambda: eq.train(RBM, {"visible": DATA, "hidden": np.zeros((5, 3))}, eq.cd(1), epochs=1, key=0),
        r"different numbers of examples",
    ),
    "no epochs": (lambda: eq.train(RBM, DATA, eq.cd(1), epochs=0, key=0), r"epochs: got 0"),
    "learning rate": (
        lambda: eq.train(RBM, DATA, eq.cd(1), epochs=1, learning_rate=-1, key=0),
        r"learning_rate: got -1",
    ),
    "no nudge": (lambda: eq.equilibrium_propagation(nudge=0), r"nudge: got 0; allowed: a number other than zero"),
    "trajectory that does not divide": (
        lambda: eq.trajectory(HOPFIELD, eq.Sweeps(5), observe=lambda s: s, every=2, key=0),
        r"every: got 2; allowed: a divisor of the number of steps, 5",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_with_a_reason(case):
    call, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        call()
