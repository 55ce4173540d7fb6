"""Rows of the table: configurations and Lie groups, compared in numbers; joint types and model
surgery, by tests.

The second configuration is where the acceleration of the inputs leads, taken as a displacement; its
entries are below a turn, so that differences are the shortest ones.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import artix
from artix.math import lie
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import GETTER, Row, moving, transforms

FRACTION = 0.3
_ROOT = (
    "the root's centre of mass moves and the root rotates about world axes; Pinocchio follows a "
    "screw of the root frame"
)
_TANGENT = "in the tangent space of `nu`"
_COMPOSITE, _SURGERY = "`tests/model/test_composite_joints.py`", "`tests/editing/test_surgery.py`"


# --- artix --------------------------------------------------------------------------------------


def _end(a, s, x):
    return artix.integrate(a, s, x["acceleration"])


def _placements(a, s):
    return moving(a, transforms(artix.frame_pose(a, s)))


def _unnormalized(s):
    """The same configuration with a quaternion of opposite sign and different length."""
    scale = jnp.asarray([1, 1, 1, -2.5, -2.5, -2.5, -2.5], s.root_pose.dtype)
    return s.replace(root_pose=s.root_pose * scale)


def _is_normalized(a, s, x):
    return jnp.stack([artix.is_normalized(a, s), artix.is_normalized(a, _unnormalized(s))]).astype(
        a.dtype
    )


def _are_the_same(a, s, x):
    ends = (_unnormalized(s), _end(a, s, x))
    return jnp.stack([artix.is_same_configuration(a, s, end) for end in ends]).astype(a.dtype)


def _rate_map(a, s, x):
    """Removes the sign of the root's quaternion: multiplies its rows by the quaternion's largest
    entry."""
    matrix = artix.configuration_rate_map(a, s)
    if a.topology.fixed_base:
        return matrix
    return matrix.at[3:7].multiply(s.root_pose[6])


# --- Pinocchio ----------------------------------------------------------------------------------


def _step(r: Reference) -> np.ndarray:
    return np.asarray(r.inputs["acceleration"], float)


def _joint_step(r: Reference, step: np.ndarray) -> np.ndarray:
    """A displacement of Pinocchio's joints, without the root's."""
    move = np.zeros(r.model.nv)
    move[r.oracle.dof_order] = step
    move[: r.base] = 0
    return move


def _difference(r: Reference) -> np.ndarray:
    end = r.displaced(_step(r))
    found = pin.difference(r.oracle.model, r.q, end)[r.oracle.dof_order]
    if r.base:
        lever = r.model.inertias[1].lever
        start, there = (pin.XYZQUATToSE3(q[:7]) for q in (r.q, end))
        found[:6] = np.concatenate(
            [there.act(lever) - start.act(lever), pin.log3(there.rotation @ start.rotation.T)]
        )
    return found


def _squared_distances(r: Reference) -> np.ndarray:
    """Values of the links that move; the root's belongs to its own displacement."""
    squares = pin.squaredDistance(r.oracle.model, r.q, r.displaced(_step(r)))
    root = np.sum(_difference(r)[: r.base] ** 2)
    return np.array([root if r.base and joint == 1 else squares[joint - 1] for joint in r.joints])


def _joint_blocks(
    r: Reference, matrix: np.ndarray, linear: np.ndarray, angular: np.ndarray
) -> np.ndarray:
    """Pinocchio's blocks of the joints; those of the root use Pinocchio's SO(3) functions from the
    left."""
    order = r.oracle.dof_order
    found = matrix[np.ix_(order, order)]
    if r.base:
        found[:6], found[:, :6] = 0, 0
        found[:3, :3], found[3:6, 3:6] = linear, angular
    return found


def _integrate_derivatives(r: Reference) -> list[np.ndarray]:
    step, unit = _step(r), np.eye(3)
    by = pin.dIntegrate(r.oracle.model, r.q, _joint_step(r, step))
    roots = (unit, pin.exp3(step[3:6])), (unit, pin.Jexp3(step[3:6]).T)
    return [_joint_blocks(r, matrix, *root) for matrix, root in zip(by, roots, strict=True)]


