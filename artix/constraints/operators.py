"""Constraints at a state: Jacobian, bias, Delassus matrix, operational-space inertia."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.constraints.frame_pairs import AnchorRows, FramePairs, anchor_rows, solved_anchor_rows
from artix.constraints.kkt import DEFAULT_ITERATIONS, KktSolution, factorize_kkt, kkt_solve
from artix.constraints.model import Constraints, check_coefficient, check_proximal
from artix.dynamics.factorization import factorize_dense, half_solve, solve_columns
from artix.dynamics.forward import factorize, linear_solve
from artix.kinematics.forward import kinematics
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array


@quantity
def constraint_kinematics(articulation: Articulation, state: State, constraints: Constraints) -> AnchorRows:
    """Errors, velocities, Jacobian and drift of constraints, of frames a relative to frames b.

    Args:
      constraints: R rows.

    Returns:
      ``error`` [R], Pinocchio's ``contact_placement_error`` (``-log6`` of the placement of b in a for welds) in the
      axes of the rows; ``velocity`` [R], its ``contact_velocity_error``; ``jacobian`` [R, nv]; ``bias`` [R], the drift:
      the acceleration of the rows at zero generalised acceleration.

    Identity: ``velocity == jacobian @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> goal = (0.1, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", pose_b=goal)])
      >>> rows = artix.constraints.constraint_kinematics(pendulum, artix.neutral_state(pendulum), constraints)
      >>> print(rows.error)  # the elbow is 0.1 m short of its target
      [-0.1  0.   0. ]
    """
    return anchor_rows(articulation, state, constraints.anchors)


@quantity
def constraint_jacobian(articulation: Articulation, state: State, constraints: Constraints) -> Array:
    """The Jacobian of constraints, Pinocchio's ``getConstraintsJacobian`` and ``dac_da``.

    Args:
      constraints: R rows.

    Returns:
      Shape [R, nv] [m or 1]; a force lambda on the rows amounts to the generalised force ``J^T lambda``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", axes="world_aligned")])
      >>> print(artix.constraints.constraint_jacobian(pendulum, artix.neutral_state(pendulum), constraints))
      [[-1.  0.]
       [ 0.  0.]
       [ 0.  0.]]
    """
    return anchor_rows(articulation, state, constraints.anchors).jacobian


@quantity
def constraint_bias(articulation: Articulation, state: State, constraints: Constraints) -> Array:
    """The bias of ``J nu' + bias == 0``, Pinocchio's ``-primal_rhs_contact``.

    It is the drift plus Baumgarte's terms ``position_gain error + velocity_gain velocity``, minus the desired
    acceleration.

    Args:
      constraints: R rows.

    Returns:
      Shape [R] [m/s^2 and rad/s^2]; constrained accelerations satisfy ``J nu' + bias == 0``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", axes="world_aligned")])
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(artix.constraints.constraint_bias(pendulum, turning, constraints))  # (2 rad/s)^2 1 m, up
      [0. 0. 4.]
    """
    rows = anchor_rows(articulation, state, constraints.anchors)
    return stabilized_bias(constraints, rows.error, rows.velocity, rows.bias)


def stabilized_bias(constraints: Constraints, error: Array, velocity: Array, acceleration: Array) -> Array:
    """An acceleration [R] of the rows plus Baumgarte's terms, minus the desired acceleration."""
    pairs = len(constraints.anchors.structure)
    rows = constraints.num_rows
    of_pairs = ("position_gain", pairs, "one per constraint"), ("velocity_gain", pairs, "one per constraint")
    for name, length, meaning in (*of_pairs, ("desired_acceleration", rows, "R rows")):
        check_vector(f"constraints.{name}", getattr(constraints, name), (length,), acceleration.dtype, meaning)
    gains = [
        jnp.stack([gain[k] for k in constraints.anchors.row_anchor])
        for gain in (constraints.position_gain, constraints.velocity_gain)
    ]
    return acceleration + gains[0] * error + gains[1] * velocity - constraints.desired_acceleration


@quantity
def delassus_matrix(
    articulation: Articulation, state: State, constraints: Constraints, *, damping: float | Array = 0.0
) -> Array:
    """The Delassus matrix ``G = J M^-1 J^T``, M with armature; Pinocchio's ``computeDelassusMatrix``.

    Args:
      constraints: R rows.
      damping: added to the diagonal, shape [] or [R].

    Returns:
      The acceleration of the rows per unit force on each [1/kg for linear rows], shape [R, R]; symmetric, and positive
      definite if the rows are independent.

    Raises:
      ValueError: ``damping`` is negative.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> print(artix.constraints.delassus_matrix(pendulum, artix.neutral_state(pendulum), constraints))  # [1/kg]
      [[3.424]]
    """
    check_coefficient("damping", damping, constraints.num_rows)
    matrix = _delassus_matrix_with_jvp(articulation, state, constraints.anchors)
    return matrix + jnp.asarray(damping, matrix.dtype) * jnp.eye(len(matrix), dtype=matrix.dtype)


@jax.custom_jvp
def _delassus_matrix_with_jvp(articulation: Articulation, state: State, anchors: FramePairs) -> Array:
    kin = kinematics(articulation, state)
    jacobian = solved_anchor_rows(articulation, state, kin, anchors).jacobian
    half = half_solve(factorize(articulation, kin, many=True), jacobian)
    return matmul(half, half.T)


@_delassus_matrix_with_jvp.defjvp
def _delassus_matrix_jvp(primals, tangents):
    """Differentiates ``J M^-1 J^T`` through implicit solves; the factors of the value are constants."""

    def plain(articulation: Articulation, state: State, anchors: FramePairs) -> Array:
        kin = kinematics(articulation, state)
        jacobian = solved_anchor_rows(articulation, state, kin, anchors).jacobian
        factors = factorize(articulation, kin, many=True)
        responses = jax.vmap(lambda row: linear_solve(articulation, kin, factors, row))(jacobian)
        return matmul(jacobian, responses.T)

    matrix, change = jax.jvp(plain, primals, tangents)
    return matrix, 0.5 * (change + change.T)


@quantity
def operational_space_inertia(
    articulation: Articulation, state: State, constraints: Constraints, *, damping: float | Array = 0.0
) -> Array:
    """The inverse of :func:`delassus_matrix`, Pinocchio's ``getOperationalSpaceInertiaMatrix`` (Khatib 1987).

    Args:
      constraints: R rows, independent unless there is damping.
      damping: added to the diagonal of the Delassus matrix, shape [] or [R].

    Returns:
      Shape [R, R]: the force on each row required for a unit acceleration of the rows [kg for linear rows].

    Raises:
      ValueError: ``damping`` is negative.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> state = artix.neutral_state(pendulum)
      >>> print(artix.constraints.operational_space_inertia(pendulum, state, constraints))  # felt at the tip [kg]
      [[0.292]]
    """
    return _inverse(delassus_matrix(articulation, state, constraints, damping=damping))


def _inverse(matrix: Array) -> Array:
    factors = jax.lax.stop_gradient(factorize_dense(matrix, jnp.zeros_like(matrix[0])))
    columns = jax.lax.custom_linear_solve(
        lambda x: matmul(matrix, x),
        jnp.eye(len(matrix), dtype=matrix.dtype),
        solve=lambda _, right: solve_columns(factors, right),
        symmetric=True,
    )
    return 0.5 * (columns + columns.T)


@quantity
def constrained_solve(
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    force: Array,
    target: Array,
    *,
    damping: float | Array | None = None,
    iterations: int = DEFAULT_ITERATIONS,
) -> KktSolution:
    """Solves ``M x = force + J^T lambda`` under ``J x = target``, as Pinocchio's ``constraint_chol.solve``.

    Args:
      constraints: R rows.
      force: a generalised force or momentum, shape [nv].
      target: the value of ``J x``, shape [R].
      damping: damping of the proximal iterations, see :func:`constrained_forward_dynamics`.
      iterations: number of proximal iterations, at least 1.

    Returns:
      x, shape [nv], and lambda, shape [R]; Pinocchio's solution holds ``-lambda``, then x.

    Raises:
      ValueError: ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])  # the elbow's x
      >>> state = artix.neutral_state(pendulum)
      >>> solved = artix.constraints.constrained_solve(pendulum, state, constraints, jnp.ones(2), jnp.zeros(1))
      >>> print(solved.solution)  # the shoulder stays
      [0.    2.998]
    """
    check_vector("force", force, (articulation.topology.nv,), articulation.dtype, "nv")
    check_vector("target", target, (constraints.num_rows,), articulation.dtype, "R rows")
    check_proximal(damping, iterations, constraints.num_rows)
    kin = kinematics(articulation, state)
    jacobian = solved_anchor_rows(articulation, state, kin, constraints.anchors).jacobian
    factors = factorize_kkt(articulation, kin, jacobian, constraints.anchors.is_angular, damping)
    return kkt_solve(articulation, kin, jacobian, factors, force, target, iterations)
