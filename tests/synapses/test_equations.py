"""Equations of Huang 2019 as they are printed, by sums over all states and all weights; the others are in test_learn.py."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.synapses import paper_cavity

import equilibria as eq
import oracle
from equilibria.synapses import bound
from equilibria.synapses.distribution import Synapses, divergence
from equilibria.synapses.e_step import Fields, e_step
from equilibria.synapses.paper_cavity import PaperCavity


def law(weights, beta):
    """P(sigma) of (1) for fields (P, N), by the sum over all states."""
    states = np.array(list(product((-1.0, 1.0), repeat=weights.shape[1])))
    mass = np.prod(np.cosh(beta * states @ weights.T / np.sqrt(weights.shape[1])), axis=1)
    return states, mass / mass.sum()


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_1_is_the_law_of_the_visible_neurons(temperature):
    weights = np.random.default_rng(0).choice([-1.0, 1.0], (2, 5))
    network = Synapses(np.zeros((5, 2)), temperature=temperature).network(weights.T)
    brute = oracle.enumerate_states(network)
    states, expected = law(weights, 1 / temperature)
    found = brute.probabilities.reshape(len(states), -1).sum(axis=1)
    assert (brute.states.reshape(len(states), -1, 7)[:, 0, :5] == states).all()
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # weights in single precision
    # (2): independent examples
    rows = np.random.default_rng(1).choice([-1.0, 1.0], (4, 5))
    together = sum(np.log(expected[(states == row).all(axis=1)][0]) for row in rows)
    np.testing.assert_allclose(4 * eq.log_likelihood(network, rows, "exact").value, together, rtol=1e-5)


def test_4_and_5_the_bound_is_below_the_evidence_by_the_divergence_from_the_posterior():
    random = np.random.default_rng(2)
    natural, prior = random.normal(size=(3, 2)), random.uniform(-0.6, 0.6, (3, 2))
    rows = random.choice([-1.0, 1.0], (5, 3))
    mean = np.tanh(natural)
    every = np.array(list(product((-1.0, 1.0), repeat=6))).reshape(-1, 3, 2)

    def chance(means):
        return np.prod((1 + every * means) / 2, axis=(1, 2))

    logs = []
    for weights in every:
        states, probability = law(weights.T, 1.0)
        logs.append(sum(np.log(probability[(states == row).all(axis=1)][0]) for row in rows))
    logs = np.array(logs)
    evidence = np.log(chance(prior) @ np.exp(logs))
    posterior = chance(prior) * np.exp(logs - evidence)
    lower = chance(mean) @ logs - float(divergence(Synapses(natural), np.arctanh(prior)))  # (5)
    away = chance(mean) @ np.log(chance(mean) / posterior)
    np.testing.assert_allclose(away, evidence - lower, rtol=1e-5)  # (4)
    assert away > 0.1
    assert lower < evidence


def test_12_is_the_slope_of_7_and_vanishes_at_the_prior():
    random = np.random.default_rng(3)
    natural, m = random.normal(size=(4, 2)), random.uniform(-0.6, 0.6, (4, 2))
    synapses = Synapses(natural)
    slope = jax.grad(lambda here: divergence(Synapses(here), np.arctanh(m)))(synapses.natural) / synapses.variance
    printed = sum(x / 2 * (np.log((1 + x * m) / (1 + x * np.tanh(natural))) - 1) for x in (-1, 1))
    np.testing.assert_allclose(-slope, printed, rtol=1e-4)
    at_prior = jax.grad(lambda here: divergence(Synapses(here), np.arctanh(m)))(Synapses(np.arctanh(m)).natural)
    np.testing.assert_allclose(at_prior, 0, atol=1e-6)


def grid(hidden, nodes=15):
    """Values of z for each hidden neuron, with their weights."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    values = np.array(list(product(points, repeat=hidden)))
    return values, np.prod(np.array(list(product(weights / weights.sum(), repeat=hidden))), axis=1)


