"""From logs to a robot: inertias, friction, armatures and motor constants, with their standard
errors.

The torque of joint i in sample k is linear in the parameters p: dynamic parameters of the links,
armatures and friction coefficients,

    tau_ik = Y_ik p,

where Y contains :func:`artix.joint_torque_regressor`, the joint's acceleration (armature), its
velocity (viscous friction) and the sign of its velocity (Coulomb friction). A QR factorisation of
``[Y_i, tau_i]`` leaves a triangle ``[R_i, z_i]``, the *evidence* of joint i, with
``|Y_i p - tau_i|^2 = |R_i p - z_i|^2`` for every p, so that the samples are not needed any more.
There is one triangle for each joint, because their noises differ, and the estimate weights them by
these (Gautier, *Dynamic identification of robots with power model*, ICRA 1997). Signs of velocities
pass the filter of the torques, which would otherwise lag behind their jumps.

The estimate minimises

    sum_i |g_i R_i p(x) - z_i|^2 / sigma_i^2  +  |(theta - theta_0) / d|^2

over x: log-Cholesky parameters theta of the links (every value of which is a body that can exist),
armatures and friction coefficients, none of which is negative, and motor constants. sigma_i is the
noise of joint i, and g_i is one, or the reciprocal of the motor constant if currents were measured.
The second term is the guess: its deviation d decides only what the logs do not, since joint torques
do not determine all parameters but their *base parameters*.

P. Wensing, S. Kim and J.-J. Slotine, *Linear matrix inequalities for physically consistent inertial
parameter identification*, RA-L 2018; C. Rucker and P. Wensing, *Smooth parameterization of
rigid-body inertia*, RA-L 2022; J. Swevers et al., *Optimal robot excitation and identification*,
T-RO 1997.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from artix import (
    Articulation,
    State,
    dynamic_parameters,
    joint_torque_regressor,
    log_cholesky_from_articulation,
    neutral_state,
    with_log_cholesky,
)
from artix.identification.log import Log

Array = jax.Array
#: Samples whose equations are in memory at once.
_CHUNK = 2048

#: Names of the ten dynamic parameters of a link, in the order of :func:`artix.dynamic_parameters`.
INERTIAL = ("mass", "mc_x", "mc_y", "mc_z", "I_xx", "I_xy", "I_yy", "I_xz", "I_yz", "I_zz")

#: What each joint can have, and what its torque is proportional to.
JOINT_TERMS = ("armature", "viscous", "coulomb", "stribeck")
#: Torques that are so many times those of the guess, or so unlike them, are most likely in another
#: unit or order.
_LARGEST_RATIO, _OPPOSED = 30.0, -0.5


@dataclasses.dataclass(frozen=True)
class Model:
    """Which parameters are unknown.

    Attributes:
      links: names of the links whose inertias are unknown.
      terms: which of :data:`JOINT_TERMS` every joint has.
      stribeck_speed: speed over which static friction falls to Coulomb friction [rad/s or m/s].
    """

    links: tuple[str, ...]
    terms: tuple[str, ...]
    stribeck_speed: float | None

    def names(self, robot: Articulation) -> tuple[str, ...]:
        """Names of the parameters p."""
        inertias = [f"{link}.{name}" for link in self.links for name in INERTIAL]
        joints = robot.topology.dof_names
        return *inertias, *(f"{joint}.{term}" for term in self.terms for joint in joints)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What logs say about the parameters p of a model.

    Attributes:
      triangles: ``[R_i, k_i, z_i]`` of each joint, shape [n, P + 2, P + 2]; k_i is the torque of
        what is known, as a column by itself, since currents measure it in another unit.
      counts: number of samples of each joint, shape [n].
    """

    triangles: np.ndarray
    counts: np.ndarray

    def __add__(self, other: Evidence) -> Evidence:
        stacked = np.concatenate([self.triangles, other.triangles], axis=1)
        return Evidence(
            np.stack([np.linalg.qr(rows, mode="r") for rows in stacked]), self.counts + other.counts
        )

    @property
    def noise(self) -> np.ndarray:
        """Standard deviation that no choice of p explains, of each joint, shape [n]."""
        unknowns = self.triangles.shape[1] - 1
        residual = np.abs(self.triangles[:, -1, -1])
        size = np.linalg.norm(self.triangles[:, :, -1], axis=1)
        # No sensor of torque is more exact. Without noise, the equations would be stiff beside the
        # guess. Joints without a motor have no torque.
        residual = np.maximum(residual, 1e-4 * np.where(size > 0, size, size.max()))
        return residual / np.sqrt(np.maximum(self.counts - unknowns, 1))

    def residual(self, parameters: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """Root mean square of ``gains Y p - tau`` of each joint, shape [n]."""
        predicted = gains[:, None] * (self.triangles[:, :, :-1] @ np.append(parameters, 1.0))
        return np.linalg.norm(predicted - self.triangles[:, :, -1], axis=1) / np.sqrt(
            np.maximum(self.counts, 1)
        )


def gather(robot: Articulation, log: Log, model: Model, measured: str) -> Evidence:
    """The evidence of a log, in double precision.

    Args:
      robot: the robot; those of its numbers that are not unknown are taken for true.
      log: the log, with velocities and accelerations.
      model: the unknowns.
      measured: the column with the torques, or another one that is proportional to them.
    """
    motion = log.position, log.need("velocity"), log.need("acceleration")
    torque = log.need(measured)
    num_dofs, num_unknowns = torque.shape[1], len(model.names(robot))
    triangles = np.zeros((num_dofs, num_unknowns + 2, num_unknowns + 2))
    counts = np.zeros(num_dofs, int)
    regressor = _Regressor(robot, model.links)
    terms, others = _terms(model, log), _known_terms(robot, model, log)
    for start in range(0, len(log), _CHUNK):
        part = slice(start, start + _CHUNK)
        unknown, known = regressor(*(each[part] for each in motion))
        for joint in range(num_dofs):
            columns = np.zeros((len(unknown), len(model.terms), num_dofs))
            columns[:, :, joint] = terms[part, :, joint]
            last = np.stack([known[:, joint] + others[part, joint], torque[part, joint]], axis=1)
            rows = [unknown[:, joint], columns.reshape(len(unknown), -1), last]
            stacked = np.concatenate([triangles[joint], np.concatenate(rows, axis=1)])
            triangles[joint] = np.linalg.qr(stacked, mode="r")
            counts[joint] += len(unknown)
    return Evidence(triangles, counts)


def _terms(model: Model, log: Log) -> np.ndarray:
    """What each joint's own terms are proportional to, shape [N, terms, n]."""
    velocity, acceleration = log.need("velocity"), log.need("acceleration")
    sign = np.sign(velocity)
    columns = {
        "armature": acceleration,
        "viscous": velocity,
        "coulomb": log.like_torque(sign),
        "stribeck": log.like_torque(
            sign * np.exp(-((velocity / (model.stribeck_speed or 1.0)) ** 2))
        ),
    }
    chosen = [columns[term] for term in model.terms]
    return np.stack(chosen, axis=1) if chosen else np.zeros((len(log), 0, velocity.shape[1]))


def _known_terms(robot: Articulation, model: Model, log: Log) -> np.ndarray:
    """The torques of armatures and friction that are not unknown, shape [N, n]."""
    names = tuple(term for term in JOINT_TERMS[:3] if term not in model.terms)
    values = np.array([_joint_terms(robot)[name] for name in names])
    columns = _terms(Model((), names, None), log)
    return np.sum(columns * values.reshape(columns.shape[1:]), axis=1)


def _joint_terms(robot: Articulation) -> dict[str, np.ndarray]:
    """The robot's own :data:`JOINT_TERMS`, [n] each."""
    of = robot.friction
    terms = robot.armature, of.viscous, of.dynamic, of.static - of.dynamic
    return {name: np.asarray(each, float) for name, each in zip(JOINT_TERMS, terms, strict=True)}


class _Regressor:
    """Evaluates the columns of unknown links, and the torques of all others."""

    def __init__(self, robot: Articulation, links: Sequence[str]) -> None:
        topology = robot.topology
        chosen = [topology.link_index(link) for link in links]
        columns = np.array([10 * link + k for link in chosen for k in range(10)], int)
        others = np.setdiff1d(np.arange(10 * topology.num_links), columns)
        with jax.enable_x64(True):
            precise = robot.astype("float64")
            parameters = np.asarray(dynamic_parameters(precise)).ravel()
            rest = neutral_state(precise)

        def split(
            position: jax.Array, velocity: jax.Array, acceleration: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            state = State(rest.root_pose, rest.root_velocity, position, velocity)
            rows = joint_torque_regressor(precise, state, acceleration)
            return rows[:, columns], rows[:, others] @ jnp.asarray(parameters[others])

        self._split = jax.jit(jax.vmap(split))

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = len(arrays[0])
        # The last part is filled up, so that one program serves all.
        filled = [
            np.concatenate([array, np.repeat(array[-1:], -count % _CHUNK, axis=0)])
            for array in arrays
        ]
        with jax.enable_x64(True):
            unknown, known = self._split(*filled)
        return np.asarray(unknown)[:count], np.asarray(known)[:count]


# --- the estimate -------------------------------------------------------------------------------


class Identification(NamedTuple):
    """What logs say about a robot.

    Attributes:
      robot: the robot with the new inertias, armatures and friction.
      names: names of all parameters: ``link.mass``, ``link.mc_x``, ..., ``joint.viscous`` and so
        on.
      values: their values, about the origins of the link frames, shape [P]
        [kg, kg m, kg m^2; N m, N m s/rad, ...].
      standard_errors: their standard deviations, given the noise and the deviation of the guess,
        shape [P]. One as large as its guess's says that the logs do not determine the parameter by
        itself.
      motor_constants: torque per current of each joint, shape [n] [N m/A]; ``None`` if torques were
        measured.
      residual: root mean square of predicted minus measured torques (or currents), shape [n]
        [N m (or A)].
      noise: what no choice of parameters explains; a residual far above it says that the model
        lacks something.
      num_base_parameters: number of combinations of parameters that the logs determine.
      condition: condition number of the equations for these, with columns of unit length; above
        some hundred, the motion excites some of them too little (:func:`exciting_trajectory`).
      converged: whether the optimisation ended at a minimum.

    Examples:
      >>> arm = artix.robots.load("double_pendulum")
      >>> motion = artix.identification.exciting_trajectory(arm, duration=5.0, iterations=0)
      >>> log = artix.identification.Log(
      ...     arm,
      ...     motion.time,
      ...     motion.position,
      ...     motion.velocity,
      ...     motion.acceleration,
      ...     torque=motion.velocity,
      ... )
      >>> result = artix.identification.identify(arm, log)
      >>> print(result.names[-1], result.table().count("+-") == len(result.names))
      elbow.coulomb True
    """

    robot: Articulation
    names: tuple[str, ...]
    values: np.ndarray
    standard_errors: np.ndarray
    motor_constants: np.ndarray | None
    residual: np.ndarray
    noise: np.ndarray
    num_base_parameters: int
    condition: float
    converged: bool

    def table(self) -> str:
        """The parameters and their standard errors, one in a line."""
        width = max(map(len, self.names))
        lines = [
            f"{name:<{width}}  {value:>12.5g}  +- {error:.2g}"
            for name, value, error in zip(
                self.names, self.values, self.standard_errors, strict=True
            )
        ]
        return "\n".join(lines)


def identify(
    robot: Articulation,
    logs: Log | Sequence[Log],
    *,
    links: Sequence[str] | None = None,
    friction: Sequence[str] = ("viscous", "coulomb"),
    armature: bool = True,
    stribeck_speed: float | None = None,
    guess_deviation: float = 1.0,
) -> Identification:
    """Identifies a robot from recorded motions and torques, or currents.

    If the logs have torques, these are explained; if they only have currents, motor constants are
    unknown as well. They are determined up to a common factor by what is known: links left out of
    ``links`` (a payload of known mass, for instance), and else by the guess.

    Args:
      robot: the robot with guessed inertias, and friction and armatures to start from.
      logs: recordings with velocities and accelerations, see :meth:`Log.filtered`.
      links: names of the links whose inertias are unknown; those that move and have mass when
        ``None``.
      friction: which of ``"viscous"`` and ``"coulomb"`` are unknown; others are the robot's own.
      armature: whether the joints' armatures are unknown; else they are the robot's own.
      stribeck_speed: speed over which static friction falls to Coulomb friction,
        ``exp(-(speed / stribeck_speed)^2)`` [rad/s or m/s]; ``None`` if they are equal.
      guess_deviation: how far off the guessed inertias may be: standard deviation of the logarithms
        of masses and radii of gyration, and, relative to the links' sizes, of the centres of mass.

    Returns:
      The identification. Its robot has the dtype of ``robot``; the rest is in double precision.

    Raises:
      ValueError: the logs lack a column; a link has no mass or extent; the robot has followers or
        loops, whose torques do not appear in the joints' own equations; or a number is not
        positive.
      KeyError: there is no such link.

    Identity: without noise, the identified robot predicts the torques of any motion.

    Examples:
      >>> import dataclasses
      >>> arm = artix.robots.load("double_pendulum")
      >>> motion = artix.identification.exciting_trajectory(arm, duration=5.0, seed=0, iterations=0)
      >>> of_all = jax.vmap(
      ...     lambda state, acceleration: artix.inverse_dynamics(arm, state, acceleration)
      ... )
      >>> torque = of_all(motion.states, jnp.asarray(motion.acceleration, arm.dtype))
      >>> log = dataclasses.replace(motion, torque=torque)
      >>> guess = arm.replace(link_mass=1.2 * arm.link_mass, link_inertia=1.2 * arm.link_inertia)
      >>> result = artix.identification.identify(guess, log)
      >>> print(result.converged, bool((result.residual < 1e-4).all()))
      True True
    """
    logs = [logs] if isinstance(logs, Log) else list(logs)
    model, measured = _model_of(robot, logs, links, friction, armature, stribeck_speed)
    evidence = functools.reduce(
        Evidence.__add__, (gather(robot, log, model, measured) for log in logs)
    )
    deviation = _positive("guess_deviation", guess_deviation)
    if measured == "torque":
        unknowns = _Unknowns(robot, model, False, deviation)
        _warn_of_torques(robot, evidence, unknowns.parameters(unknowns.start)[0])
    return _estimate(robot, evidence, model, measured, deviation)


def _warn_of_torques(robot: Articulation, evidence: Evidence, guess: np.ndarray) -> None:
    """Points out torques that have little to do with those of the guess."""
    predicted, measured = (
        evidence.triangles[:, :, :-1] @ np.append(guess, 1.0),
        evidence.triangles[:, :, -1],
    )
    sizes = [np.linalg.norm(each, axis=1) for each in (predicted, measured)]
    ratio = np.linalg.norm(sizes[1]) / max(np.linalg.norm(sizes[0]), np.finfo(float).tiny)
    if not 1 / _LARGEST_RATIO < ratio < _LARGEST_RATIO:
        fix = "those of the guess; check their unit"
        warnings.warn(f"torque: recorded torques are {ratio:.3g} times {fix}", stacklevel=3)
    likeness = np.sum(predicted * measured, axis=1) / np.maximum(
        sizes[0] * sizes[1], np.finfo(float).tiny
    )
    opposed = [robot.topology.dof_names[k] for k in np.flatnonzero(likeness < _OPPOSED)]
    if opposed:
        names = ", ".join(map(repr, opposed))
        warnings.warn(
            f"torque: recorded torques of {names} are opposed to those of the guess; check signs "
            "and columns, which are the torques that motors apply",
            stacklevel=3,
        )


def cross_validate(
    robot: Articulation, logs: Log | Sequence[Log], folds: int = 5, **options: Any
) -> np.ndarray:
    """The error of predicted torques on parts of the logs that were not used to identify the robot.

    Args:
      robot: as for :func:`identify`.
      logs: as for :func:`identify`. Each is cut into parts of equal length.
      folds: number of parts. Each is predicted by what the others identify.
      **options: options of :func:`identify`.

    Returns:
      Root mean square of predicted minus measured torques (or currents), shape [folds, n]. If it is
      far above :attr:`Identification.residual`, the logs are too short or the motion too poor.

    Raises:
      ValueError: there are fewer than two parts; see also :func:`identify`.

    Examples:
      >>> import dataclasses
      >>> arm = artix.robots.load("double_pendulum")
      >>> motion = artix.identification.exciting_trajectory(arm, duration=5.0, iterations=0)
      >>> of_all = jax.vmap(
      ...     lambda state, acceleration: artix.inverse_dynamics(arm, state, acceleration)
      ... )
      >>> torque = of_all(motion.states, jnp.asarray(motion.acceleration, arm.dtype))
      >>> log = dataclasses.replace(motion, torque=torque)
      >>> print(artix.identification.cross_validate(arm, log, folds=3).shape)
      (3, 2)
    """
    if folds < 2:
        raise ValueError(f"folds: expected at least 2; found {folds}")
    logs = [logs] if isinstance(logs, Log) else list(logs)
    deviation = _positive("guess_deviation", options.pop("guess_deviation", 1.0))
    model, measured = _model_of(robot, logs, **options)
    parts = []
    for fold in range(folds):
        pieces = [_piece(log, fold, folds) for log in logs]
        parts.append(
            functools.reduce(Evidence.__add__, (gather(robot, x, model, measured) for x in pieces))
        )
    errors = []
    for fold, part in enumerate(parts):
        others = functools.reduce(
            Evidence.__add__, (each for k, each in enumerate(parts) if k != fold)
        )
        result = _estimate(robot, others, model, measured, deviation)
        constants = result.motor_constants
        gains = np.ones(len(part.counts)) if constants is None else 1 / constants
        errors.append(part.residual(result.values, gains))
    return np.stack(errors)


def _piece(log: Log, fold: int, folds: int) -> Log:
    ends = np.linspace(0, len(log), folds + 1).astype(int)
    chosen = slice(ends[fold], ends[fold + 1])
    if ends[fold + 1] - ends[fold] < 2:
        raise ValueError(f"folds: a log of {len(log)} samples cannot be cut into {folds} parts")
    return log.between(log.time[chosen][0], log.time[chosen][-1])


def _model_of(
    robot: Articulation,
    logs: Sequence[Log],
    links: Sequence[str] | None = None,
    friction: Sequence[str] = ("viscous", "coulomb"),
    armature: bool = True,
    stribeck_speed: float | None = None,
) -> tuple[Model, str]:
    """The unknowns, and the column that tells about torques."""
    topology = robot.topology
    if not logs:
        raise ValueError("logs: expected at least one log")
    if topology.mimic_dofs or topology.loop_joints:
        raise ValueError(
            "robots with followers or loops are not supported: the motors' torques are not those "
            "of single joints; eliminate followers with artix.mimic_map"
        )
    for log in logs:
        if log.robot.topology.dof_names != topology.dof_names:
            raise ValueError(
                "logs: the robot of a log has other degrees of freedom than the robot to identify"
            )
    if isinstance(friction, str) or not {*friction} <= {"viscous", "coulomb"}:
        raise ValueError(
            f'friction: expected some of "viscous" and "coulomb", in a tuple; found {friction!r}'
        )
    if stribeck_speed is not None:
        _positive("stribeck_speed", stribeck_speed)
        if "coulomb" not in friction:
            raise ValueError(
                "stribeck_speed: static friction falls to Coulomb friction, so friction needs "
                '"coulomb"'
            )
    chosen = {*friction, "armature" if armature else "", "stribeck" if stribeck_speed else ""}
    model = Model(
        movable_links(robot) if links is None else tuple(links),
        tuple(term for term in JOINT_TERMS if term in chosen),
        stribeck_speed,
    )
    has_currents = all(log.torque is None and log.current is not None for log in logs)
    measured = "current" if has_currents else "torque"
    for log in logs:
        log.need(measured)
    return model, measured


def movable_links(robot: Articulation) -> tuple[str, ...]:
    """Names of the links that have mass and that a joint moves."""
    topology = robot.topology
    is_moved = np.any(topology.dof_moves_link, axis=0).tolist()
    mass = np.asarray(robot.link_mass).tolist()
    return tuple(name for k, name in enumerate(topology.link_names) if is_moved[k] and mass[k] > 0)


def _estimate(
    robot: Articulation, evidence: Evidence, model: Model, measured: str, guess_deviation: float
) -> Identification:
    unknowns = _Unknowns(robot, model, measured == "current", guess_deviation)
    noise = evidence.noise
    if not noise.all():
        raise ValueError(f"{measured}: all samples are zero; check the recording")
    weighted = evidence.triangles / noise[:, None, None]
    if measured == "torque":  # All joints together.
        weighted = np.asarray(np.linalg.qr(np.concatenate(list(weighted)), mode="r"))[np.newaxis]

    def linearize(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The residual and its derivative."""
        parameters, slope = unknowns.parameters(x)
        torque = weighted[:, :, :-1] @ np.append(parameters, 1.0)
        by_x = weighted[:, :, :-2] @ slope
        if measured == "current":
            constants = unknowns.motor_constants(x)
            torque = torque / constants[:, None]
            by_x = by_x / constants[:, None, None]
            for joint in range(len(constants)):
                by_x[joint, :, joint - len(constants)] -= torque[joint]
        fit = torque - weighted[:, :, -1]
        difference, by_difference = unknowns.from_guess(x)
        return (
            np.concatenate([fit.ravel(), difference, _CONSTANT]),
            np.concatenate([by_x.reshape(-1, len(x)), by_difference, np.zeros((1, len(x)))]),
        )

    solution = least_squares(
        lambda x: linearize(x)[0],
        unknowns.start,
        lambda x: linearize(x)[1],
        bounds=(unknowns.lower, np.inf),
        x_scale=unknowns.scale,
        xtol=1e-9,
        ftol=1e-7,
        gtol=1e-9,
        max_nfev=500,
    )
    values, slope = unknowns.parameters(solution.x)
    constants = unknowns.motor_constants(solution.x) if measured == "current" else None
    gains = np.ones(len(noise)) if constants is None else 1 / constants
    rank, condition = _base(np.concatenate(list(weighted[:, :, :-2])))
    return Identification(
        unknowns.robot_of(solution.x),
        model.names(robot),
        values,
        np.linalg.norm(slope @ np.linalg.pinv(linearize(solution.x)[1]), axis=1),
        constants,
        evidence.residual(values, gains),
        noise,
        rank,
        condition,
        solution.status > 0,
    )


#: Added to the residual, so that the search ends when a step gains less than 0.001 variances, also
#: where recordings have no noise: such a step changes no parameter by more than some percent of its
#: standard error.
_CONSTANT = np.array([100.0])


@functools.partial(jax.jit, static_argnames="links")
def _inertial(robot: Articulation, theta: Array, links: tuple[str, ...]) -> tuple[Array, Array]:
    """Dynamic parameters of links from their log-Cholesky parameters [K, 10], and their derivatives
    [K, 10, 10].
    """
    index = np.array([robot.topology.link_index(link) for link in links], int)

    def parameters(change: Array) -> Array:
        return dynamic_parameters(with_log_cholesky(robot, theta + change, links))[index]

    # The same change for all links: each depends on its own.
    none = jnp.zeros(theta.shape[1], theta.dtype)
    return parameters(none), jax.jacfwd(parameters)(none)


class _Unknowns:
    """The vector x: log-Cholesky parameters, the joints' terms, logarithms of motor constants.

    Attributes:
      start: the guess.
      lower: lower bounds.
      scale: the size of changes.
    """

    def __init__(
        self, robot: Articulation, model: Model, has_currents: bool, guess_deviation: float
    ) -> None:
        self._robot = robot
        self._model = model
        self._num_dofs = robot.topology.num_dofs
        with jax.enable_x64(True):
            self._exact = robot.astype("float64")
            theta = np.asarray(log_cholesky_from_articulation(self._exact, model.links))
        self._theta = theta
        terms = [_joint_terms(robot)[term] for term in model.terms]
        constants = np.zeros(self._num_dofs if has_currents else 0)
        start = np.concatenate([theta.ravel(), *terms, constants])
        self.lower = np.full(len(start), -np.inf)
        self._terms = slice(theta.size, theta.size + self._num_dofs * len(model.terms))
        self.lower[self._terms] = 0.0
        # The optimiser starts between its bounds.
        self.start = np.maximum(start, self.lower + 1e-3)
        sizes = np.linalg.norm(np.exp(theta[:, 1:4]), axis=1) + np.linalg.norm(theta[:, 7:], axis=1)
        deviation = np.ones(theta.shape)
        deviation[:, 0] = 0.5  # It is half the logarithm of the mass.
        deviation[:, 4:] = sizes[:, None]
        self._deviation = guess_deviation * deviation.ravel()
        self.scale = np.concatenate([self._deviation, np.ones(len(start) - theta.size)])

    def parameters(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The parameters p and their derivative."""
        size = self._theta.size
        with jax.enable_x64(True):
            theta = jnp.asarray(x[:size].reshape(self._theta.shape))
            inertial, by_theta = map(np.asarray, _inertial(self._exact, theta, self._model.links))
        slope = np.zeros((self._terms.stop, len(x)))
        for link, block in enumerate(by_theta):
            rows = slice(10 * link, 10 * link + 10)
            slope[rows, rows] = block
        slope[self._terms, self._terms] = np.eye(self._terms.stop - size)
        return np.concatenate([inertial.ravel(), x[self._terms]]), slope

    def motor_constants(self, x: np.ndarray) -> np.ndarray:
        """Torque per current, [n]."""
        return np.exp(x[self._terms.stop :])

    def from_guess(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Differences from the guess, in its standard deviations, and their derivative."""
        size = self._theta.size
        slope = np.eye(size, len(x)) / self._deviation[:, None]
        return (x[:size] - self._theta.ravel()) / self._deviation, slope

    def robot_of(self, x: np.ndarray) -> Articulation:
        """The robot with these parameters, in its own dtype."""
        dtype = self._robot.dtype
        theta = jnp.asarray(x[: self._theta.size].reshape(self._theta.shape), dtype)
        robot = with_log_cholesky(self._robot, theta, self._model.links)
        values = jnp.asarray(x[self._terms].reshape(-1, self._num_dofs), dtype)
        terms = dict(zip(self._model.terms, values, strict=True))
        friction = robot.friction
        if "coulomb" in terms:
            dynamic = terms["coulomb"]
            friction = friction.replace(
                dynamic=dynamic, static=dynamic + terms.get("stribeck", jnp.zeros_like(dynamic))
            )
        friction = friction.replace(viscous=terms.get("viscous", friction.viscous))
        return robot.replace(friction=friction, armature=terms.get("armature", robot.armature))


def _base(rows: np.ndarray) -> tuple[int, float]:
    """The number of base parameters, and the condition number of their equations with columns of
    unit length.
    """
    lengths = np.linalg.norm(rows, axis=0)
    # Columns of zeros are not exactly zero.
    is_zero = lengths <= 1e-10 * lengths.max(initial=0)
    scaled = np.where(is_zero, 0.0, rows) / np.where(is_zero, 1.0, lengths)
    sizes = np.linalg.svd(scaled, compute_uv=False)
    least = sizes.max(initial=0) * max(rows.shape) * np.finfo(float).eps * 100
    rank = int(np.sum(sizes > least))
    return rank, float(sizes[0] / sizes[rank - 1]) if rank else math.inf


def excitation(
    robot: Articulation,
    motion: Log,
    *,
    links: Sequence[str] | None = None,
    friction: bool = True,
    armature: bool = True,
) -> tuple[int, float]:
    """How well a motion determines a robot's parameters, before torques are measured.

    Args:
      robot: the robot with guessed inertias.
      motion: a log with velocities and accelerations.
      links: as for :func:`identify`.
      friction: whether viscous and Coulomb friction are unknown.
      armature: whether armatures are.

    Returns:
      The number of base parameters, and the condition number, as in :class:`Identification`.

    Raises:
      ValueError: as :func:`identify`, torques aside.

    Examples:
      >>> arm = artix.robots.load("double_pendulum")
      >>> motion = artix.identification.exciting_trajectory(arm, duration=5.0, iterations=0)
      >>> base, condition = artix.identification.excitation(arm, motion)
      >>> print(base, condition < 100)
      11 True
    """
    silent = dataclasses.replace(motion, torque=0 * motion.position)
    names = ("viscous", "coulomb") if friction else ()
    model, measured = _model_of(robot, [silent], links, names, armature)
    evidence = gather(robot, silent, model, measured)
    return _base(np.concatenate(list(evidence.triangles[:, :, :-2])))


def _positive(name: str, value: float) -> float:
    if not (isinstance(value, int | float | np.floating) and 0 < value < math.inf):
        raise ValueError(f"{name}: expected a positive number; found {value!r}")
    return float(value)
