"""Recorded torques as linear equations in the parameters of a robot, reduced to one triangle for each joint.

The torque of joint i in sample k is linear in the parameters p: dynamic parameters of the links, armatures and friction
coefficients,

    tau_ik = Y_ik p,

where Y contains :func:`artix.joint_torque_regressor`, the joint's acceleration (armature), its velocity (viscous
friction) and the sign of its velocity (Coulomb friction). A QR factorisation of ``[Y_i, tau_i]`` leaves a triangle
``[R_i, z_i]`` with ``|Y_i p - tau_i|^2 = |R_i p - z_i|^2`` for every p, so that the samples are not needed any more.
There is one triangle for each joint, because their noises differ, and the estimate weights them by these (Gautier,
*Dynamic identification of robots with power model*, ICRA 1997). Signs of velocities pass the filter of the torques,
which would otherwise lag behind their jumps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from artix import Articulation, State, dynamic_parameters, joint_torque_regressor, neutral_state
from artix.identification.log import Log

#: Samples whose equations are in memory at once.
_CHUNK = 2048

#: Names of the ten dynamic parameters of a link, in the order of :func:`artix.dynamic_parameters`.
INERTIAL = ("mass", "mc_x", "mc_y", "mc_z", "I_xx", "I_xy", "I_yy", "I_xz", "I_yz", "I_zz")

#: What each joint can have, and what its torque is proportional to.
JOINT_TERMS = ("armature", "viscous", "coulomb", "stribeck")


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
        return (*inertias, *(f"{joint}.{term}" for term in self.terms for joint in robot.topology.dof_names))


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What logs say about the parameters p of a model.

    Attributes:
      triangles: ``[R_i, k_i, z_i]`` of each joint, shape [n, P + 2, P + 2]; k_i is the torque of what is known, as a
        column by itself, since currents measure it in another unit.
      counts: number of samples of each joint, shape [n].
    """

    triangles: np.ndarray
    counts: np.ndarray

    def __add__(self, other: Evidence) -> Evidence:
        stacked = np.concatenate([self.triangles, other.triangles], axis=1)
        return Evidence(np.stack([np.linalg.qr(rows, mode="r") for rows in stacked]), self.counts + other.counts)

    @property
    def noise(self) -> np.ndarray:
        """Standard deviation that no choice of p explains, of each joint, shape [n]."""
        unknowns = self.triangles.shape[1] - 1
        residual = np.abs(self.triangles[:, -1, -1])
        size = np.linalg.norm(self.triangles[:, :, -1], axis=1)
        # No sensor of torque is more exact. Without noise, the equations would be stiff beside the guess.
        residual = np.maximum(residual, 1e-4 * size + np.finfo(float).tiny)
        return residual / np.sqrt(np.maximum(self.counts - unknowns, 1))

    def residual(self, parameters: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """Root mean square of ``gains Y p - tau`` of each joint, shape [n]."""
        predicted = gains[:, None] * (self.triangles[:, :, :-1] @ np.append(parameters, 1.0))
        return np.linalg.norm(predicted - self.triangles[:, :, -1], axis=1) / np.sqrt(np.maximum(self.counts, 1))


def gather(robot: Articulation, log: Log, model: Model, measured: str) -> Evidence:
    """The evidence of a log, in double precision.

    Args:
      robot: the robot; inertias of links that are not unknown are taken for true.
      log: the log, with velocities and accelerations.
      model: the unknowns.
      measured: the column with the torques, or another one that is proportional to them.
    """
    position, velocity, acceleration = log.position, log.need("velocity"), log.need("acceleration")
    torque = log.need(measured)
    num_dofs, num_unknowns = position.shape[1], len(model.names(robot))
    triangles = np.zeros((num_dofs, num_unknowns + 2, num_unknowns + 2))
    counts = np.zeros(num_dofs, int)
    regressor = _Regressor(robot, model.links)
    terms = _terms(model, log)
    for start in range(0, len(log), _CHUNK):
        part = slice(start, start + _CHUNK)
        unknown, known = regressor(position[part], velocity[part], acceleration[part])
        for joint in range(num_dofs):
            columns = np.zeros((len(unknown), len(model.terms), num_dofs))
            columns[:, :, joint] = terms[part, :, joint]
            last = np.stack([known[:, joint], torque[part, joint]], axis=1)
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
        "stribeck": log.like_torque(sign * np.exp(-((velocity / (model.stribeck_speed or 1.0)) ** 2))),
    }
    chosen = [columns[term] for term in model.terms]
    return np.stack(chosen, axis=1) if chosen else np.zeros((len(log), 0, velocity.shape[1]))


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

        def split(position: jax.Array, velocity: jax.Array, acceleration: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = State(rest.root_pose, rest.root_velocity, position, velocity)
            rows = joint_torque_regressor(precise, state, acceleration)
            return rows[:, columns], rows[:, others] @ jnp.asarray(parameters[others])

        self._split = jax.jit(jax.vmap(split))

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = len(arrays[0])
        # The last part is filled up, so that one program serves all.
        filled = [np.concatenate([array, np.repeat(array[-1:], -count % _CHUNK, axis=0)]) for array in arrays]
        with jax.enable_x64(True):
            unknown, known = self._split(*filled)
        return np.asarray(unknown)[:count], np.asarray(known)[:count]