def _difference_derivatives(r: Reference) -> list[np.ndarray]:
    unit, between = np.eye(3), pin.exp3(_difference(r)[3:6])
    by = pin.dDifference(r.oracle.model, r.q, r.displaced(_step(r)))
    roots = (-unit, -pin.Jlog3(between)), (unit, pin.Jlog3(between).T)
    return [_joint_blocks(r, matrix, *root) for matrix, root in zip(by, roots, strict=True)]


def _transported(r: Reference) -> np.ndarray:
    step, order = _step(r), r.oracle.dof_order
    columns = np.zeros((r.model.nv,) * 2)
    columns[order] = np.eye(r.model.nv)
    carried = pin.dIntegrateTransport(r.oracle.model, r.q, _joint_step(r, step), columns, pin.ARG0)[
        order
    ]
    if r.base:
        carried[:6] = 0
        carried[:3, :3], carried[3:6, 3:6] = np.eye(3), pin.exp3(step[3:6])
    return carried


def _rates(r: Reference) -> np.ndarray:
    """Rows of the root and of joints of one DOF are Pinocchio's; those of rotation vectors its
    logarithm's derivative."""
    topology = r.articulation.topology
    wanted = np.array(pin.tangentMap(r.oracle.model, r.q)) @ r.inverse_map
    root = 7 if r.base else 0
    found = np.zeros((root + topology.num_dofs, r.model.nv))
    found[:root] = wanted[:root]
    found[3:root] *= r.q[6]
    for name in topology.joint_names:
        joint, dofs = r.model.getJointId(name), topology.dofs(name)
        rows = np.arange(topology.num_dofs)[dofs]
        if r.model.nqs[joint] == 4:
            vector = np.asarray(r.state.joint_position, float)[dofs]
            found[np.ix_(root + rows, r.base + rows)] = pin.Jlog3(pin.exp3(vector))
        else:
            found[root + rows] = wanted[r.model.idx_qs[joint] :][: len(rows)]
    return found


def _unit_quaternion(r: Reference) -> np.ndarray:
    """Products of its entries, which do not depend on the sign."""
    quaternion = pin.Quaternion(*np.roll(-2.5 * np.asarray(r.state.root_pose, float)[3:], 1))
    quaternion.normalize()
    return np.outer(quaternion.coeffs(), quaternion.coeffs())


def _are_normalized(r: Reference) -> np.ndarray:
    """The pose of the root as that of a free-flyer, because Pinocchio's fixed bases have none."""
    flying, pose = pin.Model(), np.array(r.state.root_pose, float)
    flying.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
    longer = np.concatenate([pose[:3], -2.5 * pose[3:]])
    return np.array([float(pin.isNormalized(flying, q, 1e-9)) for q in (pose, longer)])


# --- the rows -----------------------------------------------------------------------------------

