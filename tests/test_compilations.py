"""How many programs a whole first call compiles: the counts in compilations.json are held.

A program is some 20 ms of a first call at least, and the main one of a call seconds. Counted are all that XLA is asked for, by
operations outside compiled code as well, with JAX's caches empty and what a call is given made before. `python
tests/test_compilations.py` writes the table anew; a number that has grown is to be explained.
"""

import json
import tempfile
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest

import equilibria as eq
from compilations import compilations

TABLE = Path(__file__).with_name("compilations.json")
RNG = np.random.default_rng(0)
SPINS = RNG.choice([-1.0, 1.0], (12, 8)).astype(np.float32)
BITS = (SPINS > 0).astype(np.uint8)
WEIGHTS = (0.3 * RNG.standard_normal((8, 4))).astype(np.float32)
LABELS = np.eye(2, dtype=np.float32)[RNG.integers(0, 2, 12)]
EXAMPLES = RNG.choice([-1.0, 1.0], (2, 3, 8))


def machine():
    return eq.rbm(weights=WEIGHTS)


def spins():
    return eq.rbm(weights=WEIGHTS, visible=eq.Spin(), hidden=eq.Spin())


def memory():
    return eq.hopfield(SPINS[:2])


def chain(*sizes):
    """Layers of given weights, for which nothing is drawn."""
    names = ["input", *(f"hidden{depth}" for depth in range(1, len(sizes) - 1)), "output"]
    layers = [eq.Layer(name, eq.Clipped(), np.zeros(size)) for name, size in zip(names, sizes, strict=True)]
    pairs = zip(names, names[1:], sizes, sizes[1:], strict=False)
    return eq.Network(layers, [eq.Dense((a, b), np.full((m, n), 0.1, np.float32)) for a, b, m, n in pairs])


def trained(rule, data=BITS, network=None, **options):
    return lambda: eq.train(network or machine(), data, rule, epochs=3, batch_size=4, key=0, **options)


def followed():
    return eq.trajectory(memory(), eq.Sweeps(9), SPINS, observe=lambda s: s["neurons"].mean(-1), temperature=0.5, key=0)


def stored():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.safetensors"
        eq.save_network(path, machine())
        eq.load_network(path)


def remembered():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synapses.safetensors"
        eq.save_synapses(path, eq.Synapses(WEIGHTS))
        eq.load_synapses(path)


def swept():
    def cell(load, seed, key):
        patterns = eq.data.random_patterns(2, 10, key=key)
        return eq.overlap(
            eq.equilibrate(eq.hopfield(patterns), eq.Sweeps(2), patterns, temperature=load, key=key), patterns
        )

    return eq.grid(cell, load=[0.1, 0.2], seed=range(3))


