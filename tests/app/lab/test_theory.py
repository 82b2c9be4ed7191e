"""The lab's quick way to the overlap of theory."""

import numpy as np
import pytest

import equilibria as eq
from equilibria.app.lab.rooms import hopfield


@pytest.mark.parametrize("sleep", [0, 10])
def test_the_quick_overlap_is_that_of_theory(sleep):
    hopfield.prepare(sleep)
    end = float(eq.theory.hopfield_capacity(0.0, sleep))
    random = np.random.default_rng(0)
    loads, heats = end * random.uniform(0.01, 1.2, 24), random.uniform(0.0, 1.1, 24)
    expected = eq.theory.hopfield(loads, heats, sleep).m
    found = [hopfield.overlap_at(load, heat, sleep) for load, heat in zip(loads, heats, strict=True)]
    assert np.isfinite(expected).sum() > 5
    np.testing.assert_allclose(found, expected, atol=1e-7)
    quick = [
        hopfield._near(load, heat, sleep) for load, heat in zip(loads[heats < 0.98], heats[heats < 0.98], strict=True)
    ]
    assert sum(each is not None for each in quick) > 5
