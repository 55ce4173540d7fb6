"""Closed-form derivatives of constrained forward dynamics and of impacts."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.constraints.dynamics import constrained_forward_dynamics, impulse_dynamics
from artix.constraints.kkt import DEFAULT_ITERATIONS, factorize_damped, proximal_iterations
from artix.constraints.model import Constraints
from artix.constraints.row_derivatives import (
    ConstraintDerivatives,
    constraint_force_derivative,
    moving_sides,
    row_derivatives,
)
from artix.dynamics.derivatives import ForwardDynamicsDerivatives
from artix.dynamics.force_derivatives import force_derivatives
from artix.dynamics.newton_euler import newton_euler
from artix.dynamics.solve import inverse_matrix
from artix.kinematics.displacements import generalized_columns
from artix.kinematics.solve import Kinematics, kinematics
from artix.kinematics.velocities import generalized_velocity
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.states import at_rest

Array = jax.Array


class ConstrainedForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of :func:`artix.constrained_forward_dynamics`.

    Attributes:
      acceleration: those of the generalised acceleration by configuration, velocity and force, [nv, nv] each;
        Pinocchio's ``ddq_dq``, ``ddq_dv``, ``ddq_dtau``.
      constraint_force: those of the forces on the rows, [R, nv] each; ``dlambda_dq``, ``dlambda_dv``,
        ``dlambda_dtau``.
      constraint: those of the rows themselves at constant acceleration.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])  # the elbow
      >>> state = artix.neutral_state(pendulum)
      >>> force, derivatives_of = jnp.zeros(2), artix.constraints.constrained_forward_dynamics_derivatives
      >>> derivatives = derivatives_of(pendulum, state, force, constraints)
      >>> print(derivatives.acceleration.force.shape, derivatives.constraint_force.force.shape)
      (2, 2) (1, 2)
    """

    acceleration: ForwardDynamicsDerivatives
    constraint_force: ForwardDynamicsDerivatives
    constraint: ConstraintDerivatives


class ImpactDerivatives(NamedTuple):
    """Derivatives of :func:`artix.impulse_dynamics`; Pinocchio's ``ddq_dv`` is ``velocity_by_velocity - 1``.

    Attributes:
      velocity_by_configuration: of the velocity after the impact, [nv, nv], along :func:`artix.integrate`.
      velocity_by_velocity: of the velocity after the impact by the one before, [nv, nv].
      impulse_by_configuration: of the impulses [N s and N m s], [R, nv].
      impulse_by_velocity: of the impulses by the velocity before the impact, [R, nv].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])
      >>> state = artix.neutral_state(pendulum)
      >>> derivatives = artix.constraints.impulse_dynamics_derivatives(pendulum, state, constraints)
      >>> print(derivatives.velocity_by_velocity)  # afterwards the shoulder is at rest, whatever it did before
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

    Pinocchio's ``computeConstraintDynamicsDerivatives``: Carpentier, Budhiraja and Mansard, *Proximal and sparse
    resolution of constrained dynamic equations*, RSS 2021.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      force: generalised forces, shape [nv] [N or N m].
      constraints: R rows.
      external_force: wrenches on the links [N, N m], held in world axes, shape [L, 6].
      damping: as in :func:`constrained_forward_dynamics`, which also explains the derivatives of redundant rows.
      iterations: number of proximal iterations, at least 1.

    Returns:
      The derivatives by the configuration (along :func:`artix.integrate`), the velocity and the forces.

    Raises:
      ValueError: an array has the wrong shape, ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: an array has another dtype than the articulation, or ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])  # the elbow
      >>> state = artix.neutral_state(pendulum)
      >>> force, derivatives_of = jnp.zeros(2), artix.constraints.constrained_forward_dynamics_derivatives
      >>> derivatives = derivatives_of(pendulum, state, force, constraints)
      >>> print(derivatives.acceleration.force)  # only the lower rod still moves
      [[ 0.     0.   ]
       [ 0.     2.998]]
    """
    acceleration, constraint_force, _ = constrained_forward_dynamics(
        articulation, state, force, constraints, external_force, damping=damping, iterations=iterations
    )
    tree, kin = articulation.topology, kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    by = force_derivatives(articulation, kin, rnea, external_force, gravity=True)
    moving = moving_sides(articulation, state, kin, constraints.anchors, acceleration)
    rows = row_derivatives(articulation, kin, constraints, moving)
    by_rows = constraint_force_derivative(articulation, kin, constraints.anchors, moving, constraint_force)
    operators = _solution_operators(
        articulation, kin, rows.jacobian, constraints.anchors.is_angular, damping, iterations
    )
    forces = by_rows - generalized_columns(tree, by.configuration), -generalized_columns(tree, by.velocity)
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
    """Derivatives of :func:`artix.impulse_dynamics`, Pinocchio's ``computeImpulseDynamicsDerivatives``.

    Args:
      articulation: the articulation.
      state: its configuration and the velocity before the impact.
      constraints: R rows.
      restitution: coefficient of restitution, between 0 and 1, shape [].
      damping: as in :func:`constrained_forward_dynamics`.
      iterations: number of proximal iterations, at least 1.

    Returns:
      The derivatives by the configuration (along :func:`artix.integrate`) and by the velocity before the impact.

    Raises:
      ValueError: an array has the wrong shape, ``iterations`` is less than 1, or a coefficient is negative.
      TypeError: an array has another dtype than the articulation, or ``iterations`` is traced.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> constraints = artix.Constraints.of(pendulum, [artix.Constraint(frame_a="lower", rows=[0])])
      >>> state = artix.neutral_state(pendulum)
      >>> derivatives = artix.constraints.impulse_dynamics_derivatives(pendulum, state, constraints, 1.0)  # elastic
      >>> print(derivatives.velocity_by_velocity[0])  # the shoulder turns back
      [-1.  0.]
    """
    tree, base = articulation.topology, articulation.topology.num_base_dofs
    # The impact satisfies ``M jump == J^T impulse`` and ``J (jump + bounce nu) == 0``.
    impact = impulse_dynamics(articulation, state, constraints, restitution, damping=damping, iterations=iterations)
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
    by_rows = constraint_force_derivative(articulation, kin, constraints.anchors, moving, impact.impulse)
    operators = _solution_operators(
        articulation, kin, rows.jacobian, constraints.anchors.is_angular, damping, iterations
    )
    force = by_rows - generalized_columns(tree, by.configuration)
    x, impulse = operators.solve(force, -rows.velocity_by_configuration)
    target = bounce * rows.jacobian
    unit = jnp.eye(tree.nv, dtype=before.dtype)
    return ImpactDerivatives(x, unit - matmul(operators.held.T, target), impulse, -matmul(operators.stiffness, target))


class _Operators(NamedTuple):
    """Solutions of the equations of :mod:`artix.constraints.kkt` as matrices, for any number of right-hand sides."""

    free: Array
    """Maps the force to x, [nv, nv]: the inverse mass matrix of the motions that the rows leave free."""
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
    stiffness = proximal_iterations(delassus, factorize_damped(delassus, is_angular, damping), unit, iterations)
    held = matmul(stiffness, response)
    return _Operators(inverse - matmul(response.T, held), held, stiffness)
