"""Rows of the table: constrained dynamics, its derivatives, impacts, Delassus' matrix and
frictional contact.

The constraints are a weld of the last link and, where the robot has the DOFs for it, a loop from
the link before. The loop is a point in world axes on a floating base and a weld on a fixed one,
where pin 4.1 gets the first column of its derivatives for loops of points wrong, by its own finite
differences. Impacts are without frame b, which Pinocchio's ignore.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pinocchio as pin

import artix
from artix import Constraints, Contacts
from tests.pinocchio.reference import Reference
from tests.pinocchio.rows import DEAD, GETTER, INDEX, RESULT, TEMPORARY, Row
from tests.support import oracle_constraints
from tests.support.oracle_constraints import ConstrainedOracle, contact_impulses, point, weld
from tests.support.oracle_derivatives import symmetric

GAINS = [(4.0, 3.0), (2.0, 1.0)]
RESTITUTION, STEP, FRICTION = 0.3, 0.01, np.array([0.6, 0.9])
#: Enough for all digits that float64 has.
CONTACT_ITERATIONS = 1000

_TANGENT = "columns in the tangent space of `nu`"
_FORWARD = "`constrained_forward_dynamics(a, s, force, c)`"
_DERIVATIVES = "`constrained_forward_dynamics_derivatives(a, s, force, c)`"
_DELASSUS, _INERTIA = "`delassus_matrix(a, s, c)`", "`operational_space_inertia(a, s, c)`"
_SOLVE = "`constrained_solve(a, s, c, force, target)`"
_KINEMATICS = "`constraint_kinematics(a, s, c)`"


def constraints(a, *, loop: bool = True) -> Constraints:
    """The constraints on every robot of the table."""
    last = a.topology.num_links - 1
    structure = [weld(last)]
    if a.topology.nv >= 12:
        closed = weld(last - 1, 5) if a.topology.fixed_base else point(last - 1, 5, "world_aligned")
        structure.append(closed if loop else point(last - 1, -1, "world_aligned"))
    anchors = oracle_constraints.random_anchors(structure, 3, a.dtype)
    return oracle_constraints.constraints_of(a, anchors, GAINS[: len(structure)])


def contacts(a) -> Contacts:
    """Points of two links on oblique ground."""
    rng, last = np.random.default_rng(4), a.topology.num_links - 1
    normal = rng.normal(size=(2, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    arrays = rng.normal(size=(2, 3)) * 0.1, normal, FRICTION, np.zeros(2)
    return Contacts((last, last - 1), *(jnp.asarray(x, a.dtype) for x in arrays))


# --- artix --------------------------------------------------------------------------------------


def _forward(a, s, x) -> artix.ConstrainedAcceleration:
    return artix.constrained_forward_dynamics(a, s, x["force"], constraints(a))


def _derivatives(a, s, x):
    return artix.constrained_forward_dynamics_derivatives(a, s, x["force"], constraints(a))


def _impact(a, s, x):
    return artix.impulse_dynamics(a, s, constraints(a, loop=False), RESTITUTION)


def _impact_derivatives(a, s, x):
    return artix.impulse_dynamics_derivatives(a, s, constraints(a, loop=False), RESTITUTION)


def _row_derivatives(a, s, x):
    acceleration = _forward(a, s, x).acceleration
    return artix.constraint_derivatives(a, s, acceleration, constraints(a))


def _solved(a, s, x) -> list:
    held = constraints(a)
    return list(artix.constrained_solve(a, s, held, x["force"], x["acceleration"][: held.num_rows]))


def _inverse(a, s, x) -> list:
    """Forces for the acceleration of constrained forward dynamics, given its forces on the rows."""
    found = _forward(a, s, x)
    wanted = artix.constrained_inverse_dynamics(
        a, s, found.acceleration, constraints(a), constraint_force=found.constraint_force
    )
    return list(wanted)


def _contact(method: str):
    def forces(a, s, x):
        options = {"method": method, "iterations": CONTACT_ITERATIONS}
        return artix.contact_forces(a, s, x["force"], contacts(a), STEP, **options).force

    return forces


# --- Pinocchio ----------------------------------------------------------------------------------


def _oracle(r: Reference, *, loop: bool = True) -> ConstrainedOracle:
    held = constraints(r.articulation, loop=loop)
    return ConstrainedOracle(r.oracle, held.anchors, GAINS)


def _ran(r: Reference) -> ConstrainedOracle:
    """After constrained forward dynamics."""
    oracle = _oracle(r)
    oracle.forward_dynamics(r.inputs["force"])
    return oracle


def _pinocchio_derivatives(r: Reference) -> tuple:
    """Derivatives of accelerations and of forces on rows."""
    return _ran(r).forward_dynamics_derivatives(r.inputs["force"])


def _right_side(r: Reference) -> np.ndarray:
    """``primal_rhs_contact`` for nu: ``J nu' = J (T v' + b)``."""
    oracle = _ran(r)
    jacobian = oracle.row_derivatives(r.inputs["force"])[3]
    return oracle.data.primal_rhs_contact + jacobian @ r.oracle.twist_map_drift


def _kkt(r: Reference) -> list[np.ndarray]:
    """Solutions from the factors of the matrix of rows and DOFs."""
    oracle = _ran(r)
    rows = len(oracle.data.lambda_c)
    right = np.concatenate([r.inputs["acceleration"][:rows], r.map.T @ r.inputs["force"]])
    found = oracle.data.constraint_chol.solve(right)
    return [r.map @ found[rows:], -found[:rows]]


def _operational_space_inertia(r: Reference) -> np.ndarray:
    return np.asarray(_ran(r).data.constraint_chol.getOperationalSpaceInertiaMatrix())


def _contact_forces(r: Reference) -> np.ndarray:
    """Pinocchio's solver on Pinocchio's matrices; its basis of tangents differs from artix's."""
    touching, frames, jacobians = contacts(r.articulation), [], []
    for link, where, normal in zip(touching.links, touching.point, touching.normal, strict=True):
        joint = r.oracle.joint_of_link[link]
        tangents = np.linalg.svd(np.asarray(normal)[None])[2][1:]
        world = pin.getJointJacobian(r.model, r.data, joint, pin.WORLD)
        at = pin.SE3(np.eye(3), r.data.oMi[joint].act(np.asarray(where)))
        frames.append(np.concatenate([tangents, np.asarray(normal)[None]]))
        jacobians.append(frames[-1] @ (at.toActionMatrixInverse() @ world)[:3])
    jacobian = np.concatenate(jacobians)
    # A step is one of nu, whose root part is in world axes.
    acceleration = r.oracle.forward_dynamics(r.inputs["force"], np.zeros_like(r.inputs["wrenches"]))
    free = r.inverse_map @ (r.nu + STEP * acceleration)
    inverse = symmetric(r.ran(pin.computeMinverse, r.q).Minv)
    impulses = contact_impulses(jacobian @ inverse @ jacobian.T, jacobian @ free, FRICTION)
    return np.stack([f.T @ i for f, i in zip(frames, impulses.reshape(-1, 3), strict=True)]) / STEP