CONFIGURATIONS = [
    Row(
        "`integrate`",
        GETTER,
        "`integrate(a, s, dnu)`",
        f"{_ROOT}. Rotation vectors instead of quaternions; placements of the links are compared",
        lambda a, s, x: _placements(a, _end(a, s, x)),
        lambda r: r.placements(r.displaced(_step(r))),
    ),
    Row(
        "`difference`",
        GETTER,
        "`difference(a, s, t)`",
        _ROOT,
        lambda a, s, x: artix.difference(a, s, _end(a, s, x)),
        _difference,
    ),
    Row(
        "`interpolate`",
        GETTER,
        "`interpolate(a, s, t, fraction)`",
        _ROOT,
        lambda a, s, x: _placements(a, artix.interpolate(a, s, _end(a, s, x), FRACTION)),
        lambda r: r.placements(r.displaced(FRACTION * _difference(r))),
    ),
    Row(
        "`distance`",
        GETTER,
        "`distance(a, s, t)`",
        f"length of the difference, in which {_ROOT}",
        lambda a, s, x: artix.distance(a, s, _end(a, s, x)),
        lambda r: np.sqrt(np.sum(_squared_distances(r))),
    ),
    Row(
        "`squaredDistance`",
        GETTER,
        "`squared_distance(a, s, t)`",
        "one entry per link, the root first",
        lambda a, s, x: moving(a, artix.squared_distance(a, s, _end(a, s, x))),
        _squared_distances,
    ),
    Row(
        "`neutral`",
        GETTER,
        "`neutral_state(a)`",
        "with zero velocities; compared with the root moved to the pose of the state",
        lambda a, s, x: _placements(a, artix.neutral_state(a).replace(root_pose=s.root_pose)),
        lambda r: r.placements(
            np.concatenate([r.q[: r.base and 7], pin.neutral(r.model)[r.base and 7 :]])
        ),
    ),
    Row(
        "`randomConfiguration`",
        GETTER,
        "`random_state(a, key)`",
        "unlimited DOFs lie within a turn or a metre; velocities are random too",
        check="within its limits, `tests/dynamics/test_properties.py`",
    ),
    Row(
        "`normalize`",
        GETTER,
        "`normalize(a, s)`",
        "also shortens rotation vectors; the root's quaternion is compared",
        lambda a, s, x: jnp.outer(*2 * [artix.normalize(a, _unnormalized(s)).root_pose[3:]]),
        _unit_quaternion,
    ),
    Row(
        "`isNormalized`",
        GETTER,
        "`is_normalized(a, s)`",
        "also checks that rotation vectors are the shortest",
        _is_normalized,
        _are_normalized,
    ),
    Row(
        "`isSameConfiguration`",
        GETTER,
        "`is_same_configuration(a, s, t)`",
        "both quaternions of a rotation count as the same",
        _are_the_same,
        lambda r: np.array(
            [
                float(pin.isSameConfiguration(r.oracle.model, r.q, q, 1e-9))
                for q in (r.q, r.displaced(_step(r)))
            ]
        ),
    ),
    Row(
        "`dIntegrate`",
        GETTER,
        "`integrate_derivatives(a, s, dnu)`",
        _TANGENT,
        lambda a, s, x: list(artix.integrate_derivatives(a, s, x["acceleration"])),
        _integrate_derivatives,
    ),
    Row(
        "`dDifference`",
        GETTER,
        "`difference_derivatives(a, s, t)`",
        _TANGENT,
        lambda a, s, x: list(artix.difference_derivatives(a, s, _end(a, s, x))),
        _difference_derivatives,
    ),
    Row(
        "`dIntegrateTransport`",
        GETTER,
        "`transport(a, s, dnu, tangents)`",
        _TANGENT,
        lambda a, s, x: artix.transport(
            a, s, x["acceleration"], jnp.eye(a.topology.nv, dtype=a.dtype)
        ),
        _transported,
    ),
    Row(
        "`tangentMap`, `compactTangentMap`, `tangentMapProduct`",
        GETTER,
        "`configuration_rate_map(a, s)`, `@ x`",
        "rows of rotation vectors instead of quaternions",
        _rate_map,
        _rates,
    ),
]

LIE_GROUPS = [
    Row(
        "`exp3`, `exp3_quat`",
        GETTER,
        "`lie.so3_exp(w)`",
        "a quaternion xyzw",
        lambda a, s, x: lie.so3_exp(x["acceleration"][:3]),
        lambda r: pin.exp3_quat(_step(r)[:3]),
    ),
    Row(
        "`log3`",
        GETTER,
        "`lie.so3_log(quaternion)`",
        "of a quaternion xyzw",
        lambda a, s, x: lie.so3_log(lie.so3_exp(x["acceleration"][:3])),
        lambda r: pin.log3(pin.exp3(_step(r)[:3])),
    ),
    Row(
        "`Jexp3`",
        GETTER,
        "`lie.so3_right_jacobian(w)`",
        "",
        lambda a, s, x: lie.so3_right_jacobian(x["acceleration"][:3]),
        lambda r: pin.Jexp3(_step(r)[:3]),
    ),
    Row(
        "`Jlog3`",
        GETTER,
        "`lie.so3_right_jacobian_inverse(w)`",
        "a function of the rotation vector",
        lambda a, s, x: lie.so3_right_jacobian_inverse(x["acceleration"][:3]),
        lambda r: pin.Jlog3(pin.exp3(_step(r)[:3])),
    ),
    Row(
        "`Hlog3`",
        GETTER,
        "`jax.jacfwd(lie.so3_right_jacobian_inverse)(w)`",
        "by the rotation vector, not contracted with a vector",
        check="differences of `Jlog3`, `test_gradients` of this section",
    ),
    Row(
        "`exp6`, `exp6_quat`",
        GETTER,
        "`lie.se3_exp(twist)`",
        "a pose `[7]`",
        lambda a, s, x: lie.se3_exp(x["acceleration"][:6]),
        lambda r: pin.exp6_quat(_step(r)[:6]),
    ),
    Row(
        "`log6`",
        GETTER,
        "`lie.se3_log(pose)`",
        "of a pose `[7]`",
        lambda a, s, x: lie.se3_log(lie.se3_exp(x["acceleration"][:6])),
        lambda r: pin.log6(pin.exp6(_step(r)[:6])).vector,
    ),
    Row(
        "`Jexp6`",
        GETTER,
        "`lie.se3_right_jacobian(twist)`",
        "exact at small angles, where pin 4.1 has eight correct digits",
        lambda a, s, x: lie.se3_right_jacobian(x["acceleration"][:6]),
        lambda r: pin.Jexp6(_step(r)[:6]),
    ),
    Row(
        "`Jlog6`",
        GETTER,
        "`lie.se3_right_jacobian_inverse(twist)`",
        "a function of the twist",
        lambda a, s, x: lie.se3_right_jacobian_inverse(x["acceleration"][:6]),
        lambda r: pin.Jlog6(pin.exp6(_step(r)[:6])),
    ),
]

