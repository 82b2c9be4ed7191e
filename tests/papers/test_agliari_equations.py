"""The lecture's formulas as they are printed, against the library; what is not here is named in docs/papers.md."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq
import oracle

PATTERNS = np.asarray(eq.data.random_patterns(3, 10, key=jax.random.key(3)), float)
STATES = np.array(list(itertools.product([-1.0, 1.0], repeat=10)))
HEBB = PATTERNS.T @ PATTERNS / 10


def test_noise_of_the_printed_law_makes_a_spin():
    """sgn(φ + ζT) with Cum(ζ) = (1 + tanh ζ)/2 is +1 as often as `Spin` says; sgn(φ + h) at T = 0."""
    zeta = np.arctanh(2 * np.random.default_rng(0).random(100_000) - 1)  # where its cumulative law takes every value
    for field, temperature in ((0.3, 0.5), (-0.2, 1.0), (0.3, 4.0)):
        up = np.mean(np.sign(field + zeta * temperature) == 1)
        expected = (1 + float(eq.Spin().mean(field / temperature))) / 2
        assert up == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(len(zeta)))
    network = eq.Network(
        [eq.Layer("neurons", eq.Spin(), np.array([0.4, 0.4]))], [eq.Factored(("neurons", "neurons"), [[1.0, -1.0]])]
    )
    # fields -σ/2: the threshold 0.4 does not turn them, 0.6 would
    rest = eq.equilibrate(network, eq.Sweeps(20), {"neurons": np.array([[1.0, -1.0]])}, temperature=0.0, key=0)
    assert np.asarray(rest["neurons"]).tolist() == [[1.0, -1.0]]


def test_the_printed_energies_are_one():
    """-½ Σ σ_i J_ij σ_j, -Σ_{i>j} σ_i J_ij σ_j and the AGS form, up to the constant of the diagonal; h_i as a threshold."""
    found = np.asarray(eq.hopfield(PATTERNS).energy({"neurons": STATES}), float)
    pairs = [-sum(s[i] * HEBB[i, j] * s[j] for i in range(10) for j in range(i)) for s in STATES]
    whole = -np.einsum("si,ij,sj->s", STATES, HEBB, STATES) / 2
    np.testing.assert_allclose(found, pairs, atol=1e-5)
    np.testing.assert_allclose(whole - pairs, -3 / 2, atol=1e-10)  # half the trace of J, which is K


def test_hebb_has_synapses_of_both_signs():
    """'Excitatory vs Inhibitory': in random patterns about half of each."""
    patterns = np.asarray(eq.data.random_patterns(21, 200, key=jax.random.key(0)))
    couplings = oracle.matrix(eq.hopfield(patterns))[np.triu_indices(200, 1)]
    assert (couplings > 0).mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(len(couplings)))


def test_patterns_are_the_lowest_states_after_endless_sleep_and_not_by_hebb():
    """'ξ^μ = argmin H for μ = 1, ..., K': the pseudo-inverse rule does it; by Hebb's rule patterns differ in energy."""
    for sleep, lowest in ((np.inf, True), (0.0, False)):
        network = eq.hopfield(PATTERNS, sleep=sleep)
        every, own = (np.asarray(network.energy({"neurons": rows}), float) for rows in (STATES, PATTERNS))
        assert (own < every.min() + 1e-5).all() == lowest