# --- the rows -----------------------------------------------------------------------------------

MODELS = [
    Row(
        "`RigidConstraintModel`, `CONTACT_3D`, `CONTACT_6D`, `initConstraintDynamics`",
        GETTER,
        "`Constraints.of(a, [Constraint(frame_a, frame_b, type=...), ...])`",
        "frames by name; `joint1` is a, `joint2` is b; `point` is 3-D, `weld` is 6-D; rows can be "
        "selected",
    ),
    Row(
        "`m_baumgarte_parameters`",
        GETTER,
        "`Constraint(..., position_gain=Kp, velocity_gain=Kd)`",
        "also for loops of welds; every row below uses them",
    ),
    Row(
        "`ProximalSettings`",
        GETTER,
        "`damping=`, `iterations=`",
        "a fixed number of iterations; check `residual`",
    ),
    Row(
        "`contact_placement_error`, `contact_velocity_error`",
        GETTER,
        f"{_KINEMATICS}`.error`, `.velocity`",
        "in the axes of the rows; Pinocchio's are always in those of frame a. Compared in "
        "`tests/constraints/test_anchors.py`, 1e-11",
    ),
    Row(
        "`dac_da`, `getConstraintsJacobian`, `getConstraintJacobian`",
        RESULT,
        "`constraint_jacobian(a, s, c)`",
        "`J T^-1`",
        lambda a, s, x: artix.constraint_jacobian(a, s, constraints(a)),
        lambda r: _ran(r).row_derivatives(r.inputs["force"])[3],
    ),
    Row(
        "`primal_rhs_contact`",
        TEMPORARY,
        "`constraint_bias(a, s, c)`",
        "opposite sign, because `J nu' + bias` vanishes; `-bias` is compared",
        lambda a, s, x: -artix.constraint_bias(a, s, constraints(a)),
        _right_side,
    ),
    Row(
        "`oa_drift`, `a_bias`",
        TEMPORARY,
        f"{_KINEMATICS}`.bias`",
        "for the constrained rows; for links use `frame_acceleration(a, s, 0)`",
    ),
]

