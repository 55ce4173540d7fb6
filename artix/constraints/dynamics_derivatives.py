"""Closed-form derivatives of constrained forward dynamics, of impacts, and of the rows of
constraints.

How unit displacements and unit velocities move the two frames of each anchor is known in closed
form, as for links. The rows are a small function of that motion, and its ``jvp`` along these
columns gives their derivatives. The accelerations and forces follow from the equation that they
solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.constraints.dynamics import constrained_forward_dynamics, impulse_dynamics
from artix.constraints.frame_pairs import (
    AnchorColumns,
    FramePairs,
    Side,
    anchor_jacobian,
    anchor_sides,
    anchor_wrenches,
    moved_sides,
    relative_motion,
)
from artix.constraints.model import Constraints, check_constraints
from artix.constraints.operators import (
    DEFAULT_ITERATIONS,
    factorize_damped,
    proximal_iterations,
    stabilized_bias,
)
from artix.dynamics.derivatives import ForwardDynamicsDerivatives
from artix.dynamics.forward import inverse_matrix
from artix.dynamics.newton_euler import force_derivatives, newton_euler
from artix.kinematics.columns import NUM_ROOT, displacements, generalized_columns
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    dof_motions,
    generalized_motions,
    kinematics,
    root_motion,
)
from artix.kinematics.frame_derivatives import (
    PointMotions,
    acceleration_changes,
    acceleration_changes_by_velocity,
    moved_points,
    moving_displacements,
    velocity_changes,
)
from artix.math import spatial
from artix.math.arrays import matmul
from artix.math.spatial import Motion, Transforms
from artix.math.tangents import value_and_change
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.states import at_rest

Array = jax.Array


class ConstraintDerivatives(NamedTuple):
    """Derivatives of the rows of constraints, [R, nv] each.

    Attributes:
      error_by_configuration: of the error.
      velocity_by_configuration: of ``J nu``, Pinocchio's ``dvc_dq``.
      acceleration_by_configuration: of ``J nu' + constraint_bias``, including Baumgarte's terms,
        Pinocchio's ``dac_dq``.
      acceleration_by_velocity: of ``J nu' + constraint_bias`` with respect to the velocity,
        ``dac_dv``.
      jacobian: of the same with respect to the generalised acceleration, ``dac_da``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> constraints = artix.Constraints.of(arm, [artix.Constraint(frame_a="tool")])
      >>> state = artix.neutral_state(arm)
      >>> derivatives = artix.constraints.constraint_derivatives(
      ...     arm, state, jnp.zeros(7), constraints
      ... )
      >>> print(derivatives.acceleration_by_velocity.shape)
      (3, 7)
    """

    error_by_configuration: Array
    velocity_by_configuration: Array
    acceleration_by_configuration: Array
    acceleration_by_velocity: Array
    jacobian: Array


@quantity
def constraint_derivatives(
    articulation: Articulation, state: State, acceleration: Array, constraints: Constraints
) -> ConstraintDerivatives:
    """Derivatives of errors, velocities and accelerations of constraints in the tangent space of
    ``nu``.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      constraints: R rows.

    Returns:
      The derivatives; with respect to the configuration they are along :func:`artix.integrate`.

    Source: the members ``dvc_dq``, ``dac_dq`` and ``dac_dv`` of Pinocchio's ``Data``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> constraints = artix.Constraints.of(
      ...     arm, [artix.Constraint(frame_a="tool", axes="world_aligned")]
      ... )
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.constraints.constraint_derivatives(
      ...     arm, state, jnp.zeros(7), constraints
      ... )
      >>> jacobian = artix.constraints.constraint_jacobian(arm, state, constraints)
      >>> print(jnp.allclose(derivatives.error_by_configuration, jacobian, atol=1e-5))
      True
    """
    check_constraints(constraints)
    check_vector(
        "acceleration", acceleration, (articulation.topology.nv,), articulation.dtype, "nv"
    )
    kin = kinematics(articulation, state)
    moving = moving_sides(articulation, state, kin, constraints.anchors, acceleration)
    return row_derivatives(articulation, kin, constraints, moving)


class MovingSides(NamedTuple):
    """Frames a and b of all anchors, and their changes, with an additional last axis [C].

    The changes are tangents of the sides, ``None`` where they are zero. Unlike the sides, they are
    relative to a fixed point; that is valid because the rows depend on the relative motion of the
    two frames only.
    """

    columns: AnchorColumns
    translations: Array | None
    """Displacements of the root's centre of mass by unit displacements, [3, K, C]; ``None`` if it
    is fixed."""
    sides: tuple[Side, Side]
    by_configuration: tuple[Any, Any]
    by_velocity: tuple[Any, Any]


def moving_sides(
    articulation: Articulation,
    state: State,
    kin: Kinematics,
    anchors: FramePairs,
    acceleration: Array | None,
) -> MovingSides:
    """The frames and their derivatives; an acceleration of ``None`` is zero."""
    tree = articulation.topology
    sides = anchor_sides(articulation, state, kin, anchors, acceleration)
    joints = dof_motions(tree, kin)
    bodies = body_accelerations(tree, joints, state, acceleration)
    columns = AnchorColumns.of(articulation, anchors)
    displaced = [
        Motion(*(columns.gather(generalized_columns(tree, part)) for part in motion))
        for motion in moving_displacements(articulation, kin, joints, *bodies)
    ]
    translations = None
    if tree.num_base_dofs:
        unit = jnp.eye(3, dtype=kin.position.dtype)[:, None]
        translations = columns.gather(jnp.pad(unit, ((0, 0), (0, 0), (0, tree.nv - 3))))
    root = root_motion(tree, state.root_velocity).linear
    changes = [
        _side_derivatives(side, columns.gather(moved), root, translations, displaced)
        if (links >= 0).any()
        else (_RESTING, _RESTING)
        for side, moved, links in zip(
            sides, moved_sides(articulation, anchors), anchors.links, strict=True
        )
    ]
    return MovingSides(
        columns, translations, sides, (changes[0][0], changes[1][0]), (changes[0][1], changes[1][1])
    )


def row_derivatives(
    articulation: Articulation, kin: Kinematics, constraints: Constraints, moving: MovingSides
) -> ConstraintDerivatives:
    """The derivatives of rows whose frames' derivatives are known."""

    def rows(a: Side, b: Side) -> tuple[Array, Array, Array]:
        error, velocity, acceleration = relative_motion(constraints.anchors, a, b)
        return error, velocity, stabilized_bias(constraints, error, velocity, acceleration)

    by_configuration = _along_columns(rows, moving.sides, moving.by_configuration)
    _, _, by_velocity = _along_columns(rows, moving.sides, moving.by_velocity)
    anchors = constraints.anchors
    parts = (*by_configuration, by_velocity)
    error, velocity, *acceleration = (
        moving.columns.spread(part, anchors.row_anchor) for part in parts
    )
    jacobian = anchor_jacobian(articulation, kin, anchors, *moving.sides)
    return ConstraintDerivatives(error, velocity, acceleration[0], acceleration[1], jacobian)


