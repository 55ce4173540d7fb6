"""Pinocchio's ``Data`` at one state, converted to artix's conventions: what the rows of the table
compare with."""

from __future__ import annotations

import functools

import numpy as np
import pinocchio as pin

from artix import Articulation, State
from tests.support.oracle_derivatives import differences, drift_by_velocity, turns_of_root
from tests.support.oracles import Oracle, placement_of, pose_of

AXES = {"local": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED, "world": pin.WORLD}


class Reference:
    """One model at one state, with an acceleration, wrenches on the links, and a frame on one
    link."""

    def __init__(
        self, model: pin.Model, articulation: Articulation, state: State, inputs: dict
    ) -> None:
        self.articulation, self.state, self.inputs, self.given = articulation, state, inputs, model
        self.oracle = oracle = Oracle.at(model, articulation, state)
        self.q, self.v = oracle.q, oracle.v
        self.joints = oracle.joint_of_link[1:] if oracle.fixed_base else oracle.joint_of_link
        self.joint, self.offset = (
            oracle.joint_of_link[inputs["link"]],
            placement_of(inputs["offset"]),
        )
        self.model = oracle.model.copy()
        point = pin.Frame("point", self.joint, 0, self.offset, pin.FrameType.OP_FRAME)
        self.frame = self.model.addFrame(point, False)
        self.map, self.inverse_map = oracle.twist_map, np.linalg.inv(oracle.twist_map)
        self.nu, self.base = self.map @ self.v, 0 if oracle.fixed_base else 6
        self.rest = np.asarray(inputs["acceleration"], float) - oracle.twist_map_drift
        self.a = self.inverse_map @ self.rest
        self.alive: list[pin.Data] = []

    def ran(self, algorithm, *arguments) -> pin.Data:
        """A ``Data`` of its own after one algorithm."""
        data = self.model.createData()
        algorithm(self.model, data, *arguments)
        self.alive.append(data)  # The arrays of a Data are views.
        return data

    @functools.cached_property
    def data(self) -> pin.Data:
        """After everything that needs kinematics alone."""
        data = self.ran(pin.computeForwardKinematicsDerivatives, self.q, self.v, self.a)
        pin.updateFramePlacements(self.model, data)
        pin.computeJointKinematicHessians(self.model, data)
        return data

    @functools.cached_property
    def unarmed(self) -> pin.Model:
        """The model without armature."""
        bare = self.model.copy()
        bare.armature = np.zeros(bare.nv)
        return bare

    # --- conversions -----------------------------------------------------------------------------

    def of_joints(self, value) -> np.ndarray:
        """``value(joint)`` for the joints of the links that move, in the order of the links."""
        return np.array([np.array(value(joint)) for joint in self.joints])

    def items(self, items) -> np.ndarray:
        """Forces, inertias or arrays that Pinocchio lists by joint, in the order of the links."""

        def numbers(item) -> np.ndarray:
            if hasattr(item, "lever"):
                return item.matrix()
            return item.vector if hasattr(item, "vector") else np.array(item)

        return self.of_joints(lambda joint: numbers(items[joint]))

    def columns(self, jacobian: np.ndarray) -> np.ndarray:
        """A Jacobian by nu."""
        return jacobian @ self.inverse_map

    def forces(self, force: np.ndarray) -> np.ndarray:
        """Generalised forces."""
        return self.inverse_map.T @ force

    def matrix(self, matrix: np.ndarray) -> np.ndarray:
        """A matrix that takes velocities to momenta."""
        return self.inverse_map.T @ matrix @ self.inverse_map

    def rate_of_columns(self, rate: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
        """T depends on the configuration: ``d(J T^-1)/dt``."""
        return self.columns(rate - self.columns(jacobian) @ self.oracle._twist_map_rate())

    def derivatives(self, by_q, by_v=None, by_a=None) -> tuple[np.ndarray, ...]:
        """Of something that is the same in both conventions: artix holds nu in world axes,
        Pinocchio in the base's."""
        rows = [
            self.columns(np.zeros_like(by_q) if x is None else np.array(x))
            for x in (by_q, by_v, by_a)
        ]
        by_configuration, by_velocity, by_acceleration = rows
        held = [
            by_velocity @ turn @ self.nu + by_acceleration @ turn @ self.rest
            for turn in turns_of_root(self.oracle)
        ]
        drift = drift_by_velocity(self.oracle, self.nu)
        return (
            by_configuration - np.stack(held, axis=-1),
            by_velocity - by_acceleration @ drift,
            by_acceleration,
        )

    def hessian(self, tensor: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
        """Of the columns of a Jacobian; the bindings get the strides of the tensor wrong."""
        nv = self.model.nv
        fixed = np.lib.stride_tricks.as_strided(np.asarray(tensor), (6, nv, nv), (8, 48, 48 * nv))
        found = np.einsum("aij,ib,jc->abc", fixed, self.inverse_map, self.inverse_map)
        return found - np.stack(
            [self.columns(jacobian) @ turn for turn in turns_of_root(self.oracle)], axis=-1
        )

    def body_forces(self) -> pin.StdVec_Force:
        """The wrenches on the links, at their centres of mass in world axes, as Pinocchio wants
        them."""
        bodies = pin.StdVec_Force()
        bodies.extend(pin.Force.Zero() for _ in range(self.model.njoints))
        wrenches = np.asarray(self.inputs["wrenches"], float)[-len(self.joints) :]
        for joint, wrench in zip(self.joints, wrenches, strict=True):
            placement, lever = self.data.oMi[joint], self.model.inertias[joint].lever
            turned = pin.Force(placement.rotation.T @ wrench[:3], placement.rotation.T @ wrench[3:])
            bodies[joint] = pin.SE3(np.eye(3), lever).act(turned)
        return bodies

    # --- the frame -------------------------------------------------------------------------------

    def frame_jacobian(self, axes: str) -> np.ndarray:
        """Of the frame, by Pinocchio's velocity."""
        return pin.getFrameJacobian(self.model, self.data, self.frame, AXES[axes]).copy()

    def frame_motion(self, axes: str) -> tuple[np.ndarray, np.ndarray]:
        """Velocity and spatial acceleration of the frame, [6] each."""
        speed = pin.getFrameVelocity(self.model, self.data, self.frame, AXES[axes])
        return speed.vector, pin.getFrameAcceleration(
            self.model, self.data, self.frame, AXES[axes]
        ).vector

    def frame_derivatives(
        self, axes: str, *, classical: bool = False
    ) -> tuple[tuple[np.ndarray, ...], ...]:
        """Derivatives of velocity and acceleration, each by configuration, velocity and
        acceleration.

        From Pinocchio's in local axes, which are exact: those in world axes are wrong below joints
        of several DOFs, and those in world-aligned axes hold the axes, which here move along.
        """
        by_q, a_q, a_v, jacobian = map(
            np.array,
            pin.getFrameAccelerationDerivatives(self.model, self.data, self.frame, pin.LOCAL),
        )
        placement = self.data.oMf[self.frame]
        carrier = placement if axes == "world" else pin.SE3(placement.rotation, np.zeros(3))
        transform = np.eye(6) if axes == "local" else carrier.toActionMatrix()
        moving = np.zeros_like(jacobian) if axes == "local" else self.columns(transform @ jacobian)
        if axes == "world_aligned":
            moving[:3] = 0  # These axes turn only.
        values, found = self.frame_motion(axes), []
        for value, parts in zip(
            values, ((by_q, jacobian, None), (a_q, a_v, jacobian)), strict=True
        ):
            q, v, a = (transform @ x for x in self.derivatives(*parts))
            crossed = [pin.Motion(column).cross(pin.Motion(value)).vector for column in moving.T]
            found.append((q + np.stack(crossed, axis=1), v, a))
        if classical:
            speed = values[0]
            for speeding, rate in zip(found[0], found[1], strict=True):
                rate[:3] += pin.skew(speed[3:]) @ speeding[:3] - pin.skew(speed[:3]) @ speeding[3:]
        return tuple(found)

    # --- differences -----------------------------------------------------------------------------

    def along_time(self, function) -> np.ndarray:
        """Rate of change of ``function(reference)`` at this velocity and acceleration, by
        differences of fourth order."""

        def later(_: int, time: float) -> Reference:
            moved = self.integrated(self.nu * time)
            nu = self.nu + time * np.asarray(self.inputs["acceleration"], float)
            return moved.with_velocity(nu)

        return differences(function, later, 1)[..., 0]

    def by_configuration(self, function) -> np.ndarray:
        """Derivatives of ``function(reference)`` by the configuration, last axis, by differences of
        fourth order."""
        unit = np.eye(len(self.nu))
        return differences(function, lambda k, h: self.integrated(h * unit[k]), len(self.nu))

    def by_velocity(self, function) -> np.ndarray:
        """Derivatives of ``function(reference)`` by nu, last axis, by differences of fourth
        order."""
        unit = np.eye(len(self.nu))
        return differences(
            function, lambda k, h: self.with_velocity(self.nu + h * unit[k]), len(self.nu)
        )

    def integrated(self, step: np.ndarray) -> Reference:
        """The same nu where Pinocchio's ``integrate`` leads along a displacement of nu."""
        state = self.state
        end = pin.integrate(self.oracle.model, self.q, self.inverse_map @ step)
        position = np.array(state.joint_position)
        pose = np.array(state.root_pose)
        if self.base:
            pose = end[:7]
        for joint in self.oracle._joints(self.model, self.oracle.fixed_base):
            first, dofs = (
                self.model.idx_qs[joint],
                self.articulation.topology.dofs(self.model.names[joint]),
            )
            value = end[first : first + self.model.nqs[joint]]
            if len(value) == 4:
                value = pin.log3(pin.Quaternion(*np.roll(value, 1)).toRotationMatrix())
            elif len(value) == 2:
                value = np.arctan2(value[1], value[0])
            position[dofs] = value
        return Reference(
            self.given,
            self.articulation,
            state.replace(root_pose=pose, joint_position=position),
            self.inputs,
        )

    # --- configurations --------------------------------------------------------------------------

    def displaced(self, step: np.ndarray) -> np.ndarray:
        """Pinocchio's configuration a displacement of nu away: that of the root is of its centre of
        mass, in world axes."""
        move = np.zeros(self.model.nv)
        move[self.oracle.dof_order] = step
        move[: self.base] = 0
        end = pin.integrate(self.oracle.model, self.q, move)
        if self.base:
            start, lever = placement_of(self.q[:7]), self.model.inertias[1].lever
            rotation = pin.exp3(step[3:6]) @ start.rotation
            end[:7] = pose_of(pin.SE3(rotation, start.act(lever) + step[:3] - rotation @ lever))
        return end

    def placements(self, q: np.ndarray) -> np.ndarray:
        """Of the links that move, [n, 3, 4], at a configuration of Pinocchio."""
        data = self.ran(pin.forwardKinematics, q)
        return self.of_joints(lambda joint: data.oMi[joint].homogeneous[:3])

    def with_velocity(self, nu: np.ndarray) -> Reference:
        """The same configuration with another generalised velocity."""
        root = nu[:6] if self.base else self.state.root_velocity
        state = self.state.replace(root_velocity=root, joint_velocity=nu[self.base :])
        return Reference(self.given, self.articulation, state, self.inputs)