DYNAMICS = [
    Row(
        "`lambda_c`, `constraintDynamics`",
        RESULT,
        f"{_FORWARD}`.constraint_force`, and `.acceleration` for `ddq`",
        "the forces on the rows are the same numbers",
        lambda a, s, x: list(_forward(a, s, x)[:2]),
        lambda r: list(_oracle(r).forward_dynamics(r.inputs["force"])),
    ),
    Row("`diff_lambda_c`", DEAD, f"{_FORWARD}`.residual`"),
    Row(
        "`contactABA`, `constrainedABA`, `pv`, `lcaba`, `proxLTLs`",
        GETTER,
        _FORWARD,
        "one method gives the same numbers",
    ),
    Row(
        "`lambda_c_prox`, `lambdaA`, `oa_augmented`, `oYaba_contact`, `oYaba_augmented`, "
        "`torque_residual`, `lA`",
        TEMPORARY,
        _FORWARD,
        "`lambdaA[0]` is `-lambda`, blocks in reverse tree order",
    ),
    Row(
        "`constraint_chol`, `contact_chol`, `primal_dual_contact_solution`, "
        "`computeKKTContactDynamicMatrixInverse`",
        RESULT,
        _SOLVE,
        "x, then lambda; Pinocchio has `-lambda`, then x. The factors are internal; solves with "
        "them are compared",
        _solved,
        _kkt,
    ),
    Row(
        "`contactInverseDynamics`, `computeInverseDynamicsConstraintForces`",
        GETTER,
        "`constrained_inverse_dynamics(a, s, acc, c)`",
        "for held frames, the smallest forces; with friction use "
        "`solve_contact(jnp.diag(compliance), reference, mu)`",
        _inverse,
        lambda r: [r.inputs["force"], _oracle(r).forward_dynamics(r.inputs["force"])[1]],
        check="Pinocchio's `constraintDynamics`",
    ),
]

DERIVATIVES = [
    Row(
        "`computeConstraintDynamicsDerivatives`",
        GETTER,
        f"{_DERIVATIVES}`.acceleration`",
        f"`ddq_dq`, `ddq_dv`, `ddq_dtau` under constraints; {_TANGENT}",
        lambda a, s, x: list(_derivatives(a, s, x).acceleration),
        lambda r: _pinocchio_derivatives(r)[0],
    ),
    Row(
        "`dlambda_dq`, `dlambda_dv`, `dlambda_dtau`",
        RESULT,
        f"{_DERIVATIVES}`.constraint_force`",
        _TANGENT,
        lambda a, s, x: list(_derivatives(a, s, x).constraint_force),
        lambda r: _pinocchio_derivatives(r)[1],
    ),
    Row("`dlambda_dx_prox`, `drhs_prox`", TEMPORARY, _DERIVATIVES),
    Row(
        "`dvc_dq`",
        RESULT,
        "`constraint_derivatives(a, s, acc, c).velocity_by_configuration`",
        _TANGENT,
        lambda a, s, x: _row_derivatives(a, s, x).velocity_by_configuration,
        lambda r: _ran(r).row_derivatives(r.inputs["force"])[0],
    ),
    Row(
        "`dac_dq`, `dac_dv`",
        RESULT,
        "`constraint_derivatives(a, s, acc, c).acceleration_by_configuration`, "
        "`.acceleration_by_velocity`",
        f"{_TANGENT}; Baumgarte's terms included",
        lambda a, s, x: list(_row_derivatives(a, s, x)[2:4]),
        lambda r: list(_ran(r).row_derivatives(r.inputs["force"])[1:3]),
    ),
]

