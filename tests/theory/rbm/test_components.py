"""Averages over a layer against a three-dimensional quadrature, for each law of the components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equilibria.theory.rbm.components import LAWS, Law, ListedLaw, layer_averages, waves

RULES = {  # nodes and weights of an independent quadrature for each law
    "gaussian": (lambda x, p: (x, p / p.sum()))(*np.polynomial.hermite_e.hermegauss(120)),
    "uniform": (lambda x, p: (x * 3**0.5, p / 2))(*np.polynomial.legendre.leggauss(60)),
    "bernoulli": (np.array([-1.0, 1.0]), np.array([0.5, 0.5])),
}


def averages(law, slopes, variance):
    """E ln 2cosh h, E c_1 tanh h, E c_1 c_2 sech^2 h, E tanh^2 h, E sech^4 h by a three-dimensional quadrature."""
    (c, p), (x, px) = RULES[law], RULES["gaussian"]
    one, two, noise = c[:, None, None], c[:, None], x
    weight = p[:, None, None] * p[:, None] * px
    h = slopes[0] * one + slopes[1] * two + np.sqrt(variance) * noise
    terms = np.logaddexp(h, -h), one * np.tanh(h), one * two / np.cosh(h) ** 2, np.tanh(h) ** 2, np.cosh(h) ** -4.0
    return [np.sum(weight * term) for term in terms]


def at(law, slopes, variance):
    """The averages at a point; of one shape for all tests, so that they compile once for each law."""
    return _at(law, np.asarray(slopes), np.asarray(variance), waves(25.0))


_at = jax.jit(layer_averages)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("slopes", "variance"), [((0.9, 0.5), 0.3), ((0.0, 1.2), 0.5), ((1e-9, 0.4), 0.1)])
def test_layer_averages(law, slopes, variance):
    with jax.enable_x64(True):
        got = jax.tree.map(np.asarray, at(LAWS[law], slopes, variance))
    values = [got.log_cosh, got.along[0], got.curvature[0, 1], got.square, got.quartic]
    # Gauss-Hermite with 120 nodes is the weaker of the two: tanh has poles at distance pi/2
    np.testing.assert_allclose(values, averages(law, slopes, variance), atol=1e-10)


def test_a_listed_law_and_a_law_of_ones_own():
    class Coin(Law):
        def characteristic(self, t):
            return jnp.cos(t)

        def reach(self):
            return 1.0

    point = (0.9, 0.4), 0.2
    with jax.enable_x64(True):
        expected = at(LAWS["bernoulli"], *point)
        for law in (ListedLaw([0.3, -0.3]), Coin()):
            for got, wanted in zip(at(law, *point), expected, strict=True):
                np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_an_empty_list_is_no_law():
    with pytest.raises(ValueError, match="values: got"):
        ListedLaw([0.0])