def constraint_force_derivative(
    articulation: Articulation,
    kin: Kinematics,
    anchors: FramePairs,
    moving: MovingSides,
    force: Array,
) -> Array:
    """Derivative of ``J^T force`` with respect to the configuration, at constant forces [R], shape
    [nv, nv].
    """
    tree = articulation.topology
    motions = generalized_motions(articulation, kin)
    wrenches = anchor_wrenches(anchors, *moving.sides, force)
    first, second = (_about_root(change, moving.translations) for change in moving.by_configuration)
    changes = _along_columns(
        lambda a, b: anchor_wrenches(anchors, a, b, force), moving.sides, (first, second)
    )
    derivative = jnp.zeros((tree.nv, tree.nv), motions.dtype)
    loads = jnp.zeros_like(motions)
    for wrench, change, moved in zip(
        wrenches, changes, moved_sides(articulation, anchors), strict=True
    ):
        loads = loads + matmul(wrench, moved)
        moving_motions = moved.T[None] * motions[..., None]
        change = moving.columns.spread(change, np.arange(len(anchors.structure)))
        derivative = derivative + sum(matmul(moving_motions[k], change[k]) for k in range(6))
    # A displacement also moves DOFs: S_j changes by S_c x S_j, whose power on a load is S_c . (S_j
    # x* load).
    base = tree.num_base_dofs
    linear, angular = motions[:3], motions[3:]
    load, torque = loads[:3], loads[3:]
    crossed = [
        spatial.cross(angular, load),
        spatial.cross(linear, load) + spatial.cross(angular, torque),
    ]
    carried = jnp.asarray(displacements(tree).carries_dof, motions.dtype)[
        :, : NUM_ROOT + tree.num_dofs
    ]
    carried = generalized_columns(tree, carried)
    return derivative + jnp.pad(carried, ((base, 0), (0, 0))) * matmul(
        jnp.concatenate(crossed).T, motions
    )


