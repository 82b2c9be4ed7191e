"""One first call of each public function, small: what `test_compilations.py` counts the programs of."""

import tempfile
from pathlib import Path

import jax
import numpy as np
import optax

import equilibria as eq

RNG = np.random.default_rng(0)
SPINS = RNG.choice([-1.0, 1.0], (12, 8)).astype(np.float32)
BITS = (SPINS > 0).astype(np.uint8)
WEIGHTS = (0.3 * RNG.standard_normal((8, 4))).astype(np.float32)
LABELS = np.eye(2, dtype=np.float32)[RNG.integers(0, 2, 12)]
EXAMPLES = RNG.choice([-1.0, 1.0], (2, 3, 8))
CLASSES = LABELS.argmax(1)
TABLE = SPINS + 0.3 * RNG.standard_normal(SPINS.shape)


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


def rooted():
    start = eq.low_rank_start(BITS, 4, components=1, key=0)
    with tempfile.TemporaryDirectory() as folder:
        eq.load_root(eq.save_root(Path(folder) / "root.safetensors", start.root))


def remembered():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synapses.safetensors"
        eq.save_synapses(path, eq.Synapses(WEIGHTS))
        eq.load_synapses(path)


def quadratic(weight, pull, state, world):
    """An energy of one number, for `Implicit` and `Stochastic`."""
    return 0.5 * (state - weight) ** 2 + 0.5 * pull * (state - world) ** 2


