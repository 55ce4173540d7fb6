"""Poses, velocities, accelerations and Jacobians of all links at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from artix.compiler import quantity
from artix.kinematics.bodies import Placement
from artix.kinematics.solve import (
    Kinematics,
    body_accelerations,
    center_velocities,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    root_motion,
)
from artix.math import spatial, struct
from artix.math.arrays import take
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.topology import Topology

Array = jax.Array


class LinkStates(struct.PyTreeNode):
    """Poses and velocities of all links.

    Attributes:
      pose: world poses of the link frames: position [m], quaternion xyzw, shape [L, 7].
      velocity: velocities of the links' centres of mass [m/s] and angular velocities [rad/s], world axes, shape [L, 6].

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> links = artix.forward_kinematics(arm, artix.neutral_state(arm))
      >>> print(links.pose.shape, links.velocity.shape)
      (9, 7) (9, 6)
    """

    pose: Array
    velocity: Array


@quantity
def forward_kinematics(articulation: Articulation, state: State) -> LinkStates:
    """Poses and velocities of all links in one call, Pinocchio's ``forwardKinematics``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      :func:`link_poses`, of the link frames [m, quaternion xyzw], and :func:`link_velocities`, of the centres of mass
      [m/s, rad/s], in world axes.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> links = artix.forward_kinematics(pendulum, swinging)
      >>> print(links.pose[:, 2])  # heights of the link frames [m]
      [ 0.  0. -1.]
      >>> print(links.velocity[:, 0])  # of the centres of mass along x [m/s]
      [ 0. -1. -3.]
    """
    return LinkStates(link_poses(articulation, state), link_velocities(articulation, state))


@quantity
def link_poses(articulation: Articulation, state: State) -> Array:
    """World poses of the link frames (PhysX's actor frames, URDF's link frames).

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Positions [m] and quaternions xyzw, shape [L, 7]. The quaternions follow the joint positions continuously, so
      their sign is not normalised.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> states = jax.vmap(lambda key: artix.random_state(arm, key))(jax.random.split(jax.random.key(0), 256))
      >>> poses = jax.vmap(artix.link_poses, in_axes=(None, 0))(arm, states)
      >>> print(poses.shape)
      (256, 9, 7)
      >>> print(poses[:, arm.topology.link_index("tool"), 2].max() < 1.3)  # as high as the arm reaches [m]
      True
    """
    kin = kinematics(articulation, state)
    placement = link_frames(articulation.topology, kin)
    poses = placement._replace(position=placement.position + kin.reference[:, None]).poses()
    return poses


@quantity
def link_velocities(articulation: Articulation, state: State) -> Array:
    """Velocities of the links' centres of mass and angular velocities, in world axes (PhysX's ``eLINK_VELOCITY``).

    Args:
      articulation: the articulation.
      state: its configuration and velocity.

    Returns:
      Linear [m/s], then angular [rad/s] velocities, shape [L, 6].

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``dense_jacobian(a, s) @ nu`` (without the root's rows for a fixed base).

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([1.0, 0.0]))
      >>> print(artix.link_velocities(pendulum, swinging)[:, 0])  # along x, of the centres of mass [m/s]
      [ 0.  -0.5 -1.5]
    """
    kin = kinematics(articulation, state)
    tree = articulation.topology
    motions, centers = dof_motions(tree, kin), link_centers(articulation, kin)
    root = root_motion(tree, state.root_velocity)
    return center_velocities(tree, motions, root, state.joint_velocity, centers).T


@quantity
def link_accelerations(articulation: Articulation, state: State, acceleration: Array) -> Array:
    """Classical accelerations of the links' centres of mass and angular accelerations, in world axes.

    Gravity does not appear: these are the rates of change of :func:`link_velocities`.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2, rad/s^2].

    Returns:
      Linear [m/s^2], then angular [rad/s^2] accelerations, shape [L, 6].

    Raises:
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Identity: ``J acceleration + dJ/dt nu`` with J the dense Jacobian.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> state = artix.neutral_state(pendulum)
      >>> print(artix.link_accelerations(pendulum, state, jnp.array([1.0, 0.0]))[:, 0])  # along x [m/s^2]
      [ 0.  -0.5 -1.5]
    """
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    kin = kinematics(articulation, state)
    velocity, rate = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    (v, omega), (a, alpha) = velocity.take(tree.link_body), rate.take(tree.link_body)
    center = link_centers(articulation, kin)
    classical = a + spatial.cross(alpha, center) + spatial.cross(omega, v + spatial.cross(omega, center))
    return jnp.concatenate([classical, alpha]).T


@quantity
def dense_jacobian(articulation: Articulation, state: State) -> Array:
    """Jacobian of all link velocities, PhysX's ``computeDenseJacobian``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Shape [6 L', nv] [m or 1], with L' = L for a floating base and L' = L - 1 for a fixed base, which has no root
      rows. The six rows per link are the linear velocity of its centre of mass and its angular velocity, both in world
      axes.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: ``dense_jacobian(a, s) @ nu == link_velocities(a, s)`` stacked.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state = artix.random_state(arm, jax.random.key(0))
      >>> jacobian = artix.dense_jacobian(arm, state)
      >>> velocities = (jacobian @ artix.generalized_velocity(arm, state)).reshape(8, 6)
      >>> print(jacobian.shape, jnp.allclose(velocities, artix.link_velocities(arm, state)[1:], atol=1e-5))
      (48, 7) True
    """
    tree, kin = articulation.topology, kinematics(articulation, state)
    motions, centers = generalized_motions(articulation, kin), link_centers(articulation, kin)
    first = 0 if tree.num_base_dofs else 1
    jacobian = point_jacobian(tree, motions, centers[:, first:], tree.dof_moves_link[:, first:])
    return jacobian.reshape(6 * (tree.num_links - first), tree.nv)


# --- internals ------------------------------------------------------------------------------------------------------


def link_frames(tree: Topology, kin: Kinematics) -> Placement:
    """Frames of the links relative to the reference point."""
    rotation, quaternion, position = (take(x, tree.link_body) for x in (kin.rotation, kin.quaternion, kin.position))
    local = kin.placements
    return Placement(
        spatial.quaternion_product(quaternion, local.rotation), position + spatial.apply(rotation, local.position)
    )


def point_jacobian(tree: Topology, motions: Array, points: Array, mask) -> Array:
    """Jacobians of points [3, m]: [m, 6, nv].

    Args:
      tree: the tree.
      motions: unit motions of the generalised velocity about the reference point, [6, nv].
      points: positions relative to the reference point.
      mask: which DOFs move which point, [n, m]; the root moves all of them.
    """
    moved = jnp.asarray(mask, points.dtype).T
    if tree.num_base_dofs:
        moved = jnp.concatenate([jnp.ones((len(moved), tree.num_base_dofs), moved.dtype), moved], axis=1)
    angular = motions[3:, None]
    linear = motions[:3, None] + spatial.cross(angular, points[..., None])
    return jnp.moveaxis(jnp.concatenate([linear, jnp.broadcast_to(angular, linear.shape)]) * moved[None], 0, 1)
