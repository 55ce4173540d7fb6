"""The generalised velocity, and how it differs from the rates of the joint positions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.tree import by_body, spherical_vectors, where_spherical
from artix.math import spatial
from artix.model.articulation import Articulation, State
from artix.model.checks import check_state, check_vector
from artix.model.topology import Topology

Array = jax.Array


@quantity
def generalized_velocity(articulation: Articulation, state: State) -> Array:
    """The velocity ``nu`` of ``M nu' + coriolis + gravity = tau + sum_i J_i^T w_i``, as one vector.

    Generalised forces, rows of matrices and columns of Jacobians are in the same order.

    Returns:
      Shape [nv]: for a floating base the linear velocity of the root's centre of mass [m/s] and the root's angular
      velocity [rad/s] in world axes, then the joint velocities [rad/s or m/s]; for a fixed base only the latter.

    Identity: ``frame_jacobian(a, s) @ generalized_velocity(a, s)`` is ``frame_velocity(a, s)``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> moving = artix.neutral_state(robot).replace(root_velocity=jnp.array([0.5, 0.0, 0.0, 0.0, 0.0, 1.0]))
      >>> print(artix.generalized_velocity(robot, moving)[:7])
      [0.5 0.  0.  0.  0.  1.  0. ]
    """
    check_state(articulation, state)
    if articulation.topology.fixed_base:
        return state.joint_velocity
    return jnp.concatenate([state.root_velocity, state.joint_velocity])


def with_generalized_velocity(articulation: Articulation, state: State, velocity: Array) -> State:
    """The state with another generalised velocity, the inverse of :func:`generalized_velocity`.

    Args:
      state: the state, whose configuration is kept.
      velocity: generalised velocity, shape [nv] [m/s or rad/s].

    Returns:
      The state with this velocity; the root of a fixed base stays at rest.

    Identity: ``generalized_velocity(a, with_generalized_velocity(a, s, nu)) == nu``.

    Examples:
      >>> robot = artix.robots.load("quadruped")
      >>> state = artix.with_generalized_velocity(robot, artix.neutral_state(robot), jnp.arange(18.0))
      >>> print(state.root_velocity, state.joint_velocity[0])
      [0. 1. 2. 3. 4. 5.] 6.0
    """
    check_state(articulation, state)
    tree = articulation.topology
    base = articulation.topology.num_base_dofs
    check_vector("velocity", velocity, (tree.nv,), articulation.dtype, "nv")
    state = state.replace(joint_velocity=velocity[base:])
    return state.replace(root_velocity=velocity[:base]) if base else state


@quantity
def joint_velocity_from_rate(articulation: Articulation, state: State, rate: Array) -> Array:
    """Joint velocities from the rates of change of the joint positions.

    They differ for spherical joints only, whose velocity is the angular velocity in the child joint frame: ``J_r(q)``
    times the rate of the rotation vector, with the right Jacobian J_r of SO(3). With one or two free axes it is the
    inverse of the map of :func:`joint_rate_from_velocity`.

    Args:
      rate: dq/dt, shape [n] [rad/s or m/s].

    Returns:
      Joint velocities, shape [n] [rad/s or m/s].

    Identity: the inverse of :func:`joint_rate_from_velocity`.

    Examples:
      >>> builder = artix.ArticulationBuilder(fixed_base=True)
      >>> root = builder.add_link()
      >>> _ = builder.add_link(root, artix.Joint.spherical(), mass=1.0, inertia=(0.1, 0.1, 0.1))
      >>> ball = builder.build()
      >>> turned = artix.neutral_state(ball).replace(joint_position=jnp.array([0.0, 0.0, jnp.pi / 2]))
      >>> rate = jnp.array([0.0, 0.0, 1.0])
      >>> print(artix.kinematics.joint_velocity_from_rate(ball, turned, rate))  # along its rotation vector: the same
      [0. 0. 1.]
      >>> across = jnp.array([1.0, 0.0, 0.0])
      >>> print(artix.kinematics.joint_velocity_from_rate(ball, turned, across))
      [ 0.637 -0.637  0.   ]
    """
    tree = articulation.topology
    check_vector("rate", rate, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return rate
    inverse = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(spatial.inverse(inverse), by_body(tree, rate)), rate)


@quantity
def joint_rate_from_velocity(articulation: Articulation, state: State, velocity: Array) -> Array:
    """Rates of change of the joint positions, ``J_r(q)^-1`` times the velocity for spherical joints.

    With two free axes, the rate's component along the locked axis is dropped, as PhysX does when it reads a position.

    Args:
      velocity: joint velocities, shape [n] [rad/s or m/s].

    Returns:
      dq/dt, shape [n] [rad/s or m/s].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.neutral_state(arm)
      >>> rate = artix.kinematics.joint_rate_from_velocity(arm, state, jnp.full(7, 0.5))
      >>> print(rate[:2])  # only spherical joints differ
      [0.5 0.5]
    """
    tree = articulation.topology
    check_vector("velocity", velocity, (tree.num_dofs,), articulation.dtype, "n joint DOFs")
    if not tree.has_spherical:
        return velocity
    matrix = rate_matrix(tree, state.joint_position)
    return where_spherical(tree, spatial.apply(matrix, by_body(tree, velocity)), velocity)


def rate_matrix(tree: Topology, q: Array) -> Array:
    """J_r(q)^-1 restricted to the free axes, the identity elsewhere, [3, 3, B-1]."""
    matrix = spatial.inverse(spatial.right_jacobian(spherical_vectors(tree, q)))
    free = tree.body_dofs[:, 1:] < tree.num_dofs
    eye = jnp.broadcast_to(spatial.identity_like(matrix), matrix.shape)
    return jnp.where(free[:, None] & free[None], matrix, eye)
