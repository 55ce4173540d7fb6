"""Forward dynamics, inverse dynamics and impacts under constraints."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.constraints.frame_pairs import anchor_jacobian, anchor_sides, relative_motion
from artix.constraints.model import (
    Constraints,
    check_coefficient,
    check_constraints,
    check_proximal,
)
from artix.constraints.operators import (
    DEFAULT_ITERATIONS,
    factorize_kkt,
    kkt_solve,
    kkt_solve_value,
    stabilized_bias,
)
from artix.dynamics.factorization import factorize_dense, solve
from artix.dynamics.inverse import inverse_dynamics
from artix.dynamics.newton_euler import (
    equation_of_motion_change,
    generalized_forces,
    newton_euler,
)
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.forward import kinematics
from artix.math.arrays import matmul
from artix.math.tangents import add, directional_derivative, is_zero
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector

Array = jax.Array


class ConstrainedAcceleration(NamedTuple):
    """The result of constrained forward dynamics.

    Attributes:
      acceleration: generalised acceleration, [nv] [m/s^2 or rad/s^2].
      constraint_force: forces lambda on the rows, [R] [N and N m], Pinocchio's ``lambda_c``.
      residual: largest absolute entry of ``J nu' + bias``, the remaining error of the rows, [];
        Pinocchio's ``absolute_residual``. Its derivative is defined as zero.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> state = artix.neutral_state(pendulum)
      >>> result = artix.constrained_forward_dynamics(pendulum, state, jnp.zeros(2), constraints)
      >>> print(result.acceleration.shape, result.constraint_force.shape, result.residual < 1e-4)
      (2,) (1,) True
    """

    acceleration: Array
    constraint_force: Array
    residual: Array


class Impact(NamedTuple):
    """The result of an impact.

    Attributes:
      velocity: generalised velocity after the impact, [nv] [m/s or rad/s], Pinocchio's
        ``dq_after``.
      impulse: impulses on the rows, [R] [N s and N m s], Pinocchio's ``impulse_c``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> impact = artix.impulse_dynamics(pendulum, swinging, constraints)
      >>> print(impact.velocity, impact.impulse)
      [ 1.499 -2.998] [0.584]
    """

    velocity: Array
    impulse: Array


@quantity
def constrained_forward_dynamics(
    articulation: Articulation,
    state: State,
    force: Array,
    constraints: Constraints,
    external_force: Array | None = None,
    *,
    damping: float | Array | None = None,
    iterations: int = DEFAULT_ITERATIONS,
) -> ConstrainedAcceleration:
    """Acceleration and constraint forces of
    ``(M + armature) nu' + bias_force = force + J^T lambda`` under constraints.

    The constraints hold at the acceleration level, ``J nu' + constraint_bias == 0``. Pinocchio's
    ``constraintDynamics``: Carpentier, Budhiraja and Mansard, *Proximal and sparse resolution of
    constrained dynamic equations*, RSS 2021.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      constraints: R rows.
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in
        world axes, shape [L, 6].
      damping: damping of the proximal iterations, Pinocchio's ``mu``, shape [] or [R]; by default a
        small multiple of the mean diagonal of the Delassus matrix, for linear and for angular rows.
        With zero damping one iteration is exact, but redundant rows yield NaN.
      iterations: number of proximal iterations, at least 1; convergence is not tested, see
        ``residual``.

    Returns:
      Acceleration, constraint forces and residual.

    Raises:
      ValueError: ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: ``iterations`` is traced.

    Derivatives are implicit: they differentiate the equations that hold at convergence. Redundant
    rows have no unique forces. The smallest are returned, torques being weighed against forces as
    the damping does, and their derivatives are the smallest that satisfy the differentiated
    equations. ``J^T lambda`` and the acceleration have unique derivatives as long as the
    constraints remain compatible.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> # the height of the tip
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[2], axes="world_aligned")
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> held = artix.constrained_forward_dynamics(pendulum, level, jnp.zeros(2), constraints)
      >>> print(held.acceleration, held.constraint_force)  # the tip carries part of the 19.62 N
      [-14.705  29.41 ] [2.457]
    """
    check_constraints(constraints)
    tree = articulation.topology
    check_state(articulation, state)
    check_vector("force", force, (tree.nv,), articulation.dtype, "nv")
    check_proximal(damping, iterations, constraints.num_rows)
    return _constrained_forward_dynamics(
        iterations, articulation, state, force, constraints, external_force, damping
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _constrained_forward_dynamics(
    iterations, articulation, state, force, constraints, external_force, damping
) -> ConstrainedAcceleration:
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, None, external_force, gravity=True)
    rest = force - generalized_forces(articulation.topology, rnea.motions, rnea.force)
    sides = anchor_sides(articulation, state, kin, constraints.anchors)
    jacobian = anchor_jacobian(articulation, kin, constraints.anchors, *sides)
    bias = stabilized_bias(constraints, *relative_motion(constraints.anchors, *sides))
    factors = factorize_kkt(articulation, kin, jacobian, constraints.anchors.is_angular, damping)
    acceleration, constraint_force = kkt_solve_value(factors, rest, -bias, iterations)
    residual = jnp.max(jnp.abs(matmul(jacobian, acceleration) + bias))
    return ConstrainedAcceleration(acceleration, constraint_force, residual)


@functools.partial(_constrained_forward_dynamics.defjvp, symbolic_zeros=True)
def _constrained_forward_dynamics_jvp(iterations, primals, tangents):
    """Differentiates ``inverse_dynamics(nu') == force + J^T lambda`` and ``J nu' + bias == 0``."""
    articulation, state, _, constraints, external_force, damping = primals
    d_articulation, d_state, d_force, d_constraints, d_external_force, _ = tangents
    result = _constrained_forward_dynamics(iterations, *primals)
    acceleration, constraint_force, _ = result
    kin = kinematics(articulation, state)
    required = equation_of_motion_change(
        kin,
        (articulation, state, acceleration, external_force),
        (d_articulation, d_state, None, d_external_force),
    )

    def rows_of(inputs) -> Array:
        return _forces_and_rows(inputs[0], inputs[1], inputs[2], acceleration, constraint_force)

    rows = directional_derivative(
        rows_of, (articulation, state, constraints), (d_articulation, d_state, d_constraints)
    )
    sides = anchor_sides(articulation, state, kin, constraints.anchors)
    jacobian = anchor_jacobian(articulation, kin, constraints.anchors, *sides)
    change = add(None if is_zero(d_force) else d_force, None if required is None else -required)
    target = jnp.zeros_like(constraint_force)
    if rows is not None:
        nv = articulation.topology.nv
        change = add(change, rows[:nv])
        target = -rows[nv:]
    if change is None:
        return result, jax.tree.map(jnp.zeros_like, result)
    factors = factorize_kkt(articulation, kin, jacobian, constraints.anchors.is_angular, damping)
    x, multipliers = kkt_solve(articulation, kin, jacobian, factors, change, target, iterations)
    return result, ConstrainedAcceleration(x, multipliers, jnp.zeros_like(result.residual))


def _forces_and_rows(
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    acceleration: Array,
    constraint_force: Array,
) -> Array:
    """``J^T lambda`` and the acceleration of the rows, [nv + R]."""
    kin = kinematics(articulation, state)
    sides = anchor_sides(articulation, state, kin, constraints.anchors, acceleration)
    rows = stabilized_bias(constraints, *relative_motion(constraints.anchors, *sides))
    jacobian = anchor_jacobian(articulation, kin, constraints.anchors, *sides)
    return jnp.concatenate([matmul(constraint_force, jacobian), rows])


@quantity
def impulse_dynamics(
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    restitution: float | Array = 0.0,
    *,
    damping: float | Array | None = None,
    iterations: int = DEFAULT_ITERATIONS,
) -> Impact:
    """Velocity after an impact that makes constraints hold: ``J nu_after == -restitution J nu``.

    Pinocchio's ``impulseDynamics``: ``M (nu_after - nu) = J^T impulse``, M with armature.
    Baumgarte's gains are not used.

    Args:
      state: its configuration and the velocity before the impact.
      constraints: R rows.
      restitution: coefficient of restitution, between 0 and 1, shape [].
      damping: damping of the proximal iterations, see :func:`constrained_forward_dynamics`.
      iterations: number of proximal iterations, at least 1.

    Returns:
      The velocity after the impact [m/s, rad/s] and the impulses [N s, N m s].

    Raises:
      ValueError: ``iterations`` is less than 1, a coefficient is negative, or ``restitution`` is
        greater than 1.
      TypeError: ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> impact = artix.impulse_dynamics(pendulum, swinging, constraints)
      >>> jacobian = artix.constraints.constraint_jacobian(pendulum, swinging, constraints)
      >>> # stopped
      >>> print(jacobian @ swinging.joint_velocity, jnp.abs(jacobian @ impact.velocity) < 1e-4)
      [-2.] [ True]
    """
    check_constraints(constraints)
    check_state(articulation, state)
    check_proximal(damping, iterations, constraints.num_rows)
    check_coefficient("restitution", restitution, None, most=1.0)
    kin = kinematics(articulation, state)
    anchors = constraints.anchors
    jacobian = anchor_jacobian(
        articulation, kin, anchors, *anchor_sides(articulation, state, kin, anchors)
    )
    velocity = generalized_velocity(articulation, state)
    target = -(1 + jnp.asarray(restitution, articulation.dtype)) * matmul(jacobian, velocity)
    factors = factorize_kkt(articulation, kin, jacobian, constraints.anchors.is_angular, damping)
    x, impulse = kkt_solve(
        articulation, kin, jacobian, factors, jnp.zeros_like(velocity), target, iterations
    )
    return Impact(velocity + x, impulse)


class ConstrainedForces(NamedTuple):
    """The result of constrained inverse dynamics.

    Attributes:
      force: generalised forces, [nv] [N or N m]; the root's entries are zero if constraint forces
        can carry the articulation.
      constraint_force: forces on the rows, [R] [N or N m].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> state = artix.neutral_state(pendulum)
      >>> result = artix.constraints.constrained_inverse_dynamics(
      ...     pendulum, state, jnp.zeros(2), constraints
      ... )
      >>> print(result.force, result.constraint_force)
      [0. 0.] [0.]
    """

    force: Array
    constraint_force: Array


@quantity
def constrained_inverse_dynamics(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    constraints: Constraints,
    external_force: Array | None = None,
    *,
    constraint_force: Array | None = None,
    damping: float | Array = 0.0,
) -> ConstrainedForces:
    """Forces ``inverse_dynamics(acceleration) - J^T lambda`` that cause an acceleration together
    with constraints.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2]; it should satisfy the
        constraints.
      constraints: R rows.
      external_force: wrenches on the links, as in :func:`artix.inverse_dynamics`, shape [L, 6].
      constraint_force: forces lambda on the rows, shape [R] [N or N m]. When ``None``, the smallest
        that carry a floating base, so that its six entries of the force vanish (Righetti et al.,
        *Optimal distribution of contact forces with inverse-dynamics control*, IJRR 2013); zero for
        a fixed base.
      damping: added to the diagonal of the 6 x 6 matrix of this choice, shape [] or [6]; needed
        where the constraints cannot resist every wrench, as with point contacts in a line.

    Returns:
      The generalised forces and the forces on the rows.

    Raises:
      ValueError: ``damping`` is negative.

    Identity: ``constrained_forward_dynamics`` of the forces returns the acceleration, if it
    satisfies the constraints.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> feet = [link for link in robot.topology.link_names if link.endswith("foot")]
      >>> constraints = artix.Constraints.of(
      ...     robot, [artix.Constraint(frame_a=foot) for foot in feet]
      ... )
      >>> state = artix.neutral_state(robot)
      >>> standing = artix.constraints.constrained_inverse_dynamics(
      ...     robot, state, jnp.zeros(18), constraints
      ... )
      >>> print(jnp.abs(standing.force[:6]).max() < 1e-3)  # nothing pushes the trunk but its legs
      True
      >>> # the feet carry all of it [kg]
      >>> print(standing.constraint_force.reshape(4, 3)[:, 2].sum() / 9.81)
      14.24
    """
    check_constraints(constraints)
    check_coefficient("damping", damping, 6)
    if constraint_force is not None:
        check_vector(
            "constraint_force",
            constraint_force,
            (constraints.num_rows,),
            articulation.dtype,
            "R rows",
        )
    force = inverse_dynamics(articulation, state, acceleration, external_force)
    kin = kinematics(articulation, state)
    anchors = constraints.anchors
    jacobian = anchor_jacobian(
        articulation, kin, anchors, *anchor_sides(articulation, state, kin, anchors)
    )
    if constraint_force is None:
        constraint_force = _supporting_forces(articulation, jacobian, force, damping)
    return ConstrainedForces(force - matmul(constraint_force, jacobian), constraint_force)


def _supporting_forces(
    articulation: Articulation, jacobian: Array, force: Array, damping: float | Array
) -> Array:
    """The smallest forces on the rows that support a floating base, [R]."""
    base = articulation.topology.num_base_dofs
    if not base:
        return jnp.zeros(len(jacobian), force.dtype)
    root = jacobian[:, :base]
    added = jnp.broadcast_to(jnp.asarray(damping, force.dtype), (base,))
    return matmul(root, solve(factorize_dense(matmul(root.T, root), added), force[:base]))