#: Joint types and surgery have tests of their own: here is which.

JOINTS = [
    Row(
        "`JointModelRX`, `JointModelRevoluteUnaligned`",
        GETTER,
        "`Joint.revolute(wrapped=False)`",
        "for oblique axes, rotate the joint frames",
        check="all rows above, on robots with these joints",
    ),
    Row(
        "`JointModelRUBX`, `JointModelRevoluteUnboundedUnaligned`",
        GETTER,
        "`Joint.revolute()`",
        "one angle instead of cosine and sine",
        check="`tests/pinocchio/test_pinocchio.py`",
    ),
    Row(
        "`JointModelPX`, `JointModelPrismaticUnaligned`",
        GETTER,
        "`Joint.prismatic()`",
        "for oblique axes, rotate the joint frames",
        check="all rows above, on robots with these joints",
    ),
    Row(
        "`JointModelHX`, `JointModelHelicalUnaligned`",
        GETTER,
        "`Joint.helical(pitch=h)`",
        "for oblique axes, rotate the joint frames",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelSpherical`",
        GETTER,
        "`Joint.spherical()`",
        "a rotation vector instead of the quaternion",
        check="all rows above, on robots with these joints",
    ),
    Row(
        "`JointModelSphericalZYX`",
        GETTER,
        "`CompositeJoint.spherical_zyx()`",
        "derivatives are correct; those of pin 4.1 are wrong",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelUniversal`",
        GETTER,
        "`CompositeJoint.universal()`",
        "derivatives are correct; those of pin 4.1 are wrong",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelPlanar`",
        GETTER,
        "`CompositeJoint.planar()`",
        "an angle instead of cosine and sine; velocity along the parent's axes",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelTranslation`",
        GETTER,
        "`CompositeJoint.translation()`",
        "",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelFreeFlyer`",
        GETTER,
        "`ArticulationBuilder(fixed_base=False)` or `CompositeJoint.free()`",
        "see the conventions; within a tree, the linear velocity is along the parent's axes",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelComposite`",
        GETTER,
        "`CompositeJoint(joints=[...])`",
        "derivatives are correct; those of pin 4.1 are wrong",
        check=_COMPOSITE,
    ),
    Row(
        "`JointModelMimic`",
        GETTER,
        "`mimic_map(a)`",
        "a linear map that works with every algorithm",
        check="`tests/editing/test_surgery.py`, 1e-9",
    ),
]

SURGERY = [
    Row(
        "`buildReducedModel`",
        GETTER,
        "`lock_joints(a, s, joints)`",
        "links are kept; the root's velocity remains that of its own link",
        check=_SURGERY,
    ),
    Row(
        "`appendModel`",
        GETTER,
        "`attach_articulation(a, link, b, joint)`",
        "any joint; the child's names can take a prefix; keeps the armature, which pin 4.1 drops",
        check=_SURGERY,
    ),
    Row(
        "`transformJointIntoMimic`",
        GETTER,
        "`mimic_map(a)`",
        "`ArticulationBuilder.add_mimic` defines the relation",
        check=_SURGERY,
    ),
]
