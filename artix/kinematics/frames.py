"""The point and axes in which users receive spatial vectors, Pinocchio's ``ReferenceFrame``.

Internally, spatial vectors are about one reference point and in world axes; this module converts them. ``"local"``
means the frame's own origin and axes (Pinocchio's ``LOCAL``), ``"world_aligned"`` its origin and the world's axes
(``LOCAL_WORLD_ALIGNED``), ``"world"`` the world's origin and axes (``WORLD``).
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from artix.compiler import quantity
from artix.kinematics.forward import (
    Kinematics,
    body_accelerations,
    body_velocities,
    center_velocities,
    dof_motions,
    generalized_motions,
    kinematics,
    link_centers,
    motion_rates,
    root_motion,
    state_velocities,
)
from artix.kinematics.velocities import generalized_velocity
from artix.math import spatial, struct
from artix.math.arrays import matmul, take
from artix.math.spatial import Motion, Transforms
from artix.model.articulation import Articulation, State
from artix.model.checks import check_vector
from artix.model.link_tree import frame_index
from artix.model.topology import Topology
from artix.model.validation import is_index

Array = jax.Array
Axes = Literal["world_aligned", "local", "world"]


def check_axes(axes: str) -> None:
    """Raises ``ValueError`` unless ``axes`` is one of the three."""
    if axes not in ("world_aligned", "local", "world"):
        raise ValueError(f"axes must be 'world_aligned', 'local' or 'world'; found {axes!r}")


def origin(kin: Kinematics, frames: Transforms, axes: Axes) -> Array:
    """The point that ``axes`` refers to, relative to the reference point: [3, k], or [3, 1] if it is common."""
    return -kin.reference[:, None] if axes == "world" else frames.position


def to_axes(frames: Transforms, rows: Array, axes: Axes) -> Array:
    """Rotates spatial vectors [6, n] from world axes to ``axes``, for n frames or one."""
    if axes != "local":
        return rows
    rotation = spatial.rotation_matrix(frames.rotation)
    parts = [spatial.apply_transposed(rotation, rows[:3]), spatial.apply_transposed(rotation, rows[3:])]
    return jnp.concatenate(parts)


def motion_in_axes(kin: Kinematics, frames: Transforms, motion: Motion, axes: Axes) -> Array:
    """Converts motions about the reference point to ``axes``, [6, n]."""
    linear = motion.linear + spatial.cross(motion.angular, origin(kin, frames, axes))
    return to_axes(frames, jnp.concatenate([linear, motion.angular]), axes)


def force_in_axes(kin: Kinematics, frames: Transforms, force: Array, axes: Axes) -> Array:
    """Converts forces (or momenta) [6, n] about the reference point to ``axes``, [6, n]."""
    torque = force[3:] - spatial.cross(origin(kin, frames, axes), force[:3])
    return to_axes(frames, jnp.concatenate([force[:3], torque]), axes)


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


def link_frames(tree: Topology, kin: Kinematics) -> Transforms:
    """Frames of the links relative to the reference point."""
    rotation, quaternion, position = (take(x, tree.link_body) for x in (kin.rotation, kin.quaternion, kin.position))
    local = kin.placements
    return Transforms(
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


@quantity
def joint_placements(articulation: Articulation, state: State) -> Array:
    """Poses of the link frames in the frames of their parent links, Pinocchio's ``liMi``.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.

    Returns:
      Positions [m] and quaternions xyzw, shape [L, 7]; the root's is its pose in the world.

    Raises:
      ValueError: an array of the state has the wrong shape.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: composed along the tree they are ``link_poses(a, s)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> placements = artix.kinematics.joint_placements(pendulum, artix.neutral_state(pendulum))
      >>> print(placements[2, :3])  # the lower rod in the frame of the upper one
      [ 0.  0. -1.]
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    frames = link_frames(tree, kin)
    above = frames.take(np.maximum(tree.parent, 0))
    poses = above.inverse_times(frames).poses()
    root = frames._replace(position=frames.position + kin.reference[:, None]).poses()[:1]
    return jnp.concatenate([root, poses[1:]])


