"""Constraints at a state: Jacobian, bias, Delassus matrix, operational-space inertia, and the KKT
system of constrained dynamics, ``M x = force + J^T lambda`` under ``J x = target``.

It is solved by the Schur complement: M is factorised with its sparsity, then the Delassus matrix
``G = J M^-1 J^T``. Where rows are redundant or contradictory, G is singular; the proximal iteration
``(G + mu) lambda_k = rest + mu lambda_{k-1}`` from ``lambda_0 = 0`` then converges to the smallest
forces that satisfy the rows as well as possible. Without redundancy, each iteration multiplies the
error by at most ``mu / (mu + smallest eigenvalue of G)``.

The default damping is relative to G's diagonal, separately for linear and angular rows because
their units differ: in SI units, a hand's angular rows have entries a thousand times as large as its
linear rows, so that a damping relative to the mean of all would drown the linear ones.

Carpentier, Budhiraja and Mansard, *Proximal and sparse resolution of constrained dynamic
equations*, RSS 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.constraints.frame_pairs import AnchorRows, FramePairs, anchor_rows, solved_anchor_rows
from artix.constraints.model import (
    Constraints,
    check_coefficient,
    check_constraints,
    check_proximal,
)
from artix.dynamics.factorization import (
    Factors,
    factorize_dense,
    finish_solve,
    half_solve,
    solve_columns,
)
from artix.dynamics.forward import factorize, linear_solve
from artix.dynamics.mass_matrix import generalized_armature, inertia_matrix
from artix.kinematics.forward import Kinematics, kinematics
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector

Array = jax.Array
DEFAULT_ITERATIONS = 6
#: The default damping over the mean of G's diagonal, in square roots of the dtype's precision. More
#: of it leaves errors in accelerations where rows are nearly dependent, less gives noise in the
#: forces on redundant rows. In float32 with four iterations, 1, 1/4 and 1/16: accelerations of an
#: arm with a welded tool err by up to 2e-2, 4e-4 and 1e-5 in 8 random states, and forces on two
#: welds in one place by 1e-3, 4e-3 and 1e-2.
_DAMPING = 0.25
#: Linear or angular rows cannot move if their mean is less than this many units of precision of the
#: mean of all rows.
_IMMOBILE = 100


class KktFactors(NamedTuple):
    """Factors for any number of solves with one configuration and one set of constraints."""

    mass: Factors
    half: Array
    """``J U^-T D^-1/2``, [R, nv]."""
    delassus: Array
    """G without damping, [R, R]."""
    damped: Factors
    """Factors of G with damping."""


class KktSolution(NamedTuple):
    """The solution of a KKT system.

    Attributes:
      solution: x, [nv].
      multipliers: lambda, [R].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )
      >>> state = artix.neutral_state(pendulum)
      >>> solved = artix.constraints.constrained_solve(
      ...     pendulum, state, constraints, jnp.ones(2), jnp.zeros(1)
      ... )
      >>> print(solved.solution.shape, solved.multipliers.shape)
      (2,) (1,)
    """

    solution: Array
    multipliers: Array


def factorize_kkt(
    articulation: Articulation,
    kin: Kinematics,
    jacobian: Array,
    is_angular: np.ndarray,
    damping: float | Array | None,
) -> KktFactors:
    """Factorises M and the Delassus matrix of rows that are angular or linear."""
    jacobian = jax.lax.stop_gradient(jacobian)
    mass = factorize(articulation, kin, many=True)
    half = half_solve(mass, jacobian)
    delassus = matmul(half, half.T)
    damped = factorize_damped(delassus, is_angular, damping)
    return jax.lax.stop_gradient(KktFactors(mass, half, delassus, damped))


def kkt_solve_value(
    factors: KktFactors, force: Array, target: Array, iterations: int
) -> KktSolution:
    """One solve; not differentiable."""
    half = half_solve(factors.mass, force[None])[0]
    multipliers = proximal_iterations(
        factors.delassus, factors.damped, target - matmul(factors.half, half), iterations
    )
    return KktSolution(
        finish_solve(factors.mass, half + matmul(multipliers, factors.half)), multipliers
    )


def proximal_iterations(delassus: Array, damped: Factors, rest: Array, iterations: int) -> Array:
    """Forces on the rows that satisfy ``G lambda = rest``, for right-hand sides [R] or [R, m]."""
    columns = rest.reshape(len(rest), -1)
    multipliers = solve_columns(damped, columns)
    for _ in range(iterations - 1):
        # Written this way the correction is small, and so is its rounding error.
        multipliers = multipliers + solve_columns(damped, columns - matmul(delassus, multipliers))
    return multipliers.reshape(rest.shape)


def factorize_damped(
    delassus: Array, is_angular: np.ndarray, damping: float | Array | None
) -> Factors:
    """Factors of ``G + mu``, by default with :func:`default_damping`."""
    if damping is None:
        damping = default_damping(delassus, is_angular)
    damping = jax.lax.stop_gradient(jnp.asarray(damping, delassus.dtype))
    return factorize_dense(delassus, jnp.broadcast_to(damping, (len(delassus),)))


def default_damping(delassus: Array, is_angular: np.ndarray) -> Array:
    """A small multiple of the mean of G's diagonal over the linear rows and over the angular rows,
    [R].
    """
    eps = float(jnp.finfo(delassus.dtype).eps)
    diagonal = jnp.diagonal(delassus)
    mean = jnp.mean(diagonal)
    mean = jnp.where(mean > 0, mean, 1)  # No row can move, as between a fixed base and the world.

    def scale(rows: np.ndarray) -> Array:
        if not rows.any():
            return mean
        of_rows = jnp.mean(diagonal[rows])
        # With a damping of their own, rows that cannot move would turn rounding errors of their
        # targets into forces.
        return jnp.where(of_rows > _IMMOBILE * eps * mean, of_rows, mean)

    return _DAMPING * eps**0.5 * jnp.where(is_angular, scale(is_angular), scale(~is_angular))


def kkt_solve(
    articulation: Articulation,
    kin: Kinematics,
    jacobian: Array,
    factors: KktFactors,
    force: Array,
    target: Array,
    iterations: int,
) -> KktSolution:
    """One solve, differentiable to any order.

    Its derivative is the solution of the differentiated equations by the same proximal iteration,
    as if it had converged.
    """
    # Only derivatives use the matrix itself; elsewhere it is dead code.
    matrix = inertia_matrix(articulation, kin) + jnp.diag(generalized_armature(articulation))

    def equations(unknown: KktSolution) -> KktSolution:
        x, negative = unknown
        return KktSolution(matmul(matrix, x) + matmul(negative, jacobian), matmul(jacobian, x))

    def solve(_, right: tuple[Array, Array]) -> KktSolution:
        x, multipliers = kkt_solve_value(factors, *right, iterations)
        return KktSolution(x, -multipliers)

    # In reverse mode, JAX requires both right-hand sides to depend on the differentiated inputs,
    # even constant ones.
    zero = 0 * (jnp.sum(force) + jnp.sum(target))
    force, target = force + zero, target + zero
    # Symmetric in x and the negated multipliers.
    x, negative = jax.lax.custom_linear_solve(
        equations, KktSolution(force, target), solve, symmetric=True
    )
    return KktSolution(x, -negative)


# --- constraints at a state ---------------------------------------------------------------------


@quantity
def constraint_kinematics(
    articulation: Articulation, state: State, constraints: Constraints
) -> AnchorRows:
    """Errors, velocities, Jacobian and drift of constraints, of frames a relative to frames b.

    Args:
      constraints: R rows.

    Returns:
      ``error`` [R], Pinocchio's ``contact_placement_error`` (``-log6`` of the placement of b in a
      for welds) in the axes of the rows; ``velocity`` [R], its ``contact_velocity_error``;
      ``jacobian`` [R, nv]; ``bias`` [R], the drift: the acceleration of the rows at zero
      generalised acceleration.

    Identity: ``velocity == jacobian @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> goal = (0.1, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", pose_b=goal)]
      ... )
      >>> rows = artix.constraints.constraint_kinematics(
      ...     pendulum, artix.neutral_state(pendulum), constraints
      ... )
      >>> print(rows.error)  # the elbow is 0.1 m short of its target
      [-0.1  0.   0. ]
    """
    check_constraints(constraints)
    return anchor_rows(articulation, state, constraints.anchors)


@quantity
def constraint_jacobian(
    articulation: Articulation, state: State, constraints: Constraints
) -> Array:
    """The Jacobian of constraints, Pinocchio's ``getConstraintsJacobian`` and ``dac_da``.

    Args:
      constraints: R rows.

    Returns:
      Shape [R, nv] [m or 1]; a force lambda on the rows amounts to the generalised force
      ``J^T lambda``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", axes="world_aligned")]
      ... )
      >>> print(
      ...     artix.constraints.constraint_jacobian(
      ...         pendulum, artix.neutral_state(pendulum), constraints
      ...     )
      ... )
      [[-1.  0.]
       [ 0.  0.]
       [ 0.  0.]]
    """
    check_constraints(constraints)
    return anchor_rows(articulation, state, constraints.anchors).jacobian


@quantity
def constraint_bias(articulation: Articulation, state: State, constraints: Constraints) -> Array:
    """The bias of ``J nu' + bias == 0``, Pinocchio's ``-primal_rhs_contact``.

    It is the drift plus Baumgarte's terms ``position_gain error + velocity_gain velocity``, minus
    the desired acceleration.

    Args:
      constraints: R rows.

    Returns:
      Shape [R] [m/s^2 and rad/s^2]; constrained accelerations satisfy ``J nu' + bias == 0``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", axes="world_aligned")]
      ... )
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> # (2 rad/s)^2 1 m, up
      >>> print(artix.constraints.constraint_bias(pendulum, turning, constraints))
      [0. 0. 4.]
    """
    check_constraints(constraints)
    rows = anchor_rows(articulation, state, constraints.anchors)
    return stabilized_bias(constraints, rows.error, rows.velocity, rows.bias)


def stabilized_bias(
    constraints: Constraints, error: Array, velocity: Array, acceleration: Array
) -> Array:
    """An acceleration [R] of the rows plus Baumgarte's terms, minus the desired acceleration."""
    pairs = len(constraints.anchors.structure)
    rows = constraints.num_rows
    of_pairs = (
        ("position_gain", pairs, "one per constraint"),
        ("velocity_gain", pairs, "one per constraint"),
    )
    for name, length, meaning in (*of_pairs, ("desired_acceleration", rows, "R rows")):
        check_vector(
            f"constraints.{name}",
            getattr(constraints, name),
            (length,),
            acceleration.dtype,
            meaning,
        )
    gains = [
        jnp.stack([gain[k] for k in constraints.anchors.row_anchor])
        for gain in (constraints.position_gain, constraints.velocity_gain)
    ]
    return acceleration + gains[0] * error + gains[1] * velocity - constraints.desired_acceleration


