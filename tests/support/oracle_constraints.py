"""Pairs of frames as Pinocchio's rigid constraints, with Pinocchio's results in artix's
conventions.

``J_pin = J T`` for the map T of :mod:`tests.support.oracles`; constraint forces are the same
numbers.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pinocchio as pin

from artix import Articulation, Constraints
from artix.constraints.frame_pairs import AnchorStructure, AnchorType, FramePairs
from tests.support.models import random_pose
from tests.support.oracle_derivatives import drift_by_velocity, turns_of_root
from tests.support.oracles import Oracle, placement_of


def random_anchors(structure, seed: int, dtype="float64") -> FramePairs:
    """Pairs of frames with random poses."""
    rng = np.random.default_rng(seed)
    poses = np.array([[random_pose(rng) for _ in structure] for _ in range(2)], dtype)
    return FramePairs(tuple(structure), *poses)


def point(link_a: int, link_b: int = -1, axes="local") -> AnchorStructure:
    """A 3-D anchor."""
    return AnchorStructure(link_a, link_b, AnchorType.POINT, (0, 1, 2), axes)


def weld(link_a: int, link_b: int = -1, axes="local") -> AnchorStructure:
    """A 6-D anchor."""
    return AnchorStructure(link_a, link_b, AnchorType.WELD, (0, 1, 2, 3, 4, 5), axes)


def constraints_of(articulation: Articulation, anchors: FramePairs, gains) -> Constraints:
    """Pairs of frames with gains (Kp, Kd) of each."""
    position, velocity = (jnp.asarray(gain, articulation.dtype) for gain in np.array(gains).T)
    return Constraints(anchors, position, velocity, jnp.zeros(anchors.num_rows, articulation.dtype))


def contact_impulses(delassus, velocity, friction, solver: str = "admm") -> np.ndarray:
    """Impulses of frictional contacts by Pinocchio's solver, ``admm`` or ``pgs``."""
    model = pin.buildSampleModelManipulator()
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for coefficient in friction:
        contact = pin.PointContactConstraintModel(model, 1, pin.SE3.Identity())
        contact.setFriction(coefficient)
        models.append(pin.ConstraintModel(contact))
        datas.append(models[len(models) - 1].createData())
    prefix = solver.upper()
    settings, result = (
        getattr(pin, f"{prefix}SolverSettings")(),
        getattr(pin, f"{prefix}SolverResult")(),
    )
    settings.max_iterations = 5000
    for name in ("feasibility", "complementarity"):
        setattr(settings, f"absolute_{name}_tol", 1e-13)
        setattr(settings, f"relative_{name}_tol", 1e-14)
    solved = getattr(pin, f"{prefix}ConstraintSolver")(len(velocity))
    solved.solve(
        pin.DelassusOperatorDense(np.array(delassus)),
        np.array(velocity),
        models,
        datas,
        settings,
        result,
    )
    return np.array(result.retrieveConstraintImpulses())


def constraint_models(oracle: Oracle, anchors: FramePairs, gains=None):
    """Pinocchio's models of points and welds; ``gains`` are (Kp, Kd) of each."""
    models = pin.StdVec_RigidConstraintModel()
    for k, one in enumerate(anchors.structure):
        ends = []
        for link, pose in ((one.link_a, anchors.pose_a[k]), (one.link_b, anchors.pose_b[k])):
            joint = oracle.joint_of_link[link] if link >= 0 else 0
            placement = placement_of(pose)
            # A fixed base's root is Pinocchio's universe, moved to where the base stands.
            ends += [joint, oracle.base * placement if link >= 0 and joint == 0 else placement]
        kind = (
            pin.ContactType.CONTACT_3D
            if one.type is AnchorType.POINT
            else pin.ContactType.CONTACT_6D
        )
        axes = pin.LOCAL if one.axes == "local" else pin.LOCAL_WORLD_ALIGNED
        model = pin.RigidConstraintModel(kind, oracle.model, *ends, axes)
        if gains is not None:
            model.m_baumgarte_parameters.Kp, model.m_baumgarte_parameters.Kd = gains[k]
        models.append(model)
    return models


def constraint_kinematics(oracle: Oracle, anchors: FramePairs) -> dict[str, np.ndarray]:
    """Errors (in frame a's axes), Jacobian and drift of all rows."""
    models = constraint_models(oracle, anchors)
    model, data = oracle.model, oracle.model.createData()
    datas = pin.StdVec_RigidConstraintData()
    datas.extend(one.createData() for one in models)
    pin.initConstraintDynamics(model, data, models, datas)
    pin.constraintDynamics(
        model,
        data,
        oracle.q,
        oracle.v,
        np.zeros(model.nv),
        models,
        datas,
        pin.ProximalSettings(0, 1e-6, 1),
    )
    pin.computeJointJacobians(model, data, oracle.q)
    jacobian = np.asarray(pin.getConstraintsJacobian(model, data, models, datas)) @ np.linalg.inv(
        oracle.twist_map
    )
    error, drift = [], []
    for one, found in zip(models, datas, strict=True):
        rows = slice(0, 3 if one.type == pin.ContactType.CONTACT_3D else 6)
        error.append(found.contact_placement_error.vector[rows])
        drift.append(
            (found.contact1_acceleration_drift - found.contact2_acceleration_drift).vector[rows]
        )
    drift = np.concatenate(drift) - jacobian @ oracle.twist_map_drift
    return {"error": np.concatenate(error), "jacobian": jacobian, "bias": drift}