@quantity
def link_frame_velocities(articulation: Articulation, state: State, *, axes: Axes = "world_aligned") -> Array:
    """Velocities of all link frames, Pinocchio's ``v`` (``"local"``) and ``ov`` (``"world"``).

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      axes: ``"local"`` for the velocity of the frame's origin in the frame's axes, ``"world_aligned"`` for the same in
        world axes, ``"world"`` for the spatial velocity about the world's origin.

    Returns:
      Linear [m/s], then angular [rad/s] velocities, shape [L, 6].

    Raises:
      ValueError: an array of the state has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array of the state has another dtype than the articulation.

    Identity: row l is ``frame_velocity(a, s, l, axes=axes)``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(artix.link_frame_velocities(pendulum, swinging)[2, :3])  # the elbow
      [-2.  0.  0.]
      >>> print(artix.link_velocities(pendulum, swinging)[2, :3])  # the centre of mass, half a metre below
      [-3.  0.  0.]
    """
    check_axes(axes)
    tree = articulation.topology
    kin = kinematics(articulation, state)
    velocity = state_velocities(tree, kin, state).take(tree.link_body)
    return motion_in_axes(kin, link_frames(tree, kin), velocity, axes).T


@quantity
def link_frame_accelerations(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> Array:
    """Accelerations of all link frames, Pinocchio's ``a`` (``"local"``) and ``oa`` (``"world"``); without gravity.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2, rad/s^2].
      axes: as in :func:`link_frame_velocities`.
      classical: whether the linear part is the acceleration of the link's material point at the origin of the ``axes``
        (``getClassicalAcceleration``), rather than that of the spatial acceleration, which is smaller by ``omega x v``.

    Returns:
      Linear [m/s^2], then angular [rad/s^2] accelerations, shape [L, 6].

    Raises:
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: spatial accelerations are the rates of change of :func:`link_frame_velocities` in ``"local"`` and
    ``"world"`` axes, classical ones in ``"world_aligned"`` axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> frames = artix.kinematics.link_frame_accelerations(pendulum, turning, jnp.zeros(2), classical=True)
      >>> print(frames[2, :3])  # the elbow
      [0. 0. 4.]
    """
    tree = articulation.topology
    kin = kinematics(articulation, state)
    frames, body = link_frames(tree, kin), tree.link_body
    rows = frame_accelerations(articulation, kin, state, acceleration, frames, body, axes, classical)
    return rows.T


def frame_accelerations(
    articulation: Articulation,
    kin: Kinematics,
    state: State,
    acceleration: Array,
    frames: Transforms,
    body,
    axes: Axes,
    classical: bool,
) -> Array:
    """Accelerations [6, k] of frames on the bodies ``body`` [k]."""
    check_axes(axes)
    tree = articulation.topology
    check_vector("acceleration", acceleration, (tree.nv,), articulation.dtype, "nv")
    # Relative to an inertial frame that moves with the root's centre of mass; classical accelerations are the same.
    velocities, rates = body_accelerations(tree, dof_motions(tree, kin), state, acceleration)
    (v, omega), (a, alpha) = velocities.take(body), rates.take(body)
    point = origin(kin, frames, axes)
    speed = v + spatial.cross(omega, point)
    linear = a + spatial.cross(alpha, point) + spatial.cross(omega, speed)
    if not classical:
        linear = linear - spatial.cross(omega, speed + root_motion(tree, state.root_velocity).linear)
    return to_axes(frames, jnp.concatenate([linear, alpha]), axes)


@quantity
def frame_pose(
    articulation: Articulation, state: State, frame: str | int | Array, offset: Array | None = None
) -> Array:
    """World pose of a link's frame, of an additional frame, or of a pose fixed in one.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or of an additional frame (such as a link that a reader merged into another), or a
        link's index, which may be traced.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.

    Returns:
      Position [m] and quaternion xyzw, shape [7].

    Raises:
      KeyError: no link or frame has this name.
      IndexError: no link has this index; one that is traced is not checked.
      ValueError: an array has the wrong shape.
      TypeError: an array has another dtype than the articulation.

    Source: Pinocchio's ``updateFramePlacement``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> level = artix.neutral_state(pendulum).replace(joint_position=jnp.array([jnp.pi / 2, 0.0]))
      >>> tip = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0])
      >>> print(artix.frame_pose(pendulum, level, "lower", tip)[:3])  # both rods along -x
      [-2.  0.  0.]
    """
    kin = kinematics(articulation, state)
    _, placement = locate_frame(articulation, kin, frame, offset)
    return placement._replace(position=placement.position + kin.reference[:, None]).poses()[0]


@quantity
def frame_velocity(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Velocity of a frame, Pinocchio's ``getFrameVelocity``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: see :func:`frame_jacobian`.

    Returns:
      Linear [m/s], then angular velocity [rad/s], shape [6].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ nu``.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> swinging = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> print(artix.frame_velocity(pendulum, swinging, "lower"))  # the elbow, a metre below the shoulder
      [-2.  0.  0.  0.  2.  0.]
    """
    jacobian = frame_jacobian(articulation, state, frame, offset, axes=axes)
    return matmul(jacobian, generalized_velocity(articulation, state))


@quantity
def frame_jacobian(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Jacobian of the velocity of a frame at any point of any link.

    Args:
      articulation: the articulation.
      state: its state; only the configuration matters.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: ``"world_aligned"`` for the velocity of the point in world axes (Pinocchio's ``LOCAL_WORLD_ALIGNED``),
        ``"local"`` for the same in the frame's own axes, ``"world"`` for the spatial velocity about the world's origin.

    Returns:
      Shape [6, nv], linear rows first [m/s, rad/s per unit of velocity].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ nu`` is the rate of change of the frame's pose.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> tip = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0])  # a metre below the elbow
      >>> jacobian = artix.frame_jacobian(pendulum, artix.neutral_state(pendulum), "lower", tip)
      >>> print(jacobian[0])  # metres along x per radian of the shoulder, of the elbow
      [-2. -1.]
      >>> push = jnp.array([10.0, 0.0, 0.0, 0.0, 0.0, 0.0])
      >>> print(jacobian.T @ push)  # its forces on the joints
      [-20. -10.]
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    point = origin(kin, placement, axes)
    jacobian = point_jacobian(tree, generalized_motions(articulation, kin), point, mask_column(tree, body))[0]
    return to_axes(placement, jacobian, axes)


@quantity
def frame_jacobian_rate(
    articulation: Articulation,
    state: State,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
) -> Array:
    """Rate of change dJ/dt of :func:`frame_jacobian`, Pinocchio's ``getFrameJacobianTimeVariation``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      frame: the name of a link or additional frame, or a link's index; see :func:`frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame whose origin is the point, shape [7]; the frame itself when
        ``None``.
      axes: see :func:`frame_jacobian`.

    Returns:
      Shape [6, nv] [m/s or 1/s], linear rows first.

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: the frame's acceleration is ``J acceleration + dJ/dt nu``.

    Examples:
      >>> arm = artix.robots.load("arm7")
      >>> state, acceleration = artix.random_state(arm, jax.random.key(0)), jnp.ones(7)
      >>> rate = artix.frame_jacobian_rate(arm, state, "tool")
      >>> drift = rate @ artix.generalized_velocity(arm, state)
      >>> felt = artix.frame_jacobian(arm, state, "tool") @ acceleration + drift
      >>> classical = artix.frame_acceleration(arm, state, acceleration, "tool", classical=True)
      >>> print(jnp.allclose(felt, classical, atol=1e-3))
      True
    """
    check_axes(axes)
    kin = kinematics(articulation, state)
    tree = articulation.topology
    body, placement = locate_frame(articulation, kin, frame, offset)
    joints = dof_motions(tree, kin)
    root = root_motion(tree, state.root_velocity)
    # Relative to an inertial frame that moves with the root's centre of mass.
    velocity = body_velocities(tree, joints, Motion(jnp.zeros_like(root.linear), root.angular), state.joint_velocity)
    rates = jnp.concatenate(motion_rates(tree, velocity, joints))
    rates = jnp.concatenate([jnp.zeros((6, tree.num_base_dofs), rates.dtype), rates], axis=1)
    motions = generalized_motions(articulation, kin)
    linear, angular = velocity.take(body)
    mask = mask_column(tree, body)
    if axes == "world":
        point, speed = -kin.reference[:, None], -root.linear
    else:
        point, speed = placement.position, linear + spatial.cross(angular, placement.position)
    rates = rates.at[:3].add(spatial.cross(motions[3:], jnp.broadcast_to(speed, motions[3:].shape)))
    jacobian_rate = point_jacobian(tree, rates, point, mask)[0]
    if axes != "local":
        return jacobian_rate
    jacobian = point_jacobian(tree, motions, point, mask)[0]
    omega = jnp.broadcast_to(angular, (3, tree.nv))
    rotation_of_axes = jnp.concatenate([spatial.cross(omega, jacobian[:3]), spatial.cross(omega, jacobian[3:])])
    return to_axes(placement, jacobian_rate - rotation_of_axes, axes)


@quantity
def frame_acceleration(
    articulation: Articulation,
    state: State,
    acceleration: Array,
    frame: str | int | Array,
    offset: Array | None = None,
    *,
    axes: Axes = "world_aligned",
    classical: bool = False,
) -> Array:
    """Acceleration of one frame, Pinocchio's ``getFrameAcceleration`` and ``getFrameClassicalAcceleration``.

    Args:
      articulation: the articulation.
      state: its configuration and velocity.
      acceleration: generalised acceleration, shape [nv] [m/s^2 or rad/s^2].
      frame: the name of a link or additional frame, or a link's index; see :func:`artix.frame_pose`.
      offset: a pose [m, quaternion xyzw] in that frame, shape [7]; the frame itself when ``None``.
      axes: see :func:`artix.frame_jacobian`.
      classical: see :func:`link_frame_accelerations`.

    Returns:
      Linear [m/s^2], then angular [rad/s^2] acceleration, shape [6].

    Raises:
      KeyError: no link or frame has this name.
      ValueError: an array has the wrong shape, or ``axes`` is not one of the three.
      TypeError: an array has another dtype than the articulation.

    Identity: ``frame_jacobian(...) @ acceleration + frame_jacobian_rate(...) @ nu``, spatial in ``"local"`` and
    ``"world"`` axes, classical in ``"world_aligned"`` axes.

    Examples:
      >>> pendulum = artix.robots.load("double_pendulum")
      >>> turning = artix.neutral_state(pendulum).replace(joint_velocity=jnp.array([2.0, 0.0]))
      >>> spatial = artix.frame_acceleration(pendulum, turning, jnp.zeros(2), "lower")
      >>> classical = artix.frame_acceleration(pendulum, turning, jnp.zeros(2), "lower", classical=True)
      >>> print(spatial[:3], classical[:3])  # that of the elbow itself is (2 rad/s)^2 1 m, up
      [0. 0. 0.] [0. 0. 4.]
    """
    kin = kinematics(articulation, state)
    body, placement = locate_frame(articulation, kin, frame, offset)
    return frame_accelerations(articulation, kin, state, acceleration, placement, body, axes, classical)[:, 0]


# --- internals ------------------------------------------------------------------------------------------------------


def locate_frame(articulation: Articulation, kin: Kinematics, frame, offset: Array | None) -> tuple[Array, Transforms]:
    """The body [1] of a frame and the frame's placement relative to the reference point (1 item)."""
    tree = articulation.topology
    index, local = link_of_frame(articulation, frame)
    placement = link_frames(tree, kin).take(index)
    if local is not None:
        placement = placement @ local
    if offset is not None:
        check_vector("offset", offset, (7,), articulation.dtype, "position, quaternion xyzw")
        placement = placement @ Transforms.from_poses(offset[None])
    return jnp.asarray(tree.link_body)[index], placement


def link_of_frame(articulation: Articulation, frame: str | int | Array) -> tuple[Array, Transforms | None]:
    """The link [1] that a frame is fixed to, and its placement in the link's frame, ``None`` if they coincide."""
    tree = articulation.topology
    if not isinstance(frame, str):
        return _link(tree, frame).reshape(1), None
    link, index = frame_index(tree, frame)
    local = None if index is None else Transforms.from_poses(articulation.frame_local_pose[index : index + 1])
    return jnp.asarray(link).reshape(1), local


def _link(tree: Topology, index: int | Array) -> Array:
    """The index of a link, which is checked where it is not data."""
    if is_index(index):
        if not 0 <= index < tree.num_links:
            raise IndexError(f"frame: there is no link {index}; links are numbered from 0 to {tree.num_links - 1}")
    elif not (hasattr(index, "dtype") and jnp.issubdtype(index.dtype, jnp.integer)):
        raise TypeError(f"frame: expected a name or the index of a link, found {index!r}")
    return jnp.asarray(index)


def mask_column(tree: Topology, body: Array) -> Array:
    """Which DOFs move the bodies with the given indices [m], [n, m]."""
    return take(jnp.asarray(tree.dof_moves_body), body)
