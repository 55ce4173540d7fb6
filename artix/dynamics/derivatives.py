"""Closed-form Jacobians of the dynamics in the tangent space of the generalised velocity.

"By the configuration" means along :func:`artix.integrate`: column k is the derivative as the configuration moves with
the k-th unit velocity while the components of the generalised velocity ``nu`` stay constant. For a floating base ``nu``
is in world axes; Pinocchio's free-flyer moves along the base's own axes, and its components stay constant there. With
``nu = T nu_pin`` and ``b = dT/dt nu_pin`` (see the page on conventions), Pinocchio's derivatives follow from these by
the product rule.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.dynamics.forward import factorize, inverse_matrix, linear_solve, solve_acceleration
from artix.dynamics.mass_matrix import generalized_armature, inertia_matrix
from artix.dynamics.newton_euler import force_derivatives, newton_euler
from artix.kinematics.columns import generalized_columns
from artix.kinematics.configuration import generalized_velocity
from artix.kinematics.configuration_derivatives import integrate_derivatives
from artix.kinematics.forward import Kinematics, kinematics
from artix.math.arrays import matmul
from artix.model.articulation import Articulation, State
from artix.model.checks import as_time, check_state, check_vector
from artix.model.states import at_rest

Array = jax.Array


class InverseDynamicsDerivatives(NamedTuple):
    """Derivatives of the generalised forces [N or N m] of inverse dynamics, [nv, nv] each.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, per m/s or rad/s.
      acceleration: the mass matrix, with armature [kg, kg m or kg m^2].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> derivatives = artix.inverse_dynamics_derivatives(pendulum, artix.neutral_state(pendulum), jnp.zeros(2))
      >>> print(derivatives.configuration)  # the stiffness with which gravity holds it down [N m/rad]
      [[19.62   4.905]
       [ 4.905  4.905]]
    """

    configuration: Array
    velocity: Array
    acceleration: Array


class ForwardDynamicsDerivatives(NamedTuple):
    """Derivatives of the generalised acceleration [m/s^2 or rad/s^2] of forward dynamics, [nv, nv] each.

    Attributes:
      configuration: with respect to the configuration along :func:`artix.integrate`, per m or rad.
      velocity: with respect to the generalised velocity, per m/s or rad/s.
      force: the inverse of the mass matrix with armature [1/kg, 1/(kg m) or 1/(kg m^2)].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> derivatives = artix.forward_dynamics_derivatives(pendulum, artix.neutral_state(pendulum), jnp.zeros(2))
      >>> frequencies = jnp.sqrt(jnp.linalg.eigvals(-derivatives.configuration).real)
      >>> print(jnp.sort(frequencies))  # of small swings [rad/s]
      [2.68  7.182]
    """

    configuration: Array
    velocity: Array
    force: Array


@quantity
def inverse_dynamics_derivatives(
    articulation: Articulation, state: State, acceleration: Array, external_force: Array | None = None
) -> InverseDynamicsDerivatives:
    """Derivatives of :func:`artix.inverse_dynamics`, Pinocchio's ``computeRNEADerivatives``.

    Carpentier and Mansard, *Analytical derivatives of rigid body dynamics algorithms*, RSS 2018; Singh, Russell and
    Wensing, *Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra*, RA-L 2022.

    Args:
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      external_force: wrench on each link at its centre of mass, force [N] then torque [N m] in world axes, shape [L,
        6]; held in world axes while the configuration moves.

    Returns:
      The derivatives with respect to the configuration, the velocity and the acceleration, shape [nv, nv] each.
      Columns of the root's position and linear velocity are zero: dynamics do not depend on them.

    Identity: ``.acceleration == mass_matrix(a, s, armature=True)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.inverse_dynamics_derivatives(arm, state, jnp.zeros(7))
      >>> print(derivatives.velocity.shape)
      (7, 7)
      >>> print(jnp.allclose(derivatives.acceleration, artix.mass_matrix(arm, state, armature=True), atol=1e-4))
      True
    """
    kin, by_configuration, by_velocity = _force_derivatives(articulation, state, acceleration, external_force)
    matrix = inertia_matrix(articulation, kin) + jnp.diag(generalized_armature(articulation))
    return InverseDynamicsDerivatives(by_configuration, by_velocity, matrix)


@quantity
def forward_dynamics_derivatives(
    articulation: Articulation, state: State, force: Array, external_force: Array | None = None
) -> ForwardDynamicsDerivatives:
    """Derivatives of :func:`artix.forward_dynamics`, Pinocchio's ``computeABADerivatives``.

    They are ``-M^-1`` times the derivatives of inverse dynamics at the acceleration that the forces cause.

    Args:
      force: generalised forces, shape [nv] [N or N m].
      external_force: wrenches on the links, as in :func:`inverse_dynamics_derivatives`, shape [L, 6].

    Returns:
      The derivatives with respect to the configuration, the velocity and the forces, shape [nv, nv] each.

    Identity: ``.force == mass_matrix_inverse(a, s)``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> derivatives = artix.forward_dynamics_derivatives(arm, state, jnp.zeros(7))
      >>> print(derivatives.configuration.shape)
      (7, 7)
      >>> print(jnp.allclose(derivatives.force, artix.mass_matrix_inverse(arm, state), rtol=1e-2, atol=1e-2))
      True
    """
    acceleration = solve_acceleration(articulation, state, force, external_force, many=True)
    kin, by_configuration, by_velocity = _force_derivatives(articulation, state, acceleration, external_force)
    factors = factorize(articulation, kin, many=True)

    def columns(rights: Array) -> Array:
        return jax.vmap(lambda right: linear_solve(articulation, kin, factors, right), 1, 1)(rights)

    return ForwardDynamicsDerivatives(
        -columns(by_configuration), -columns(by_velocity), inverse_matrix(articulation, kin)
    )


@quantity
def gravity_derivatives(articulation: Articulation, state: State) -> Array:
    """Derivative of :func:`artix.gravity_compensation` with respect to the configuration.

    Pinocchio's ``computeGeneralizedGravityDerivatives``.

    Returns:
      Shape [nv, nv] [N m/rad, N/m]; for revolute and prismatic joints the Hessian of the potential energy.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> hanging = artix.neutral_state(pendulum)
      >>> print(artix.dynamics.gravity_derivatives(pendulum, hanging))
      [[19.62   4.905]
       [ 4.905  4.905]]
    """
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, at_rest(state), None, gravity=True)
    columns = force_derivatives(articulation, kin, rnea, gravity=True).configuration
    return generalized_columns(articulation.topology, columns)


def _force_derivatives(
    articulation: Articulation, state: State, acceleration: Array, external_force: Array | None
) -> tuple[Kinematics, Array, Array]:
    """Solved kinematics, and the derivatives of inverse dynamics, [nv, nv] each."""
    check_state(articulation, state)
    check_vector("acceleration", acceleration, (articulation.topology.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    rnea = newton_euler(articulation, kin, state, acceleration, external_force, gravity=True)
    by = force_derivatives(articulation, kin, rnea, external_force, gravity=True)
    tree = articulation.topology
    return kin, generalized_columns(tree, by.configuration), generalized_columns(tree, by.velocity)


class Linearization(NamedTuple):
    """``x' = A x + B u`` for deviations x of configuration and velocity, [2 nv], and u of the forces, [nv].

    Attributes:
      state_matrix: A, [2 nv, 2 nv].
      input_matrix: B, [2 nv, nv].

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> model = artix.linearize(pendulum, artix.neutral_state(pendulum), jnp.zeros(2), 0.01)
      >>> print(model.state_matrix.shape, model.input_matrix.shape)
      (4, 4) (4, 2)
    """

    state_matrix: Array
    input_matrix: Array


@quantity
def linearize(
    articulation: Articulation,
    state: State,
    force: Array,
    dt: float | Array,
    external_force: Array | None = None,
) -> Linearization:
    """Discrete-time linear dynamics about a state, for LQR and iLQR.

    This is one step of semi-implicit Euler, ``nu' = nu + dt forward_dynamics(force)``, then ``integrate(dt nu')``.
    The deviation of a configuration is its :func:`artix.difference` from the nominal one.

    Args:
      state: the nominal state.
      force: the nominal generalised forces, shape [nv] [N or N m].
      dt: length of the step [s].
      external_force: wrenches on the links, as in :func:`inverse_dynamics_derivatives`, shape [L, 6].

    Returns:
      A, shape [2 nv, 2 nv], and B, shape [2 nv, nv]; deviations in m and rad, then in m/s and rad/s.

    Raises:
      ValueError: ``dt`` is not finite.
      TypeError: ``dt`` is no number.

    Identity: the lower halves are ``[dt configuration, 1 + dt velocity]`` and ``dt force`` with the matrices of
    :func:`forward_dynamics_derivatives`.

    Examples:
      >>> pole = artix.robots.load("cart_pole")
      >>> upright = artix.neutral_state(pole)
      >>> model = artix.linearize(pole, upright, jnp.zeros(2), 0.01)
      >>> growth = jnp.abs(jnp.linalg.eigvals(model.state_matrix)).max()
      >>> print(growth > 1)  # upright, the pole falls
      True
    """
    dt = as_time(articulation, dt, backward=True)
    nv = articulation.topology.nv
    acceleration = solve_acceleration(articulation, state, force, external_force, many=True)
    velocity = generalized_velocity(articulation, state) + dt * acceleration
    by_start, by_displacement = integrate_derivatives(articulation, state, dt * velocity)
    by = forward_dynamics_derivatives(articulation, state, force, external_force)
    lower = jnp.concatenate([dt * by.configuration, jnp.eye(nv, dtype=articulation.dtype) + dt * by.velocity], axis=1)
    upper = dt * matmul(by_displacement, lower) + jnp.pad(by_start, ((0, 0), (0, nv)))
    by_force = dt * by.force
    return Linearization(
        jnp.concatenate([upper, lower]), jnp.concatenate([dt * matmul(by_displacement, by_force), by_force])
    )