# --- internals ----------------------------------------------------------------------------------


def _tangent(rotation: Any, position: Any, *motion: Any) -> Any:
    """The tangent of a :class:`Side`."""
    return Side(Transforms(rotation, position), *motion)


_RESTING = _tangent(None, None, None, None, None, None)


def _about_root(change: Any, translations: Array | None) -> Any:
    """A change of a side relative to the root's centre of mass, which moves as well."""
    if translations is None:
        return change
    rotation, position = change.placement
    position = -translations if position is None else position - translations
    return change._replace(placement=Transforms(rotation, position))


def _along_columns(
    function: Callable[..., Any], sides: tuple[Side, Side], columns: tuple[Any, Any]
) -> Any:
    """Derivatives of a function of two sides along each of the columns, on the last axis of the
    result.
    """

    def along(column):
        return value_and_change(lambda both: function(*both), sides, column)[1]

    return jax.vmap(along, in_axes=-1, out_axes=-1)(columns)


def _side_derivatives(
    side: Side, moved: Array, root: Array, translations: Array | None, columns: list[Motion]
) -> tuple[Side, Side]:
    """Derivatives of a side with respect to the configuration and the velocity, as of the links'
    accelerations.

    Args:
      side: the frames.
      moved: which entries of the generalised velocity move them, [K, C].
      root: velocity of the root's centre of mass, [3, 1]; the formulas hold in the inertial frame
        that moves with it.
      translations: how the entries displace the root's centre of mass, [3, K, C], if they do.
      columns: see :func:`artix.kinematics.frame_derivatives.moving_displacements`, [3, K, C].
    """
    rotation, position = side.placement
    motions, first, second, rate = columns
    parts = (
        position,
        side.velocity - root,
        side.angular,
        side.acceleration,
        side.angular_acceleration,
    )
    point, velocity, omega, linear, alpha = (part[..., None] for part in parts)
    points = PointMotions(
        motions, first, second, rate, point, velocity, omega, linear, alpha, moved
    )
    placed = moved_points(points) * moved
    displaced, rotated = placed[:3], placed[3:]
    if translations is not None:
        displaced = displaced + translations * moved
    vector = rotation[:3, :, None]
    scalar = rotation[3:, :, None]
    d_rotation = 0.5 * jnp.concatenate(
        [scalar * rotated + spatial.cross(rotated, vector), -spatial.dot(rotated, vector)[None]]
    )
    moving = moved * velocity_changes(points)
    accelerated = moved * acceleration_changes(points)
    by_velocity = moved * acceleration_changes_by_velocity(points)
    return (
        _tangent(d_rotation, displaced, moving[:3], moving[3:], accelerated[:3], accelerated[3:]),
        _tangent(None, None, displaced, rotated, by_velocity[:3], by_velocity[3:]),
    )


class ConstrainedForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of :func:`artix.constrained_forward_dynamics`.

    Attributes:
      acceleration: of the generalised acceleration with respect to configuration, velocity and
        force, [nv, nv] each; Pinocchio's ``ddq_dq``, ``ddq_dv``, ``ddq_dtau``.
      constraint_force: of the forces on the rows, [R, nv] each; ``dlambda_dq``, ``dlambda_dv``,
        ``dlambda_dtau``.
      constraint: of the rows themselves at constant acceleration.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )  # the elbow
      >>> state = artix.neutral_state(pendulum)
      >>> force, derivatives_of = (
      ...     jnp.zeros(2),
      ...     artix.constraints.constrained_forward_dynamics_derivatives,
      ... )
      >>> derivatives = derivatives_of(pendulum, state, force, constraints)
      >>> print(derivatives.acceleration.force.shape, derivatives.constraint_force.force.shape)
      (2, 2) (1, 2)
    """

    acceleration: ForwardDynamicsDerivatives
    constraint_force: ForwardDynamicsDerivatives
    constraint: ConstraintDerivatives


class ImpactDerivatives(NamedTuple):
    """Derivatives of :func:`artix.impulse_dynamics`; Pinocchio's ``ddq_dv`` is
    ``velocity_by_velocity - 1``.

    Attributes:
      velocity_by_configuration: of the velocity after the impact, [nv, nv], along
        :func:`artix.integrate`.
      velocity_by_velocity: of the velocity after the impact by the one before, [nv, nv].
      impulse_by_configuration: of the impulses [N s and N m s], [R, nv].
      impulse_by_velocity: of the impulses with respect to the velocity before the impact, [R, nv].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )
      >>> state = artix.neutral_state(pendulum)
      >>> derivatives = artix.constraints.impulse_dynamics_derivatives(pendulum, state, constraints)
      >>> # afterwards the shoulder is at rest, whatever it did before
      >>> print(derivatives.velocity_by_velocity)
      [[0.    0.   ]
       [2.499 1.   ]]
    """

    velocity_by_configuration: Array
    velocity_by_velocity: Array
    impulse_by_configuration: Array
    impulse_by_velocity: Array


@quantity
def constrained_forward_dynamics_derivatives(
    articulation: Articulation,
    state: State,
    force: Array,
    constraints: Constraints,
    external_force: Array | None = None,
    *,
    damping: float | Array | None = None,
    iterations: int = DEFAULT_ITERATIONS,
) -> ConstrainedForwardDynamicsDerivatives:
    """Derivatives of :func:`artix.constrained_forward_dynamics`.

    Pinocchio's ``computeConstraintDynamicsDerivatives``: Carpentier, Budhiraja and Mansard,
    *Proximal and sparse resolution of constrained dynamic equations*, RSS 2021.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      constraints: R rows.
      external_force: wrenches on the links [N, N m], held in world axes, shape [L, 6].
      damping: as in :func:`constrained_forward_dynamics`, which also explains the derivatives of
        redundant rows.
      iterations: number of proximal iterations, at least 1.

    Returns:
      The derivatives with respect to the configuration (along :func:`artix.integrate`), the
      velocity and the forces.

    Raises:
      ValueError: ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )  # the elbow
      >>> state = artix.neutral_state(pendulum)
      >>> force, derivatives_of = (
      ...     jnp.zeros(2),
      ...     artix.constraints.constrained_forward_dynamics_derivatives,
      ... )
      >>> derivatives = derivatives_of(pendulum, state, force, constraints)
      >>> print(derivatives.acceleration.force)  # only the lower rod still moves
      [[ 0.     0.   ]
       [ 0.     2.998]]
    """
    acceleration, constraint_force, _ = constrained_forward_dynamics(
        articulation,
        state,
        force,
        constraints,
        external_force,
        damping=damping,
        iterations=iterations,
    )
    tree = articulation.topology
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    by = force_derivatives(articulation, kin, rnea, external_force, gravity=True)
    moving = moving_sides(articulation, state, kin, constraints.anchors, acceleration)
    rows = row_derivatives(articulation, kin, constraints, moving)
    by_rows = constraint_force_derivative(
        articulation, kin, constraints.anchors, moving, constraint_force
    )
    operators = _solution_operators(
        articulation, kin, rows.jacobian, constraints.anchors.is_angular, damping, iterations
    )
    forces = (
        by_rows - generalized_columns(tree, by.configuration),
        -generalized_columns(tree, by.velocity),
    )
    targets = -rows.acceleration_by_configuration, -rows.acceleration_by_velocity
    solutions = [operators.solve(*right) for right in zip(forces, targets, strict=True)]
    x, multipliers = zip(*solutions, (operators.free, -operators.held), strict=True)
    return ConstrainedForwardDynamicsDerivatives(
        ForwardDynamicsDerivatives(*x), ForwardDynamicsDerivatives(*multipliers), rows
    )


@quantity
def impulse_dynamics_derivatives(
    articulation: Articulation,
    state: State,
    constraints: Constraints,
    restitution: float | Array = 0.0,
    *,
    damping: float | Array | None = None,
    iterations: int = DEFAULT_ITERATIONS,
) -> ImpactDerivatives:
    """Derivatives of :func:`artix.impulse_dynamics`, Pinocchio's
    ``computeImpulseDynamicsDerivatives``.

    Args:
      state: its configuration and the velocity before the impact.
      constraints: R rows.
      restitution: coefficient of restitution, between 0 and 1, shape [].
      damping: as in :func:`constrained_forward_dynamics`.
      iterations: number of proximal iterations, at least 1.

    Returns:
      The derivatives with respect to the configuration (along :func:`artix.integrate`) and the
      velocity before the impact.

    Raises:
      ValueError: ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(
      ...     pendulum, [artix.Constraint(frame_a="lower", rows=[0])]
      ... )
      >>> state = artix.neutral_state(pendulum)
      >>> derivatives = artix.constraints.impulse_dynamics_derivatives(
      ...     pendulum, state, constraints, 1.0
      ... )  # elastic
      >>> print(derivatives.velocity_by_velocity[0])  # the shoulder turns back
      [-1.  0.]
    """
    check_constraints(constraints)
    tree = articulation.topology
    base = articulation.topology.num_base_dofs
    # The impact satisfies ``M jump == J^T impulse`` and ``J (jump + bounce nu) == 0``.
    impact = impulse_dynamics(
        articulation, state, constraints, restitution, damping=damping, iterations=iterations
    )
    bounce = 1 + jnp.asarray(restitution, articulation.dtype)
    before = generalized_velocity(articulation, state)
    jump = impact.velocity - before
    kin = kinematics(articulation, state)
    rest = at_rest(state)
    rnea = newton_euler(articulation, kin, rest, jump, gravity=False)
    by = force_derivatives(articulation, kin, rnea, gravity=False)
    constrained = jump + bounce * before
    root = constrained[:6] if base else rest.root_velocity
    state = rest.replace(root_velocity=root, joint_velocity=constrained[base:])
    moving = moving_sides(articulation, state, kin, constraints.anchors, None)
    rows = row_derivatives(articulation, kin, constraints, moving)
    by_rows = constraint_force_derivative(
        articulation, kin, constraints.anchors, moving, impact.impulse
    )
    operators = _solution_operators(
        articulation, kin, rows.jacobian, constraints.anchors.is_angular, damping, iterations
    )
    force = by_rows - generalized_columns(tree, by.configuration)
    x, impulse = operators.solve(force, -rows.velocity_by_configuration)
    target = bounce * rows.jacobian
    unit = jnp.eye(tree.nv, dtype=before.dtype)
    return ImpactDerivatives(
        x, unit - matmul(operators.held.T, target), impulse, -matmul(operators.stiffness, target)
    )


class _Operators(NamedTuple):
    """Solutions of the KKT system as matrices, for any number of right-hand sides."""

    free: Array
    """Maps the force to x, [nv, nv]: the inverse mass matrix of the motions that the rows leave
    free."""
    held: Array
    """Maps the force to the negated multipliers; its transpose maps the target to x, [R, nv]."""
    stiffness: Array
    """Maps the target to the multipliers, [R, R]."""

    def solve(self, force: Array, target: Array) -> tuple[Array, Array]:
        """Solutions [nv, m] and multipliers [R, m] of right-hand sides [nv, m] and [R, m]."""
        x = matmul(self.free, force) + matmul(self.held.T, target)
        return x, matmul(self.stiffness, target) - matmul(self.held, force)


def _solution_operators(
    articulation: Articulation,
    kin: Kinematics,
    jacobian: Array,
    is_angular: np.ndarray,
    damping: float | Array | None,
    iterations: int,
) -> _Operators:
    inverse = inverse_matrix(articulation, kin)
    response = matmul(jacobian, inverse)
    delassus = matmul(response, jacobian.T)
    unit = jnp.eye(len(jacobian), dtype=inverse.dtype)
    stiffness = proximal_iterations(
        delassus, factorize_damped(delassus, is_angular, damping), unit, iterations
    )
    held = matmul(stiffness, response)
    return _Operators(inverse - matmul(response.T, held), held, stiffness)
