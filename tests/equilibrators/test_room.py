"""Arrays with room for more neurons, patterns and chains give the same numbers as arrays that just fit."""

import numpy as np
import pytest

import equilibria as eq
from compilations import compilations
from equilibria.equilibrators import driver
from equilibria.equilibrators.room import room

RNG = np.random.default_rng(0)


def both(monkeypatch, *arguments, **options):
    """A call in arrays of a few sizes, and in arrays of its own size."""
    roomy = eq.equilibrate(*arguments, **options)
    with monkeypatch.context() as patch:
        patch.setattr(driver, "room", lambda *_: None)
        return roomy, eq.equilibrate(*arguments, **options)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("temperature", "tolerance", "update"), [(0.0, 0.0, "sample"), (0.6, None, "sample"), (0.8, 1e-4, "mean")]
)
def test_the_numbers_are_those_of_arrays_that_just_fit(temperature, tolerance, update, fast, monkeypatch):
    patterns = RNG.choice([-1.0, 1.0], (5, 45))
    cues = np.where(RNG.random((7, 45)) < 0.2, -1, 1) * patterns[RNG.integers(0, 5, 7)]
    network = eq.hopfield(patterns, sleep=0.5)
    layer = eq.Layer("neurons", eq.Spin(), RNG.normal(0, 0.1, 45))
    network = eq.Network([layer], network.couplings)
    how = eq.Sweeps(12, update=update, tolerance=tolerance)
    assert eq.equilibrate(network, how, cues, temperature=temperature, key=1)["neurons"].shape == (7, 45)
    roomy, fitting = both(monkeypatch, network, how, cues, temperature=temperature, key=eq.key(3, fast=fast))
    np.testing.assert_allclose(roomy["neurons"], fitting["neurons"], atol=1e-5)
    np.testing.assert_array_equal(roomy.steps, fitting.steps)
    np.testing.assert_array_equal(roomy.result, fitting.result)


def test_one_chain_and_a_temperature_for_each(monkeypatch):
    patterns = RNG.choice([-1.0, 1.0], (3, 30))
    network = eq.hopfield(patterns)
    alone, fitting = both(monkeypatch, network, eq.Sweeps(5), patterns[0], temperature=0.4, key=2)
    assert alone["neurons"].shape == (30,)
    np.testing.assert_array_equal(alone["neurons"], fitting["neurons"])
    several, fitting = both(monkeypatch, network, eq.Sweeps(5), patterns, temperature=[0.1, 0.5, 2.0], key=2)
    np.testing.assert_array_equal(several["neurons"], fitting["neurons"])


def test_a_scan_over_sizes_compiles_a_few_programs():
    def scan(sizes):
        for size in sizes:
            patterns = eq.data.random_patterns(max(1, size // 10), size, key=size)
            cues = eq.data.corrupt(patterns, flips=0.1, key=1)
            eq.retrieve(eq.hopfield(patterns), patterns, cues, key=2)

    with compilations() as found:
        scan(range(40, 120, 5))
    assert len(found) <= 1  # neurons up to 128, patterns and cues up to 16
    with compilations() as found:
        scan([130, 150])
    assert len(found) <= 1


def test_large_or_long_work_keeps_its_own_shape():
    patterns = RNG.choice([-1.0, 1.0], (5, 45))
    network = eq.hopfield(patterns)

    def roomy(how, network=network, start=patterns):
        _, system, state, _ = driver.prepared(network, how, start, 0.5, (), None, 0)
        return room(how, system, state) is not None

    assert roomy(eq.Sweeps(10))
    assert not roomy(eq.Sweeps(10**6))
    assert not roomy(eq.Sweeps(10, order="parallel"))
    assert not roomy(eq.Sweeps(10), start=np.resize(patterns, (300, 45)))
    wide = RNG.choice([-1.0, 1.0], (2, 2000))
    assert not roomy(eq.Sweeps(10), eq.hopfield(wide), wide)
