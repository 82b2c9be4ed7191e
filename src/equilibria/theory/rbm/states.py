"""The equilibrium states of restricted Boltzmann machines with a few strong modes in noise: where the equations rest.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equations (11)-(12), which are in `ensemble.py`.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from equilibria import check
from equilibria.theory.rbm.components import Components, Values
from equilibria.theory.rbm.ensemble import RESIDUAL, Ensemble, Turn, collect, describe, turn, turn_slope

SEARCHES = 4096  # as many at once


class States(NamedTuple):
    """Fixed points of (11)-(12); one row each.

    >>> fixed_points([2.0]).copies  # a strong mode comes with both signs, and m = 0 is unstable
    array([2., 1.])
    """

    hidden: Values  # m_a
    visible: Values  # mbar_a
    hidden_overlap: Values  # q
    visible_overlap: Values  # qbar
    log_partition: Values  # ln Z / L
    growth: Values  # of a small disturbance in one turn of (11)-(12): stable below 1
    replicon: Values  # sigma^4 E[sech^4 h] E[sech^4 hbar]: replica symmetry is broken above 1 (the AT line)
    residual: Values  # by how much (11)-(12) are missed
    visible_curvature: Values  # E[u_a u_b sech^2 h]
    hidden_curvature: Values  # E[v_a v_b sech^2 hbar]
    copies: Values  # states that differ from this one by the signs of modes without a field

    @property
    def stable(self) -> Values:
        """Which of them a disturbance within replica symmetry does not grow from."""
        return self.growth < 1.0


class _Search(NamedTuple):
    """Newton's method on its way."""

    place: jax.Array
    here: Turn  # from `place`
    trial: jax.Array  # where to look next
    safe: jax.Array  # whether `trial` is taken whatever is found there
    step: jax.Array


def _missed(x: jax.Array, once: Turn) -> jax.Array:
    return jnp.abs(once.hidden_order - x).max()