@quantity
def delassus_matrix(
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    *,
    damping: float | Array = 0.0,
) -> Array:
    """The Delassus matrix ``G = J M^-1 J^T``, M with armature; Pinocchio's
    ``computeDelassusMatrix``.

    Args:
      constraints: R rows.
      damping: added to the diagonal, shape [] or [R].

    Returns:
      The acceleration of the rows per unit force on each [1/kg for linear rows], shape [R, R];
      symmetric, and positive definite if the rows are independent.

    Raises:
      ValueError: ``damping`` is negative.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> print(
      ...     artix.constraints.delassus_matrix(
      ...         pendulum, artix.neutral_state(pendulum), constraints
      ...     )
      ... )  # [1/kg]
      [[3.424]]
    """
    check_constraints(constraints)
    check_coefficient("damping", damping, constraints.num_rows)
    matrix = _delassus_matrix_with_jvp(articulation, state, constraints.anchors)
    return matrix + jnp.asarray(damping, matrix.dtype) * jnp.eye(len(matrix), dtype=matrix.dtype)


@jax.custom_jvp
def _delassus_matrix_with_jvp(
    articulation: Articulation, state: State, anchors: FramePairs
) -> Array:
    kin = kinematics(articulation, state)
    jacobian = solved_anchor_rows(articulation, state, kin, anchors).jacobian
    half = half_solve(factorize(articulation, kin, many=True), jacobian)
    return matmul(half, half.T)