def test_couplings_of_examples_are_the_printed_sums():
    """J_sup with its second index j (the slide prints i twice), J_unsup; both up to a factor, as the slide's ∝ allows."""
    random = np.random.default_rng(1)
    examples = PATTERNS[:, None] * np.where(random.random((3, 5, 10)) < 0.8, 1, -1)
    off = ~np.eye(10, dtype=bool)
    summed = examples.sum(1)
    for supervised, expected in (
        (True, np.einsum("ki,kj->ij", summed, summed)),
        (False, np.einsum("kai,kaj->ij", examples, examples)),
    ):
        found = oracle.matrix(eq.hopfield_from_examples(examples, supervised=supervised))[off]
        ratio = found @ expected[off] / (expected[off] @ expected[off])
        assert ratio > 0
        np.testing.assert_allclose(found, ratio * expected[off], atol=1e-5)
    perfect = np.repeat(PATTERNS[:, None], 5, axis=1)  # η = ξ: both are Hebb's rule on the archetypes
    for supervised in (True, False):
        found = oracle.matrix(eq.hopfield_from_examples(perfect, supervised=supervised))
        np.testing.assert_allclose(found[off], HEBB[off], atol=1e-5)


def test_the_entropy_is_one_over_quality_and_quantity():
    """ρ ∝ 1/quality 1/quantity: with the quality r²/(1 - r²) and the quantity M; with r itself it is not."""
    for r, many in ((0.3, 4), (0.8, 20)):
        assert float(eq.theory.dataset_entropy(r, many)) == pytest.approx((1 - r**2) / r**2 / many)


def test_the_weights_of_the_machine_are_patterns_over_the_root_of_n():
    """'W = ξ' with H = -Σ W σ z does not give the network's law: W = ξ/√N does, as the factor β/√N of the integral says."""
    machine = eq.hubbard_stratonovich(eq.hopfield(PATTERNS))
    np.testing.assert_allclose(machine.couplings[0].weights, PATTERNS.T / np.sqrt(10), atol=1e-6)
    beta = 1.3
    # P(σ) ∝ ∫ dz exp(β Σ σ W z - β z²/2) = exp(β |Wᵀσ|²/2)
    laws = []
    for weights in (PATTERNS.T / np.sqrt(10), PATTERNS.T):
        logs = beta * ((STATES @ weights) ** 2).sum(1) / 2
        laws.append(np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())
    network = -beta * np.asarray(eq.hopfield(PATTERNS).energy({"neurons": STATES}), float)
    law = np.exp(network - network.max()) / np.exp(network - network.max()).sum()
    np.testing.assert_allclose(laws[0], law, atol=1e-6)
    assert np.abs(laws[1] - law).sum() > 0.1


def test_the_gibbs_measure_of_the_machine_is_the_printed_one():
    """P(σ, z) ∝ exp(β Σ σ W z) exp(-β z²/2) and H = -Σ W σ z: the energy has the prior's z²/2 besides."""
    random = np.random.default_rng(2)
    weights = random.normal(size=(4, 2))
    machine = eq.rbm(weights=weights, visible=eq.Spin(), hidden=eq.Gaussian())
    sigma, z = np.sign(random.normal(size=(6, 4))), random.normal(size=(6, 2))
    found = np.asarray(machine.energy({"visible": jnp.asarray(sigma), "hidden": jnp.asarray(z)}), float)
    np.testing.assert_allclose(found, -np.einsum("si,ij,sj->s", sigma, weights, z) + (z**2).sum(1) / 2, atol=1e-5)


def test_a_ferromagnet_needs_couplings_that_fall_with_its_size():
    """'J_ij = J > 0 for all i, j': with J = 1/N, as here, T_c = 1; with a J that does not depend on N it would be J N."""
    network = eq.hopfield(np.ones((1, 10)))  # one pattern of ones: the Curie-Weiss model with J = 1/N
    np.testing.assert_allclose(oracle.matrix(network)[~np.eye(10, dtype=bool)], 0.1, atol=1e-6)


def test_overlaps_are_the_printed_means():
    """m_μ = Σ ξ_i σ_i / N and q_ab = Σ σ_i^a σ_i^b / N."""
    states = STATES[[3, 500, 901]]
    np.testing.assert_allclose(eq.overlap({"neurons": states}, PATTERNS), states @ PATTERNS.T / 10, atol=1e-6)
    np.testing.assert_allclose(eq.replica_overlap({"neurons": states}), states @ states.T / 10, atol=1e-6)