class ConstrainedOracle:
    """Pinocchio's constrained dynamics at one state, in artix's conventions."""

    def __init__(
        self, oracle: Oracle, anchors: FramePairs, gains=None, mu: float = 0.0, iterations: int = 1
    ) -> None:
        self.oracle, self.model, self.data = oracle, oracle.model, oracle.model.createData()
        self.models = constraint_models(oracle, anchors, gains)
        self.datas = pin.StdVec_RigidConstraintData()
        self.datas.extend(one.createData() for one in self.models)
        self.settings = pin.ProximalSettings(0.0, 0.0, mu, iterations)
        pin.initConstraintDynamics(self.model, self.data, self.models, self.datas)

    def forward_dynamics(self, force) -> tuple[np.ndarray, np.ndarray]:
        """Acceleration and constraint forces."""
        oracle = self.oracle
        torque = oracle.twist_map.T @ np.asarray(force, float)
        args = (
            self.model,
            self.data,
            oracle.q,
            oracle.v,
            torque,
            self.models,
            self.datas,
            self.settings,
        )
        rate = pin.constraintDynamics(*args).copy()
        return oracle.twist_map @ rate + oracle.twist_map_drift, self.data.lambda_c.copy()

    def impact(self, restitution: float) -> tuple[np.ndarray, np.ndarray]:
        """Velocity after an impact, and impulses."""
        oracle = self.oracle
        args = (
            self.model,
            self.data,
            oracle.q,
            oracle.v,
            self.models,
            self.datas,
            restitution,
            self.settings,
        )
        after = pin.impulseDynamics(*args).copy()
        return oracle.twist_map @ after, self.data.impulse_c.copy()

    def delassus(self) -> np.ndarray:
        """The Delassus matrix, after the dynamics; ``computeDelassusMatrix`` treats all rows as
        ``LOCAL``."""
        return np.asarray(self.data.constraint_chol.getInverseOperationalSpaceInertiaMatrix())

    def local_delassus(self) -> np.ndarray:
        """The Delassus matrix from ``computeDelassusMatrix``, for rows in local axes."""
        return np.asarray(
            pin.computeDelassusMatrix(
                self.model, self.data, self.oracle.q, self.models, self.datas, 0.0
            )
        )

    def forward_dynamics_derivatives(self, force) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Derivatives of acceleration and constraint forces by configuration, velocity and force,
        after the dynamics."""
        pin.computeConstraintDynamicsDerivatives(
            self.model, self.data, self.models, self.datas, self.settings
        )
        oracle, data, force = self.oracle, self.data, np.asarray(force, float)
        forward, backward = oracle.twist_map, np.linalg.inv(oracle.twist_map)
        by = data.ddq_dq.copy(), data.ddq_dv.copy(), data.ddq_dtau.copy()
        forces = data.dlambda_dq.copy(), data.dlambda_dv.copy(), data.dlambda_dtau.copy()
        nu, rest = forward @ oracle.v, forward @ data.ddq.copy()
        found = []
        for (by_q, by_v, by_force), left in ((by, forward), (forces, np.eye(len(forces[0])))):
            by_configuration = left @ by_q @ backward
            for k, turn in enumerate(turns_of_root(oracle)):
                held = by_v @ backward @ turn @ nu + by_force @ forward.T @ turn @ force
                by_configuration[:, k] -= left @ held
                if left is forward:
                    by_configuration[:, k] += turn @ rest
            by_velocity = left @ by_v @ backward
            if left is forward:
                by_velocity = by_velocity + drift_by_velocity(oracle, nu)
            found.append([by_configuration, by_velocity, left @ by_force @ forward.T])
        return found[0], found[1]

    def row_derivatives(self, force) -> tuple[np.ndarray, ...]:
        """``dvc_dq``, ``dac_dq``, ``dac_dv`` and ``dac_da``, after the dynamics."""
        pin.computeConstraintDynamicsDerivatives(
            self.model, self.data, self.models, self.datas, self.settings
        )
        oracle, data = self.oracle, self.data
        forward, backward = oracle.twist_map, np.linalg.inv(oracle.twist_map)
        nu, rest = forward @ oracle.v, forward @ data.ddq.copy()
        by = [x.copy() @ backward for x in (data.dvc_dq, data.dac_dq, data.dac_dv, data.dac_da)]
        velocity_by_q, by_q, by_v, jacobian = by
        for k, turn in enumerate(turns_of_root(oracle)):
            velocity_by_q[:, k] -= jacobian @ turn @ nu
            by_q[:, k] -= by_v @ turn @ nu + jacobian @ turn @ rest
        return velocity_by_q, by_q, by_v - jacobian @ drift_by_velocity(oracle, nu), jacobian

    def impact_derivatives(self, restitution: float) -> list[np.ndarray]:
        """Derivatives of the velocity after an impact by configuration and velocity, then of the
        impulses."""
        oracle, data = self.oracle, self.data
        after, _ = self.impact(restitution)
        pin.computeImpulseDynamicsDerivatives(
            self.model, data, self.models, self.datas, restitution, self.settings
        )
        forward, backward = oracle.twist_map, np.linalg.inv(oracle.twist_map)
        nu, identity = forward @ oracle.v, np.eye(self.model.nv)
        by_q, by_v = forward @ data.ddq_dq @ backward, forward @ (data.ddq_dv + identity) @ backward
        impulse_by_q, impulse_by_v = data.dlambda_dq @ backward, data.dlambda_dv @ backward
        for k, turn in enumerate(turns_of_root(oracle)):
            by_q[:, k] += turn @ after - by_v @ turn @ nu
            impulse_by_q[:, k] -= impulse_by_v @ turn @ nu
        return [by_q, by_v, impulse_by_q, impulse_by_v]
