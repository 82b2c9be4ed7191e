"""The deterministic learning curve of a restricted Boltzmann machine, from the data's projections alone.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equation (6): the data's pull is (9), see `spectral.py`, the
machine's answer follows from the stable states of (11)-(12), see `ensemble.py`.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from .. import check
from . import components as layers
from .ensemble import RESIDUAL, Ensemble, States, Values, describe, explore, starts
from .spectral import projected_dynamics


class Response(NamedTuple):
    """What a machine at equilibrium does along its modes."""

    correlations: Values  # <s_a sigma_b>
    visible: Values  # <s_a>
    hidden: Values  # <sigma_b>
    weights: Values  # of each search, a state's shared among the searches that found it
    states: Values  # how many states share the equilibrium: exp of the entropy of their weights


def _fluctuations(strengths, states: States, units) -> jax.Array:
    """<s_a sigma_b> - <s_a><sigma_b> within one state: A w (1 - B w A w)^-1 B for curvatures A and B at given q, qbar.

    Where the state is marginal this diverges, but a finite machine stops at order sqrt(units): the gap 1 - lambda of
    each eigenmode is replaced by sqrt((1 - lambda)^2 + 1/units), a change of relative order 1/units elsewhere.
    """
    values, vectors = jnp.linalg.eigh(states.hidden_curvature)
    root = vectors * jnp.sqrt(jnp.clip(values, 0.0))
    answer = states.visible_curvature @ (strengths[:, None] * root)
    gain, modes = jnp.linalg.eigh(root.T @ (strengths[:, None] * answer))
    return (answer @ modes / jnp.sqrt((1.0 - gain) ** 2 + 1.0 / units)) @ (root @ modes).T


def respond(ensemble: Ensemble, states: States, units: Values) -> Response:
    """`response` of the states of one ensemble, rows that repeat a state counted once."""
    place = jnp.column_stack([states.hidden, states.hidden_overlap])
    repeats = jnp.sum(jnp.abs(place[:, None] - place).max(axis=-1) < 1e-5, axis=1)
    # Without fields a state splits or merges with its neighbours (a pitchfork) and is kept until they take over; with
    # fields it disappears (a fold) and has to lose its weight before.
    margin = units**-0.5
    last = jnp.where(ensemble.pulled.any(), 1.0, 1.0 + 2.0 * margin)
    trust = jnp.clip((last - states.growth) / margin, 0.0, 1.0) * (states.residual < RESIDUAL)
    weights = jax.nn.softmax(units * states.log_partition + jnp.log(states.copies / repeats) + jnp.log(trust + 1e-300))
    inner = jax.vmap(lambda state: _fluctuations(ensemble.strengths, state, units))(states)
    # the two signs of a mode without a field cancel in everything that is odd in it
    kept = jnp.eye(ensemble.strengths.size, dtype=bool) | jnp.outer(ensemble.pulled, ensemble.pulled)
    outer = units * jnp.einsum("q,qa,qb->ab", weights, states.visible, states.hidden)
    entropy = -jnp.sum(weights * jnp.log(weights * repeats / states.copies + 1e-300))
    return Response(
        jnp.where(kept, outer + jnp.einsum("q,qab->ab", weights, inner), 0.0),
        jnp.where(ensemble.pulled, units**0.5 * weights @ states.visible, 0.0),
        jnp.where(ensemble.pulled, units**0.5 * weights @ states.hidden, 0.0),
        weights,
        jnp.exp(entropy),
    )


@jax.jit
def _response(ensemble: Ensemble, begin: jax.Array, units: jax.Array) -> tuple[Response, States]:
    states = explore(ensemble, begin)
    return respond(ensemble, states, units), states


def response(
    strengths: ArrayLike,
    *,
    units: float,
    noise: float = 0.0,
    aspect: float = 1.0,
    visible_field: ArrayLike = 0.0,
    hidden_field: ArrayLike = 0.0,
    components: Any = "gaussian",
    mixtures: int = 1,
) -> Response:
    """<s_a sigma_b>, <s_a> and <sigma_b> of the machine: its stable states, weighted by their free energy.

        <s_a sigma_b> = sum_q p_q (L mbar_a^q m_b^q + C_ab^q),    p_q ~ exp(L (ln Z / L)_q)

    `units` is L = sqrt(N_v N_h); the other arguments are those of `fixed_points`. C is the correlation within a state.
    The paper drops it, as of relative order 1/L; but it is all there is in the paramagnet, where w/(1 - w^2) of the
    linear machine makes weak modes decay. Within 1/sqrt(L) of the end of a state's stability, where a finite machine
    does not see so flat a hill, its weight goes to zero smoothly.

    >>> response([0.5], units=1000).correlations.round(3), response([2.0], units=1000).correlations.round()
    (array([[0.666]]), array([[447.]]))
    """
    check.number("units", units, above=0)
    ensemble = describe(strengths, noise, aspect, visible_field, hidden_field, components)
    with jax.enable_x64(True):
        result, _ = _response(ensemble, starts(ensemble, mixtures), float(units))
        return jax.tree.map(np.asarray, result)


class LearningCurve(NamedTuple):
    """A predicted course of learning, at the asked times."""

    times: np.ndarray
    strengths: np.ndarray  # w_a, largest first (times, modes)
    visible_field: np.ndarray  # eta_a (times, modes)
    hidden_field: np.ndarray  # theta_a (times, modes)
    visible_rotation: np.ndarray  # Omega^v_ab (times, modes, modes)
    hidden_rotation: np.ndarray  # Omega^h_ab (times, modes, modes)
    vectors: np.ndarray  # u^a as columns (times, visible, modes)
    states: np.ndarray  # how many states share the equilibrium (times,)


class _Setting(NamedTuple):
    """What stays fixed while a curve is integrated."""

    data: Values
    hidden: Values
    noise: Values
    learn_fields: Values
    laws: tuple[layers.Law, layers.Law]
    waves: Values
    data_waves: Values


class _Point(NamedTuple):
    """Where the machine is: weights on the K hidden directions it started with, and the fields."""

    weights: Values
    visible_field: Values
    hidden_field: Values


def _frame(setting: _Setting, point: _Point):
    """The modes at `point`, and the ensemble that they make."""
    left, strengths, right = jnp.linalg.svd(point.weights, full_matrices=False)
    visible = setting.data.shape[1]
    units = jnp.sqrt(visible * setting.hidden)
    eta, theta = left.T @ point.visible_field, right @ point.hidden_field
    pulled = setting.learn_fields | (eta != 0) | (theta != 0)
    scaled = eta / jnp.sqrt(units), theta / jnp.sqrt(units)
    ensemble = Ensemble(
        strengths, setting.noise, setting.hidden / visible, *scaled, pulled, setting.laws, setting.waves
    )
    return left, right, units, ensemble


@jax.jit
def _velocity(setting: _Setting, point: _Point, begin: jax.Array):
    """(6) in the frame of the modes, then turned back; with it what is worth recording."""
    left, right, units, ensemble = _frame(setting, point)
    theta = ensemble.hidden_field * jnp.sqrt(units)
    projections = setting.data @ left
    spread = setting.noise**2 / jnp.sqrt(ensemble.aspect)
    slopes = (projections * ensemble.strengths + theta) / jnp.sqrt(setting.hidden)
    answers = jnp.sqrt(setting.hidden) * jax.vmap(
        lambda row: layers.layer(setting.laws[1], row, spread, setting.data_waves).along
    )(slopes)
    pull = setting.data.T @ answers / len(answers)
    free, states = _response(ensemble, begin, units)
    fields = setting.learn_fields * (projections.mean(axis=0) - free.visible)
    speed = _Point(
        (pull - left @ free.correlations) @ right,
        left @ fields,
        right.T @ (setting.learn_fields * (answers.mean(axis=0) - free.hidden)),
    )
    return speed, (left, ensemble, left.T @ pull - free.correlations, free.states, states.residual.min())


def learning_curve(
    data: ArrayLike,
    weights: ArrayLike,
    times: ArrayLike,
    *,
    modes: int | None = None,
    visible_field: ArrayLike = 0.0,
    hidden_field: ArrayLike = 0.0,
    learn_fields: bool = False,
    noise: float = 0.0,
    components: Any = "gaussian",
    mixtures: int = 1,
    tolerance: float = 1e-3,
) -> LearningCurve:
    """Predict how the spectrum of a machine of spins develops when it learns `data` by gradient ascent from `weights`.

        dW/dt = <s sigma>_Data - <s sigma>_RBM,   d eta/dt = <s>_Data - <s>_RBM,   d theta/dt = <sigma>_Data - <sigma>_RBM

    in the space of the strongest `modes` of `weights` (visible, hidden), their left vectors free to turn anywhere. A
    time of 1 is learning rate times updates for the mean gradient over `data` (samples, visible), entries -1 and +1.
    Everything comes from the projections u^a . s of the data: the components of the vectors are averaged over the law
    `components`, which is where the machine's answer and (9) come from. `noise` is the sigma of (10), held fixed.

    `learn_fields` lets the fields learn too, within the space of the modes. `mixtures` is the largest number of modes
    in a state that is looked for (see `fixed_points`). `tolerance` is the relative error of an integration step.

    >>> rng = np.random.default_rng(0)
    >>> data = np.sign(rng.normal(size=(50, 1)) * rng.normal(size=40) + rng.normal(size=(50, 40)))
    >>> curve = learning_curve(data, 0.01 * rng.normal(size=(40, 20)), [0.0, 0.1, 1.0], modes=2)
    >>> curve.strengths.shape, bool(curve.strengths[-1, 0] > 1)
    ((3, 2), True)
    """
    setting, point, asked = _prepare(
        data, weights, times, modes, visible_field, hidden_field, learn_fields, noise, components
    )
    records = []
    with jax.enable_x64(True):
        previous = 0.0
        for time in asked:
            setting = _with_room(setting, point)
            begin = _tracked(setting, point, mixtures)
            if time > previous:
                point = _advance(setting, point, begin, time - previous, tolerance)
            records.append(_record(setting, point, begin))
            previous = time
    return LearningCurve(asked, *map(np.array, zip(*records, strict=True)))


def _prepare(data, weights, times, modes, visible_field, hidden_field, learn_fields, noise, components):
    samples = np.asarray(check.finite("data", data), dtype=np.float64)
    matrix = np.asarray(check.finite("weights", weights), dtype=np.float64)
    if samples.ndim != 2 or matrix.ndim != 2 or not np.isin(samples, (-1, 1)).all():
        check.refuse("data", f"shape {samples.shape}", "samples of spins (samples, visible), entries -1 and +1")
    check.shape("weights", matrix, (samples.shape[1], None))
    number = check.count("modes", min(matrix.shape) if modes is None else modes)
    if number > min(matrix.shape):
        check.refuse("modes", number, f"at most {min(matrix.shape)}")
    asked = np.asarray(check.number("times", times, least=0), dtype=np.float64)
    if asked.ndim != 1 or asked.size == 0 or (np.diff(asked) <= 0).any():
        check.refuse("times", f"shape {asked.shape}", "increasing times from 0 on")
    visible, hidden = matrix.shape
    right = np.linalg.svd(matrix, full_matrices=False)[2][:number]
    eta = np.broadcast_to(np.asarray(check.number("visible_field", visible_field), dtype=np.float64), (visible,))
    theta = np.broadcast_to(np.asarray(check.number("hidden_field", hidden_field), dtype=np.float64), (hidden,))
    room = describe(np.zeros(number), noise, hidden / visible, 0.0, 0.0, components)
    setting = _Setting(samples, float(hidden), noise, np.bool_(learn_fields), room.laws, room.waves, room.waves)
    return setting, _Point(matrix @ right.T, eta, right @ theta), asked


def _with_room(setting: _Setting, point: _Point) -> _Setting:
    """Wavenumbers with room for the fields at `point` to double before the next record."""
    left, _, units, ensemble = jax.tree.map(np.asarray, _frame(setting, point))
    fields = 2.0 * ensemble.visible_field, 2.0 * ensemble.hidden_field
    machine = describe(
        2.0 * ensemble.strengths + 1.0, setting.noise, ensemble.aspect, *fields, setting.laws, precision=1e-12
    )
    slopes = np.abs(setting.data @ left * ensemble.strengths + ensemble.hidden_field * units**0.5)
    reach = setting.laws[1].reach() * (2.0 * slopes.sum(axis=1).max() / setting.hidden**0.5 + 1.0)
    return setting._replace(waves=machine.waves, data_waves=layers.waves(reach, precision=1e-7, least=64))


@jax.jit
def _survey(setting: _Setting, point: _Point, begin: jax.Array) -> tuple[Response, States]:
    _, _, units, ensemble = _frame(setting, point)
    return _response(ensemble, begin, units)


def _tracked(setting: _Setting, point: _Point, mixtures: int) -> np.ndarray:
    """Where to look for states until the next record.

    A mode without a field can wake up at any time, so no mode, every single mode and the mixtures that count now. With
    fields all states change smoothly, so those that count now.
    """
    ensemble = jax.tree.map(np.asarray, _frame(setting, point)[3])
    singles, everything = starts(ensemble, 1), starts(ensemble, mixtures)
    kept = singles[: 0 if ensemble.pulled.all() else None]
    if len(kept) == len(everything):
        return kept
    free, states = jax.tree.map(np.asarray, _survey(setting, point, everything))
    rows = np.column_stack([states.hidden, states.hidden_overlap])
    worth = (free.weights > 1e-12) & (np.arange(len(rows)) >= len(kept))
    chosen = rows[worth][np.unique(rows[worth].round(4), axis=0, return_index=True)[1]]
    size = 2 ** int(np.ceil(np.log2(len(chosen)))) if len(chosen) else 0
    return np.vstack([kept, np.resize(chosen, (size, rows.shape[1]))])


def _advance(setting: _Setting, point: _Point, begin: np.ndarray, duration: float, tolerance: float) -> _Point:
    shapes = [np.shape(part) for part in point]
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def unpack(flat):
        return _Point(*(part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)))

    def velocity(time, flat):
        if next(calls) > 5000:
            raise RuntimeError(
                f"learning_curve: more than 5000 evaluations to advance by {time:.3g} of {duration:.3g}: the machine's "
                "states change too abruptly; try closer times, a larger tolerance or fewer modes"
            )
        speed, _ = _velocity(setting, unpack(flat), begin)
        return np.concatenate([np.ravel(part) for part in speed])

    calls = itertools.count()
    flat = np.concatenate([np.ravel(part) for part in point])
    run = solve_ivp(velocity, (0.0, duration), flat, "RK23", rtol=tolerance, atol=1e-2 * tolerance)
    if not run.success or not np.isfinite(run.y[:, -1]).all():
        raise RuntimeError(f"learning_curve: the integrator stopped: {run.message}")
    return unpack(run.y[:, -1])


def _record(setting: _Setting, point: _Point, begin: np.ndarray):
    _, extra = _velocity(setting, point, begin)
    left, ensemble, speed, states, residual = jax.tree.map(np.asarray, extra)
    if not residual < RESIDUAL:
        raise RuntimeError("learning_curve: no fixed point of the machine found; try a smaller noise")
    rotation = projected_dynamics(ensemble.strengths, speed)
    root = (setting.data.shape[1] * setting.hidden) ** 0.25
    fields = root * ensemble.visible_field, root * ensemble.hidden_field
    return ensemble.strengths, *fields, rotation.visible, rotation.hidden, left, states
