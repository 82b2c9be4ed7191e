"""A layer with one neuron on, and the inverse of every unit's mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equilibria as eq


@pytest.mark.parametrize(
    "unit", [eq.Spin(), eq.Binary(), eq.Gaussian(0.3), eq.Clipped(2.0)], ids=lambda u: type(u).__name__
)
def test_the_inverse_gives_the_field_back(unit):
    fields = jnp.array([-2.0, -0.3, 0.0, 0.7, 3.0])
    np.testing.assert_allclose(unit.inverse(unit.mean(fields)), fields, atol=2e-3)


def test_one_hot_layers_answer_together():
    field = jnp.array([[0.3, -1.0, 2.0], [0.0, 0.5, -0.5]])
    weights = np.exp(np.asarray(field, float))
    np.testing.assert_allclose(eq.OneHot().mean(field), weights / weights.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(eq.OneHot().cumulant(field).sum(1), np.log(weights.sum(1)), rtol=1e-5)
    slope = jax.grad(lambda x: eq.OneHot().cumulant(x).sum())(field)
    np.testing.assert_allclose(slope, eq.OneHot().mean(field), atol=1e-6)
    draws = np.asarray(eq.OneHot().sample(jax.random.key(0), jnp.broadcast_to(field[0], (20_000, 3))))
    assert (draws.sum(1) == 1).all()
    law = weights[0] / weights[0].sum()
    assert (np.abs(draws.mean(0) - law) < 5 * np.sqrt(law * (1 - law) / 20_000)).all()


def test_rows_without_exactly_one_are_refused():
    eq.OneHot().check("labels", np.eye(3))
    for bad in (np.zeros((1, 3)), np.ones((1, 3))):
        with pytest.raises(ValueError, match="labels: got a row without exactly one 1"):
            eq.OneHot().check("labels", bad)
