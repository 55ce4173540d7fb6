"""MuJoCo as an oracle: its models at random states, and their quantities in artix's conventions
(float64)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np

from artix import Articulation, Control, State

FREE, BALL = 0, 1
SITE_PACKAGES = Path(mujoco.__file__).parents[1]


def quaternion_matrix(wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion wxyz, by MuJoCo."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, wxyz)
    return matrix.reshape(3, 3)


def random_coordinates(
    model: mujoco.MjModel, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random qpos around the reference and random qvel."""
    qpos = model.qpos0.copy()
    mujoco.mj_integratePos(model, qpos, rng.uniform(-1.2, 1.2, model.nv), 1.0)
    return qpos, rng.normal(size=model.nv)


@dataclasses.dataclass
class Entries:
    """Where the coordinates of an articulation are in those of the model, by the names of joints
    and bodies."""

    model: mujoco.MjModel
    articulation: Articulation
    names: tuple[str, ...]
    bodies: tuple[str, ...]

    def __post_init__(self) -> None:
        topology, model = self.articulation.topology, self.model
        self.root = None
        if not topology.fixed_base:
            body = self.bodies.index(topology.link_names[0])
            self.root = int(model.body_jntadr[body])
            data = mujoco.MjData(model)
            mujoco.mj_kinematics(model, data)
            self.center = data.xmat[body].reshape(3, 3).T @ (data.xipos[body] - data.xpos[body])
        self.joints = [
            self.names.index(topology.joint_names[k - 1]) for k in np.unique(topology.dof_link)
        ]
        self.columns = (
            []
            if self.root is None
            else list(range(model.jnt_dofadr[self.root], model.jnt_dofadr[self.root] + 6))
        )
        for joint in self.joints:
            width = 3 if model.jnt_type[joint] == BALL else 1
            self.columns += range(model.jnt_dofadr[joint], model.jnt_dofadr[joint] + width)

    def state(self, qpos: np.ndarray, qvel: np.ndarray) -> State:
        """The same configuration and velocity as a state of the articulation."""
        model, position = self.model, []
        for joint in self.joints:
            at = model.jnt_qposadr[joint]
            if model.jnt_type[joint] == BALL:
                vector = np.zeros(3)
                mujoco.mju_quat2Vel(vector, qpos[at : at + 4], 1.0)
                position += list(vector)
            else:
                position.append(qpos[at])
        pose, root_velocity = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6)
        nu = self.twist_map(qpos) @ qvel[self.columns]
        base = 0 if self.root is None else 6
        if self.root is not None:
            at = model.jnt_qposadr[self.root]
            quaternion = qpos[at + 3 : at + 7]
            pose = np.concatenate(
                [qpos[at : at + 3], np.roll(quaternion / np.linalg.norm(quaternion), -1)]
            )
            root_velocity = nu[:6]
        return State(pose, root_velocity, np.array(position), nu[base:])

    def twist_map(self, qpos: np.ndarray) -> np.ndarray:
        """T of ``nu = T qvel``."""
        matrix = np.eye(len(self.columns))
        if self.root is not None:
            rotation = self._rotation(qpos)
            matrix[3:6, 3:6] = rotation
            matrix[:3, 3:6] = -rotation @ skew(self.center)
        return matrix

    def drift(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        """b of ``nu' = T qvel' + b``."""
        result = np.zeros(len(self.columns))
        if self.root is not None:
            rotation = self._rotation(qpos)
            omega = rotation @ qvel[self.columns][3:6]
            result[:3] = np.cross(omega, np.cross(omega, rotation @ self.center))
        return result

    def _rotation(self, qpos: np.ndarray) -> np.ndarray:
        at = self.model.jnt_qposadr[self.root]
        return quaternion_matrix(qpos[at + 3 : at + 7] / np.linalg.norm(qpos[at + 3 : at + 7]))


def skew(v: np.ndarray) -> np.ndarray:
    """Matrix of the cross product with ``v``."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


@dataclasses.dataclass
class Quantities:
    """Mass matrix with armature, bias force and poses of all bodies by name, in artix's
    conventions."""

    mass_matrix: np.ndarray
    bias_force: np.ndarray
    poses: dict[str, np.ndarray]


def quantities(entries: Entries, qpos: np.ndarray, qvel: np.ndarray) -> Quantities:
    """What MuJoCo computes at a configuration and velocity."""
    model = entries.model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    for column in range(model.nv):
        result = np.zeros(model.nv)
        mujoco.mj_mulM(model, data, result, np.eye(model.nv)[column])
        mass[:, column] = result
    columns, inverse = entries.columns, np.linalg.inv(entries.twist_map(qpos))
    mass = inverse.T @ mass[np.ix_(columns, columns)] @ inverse
    # MuJoCo's bias leaves gravity compensation to the passive forces; here it is less gravity on
    # the link.
    force = (data.qfrc_bias - data.qfrc_gravcomp)[columns]
    bias = inverse.T @ force - mass @ entries.drift(qpos, qvel)
    poses = {
        name: np.concatenate([data.xpos[k], np.roll(data.xquat[k], -1)])
        for k, name in enumerate(entries.bodies)
    }
    return Quantities(mass, bias, poses)


def joint_efforts(robot: Articulation, state: State, control: Control | None = None) -> np.ndarray:
    """Efforts of drives, dampers, tendons and commands within their limits, by virtual work, [n]."""
    q, qd, drive = state.joint_position, state.joint_velocity, robot.drive
    control = control or Control()
    position, velocity = control.drive_target, control.drive_target_velocity
    position = drive.target_position if position is None else position
    velocity = drive.target_velocity if velocity is None else velocity
    effort = drive.stiffness * (position - q) + drive.damping * (velocity - qd)
    effort = np.clip(effort, -drive.max_force, drive.max_force) - robot.friction.viscous * qd
    tendons, at = robot.fixed_tendons, 0
    for k, tendon in enumerate(robot.topology.fixed_tendons):
        dofs, members = list(tendon.dofs), slice(at, at + len(tendon.dofs))
        coefficient, at = tendons.coefficient[members], members.stop
        length, rate = tendons.offset[k] + coefficient @ q[dofs], coefficient @ qd[dofs]
        pull = tendons.stiffness[k] * (length - tendons.rest_length[k]) + tendons.damping[k] * rate
        effort[dofs] -= coefficient * pull / len(dofs)
    if control.joint_force is not None:
        effort += np.clip(control.joint_force, -robot.max_joint_force, robot.max_joint_force)
    return effort
