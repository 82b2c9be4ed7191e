"""The deterministic learning curve of a restricted Boltzmann machine, from the data's projections alone.

Decelle, Fissore and Furtlehner, EPL 119, 60001 (2017), equation (6): the data's pull is (9), see `spectral.py`, the
machine's answer follows from the stable states of (11)-(12), see `states.py` and `response.py`.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from equilibria import check
from equilibria.theory.rbm.components import Components, Law, Values, layer_averages, waves
from equilibria.theory.rbm.ensemble import RESIDUAL, Ensemble, describe
from equilibria.theory.rbm.response import equilibrium, respond
from equilibria.theory.rbm.spectral import projected_dynamics
from equilibria.theory.rbm.states import States, explore, repeated, starts


class LearningCurve(NamedTuple):
    """A predicted course of learning, at the asked times as far as it could be followed.

    It is returned by `learning_curve`, where there is an example.
    """

    times: np.ndarray
    strengths: np.ndarray  # w_a, largest first (times, modes)
    visible_field: np.ndarray  # eta_a (times, modes)
    hidden_field: np.ndarray  # theta_a (times, modes)
    visible_rotation: np.ndarray  # Omega^v_ab (times, modes, modes)
    hidden_rotation: np.ndarray  # Omega^h_ab (times, modes, modes)
    vectors: np.ndarray  # u^a as columns (times, visible, modes)
    states: np.ndarray  # how many states share the equilibrium (times,)
    message: str  # why the curve ends before the last asked time; empty if it does not


class _Problem(NamedTuple):
    """What stays fixed while a curve is integrated."""

    data: Values
    hidden: Values
    noise: Values
    learn_fields: Values
    laws: tuple[Law, Law]
    waves: Values
    data_waves: Values


class _Point(NamedTuple):
    """Where the machine is: weights on the K hidden directions it started with, and the fields."""

    weights: Values
    visible_field: Values
    hidden_field: Values


class _Frame(NamedTuple):
    """The modes at a point, and the ensemble that they make."""

    left: Values
    right: Values
    units: Values
    ensemble: Ensemble


class _Motion(NamedTuple):
    """How the machine moves, and what is worth recording of it."""

    speed: _Point
    velocity: Values  # of the weights, in the frame of the modes
    states: Values
    residual: Values


@jax.jit
def _frame(problem: _Problem, point: _Point) -> _Frame:
    left, strengths, right = jnp.linalg.svd(point.weights, full_matrices=False)
    visible = problem.data.shape[1]
    units = jnp.sqrt(visible * problem.hidden)
    eta, theta = left.T @ point.visible_field, right @ point.hidden_field
    pulled = problem.learn_fields | (eta != 0) | (theta != 0)
    scaled = eta / jnp.sqrt(units), theta / jnp.sqrt(units)
    ensemble = Ensemble(
        strengths, problem.noise, problem.hidden / visible, *scaled, pulled, problem.laws, problem.waves
    )
    return _Frame(left, right, units, ensemble)


@jax.jit
def _moved(problem: _Problem, frame: _Frame, states: States) -> _Motion:
    """(6) in the frame of the modes, then turned back."""
    left, right, units, ensemble = frame
    theta = ensemble.hidden_field * jnp.sqrt(units)
    projections = problem.data @ left
    spread = problem.noise**2 / jnp.sqrt(ensemble.aspect)
    slopes = (projections * ensemble.strengths + theta) / jnp.sqrt(problem.hidden)
    answers = jnp.sqrt(problem.hidden) * jax.vmap(
        lambda row: layer_averages(problem.laws[1], row, spread, problem.data_waves).along
    )(slopes)
    pull = problem.data.T @ answers / len(answers)
    free = respond(ensemble, states, units, np.ones(len(states.growth), bool))
    speed = _Point(
        (pull - left @ free.correlations) @ right,
        left @ (problem.learn_fields * (projections.mean(axis=0) - free.visible)),
        right.T @ (problem.learn_fields * (answers.mean(axis=0) - free.hidden)),
    )
    return _Motion(speed, left.T @ pull - free.correlations, free.states, states.residual.min())


def _motion(problem: _Problem, point: _Point, begin: np.ndarray) -> tuple[_Frame, _Motion]:
    """Three compiled functions, and not one: the second, which takes long to compile, does not depend on the data."""
    frame = _frame(problem, point)
    return frame, _moved(problem, frame, explore(frame.ensemble, begin))


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
    components: Components = "gaussian",
    mixtures: int = 1,
    tolerance: float = 1e-3,
) -> LearningCurve:
    """Predict how the spectrum of a machine of spins develops when it learns data by gradient ascent.

        dW/dt = <s sigma>_Data - <s sigma>_RBM,   d eta/dt = <s>_Data - <s>_RBM,   d theta/dt = <sigma>_Data - <sigma>_RBM

    in the space of the strongest modes of the weights, their left vectors free to turn anywhere. A time of 1 is learning
    rate times updates for the mean gradient over the data. Everything comes from the projections u^a . s of the data: the
    components of the vectors are averaged over a law, which is where the machine's answer and (9) come from.

    Where two strengths meet, the modes are not defined and laws other than the Gaussian depend on how they are chosen:
    the equations are singular there, as (7)-(8) are, and may have no solution that goes on. The curve then ends early
    and `message` says so.

    Args:
        data: (samples, visible), entries -1 and +1.
        weights: (visible, hidden) at time 0.
        times: when to look, increasing from 0 on.
        modes: how many, by default all.
        visible_field: eta at time 0, for each visible unit or for all.
        hidden_field: theta at time 0, for each hidden unit or for all.
        learn_fields: let the fields learn too, within the space of the modes.
        noise: the sigma of (10), held fixed.
        components: what the components are drawn from, as in `fixed_points`.
        mixtures: the largest number of modes in a state that is looked for.
        tolerance: the relative error of an integration step.

    Returns:
        Strengths, fields, rotations and vectors of the modes at the asked times.

    Raises:
        ValueError: if an argument is out of its range, or shapes do not fit together.
        RuntimeError: if not even the first of the asked times could be reached.

    >>> rng = np.random.default_rng(0)
    >>> data = np.sign(rng.normal(size=(50, 1)) * rng.normal(size=40) + rng.normal(size=(50, 40)))
    >>> curve = learning_curve(data, 0.01 * rng.normal(size=(40, 20)), [0.0, 0.1, 1.0], modes=2)
    >>> curve.strengths.shape, bool(curve.strengths[-1, 0] > 1)
    ((3, 2), True)
    """
    check.count("mixtures", mixtures, least=0)
    options = learn_fields, noise, components
    problem, point, asked = _prepare(data, weights, times, modes, (visible_field, hidden_field), options)
    records: list[tuple[np.ndarray, ...]] = []
    previous, message = 0.0, ""
    with jax.enable_x64(True):
        for time in asked:
            problem = _with_room(problem, point)
            begin = _tracked(problem, point, mixtures)
            try:
                if time > previous:
                    point = _advance(problem, point, begin, time - previous, tolerance)
                records.append(_record(problem, point, begin))
            except RuntimeError as error:
                if not records:
                    raise
                message = f"stopped between times {previous:.3g} and {time:.3g}: {error}"
                break
            previous = time
    columns = [np.array(column) for column in zip(*records, strict=True)]
    return LearningCurve._make([asked[: len(records)], *columns, message])


def _prepare(
    data: ArrayLike,
    weights: ArrayLike,
    times: ArrayLike,
    modes: int | None,
    fields: tuple[ArrayLike, ArrayLike],
    options: tuple[bool, float, Components],
) -> tuple[_Problem, _Point, np.ndarray]:
    """Checked arguments, in double precision."""
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
    eta = np.broadcast_to(np.asarray(check.number("visible_field", fields[0]), dtype=np.float64), (visible,))
    theta = np.broadcast_to(np.asarray(check.number("hidden_field", fields[1]), dtype=np.float64), (hidden,))
    learn_fields, noise, components = options
    room = describe(np.zeros(number), noise, hidden / visible, 0.0, 0.0, components)
    # arrays, and not Python's numbers, whose type JAX calls weak: code would be compiled again for them
    fixed = np.asarray(hidden, np.float64), room.noise, np.asarray(bool(learn_fields))
    return (
        _Problem(samples, *fixed, room.laws, room.waves, room.waves),
        _Point(matrix @ right.T, eta, right @ theta),
        asked,
    )


def _with_room(problem: _Problem, point: _Point) -> _Problem:
    """Wavenumbers with room for the fields at `point` to double before the next record."""
    left, _, units, ensemble = jax.tree.map(np.asarray, _frame(problem, point))
    fields = 2.0 * ensemble.visible_field, 2.0 * ensemble.hidden_field
    given = 2.0 * ensemble.strengths + 1.0, problem.noise, ensemble.aspect, *fields, problem.laws
    machine = describe(*given, precision=1e-12, least=128)  # few: a curve takes thousands of searches
    slopes = np.abs(problem.data @ left * ensemble.strengths + ensemble.hidden_field * units**0.5)
    reach = problem.laws[1].reach() * (2.0 * slopes.sum(axis=1).max() / problem.hidden**0.5 + 1.0)
    return problem._replace(waves=machine.waves, data_waves=waves(reach, precision=1e-7, least=64))


def _tracked(problem: _Problem, point: _Point, mixtures: int) -> np.ndarray:
    """Where to look for states until the next record: the states that count now, and where others may appear.

    A state of mode a needs w_a > 1, so modes that may come near to that in the meantime are watched.
    """
    frame = jax.tree.map(np.asarray, _frame(problem, point))
    ensemble = frame.ensemble
    singles, everything = starts(ensemble, 1), starts(ensemble, mixtures)
    if not ensemble.pulled.any() and len(singles) == len(everything):
        return singles
    free, states = equilibrium(ensemble, everything, frame.units)
    found = np.column_stack([states.hidden, states.hidden_overlap])[free.weights > 1e-12]
    watched = singles[(singles[:, :-1] != 0) @ ensemble.strengths > 0.6] if ensemble.pulled.any() else singles
    rows = np.vstack([found[np.unique(found.round(4), axis=0, return_index=True)[1]], watched])
    return repeated(rows, least=1)


def _advance(problem: _Problem, point: _Point, begin: np.ndarray, duration: float, tolerance: float) -> _Point:
    shapes = [np.shape(part) for part in point]
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def unpack(flat: np.ndarray) -> _Point:
        return _Point(*(part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)))

    def velocity(time: float, flat: np.ndarray) -> np.ndarray:
        if next(calls) > 2000:
            raise RuntimeError(
                f"learning_curve: more than 2000 evaluations to advance by {time:.3g} of {duration:.3g}: the machine's "
                "states change too abruptly; try closer times, a larger tolerance or fewer modes"
            )
        _, motion = _motion(problem, unpack(flat), begin)
        return np.concatenate([np.ravel(part) for part in motion.speed])

    calls = itertools.count()
    flat = np.concatenate([np.ravel(part) for part in point])
    run = solve_ivp(velocity, (0.0, duration), flat, "RK23", rtol=tolerance, atol=1e-2 * tolerance)
    if not run.success or not np.isfinite(run.y[:, -1]).all():
        raise RuntimeError(f"learning_curve: the integrator stopped: {run.message}")
    return unpack(run.y[:, -1])


def _record(problem: _Problem, point: _Point, begin: np.ndarray) -> tuple[np.ndarray, ...]:
    frame, motion = jax.tree.map(np.asarray, _motion(problem, point, begin))
    if not motion.residual < RESIDUAL:
        raise RuntimeError("learning_curve: no fixed point of the machine found; try a smaller noise")
    ensemble = frame.ensemble
    rotation = projected_dynamics(ensemble.strengths, motion.velocity)
    root = frame.units**0.5
    fields = root * ensemble.visible_field, root * ensemble.hidden_field
    return ensemble.strengths, *fields, rotation.visible, rotation.hidden, frame.left, motion.states
