"""The lab's quick way to the overlap of theory."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.app.lab.rooms import hopfield


@pytest.mark.parametrize("sleep", [0, 10])
def test_the_quick_overlap_is_that_of_theory(sleep):
    hopfield._KEPT[sleep] = hopfield._branch(sleep)
    random = np.random.default_rng(0)
    heats = random.uniform(0.0, 0.9, 24)
    loads = random.uniform(0.02, 1.1, 24) * eq.theory.hopfield_capacity(heats, sleep)
    expected = eq.theory.hopfield(loads, heats, sleep).m
    quick = [hopfield._near(load, heat, sleep) for load, heat in zip(loads, heats, strict=True)]
    assert sum(each is not None for each in quick) > 16
    for given, wanted in zip(quick, expected, strict=True):
        assert given is None or given == pytest.approx(wanted, abs=1e-7)
    assert hopfield.overlap_at(0.9 * loads.min(), 1.1, sleep) != hopfield.overlap_at(
        0.9 * loads.min(), 1.1, sleep
    )  # NaN


@pytest.mark.parametrize("sleep", [0, 10])
def test_the_energy_shown_is_that_of_the_network(sleep):
    from equilibria.app.lab.rooms.remember import Remember

    room = Remember(Remember.plan.state({"patterns": "random", "sleep": sleep}), lambda message: None, {})
    room._build()
    expected = float(eq.hopfield(room.patterns, sleep=sleep).energy({"neurons": room.neurons}))
    assert room._energy() == pytest.approx(expected, rel=1e-4)