SUPERVISED = dict(data=(np.abs(SPINS), LABELS))
CALLS = {
    "equilibrate": lambda: eq.equilibrate(memory(), eq.Sweeps(9), SPINS, temperature=0.5, key=0),
    "equilibrate at zero": lambda: eq.equilibrate(memory(), eq.Sweeps(9, tolerance=0.0), SPINS, temperature=0.0, key=0),
    "equilibrate from a draw": lambda: eq.equilibrate(memory(), eq.Sweeps(9), chains=3, key=0),
    "equilibrate by mean field": lambda: eq.equilibrate(machine(), eq.MeanField(20)),
    "equilibrate by the cavity": lambda: eq.equilibrate(spins(), eq.Cavity(20)),
    "equilibrate with a nudge": lambda: eq.equilibrate(
        chain(8, 4, 2),
        eq.Sweeps(9, update="mode"),
        world=[eq.Clamp("input", np.abs(SPINS)), eq.Nudge("output", LABELS, 0.5)],
    ),
    "equilibrate by Langevin": lambda: eq.equilibrate(chain(8, 2), eq.Langevin(9), chains=3, key=0),
    "sample": lambda: eq.sample(machine(), eq.Sweeps(20), chains=4, key=0),
    "sample exactly": lambda: eq.sample(machine(), eq.Exact(), chains=4, key=0),
    "sample, tempered": lambda: eq.sample(machine(), eq.Tempered(9, rungs=3), chains=4, key=0),
    "trajectory": followed,
    "grid": swept,
    "retrieve": lambda: eq.retrieve(memory(), SPINS[:2], SPINS, key=0),
    "recall_at_load": lambda: eq.recall_at_load(20, [0.1, 0.2], sweeps=4, key=0),
    "basin_of_attraction": lambda: eq.basin_of_attraction(memory(), SPINS[:2], [0.5, 1.0], sweeps=4, key=0),
    "train by cd": trained(eq.cd(2)),
    "train by pcd": trained(eq.pcd(2)),
    "train by rdm": trained(eq.rdm(2)),
    "train, tempered": trained(eq.tempered(2, rungs=3)),
    "train exactly": trained(eq.exact()),
    "train by mean field": trained(eq.mean_field()),
    "train by tap": trained(eq.tap()),
    "train by equilibrium propagation": trained(
        eq.equilibrium_propagation(0.5, free=eq.Descent(5), nudged=eq.Descent(5)), network=chain(8, 4, 2), **SUPERVISED
    ),
    "train, contrastive Hebbian": trained(
        eq.contrastive_hebbian(free=eq.Descent(5), clamped=eq.Descent(5)), network=chain(8, 4, 2), **SUPERVISED
    ),
    "train by recurrent backprop": trained(eq.recurrent_backprop(), network=chain(8, 4, 2), **SUPERVISED),
    "train by feedforward backprop": trained(eq.feedforward_backprop(), network=chain(8, 4, 2), **SUPERVISED),
    "train by unrolled backprop": trained(eq.unrolled_backprop(), network=chain(8, 4, 2), **SUPERVISED),
    "train two runs": trained(eq.pcd(2), runs=2),
    "contrast": lambda: eq.contrast(
        machine(), eq.cd(1), {"visible": jax.device_put(BITS.astype(np.float32))}, key=eq.key(0)
    ),
    "learn_synapses": lambda: eq.learn_synapses(SPINS, 2, steps=20, key=0),
    "learn_synapses by Gibbs": lambda: eq.learn_synapses(SPINS, 2, steps=20, how="gibbs", fields=10, key=0),
    "sample_synapses": lambda: eq.sample_synapses(SPINS, 2, sweeps=20, key=0),
    "log_partition": lambda: eq.log_partition(machine()),
    "log_partition by ais": lambda: eq.log_partition(machine(), "ais", chains=5, steps=20, burn_in=20, key=0),
    "log_partition by bethe": lambda: eq.log_partition(machine(), "bethe"),
    "log_likelihood": lambda: eq.log_likelihood(machine(), BITS),
    "log_likelihood in parts": lambda: eq.log_likelihood(machine(), np.resize(BITS, (1030, 8))),
    "pseudo_likelihood": lambda: eq.pseudo_likelihood(machine(), BITS),
    "bethe_log_partition": lambda: eq.bethe_log_partition(spins()),
    "overlap": lambda: eq.overlap(SPINS, SPINS[:3]),
    "replica_overlap": lambda: eq.replica_overlap(SPINS),
    "match_fields": lambda: eq.match_fields(WEIGHTS.T, WEIGHTS.T),
    "spectrum": lambda: eq.spectrum(machine()),
    "principal_components": lambda: eq.principal_components(SPINS),
    "rbm": lambda: eq.rbm(8, 4, key=0),
    "layered": lambda: eq.layered((8, 4, 2), key=0),
    "dense": lambda: eq.dense((4, 3, 2), key=0),
    "hopfield": lambda: eq.hopfield(SPINS),
    "hopfield that slept": lambda: eq.hopfield(SPINS[:3], sleep=2.0),
    "hopfield_from_examples": lambda: eq.hopfield_from_examples(EXAMPLES),
    "dream": lambda: eq.dream(memory(), 3, rate=0.1),
    "hubbard_stratonovich": lambda: eq.hubbard_stratonovich(memory()),
    "marginalise": lambda: eq.marginalise(eq.rbm(weights=WEIGHTS, hidden=eq.Gaussian()), "hidden"),
    "independent_site_biases": lambda: eq.independent_site_biases(machine(), BITS),
    "spectrally_scaled": lambda: eq.spectrally_scaled(machine()),
    "to_spins": lambda: eq.to_spins(machine()),
    "to_binary": lambda: eq.to_binary(spins()),
    "save_network, load_network": stored,
    "save_synapses, load_synapses": remembered,
    "data.random_patterns": lambda: eq.data.random_patterns(3, 20, key=0),
    "data.correlated_patterns": lambda: eq.data.correlated_patterns(3, 20, 0.5, key=0),
    "data.corrupt": lambda: eq.data.corrupt(SPINS, flips=0.2, masked=0.2, key=0),
    "data.blurred_examples": lambda: eq.data.blurred_examples(SPINS, 3, 0.5, key=0),
    "data.planted_receptive_fields": lambda: eq.data.planted_receptive_fields(2, 20, 0.5, key=0),
    "key": lambda: eq.key(3),
}


def programs(call):
    """The names of the programs of a first call, each with how often it was compiled."""
    jax.clear_caches()
    with compilations() as found:
        call()
    return Counter(found)


@pytest.fixture(scope="module")
def held():
    yield json.loads(TABLE.read_text())
    jax.clear_caches()


@pytest.mark.parametrize("name", [name for name in CALLS if name in json.loads(TABLE.read_text())])
def test_a_first_call_compiles_no_more_than_before(name, held):
    found = programs(CALLS[name])
    most = held[name]
    assert found.total() <= most["programs"], f"{dict(found)}; the table has {most}"
    twice = {program: count for program, count in found.items() if count > most["of one name"]}
    assert twice == {}, "compiled more often than in the table"


if __name__ == "__main__":
    table = {}
    for name, call in CALLS.items():
        found = programs(call)
        table[name] = {"programs": found.total(), "of one name": max(found.values(), default=0)}
        print(f"{found.total():3d} {name}: {dict(found)}", flush=True)
    TABLE.write_text(json.dumps(table, indent=2) + "\n")
