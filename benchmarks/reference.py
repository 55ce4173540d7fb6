"""Pinocchio in float64 as the reference, in the coordinates of each library.

The generalised velocity ``nu`` of a library and Pinocchio's ``v`` are related by ``v = X nu`` and
``v' = X nu' + drift``, so forces become ``X^T tau``. Nothing here is timed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pinocchio

from benchmarks.robots import Robot

#: Where a quadruped's foot touches the ground, in the frame of its last link [m].
FOOT = (0.0, 0.0, -0.2)


@dataclasses.dataclass(frozen=True)
class States:
    """Random states in Pinocchio's coordinates, joints in the order of ``Reference.joint_names``.

    Attributes:
      root_position: [N, 3] m.
      root_quaternion: xyzw, [N, 4].
      root_velocity: the root's twist in its own axes at its frame's origin, [N, 6]; zero for a
        fixed base.
      q: joint positions [N, n].
      v: joint velocities [N, n].
      acceleration: v' of the whole robot [N, nv].
    """

    root_position: np.ndarray
    root_quaternion: np.ndarray
    root_velocity: np.ndarray
    q: np.ndarray
    v: np.ndarray
    acceleration: np.ndarray


#: States of a batch that are judged, from the first.
JUDGED_STATES = 32

#: From a rotation of the root [3, 3], its twist [6] and its centre of mass in its frame [3]: X
#: [6, 6] and drift [6].
Coordinates = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


#: The quantity "step": a servo towards the middle of each range, limits, no contacts, MuJoCo's
#: default step.
STEP, STIFFNESS, DAMPING = 2e-3, 10.0, 0.5


def within(q, middle, reach):
    """Maps joint positions within [-1, 1] to the inner part of their ranges, where no limit
    acts."""
    return middle + 0.3 * reach * q


class Reference:
    """One robot in Pinocchio."""

    def __init__(self, robot: Robot) -> None:
        root = () if robot.fixed_base else (pinocchio.JointModelFreeFlyer(),)
        self.model = pinocchio.buildModelFromXML(robot.urdf, *root)
        self.data = self.model.createData()
        self.base = 0 if robot.fixed_base else 6
        self.first = 1 if robot.fixed_base else 2
        self.joint_names = tuple(self.model.names[self.first :])
        leaves = set(self.joint_names) - {self.model.names[k] for k in self.model.parents}
        self.feet = tuple(sorted(leaves)) if robot.key == "quadruped" else ()
        self.scalar = [self.model.joints[k].nq == 1 for k in range(self.first, self.model.njoints)]
        self.levers = np.array(
            [self.model.inertias[k].lever for k in range(self.first, self.model.njoints)]
        )
        self.root_center = np.array(self.model.inertias[1].lever) if self.base else np.zeros(3)
        self.limits = self._limits()

    def random_states(self, count: int, seed: int = 0) -> States:
        """States of joint angles within [-1, 1] rad, normal velocities and accelerations, any
        attitude of the root."""
        random = np.random.default_rng(seed)
        n = len(self.joint_names)
        floating = float(self.base > 0)
        quaternion = random.normal(size=(count, 4))
        quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
        fixed = np.array([0.0, 0.0, 0.0, 1.0])
        return States(
            root_position=floating * random.uniform(-1, 1, (count, 3)),
            root_quaternion=floating * quaternion + (1 - floating) * fixed,
            root_velocity=floating * random.normal(size=(count, 6)),
            q=random.uniform(-1, 1, (count, n)),
            v=random.normal(size=(count, n)),
            acceleration=random.normal(size=(count, self.base + n)),
        )

    def _coordinates(
        self, states: States, k: int, coordinates: Coordinates
    ) -> tuple[np.ndarray, np.ndarray]:
        """X and drift of state k for the whole robot."""
        nv = self.model.nv
        transform, drift = np.eye(nv), np.zeros(nv)
        if self.base:
            rotation = pinocchio.Quaternion(states.root_quaternion[k]).toRotationMatrix()
            transform[:6, :6], drift[:6] = coordinates(
                rotation, states.root_velocity[k], self.root_center
            )
        return transform, drift

    def values(self, states: States, k: int, coordinates: Coordinates) -> dict[str, np.ndarray]:
        """The quantities at state k in a library's coordinates."""
        model, data = self.model, self.data
        q, v = self.configuration(states, k), self.velocity(states, k)
        transform, drift = self._coordinates(states, k, coordinates)
        matrix = np.array(pinocchio.crba(model, data, q))
        matrix = np.triu(matrix) + np.triu(matrix, 1).T - np.diag(model.armature)
        bias = np.array(pinocchio.nonLinearEffects(model, data, q, v))
        joints = range(self.first, model.njoints)
        force = np.r_[np.zeros(self.base), states.acceleration[k, self.base :]]
        constrained = self._constrained(q, v, force, transform, drift) if self.feet else {}
        pinocchio.computeABADerivatives(model, data, q, v, force)
        forward = self._joints(data.ddq_dq, data.ddq_dv)
        rate = np.linalg.solve(transform, np.array(data.ddq) - drift)
        step, step_derivative = self._step(states, k, v)
        pinocchio.computeRNEADerivatives(model, data, q, v, states.acceleration[k])
        inverse = self._joints(data.dtau_dq, data.dtau_dv)
        pinocchio.forwardKinematics(model, data, q, v)
        pinocchio.computeJointJacobians(model, data, q)
        return constrained | {
            "step": step,
            "gradient of step": step_derivative.sum(axis=0),
            "forward dynamics": rate,
            "inverse dynamics derivatives": inverse,
            "forward dynamics derivatives": forward,
            "gradient of forward dynamics": forward[:, 0].sum(axis=0),
            "Jacobian of forward dynamics": forward[:, 0],
            "mass matrix": transform.T @ matrix @ transform,
            "bias force": transform.T @ (bias + matrix @ drift),
            "inverse dynamics": transform.T @ (bias + matrix @ states.acceleration[k]),
            "link poses": np.stack(
                [np.c_[data.oMi[j].translation, data.oMi[j].rotation] for j in joints]
            ),
            "dense Jacobian": np.stack([self._center_jacobian(j) @ transform for j in joints]),
            "poses and velocities": np.stack([self._center_velocity(j) for j in joints]),
        }

    def _constrained(self, q, v, force, transform, drift) -> dict[str, np.ndarray]:
        """Forward dynamics with all feet fixed in place, and its derivatives by the joints."""
        held = HeldFeet(self)
        rate = np.linalg.solve(transform, np.array(held.accelerations(q, v, force)) - drift)
        derivatives = self._joints(*held.derivatives(q, v, force))
        return {
            "constrained forward dynamics": rate,
            "constrained forward dynamics derivatives": derivatives,
        }

    def _step(self, states: States, k: int, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean joint accelerations of one step with implicit springs and dampers towards the
        middles of the ranges.

        Their derivatives by the joints' positions are the second result, [n, n].
        """
        model, data = self.model, self.data
        moved = dataclasses.replace(states, q=within(states.q, *self.limits))
        q = self.configuration(moved, k)
        matrix = np.array(pinocchio.crba(model, data, q))
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        force = -np.array(pinocchio.nonLinearEffects(model, data, q, v))
        force[self.base :] -= (
            STIFFNESS * (moved.q[k] - self.limits[0] + STEP * v[self.base :])
            + DAMPING * v[self.base :]
        )
        matrix[range(self.base, model.nv), range(self.base, model.nv)] += STEP * (
            DAMPING + STEP * STIFFNESS
        )
        rate = np.linalg.solve(matrix, force)
        pinocchio.computeRNEADerivatives(model, data, q, v, rate)
        change = -np.array(data.dtau_dq)
        change[range(self.base, model.nv), range(self.base, model.nv)] -= STIFFNESS
        return rate[self.base :], np.linalg.solve(matrix, change)[self.base :, self.base :]

    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Middles and half widths of the joints' ranges, a half turn to either side where there is
        no limit."""
        ranges = []
        for joint, scalar in zip(range(self.first, self.model.njoints), self.scalar, strict=True):
            at = self.model.idx_qs[joint]
            limits = (self.model.lowerPositionLimit[at], self.model.upperPositionLimit[at])
            ranges.append(limits if scalar and np.all(np.isfinite(limits)) else (-np.pi, np.pi))
        lower, upper = np.array(ranges).T
        return (lower + upper) / 2, (upper - lower) / 2

    def configuration(self, states: States, k: int) -> np.ndarray:
        """Pinocchio's q of state k, [nq]."""
        root = [states.root_position[k], states.root_quaternion[k]] if self.base else []
        joints = [
            np.array([angle]) if scalar else np.array([np.cos(angle), np.sin(angle)])
            for angle, scalar in zip(states.q[k], self.scalar, strict=True)
        ]
        return np.concatenate([*root, *joints])

    def velocity(self, states: States, k: int) -> np.ndarray:
        """Pinocchio's v of state k, [nv]."""
        return np.concatenate([states.root_velocity[k, : self.base], states.v[k]])

    def _joints(self, by_q: np.ndarray, by_v: np.ndarray) -> np.ndarray:
        """The joints' part [n, 2, n] of derivatives by configuration and velocity."""
        return np.stack([np.array(by)[self.base :, self.base :] for by in (by_q, by_v)], axis=1)

    def _center_jacobian(self, joint: int) -> np.ndarray:
        jacobian = np.array(
            pinocchio.getJointJacobian(
                self.model, self.data, joint, pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
            )
        )
        arm = self.data.oMi[joint].rotation @ self.model.inertias[joint].lever
        jacobian[:3] -= pinocchio.skew(arm) @ jacobian[3:]
        return jacobian

    def _center_velocity(self, joint: int) -> np.ndarray:
        twist, rotation = self.data.v[joint], self.data.oMi[joint].rotation
        lever = self.model.inertias[joint].lever
        return np.concatenate(
            [rotation @ (twist.linear + np.cross(twist.angular, lever)), rotation @ twist.angular]
        )


class HeldFeet:
    """Pinocchio's constrained dynamics of a robot with fixed feet.

    Attributes:
      data: Pinocchio's data after the last call.
    """

    def __init__(self, reference: Reference) -> None:
        self._model, self.data = reference.model, reference.model.createData()
        kind, axes = pinocchio.ContactType.CONTACT_3D, pinocchio.ReferenceFrame.LOCAL_WORLD_ALIGNED
        place = pinocchio.SE3(np.eye(3), np.array(FOOT))
        joints = [self._model.getJointId(foot) for foot in reference.feet]
        self._feet = pinocchio.StdVec_RigidConstraintModel()
        self._feet.extend(
            pinocchio.RigidConstraintModel(kind, self._model, joint, place, axes)
            for joint in joints
        )
        self._held = pinocchio.StdVec_RigidConstraintData()
        self._held.extend(foot.createData() for foot in self._feet)
        # Independent feet: exact in one iteration
        self._settings = pinocchio.ProximalSettings(0.0, 0.0, 0.0, 1)
        pinocchio.initConstraintDynamics(self._model, self.data, self._feet, self._held)

    def accelerations(self, q: np.ndarray, v: np.ndarray, force: np.ndarray) -> np.ndarray:
        """v', [nv]."""
        return pinocchio.constraintDynamics(
            self._model, self.data, q, v, force, self._feet, self._held, self._settings
        )

    def derivatives(
        self, q: np.ndarray, v: np.ndarray, force: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of v' by configuration and velocity, [nv, nv] each."""
        self.accelerations(q, v, force)
        pinocchio.computeConstraintDynamicsDerivatives(
            self._model, self.data, self._feet, self._held, self._settings
        )
        return self.data.ddq_dq, self.data.ddq_dv
