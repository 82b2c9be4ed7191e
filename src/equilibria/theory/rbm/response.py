"""What a restricted Boltzmann machine does at equilibrium, along its modes: a sum over its stable states.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), the response term of equation (6), from the states of `states.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.rbm.components import Components, Values
from equilibria.theory.rbm.ensemble import RESIDUAL, Ensemble, describe
from equilibria.theory.rbm.states import States, explore, repeated, starts


class Response(NamedTuple):
    """What a machine at equilibrium does along its modes.

    >>> response([2.0], units=1000).states.round(6)  # both signs of the mode
    np.float64(2.0)
    """

    correlations: Values  # <s_a sigma_b>
    visible: Values  # <s_a>
    hidden: Values  # <sigma_b>
    weights: Values  # of each search, a state's shared among the searches that found it
    states: Values  # how many states share the equilibrium: exp of the entropy of their weights


def _fluctuations(strengths: Values, states: States, units: Values) -> jax.Array:
    """<s_a sigma_b> - <s_a><sigma_b> within one state: A w (1 - B w A w)^-1 B for curvatures A and B at given q, qbar.

    Where the state is marginal this diverges, but a finite machine stops at order sqrt(units): the gap 1 - lambda of
    each eigenmode is replaced by sqrt((1 - lambda)^2 + 1/units), a change of relative order 1/units elsewhere.
    """
    values, vectors = jnp.linalg.eigh(states.hidden_curvature)
    root = vectors * jnp.sqrt(jnp.clip(values, 0.0))
    answer = states.visible_curvature @ (strengths[:, None] * root)
    gain, modes = jnp.linalg.eigh(root.T @ (strengths[:, None] * answer))
    return (answer @ modes / jnp.sqrt((1.0 - gain) ** 2 + 1.0 / units)) @ (root @ modes).T


def respond(ensemble: Ensemble, states: States, units: Values, counted: Values) -> Response:
    """The response of the states of one ensemble; which rows are `counted` is given, and a repeated state counts once."""
    place = jnp.column_stack([states.hidden, states.hidden_overlap])
    same = jnp.abs(place[:, None] - place).max(axis=-1) < 1e-5
    repeats = jnp.maximum(jnp.sum(same & counted, axis=1), 1)
    # Without fields a state splits or merges with its neighbours (a pitchfork) and is kept until they take over; with
    # fields it disappears (a fold) and has to lose its weight before.
    margin = units**-0.5
    last = jnp.where(ensemble.pulled.any(), 1.0, 1.0 + 2.0 * margin)
    trust = jnp.clip((last - states.growth) / margin, 0.0, 1.0) * (states.residual < RESIDUAL) * counted
    weights = jax.nn.softmax(units * states.log_partition + jnp.log(states.copies / repeats) + jnp.log(trust + 1e-300))
    inner = jax.vmap(lambda state: _fluctuations(ensemble.strengths, state, units))(states)
    # the two signs of a mode without a field cancel in everything that is odd in it
    kept = jnp.eye(ensemble.strengths.size, dtype=bool) | ensemble.pulled[:, None] & ensemble.pulled
    outer = units * jnp.einsum("q,qa,qb->ab", weights, states.visible, states.hidden)
    entropy = -jnp.sum(weights * jnp.log(weights * repeats / states.copies + 1e-300))
    return Response(
        jnp.where(kept, outer + jnp.einsum("q,qab->ab", weights, inner), 0.0),
        jnp.where(ensemble.pulled, units**0.5 * weights @ states.visible, 0.0),
        jnp.where(ensemble.pulled, units**0.5 * weights @ states.hidden, 0.0),
        weights,
        jnp.exp(entropy),
    )


_respond = jax.jit(respond)


def equilibrium(ensemble: Ensemble, begin: np.ndarray, units: Values) -> tuple[Response, States]:
    """The response, and the states that the rows of `begin` lead to, in NumPy.

    Two compiled functions, and not one: the first, which takes long to compile, is then that of `fixed_points` too.
    """
    rows = repeated(begin)
    states = explore(ensemble, rows)
    result = _respond(ensemble, states, units, np.arange(len(rows)) < len(begin))
    found: tuple[Response, States] = jax.tree.map(np.asarray, (result, states))
    kept = jax.tree.map(lambda values: values[: len(begin)], found[1])
    return found[0]._replace(weights=found[0].weights[: len(begin)]), kept


def response(
    strengths: ArrayLike,
    *,
    units: float,
    noise: float = 0.0,
    aspect: float = 1.0,
    visible_field: ArrayLike = 0.0,
    hidden_field: ArrayLike = 0.0,
    components: Components = "gaussian",
    mixtures: int = 1,
) -> Response:
    """What a machine does at equilibrium along its modes: its stable states, weighted by their free energy.

        <s_a sigma_b> = sum_q p_q (L mbar_a^q m_b^q + C_ab^q),    p_q ~ exp(L (ln Z / L)_q)

    C is the correlation within a state. The paper drops it, as of relative order 1/L; but it is all there is in the
    paramagnet, where w/(1 - w^2) of the linear machine makes weak modes decay. Within 1/sqrt(L) of the end of a state's
    stability, where a finite machine does not see so flat a hill, its weight goes to zero smoothly.

    Args:
        strengths: w_a, one for each mode.
        units: L = sqrt(N_v N_h) > 0.
        noise: sigma >= 0.
        aspect: kappa = N_h / N_v > 0.
        visible_field: eta_a / sqrt(L).
        hidden_field: theta_a / sqrt(L).
        components: what the components are drawn from, as in `fixed_points`.
        mixtures: the largest number of modes in a state that is looked for.

    Returns:
        <s_a sigma_b>, <s_a> and <sigma_b>, the weight of what each search found, and how many states share the equilibrium.

    Raises:
        ValueError: if an argument is out of its range, or asks for more than 4096 searches.

    >>> response([0.5], units=1000).correlations.round(3), response([2.0], units=1000).correlations.round()
    (array([[0.666]]), array([[447.]]))
    """
    check.number("units", units, above=0)
    ensemble = describe(strengths, noise, aspect, visible_field, hidden_field, components)
    with jax.enable_x64(True):
        return equilibrium(ensemble, starts(ensemble, mixtures), np.asarray(units, np.float64))[0]