def settle(ensemble: Ensemble, x: jax.Array, *, sweeps: int = 300, newtons: int = 80) -> tuple[jax.Array, Turn]:
    """The fixed point of (11)-(12) that iterating them from x leads to, and the turn from there.

    They are iterated until close, then solved by Newton's method; where its jump gains nothing, the equations themselves
    are the safer step. Each step of Newton's method goes round only once, so that this is compiled once.
    """

    def far(carry: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, step, missed = carry
        return (missed > 1e-3) & (step < sweeps)

    def iterate(carry: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        x, step, _ = carry
        new = turn(ensemble, x).hidden_order
        return new, step + 1, jnp.abs(new - x).max()

    def near(search: _Search) -> jax.Array:
        return (_missed(search.place, search.here) > 1e-14) & (search.step < newtons)

    def newton(search: _Search) -> _Search:
        there = turn(ensemble, search.trial)
        taken = search.safe | (_missed(search.trial, there) <= _missed(search.place, search.here))
        pair = (search.trial, there), (search.place, search.here)
        x, here = jax.tree.map(lambda new, old: jnp.where(taken, new, old), *pair)
        jump = x + jnp.linalg.solve(jnp.eye(x.size) - turn_slope(ensemble, here), here.hidden_order - x)
        jump = jump.at[-1].set(jnp.clip(jump[-1], 0.0, 1.0))
        return _Search(x, here, jnp.where(taken, jump, here.hidden_order), ~taken, search.step + 1)

    start = (x, jnp.asarray(0), jnp.asarray(1.0))
    x, _, _ = jax.lax.while_loop(far, iterate, start)
    unknown = jax.tree.map(lambda s: jnp.full(s.shape, jnp.inf, s.dtype), jax.eval_shape(turn, ensemble, x))
    search = jax.lax.while_loop(near, newton, _Search(x, unknown, x, jnp.asarray(True), jnp.asarray(0)))
    return search.place, search.here


def spectral_radius(matrix: jax.Array) -> jax.Array:
    """The largest |eigenvalue|, by repeated squaring: |M^n|^(1/n) with n = 2^40."""

    def square(
        carry: tuple[jax.Array, jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], None]:
        power, log, n = carry
        size = jnp.abs(power).max() + 1e-300
        power = power / size
        return (power @ power, log + jnp.log(size) / n, 2.0 * n), None

    (_, log, _), _ = jax.lax.scan(square, (matrix, jnp.asarray(0.0), jnp.asarray(1.0)), length=40)
    return jnp.exp(log)


def rest(ensemble: Ensemble, start: jax.Array) -> States:
    """The fixed point that `start` leads to, and everything about it."""
    x, once = settle(ensemble, start)
    xbar, visible, hidden = once.visible_order, once.visible, once.hidden
    free = ~jnp.asarray(ensemble.pulled) & (jnp.abs(x[:-1]) > 1e-6)
    return States(
        x[:-1],
        xbar[:-1],
        x[-1],
        xbar[-1],
        collect(ensemble, x, xbar, visible.log_cosh, hidden.log_cosh),
        spectral_radius(turn_slope(ensemble, once)),
        ensemble.noise**4 * visible.quartic * hidden.quartic,
        _missed(x, once),
        visible.curvature,
        hidden.curvature,
        jnp.prod(jnp.where(free, 2.0, 1.0)),
    )


@jax.jit
def explore(ensemble: Ensemble, starts: Values) -> States:
    """The states that the rows of `starts` lead to."""
    return jax.vmap(lambda x: rest(ensemble, x))(jnp.asarray(starts))


def starts(ensemble: Ensemble, mixtures: int) -> np.ndarray:
    """Where to look for states: no mode, each mode, and each combination of up to `mixtures` modes.

    A mode without a field starts with a plus sign only, since its other sign is a copy; (11)-(12) never wake it up.
    """
    check.count("mixtures", mixtures, least=0)
    modes, signs = ensemble.strengths.size, np.where(ensemble.pulled, 2.0, 1.0)
    ways = np.ones(1)  # in which so many modes can be combined: the coefficients of prod_a (1 + signs_a x)
    for number in signs:
        ways = np.convolve(ways, [1.0, number])
    if ways[: mixtures + 1].sum() > SEARCHES:
        asked = f"{mixtures}, which asks for {ways[: mixtures + 1].sum():.0f} searches"
        check.refuse("mixtures", asked, f"fewer: at most {SEARCHES} searches")
    rows = [np.append(np.zeros(modes), 0.9)]
    for size in range(1, min(mixtures, modes) + 1):
        for chosen in itertools.combinations(range(modes), size):
            for sign in itertools.product(*((1.0, -1.0) if ensemble.pulled[a] else (1.0,) for a in chosen)):
                row = np.append(np.zeros(modes), 0.9)
                row[list(chosen)] = 0.9 * ensemble.aspect**0.25 * np.array(sign) / size**0.5
                rows.append(row)
    return np.array(rows)


def repeated(rows: np.ndarray, *, least: int = 8) -> np.ndarray:
    """The rows, repeated until their number is a power of two and not below `least`, so that compiled code is shared."""
    return np.resize(rows, (max(least, 2 ** int(np.ceil(np.log2(len(rows))))), rows.shape[1]))


def fixed_points(
    strengths: ArrayLike,
    *,
    noise: float = 0.0,
    aspect: float = 1.0,
    visible_field: ArrayLike = 0.0,
    hidden_field: ArrayLike = 0.0,
    components: Components = "gaussian",
    mixtures: int = 3,
) -> States:
    """The equilibrium states of the ensemble (10): the fixed points of (11)-(12).

        m_a = kappa^(1/4) E[v^a tanh hbar],  mbar_a = kappa^(-1/4) E[u^a tanh h],  q = E tanh^2 hbar,  qbar = E tanh^2 h
        h = kappa^(1/4) (sigma sqrt(q) x + sum_g (w_g m_g + eta_g) u^g)
        hbar = kappa^(-1/4) (sigma sqrt(qbar) x + sum_g (w_g mbar_g + theta_g) v^g)

    Gaussian components leave the strongest mode alone stable; uniform and Bernoulli ones allow many states.

    Args:
        strengths: w_a, one for each mode.
        noise: sigma >= 0.
        aspect: kappa = N_h / N_v > 0.
        visible_field: eta_a / sqrt(L).
        hidden_field: theta_a / sqrt(L).
        components: what the components are drawn from: "gaussian", "uniform", "bernoulli", a `Law`, or a pair
            (visible, hidden).
        mixtures: the largest number of modes in a state that is looked for.

    Returns:
        The states found, the best stable one first; unstable ones found on the way are kept, and marked by `stable`.

    Raises:
        ValueError: if an argument is out of its range, or asks for more than 4096 searches.
        RuntimeError: if no stable state was found.

    >>> fixed_points([2.0, 1.9]).stable.sum(), fixed_points([2.0, 1.9], components="bernoulli").stable.sum()
    (np.int64(1), np.int64(2))
    """
    ensemble = describe(strengths, noise, aspect, visible_field, hidden_field, components)
    if ensemble.strengths.ndim != 1:
        check.refuse("strengths", f"shape {ensemble.strengths.shape}", "one strength for each mode")
    begin = starts(ensemble, mixtures)
    with jax.enable_x64(True):
        found = jax.tree.map(np.asarray, explore(ensemble, repeated(begin)))
    return _sorted(_distinct(jax.tree.map(lambda rows: rows[: len(begin)], found)))


def _distinct(states: States) -> States:
    """The converged fixed points, each once."""
    place = np.column_stack([states.hidden, states.hidden_overlap])
    kept: list[int] = []
    for row in np.flatnonzero(states.residual < RESIDUAL):
        if all(np.abs(place[row] - place[other]).max() > 1e-5 for other in kept):
            kept.append(int(row))
    if not any(states.growth[row] < 1.0 + 1e-6 for row in kept):
        raise RuntimeError(
            f"no stable fixed point found among {len(place)} searches (smallest residual {states.residual.min():.1e}, "
            f"smallest growth {states.growth.min():.3g}); try more mixtures"
        )
    return jax.tree.map(lambda rows: rows[kept], states)


def _sorted(states: States) -> States:
    best = np.lexsort((-np.asarray(states.log_partition), ~np.asarray(states.stable)))
    return jax.tree.map(lambda rows: rows[best], states)