IMPACTS = [
    Row(
        "`dq_after`, `impulse_c`, `impulseDynamics`",
        RESULT,
        "`impulse_dynamics(a, s, c, restitution)`",
        "frame b may move; Pinocchio ignores its velocity",
        lambda a, s, x: list(_impact(a, s, x)),
        lambda r: list(_oracle(r, loop=False).impact(RESTITUTION)),
    ),
    Row(
        "`computeImpulseDynamicsDerivatives`",
        GETTER,
        "`impulse_dynamics_derivatives(a, s, c, restitution)`",
        "`velocity_by_velocity` is `ddq_dv` plus the identity",
        lambda a, s, x: list(_impact_derivatives(a, s, x)),
        lambda r: _oracle(r, loop=False).impact_derivatives(RESTITUTION),
    ),
]

DELASSUS = [
    Row(
        "`computeDelassusMatrix`, `computePvDelassusMatrix`, `DelassusOperatorDense`, "
        "`DelassusCholeskyExpression`",
        GETTER,
        _DELASSUS,
        "an array; `computeDelassusMatrix` of pin 4.1 treats all rows as `LOCAL`, so the inverse "
        "of `osim` is compared",
        lambda a, s, x: artix.delassus_matrix(a, s, constraints(a)),
        lambda r: _ran(r).delassus(),
    ),
    Row(
        "`osim`",
        RESULT,
        _INERTIA,
        "",
        lambda a, s, x: artix.operational_space_inertia(a, s, constraints(a)),
        _operational_space_inertia,
    ),
    Row(
        "`computeDampedDelassusMatrixInverse`",
        GETTER,
        f"{_INERTIA[:-2]}, damping=mu)`",
        "pin 4.1 returns `1 / mu`",
    ),
    Row("`osim_llt`, `llt_JMinvJt`", TEMPORARY, _INERTIA),
    Row(
        "`JMinvJt`, `sDUiJt`, `KA`, `LA`, `KAS`, `oK`, `oL`, `spatial_inv_inertia`",
        TEMPORARY,
        _DELASSUS,
    ),
    Row("`extended_motion_propagator`, `extended_motion_propagator2`", TEMPORARY, _DELASSUS),
    Row(
        "`par_cons_ind`, `constraints_supported_dim`, `accumulation_descendant`, "
        "`accumulation_ancestor`, `accumulation_joints`, `joints_supporting_constraints`, "
        "`constraints_supported`, `constraints_on_joint`",
        INDEX,
        "`topology.dof_moves_body`",
        "a mask of which DOF moves which link replaces the indices of sparse sweeps",
    ),
    Row(
        "`joints_augmented`, `joint_neighbours`, `joint_cross_coupling`, "
        "`projected_joint_cross_coupling`, `joint_coupling_info`, `joint_elimination_order`, "
        "`joint_apparent_inertia`",
        TEMPORARY,
        _FORWARD,
        "working memory of `lcaba`",
    ),
    Row("`constraint_ind`", DEAD, "-"),
]

CONTACT = [
    Row(
        "`ADMMConstraintSolver`, `PointContactConstraintModel`",
        GETTER,
        '`contact_forces(a, s, force, contacts, dt)`, `solve_contact(G, g, mu, method="admm")`',
        "a fixed number of iterations; normals in world axes",
        _contact("admm"),
        _contact_forces,
    ),
    Row(
        "`PGSConstraintSolver`",
        GETTER,
        '`solve_contact(G, g, mu, method="pgs")`',
        "a fixed number of iterations; compared with Pinocchio's ADMM, because its PGS does not "
        "converge on one of these problems",
        _contact("pgs"),
        _contact_forces,
    ),
    Row(
        "`CoulombFrictionCone`, `DualCoulombFrictionCone`",
        GETTER,
        "`solve_contact`",
        "projections are internal; those in the bindings of pin 4.1 are broken",
    ),
    Row(
        "`FrameAnchorConstraintModel`, `PointAnchorConstraintModel`",
        GETTER,
        '`Constraint(type="weld")`, `"point"`',
    ),
    Row(
        "`JointLimitConstraintModel`, `FrictionalJointConstraintModel`, `BoxSet`",
        GETTER,
        "`step(a, s, control, dt)`",
        "joint limits and friction act in a step",
    ),
]

SECTIONS = {
    "Constraints": MODELS,
    "Constrained dynamics": DYNAMICS,
    "Derivatives of constrained dynamics": DERIVATIVES,
    "Impacts": IMPACTS,
    "Delassus matrix": DELASSUS,
    "Frictional contact": CONTACT,
}