def summed(mean, z, beta):
    """Means of hidden neurons and correlations of the equivalent machine, by the sum over hidden states."""
    size, hidden = mean.shape
    width = np.sqrt((1 - mean**2).sum(axis=0) / size)
    states = np.array(list(product((-1.0, 1.0), repeat=hidden)))
    heard = beta * states @ mean.T / np.sqrt(size)
    logs = np.log(np.cosh(heard)).sum(axis=1) + beta * (width * z) @ states.T
    chance = np.exp(logs - logs.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    return chance @ states, np.einsum("sk,ki,kp->sip", chance, np.tanh(heard), states)


def printed(mean, rows, z, mass, means, correlations, beta):
    """(16) with an even prior, averages over z with weights in the place of draws."""
    examples, size = rows.shape
    width = np.sqrt((1 - mean**2).sum(axis=0) / size)
    response = np.tanh(beta * (rows @ mean / np.sqrt(size) + width * z[:, None]))
    plus = beta / np.sqrt(size) * rows.T @ np.tensordot(mass, response, 1)
    plus -= beta**2 * mean / size * np.tensordot(mass, 1 - response**2, 1).sum(axis=0)
    minus = np.tensordot(mass, correlations, 1) - mean / (np.sqrt(size) * width) * (mass @ (z * means))
    return plus - examples * beta / np.sqrt(size) * minus - np.arctanh(mean)


def updated(how, natural, rows, temperature):
    """What learning takes for (16)."""
    z, mass = grid(natural.shape[1])
    fields = Fields(jnp.asarray(z, float), jnp.asarray(mass, float))
    synapses = Synapses(natural, temperature=temperature)
    start = {"visible": jnp.zeros((len(z), len(natural))), "hidden": jnp.zeros((len(z), natural.shape[1]))}
    moments = e_step(how, synapses, fields, start, jax.random.key(0))
    expected = bound.expected_energy(synapses, jnp.asarray(rows), jnp.ones(len(rows)), 15)
    return np.asarray(bound.ascent(synapses, expected, moments, jnp.asarray(float(len(rows))), 0.0).mean)


@pytest.mark.parametrize("temperature", [0.8, 1.2])
def test_16_as_it_is_printed_is_what_learning_climbs_by_exact_means(temperature):
    random = np.random.default_rng(4)
    natural, rows = random.normal(size=(30, 2)), random.choice([-1.0, 1.0], (60, 30))
    z, mass = grid(2)
    mean, beta = np.tanh(natural), 1 / temperature
    expected = printed(mean, rows, z, mass, *summed(mean, z, beta), beta)
    found = updated(eq.Exact(), natural, rows, temperature)
    # z/Xi against Stein's form by a rule of 15 points; entries are of the order of 1
    np.testing.assert_allclose(found, expected, atol=5e-3)
    assert np.abs(expected).max() > 1


@pytest.mark.parametrize("alike", [False, True])
def test_16_as_it_is_printed_is_what_learning_climbs_by_the_papers_means(alike):
    """By (15b) E[z m]/Xi of (14) exceeds E[1 - m^2], which other E-steps have for it: (15b) is no mean of a law."""
    random = np.random.default_rng(5)
    fields = random.normal(size=(100, 1 if alike else 2)) * 1.5
    natural = np.broadcast_to(fields, (100, 2)) + 0.2 * random.normal(size=(100, 2))
    rows = random.choice([-1.0, 1.0], (200, 100))
    z, mass = grid(2)
    mean = np.tanh(natural)
    _, means, correlations = paper_cavity(mean, z, iterations=50)
    expected = printed(mean, rows, z, mass, means, correlations, 1.0)
    found = updated(PaperCavity(tolerance=1e-6), natural, rows, 1.0)
    np.testing.assert_allclose(found, expected, atol=5e-3)
    width = np.sqrt((1 - mean**2).mean(axis=0))
    more = mass @ (z * means) / width - mass @ (1 - means**2)
    assert (more > (0.15 if alike else 0.02)).all()


@pytest.mark.parametrize("temperature", [0.7, 1.4])
def test_10_11_and_15_at_other_temperatures(temperature):
    random = np.random.default_rng(6)
    synapses, z = Synapses(0.5 * random.normal(size=(100, 3)), temperature=temperature), random.normal(size=(4, 3))
    fields = Fields(jnp.asarray(z, float), jnp.full(4, 0.25))
    start = {"visible": jnp.zeros((4, 100)), "hidden": jnp.zeros((4, 3))}
    found = e_step(PaperCavity(tolerance=1e-6), synapses, fields, start, jax.random.key(0))
    wide = np.asarray(synapses.mean, np.float64)
    log_partition, means, correlations = paper_cavity(wide, z, 1 / temperature, iterations=40)
    np.testing.assert_allclose(found.log_partition(), log_partition.mean() + 3 * np.log(2), atol=2e-4)
    width = np.sqrt((1 - wide**2).mean(axis=0)) / temperature
    np.testing.assert_allclose(found.spread, (z * means).mean(axis=0) / width, atol=2e-4)
    np.testing.assert_allclose(found.correlation, correlations.mean(axis=0), atol=1e-4)