@_delassus_matrix_with_jvp.defjvp
def _delassus_matrix_jvp(primals, tangents):
    """Differentiates ``J M^-1 J^T`` through implicit solves; the factors of the value are
    constants.
    """

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
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    *,
    damping: float | Array = 0.0,
) -> Array:
    """The inverse of :func:`delassus_matrix`, Pinocchio's ``getOperationalSpaceInertiaMatrix``
    (Khatib 1987).

    Args:
      constraints: R rows, independent unless there is damping.
      damping: added to the diagonal of the Delassus matrix, shape [] or [R].

    Returns:
      Shape [R, R]: the force on each row required for a unit acceleration of the rows
      [kg for linear rows].

    Raises:
      ValueError: ``damping`` is negative.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> end = (0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0)
      >>> tip = artix.Constraint(frame_a="lower", pose_a=end, rows=[0])  # only its x
      >>> constraints = artix.Constraints.of(pendulum, [tip])
      >>> state = artix.neutral_state(pendulum)
      >>> # felt at the tip [kg]
      >>> print(artix.constraints.operational_space_inertia(pendulum, state, constraints))
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
    """Solves ``M x = force + J^T lambda`` under ``J x = target``, as Pinocchio's
    ``constraint_chol.solve``.

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
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )  # the elbow's x
      >>> state = artix.neutral_state(pendulum)
      >>> solved = artix.constraints.constrained_solve(
      ...     pendulum, state, constraints, jnp.ones(2), jnp.zeros(1)
      ... )
      >>> print(solved.solution)  # the shoulder stays
      [0.    2.998]
    """
    check_constraints(constraints)
    check_vector("force", force, (articulation.topology.nv,), articulation.dtype, "nv")
    check_vector("target", target, (constraints.num_rows,), articulation.dtype, "R rows")
    check_proximal(damping, iterations, constraints.num_rows)
    kin = kinematics(articulation, state)
    jacobian = solved_anchor_rows(articulation, state, kin, constraints.anchors).jacobian
    factors = factorize_kkt(articulation, kin, jacobian, constraints.anchors.is_angular, damping)
    return kkt_solve(articulation, kin, jacobian, factors, force, target, iterations)