def predicted(kind, *given, **options):
    """A fit of an estimator and what it says of the same table."""
    model = kind(random_state=0, **options).fit(*given)
    return model.predict(given[0]) if hasattr(model, "predict") else model.transform(given[0])


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
    "zero_sum": lambda: eq.zero_sum(machine()),
    "standardised": lambda: eq.standardised(eq.rbm(weights=WEIGHTS, hidden=eq.Gaussian()), BITS),
    "save_network, load_network": stored,
    "save_synapses, load_synapses": remembered,
    "data.random_patterns": lambda: eq.data.random_patterns(3, 20, key=0),
    "data.correlated_patterns": lambda: eq.data.correlated_patterns(3, 20, 0.5, key=0),
    "data.corrupt": lambda: eq.data.corrupt(SPINS, flips=0.2, masked=0.2, key=0),
    "data.blurred_examples": lambda: eq.data.blurred_examples(SPINS, 3, 0.5, key=0),
    "data.planted_receptive_fields": lambda: eq.data.planted_receptive_fields(2, 20, 0.5, key=0),
    "key": lambda: eq.key(3),
    "equilibrate by gradient flow": lambda: eq.equilibrate(chain(8, 2), eq.GradientFlow(9), chains=3, key=0),
    "equilibrate by climbing": lambda: eq.equilibrate(machine(), eq.Climbing(3, rungs=3), chains=4, key=0),
    "equilibrate, reweighted": lambda: eq.equilibrate(machine(), eq.Reweighted(2, sweeps=3), chains=4, key=0),
    "equilibrate by the paper's cavity": lambda: eq.equilibrate(spins(), eq.PaperCavity()),
    "train, reweighted": trained(eq.reweighted(2, chains=8)),
    "train with inputs missing": trained(
        eq.Augmented(eq.equilibrium_propagation(0.5, free=eq.Descent(5), nudged=eq.Descent(5)), eq.InputDropout(0.2)),
        network=chain(8, 4, 2),
        **SUPERVISED,
    ),
    "train, scale_by_coupling, trust_ratio": trained(
        eq.equilibrium_propagation(0.5, free=eq.Descent(5), nudged=eq.Descent(5)),
        network=chain(8, 4, 2),
        optimiser=optax.chain(optax.sgd(0.1), eq.scale_by_coupling([0.1, 0.05]), eq.trust_ratio(1e-3)),
        **SUPERVISED,
    ),
    "train, watch_spectrum": trained(eq.cd(1), metrics=eq.watch_spectrum()),
    "train with WatchMixing": trained(eq.pcd(1), callbacks=[eq.WatchMixing(BITS, sweeps=20)]),
    "low_rank_start": lambda: eq.low_rank_start(BITS, 4, components=1, key=0),
    "save_root, load_root": rooted,
    "costate": lambda: eq.costate(lambda a, s: s - 0.5 * (s - a), *(jax.device_put(np.float32(2.0)),) * 3, 30),
    "stdp": lambda: eq.stdp(jax.device_put(SPINS)),
    "Implicit": lambda: eq.Implicit(quadratic, step=0.5).gradient(2.0, 0.0, 0.0, 5.0),
    "Stochastic": lambda: eq.Stochastic(quadratic, step=0.5).expectation(
        lambda state: state, 2.0, 0.0, 0.0, 5.0, key=eq.key(0)
    ),
    "diagnose": lambda: eq.diagnose(machine(), BITS, how=eq.Sweeps(20), draws=10, key=0),
    "choose_rungs": lambda: eq.choose_rungs([eq.rbm(weights=scale * WEIGHTS) for scale in (0, 0.5, 1)], 0.1, key=0),
    "label_probabilities": lambda: eq.label_probabilities(
        eq.layered((8, 4, 2), units=(eq.Binary(), eq.Binary(), eq.OneHot()), key=0), {"input": BITS}
    ),
    "log_minima": lambda: eq.log_minima(memory()),
    "alignment": lambda: eq.alignment(SPINS[:2], SPINS[:3]),
    "subspace_overlap": lambda: eq.subspace_overlap(SPINS[:2], SPINS[:3]),
    "log_spaced_steps": lambda: eq.log_spaced_steps(1000, 7),
    "show": lambda: eq.show(chain(8, 4, 2)),
    "squared_error": lambda: eq.squared_error(SPINS, SPINS),
    "cross_entropy": lambda: eq.cross_entropy(SPINS, SPINS),
    "theory.curie_weiss": lambda: eq.theory.curie_weiss([0.5, 1.5]),
    "theory.hopfield": lambda: eq.theory.hopfield(load=[0.05, 0.1], temperature=0.2),
    "theory.hopfield_capacity": lambda: eq.theory.hopfield_capacity(sleep=[0.0, 1.0]),
    "theory.hopfield_glass": lambda: eq.theory.hopfield_glass(0.1, sleep=[0.0, 1.0]),
    "theory.hopfield_lines": lambda: eq.theory.hopfield_lines(0.0),
    "theory.hopfield_phases": lambda: eq.theory.hopfield_phases([0.02, 0.2], [0.1, 1.5]),
    "theory.dataset_entropy": lambda: eq.theory.dataset_entropy(0.5, 30),
    "theory.hopfield_examples": lambda: eq.theory.hopfield_examples(0.05, 0.1, entropy=[0.0, 0.1]),
    "theory.hopfield_examples_capacity": lambda: eq.theory.hopfield_examples_capacity(entropy=[0.05, 0.1]),
    "theory.hopfield_examples_lines": lambda: eq.theory.hopfield_examples_lines(0.1, entropy=0.1, examples=20),
    "theory.hopfield_examples_step": lambda: eq.theory.hopfield_examples_step(0.1, entropy=[0.0, 0.1]),
    "theory.breaking_line": lambda: eq.theory.breaking_line([0.5, 2.0]),
    "theory.critical_strength": lambda: eq.theory.critical_strength([0.5, 2.0]),
    "theory.phase_diagram": lambda: eq.theory.phase_diagram([0.5, 2.0], [0.5, 2.0]),
    "theory.fixed_points": lambda: eq.theory.fixed_points([2.0, 1.9]),
    "theory.response": lambda: eq.theory.response([0.5, 2.0], units=1000),
    "theory.learning_curve": lambda: eq.theory.learning_curve(SPINS, 0.1 * WEIGHTS, [0.0, 1.0], modes=2),
    "theory.linear_fixed_point": lambda: eq.theory.linear_fixed_point([4.0, 0.5]),
    "theory.linear_flow": lambda: eq.theory.linear_flow(np.diag([4.0, 0.5]), [[0.1], [0.1]], [0.0, 1.0]),
    "theory.linear_likelihood": lambda: eq.theory.linear_likelihood(np.eye(2), np.zeros((2, 1))),
    "theory.linear_log_partition": lambda: eq.theory.linear_log_partition([[1.5]]),
    "theory.empirical_term": lambda: eq.theory.empirical_term([[2.0], [-2.0]], [0.1], hidden=400),
    "theory.hidden_means": lambda: eq.theory.hidden_means([[2.0, 0.0]], [0.1, 0.1], hidden=400),
    "theory.projected_dynamics": lambda: eq.theory.projected_dynamics([2.0, 1.0], [[0.1, 0.3], [0.3, 0.2]]),
    "theory.marchenko_pastur": lambda: eq.theory.marchenko_pastur([2.0], 400, 100, variance=0.01),
    "theory.marchenko_pastur_edges": lambda: eq.theory.marchenko_pastur_edges(400, 100, variance=0.01),
    "theory.marchenko_pastur_fit": lambda: eq.theory.marchenko_pastur_fit(WEIGHTS),
    "theory.synapse_spike": lambda: eq.theory.synapse_spike(0.3),
    "theory.synapse_threshold": lambda: eq.theory.synapse_threshold([0.0, 0.3]),
    "data.planted_data": lambda: eq.data.planted_data(SPINS[:2], 5, key=0),
    "data.sequence_weights": lambda: eq.data.sequence_weights(BITS.astype(int)),
    "data.one_hot": lambda: eq.data.one_hot(BITS.astype(int), 2),
    "data.states_of": lambda: eq.data.states_of(LABELS, 2),
    "data.as_states": lambda: eq.data.as_states(["AC", "-G"], "dna"),
    "data.binarise": lambda: eq.data.binarise(BITS),
    "data.grey": lambda: eq.data.grey(BITS),
    "data.digits": lambda: eq.data.digits(),
    "data.mnist_small": lambda: eq.data.mnist_small(),
    "data.kind_of": lambda: eq.data.kind_of(BITS),
    "data.read_table": lambda: eq.data.read_table(BITS),
    "estimators.RBM": lambda: predicted(eq.estimators.RBM, BITS, n_components=2, n_iter=2),
    "estimators.EquilibriumClassifier": lambda: predicted(
        eq.estimators.EquilibriumClassifier, TABLE, CLASSES, hidden_layer_sizes=(4,), max_iter=2
    ),
    "estimators.EquilibriumRegressor": lambda: predicted(
        eq.estimators.EquilibriumRegressor, TABLE, TABLE[:, 0], hidden_layer_sizes=(4,), max_iter=2
    ),
    "estimators.HopfieldMemory": lambda: predicted(eq.estimators.HopfieldMemory, SPINS[:2]),
    "estimators.BinarySynapseRBM": lambda: predicted(eq.estimators.BinarySynapseRBM, SPINS, n_components=2, n_iter=5),
}
# Nothing here is computed by JAX: files and their text, settings, a page.
NOT_COMPUTED = {
    "cache", "cite", "lab", "data.mnist", "data.fashion_mnist", "data.parse_idx", "data.parse_fasta", "data.read_fasta",
    "data.write_fasta",
}  # fmt: skip
