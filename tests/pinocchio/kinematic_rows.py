"""Rows of the table: kinematics, their derivatives, and the tree itself."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

import artix
from tests.pinocchio.reference import AXES as PINOCCHIO_AXES
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import (
    AXES,
    DEAD,
    GETTER,
    RESULT,
    TEMPORARY,
    Row,
    moving,
    transform,
    transforms,
)

FRAME_AXES = (
    "`axes=` corresponds to Pinocchio's `ReferenceFrame`: `local`, `world_aligned`, `world`"
)


def _parent_placement(r: Reference, joint: int) -> np.ndarray:
    placement = r.data.liMi[joint]
    on_root = r.oracle.fixed_base and r.model.parents[joint] == 0
    return transform(r.oracle.base.inverse() * placement if on_root else placement)


def _of_links(getter):
    """One getter for every joint, in each of the three axes."""
    return lambda r: [
        r.of_joints(lambda j, rf=rf: getter(r.model, r.data, j, rf).vector)
        for rf in PINOCCHIO_AXES.values()
    ]


def _frame(x: dict) -> tuple:
    return x["link"], x["offset"]


def _joint_jacobian_rate(r: Reference) -> np.ndarray:
    data = r.ran(pin.computeJointJacobiansTimeVariation, r.q, r.v)
    return r.rate_of_columns(data.dJ, data.J)


def _frame_jacobian_rates(r: Reference) -> list[np.ndarray]:
    data = r.ran(pin.computeJointJacobiansTimeVariation, r.q, r.v)
    pin.updateFramePlacements(r.model, data)
    return [
        r.rate_of_columns(
            pin.getFrameJacobianTimeVariation(r.model, data, r.frame, PINOCCHIO_AXES[axes]).copy(),
            r.frame_jacobian(axes),
        )
        for axes in AXES
    ]


def _motion_derivatives(r: Reference) -> list[np.ndarray]:
    """``dVdq``, ``dAdq`` without gravity and ``dAdv``, whose root columns artix holds in world
    axes."""
    still = r.model.copy()
    still.gravity = pin.Motion.Zero()
    data = still.createData()
    pin.computeRNEADerivatives(still, data, r.q, r.v, r.a)
    by_q = np.zeros((6, r.model.nv))
    for joint in range(1, r.model.njoints):
        own = slice(r.model.idx_vs[joint], r.model.idx_vs[joint] + r.model.nvs[joint])
        local, _ = pin.getJointVelocityDerivatives(r.model, r.data, joint, pin.LOCAL)
        by_q[:, own] = r.data.oMi[joint].toActionMatrix() @ local[:, own]
    return list(_columns_derivatives(r, by_q, data))


def _columns_derivatives(r: Reference, by_q: np.ndarray, data: pin.Data):
    from tests.support.oracle_derivatives import drift_by_velocity, turns_of_root

    jacobian = r.columns(data.J)
    turns, drift = turns_of_root(r.oracle), drift_by_velocity(r.oracle, r.nu)
    held = [
        np.stack([m @ turn @ y for turn in turns], axis=-1)
        for m, y in ((jacobian, r.nu), (r.columns(data.dAdv), r.nu), (jacobian, r.rest))
    ]
    yield r.columns(by_q) - held[0]
    yield r.columns(data.dAdq) - held[1] - held[2]
    yield r.columns(data.dAdv) - jacobian @ drift


def _joint_hessians(r: Reference) -> np.ndarray:
    """All columns, each taken from its own joint."""
    nv = r.model.nv
    tensor = np.zeros((6, nv, nv), order="F")
    for joint in range(1, r.model.njoints):
        own = slice(r.model.idx_vs[joint], r.model.idx_vs[joint] + r.model.nvs[joint])
        found = pin.getJointKinematicHessian(r.model, r.data, joint, pin.WORLD)
        fixed = np.lib.stride_tricks.as_strided(np.asarray(found), (6, nv, nv), (8, 48, 48 * nv))
        tensor[:, own] = fixed[:, own]
    return r.hessian(tensor, r.data.J)


def _frame_hessians(r: Reference) -> list[np.ndarray]:
    """In local axes, from world-aligned ones, because Pinocchio's own are wrong within joints of
    several DOFs."""
    aligned, world = (
        r.hessian(
            pin.getFrameKinematicHessian(r.model, r.data, r.frame, PINOCCHIO_AXES[axes]),
            r.frame_jacobian(axes),
        )
        for axes in ("world_aligned", "world")
    )
    jacobian = r.columns(r.frame_jacobian("world_aligned"))
    turned = [
        np.cross(jacobian[3:, k], jacobian.reshape(2, 3, -1), axisb=1, axisc=1)
        for k in range(jacobian.shape[1])
    ]
    held = aligned - np.stack(turned, axis=-1).reshape(aligned.shape)
    to_local = np.kron(np.eye(2), r.data.oMf[r.frame].rotation.T)
    return [np.einsum("ab,bij->aij", to_local, held), aligned, world]


def _kinematic_regressors(r: Reference) -> list[np.ndarray]:
    """Values of the joints in the order of the links."""
    order = np.concatenate([6 * (j - 1) + np.arange(6) for j in r.oracle.joint_of_link[1:]])
    return [
        pin.computeFrameKinematicRegressor(r.model, r.data, r.frame, PINOCCHIO_AXES[axes])[:, order]
        for axes in AXES
    ]


KINEMATICS = [
    Row(
        "`joints`",
        TEMPORARY,
        "its `M` and `S` are contained in `joint_placements(a, s)` and `joint_jacobians(a, s)`",
    ),
    Row(
        "`liMi`",
        RESULT,
        "`joint_placements(a, s)`",
        "poses `[7]`; link frames are Pinocchio's joint frames. Links attached to a fixed root "
        "are relative to the root",
        lambda a, s, x: transforms(artix.joint_placements(a, s)[1:]),
        lambda r: np.array([_parent_placement(r, j) for j in r.oracle.joint_of_link[1:]]),
    ),
    Row(
        "`oMi`, `forwardKinematics`, `updateGlobalPlacements`",
        RESULT,
        "`frame_pose(a, s)`",
        "poses `[7]`, quaternion xyzw",
        lambda a, s, x: moving(a, transforms(artix.frame_pose(a, s))),
        lambda r: r.of_joints(lambda j: transform(r.data.oMi[j])),
    ),
    Row(
        "`oMf`, `framesForwardKinematics`, `updateFramePlacements`",
        RESULT,
        "`frame_pose(a, s, frame, offset)`",
        "a frame is a link or a named frame, with an optional offset",
        lambda a, s, x: transforms(artix.frame_pose(a, s, *_frame(x))),
        lambda r: transform(r.data.oMf[r.frame]),
    ),
    Row("`iMf`", TEMPORARY, "`frame_jacobian(a, s, frame, offset)`"),
    Row(
        "`v`, `ov`, `getVelocity`",
        RESULT,
        "`frame_velocity(a, s, axes=...)`",
        '`v` is `local`, `ov` is `world`; `offset="com"` gives velocities of centres of mass',
        lambda a, s, x: [moving(a, artix.frame_velocity(a, s, axes=axes)) for axes in AXES],
        _of_links(pin.getVelocity),
    ),
    Row(
        "`a`, `oa`, `getAcceleration`",
        RESULT,
        "`frame_acceleration(a, s, acc, axes=...)`",
        "`a` is `local`, `oa` is `world`",
        lambda a, s, x: [
            moving(a, artix.frame_acceleration(a, s, x["acceleration"], axes=k)) for k in AXES
        ],
        _of_links(pin.getAcceleration),
    ),
    Row(
        "`getClassicalAcceleration`",
        GETTER,
        "`frame_acceleration(a, s, acc, axes=..., classical=True)`",
        "",
        lambda a, s, x: [
            moving(a, artix.frame_acceleration(a, s, x["acceleration"], axes=k, classical=True))
            for k in AXES
        ],
        _of_links(pin.getClassicalAcceleration),
    ),
    Row(
        "`getFrameVelocity`",
        GETTER,
        "`frame_velocity(a, s, frame, offset, axes=...)`",
        FRAME_AXES,
        lambda a, s, x: [artix.frame_velocity(a, s, *_frame(x), axes=axes) for axes in AXES],
        lambda r: [r.frame_motion(axes)[0] for axes in AXES],
    ),
    Row(
        "`getFrameAcceleration`, `getFrameClassicalAcceleration`",
        GETTER,
        "`frame_acceleration(a, s, acc, frame, offset, axes=..., classical=...)`",
        FRAME_AXES,
        lambda a, s, x: [
            artix.frame_acceleration(
                a, s, x["acceleration"], *_frame(x), axes=axes, classical=classical
            )
            for classical in (False, True)
            for axes in AXES
        ],
        lambda r: [
            getter(r.model, r.data, r.frame, PINOCCHIO_AXES[axes]).vector
            for getter in (pin.getFrameAcceleration, pin.getFrameClassicalAcceleration)
            for axes in AXES
        ],
    ),
    Row(
        "`a_gf`, `oa_gf`",
        TEMPORARY,
        "`joint_wrenches(a, s, acc)`; for the numbers themselves, `frame_acceleration` minus "
        "gravity",
    ),
    Row(
        "`J`, `computeJointJacobians`, `computeJointJacobian`, `getJointJacobian`",
        RESULT,
        "`joint_jacobians(a, s)`; for one joint `frame_jacobian(a, s, link, axes=...)`",
        "columns are in the order of `nu`",
        lambda a, s, x: artix.joint_jacobians(a, s),
        lambda r: r.columns(r.data.J),
    ),
    Row(
        "`dJ`, `computeJointJacobiansTimeVariation`, `getJointJacobianTimeVariation`",
        RESULT,
        "`joint_jacobians_rate(a, s)`; for one joint `frame_jacobian_rate(a, s, link, axes=...)`",
        "the rate of the matrix that multiplies `nu`: `d(J T^-1)/dt`",
        lambda a, s, x: artix.joint_jacobians_rate(a, s),
        _joint_jacobian_rate,
    ),
    Row(
        "`ddJ`",
        DEAD,
        "`joint_jacobians_second_rate(a, s, acc)`",
        "Pinocchio never writes it",
        lambda a, s, x: artix.joint_jacobians_second_rate(a, s, x["acceleration"]),
        lambda r: r.along_time(_joint_jacobian_rate),
        check="differences of `dJ` in time",
    ),
    Row(
        "`getFrameJacobian`, `computeFrameJacobian`",
        GETTER,
        "`frame_jacobian(a, s, frame, offset, axes=...)`",
        FRAME_AXES,
        lambda a, s, x: [artix.frame_jacobian(a, s, *_frame(x), axes=axes) for axes in AXES],
        lambda r: [r.columns(r.frame_jacobian(axes)) for axes in AXES],
    ),
    Row(
        "`getFrameJacobianTimeVariation`, `frameJacobianTimeVariation`",
        GETTER,
        "`frame_jacobian_rate(a, s, frame, offset, axes=...)`",
        FRAME_AXES,
        lambda a, s, x: [artix.frame_jacobian_rate(a, s, *_frame(x), axes=axes) for axes in AXES],
        _frame_jacobian_rates,
    ),
    Row(
        "`kinematic_hessians`, `computeJointKinematicHessians`, `getJointKinematicHessian`",
        RESULT,
        "`joint_kinematic_hessians(a, s)`",
        "`[:, i, j]` is the derivative of column i along j; it is zero where Pinocchio's field "
        "keeps its antisymmetric half",
        lambda a, s, x: artix.joint_kinematic_hessians(a, s),
        _joint_hessians,
    ),
    Row(
        "`getFrameKinematicHessian`",
        GETTER,
        "`frame_kinematic_hessian(a, s, frame, offset, axes=...)`",
        "Pinocchio's Python array has the wrong strides (reinterpret it column-major), and its "
        "`LOCAL` result is wrong within joints of several DOFs",
        lambda a, s, x: [
            artix.frame_kinematic_hessian(a, s, *_frame(x), axes=axes) for axes in AXES
        ],
        _frame_hessians,
    ),
    Row(
        "`computeJointKinematicRegressor`, `computeFrameKinematicRegressor`",
        GETTER,
        "`frame_kinematic_regressor(a, s, frame, offset, axes=...)`",
        "blocks in link order, without the root's",
        lambda a, s, x: [
            artix.frame_kinematic_regressor(a, s, *_frame(x), axes=axes) for axes in AXES
        ],
        _kinematic_regressors,
    ),
]

KINEMATIC_DERIVATIVES = [
    Row(
        "`dVdq`, `dAdq`, `dAdv`, `psid`, `psidd`, `computeForwardKinematicsDerivatives`",
        TEMPORARY,
        "`joint_motion_derivatives(a, s, acc)`",
        "without gravity; for the root's columns, `nu` is held in world axes",
        lambda a, s, x: list(artix.joint_motion_derivatives(a, s, x["acceleration"])),
        _motion_derivatives,
    ),
    Row(
        "`getFrameVelocityDerivatives`, `getJointVelocityDerivatives`, "
        "`getPointVelocityDerivatives`",
        GETTER,
        "`frame_velocity_derivatives(a, s, frame, offset, axes=...)`; for all links "
        "`frame_velocity_derivatives(a, s)`",
        "derivatives of the numbers returned: the axes move with the frame, `nu` is held in world "
        "axes. For points, take the first three rows",
        lambda a, s, x: [
            tuple(artix.frame_velocity_derivatives(a, s, *_frame(x), axes=axes)) for axes in AXES
        ],
        lambda r: [r.frame_derivatives(axes)[0][:2] for axes in AXES],
    ),
    Row(
        "`getFrameAccelerationDerivatives`, `getJointAccelerationDerivatives`",
        GETTER,
        "`frame_acceleration_derivatives(a, s, acc, frame, offset, axes=...)`; for all links "
        "`frame_acceleration_derivatives(a, s, acc)`",
        "as for velocities; Pinocchio's `WORLD` results are wrong below joints of several DOFs",
        lambda a, s, x: [
            tuple(
                artix.frame_acceleration_derivatives(a, s, x["acceleration"], *_frame(x), axes=axes)
            )
            for axes in AXES
        ],
        lambda r: [r.frame_derivatives(axes)[1] for axes in AXES],
    ),
    Row(
        "`getPointClassicAccelerationDerivatives`",
        GETTER,
        "`frame_acceleration_derivatives(..., classical=True)`, the first three rows",
        "as for velocities",
        lambda a, s, x: [
            tuple(
                artix.frame_acceleration_derivatives(
                    a, s, x["acceleration"], *_frame(x), axes=axes, classical=True
                )
            )
            for axes in AXES
        ],
        lambda r: [r.frame_derivatives(axes, classical=True)[1] for axes in AXES],
    ),
]
