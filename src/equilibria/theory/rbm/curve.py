"""The deterministic learning curve of a restricted Boltzmann machine, from the data's projections alone.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equation (6): the data's pull is (9), see `spectral.py`, the
machine's answer follows from the stable states of (11)-(12), see `ensemble.py` and `response.py`.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from equilibria import check
from equilibria.theory.rbm import components as layers
from equilibria.theory.rbm.ensemble import RESIDUAL, Ensemble, States, Values, describe, starts
from equilibria.theory.rbm.response import Response, equilibrium
from equilibria.theory.rbm.spectral import projected_dynamics


class LearningCurve(NamedTuple):
    """A predicted course of learning, at the asked times as far as it could be followed."""

    times: np.ndarray
    strengths: np.ndarray  # w_a, largest first (times, modes)
    visible_field: np.ndarray  # eta_a (times, modes)
    hidden_field: np.ndarray  # theta_a (times, modes)
    visible_rotation: np.ndarray  # Omega^v_ab (times, modes, modes)
    hidden_rotation: np.ndarray  # Omega^h_ab (times, modes, modes)
    vectors: np.ndarray  # u^a as columns (times, visible, modes)
    states: np.ndarray  # how many states share the equilibrium (times,)
    message: str  # why the curve ends before the last asked time; empty if it does not


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
    free, states = equilibrium(ensemble, begin, units)
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

    Where two strengths meet, the modes are not defined and laws other than the Gaussian depend on how they are chosen:
    the equations are singular there, as (7)-(8) are, and may have no solution that goes on. The curve then ends early
    and `message` says so.

    >>> rng = np.random.default_rng(0)
    >>> data = np.sign(rng.normal(size=(50, 1)) * rng.normal(size=40) + rng.normal(size=(50, 40)))
    >>> curve = learning_curve(data, 0.01 * rng.normal(size=(40, 20)), [0.0, 0.1, 1.0], modes=2)
    >>> curve.strengths.shape, bool(curve.strengths[-1, 0] > 1)
    ((3, 2), True)
    """
    setting, point, asked = _prepare(
        data, weights, times, modes, visible_field, hidden_field, learn_fields, noise, components
    )
    records: list[tuple] = []
    previous, message = 0.0, ""
    with jax.enable_x64(True):
        for time in asked:
            setting = _with_room(setting, point)
            begin = _tracked(setting, point, mixtures)
            try:
                if time > previous:
                    point = _advance(setting, point, begin, time - previous, tolerance)
                records.append(_record(setting, point, begin))
            except RuntimeError as error:
                if not records:
                    raise
                message = f"stopped between times {previous:.3g} and {time:.3g}: {error}"
                break
            previous = time
    columns: list[Any] = [np.array(column) for column in zip(*records, strict=True)]
    return LearningCurve._make([asked[: len(records)], *columns, message])


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
    return equilibrium(ensemble, begin, units)


def _tracked(setting: _Setting, point: _Point, mixtures: int) -> np.ndarray:
    """Where to look for states until the next record: the states that count now, and where others may appear.

    A state of mode a needs w_a > 1, so modes that may come near to that in the meantime are watched.
    """
    ensemble = jax.tree.map(np.asarray, _frame(setting, point)[3])
    singles, everything = starts(ensemble, 1), starts(ensemble, mixtures)
    if not ensemble.pulled.any() and len(singles) == len(everything):
        return singles
    free, states = jax.tree.map(np.asarray, _survey(setting, point, everything))
    found = np.column_stack([states.hidden, states.hidden_overlap])[free.weights > 1e-12]
    watched = singles[(singles[:, :-1] != 0) @ ensemble.strengths > 0.6] if ensemble.pulled.any() else singles
    rows = np.vstack([found[np.unique(found.round(4), axis=0, return_index=True)[1]], watched])
    return np.resize(rows, (2 ** int(np.ceil(np.log2(len(rows)))), rows.shape[1]))


def _advance(setting: _Setting, point: _Point, begin: np.ndarray, duration: float, tolerance: float) -> _Point:
    shapes = [np.shape(part) for part in point]
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def unpack(flat):
        return _Point(*(part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)))

    def velocity(time, flat):
        if next(calls) > 2000:
            raise RuntimeError(
                f"learning_curve: more than 2000 evaluations to advance by {time:.3g} of {duration:.3g}: the machine's "
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
